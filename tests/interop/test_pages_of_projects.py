"""The commands in the pages about fairseq, JoeyNMT and OpenNMT-py are run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.interop import opennmt_layout, test_fairseq, test_joeynmt
from tests.interop.layouts import randomize
from zoo.cli import cli
from zoo.registry.registry import default_registry

DOCS = Path(__file__).parents[2] / "docs" / "formats"


def fairseq(folder: Path) -> None:
    network = test_fairseq.TorchLSTM({"layers": 1, "decoder_out_embed_dim": 8})
    randomize(network)
    settings = {"encoder_embed_dim": 4, "decoder_embed_dim": 6, "encoder_hidden_size": 5,
                "decoder_hidden_size": 8, "decoder_out_embed_dim": 8}  # fmt: skip
    test_fairseq.write(folder, network.state(), settings)


def joeynmt(folder: Path) -> None:
    network = test_joeynmt.JoeyRecurrent("gru", "luong", "bridge", True)
    randomize(network)
    side = {"rnn_type": "gru", "type": "recurrent"}
    model = {
        "encoder": {**side, "hidden_size": 5, "num_layers": 2, "embeddings": {"embedding_dim": 4}},
        "decoder": {**side, "hidden_size": 10, "num_layers": 3, "attention": "luong",
                    "embeddings": {"embedding_dim": 6}},
    }  # fmt: skip
    test_joeynmt.write(folder, network.state(), model)


def opennmt(folder: Path) -> None:
    network = opennmt_layout.Recurrent({"attention": "general"})
    randomize(network)
    opennmt_layout.write(folder, network.state(), network.settings())


@pytest.mark.parametrize("write", [fairseq, joeynmt, opennmt])
def test_the_commands_of_a_page(
    write: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = write.__name__
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{name}-model").mkdir()
    write(tmp_path / f"{name}-model")
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    commands = [
        line
        for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
        for line in block.splitlines()
    ]
    assert len(commands) == 4
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "zoo"
        result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output


@pytest.mark.parametrize("name", ["fairseq", "joeynmt", "opennmt"])
def test_a_page_names_every_format_and_option(name: str) -> None:
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    registry = default_registry()
    formats = [each for each in registry.importers if each.startswith(f"{name}-")]
    assert len(formats) >= 2
    from zoo.interop.conversion import importer_of

    for each in formats:
        assert f"`{each}`" in text
        assert all(f"`{option}`" in text for option in importer_of(each, registry).options)
