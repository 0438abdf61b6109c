"""Size of the installation for inference only and for everything, and what works with the former.

    python benchmarks/install.py [PIP OPTIONS]     a few minutes; writes benchmarks/INSTALL.md

Builds the wheel and installs it into empty environments, with the versions of constraints.txt. In
the one without extras, `zoo list`, `info`, `translate`, `attention` and `pull` must work. Further
options go to pip, for instance another index.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
RESULTS = TOP / "benchmarks" / "INSTALL.md"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
CASES = {
    "inference": "",
    "with training and scores": "[train]",
    "with the server": "[train,serve]",
    "with everything": "[all]",
}
NAME = "transformer-tiny.numbers-en-fr"
COMMANDS = [
    ["list"],
    ["info", NAME],
    ["translate", NAME, "twenty-one"],
    ["attention", NAME, "twenty-one"],
    ["attention", NAME, "twenty-one", "--out", "attention.html"],
    ["pull", "file://CHECKPOINT"],
]


def megabytes(folder: Path) -> float:
    """Return the size of the files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def build(top: Path, out: Path) -> Path:
    """Build the wheel of a tree and return its file."""
    command = [*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out)]
    subprocess.run([*command, str(top)], check=True, capture_output=True)
    (wheel,) = out.glob("*.whl")
    return wheel


def install(folder: Path, wheel: Path, constraints: Path, options: list[str]) -> dict[str, float]:
    """Install into an empty environment; return the packages and the megabytes without torch."""
    venv.create(folder, symlinks=True)
    command = [*PIP, "--python", str(folder / "bin" / "python"), "install", "--no-compile"]
    subprocess.run([*command, "--constraint", str(constraints), *options, str(wheel)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    torch = megabytes(site / "torch")
    packages = len([*site.glob("*.dist-info")])
    return {"packages": packages, "torch": torch, "others": megabytes(site) - torch}


def check(folder: Path) -> None:
    """Run the commands of inference in an environment."""
    site = next(folder.glob("lib/python*/site-packages"))
    for words in COMMANDS:
        checkpoint = str(site / "zoo" / "cards" / "checkpoints" / NAME)
        arguments = [word.replace("CHECKPOINT", checkpoint) for word in words]
        command = [str(folder / "bin" / "zoo"), *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        print(f"zoo {' '.join(words)}: {'works' if done.returncode == 0 else done.stderr}")
        if done.returncode:
            raise SystemExit(1)


def main() -> None:
    """Measure every case and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    _, options = parser.parse_known_args()
    rows = {}
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        wheel = build(TOP, top)
        for case, extras in CASES.items():
            folder = top / "environment"
            package = wheel.with_name(wheel.name + extras)
            rows[case] = install(folder, package, TOP / "constraints.txt", options)
            print(json.dumps({case: rows[case]}), flush=True)
            if not extras:
                check(folder)
            subprocess.run(["rm", "-rf", str(folder)], check=True)
    lines = [
        f"| {case} | `seq2seq-zoo{CASES[case]}` | {row['packages']} | {row['others']:.0f} MB |"
        for case, row in rows.items()
    ]
    torch = rows["inference"]["torch"]
    RESULTS.write_text(
        "# Size of the installation\n\nWritten by `python benchmarks/install.py`, with the "
        "versions of `constraints.txt`, without compiled\nbytecode. torch itself has "
        f"{torch:.0f} MB in this build for processors.\n\n"
        "| | package | packages | size without torch |\n|---|---|--:|--:|\n"
        + "\n".join(lines)
        + "\n\nWithout extras, these commands work: "
        + ", ".join(f"`zoo {' '.join(words[:1])}`" for words in COMMANDS if "--out" not in words)
        + ".\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
