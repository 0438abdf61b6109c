"""A forked process does what a new one does."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.external_plugins.journey import Environment
from tests.forked import INTERPRETER, python

SHOW = """
import os, sys
print(sys.argv, sys.orig_argv, sys.path, os.getcwd(), dict(sorted(os.environ.items())))
print(__name__, __spec__ and __spec__.name, sys.flags, sys.dont_write_bytecode)
for stream in (sys.stdin, sys.stdout, sys.stderr):
    print(stream.encoding, stream.errors, stream.line_buffering, stream.isatty())
print(sys.stdin.read(), file=sys.stderr)
"""
PROGRAMS = {
    "a program": ["-c", SHOW, "one", "--two"],
    "a module": ["-m", "shown", "one", "--two"],
    "a file": ["site/shown.py", "one", "--two"],
    "an exit code": ["-c", "raise SystemExit(7)"],
    "a large exit code": ["-c", "raise SystemExit(-1)"],
    "a message": ["-c", "print('first'); raise SystemExit('wrong')"],
    "no module": ["-m", "zoo.absent"],
    "no program": ["-c", "1 +"],
    "a signal": ["-c", "import os; os.kill(os.getpid(), 9)"],
    "another signal": ["-c", "import os; print('lost'); os.kill(os.getpid(), 15)"],
    "an end without clean-up": ["-c", "import os; os._exit(3)"],
    "clean-up": ["-c", "import atexit; atexit.register(print, 'last')"],
    "a thread": ["-c", "from threading import *; Timer(0.1, print, ['late']).start()"],
    "other options": ["-W", "error", "-c", "import warnings; warnings.warn('x')"],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_forked_process_is_like_a_new_one(name: str, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "shown.py").write_text(SHOW, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path / "site"), "relative"])
    environment = {**os.environ, "PYTHONPATH": path, "ADDED": "é"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # `sys.flags` are those of the server

    def result(start: list[str]) -> tuple[int, str, str]:
        done = subprocess.run([*start, *PROGRAMS[name]], cwd=tmp_path, env=environment,
                              input="given", capture_output=True, text=True)  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    assert result(python()) == result([sys.executable])


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="on Linux alone")
def test_an_environment_has_its_own_packages_and_commands(tmp_path: Path) -> None:
    environment = Environment.borrowed(tmp_path / "environment")
    module = tmp_path / "environment" / "added.py"
    module.write_text("import sys; print(sys.prefix, sys.path, sys.modules.get('torch'))\n")
    packages = next((tmp_path / "environment" / "lib").rglob("site-packages"))
    (packages / "added.pth").write_text(f"{module.parent}\n")
    command = tmp_path / "environment" / "bin" / "added"
    command.write_text(f"#!{environment.python}\nimport added\n")
    command.chmod(0o755)
    inherited = {n: value for n, value in os.environ.items() if n != "PYTHONPATH"}

    def printed(*words: object) -> str:
        return subprocess.run([str(word) for word in words], cwd=tmp_path, env=inherited,
                              capture_output=True, text=True, check=True).stdout  # fmt: skip

    new = environment.python.with_name(INTERPRETER)
    for program in (["-c", "import added"], [command]):
        forked = printed(environment.python, *program)
        assert "<module 'torch'" in forked
        assert forked.rpartition("]")[0] == printed(new, *program).rpartition("]")[0]
    assert "<module 'torch'" in printed(command)


def test_an_error_is_printed_as_by_a_new_process() -> None:
    done = subprocess.run([*python(), "-c", "1 / 0"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert done.stderr.endswith("\nZeroDivisionError: division by zero\n")


def test_torch_is_imported_and_the_zoo_is_not() -> None:
    program = (
        "import sys; print({n.partition('.')[0] for n in sys.modules} & "
        "{'torch', 'zoo', 'zoo_t5', 'tests', 'huggingface_hub', 'pytest'})"
    )
    environment = {**os.environ, "PYTHON": "python3"}  # as make sets it
    command = [*python(), "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout == "{'torch'}\n", done.stderr


def test_processes_draw_numbers_of_their_own() -> None:
    program = "import random, numpy; print(random.random(), numpy.random.random())"
    command = [*python(), "-c", program]
    printed = [subprocess.run(command, capture_output=True, text=True).stdout for _ in range(2)]
    numbers = [number for line in printed for number in line.split()]
    assert len({*numbers}) == 4


def test_processes_run_beside_each_other_and_end_with_their_client(tmp_path: Path) -> None:
    program = "import sys, time; open(sys.argv[1], 'w').write('x'); time.sleep(60)"
    command = [*python(), "-c", program]
    with subprocess.Popen([*command, tmp_path / "slow"], stdout=subprocess.PIPE) as slow:
        assert slow.stdout
        end = time.monotonic() + 60
        while not (tmp_path / "slow").exists():
            assert time.monotonic() < end
            time.sleep(0.01)
        quick = subprocess.run([*python(), "-c", "print(1)"], capture_output=True, text=True)
        assert quick.stdout == "1\n"
        slow.kill()
        assert slow.stdout.read() == b""  # it is read to its end: the forked process has ended
