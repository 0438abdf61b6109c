"""Networks with unusual attention: weights of any sum, pooled keys, source and target in one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from click.testing import Result
from torch import Tensor

import zoo
from tests.examples.data import correct, train
from zoo.errors import DecodingError
from zoo.nn import AttentionKind, Output
from zoo.registry.registry import Registry
from zoo.testing import LAWS, BrokenLawError, Law, case

Run = Callable[..., Result]
VARIANTS = [("pooled", {}), ("pooled", {"stride": 3}), ("prefix", {})]
TEXT, TARGET = "the red cat runs", "chat rouge court"
LAW = {law.name: law for law in LAWS}


@pytest.mark.sweep
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
@pytest.mark.parametrize(("name", "values"), VARIANTS)
def test_law(name: str, values: dict[str, int], law: Law, networks: Registry) -> None:
    law(case(name, networks, **values))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("trained")
    return {
        "pooled": train("pooled-small", folder),
        "prefix": train("prefix-small", folder, shared_vocab=True),
    }


@pytest.mark.parametrize("name", ["pooled", "prefix"])
def test_it_learns(name: str, trained: dict[str, Path]) -> None:
    assert correct(trained[name]) == 1
    assert correct(trained[name], beam=3) == 1


def test_keys_of_several_tokens_are_labeled_by_all_of_them(
    trained: dict[str, Path], run: Run
) -> None:
    attention = zoo.load(trained["pooled"]).attention(TEXT, TARGET)
    assert attention.keys("cross") == ["▁the ▁red", "▁cat ▁runs", "</s>"]
    assert attention.weights["cross"].shape == (1, 1, 4, 3)
    printed = json.loads(run("attention", trained["pooled"], TEXT, "--json").stdout)
    assert printed["kinds"]["cross"]["keys"] == attention.keys("cross")
    for suffix in ("html", "svg"):
        out = trained["pooled"].parent / f"a.{suffix}"
        assert run("attention", trained["pooled"], TEXT, "--out", out).exit_code == 0
        assert out.stat().st_size > 1000
    assert run("attention", trained["pooled"], TEXT).exit_code == 0


def test_a_word_is_aligned_to_the_first_token_of_its_key(trained: dict[str, Path]) -> None:
    translator = zoo.load(trained["pooled"])
    (alignment,) = [t.alignment for t in translator.translate([TEXT], details=True, alignment=True)]
    weights = translator.attention(TEXT, TARGET).weights["cross"][0, 0]
    keys = weights.argmax(1).tolist()[:3]
    assert alignment == tuple(sorted((2 * k, j) for j, k in enumerate(keys) if k < 2))


def test_joint_attention_is_shown_and_aligned_by_its_part_over_the_source(
    trained: dict[str, Path], run: Run
) -> None:
    translator = zoo.load(trained["prefix"])
    attention = translator.attention(TEXT, TARGET)
    tokens = ["▁the", "▁red", "▁cat", "▁runs", "</s>"]
    assert attention.keys("joint") == [*tokens, "<s>", "▁chat", "▁rouge", "▁court"]
    assert list(attention.weights) == ["encoder", "joint"]
    joint = attention.weights["joint"]
    assert joint.shape == (2, 2, 4, 9)
    torch.testing.assert_close(joint.sum(-1), torch.ones(2, 2, 4))
    (made,) = translator.translate([TEXT], details=True, alignment=True)
    best = joint.mean((0, 1))[:3, :5].argmax(1).tolist()
    assert made.alignment == tuple(sorted((i, j) for j, i in enumerate(best) if i < 4))
    assert run("attention", trained["prefix"], TEXT, "--kind", "joint").exit_code == 0


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("pooled", "the weights of this model's attention do not sum to one"),
        ("prefix", "one softmax of this model covers source and target together"),
    ],
)
def test_a_coverage_penalty_is_refused(name: str, reason: str, trained: dict[str, Path]) -> None:
    with pytest.raises(DecodingError, match=reason):
        zoo.load(trained[name]).translate(TEXT, beam=2, coverage_penalty=0.2)


def test_a_coverage_penalty_sums_over_keys(networks: Registry) -> None:
    """With keys of two tokens whose weights sum to one, the penalty is that of the keys."""
    from zoo.decoding.options import Search
    from zoo.decoding.processors import CoveragePenalty
    from zoo.decoding.task import Task

    tried = case("pooled", networks)
    tried.model.attention_kinds = {"cross": AttentionKind(stride=2)}
    memory = tried.model.encode(tried.source, tried.mask).memory
    made = CoveragePenalty.create(Task(tried.model, memory, tried.mask), Search(coverage_penalty=2))
    assert made is not None
    rows = torch.arange(len(tried.source))
    state = made.update(made.init_state(rows), rows, {"cross": torch.full((5, 1, 1, 1, 5), 0.25)})
    keys = (tried.mask.sum(1) + 1) // 2
    torch.testing.assert_close(made.penalty(state, rows), 2 * keys * torch.tensor(0.25).log())


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ({"cross": AttentionKind(stride=2)}, "cross attention's sum: off by"),
        ({"cross": AttentionKind(sums_to_one=False)}, r"= \(5, layers, heads, 8, 9\)"),
        (
            {"cross": AttentionKind(False, 2), "encoder": AttentionKind()},
            "`attention_kinds` declares encoder, which forward does not give",
        ),
    ],
)
def test_what_is_not_declared_right_breaks_the_law(
    kinds: dict[str, AttentionKind], message: str, networks: Registry
) -> None:
    tried = case("pooled", networks)
    tried.model.attention_kinds = kinds
    with pytest.raises(BrokenLawError, match=message):
        LAW["attention_sums_to_one"](tried)


@pytest.mark.parametrize("column", [8, 9 + 7], ids=["padding", "future"])
def test_joint_attention_to_padding_or_the_future_breaks_the_law(
    column: int, networks: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = case("prefix", networks)
    forward = tried.model.forward

    def leaking(source: Tensor, mask: Tensor, target: Tensor, attention: bool = False) -> Output:
        logits, kinds, _ = forward(source, mask, target, attention)
        joint = kinds["joint"].clone()
        joint[0, 0, 0, 0, column] += 0.5
        joint[0, 0, 0, 0, 0] -= 0.5
        return Output(logits, {**kinds, "joint": joint})

    monkeypatch.setattr(tried.model, "forward", leaking)
    with pytest.raises(BrokenLawError, match="joint attention attends to padding or to the future"):
        LAW["attention_sums_to_one"](tried)


def test_keys_that_stand_for_no_tokens_are_numbered_and_not_aligned(
    trained: dict[str, Path],
) -> None:
    translator = zoo.load(trained["pooled"])
    translator.checkpoint.model.attention_kinds = {"cross": AttentionKind(stride=None)}
    assert translator.attention(TEXT, TARGET).keys("cross") == ["1", "2", "3"]
    with pytest.raises(DecodingError, match="stand for no source tokens"):
        translator.translate(TEXT, alignment=True)
    with pytest.raises(DecodingError, match="stand for no source tokens"):
        translator.translate(TEXT, beam=2, coverage_penalty=0.2)
