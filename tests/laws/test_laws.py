"""Every law of the contract, for every registered architecture and for variants of its config."""

from typing import Any

import pytest
import torch
from torch import Tensor

from zoo.nn import Step, Tree
from zoo.nn.build import network_type
from zoo.nn.tree import plain_tensors
from zoo.registry.registry import default_registry
from zoo.testing import LAWS, BrokenLawError, Law, case, case_of, masking

pytestmark = pytest.mark.usefixtures("imports_checked")
laws = pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)


@laws
@pytest.mark.parametrize("architecture", sorted(default_registry().architectures))
def test_law(architecture: str, law: Law) -> None:
    law(case(architecture))


VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "seq2seq, one layer, GRU": ("seq2seq", {"layers": 1, "cell": "gru", "context": False}),
    "seq2seq, reversed source": ("seq2seq", {"reverse": True}),
    "seq2seq, context only": ("seq2seq", {"start": False}),
    "rnnsearch, GRU": ("rnnsearch", {"cell": "gru", "readout": "state", "readout_dim": None}),
    "rnnsearch, shared embeddings": ("rnnsearch", {"readout_dim": 12, "share": "all"}),
    "rnnsearch, as in the paper": ("rnnsearch", {"cell": "gru-before", "readout": "maxout"}),
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
    "rnnsearch, Luong with input feeding": (
        "rnnsearch",
        {
            "layers": 2,
            "start": "projected",
            "directions": 2,
            "score": "general",
            "attention_dim": None,
            "readout": "attentional",
            "input_feeding": True,
            "projection_dim": 10,
            "target_embedding_dim": 10,
            "share": "target",
        },
    ),
    "rnnsearch, Luong's concat": (
        "rnnsearch",
        {
            "cell": "gru",
            "decoder_layers": 2,
            "directions": 2,
            "start": "top",
            "readout": "attentional",
            "input_feeding": True,
            "attention_bias": True,
            "activation": "gelu",
        },
    ),
    "rnnsearch, Luong's dot": (
        "rnnsearch",
        {
            "layers": 2,
            "start": "joint",
            "encoder_dim": 16,
            "score": "luong-dot",
            "attention_dim": None,
            "readout": "attentional",
            "activation": "identity",
            "readout_dim": 12,
            "share": "embeddings",
        },
    ),
    "rnnsearch, from the last state": (
        "rnnsearch",
        {"start": "last", "directions": 2, "decoder_layers": 2},
    ),
    "rnnsearch, from zero": ("rnnsearch", {"start": "zero", "cell": "gru"}),
    "convs2s, wide kernels": ("convs2s", {"encoder": ((8, 7),), "decoder": ((8, 4), (10, 4))}),
    "convs2s, as in the lesson": (
        "convs2s",
        {"positions": False, "scale": False, "weight_norm": False},
    ),
    "transformer, pre-norm": ("transformer", {"norm": "pre", "decoder_layers": 4}),
    # Here rounding decides whether one hidden unit is above zero.
    "transformer, at the kink of a ReLU": ("transformer", {"heads": 6}),
    "transformer, the annotated one": (
        "transformer",
        {"norm": "branch", "unbiased_norm": True, "scale_embeddings": False},
    ),
    "transformer, no biases": ("transformer", {"attention_bias": False, "output_bias": False}),
    "transformer, shared target": ("transformer", {"share": "target"}),
    "transformer, all shared": ("transformer", {"share": "all"}),
    "transformer, as mBART": (
        "transformer",
        {
            "activation": "gelu",
            "embedding_norm": True,
            "norm": "pre",
            "position_offset": 2,
            "positions": "learned",
            "share": "embeddings",
        },
    ),
    "transformer, as fairseq": (
        "transformer",
        {
            "activation": "silu",
            "final_norm": True,
            "norm_epsilon": 1e-6,
            "position_offset": 2,
            "positions": "fairseq",
        },
    ),
    "transformer, without the source's end": ("transformer", {"source_end": False}),
    "rnnsearch, without the source's end": (
        "rnnsearch",
        {"source_end": False, "start": "top", "directions": 2},
    ),
    "transformer, pre-norm without a final norm": (
        "transformer",
        {"activation": "gelu_tanh", "final_norm": False, "norm": "pre"},
    ),
    "t5, first version": ("t5", {"activation": "relu", "gated": False, "share": "all"}),
    "t5, biases of each layer": ("t5", {"layer_positions": True, "share": "embeddings"}),
}


LEARNING = {
    "seq2seq, reversed source", "rnnsearch, Luong with input feeding", "rnnsearch, as in the paper",
    "rnnsearch, from zero", "convs2s, wide kernels", "transformer, as mBART", "t5, first version",
    "transformer, the annotated one", "transformer, pre-norm without a final norm",
}  # fmt: skip
"""The variants that also learn to copy, which is slow; all have gradients for all parameters.

The seq2seq with a context only needs about 400 updates, and on one processor 522.
"""


OF_PLUGINS = {"declaration_imports_no_torch", "plugin_has_no_problems", "process_settings_stay"}
"""Laws about a package and its process, the same for each of its networks."""

OF_VARIANTS = [
    pytest.param(variant, law, id=f"{variant}-{law.name}")
    for variant in VARIANTS
    for law in LAWS
    if law.name not in OF_PLUGINS
    if law.name != "learns_a_copy_task" or variant in LEARNING
]


@pytest.mark.sweep
@pytest.mark.parametrize(("variant", "law"), OF_VARIANTS)
def test_law_of_variant(variant: str, law: Law, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "STEPS", 20)  # `test_law` takes as many as there are
    monkeypatch.setattr(masking, "UNLIMITED", 40)
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
    "t5": {"encoder": (3, 4), "decoder": (2, 4), "cross": (2, 4)},
}


@pytest.mark.parametrize("architecture", KINDS)
def test_attention_has_every_layer_and_head(architecture: str) -> None:
    tried = case(architecture)
    output = tried.model(tried.source, tried.mask, tried.target, attention=True)
    encoded = tried.model.encode(tried.source, tried.mask, attention=True)
    state = tried.model.init_state(encoded.memory)
    step = tried.model.step(tried.target[:, 0], state, encoded.memory, attention=True)
    kinds = {kind: tuple(weights.shape[1:3]) for kind, weights in output.attention.items()}
    assert kinds == KINDS[architecture]
    assert set(encoded.attention) | set(step.attention) == set(kinds)


@pytest.mark.parametrize("architecture", sorted(default_registry().architectures))
def test_a_batch_without_sentences_has_an_empty_memory(architecture: str) -> None:
    """Transformers could not split the heads of no rows: torch called the size -1 ambiguous."""
    tried = case(architecture)
    for gradient in (True, False):
        with torch.set_grad_enabled(gradient):
            memory = tried.model.encode(tried.source[:0], tried.mask[:0]).memory
        assert {len(tensor) for tensor in plain_tensors(memory)} == {0}


@pytest.mark.parametrize("architecture", KINDS)
def test_dropout_is_seeded_and_changes_results(architecture: str) -> None:
    declared = default_registry().architecture(architecture)
    example = declared.config_type().example()
    config = type(example).model_validate({**example.model_dump(), "dropout": 0.3})
    tried = case_of(network_type(declared), config)
    for law in LAWS:
        if law.name == "randomness_is_seeded":
            law(tried)
    logits = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        logits.append(tried.model.train()(tried.source, tried.mask, tried.target).logits)
    assert torch.equal(logits[0], logits[1])
    assert not torch.equal(logits[0], logits[2])


def test_a_wider_transformer_learns_a_copy_task() -> None:
    """Without its warm-up, the law's learning rate would be too high for it."""
    (learns,) = (law for law in LAWS if law.name == "learns_a_copy_task")
    learns(case("transformer", dim=64))


def test_laws_can_be_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    from zoo.testing.decoding import step_equals_forward

    wrong = case("transformer")
    step = wrong.model.step

    def scaled(token: Tensor, state: Tree, memory: Tree) -> Step:
        result = step(token, state, memory)
        return result._replace(logits=result.logits * 1.001)

    monkeypatch.setattr(wrong.model, "step", scaled)
    with pytest.raises(BrokenLawError, match="step 0 differs from forward"):
        step_equals_forward(wrong)
