"""Laws of the parameters: the table is exact, each is trained, and there is no other state."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it
from safetensors.torch import load, save
from torch import Tensor

from zoo.nn.contract import BEGIN, END, PADDING, NonAutoregressive, Seq2Seq
from zoo.registry.parameters import Row
from zoo.testing.case import TARGET_VOCAB, Case, with_ends
from zoo.testing.computation import compute
from zoo.testing.law import BrokenLawError, law
from zoo.testing.losses import loss_of, own_losses
from zoo.testing.own_search import decode
from zoo.training.optimizer import Adam

NO_GRADIENT = 1e-12
"""A gradient whose entries are all smaller counts as none."""

COPIED = 0.02
"""The loss in nats per token below which a copy task counts as learned."""

RATE = 1e-2
"""The learning rate of the copy task, after its warm-up."""


@law(
    causes="a missing bias; a weight renamed in one of the two; rows and columns swapped; a gate "
    "missing from a fused weight"
)
def parameter_table_matches_network(case: Case) -> None:
    """The table's rows partition the network's parameters, and its total is their number."""
    table = case.config.parameters(case.model.source_vocab, TARGET_VOCAB)
    shapes = {name: tuple(weight.shape) for name, weight in case.model.named_parameters()}
    faults = [f"{name} {shape} is not in the table" for name, shape in shapes.items()]
    covered: dict[str, int] = {}
    for row in table:
        if row.path not in shapes:
            faults.append(f"{row.path} is in the table but not in the network")
            continue
        shape, start = shapes[row.path], covered.get(row.path, 0)
        faults = [fault for fault in faults if not fault.startswith(f"{row.path} (")]
        part = row.slice or (0, shape[0])
        if part[0] != start or part[1] - part[0] != row.shape[0] or row.shape[1:] != shape[1:]:
            faults.append(f"{row.path}{list(part)} {row.shape} does not fit {shape} after {start}")
        covered[row.path] = part[1]
    faults += [
        f"{name} ends at row {end} of {shapes[name][0]}"
        for name, end in covered.items()
        if end != shapes[name][0]
    ]
    total = sum(weight.numel() for weight in case.model.parameters())
    if table.total != total:
        faults.append(f"its total is {table.total:,}, the network has {total:,}")
    if faults:
        raise BrokenLawError("the parameter table differs from the network: " + "; ".join(faults))


@law(
    causes="register_buffer, or a norm over the batch, which keeps buffers; a constructor that "
    "reads values or names a device; a parameter made of .double(), of a NumPy array or of integers"
)
def network_has_only_parameters(case: Case) -> None:
    """The network has float32 parameters, no buffers, and can be built on the meta device."""
    buffers = [name for name, _ in case.model.named_buffers()]
    if buffers:
        raise BrokenLawError(f"buffers {buffers}: compute them, or make them parameters")
    meta = case.rebuild("meta")
    shapes = {name: weight.shape for name, weight in meta.named_parameters()}
    if shapes != {name: weight.shape for name, weight in case.model.named_parameters()}:
        raise BrokenLawError("built on the meta device, the network has other parameters")
    elsewhere = [name for name, weight in meta.named_parameters() if not weight.is_meta]
    if elsewhere:
        raise BrokenLawError(f"built on the meta device, {', '.join(elsewhere)} are elsewhere")
    types = [(name, weight.dtype) for name, weight in meta.named_parameters()]
    others = [f"{name} is {dtype}" for name, dtype in types if dtype != torch.float32]
    if others:
        raise BrokenLawError(f"parameters are not torch.float32: {', '.join(others)}")


@law(
    causes="a weight that forward does not use; .detach(), .data or .item() on the way to the "
    "loss; an option of the config that the table ignores; a bias that the softmax cancels, not "
    "declared with zero_gradient",
    requires="logits_are_finite parameter_table_matches_network",
)
def every_parameter_gets_a_gradient(case: Case) -> None:
    """Each row of the table affects the loss, or is declared not to, with the reason."""
    _require_trained(case, list(case.config.parameters(case.model.source_vocab, TARGET_VOCAB)))


def _require_trained(case: Case, rows: list[Row], seeds: Sequence[int] = range(30, 38)) -> None:
    """Raise unless these rows get a gradient, or declare that they get none.

    An expert may read no token of the batch: the rows that are left are tried again with the
    weights of each seed.
    """
    left, largest = [], _largest_gradients(case, rows)
    for row, entry in zip(rows, largest, strict=True):
        if row.zero_gradient is not None and entry >= NO_GRADIENT:
            raise BrokenLawError(
                f"{row.symbol} ({row.path}) declares zero_gradient but gets a gradient of "
                f"{entry:.2g}, the threshold is {NO_GRADIENT:.2g}"
            )
        if row.zero_gradient is None and entry < NO_GRADIENT:
            left.append((row, entry))
    if left and not seeds:
        row, entry = left[0]
        raise BrokenLawError(
            f"{row.symbol} ({row.path}) gets no gradient and declares no zero_gradient: its "
            f"largest entry is {entry:.2g}, the threshold is {NO_GRADIENT:.2g}"
        )
    if left:
        with case.redrawn(seeds[0]):
            _require_trained(case, [row for row, _ in left], seeds[1:])


def _largest_gradients(case: Case, rows: list[Row]) -> list[float]:
    """Return for each row the largest entry of its gradient, of all losses of training."""
    case.model.zero_grad()
    loss_of(case.model, case.source, case.mask, case.target).backward()
    for loss in own_losses(case.model, case.source, case.mask, case.target[:, :-1]).values():
        loss.backward(retain_graph=True)
    weights = dict(case.model.named_parameters())
    largest = []
    for row in rows:
        gradient = weights[row.path].grad
        start, end = row.slice or (0, weights[row.path].shape[0])
        largest.append(0.0 if gradient is None else float(gradient[start:end].abs().max()))
    return largest


def _saved(model: Seq2Seq) -> dict[str, Tensor]:
    """Return the weights of a network, saved and loaded."""
    return load(save({n: weight.contiguous() for n, weight in model.named_parameters()}))


@law(
    causes="a tensor kept as a plain attribute; weights changed outside __init__, as by the option "
    "max_norm of nn.Embedding; a value drawn when the network is built",
    requires="shapes randomness_is_seeded",
)
@torch.no_grad()
def weights_round_trip(case: Case) -> None:
    """Weights saved as safetensors and loaded into a new network give the same logits."""
    before = _saved(case.model)
    expected = compute(case, case.model, "cpu").forward
    saved = _saved(case.model)
    for name, weight in saved.items():
        if not torch.equal(weight, before[name]):
            raise BrokenLawError(f"outside training, a method of the network changes {name}")
    torch.manual_seed(6)
    other = case.rebuild().to(expected.dtype).eval()
    for name, weight in other.named_parameters():
        weight.copy_(saved[name])
    logits = other(case.source, case.mask, case.target).logits
    if not torch.equal(logits, expected):
        raise BrokenLawError("loaded weights give other logits than the saved ones")


@law(
    causes="initial weights far too large or too small; a signal lost between encoder and decoder; "
    "an activation that saturates; gradients cut off",
    requires="future_is_ignored every_parameter_gets_a_gradient",
)
def learns_a_copy_task(case: Case) -> None:
    """The network overfits eight copied sequences within 400 updates."""
    torch.manual_seed(3)
    model = case.rebuild().train()
    words = torch.randint(END + 1, min(case.source_ids, TARGET_VOCAB), (8, 4))
    source = F.pad(words, (0, 1), value=END)
    target = F.pad(source, (1, 0), value=BEGIN)
    with_ends(source, case.config)
    read = case.read(source).float() if case.config.features else source
    optimizer = Adam(model.parameters(), RATE, fused=True)
    last = torch.inf
    for update in range(400):
        # Deep networks need a warm-up and clipped gradients, and others lose nothing by them.
        optimizer.param_groups[0]["lr"] = RATE * min((update + 1) / 50, 1.0)
        optimizer.zero_grad()
        logits, _, own = model(read, source != PADDING, target[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
        # As in training: the network's own losses are sums, and the total is divided by the tokens.
        (loss + sum(own.values()) / target[:, 1:].numel()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        last = loss.item()
        if last < COPIED and _decodes(model, read, source != PADDING, words):
            return
    raise BrokenLawError(
        f"after 400 updates on 8 pairs the loss is still {last:.3f}, the threshold is {COPIED}"
        + (", or decode does not give the targets" if last < COPIED else "")
    )


@torch.no_grad()
def _decodes(model: Seq2Seq, source: Tensor, mask: Tensor, words: Tensor) -> bool:
    """Return whether a network with a search of its own finds the words; true without one."""
    if not isinstance(model, NonAutoregressive):
        return True
    model.eval()
    # The unknown token is among the words.
    tokens = decode(model, model.encode(source, mask).memory, mask, (PADDING, BEGIN)).tokens
    model.train()
    expected = F.pad(words, (0, 1), value=END)
    return tokens.shape == expected.shape and torch.equal(tokens, expected)
