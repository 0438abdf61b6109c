"""Library calls leave the process unchanged; the command line configures it in one module."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tests.core.test_training import SMALL
from zoo.cli import main, process
from zoo.errors import ConversionWarning, HubWarning

PROGRAM = '''
import ctypes, gc, json, locale, logging, os, signal, sys, threading, warnings
from pathlib import Path

accessed = []

class Library(ctypes.CDLL):
    """Records access to the functions that change malloc."""

    def __getattr__(self, name):
        accessed.append(name)
        return super().__getattr__(name)

ctypes.CDLL = Library

# Other libraries change settings when they are first imported, which is not tested here.
import huggingface_hub.constants, matplotlib, matplotlib.figure, rich.progress, sacrebleu, torch
import torch._dynamo, torch.distributed.fsdp
import numpy
torch.set_num_threads(4)

def threads_of_a_new_thread():
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return seen[0]

# Later imports add more loggers.
loggers = [logging.root, *map(logging.getLogger, sorted(logging.root.manager.loggerDict))]

def settings():
    return {
        "environment": dict(os.environ),
        "working directory": os.getcwd(),
        "locale": locale.setlocale(locale.LC_ALL),
        "threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "threads of a new thread": threads_of_a_new_thread(),
        "filters of warnings": repr(warnings.filters),
        "display of warnings": repr(warnings.showwarning),
        "signals": {s.name: repr(signal.getsignal(s)) for s in signal.valid_signals()
                    if isinstance(s, signal.Signals)},
        "loggers": [[l.name, l.level, repr(l.handlers), l.disabled] for l in loggers],
        "streams": [id(sys.stdin), id(sys.stdout), id(sys.stderr), id(sys.excepthook)],
        "recursion limit": sys.getrecursionlimit(),
        "garbage collection": [gc.isenabled(), gc.get_threshold()],
        "numpy": repr(numpy.geterr()),
        "torch": [str(torch.get_default_dtype()), str(torch.get_default_device()),
                  torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled(),
                  torch.get_float32_matmul_precision(), torch.backends.mkldnn.enabled],
        "matplotlib": repr(dict(matplotlib.rcParams)),
        "hub": [os.environ.get("HF_HUB_OFFLINE"), repr(vars(huggingface_hub.constants))],
        "threads that run": sorted(t.name for t in threading.enumerate()),
    }

before = settings()
import zoo
from zoo.evaluation import metrics
from zoo.translation.attention import compute_attention
from zoo.translation.attention_picture import draw

folder = Path(sys.argv[1])
lines = (f"the dog {n} runs\\tder Hund {n} rennt\\n" for n in "abcdefgh")
(folder / "a.tsv").write_text("".join(lines))
small = json.loads(sys.argv[2])
zoo.train("rnnsearch-tiny", str(folder / "a.tsv"), folder / "out", settings=small, steps=1)
translator = zoo.load(folder / "out", device="cpu")
texts = [f"the dog {n} runs " * (1 + i % 5) for i, n in enumerate("abcdefgh" * 80)]
stream = translator.stream(texts, beam=2, max_length=8, alignment=True)
next(stream)
during = settings()
translations = [translation.text for translation in stream]
metrics.score(translations, translations)
attention = compute_attention(translator.checkpoint, "the dog", [5, 6])
draw(attention, attention.panels(), "svg")
after = settings()
changed = {}
for moment, values in (("during", during), ("after", after)):
    # Worker threads run while a stream is read.
    ignored = {"threads that run"} if moment == "during" else set()
    for name in before:
        if values[name] != before[name] and name not in ignored:
            changed[f"{name} {moment}"] = [before[name], values[name]]
print(json.dumps({"changed": changed, "malloc": [n for n in accessed if n.startswith("mall")],
                  "openmp": "omp_set_num_threads" in accessed}))
'''


def test_library_calls_leave_the_process_unchanged(tmp_path: Path) -> None:
    """Import, train, load, translate, evaluate and draw, and compare all settings.

    Training seeds torch's default generators, from which networks draw by contract.
    """
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", PROGRAM, str(tmp_path), json.dumps(SMALL)],
        capture_output=True,
        text=True,
        env={**os.environ, "MPLCONFIGDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["changed"] == {}
    assert result["malloc"] == []
    assert result["openmp"], "the hook would have recorded malloc's functions"


def test_a_program_can_use_the_settings_of_the_command_line() -> None:
    """`configure` imports nothing that reads the environment, and replaces no variable."""
    program = (
        "import os, sys\n"
        "from zoo.cli.process import configure\n"
        "configure()\n"
        "assert not {'torch', 'huggingface_hub'} & set(sys.modules)\n"
        "print(os.environ['GOMP_SPINCOUNT'], os.environ['HF_HUB_DISABLE_PROGRESS_BARS'])"
    )
    variables = ("GOMP_SPINCOUNT", "HF_HUB_DISABLE_PROGRESS_BARS")
    unset = {name: value for name, value in os.environ.items() if name not in variables}
    for environment, expected in ((unset, "1000 1"), ({**unset, "GOMP_SPINCOUNT": "7"}, "7 1")):
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env=environment
        )
        assert done.stdout.strip() == expected, done.stderr


def test_the_command_line_configures_the_process_first(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr("zoo.cli.configure", lambda: calls.append("configure"))
    monkeypatch.setattr("zoo.cli.interrupt_by_signals", lambda: calls.append("signals"))
    monkeypatch.setattr(sys, "argv", ["zoo", "--version"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 0
    assert calls == ["configure", "signals"]


def test_malloc_keeps_memory_on_glibc_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[tuple[int, int]] = []

    class Library:
        def mallopt(self, parameter: int, value: int) -> int:
            calls.append((parameter, value))
            return 1

        def malloc_trim(self, kept: int) -> int:
            calls.append((0, kept))
            return 1

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    monkeypatch.setattr(os, "confstr", lambda name: "glibc 2.36", raising=False)
    assert process.keep_freed_memory()
    assert calls == [(-3, 1 << 30), (-1, -1), (-2, 64 << 20)]
    assert process.return_freed_memory()
    assert calls[3:] == [(0, 0)]
    monkeypatch.setattr(os, "confstr", lambda name: None, raising=False)
    assert not process.keep_freed_memory()
    assert not process.return_freed_memory()
    assert len(calls) == 4


def test_hub_warnings_are_printed_as_lines_and_others_are_unchanged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with warnings.catch_warnings(record=True, action="always") as others, process.hub_warnings():
        for _ in range(2):
            warnings.warn("one\nline", HubWarning, stacklevel=1)
        warnings.warn_explicit("the client's", UserWarning, "lib/huggingface_hub/download.py", 1)
        warnings.warn("a setting", ConversionWarning, stacklevel=1)
        warnings.warn("another", UserWarning, stacklevel=1)
    assert [str(other.message) for other in others] == ["another"]
    expected = "Warning: one line\n" * 2 + "Warning: the client's\nWarning: a setting\n"
    assert capsys.readouterr().err == expected
