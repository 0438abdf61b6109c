"""The law of the process, which a network shares with others."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import subprocess
import sys
from collections.abc import Iterator

from zoo.nn.contract import NonAutoregressive
from zoo.testing.case import Case
from zoo.testing.law import BrokenLawError, law
from zoo.testing.own_search import decode
from zoo.testing.settings import changed_settings, kept_settings, listed, read_settings


@law(
    causes="torch.set_default_dtype, set_grad_enabled, set_num_threads or "
    "use_deterministic_algorithms called as functions; warnings.filterwarnings outside "
    "catch_warnings; os.chdir; os.environ; random.seed or np.random.seed; a print() left from a "
    "search for a mistake",
    requires="randomness_is_seeded",
)
def process_settings_stay(case: Case) -> None:
    """A network changes no settings of torch, Python or the process, and prints nothing.

    Nor does the import of the modules that declare it.
    """
    if case.declaration is not None and (fault := _fault_of_import(case.declaration.network)):
        raise BrokenLawError(fault)
    with kept_settings(), contextlib.redirect_stdout(io.StringIO()):
        list(_runs(case))  # what is imported on first use may add filters of warnings
    before = read_settings()
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for method in _runs(case):
            if changed := changed_settings(before):
                raise BrokenLawError(f"{method} changes {listed(changed)}")
            if text := printed.getvalue():
                raise BrokenLawError(f"{method} prints {text[:100]!r}")


IMPORT = """
import importlib, sys, warnings
import zoo.nn
from zoo.testing.settings import FILTERS, changed_settings, listed, read_settings
modules, own = sys.argv[1:], []
packages = {module.partition(".")[0] for module in modules}

def watched(function):
    def call(*arguments, **named):
        caller = sys._getframe(1).f_globals.get("__name__", "")
        own.append(caller.partition(".")[0] in packages)
        return function(*arguments, **named)
    return call

warnings.filterwarnings = watched(warnings.filterwarnings)
warnings.simplefilter = watched(warnings.simplefilter)
before = read_settings()
for module in modules:
    importlib.import_module(module)
changed = changed_settings(before)
if not any(own):
    changed.pop(FILTERS, None)  # other libraries' own
if changed:
    sys.exit(f"importing {', '.join(modules)} changes {listed(changed)}")
"""
"""A program that imports modules, and fails if that changes settings."""

ENVIRONMENT = dict(os.environ)
"""As it is before a network's module is imported here, which may have changed it."""


@functools.cache
def _fault_of_import(*networks: str) -> str:
    """Return what the import of networks' modules does, in a new process; empty if nothing."""
    modules = [network.partition(":")[0] for network in networks]
    environment = {**ENVIRONMENT, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", IMPORT, *modules]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.stdout and not done.returncode:
        return f"importing {', '.join(modules)} prints {done.stdout[:100]!r}"
    last = "".join(done.stderr.strip().splitlines()[-1:])
    return last if last.startswith("importing ") else ""  # else another law reports it


def _runs(case: Case) -> Iterator[str]:
    """Build a network and call its methods, each of which is named after its call."""
    model = case.rebuild().double().eval()
    yield "the constructor"
    memory = model.encode(case.source, case.mask).memory
    yield "encode"
    if isinstance(model, NonAutoregressive):
        decode(model, memory, case.mask)
        yield "decode"
    else:
        state = model.init_state(memory)
        yield "init_state"
        model.step(case.target[:, 0], state, memory)
        yield "step"
    for mode in ("evaluation", "training"):
        model.train(mode == "training")(case.source, case.mask, case.target)
        yield f"forward in {mode} mode"
