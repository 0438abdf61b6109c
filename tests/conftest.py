"""Fixtures and settings of all tests."""

import os

# One thread is fastest for small networks, and the processes of a parallel run share the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# The Hub client reads its settings when it is imported. Large files are uploaded by LFS unless a
# test changes that.
os.environ["ZOO_SETTINGS"] = ""  # not those of who runs the tests
os.environ.update(HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_PROGRESS_BARS="1")

import contextlib
import gc
import importlib
import math
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from filelock import FileLock

from tests.external_plugins.journey import TOP, build_wheel
from tests.forked import script
from zoo.cli import cli
from zoo.registry.registry import Registry, default_registry

SLOW = (
    "laws/test_laws.py", "external_plugins/test_pages.py", "training/test_group.py",
    "interop/test_onnx.py", "serving/test_faults.py", "external_plugins/test_journey.py",
    "core/test_campaigns.py", "hub/test_processes.py", "serving/test_page.py",
    "training/test_failures.py", "decoding/test_batches.py", "decoding/test_processors.py",
    "examples/test_two_architectures.py", "laws/test_kit.py", "cli/test_cli.py",
    "core/test_precision.py",
    "training/test_fine_tuning_page.py", "examples/test_losses.py", "cli/test_attention.py",
    "training/test_fine_tuning.py", "serving/test_api.py", "core/test_checkpoint.py",
    "core/test_training.py", "decoding/test_beam.py", "training/test_recipe.py",
    "training/test_passes.py", "core/test_corpora.py", "examples/test_attention_kinds.py",
    "training/test_corpus.py", "training/test_auto.py", "test_install.py", "test_release.py",
    "site/test_site.py", "core/test_stacks.py", "decoding/test_named.py",
    "core/test_torch_defaults.py", "training/test_subwords.py", "examples/test_sources.py",
    "serving/test_queue.py", "external_plugins/test_new_plugin.py", "serving/test_checkpoints.py",
    "decoding/test_step_graphs.py", "external_plugins/test_training_parts_page.py",
    "core/test_tokenizer_kinds.py", "training/test_requests.py", "external_plugins/test_plugins.py",
)  # fmt: skip
"""The slowest files. A parallel run starts with them, so that it does not end waiting for one."""


def pytest_sessionstart(session: pytest.Session) -> None:
    gc.set_threshold(50_000)
    # Each process of a run of all tests first imports a share of the files: pytest rewrites their
    # assertions, which takes seconds, and the others then read the result.
    process = getattr(session.config, "workerinput", None)
    if process and [session.config.rootpath / arg for arg in session.config.args] == [
        TOP / "tests"
    ]:
        files = sorted((TOP / "tests").rglob("test_*.py"))
        for file in files[int(process["workerid"].removeprefix("gw")) :: process["workercount"]]:
            # What is skipped or raises does so again when it is collected, and is reported.
            with contextlib.suppress(Exception, pytest.skip.Exception):
                importlib.import_module(".".join(file.relative_to(TOP).with_suffix("").parts))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sample-sweeps", action="store_true",
                     help="Run a third of the cases of each test marked as a sweep.")  # fmt: skip


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--sample-sweeps"):
        counts: Counter[str] = Counter()
        items[:] = [item for item in items if _is_sampled(item, counts)]
    if hasattr(config, "workerinput"):  # a process of a parallel run
        ranks = {TOP / "tests" / name: rank for rank, name in enumerate(SLOW)}
        items.sort(key=lambda item: ranks.get(item.path, len(SLOW)))


def _is_sampled(item: pytest.Item, counts: Counter[str]) -> bool:
    """Return whether a sample of the sweeps has this test: the same each time.

    Multiples of the golden ratio spread it over all parameters, whatever their numbers.
    """
    if not item.get_closest_marker("sweep"):
        return True
    counts[(name := item.nodeid.partition("[")[0])] += 1
    return counts[name] * 0.6180339887 % 1 < 1 / 3


def pytest_collection_finish() -> None:
    # The collector does not walk again and again through all that was imported.
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def registry() -> Registry:
    return default_registry()


Once = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """A function that fills a folder once for all processes of this test run; do not change it."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def fill(name: str, make: Callable[[Path], object]) -> Path:
        folder, complete = shared / name, shared / f"{name}.complete"
        with FileLock(shared / f"{name}.lock"):
            if not complete.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                complete.touch()
        return folder

    return fill


@pytest.fixture(scope="session")
def forked_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A script that runs Python in a forked process."""
    script(file := tmp_path_factory.mktemp("forked") / "python")
    return file


@pytest.fixture(scope="session")
def imports_checked(once: Once, forked_python: Path) -> Iterator[None]:
    """Check in one process what imports of all networks here change, not in one for each."""
    from zoo.testing import process

    check = process._fault_of_import
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(TOP / "docs" / "examples" / "zoo-networks" / "src")
        examples = importlib.import_module("zoo_networks").zoo_architectures()
        declared = (*default_registry().architectures.values(), *examples)
        networks = {each.network for each in declared}

        def require_none(folder: Path) -> None:
            with pytest.MonkeyPatch.context() as forked:
                forked.setattr(sys, "executable", str(forked_python))
                assert not check(*sorted(networks))

        once("imports", require_none)
        patch.setattr(
            process, "_fault_of_import", lambda one: "" if one in networks else check(one)
        )
        yield


@pytest.fixture(scope="session")
def wheels(once: Once) -> dict[str, Path]:
    """The wheels of the zoo and of the packages of checkpoints, by distribution."""

    def build(folder: Path) -> None:
        build_wheel(folder / "zoo")
        for project in TOP.glob("plugins/*/pyproject.toml"):
            build_wheel(folder / project.parent.name, project.parent)

    return {made.name.partition("-")[0]: made for made in once("wheels", build).rglob("*.whl")}


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of real corpora; tests that need it are skipped without it."""
    folder = os.environ.get("ZOO_DATA")
    if not folder:
        pytest.skip("needs real corpora: ZOO_DATA is not set")
    return Path(folder)


@pytest.fixture(autouse=True, scope="session")
def generated_data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Write generated datasets to a folder of this test run, unless ZOO_CACHE is set."""
    with pytest.MonkeyPatch.context() as patch:
        given = os.environ.get("ZOO_CACHE")
        folder = Path(given) if given else tmp_path_factory.mktemp("cache")
        patch.setenv("ZOO_CACHE", str(folder))
        yield folder


@pytest.fixture(autouse=True, scope="session")
def similar_curves_are_drawn_once() -> Iterator[None]:
    """Plot one run of each kind: some hundred runs of the tests differ only in ordinary numbers.

    `every_curve_is_drawn` undoes this for a test of plots.
    """
    session = sys.modules.get("zoo.training.session")
    if session is None:  # no test of this process trains
        yield
        return
    drawn: dict[object, bytes] = {}
    draw = session.draw_curve

    def draw_once(metrics: Sequence[Mapping[str, Any]], title: str) -> bytes:
        curves = [[report[name] for report in metrics if report.get(name) is not None]
                  for name in ("loss", "validation_loss", "bleu")]  # fmt: skip
        is_usual = all(math.isfinite(y) and 0 <= y < 1e6 for curve in curves for y in curve)
        key = title, *(min(len(curve), 2) for curve in curves)  # none, one or several points
        if not is_usual or key not in drawn:
            drawn[key] = draw(metrics, title)
        return drawn[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "draw_curve", draw_once)
        yield


@pytest.fixture(autouse=True, scope="session")
def seeds_wait_for_no_missing_device() -> Iterator[None]:
    """Let `torch.manual_seed` do nothing for kinds of devices that this machine has none of.

    It would note the call, with a formatted stack, for the day when they are first used: half a
    millisecond in each of the thousands of calls of the tests.
    """
    torch = sys.modules.get("torch")
    with pytest.MonkeyPatch.context() as patch:
        for kind in ("cuda", "xpu") if torch else ():
            if not getattr(torch, kind).is_available():
                patch.setattr(f"torch.{kind}.random._lazy_call", lambda *given, **options: None)
        if torch and not torch.mtia.is_available():
            patch.setattr("torch.mtia._lazy_call", lambda *given, **options: None)
        yield


@pytest.fixture
def every_curve_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    from zoo.training import session
    from zoo.training.curve import draw_curve

    monkeypatch.setattr(session, "draw_curve", draw_curve)


@pytest.fixture(autouse=True)
def environment_as_found(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a setting of the zoo behind for the tests after it."""
    request.getfixturevalue("generated_data")
    before = _settings()
    yield
    assert _settings() == before


def _settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("ZOO_")}


ImportScript = Callable[[str], Any]


@pytest.fixture
def import_script(monkeypatch: pytest.MonkeyPatch) -> ImportScript:
    """Import a script of `cards` by its name."""
    monkeypatch.syspath_prepend(str(TOP / "cards"))
    return importlib.import_module


@pytest.fixture
def run() -> Callable[..., Result]:
    """A function that runs `zoo` with its arguments in this process."""

    def call(*arguments: object, input: str | bytes | None = None) -> Result:
        command = [str(argument) for argument in arguments]
        return CliRunner().invoke(cli, command, input=input)

    return call


@pytest.fixture
def parallel(tmp_path: Path) -> Path:
    """A small parallel corpus, `corpus.en` and `corpus.de`, of 60 distinct pairs."""
    nouns, verbs = ("dog", "cat", "man", "girl", "bird"), ("runs", "sleeps", "sings")
    german = ("Hund", "Katze", "Mann", "Mädchen", "Vogel", "rennt", "schläft", "singt")
    translation = dict(zip((*nouns, *verbs), german, strict=True))
    pairs = [
        (f"{a} {noun} {verb}{end}", f"{b} {translation[noun]} {translation[verb]}{end}")
        for a, b in (("the", "das"), ("a", "ein"))
        for noun in nouns
        for verb in verbs
        for end in (".", " !")
    ]
    for suffix, side in (("en", 0), ("de", 1)):
        lines = "".join(f"{pair[side]}\n" for pair in pairs)
        (tmp_path / f"corpus.{suffix}").write_text(lines, encoding="utf-8")
    return tmp_path / "corpus"
