"""The laws: functions of a `Case` that raise `BrokenLawError`, with what was seen and why.

They run in float64 on the architecture's example config, with five sentences (unlike any example's
layer count), sources of three tokens and more, and a beam of three.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from safetensors.torch import load, save
from torch import Tensor

from zoo.model import BEGIN, END, PADDING, build
from zoo.testing.case import (
    BEAM,
    ROWS,
    SOURCE_LENGTHS,
    TARGET_VOCAB,
    BrokenLawError,
    Case,
    same,
)
from zoo.tree import gather, tensors


@torch.no_grad()
def shapes(case: Case) -> None:
    """Everything has the shape and rows that the contract says."""
    memory = case.model.encode(case.source, case.mask)
    state = case.model.init_state(memory)
    logits, after = case.model.step(case.target[:, 0], state, memory)
    for name, tree in (("memory", memory), ("state", state), ("state after a step", after)):
        for tensor in tensors(tree):
            if tensor.dim() == 0 or len(tensor) != ROWS:
                shape = tuple(tensor.shape)
                raise BrokenLawError(
                    f"{name} holds a tensor {shape}: its rows are not on dimension 0"
                )
    if logits.shape != (ROWS, TARGET_VOCAB):
        raise BrokenLawError(f"step's logits are {tuple(logits.shape)}, not (rows, target_vocab)")


@torch.no_grad()
def step_equals_forward(case: Case) -> None:
    """Stepping through a target gives the logits that forward gives of all positions at once."""
    model = case.model
    wanted = model(case.source, case.mask, case.target)
    memory = model.encode(case.source, case.mask)
    state = model.init_state(memory)
    for place in range(case.target.shape[1]):
        logits, state = model.step(case.target[:, place], state, memory)
        cause = "Usual causes: a position off by one, a window too short, an unmasked source"
        same(logits, wanted[:, place], f"step {place} differs from forward", cause)


@torch.no_grad()
def step_of_gathered_is_gathered_step(case: Case) -> None:
    """Rows of memory and state may be reordered, widened to a beam and dropped at any time."""
    model = case.model
    memory = model.encode(case.source, case.mask)
    state = model.init_state(memory)
    for place in range(2):
        _, state = model.step(case.target[:, place], state, memory)
    wide = gather(state, torch.arange(ROWS).repeat_interleave(BEAM))
    token = torch.randint(END + 1, TARGET_VOCAB, (ROWS * BEAM,))
    logits, after = model.step(token, wide, memory)
    cause = "Usual causes: state outside what gather reaches, rows not on dimension 0"
    _, _, wide_kinds = model.step(token, wide, memory, attention=True)
    for beam in range(BEAM):
        narrow, _, kinds = model.step(token[beam::BEAM], state, memory, attention=True)
        for kind, weights in kinds.items():
            what = f"{kind} attention of row {beam} of a beam is not that of a beam of 1"
            same(wide_kinds[kind][beam::BEAM], weights, what, cause)
        same(logits[beam::BEAM], narrow, f"row {beam} of each beam differs from a beam of 1", cause)
    # Drop sentences 1 and 3, and let the beams of the others change places.
    kept = torch.tensor([4, 0, 2])
    rows = (kept[:, None] * BEAM + torch.tensor([2, 0, 0])).flatten()
    following = torch.randint(END + 1, TARGET_VOCAB, (ROWS * BEAM,))
    wanted, _ = model.step(following, after, memory)
    seen, _ = model.step(following[rows], gather(after, rows), gather(memory, kept))
    same(seen, wanted[rows], "the step of gathered rows is not the gathered step", cause)


@torch.no_grad()
def padding_changes_nothing(case: Case) -> None:
    """A sentence gives the same alone, in a batch, and behind more padding."""
    wanted = case.model(case.source, case.mask, case.target)
    cause = (
        "Usual causes: attention to padding, a recurrent net that reads it, a convolution over it"
    )
    source, mask = F.pad(case.source, (0, 3)), F.pad(case.mask, (0, 3))
    same(case.model(source, mask, case.target), wanted, "three more columns change it", cause)
    for row, length in enumerate(SOURCE_LENGTHS):
        one = slice(row, row + 1)
        source, mask = case.source[one, :length], case.mask[one, :length]
        alone = case.model(source, mask, case.target[one])
        same(alone, wanted[one], f"sentence {row} alone differs from it in the batch", cause)


@torch.no_grad()
def future_changes_nothing(case: Case) -> None:
    """The logits at a place depend on the target up to there alone, and do depend on that."""
    wanted = case.model(case.source, case.mask, case.target)
    for place in range(1, case.target.shape[1]):
        other = case.target.clone()
        other[:, place:] = (other[:, place:] + 3) % (TARGET_VOCAB - END - 1) + END + 1
        seen = case.model(case.source, case.mask, other)
        cause = "Usual causes: no causal mask, a convolution padded on both sides"
        same(seen[:, :place], wanted[:, :place], f"places before {place} see what follows", cause)
        if torch.equal(seen[:, place], wanted[:, place]):
            raise BrokenLawError(f"the logits at {place} do not depend on the token there")


@torch.no_grad()
def source_changes_the_answer(case: Case) -> None:
    """Every token of the source can reach the logits."""
    wanted = case.model(case.source, case.mask, case.target)
    for row, length in enumerate(SOURCE_LENGTHS):
        for place in range(length - 1):
            other = case.source.clone()
            other[row, place] = (
                (other[row, place] + 5) % (case.model.source_vocab - END - 1) + END + 1
            )
            if other[row, place] == case.source[row, place]:
                other[row, place] = END + 1 + (other[row, place] == END + 1).long()
            seen = case.model(other, case.mask, case.target)
            if torch.equal(seen[row], wanted[row]):
                raise BrokenLawError(f"source token {place} of {length} never reaches the logits")


@torch.no_grad()
def an_old_state_gives_its_old_answer(case: Case) -> None:
    """A step changes neither the state nor the memory that it was given."""
    model = case.model
    memory = model.encode(case.source, case.mask)
    remembered = [tensor.clone() for tensor in tensors(memory)]
    states, answers = [model.init_state(memory)], []
    for place in range(case.target.shape[1]):
        logits, state = model.step(case.target[:, place], states[-1], memory)
        states.append(state)
        answers.append(logits)
    cause = "Usual causes: writing in place, state kept on the module"
    # Branch from an old state first: what it appends must not show in the newer ones.
    model.step(torch.full((ROWS,), TARGET_VOCAB - 1), states[2], memory)
    for place, wanted in enumerate(answers):
        seen, _ = model.step(case.target[:, place], states[place], memory)
        same(seen, wanted, f"the state before step {place} gives another answer later", cause)
    for before, now in zip(remembered, tensors(memory), strict=True):
        if not torch.equal(before, now):
            raise BrokenLawError("a step changed the memory")


def table_is_the_network(case: Case) -> None:
    """The table's rows partition the network's parameters, and its sum is their number."""
    table = case.config.parameters(case.model.source_vocab, TARGET_VOCAB)
    built = {name: tuple(weight.shape) for name, weight in case.model.named_parameters()}
    faults = [f"{name} {shape} is not in the table" for name, shape in built.items()]
    found: dict[str, int] = {}
    for row in table:
        if row.path not in built:
            faults.append(f"{row.path} is in the table, not in the network")
            continue
        shape, start = built[row.path], found.get(row.path, 0)
        faults = [fault for fault in faults if not fault.startswith(f"{row.path} (")]
        part = row.slice or (0, shape[0])
        if part[0] != start or part[1] - part[0] != row.shape[0] or row.shape[1:] != shape[1:]:
            faults.append(f"{row.path}{list(part)} {row.shape} does not fit {shape} after {start}")
        found[row.path] = part[1]
    faults += [
        f"{n} ends at row {e} of {built[n][0]}" for n, e in found.items() if e != built[n][0]
    ]
    total = sum(weight.numel() for weight in case.model.parameters())
    if table.total != total:
        faults.append(f"its sum is {table.total:,}, the network has {total:,}")
    if faults:
        raise BrokenLawError("the parameter table is not the network's: " + "; ".join(faults))


def no_weights_but_parameters(case: Case) -> None:
    """There are no buffers, and the network can be built on the meta device."""
    buffers = [name for name, _ in case.model.named_buffers()]
    if buffers:
        raise BrokenLawError(f"buffers {buffers}: compute them, or make them parameters")
    meta = build(case.network, case.config, case.model.source_vocab, TARGET_VOCAB, "meta")
    shapes = {name: weight.shape for name, weight in meta.named_parameters()}
    if shapes != {name: weight.shape for name, weight in case.model.named_parameters()}:
        raise BrokenLawError("built on the meta device, the network has other parameters")


def every_parameter_gets_a_gradient(case: Case) -> None:
    """Each row of the table moves the loss, or is declared not to, with the reason."""
    case.model.zero_grad()
    logits = case.model(case.source, case.mask, case.target[:, :-1])
    wanted = case.target[:, 1:]
    F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=PADDING).backward()
    weights = dict(case.model.named_parameters())
    for row in case.config.parameters(case.model.source_vocab, TARGET_VOCAB):
        gradient = weights[row.path].grad
        start, end = row.slice or (0, weights[row.path].shape[0])
        largest = 0.0 if gradient is None else float(gradient[start:end].abs().max())
        if row.zero_gradient is None and largest < 1e-12:
            raise BrokenLawError(f"{row.symbol} ({row.path}) gets no gradient, and gives no reason")
        if row.zero_gradient is not None and largest >= 1e-12:
            raise BrokenLawError(
                f"{row.symbol} ({row.path}) is declared without gradient, but gets one"
            )


@torch.no_grad()
def attention_sums_to_one(case: Case) -> None:
    """Attention asked for changes no result; it sums to one over real tokens, zero elsewhere."""
    model, mask = case.model, case.mask
    plain = model(case.source, mask, case.target)
    logits, kinds = model(case.source, mask, case.target, attention=True)
    same(logits, plain, "asking for attention changes the logits", "")
    memory, of_encoder = model.encode(case.source, mask, attention=True)
    state = model.init_state(memory)
    m, n = case.source.shape[1], case.target.shape[1]
    causal = torch.ones(n, n, dtype=torch.bool).tril()[None, None, None]
    real = mask[:, None, None, None]
    allowed = {"encoder": real, "cross": real, "decoder": causal}
    sizes = {"encoder": (m, m), "cross": (n, m), "decoder": (n, n)}
    for kind, weights in {**kinds, **of_encoder}.items():
        if kind not in allowed:
            raise BrokenLawError(f"attention of kind {kind!r}: known are {', '.join(allowed)}")
        if weights.dim() != 5 or (len(weights), *weights.shape[3:]) != (ROWS, *sizes[kind]):
            raise BrokenLawError(f"{kind} attention is {tuple(weights.shape)}")
        if weights.masked_select(~allowed[kind].expand_as(weights)).any():
            raise BrokenLawError(f"{kind} attention looks at padding or at the future")
        same(weights.sum(-1), torch.ones_like(weights[..., 0]), f"{kind} attention's sum", "")
    for place in range(n):
        _, state, of_step = model.step(case.target[:, place], state, memory, attention=True)
        for kind, weights in of_step.items():
            seen = weights[:, :, :, 0]
            wanted = kinds[kind][:, :, :, place, : seen.shape[-1]]
            same(seen, wanted, f"{kind} attention of step {place} differs from forward's", "")


def config_round_trips(case: Case) -> None:
    """A config goes to JSON and back, every field is described, and it can be compared."""
    again = type(case.config).parse(case.config.model_dump(mode="json"), "example")
    if again != case.config:
        raise BrokenLawError(f"config {case.config} comes back from JSON as {again}")
    silent = [n for n, f in type(case.config).model_fields.items() if not f.description]
    if silent:
        raise BrokenLawError(f"config fields without a description: {', '.join(silent)}")
    if case.config.width < 1:
        raise BrokenLawError(f"width is {case.config.width}")


@torch.no_grad()
def weights_round_trip(case: Case) -> None:
    """Weights saved as safetensors and loaded into a new network give the same answers."""
    wanted = case.model(case.source, case.mask, case.target)
    saved = save({name: weight.contiguous() for name, weight in case.model.named_parameters()})
    other = build(case.network, case.config, case.model.source_vocab, TARGET_VOCAB, "meta").eval()
    other.load_state_dict(load(saved), assign=True)
    seen = other(case.source, case.mask, case.target)
    if not torch.equal(seen, wanted):
        raise BrokenLawError(
            "loaded weights give other answers. Usual cause: something kept beside them"
        )


def randomness_is_seeded(case: Case) -> None:
    """In training mode the same seed gives the same answer; out of it there is no randomness."""
    answers: list[Tensor] = []
    for training in (True, True, False, False):
        torch.manual_seed(11 if training else len(answers))
        case.model.train(training)
        answers.append(case.model(case.source, case.mask, case.target).detach())
    case.model.eval()
    if not torch.equal(answers[0], answers[1]):
        raise BrokenLawError(
            "one seed gives two answers: some randomness is not torch's default generator"
        )
    if not torch.equal(answers[2], answers[3]):
        raise BrokenLawError("randomness outside training mode")


@torch.no_grad()
def limits_are_real(case: Case) -> None:
    """A source and a target as long as the config allows go through."""
    limits = case.config.length_limits
    m, n = min(limits.source or 40, 2000), min(limits.target or 40, 2000)
    source = torch.randint(END + 1, case.model.source_vocab, (2, m))
    source[:, -1] = END
    target = torch.randint(END + 1, TARGET_VOCAB, (2, n - 1))
    if not case.model(source, torch.ones_like(source).bool(), target).isfinite().all():
        raise BrokenLawError(f"sources of {m} and targets of {n} tokens give infinities")


def overfits(case: Case) -> None:
    """It learns a small copy task by heart in seconds."""
    torch.manual_seed(3)
    model = build(case.network, case.config, case.model.source_vocab, TARGET_VOCAB).train()
    words = torch.randint(END + 1, min(case.model.source_vocab, TARGET_VOCAB), (8, 4))
    source = F.pad(words, (0, 1), value=END)
    target = F.pad(source, (1, 0), value=BEGIN)
    optimiser = torch.optim.Adam(model.parameters(), 5e-3)
    loss = torch.tensor(torch.inf)
    for _ in range(400):
        optimiser.zero_grad()
        logits = model(source, source != PADDING, target[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
        loss.backward()
        optimiser.step()
        if loss < 0.02:
            return
    raise BrokenLawError(f"after 400 updates on 8 pairs the loss is still {float(loss):.3f}")


LAWS: list[Callable[[Case], Any]] = [
    shapes,
    step_equals_forward,
    step_of_gathered_is_gathered_step,
    padding_changes_nothing,
    future_changes_nothing,
    source_changes_the_answer,
    an_old_state_gives_its_old_answer,
    table_is_the_network,
    no_weights_but_parameters,
    every_parameter_gets_a_gradient,
    attention_sums_to_one,
    config_round_trips,
    weights_round_trip,
    randomness_is_seeded,
    limits_are_real,
    overfits,
]
