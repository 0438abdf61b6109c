"""Python programs of the tests, in processes forked from one that has imported torch.

Importing torch takes more than a second of processor time, most of what a short command takes. A
command that begins with `python()` in the place of `sys.executable` runs the same program with the
same arguments, environment, folder and standard streams, gets SIGINT and SIGTERM, and ends with its
exit code or signal. The zoo and its plugins are not imported before the fork: each program imports
them from its own path.

Forked processes share the seed of hashes, and end without clearing their modules. A test that
compares what processes compute, measures a start or the memory, sends signals, or asks what is
imported starts new processes.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import shlex
import signal
import socket
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

Job = tuple[list[str], str, dict[str, str]]
"""The arguments of Python, the folder and the environment of a program."""

VARIABLES = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHON"}
"""The variables of the interpreter that a forked process follows; others need a new process.

The last is none of the interpreter's: `make test PYTHON=python3.13` sets it.
"""
INTERPRETER = "interpreter"
"""The name of Python in a virtual environment whose `python` runs forked."""
BYTES = 8
"""Bytes of the number that says how long a job is; a user of the server sends 0 and no job."""
EXECUTABLE = "FORKED_EXECUTABLE"
"""The variable with the `sys.executable` of a forked process, such as what `script` writes."""
ENVIRONMENT = "FORKED_ENVIRONMENT"
"""The variable with the virtual environment that a forked process belongs to."""


def python() -> list[str]:
    """Return the words that begin a command of Python."""
    if not hasattr(os, "pidfd_open"):  # not on Linux
        return [sys.executable]
    return [sys.executable, "-I", "-S", __file__, "run", _server()[0]]


def script(file: Path, *words: str, **variables: str) -> None:
    """Write a script that runs Python with these words and with its arguments."""
    command = shlex.join([*python(), *words])
    exports = [f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()]
    file.write_text(f'#!/bin/sh\n{"".join(exports)}exec {command} "$@"\n', encoding="utf-8")
    file.chmod(0o755)


def fork_in(folder: Path) -> None:
    """Let `python` of a virtual environment, and commands that it runs, be forked processes.

    What installs packages is not: pip asks the interpreter where they belong.
    """
    if not hasattr(os, "pidfd_open"):  # as in `python`
        return
    file = folder / "bin" / "python"
    new = file.rename(file.with_name(INTERPRETER))  # what programs of this one start
    script(file, **{ENVIRONMENT: str(folder), EXECUTABLE: str(new)})


@functools.cache
def _server() -> tuple[Any, ...]:
    """Return the name of the server, and what must be kept while it is used.

    The processes of a test run share one. It ends when all of them have closed their connections.
    """
    import fcntl  # these here, as a program starts faster without them
    import subprocess

    name = f"zoo-forked-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"
    started = None
    connection = socket.socket(socket.AF_UNIX)
    with open(__file__, encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if connection.connect_ex(address_of(name)):
            kept = {n: os.environ[n] for n in os.environ if not n.startswith("PYTHON")}
            kept.setdefault(
                "GOMP_SPINCOUNT", "1000"
            )  # as the zoo sets it, before torch is imported
            command = [sys.executable, __file__, "serve", name]
            started = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       env=kept)  # fmt: skip
            assert started.stdout
            with started.stdout:
                assert started.stdout.readline() == b"ready\n"
            connection.connect(address_of(name))
        connection.sendall(bytes(BYTES))
    return name, connection, started


def address_of(name: str) -> str:
    """Return the address of a server: one of Linux that is no file, which nothing has to remove."""
    return f"\0{name}"


def run(name: str, words: list[str]) -> None:
    """Run Python with these arguments in a forked process, and end as it ends."""
    given = {n for n, value in os.environ.items() if n.startswith("PYTHON") and value}
    first, *_ = *words[words[:1] == ["-P"] :], "-"
    new = first.startswith("-") and first not in ("-c", "-m")
    if new or given - VARIABLES or (ENVIRONMENT in os.environ and _may_install(words)):
        _execute_in_new_process(words)
    job: Job = words, os.getcwd(), dict(os.environ)
    content = json.dumps(job).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address_of(name))
        socket.send_fds(connection, [len(content).to_bytes(BYTES, "big")], [0, 1, 2])
        connection.sendall(content)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda given, _: connection.sendall(bytes([given])))
        status = connection.recv(BYTES)
    code = int(status or -signal.SIGKILL)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _may_install(words: list[str]) -> bool:
    if words[0] == "-m":
        return words[1] not in ("zoo", "pytest")
    return os.path.basename(words[0]) in ("pip", "__pip-runner__.py")


def _execute_in_new_process(words: list[str]) -> None:
    folder = os.environ.get(ENVIRONMENT)
    if not folder:
        os.execv(sys.executable, [sys.executable, *words])
    # Python knows its environment by its first argument.
    file = os.path.join(folder, "bin", "python")
    os.execv(os.path.join(folder, "bin", INTERPRETER), [file, *words])


class Server:
    """Forks a process for each job, until the last user closes its connection."""

    def __init__(self, name: str) -> None:
        import selectors

        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address_of(name))
        self._listener.listen(64)
        self._selector = selectors.DefaultSelector()
        self._watch = functools.partial(self._selector.register, events=selectors.EVENT_READ)
        self._watch(self._listener, data=self._accept)
        self._users: set[socket.socket] = set()
        self._running: dict[int, socket.socket] = {}
        """The processes, and who waits for the end of each."""

    def next_job(self) -> Job:
        """Serve; return in the forked processes alone.

        So the programs run outside of this loop.
        """
        while True:
            for key, _ in self._selector.select():
                job: Job | None = key.data()
                if job:
                    return job

    def _accept(self) -> Job | None:
        client, _ = self._listener.accept()
        size, streams, *_ = socket.recv_fds(client, BYTES, 3)
        length = int.from_bytes(size, "big")
        if not length:
            self._users.add(client)
            self._watch(client, data=functools.partial(self._leave, client))
            return None
        with client.makefile("rb") as file:
            job: Job = json.loads(file.read(length))
        assert len(os.listdir("/proc/self/task")) == 1, "a forked process would lack threads"
        child = os.fork()
        if not child:
            self._selector.close()
            for opened in (self._listener, client, *self._users, *self._running.values()):
                opened.close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
        for stream in streams:
            os.close(stream)
        if not child:
            return job
        self._running[child] = client
        ended = os.pidfd_open(child)
        self._watch(ended, data=functools.partial(self._end, child, ended))
        self._watch(client, data=functools.partial(self._signal, child))
        return None

    def _signal(self, child: int) -> None:
        if child in self._running:
            given = self._running[child].recv(1)
            # A client that has ended, as after a timeout, ends its process.
            os.kill(child, given[0] if given else signal.SIGKILL)

    def _end(self, child: int, ended: int) -> None:
        client = self._running.pop(child)
        for opened in (client, ended):
            self._selector.unregister(opened)
        os.close(ended)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with client, contextlib.suppress(BrokenPipeError):
            client.sendall(str(code).encode())

    def _leave(self, user: socket.socket) -> None:
        self._selector.unregister(user)
        user.close()
        self._users.remove(user)
        if not self._users:
            sys.exit()


def become(job: Job, path: list[str]) -> None:
    """Make this process that of a new interpreter which finds packages in these folders."""
    words, folder, environment = job
    os.chdir(folder)
    sys.orig_argv = [sys.executable, *words]
    first = [{"-m": folder, "-c": ""}.get(words[0], os.path.dirname(os.path.realpath(words[0])))]
    if words[0] == "-P":
        first = words[:0]
        del words[0]
    os.environ.clear()
    os.environ.update(environment)
    sys.dont_write_bytecode = bool(environment.get("PYTHONDONTWRITEBYTECODE"))
    given = environment.get("PYTHONPATH")
    before = [os.path.abspath(each) for each in given.split(os.pathsep)] if given else []
    sys.path[:] = [*first, *dict.fromkeys([*before, *path])]
    if environment.get(ENVIRONMENT):
        _enter(environment[ENVIRONMENT], [*first, *before])
    sys.argv = [words[0], *words[2 if words[0] in ("-c", "-m") else 1 :]]
    sys.executable = environment.get(EXECUTABLE, sys.executable)
    if "OMP_NUM_THREADS" in environment:
        sys.modules["torch"].set_num_threads(int(environment["OMP_NUM_THREADS"]))
    unbuffered = bool(environment.get("PYTHONUNBUFFERED"))
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)  # it belongs to the file that was there before
        bare = unbuffered and number > 0
        binary = os.fdopen(number, f"{old.mode}b", buffering=0 if bare else -1, closefd=False)
        lines = not unbuffered and (number == 2 or binary.isatty())
        new = io.TextIOWrapper(binary, old.encoding, old.errors, None, lines, bare)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)


def _enter(folder: str, before: list[str]) -> None:
    """Make this process that of a virtual environment, with what precedes its packages."""
    import site
    import sysconfig

    standard = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    own = [p for p in sys.path if p.startswith(standard) or p.endswith(".zip")]
    packages = sysconfig.get_path("purelib")
    sys.path[:] = [*before, *(p for p in own if not p.startswith(packages))]
    sys.prefix = sys.exec_prefix = folder
    where = {"base": folder, "platbase": folder}
    site.addsitedir(sysconfig.get_path("purelib", "venv", where))


def execute(words: list[str]) -> int:
    """Run the program of these arguments as the interpreter does, and return its exit code."""
    import atexit
    import importlib
    import runpy
    import threading

    import numpy

    numpy.random.seed()  # by the system, as in a new process
    importlib.invalidate_caches()
    main = sys.modules["__main__"] = ModuleType("__main__")
    code: Any = 0
    try:
        if words[0] == "-m":
            runpy._run_module_as_main(words[1])  # type: ignore[attr-defined]  # as `python -m` does
        elif words[0] != "-c":
            runpy.run_path(words[0], run_name="__main__")
        else:
            exec(compile(words[1], "<string>", "exec"), main.__dict__)
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException as error:
        shown = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
        sys.excepthook(type(shown), shown, shown.__traceback__)
        code = 1
    if not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def import_libraries() -> None:
    """Import what the programs use of other packages, and what takes long to import."""
    import gc
    import importlib

    for name in ("torch", "matplotlib.backends.backend_agg", "matplotlib.figure", "pydantic",
                 "numpy", "rich.console", "safetensors.torch", "tokenizers"):  # fmt: skip
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # the collectors of the processes do not walk through all that was imported


if __name__ == "__main__":
    role, called, *words = sys.argv[1:]
    if role == "run":
        run(called, words)
    del sys.path[0]  # the folder of this file
    folders = list(sys.path)
    server = Server(called)
    import_libraries()
    print("ready", flush=True)
    job = server.next_job()
    become(job, folders)
    # The interpreter would clear all modules, which takes a third of a second.
    os._exit(execute(job[0]) & 255)
