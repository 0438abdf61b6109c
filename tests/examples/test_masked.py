"""A network with a search of its own: mask-predict, which writes all tokens of a target at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import Result
from torch import Tensor

import zoo
from tests.examples.data import correct, train
from zoo.decoding.ensemble import Ensemble
from zoo.errors import ConversionError, DecodingError
from zoo.nn import BEGIN, END, Decoded
from zoo.registry.registry import Registry
from zoo.serving.beam_tree import beam_tree
from zoo.testing import LAWS, BrokenLawError, Law, case
from zoo.testing.outcomes import Outcomes

Run = Callable[..., Result]
LAW = {law.name: law for law in LAWS}
TEXT = "the red cat runs"


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_law(law: Law, networks: Registry) -> None:
    law(case("masked", networks))


@pytest.mark.parametrize(
    ("architecture", "name", "reason"),
    [
        ("masked", "step_equals_forward", "the network predicts all tokens together"),
        ("masked", "future_is_ignored", "the network predicts all tokens together"),
        ("pooled", "decode_gives_targets", "the network has no search of its own"),
    ],
)
def test_a_law_that_makes_no_sense_is_skipped_with_its_reason(
    architecture: str, name: str, reason: str, networks: Registry
) -> None:
    outcomes = Outcomes(LAWS, lambda: case(architecture, networks))
    with pytest.raises(pytest.skip.Exception, match=f"does not apply: {reason}"):
        outcomes.run(LAW[name])


def replaced(decoded: Decoded, **parts: Tensor) -> Decoded:
    return decoded._replace(**parts)


def before_end(ids: Tensor, token: int) -> Tensor:
    """Write a token in the place before the end token of the first row."""
    ids = ids.clone()
    ids[0, ids[0].tolist().index(END) - 1] = token
    return ids


FAULTS: dict[str, tuple[str, Callable[[Decoded], Any], str]] = {
    "a begin token": (
        "decode_gives_targets",
        lambda d: replaced(d, tokens=before_end(d.tokens, BEGIN)),
        "with a token of the banned",
    ),
    "two end tokens": (
        "decode_gives_targets",
        lambda d: replaced(d, tokens=before_end(d.tokens, END)),
        "not some tokens, the end token 2, then padding",
    ),
    "too long": (
        "decode_gives_targets",
        lambda d: Decoded(
            torch.cat([d.tokens[:, :1].expand(-1, 40), d.tokens], 1),
            torch.cat([d.log_probs[:, :1].expand(-1, 40), d.log_probs], 1),
        ),
        "tokens, over its limit 6",
    ),
    "probabilities": (
        "decode_gives_targets",
        lambda d: replaced(d, log_probs=d.log_probs.exp()),
        "log_probs are not at most 0",
    ),
    "random": (
        "decode_gives_targets",
        lambda d: replaced(d, log_probs=d.log_probs * (1 + torch.rand(()))),
        "decode gives other results for the same memory",
    ),
    "a tuple": (
        "decode_gives_targets",
        lambda d: (d.tokens, d.log_probs),
        "decode returns a tuple, not zoo.nn.Decoded",
    ),
    "a mean over the batch": (
        "decode_ignores_the_batch",
        lambda d: replaced(d, log_probs=d.log_probs * d.log_probs.mean().abs()),
        "the sums of log_probs differ",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_detected(
    name: str, networks: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    law, change, message = FAULTS[name]
    tried = case("masked", networks)
    decode: Callable[..., Decoded] = tried.model.decode  # type: ignore[assignment]
    monkeypatch.setattr(tried.model, "decode", lambda *arguments: change(decode(*arguments)))
    with pytest.raises(BrokenLawError, match=message):
        LAW[law](tried)


def test_a_network_that_ignores_the_limits_breaks_a_law(
    networks: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = case("masked", networks)
    decode: Callable[..., Decoded] = tried.model.decode  # type: ignore[assignment]
    monkeypatch.setattr(
        tried.model,
        "decode",
        lambda memory, limits, banned: decode(memory, torch.full_like(limits, 6), banned),
    )
    with pytest.raises(BrokenLawError, match=r"target 0 has \d tokens, over its limit 2"):
        LAW["decode_gives_targets"](tried)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            lambda logits, target: logits + target[:, :, None],
            "other tokens of the target change the logits",
        ),
        (
            lambda logits, target: logits / target.shape[1],
            "target 1 gives other logits without padding",
        ),
    ],
    ids=["its tokens", "its padding"],
)
def test_a_network_that_reads_the_target_in_evaluation_breaks_a_law(
    changed: Callable[..., Tensor],
    message: str,
    networks: Registry,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = case("masked", networks)
    forward = tried.model.forward

    def reading(source: Tensor, mask: Tensor, target: Tensor, attention: bool = False) -> Any:
        output = forward(source, mask, target, attention)
        return output._replace(logits=changed(output.logits, target))

    monkeypatch.setattr(tried.model, "forward", reading)
    with pytest.raises(BrokenLawError, match=message):
        LAW["target_gives_its_length_alone"](tried)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint that was validated, with samples, while it was trained."""
    folder = tmp_path_factory.mktemp("trained")
    return train("masked-small", folder, steps=150, validate_every=50)


def test_it_learns_and_decodes_with_its_own_search(trained: Path) -> None:
    assert correct(trained) == 1
    translator = zoo.load(trained)
    (made,) = translator.translate([TEXT], details=True, alignment=True)
    assert made.text == "chat rouge court"
    assert made.finished
    assert made.score < 0
    assert made.alignment
    assert list(translator.attention(TEXT).weights) == ["encoder", "joint"]
    assert len(translator.score(TEXT, "chat rouge court")) == 4
    assert translator.evaluate([(TEXT, "chat rouge court")]).by_name["chrf"].value == 100


def test_a_batch_gives_what_one_text_gives(trained: Path) -> None:
    texts = [TEXT, "the red", "red", f"{TEXT} the blue dog eats", ""]
    translator = zoo.load(trained)
    assert translator.translate(texts) == [translator.translate(text) for text in texts]


def test_options_that_it_follows(trained: Path) -> None:
    translator = zoo.load(trained)
    (made,) = translator.translate([TEXT], details=True, max_length=3)
    assert len(made.tokens) <= 2
    assert "rouge" not in translator.translate(TEXT, banned=("▁rouge",))
    with pytest.raises(DecodingError, match="has no room for a token"):
        translator.translate(TEXT, max_length=1)


def test_tokens_that_cannot_be_banned_are_no_fault_of_the_network(trained: Path) -> None:
    translator = zoo.load(trained)
    size = translator.checkpoint.target_tokenizer.size
    for token in (-1, size, 10**6):
        why = f"cannot ban token {token}: the vocabulary's ids are 0 to {size - 1}"
        with pytest.raises(DecodingError, match=why):
            translator.translate(TEXT, banned=(token,))
    with pytest.raises(DecodingError, match=r"no translation is possible: .* ban every token"):
        translator.translate(TEXT, banned=tuple(range(size)))


def test_options_that_it_cannot_follow_are_refused_in_one_line(trained: Path, run: Run) -> None:
    done = run("translate", trained, TEXT, "--beam", 3, "--length-penalty", 1, "--prefix", "chat")
    assert done.exit_code == 1
    assert done.stderr == (
        "Error: this model cannot follow `--beam`, `--length-penalty`, `--prefix`: Masked predicts "
        "all tokens together, by a search of its own. Leave these options out\n"
    )
    for option in (("--sample",), ("--exhaustive",)):
        assert "cannot follow" in run("translate", trained, TEXT, *option).stderr


def test_what_needs_steps_is_refused_in_one_line(trained: Path, tmp_path: Path) -> None:
    checkpoint = zoo.load(trained).checkpoint
    with pytest.raises(DecodingError, match="cannot write a translation one token at a time"):
        beam_tree(checkpoint, TEXT, {})
    with pytest.raises(DecodingError, match="has no probability of the next token"):
        Ensemble([checkpoint.model, checkpoint.model])
    with pytest.raises(ConversionError, match="an exported graph is of one step"):
        zoo.export(trained, "onnx", tmp_path / "out")
