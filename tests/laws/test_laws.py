"""Every law of the contract, for every registered architecture and for their variants."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from zoo.nn import Step
from zoo.nn.build import network_type
from zoo.registry.registry import default_registry
from zoo.testing import LAWS, BrokenLawError, Case, case, case_of

laws = pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)


@laws
@pytest.mark.parametrize("architecture", sorted(default_registry().architectures))
def test_law(architecture: str, law: Callable[[Case], Any]) -> None:
    law(case(architecture))


VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "seq2seq, one layer, GRU": ("seq2seq", {"layers": 1, "cell": "gru", "context": False}),
    "seq2seq, reversed source": ("seq2seq", {"reverse": True}),
    "seq2seq, context alone": ("seq2seq", {"start": False}),
    "rnnsearch, GRU": ("rnnsearch", {"cell": "gru", "readout": "state", "readout_dim": None}),
    "rnnsearch, one matrix": ("rnnsearch", {"readout_dim": 12, "share": "all"}),
    "rnnsearch, the paper's": ("rnnsearch", {"cell": "gru-before", "readout": "maxout"}),
    "rnnsearch, sigmoid": ("rnnsearch", {"score": "sigmoid", "attention_dim": None}),
    "rnnsearch, dot product": ("rnnsearch", {"score": "dot"}),
    "rnnsearch, three layers": (
        "rnnsearch",
        {"layers": 3, "start": "final", "encoder_dim": 16},
    ),
    "rnnsearch, two layers of GRU": (
        "rnnsearch",
        {
            "cell": "gru",
            "layers": 2,
            "start": "final",
            "encoder_dim": 16,
        },
    ),
    "convs2s, wide kernels": ("convs2s", {"encoder": ((8, 7),), "decoder": ((8, 4), (10, 4))}),
    "convs2s, the lesson's": (
        "convs2s",
        {"positions": False, "scale": False, "weight_norm": False},
    ),
    "transformer, pre-norm": ("transformer", {"norm": "pre", "decoder_layers": 4}),
    "transformer, the annotated one": (
        "transformer",
        {"norm": "branch", "unbiased_norm": True, "scale_embeddings": False},
    ),
    "transformer, no biases": ("transformer", {"attention_bias": False, "output_bias": False}),
    "transformer, shared target": ("transformer", {"share": "target"}),
    "transformer, all shared": ("transformer", {"share": "all"}),
}


@laws
@pytest.mark.parametrize("variant", VARIANTS)
def test_law_of_variant(variant: str, law: Callable[[Case], Any]) -> None:
    architecture, values = VARIANTS[variant]
    declared = default_registry().architecture(architecture)
    example = declared.config_type().example()
    config = type(example).model_validate({**example.model_dump(), **values})
    law(case_of(network_type(declared), config))


KINDS: dict[str, dict[str, tuple[int, int]]] = {
    "seq2seq": {},
    "rnnsearch": {"cross": (1, 1)},
    "convs2s": {"cross": (3, 1)},
    "transformer": {"encoder": (3, 4), "decoder": (2, 4), "cross": (2, 4)},
}


@pytest.mark.parametrize("architecture", KINDS)
def test_every_kind_of_attention_is_returned_by_layer_and_head(architecture: str) -> None:
    tried = case(architecture)
    _, kinds = tried.model(tried.source, tried.mask, tried.target, attention=True)
    memory, of_encoder = tried.model.encode(tried.source, tried.mask, attention=True)
    state = tried.model.init_state(memory)
    *_, of_step = tried.model.step(tried.target[:, 0], state, memory, attention=True)
    seen = {kind: tuple(weights.shape[1:3]) for kind, weights in kinds.items()}
    assert seen == KINDS[architecture]
    assert set(of_encoder) | set(of_step) == set(seen)


@pytest.mark.parametrize("architecture", KINDS)
def test_dropout_is_seeded_and_real(architecture: str) -> None:
    declared = default_registry().architecture(architecture)
    example = declared.config_type().example()
    config = type(example).model_validate({**example.model_dump(), "dropout": 0.3})
    tried = case_of(network_type(declared), config)
    for law in LAWS:
        if law.name == "randomness_is_seeded":
            law(tried)
    answers = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        answers.append(tried.model.train()(tried.source, tried.mask, tried.target).logits)
    assert torch.equal(answers[0], answers[1])
    assert not torch.equal(answers[0], answers[2])


def test_laws_can_be_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    from zoo.testing.decoding import step_equals_forward

    wrong = case("transformer")
    step = wrong.model.step

    def louder(token: Tensor, state: Any, memory: Any) -> Step:
        found = step(token, state, memory)
        return found._replace(logits=found.logits * 1.001)

    monkeypatch.setattr(wrong.model, "step", louder)
    with pytest.raises(BrokenLawError, match="step 0 differs from forward"):
        step_equals_forward(wrong)
