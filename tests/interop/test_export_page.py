"""The snippets in docs/export.md run."""

import importlib
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import Result
from torch import Tensor, nn

from zoo import Registry
from zoo.checkpoint.checkpoint import read
from zoo.errors import ConversionError
from zoo.interop.conversion import import_checkpoint
from zoo.interop.exporter import export_checkpoint
from zoo.registry.owners import Plugin
from zoo.registry.plugins import Plugins

PAGE = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")


def test_snippets_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Callable[..., Result],
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
                for line in block.splitlines()]  # fmt: skip
    programs = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(commands) == len(programs) == 2
    results = [run(*shlex.split(line)[1:]) for line in commands]
    assert [result.exit_code for result in results] == [0, 0], [r.output for r in results]
    assert (tmp_path / "numbers-int8" / "model.bin").is_file()
    assert results[1].output == "soixante-dix\n"
    for program in programs:
        exec(compile(program, "docs/export.md", "exec"), {})
    files, translation = capsys.readouterr().out.splitlines()
    assert "model.bin" in files
    assert translation == "quatre cent cinq"


WORDS = {"source": ["a", "b", "c"], "target": ["x", "y", "z", "w"]}


def attic(folder: Path, e: int = 3, h: int = 5) -> dict[str, Tensor]:
    """Write a checkpoint of the page's other project, and return its tensors."""
    torch.manual_seed(4)
    rows, columns = (
        {"reader": (3 * h, e), "writer": (3 * h, e)},
        {"source": e, "target": e, "out": h},
    )
    tensors = {name: torch.randn(len(WORDS.get(name, WORDS["target"])) + 2, width)
               for name, width in columns.items()}  # fmt: skip
    tensors["bias"] = torch.randn(6)
    for stack, shape in rows.items():
        tensors[f"{stack}.weight_ih"] = torch.randn(shape)
        tensors[f"{stack}.weight_hh"] = torch.randn(3 * h, h)
        tensors[f"{stack}.bias_ih"], tensors[f"{stack}.bias_hh"] = torch.randn(2, 3 * h)
    folder.mkdir()
    (folder / "attic.json").write_text(json.dumps(WORDS))
    save(folder, tensors)
    return tensors


def save(folder: Path, tensors: dict[str, Tensor]) -> None:
    arrays: dict[str, Any] = {name: tensor.numpy() for name, tensor in tensors.items()}
    np.savez(folder / "weights.npz", **arrays)


def log_probs_of(t: dict[str, Tensor], source: list[int], target: list[int]) -> Tensor:
    """Return what torch's GRU gives for ids of the attic, which begin with 0."""
    cells = {}
    for stack in ("reader", "writer"):
        cells[stack] = nn.GRUCell(t["source"].shape[1], t["out"].shape[1])
        cells[stack].load_state_dict({
            name: t[f"{stack}.{name}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        })  # fmt: skip
    state, rows = torch.zeros(1, t["out"].shape[1]), []
    for token in source:
        state = cells["reader"](t["source"][[token]], state)
    for token in target:
        state = cells["writer"](t["target"][[token]], state)
        rows.append(t["out"] @ state[0] + t["bias"])
    return torch.stack(rows).log_softmax(-1)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """The plugin of the page, beside the architecture of which it reads a format."""
    for title, text in re.findall(r"```python title=\"(.*?)\"\n(.*?)```", PAGE, re.DOTALL):
        (tmp_path / title).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    plugins = Plugins()
    for name in ("zoo.registry.builtin", "zoo_seq2seq", "zoo_attic"):
        plugins.add(importlib.import_module(name), Plugin(name, name, "1.0"))
    return Registry(plugins)


def test_the_format_of_the_page_is_read_and_written_exactly(
    tmp_path: Path, registry: Registry
) -> None:
    tensors = attic(tmp_path / "old")
    assert import_checkpoint(tmp_path / "old", tmp_path / "new", registry) == "attic"
    checkpoint = read(tmp_path / "new", registry)
    assert list(checkpoint.source_tokenizer.encode(["c a q"])[0]) == [6, 4, 3]
    source, target = torch.tensor([[6, 4, 3, 2]]), torch.tensor([[1, 7, 4]])
    with torch.no_grad():
        given = checkpoint.model(source, source != 0, target).logits[0].log_softmax(-1)
        expected = log_probs_of(tensors, [4, 2, 1, 0], [0, 5, 2])
    torch.testing.assert_close(given[:, 2:], expected, rtol=1e-5, atol=1e-5)
    export_checkpoint(checkpoint, "attic", tmp_path / "again", registry)
    written = np.load(tmp_path / "again" / "weights.npz")
    assert {*written} == {*tensors}
    assert all(np.array_equal(written[name], tensors[name]) for name in tensors)
    assert json.loads((tmp_path / "again" / "attic.json").read_text()) == WORDS


def test_what_the_format_of_the_page_cannot_hold_is_refused(
    tmp_path: Path, registry: Registry
) -> None:
    tensors = attic(tmp_path / "old")
    tensors["more"] = tensors.pop("out")[:, :4]
    save(tmp_path / "old", tensors)
    with pytest.raises(ConversionError, match=r"out is missing.*more is not a tensor"):
        import_checkpoint(tmp_path / "old", tmp_path / "new", registry)
    attic(tmp_path / "other")
    import_checkpoint(tmp_path / "other", tmp_path / "tuned", registry)
    checkpoint = read(tmp_path / "tuned", registry)
    with torch.no_grad():
        checkpoint.model.get_parameter("target_embedding.weight")[1] += 1
    with pytest.raises(ConversionError, match="does not start from the end token"):
        export_checkpoint(checkpoint, "attic", tmp_path / "out", registry)
