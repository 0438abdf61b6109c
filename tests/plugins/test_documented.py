"""What the equations and docstrings of the built-in families say about sections and shapes."""

import re
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

import zoo_convs2s.network
import zoo_rnnsearch.network
import zoo_transformer.attention
from zoo.nn.build import create_model
from zoo_rnnsearch.config import RNNSearchConfig

PLUGINS = Path(__file__).parents[2] / "plugins"
CITED = {
    "transformer": (r"Tokens are embedded as \$[^$]+\$ (.*?);", "(sections 3.4 and 3.5)"),
    "convs2s": (r"Tokens and positions are embedded (.*?),", "(section 3.1)"),
}
"""What an equation is introduced by, and the sections of the paper that have it."""


def equations(family: str) -> str:
    return (PLUGINS / f"zoo_{family}" / "equations.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("family", CITED)
def test_embeddings_and_positions_cite_their_sections(family: str) -> None:
    pattern, sections = CITED[family]
    assert re.findall(pattern, " ".join(equations(family).split())) == [sections]


@pytest.mark.parametrize(
    ("directions", "layers", "indices"), [(2, 1, "1 2"), (1, 2, "1 2"), (2, 2, "1,1 1,2 2,1 2,2")]
)
def test_the_index_of_an_encoder_s_symbol(
    directions: Literal[1, 2], layers: int, indices: str
) -> None:
    """It is the direction of a single layer, the layer of a single direction, or both."""
    config = RNNSearchConfig(
        embedding_dim=4, encoder_dim=4, hidden_dim=8, attention_dim=4, start="zero",
        layers=layers, directions=directions,
    )  # fmt: skip
    symbols = [row.symbol.replace(" ", "") for row in config.parameters(9, 9)]
    assert re.findall(r"W\^\(([\d,]+)\)_\{E,i\}", " ".join(symbols)) == indices.split()
    said = " ".join(equations("rnnsearch").partition("In the table,")[2].split())
    assert "the layer of an encoder with one direction, or else both" in said


@pytest.mark.parametrize(
    ("options", "width"),
    [
        ({}, "a"),
        ({"score": "dot"}, "a"),
        ({"score": "sigmoid", "attention_dim": None}, "1"),
        ({"score": "general", "attention_dim": None}, "s"),
    ],
)
def test_the_keys_of_rnnsearch_have_a_documented_width(options: dict[str, Any], width: str) -> None:
    sizes = {"a": 5, "s": 10, "1": 1}
    given = {"embedding_dim": 4, "encoder_dim": 3, "hidden_dim": 10, "attention_dim": 5, **options}
    model = create_model("rnnsearch-tiny", source_vocab=9, target_vocab=9, **given)
    source = torch.tensor([[5, 6, 2]])
    memory = model.encode(source, source != 0).memory
    assert isinstance(memory, zoo_rnnsearch.network.Memory)
    assert memory.keys.shape == (1, 3, sizes[width])
    documented = str(zoo_rnnsearch.network.Memory.__doc__).partition("keys:")[2]
    assert width in re.findall(r"\w+", " ".join(re.findall(r"\(sentences, m, (.*?)\)", documented)))


def test_a_window_of_convs2s_has_the_width_below_its_layer() -> None:
    given: dict[str, Any] = {"encoder": [(6, 3)], "decoder": [(6, 3), (4, 2)]}
    model = create_model("convs2s-tiny", source_vocab=9, target_vocab=9, **given)
    source = torch.tensor([[5, 6, 2]])
    state = model.init_state(model.encode(source, source != 0).memory)
    assert isinstance(state, zoo_convs2s.network.State)
    assert [tuple(window.shape) for window in state.windows] == [(1, 2, 6), (1, 1, 6)]
    assert "(rows, k − 1, below)" in str(zoo_convs2s.network.State.__doc__)


def test_the_gradient_of_attention_is_divided_by_the_root_of_a_head_s_width() -> None:
    documented = str(zoo_transformer.attention._Attend.__doc__)
    assert re.findall(r"√\w+", documented) == ["√d_h", "√d_h"]


def test_a_symbol_of_the_page_on_recurrent_families_has_one_meaning() -> None:
    page = (PLUGINS.parent / "docs" / "seq2seq-and-rnnsearch.md").read_text(encoding="utf-8")
    assert "Let $e$ be the width of the embeddings" in page
    assert "$e$ times another" not in " ".join(page.split())
