"""The hub in separate processes: a clean environment, Xet, and a pull that is killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import zoo
from tests.forked import python
from tests.hub.helpers import ADDRESS, NAME, WEIGHTS, clean, fingerprint
from tests.hub.server import Server

TEXTS = ["the dog a runs", "dog q", "the dog the dog", "the dog z runs"]
SHOW = (
    "import sys, zoo\n"
    "translator = zoo.load(sys.argv[1])\n"
    "for t in translator.stream(sys.argv[2:]):\n"
    "    print(repr((t.text, t.score.hex())))\n"
)


def run(
    *arguments: object,
    home: Path,
    server: Server | None = None,
    start: Sequence[str] = (sys.executable,),
    **more: str,
) -> subprocess.CompletedProcess[str]:
    """Run Python in a clean environment with the endpoint and the variables in `more`."""
    return subprocess.run(
        [*start, *map(str, arguments)],
        env=environment(home, server, **more),
        cwd=home,
        capture_output=True,
        text=True,
        timeout=100,
    )


def environment(home: Path, server: Server | None, **more: str) -> dict[str, str]:
    home.mkdir(exist_ok=True)
    inherited = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
    kept = {key: os.environ[key] for key in inherited if key in os.environ}
    endpoint = {"HF_ENDPOINT": server.endpoint} if server else {"HF_ENDPOINT": "http://127.0.0.1:9"}
    return {**kept, "HOME": str(home), "OMP_NUM_THREADS": "1", **endpoint, **more}


def translations(folder: Path) -> str:
    """Return what SHOW prints for a local checkpoint."""
    lines = [repr((t.text, t.score.hex())) for t in zoo.load(folder).stream(TEXTS)]
    return "".join(f"{line}\n" for line in lines)


def test_a_checkpoint_translates_bit_for_bit_the_same_after_push_and_pull(
    server: Server, checkpoint: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    token = {"HF_TOKEN": "hf_ann", "HF_HUB_DISABLE_XET": "1"}
    sent = run("-m", "zoo", "push", checkpoint, ADDRESS, "--private", home=home, server=server,
               start=python(), **token)  # fmt: skip
    assert sent.returncode == 0, sent.stderr
    other = tmp_path / "other"
    added = run("-m", "zoo", "registry", "add", "dogs", ADDRESS, home=other, server=server, **token)
    assert added.returncode == 0, added.stderr
    assert "hf_ann" not in added.stdout + added.stderr + sent.stdout + sent.stderr
    shown = run("-c", SHOW, "dogs", *TEXTS, home=other, start=python())
    assert shown.stdout == translations(checkpoint), shown.stderr
    assert (other / ".config" / "zoo" / "registry.toml").is_file()
    offline = run("-c", SHOW, ADDRESS, *TEXTS, home=other, start=python(), HF_HUB_OFFLINE="1")
    assert offline.returncode == 1, "the commit is in the cache, and the branch is not"
    written = "".join(f.read_text(errors="replace") for f in other.rglob("*") if f.is_file())
    assert "hf_ann" not in written


def test_push_and_pull_by_xet(server: Server, checkpoint: Path, tmp_path: Path) -> None:
    home, store = tmp_path / "home", tmp_path / "store"
    store.mkdir()
    server.serve_by_xet(checkpoint, store)
    command = ("-m", "zoo", "push", checkpoint, ADDRESS)
    trusted = {"ZOO_HUB_XET": "1"}
    sent = run(*command, home=home, server=server, start=python(), HF_TOKEN="hf_ann", **trusted)
    assert sent.returncode == 0, sent.stderr
    assert sent.stderr == ""
    assert server.requests("xet-write-token")
    assert not server.requests("^PUT"), "the weights are uploaded to the store"
    shown = run("-c", SHOW, ADDRESS, *TEXTS, home=home, server=server, start=python(), **trusted)
    assert shown.stdout == translations(checkpoint), shown.stderr
    assert server.requests("xet-read-token")
    assert not server.requests("GET", port="cdn"), "the weights are downloaded from the store"
    server.log.clear()
    server.xet_folder = tmp_path / "outside"  # of the cache: the server is not trusted
    run("-m", "zoo", "pull", ADDRESS, home=tmp_path / "other", server=server, start=python())
    assert not server.requests("xet-read-token")
    assert not server.xet_folder.exists()


def test_23_a_pull_that_is_killed(server: Server, checkpoint: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    server.put(NAME, checkpoint)
    server.fault("GET", WEIGHTS, cut=3000, stall=8.0)
    settings = environment(home, server, HF_HUB_DISABLE_XET="1")
    command = [sys.executable, "-m", "zoo", "pull", ADDRESS]
    with subprocess.Popen(command, env=settings, stdout=subprocess.DEVNULL) as process:
        waited = time.monotonic()
        while not server.requests(WEIGHTS) and time.monotonic() - waited < 60:
            assert process.poll() is None, "the pull ended before the kill"
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    pull = ("-m", "zoo", "pull")
    off = run(*pull, ADDRESS, "--offline", home=home, start=python())
    assert off.returncode == 1
    assert "is not in the cache: requests are disabled" in off.stderr
    commit = server.repositories[NAME].branches["main"][-1].name
    off = run(*pull, f"{ADDRESS}@{commit}", "--offline", home=home, start=python())
    assert "is not completely in the cache: it has no model.safetensors" in off.stderr
    assert off.stderr.count("\n") == 1
    again = run(*pull, ADDRESS, home=home, server=server, start=python(), HF_HUB_DISABLE_XET="1")
    assert again.returncode == 0, again.stderr
    assert fingerprint(Path(again.stdout.strip())) == fingerprint(checkpoint)
    assert len(server.requests("GET .*/resolve/.*/config.json")) == 1, "complete files are kept"
    cache = home / ".cache" / "huggingface" / "hub"
    (left,) = cache.rglob("*.incomplete")
    os.utime(left, (0, 0))
    done = run(*pull, ADDRESS, home=home, server=server, start=python())
    assert done.returncode == 0, done.stderr
    clean(cache)


@pytest.mark.parametrize("arguments", [["pull"], ["registry"], ["cache"], ["push"], ["card"]])
def test_help_imports_no_client(arguments: list[str], tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from zoo.cli import cli\n"
        f"cli.main({[*arguments, '--help']!r}, standalone_mode=False)\n"
        "sys.exit(str({'torch', 'huggingface_hub', 'tomlkit'} & set(sys.modules) or ''))"
    )
    done = run("-c", program, home=tmp_path)
    assert "Traceback" not in done.stderr
    assert "{" not in done.stderr


def test_a_pull_imports_no_torch(server: Server, checkpoint: Path, tmp_path: Path) -> None:
    server.put(NAME, checkpoint)
    program = (
        "import sys\nfrom zoo.hub.pull import pull\nimport zoo.hub.push\n"
        f"pull({ADDRESS!r})\n"
        "sys.exit('torch' in sys.modules)"
    )
    done = run("-c", program, home=tmp_path / "h", server=server, HF_HUB_DISABLE_XET="1")
    assert done.returncode == 0, done.stderr
