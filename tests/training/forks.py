"""Run `zoo` in processes forked from one that has imported torch: many short runs, one import.

Each line of standard input is a job, [processes, log, words, folders]; each line of standard output
the exit codes of its processes. Several processes form one group, as under torchrun. The folders
are searched for plugins too.
"""

import gc
import json
import os
import sys

# Imported once here, not in every process.
import matplotlib.backends.backend_agg
import matplotlib.figure  # noqa: F401
import rich.console  # noqa: F401
import torch._dynamo  # processes that share gradients or weights import it
import torch.distributed.fsdp  # noqa: F401
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # public, but not in __all__

import zoo.cli.training
import zoo.training.session  # noqa: F401
from zoo.cli import cli
from zoo.registry.discovery import _discovered
from zoo.registry.registry import default_registry


def start(rank: int, size: int, port: int, log: str, words: list[str], folders: list[str]) -> int:
    """Start one process; return its id."""
    child = os.fork()
    if child:
        return child
    if size > 1:
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size),
                       "MASTER_ADDR": "localhost", "MASTER_PORT": str(port),
                       "TORCHELASTIC_USE_AGENT_STORE": "True"}  # fmt: skip
    if folders:
        sys.path[:0] = folders
        _discovered.cache_clear()
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    code = 1
    try:
        cli.main(words, prog_name="zoo")
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Run the jobs of standard input."""
    default_registry()
    gc.collect()
    gc.freeze()  # the collector of a process does not walk through all that was imported
    for line in sys.stdin:
        size, log, words, folders = json.loads(line)
        # As under torchrun, the store exists until the last process has ended.
        store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
        children = [start(rank, size, store.port, log, words, folders) for rank in range(size)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        print(json.dumps(codes), flush=True)


if __name__ == "__main__":
    main()
