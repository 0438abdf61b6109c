"""Laws of the attention weights that a network returns."""

from __future__ import annotations

import torch
from torch import Tensor

from zoo.nn.contract import PADDING, USUAL_KIND, Attention, AttentionKind, NonAutoregressive
from zoo.nn.tree import Tree, tensors
from zoo.testing.case import ROWS, Case
from zoo.testing.law import BrokenLawError, law, require_close

KINDS = ("encoder", "cross", "decoder", "joint")
"""The kinds of attention, as `zoo.nn.Attention` defines them."""


@law(
    causes="a branch on attention that computes something else, or leaves it out; weights returned "
    "although attention was not requested",
    requires="step_is_pure",
)
@torch.no_grad()
def attention_flag_fills_a_field(case: Case) -> None:
    """attention=True fills the field `attention` and changes no other result."""
    model, token = case.model, case.target[:, 0]
    plain, encoded = (model.encode(case.source, case.mask, flag) for flag in (False, True))
    _require_equal_trees("the memory", encoded.memory, plain.memory)
    if not isinstance(model, NonAutoregressive):
        state = model.init_state(plain.memory)
        plain_step, step = (model.step(token, state, plain.memory, flag) for flag in (False, True))
        _require_equal_trees("the state", step.state, plain_step.state)
        require_close(step.logits, plain_step.logits, "attention=True changes step's logits")
        if plain_step.attention:
            raise BrokenLawError("step returns attention that was not requested")
    plain_output, output = (
        model(case.source, case.mask, case.target, flag) for flag in (False, True)
    )
    require_close(output.logits, plain_output.logits, "attention=True changes forward's logits")
    for method, result in (("encode", plain), ("forward", plain_output)):
        if result.attention:
            raise BrokenLawError(f"{method} returns attention that was not requested")


def _require_equal_trees(what: str, tree: Tree, expected: Tree) -> None:
    for one, other in zip(tensors(tree), tensors(expected), strict=True):
        require_close(one, other, f"attention=True changes {what}")


@law(
    causes="a kind that forward leaves out, or names differently; a step that numbers layers or "
    "heads in another order; weights of a step in another layout than (rows, layers, heads, 1, "
    "keys)",
    requires="step_equals_forward attention_flag_fills_a_field",
)
@torch.no_grad()
def forward_gives_every_attention(case: Case) -> None:
    """forward's attention has the kinds that encode and step give, with equal weights."""
    model = case.model
    attention = model(case.source, case.mask, case.target, attention=True).attention
    encoded = model.encode(case.source, case.mask, attention=True)
    for kind, weights in encoded.attention.items():
        expected = _of_kind(kind, attention, "encode")
        require_close(expected, weights, f"{kind} attention of forward differs from encode's")
    if isinstance(model, NonAutoregressive):
        return  # the other kinds are forward's alone
    state = model.init_state(encoded.memory)
    first = model.step(case.target[:, 0], state, encoded.memory, attention=True).attention
    lacking = [kind for kind in attention if kind not in encoded.attention and kind not in first]
    if lacking:
        raise BrokenLawError(
            f"forward gives {', '.join(lacking)} attention, but neither encode nor step does"
            + ("; the coverage penalty needs step's" if "cross" in lacking else "")
        )
    for position in range(case.target.shape[1]):
        step = model.step(case.target[:, position], state, encoded.memory, attention=True)
        state = step.state
        for kind, weights in step.attention.items():
            expected = _of_kind(kind, attention, "step")[:, :, :, position]
            of_step = weights[:, :, :, 0]
            what = f"{kind} attention of step {position} differs from forward's"
            require_close(of_step, expected[..., : of_step.shape[-1]], what)


def _of_kind(kind: str, attention: Attention, method: str) -> Tensor:
    if kind not in attention:
        kinds = ", ".join(attention) or "none"
        raise BrokenLawError(f"{method} gives {kind} attention, forward does not: it gives {kinds}")
    return attention[kind]


@law(
    causes="weights before the softmax, or after dropout; a mask that is missing; layers or heads "
    "on another dimension than (rows, layers, heads, queries, keys); weights that need not sum to "
    "one, or keys of another length, not declared in `attention_kinds`",
    requires="forward_gives_every_attention",
)
@torch.no_grad()
def attention_sums_to_one(case: Case) -> None:
    """Attention weights sum to one over real tokens, and are zero at padding and the future."""
    output = case.model(case.source, case.mask, case.target, attention=True)
    encoded = case.model.encode(case.source, case.mask, attention=True)
    for kind, weights in (*output.attention.items(), *encoded.attention.items()):
        if kind not in KINDS:
            raise BrokenLawError(
                f"{kind!r} is not a kind of attention; the kinds are {', '.join(KINDS)}"
            )
        declared = case.model.attention_kinds.get(kind, USUAL_KIND)
        _require_sizes(kind, weights, declared, case)
        allowed = _allowed(kind, declared, weights, case)
        elsewhere = weights.masked_select(~allowed.expand_as(weights)).abs()
        if elsewhere.any():
            raise BrokenLawError(
                f"{kind} attention attends to padding or to the future: the largest weight there "
                f"is {float(elsewhere.max()):.2g}, the threshold is 0"
            )
        if declared.sums_to_one:
            ones = torch.ones_like(weights[..., 0])
            require_close(weights.sum(-1), ones, f"{kind} attention's sum")
        elif not weights.isfinite().all():
            raise BrokenLawError(f"{kind} attention has infinite or NaN weights")
    unknown = [kind for kind in case.model.attention_kinds if kind not in output.attention]
    if unknown:
        raise BrokenLawError(
            f"`attention_kinds` declares {', '.join(unknown)}, which forward does not give"
        )


def _require_sizes(kind: str, weights: Tensor, declared: AttentionKind, case: Case) -> None:
    """Raise unless weights are (rows, layers, heads, queries, keys)."""
    n = case.target.shape[1]
    of_target = n if kind == "joint" else 0
    k = declared.keys(case.mask).shape[1]
    if declared.stride is None and weights.dim() == 5:
        k = weights.shape[4] - of_target  # keys that stand for no tokens may be any number
    queries, keys = {"encoder": (k, k), "decoder": (n, n)}.get(kind, (n, k + of_target))
    if weights.dim() != 5 or (len(weights), *weights.shape[3:]) != (ROWS, queries, keys):
        raise BrokenLawError(
            f"{kind} attention is {tuple(weights.shape)}, not (rows, layers, heads, queries, "
            f"keys) = ({ROWS}, layers, heads, {queries}, {keys})"
        )


def _allowed(kind: str, declared: AttentionKind, weights: Tensor, case: Case) -> Tensor:
    """Return where weights may differ from 0, which broadcasts to their shape."""
    n = case.target.shape[1]
    causal = torch.ones(n, n, dtype=torch.bool).tril()[None, None, None]
    if isinstance(case.model, NonAutoregressive):
        causal = (case.target != PADDING)[:, None, None, None].expand(-1, 1, 1, n, -1)
    if kind == "decoder":
        return causal
    if declared.stride is None:
        k = weights.shape[4] - (n if kind == "joint" else 0)
        real = torch.ones(ROWS, k, dtype=torch.bool)
    else:
        real = declared.keys(case.mask)
    of_source = real[:, None, None, None]
    if kind != "joint":
        return of_source
    parts = of_source.expand(-1, -1, -1, n, -1), causal.expand(ROWS, -1, -1, -1, -1)
    return torch.cat(parts, 4)
