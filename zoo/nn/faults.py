"""The blame for what a network raises: it names the plugin that brings the network."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from zoo.errors import FAILURES, PluginError, ZooError, shown
from zoo.nn.contract import BeamSteps, Encoded, GreedySteps, Memory, Output, Seq2Seq, State, Step
from zoo.nn.tree import plain_tensors
from zoo.registry.open_shelf import BrokenEntryError
from zoo.registry.owners import Plugin
from zoo.registry.registry import default_registry


def plugin_of(kind: type) -> Plugin | None:
    """Return the plugin whose package has a network's class, or None if no architecture's has."""
    registry = default_registry()
    package = kind.__module__.partition(".")[0]
    for name, architecture in registry.architectures.items():
        if str(architecture.network).partition(":")[0].partition(".")[0] == package:
            return registry.architectures.owner(name).plugin
    return None


def broken_network(kind: type, reason: str, next: str = "") -> PluginError:
    """Return the error that a network is broken, with its plugin, the reason, and what to do."""
    plugin = plugin_of(kind)
    of = f" of {plugin}" if plugin else ""
    return BrokenEntryError(
        f"the network {kind.__name__}{of} is broken", reason, next or "Report this to its author"
    )


@contextlib.contextmanager
def blaming_network(network: object) -> Iterator[None]:
    """Turn what a plugin's network raises in this block into an error that names its plugin.

    Messages for the user pass, and so does what is raised where memory runs out.

    Raises:
        PluginError: the network raised something else.
    """
    try:
        yield
    except (ZooError, MemoryError, torch.OutOfMemoryError):
        raise
    except FAILURES as error:
        plugin = plugin_of(type(network))
        if plugin is None or plugin.builtin or "DefaultCPUAllocator" in str(error):
            raise
        reason = f"it raised {type(error).__name__}: {error}"
        raise broken_network(type(network), reason) from error


def encode(network: Seq2Seq[Memory, State], source: Tensor, mask: Tensor) -> Memory:
    """Return the memory of sources and their mask, (sentences, m) int64 and bool.

    Raises:
        PluginError: the network raised something, or returned no `Encoded`.
    """
    with blaming_network(network):
        encoded = network.encode(source, mask)
    _require_type(network, "encode", encoded, Encoded)
    return encoded.memory


def init_state(network: Any, memory: Memory) -> Any:
    """Return the state of a network, or of what has its methods, before the first token.

    Raises:
        PluginError: the network raised something, or rows are not the first dimension.
    """
    with blaming_network(network):
        state = network.init_state(memory)
    rows = [len(tensor) if tensor.dim() else 0 for tensor in plain_tensors((memory, state))]
    if len(set(rows)) > 1:
        shapes = ", ".join(str(tuple(t.shape)) for t in plain_tensors(state)[:3])
        reason = "tensors of its memory and state have different sizes on dimension 0, the rows"
        raise broken_network(type(network), f"{reason}; those of the state begin with {shapes}")
    return state


def step(
    network: Any, token: Tensor, state: State, memory: Memory, attention: bool = False
) -> Step[State]:
    """Return the next step of a network, or of what has its methods: see `Seq2Seq.step`.

    Raises:
        PluginError: the network raised something, or returned no `Step`.
    """
    with blaming_network(network):
        step = network.step(token, state, memory, attention)
    _require_type(network, "step", step, Step)
    vocab = getattr(network, "target_vocab", None)
    _require_logits(network, "step", step.logits, (len(token),), vocab)
    if attention:
        require_attention(network, "step", step.attention, len(token), 1)
    return step


def require_output(network: Any, output: object, target: Tensor, attention: bool = False) -> Output:
    """Return what `forward` returned for a target, (sentences, n), if it is an `Output`.

    Raises:
        PluginError: it is something else, or its logits, or attention that was asked for, are.
    """
    _require_type(network, "forward", output, Output)
    assert isinstance(output, Output)
    _require_logits(network, "forward", output.logits, tuple(target.shape), network.target_vocab)
    if attention:
        require_attention(network, "forward", output.attention, *target.shape)
    return output


def forward(
    network: Seq2Seq[Memory, State],
    source: Tensor,
    mask: Tensor,
    target: Tensor,
    attention: bool = False,
) -> Output:
    """Return the logits of all positions of a target: see `Seq2Seq.forward`.

    Raises:
        PluginError: the network raised something, or returned no such `Output`.
    """
    with blaming_network(network):
        output = network(source, mask, target, attention)
    return require_output(network, output, target, attention)


def greedy_steps(
    network: Seq2Seq[Memory, State],
    token: Tensor,
    state: State,
    memory: Memory,
    count: int,
    banned: Sequence[int],
) -> GreedySteps[State] | None:
    """Return several steps of a network: see `Seq2Seq.greedy_steps`.

    Raises:
        PluginError: the network raised something, or returned no `GreedySteps`.
    """
    with blaming_network(network):
        steps = network.greedy_steps(token, state, memory, count, banned)
    if steps is None:
        return None
    _require_type(network, "greedy_steps", steps, GreedySteps)
    for result in steps[:2]:
        _require_type(network, "greedy_steps", result, Tensor)
    tokens, scores = steps.tokens, steps.scores
    rows, taken = tokens.shape if tokens.dim() == 2 else (0, 0)
    if rows != len(token) or not 0 < taken <= count or scores.shape != tokens.shape:
        shapes = f"{tuple(tokens.shape)} and {tuple(scores.shape)}"
        expected = f"({len(token)}, 1 to {count})"
        reason = f"greedy_steps returned tokens and scores of shapes {shapes}, not {expected}"
        raise broken_network(type(network), reason)
    _require_ids(network, "greedy_steps returned tokens", tokens, network.target_vocab)
    return steps


def beam_steps(
    network: Seq2Seq[Memory, State],
    token: Tensor,
    state: State,
    memory: Memory,
    scores: Tensor,
    count: int,
    banned: Sequence[int],
) -> BeamSteps[State] | None:
    """Return several steps of a network: see `Seq2Seq.beam_steps`.

    Raises:
        PluginError: the network raised something, or returned no `BeamSteps`.
    """
    with blaming_network(network):
        steps = network.beam_steps(token, state, memory, scores, count, banned)
    if steps is None:
        return None
    _require_type(network, "beam_steps", steps, BeamSteps)
    for result in steps[:4]:
        _require_type(network, "beam_steps", result, Tensor)
    rows, taken = len(token), 1 + (len(steps.tokens) if steps.tokens.dim() else 0)
    expected = [(taken - 1, rows)] * 2 + [tuple(scores.shape), (rows, network.target_vocab)]
    shapes = [tuple(result.shape) for result in steps[:4]]
    reason = ""
    if shapes != expected:
        reason = f"beam_steps returned shapes {shapes}, not {expected}"
    elif taken > count:
        reason = f"beam_steps took {taken} steps, and at most {count} were asked for"
    elif not steps.scores.is_floating_point():
        reason = f"beam_steps returned scores of {steps.scores.dtype}"
    if reason:
        raise broken_network(type(network), reason)
    _require_ids(network, "beam_steps returned tokens", steps.tokens, network.target_vocab)
    _require_ids(network, "beam_steps returned parents", steps.parents, rows)
    beam = scores.shape[1]
    own = torch.arange(rows, device=steps.parents.device) // beam
    if bool((steps.parents // beam != own).any()):
        reason = "beam_steps returned parents in another sentence"
        raise broken_network(type(network), reason)
    return steps


def require_attention(
    network: object, method: str, attention: object, rows: int, queries: int
) -> None:
    """Raise a PluginError unless attention is a mapping of weights, (rows, …, …, queries, keys).

    The kind `encoder` has the tokens of the source as its queries.
    """
    if not isinstance(attention, Mapping):
        reason = f"{method} returned attention of type {type(attention).__name__}, not a mapping"
        raise broken_network(type(network), f"{reason} of kinds to weights")
    for kind, weights in attention.items():
        shape = tuple(weights.shape) if isinstance(weights, Tensor) else ()
        of_targets = kind != "encoder"
        if len(shape) != 5 or shape[0] != rows or (of_targets and shape[3] != queries):
            given = f"shape {shape}" if isinstance(weights, Tensor) else shown(weights)
            what = f"(rows, layers, heads, queries, keys) of {rows} rows and {queries} queries"
            reason = f"{method} returned {shown(kind)} attention of {given}, not {what}"
            raise broken_network(type(network), reason)


def _require_logits(
    network: object, method: str, logits: object, shape: tuple[int, ...], vocab: int | None
) -> None:
    """Raise a PluginError unless logits are a tensor of a shape and, if known, a vocabulary."""
    if not isinstance(logits, Tensor):
        reason = f"{method} returned logits of type {type(logits).__name__}, not Tensor"
        raise broken_network(type(network), f"{reason}: they are the first field of its result")
    expected = (*shape, logits.shape[-1] if vocab is None and logits.dim() else vocab)
    if logits.shape != expected:
        reason = f"{method} returned logits of shape {tuple(logits.shape)}, not {expected}"
        raise broken_network(type(network), reason)


def _require_type(network: object, method: str, result: object, kind: type[object]) -> None:
    """Raise a PluginError unless a result is of a type."""
    if not isinstance(result, kind):
        expected = f"{'an' if kind in (Encoded, Output) else 'a'} {kind.__name__}"
        reason = f"{method} returned a value of type {type(result).__name__}, not {expected}"
        raise broken_network(type(network), reason)


def _require_ids(network: object, what: str, ids: Tensor, count: int) -> None:
    """Raise a PluginError unless all numbers are of int64, from 0 to below a count."""
    if ids.dtype is not torch.int64 or not ids.clamp(0, count - 1).equal(ids):
        raise broken_network(type(network), f"{what} that are not int64 below {count:,}")
