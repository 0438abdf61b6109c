"""Laws of decoding: a step is the forward pass one position at a time, and it is pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch.utils._pytree import tree_leaves

from zoo.nn.cache import Cache
from zoo.nn.contract import BEGIN, END, NonAutoregressive, Seq2Seq
from zoo.nn.tree import Tree, gather, tensors
from zoo.testing.case import BEAM, ROWS, TARGET_VOCAB, Case
from zoo.testing.computation import compute
from zoo.testing.law import BrokenLawError, law, require_close
from zoo.testing.results import wrong_results

BATCH = ("source", "mask", "target")
LONG_TARGET = 48
"""Steps that are compared with forward, if the config allows so many."""


@law(
    causes="bare logits or (logits, state), as plugin API 1 returned them; a return statement that "
    "depends on attention"
)
def results_are_named_tuples(case: Case) -> None:
    """encode, step and forward return Encoded, Step and Output, with and without attention."""
    observed = wrong_results(case)
    if observed is not None:
        raise BrokenLawError(observed)


@law(
    causes="layers before rows, as torch's recurrent nets return states; a Cache with dim=0; "
    "logits of all positions instead of the last; squeeze() without a dimension, which removes the "
    "rows of a sentence that is alone",
    requires="results_are_named_tuples",
)
@torch.no_grad()
def shapes(case: Case) -> None:
    """Memory, state and logits have the contract's shapes, rows first."""
    # Two batch sizes: a dimension that happens to equal one of them differs from the other. And a
    # sentence alone, whose dimension of one may not be squeezed.
    for rows in (ROWS, ROWS - 2, 1):
        source, mask, target = case.source[:rows], case.mask[:rows], case.target[:rows]
        memory = case.model.encode(source, mask).memory
        _require_rows_first("memory", memory, rows)
        if not isinstance(case.model, NonAutoregressive):
            _require_step(case.model, target[:, 0], memory)
        logits = case.model(source, mask, target).logits
        expected = (rows, target.shape[1], TARGET_VOCAB)
        if logits.shape != expected:
            raise BrokenLawError(
                f"forward's logits are {tuple(logits.shape)}, not (sentences, length, "
                f"target_vocab) = {expected}"
            )


@law(
    causes="an index assignment, or a method with an underscore at its end: the labels of training "
    "are another view of `target`",
    requires="shapes randomness_is_seeded",
)
@torch.no_grad()
def arguments_stay_as_they_are(case: Case) -> None:
    """encode and forward change neither the source, nor its mask, nor the target."""
    given = {"source": case.source, "source_mask": case.mask, "target": case.target}
    before = {name: tensor.clone() for name, tensor in given.items()}
    for training in (True, False):
        case.model.train(training)
        case.model(case.source, case.mask, case.target)
        case.model.encode(case.source, case.mask)
        for name, tensor in given.items():
            if not torch.equal(tensor, before[name]):
                mode = " in training mode" if training else ""
                raise BrokenLawError(f"encode or forward changes `{name}` in place{mode}")


@law(
    causes="the logarithm of a probability of 0, as of a token that cannot be copied: add a small "
    "number first; -inf in the place of a low logit; a softmax over padding alone; a division by 0",
    requires="shapes",
)
@torch.no_grad()
def logits_are_finite(case: Case) -> None:
    """Logits are finite numbers, also of tokens that cannot follow."""
    logits = {"forward": case.model(case.source, case.mask, case.target).logits}
    if not isinstance(case.model, NonAutoregressive):
        memory = case.model.encode(case.source, case.mask).memory
        state = case.model.init_state(memory)
        logits["step"] = case.model.step(case.target[:, 0], state, memory).logits
    for name, given in logits.items():
        if not given.isfinite().all():
            raise BrokenLawError(f"{name} gives infinite or NaN logits")


def _require_step(model: Seq2Seq, token: torch.Tensor, memory: Tree) -> None:
    """Raise unless a first step has the contract's shapes."""
    state = model.init_state(memory)
    step = model.step(token, state, memory)
    for name, tree in (("state", state), ("the next state", step.state)):
        _require_rows_first(name, tree, len(token))
    if step.logits.shape != (len(token), TARGET_VOCAB):
        raise BrokenLawError(
            f"step's logits are {tuple(step.logits.shape)}, not (rows, target_vocab)"
            f" = {(len(token), TARGET_VOCAB)}"
        )


def _require_rows_first(name: str, tree: Tree, rows: int) -> None:
    for tensor in tensors(tree):
        if tensor.dim() == 0 or len(tensor) != rows:
            raise BrokenLawError(
                f"{name} holds a tensor {tuple(tensor.shape)} for {rows} rows: "
                "its rows are not on dimension 0"
            )
    if isinstance(tree, Cache) and tree.dim == 0:
        raise BrokenLawError(f"{name} holds a Cache that grows along dimension 0, its rows")
    if isinstance(tree, tuple | list):
        for part in tree:
            _require_rows_first(name, part, rows)


@law(
    causes="a position off by one; a window that is too short; a first state that forward does not "
    "start from; a source mask that one of the two ignores",
    requires="padding_is_ignored future_is_ignored every_source_token_matters "
    "batches_are_independent",
    of="steps",
)
@torch.no_grad()
def step_equals_forward(case: Case) -> None:
    """Stepping through a target gives the logits that forward gives for all positions at once."""
    _compare_steps(case, case.target)
    _compare_steps(case, case.target[:1], rows=1)
    # A step that loses what is long past is right at first.
    rows = torch.arange(ROWS)
    longest = min(LONG_TARGET, (case.config.length_limits.target or LONG_TARGET) - 1)
    words = (torch.arange(longest) * 7 + rows[:, None] * 3) % (TARGET_VOCAB - END - 1) + END + 1
    words[:, 0] = BEGIN
    _compare_steps(case, words)


def _compare_steps(case: Case, target: torch.Tensor, rows: int = ROWS) -> None:
    """Compare steps with forward, for the first sentences of the batch, so many."""
    model, source, mask = case.model, case.source[:rows], case.mask[:rows]
    expected = model(source, mask, target).logits
    memory = model.encode(source, mask).memory
    state = model.init_state(memory)
    what = " of a sentence alone" if rows == 1 else ""
    for position in range(target.shape[1]):
        step = model.step(target[:, position], state, memory)
        state = step.state
        where = f"step {position}{what} differs from forward"
        require_close(step.logits, expected[:, position], where)


@law(
    causes="state on the module, or in an object that gather does not reach; rows on another "
    "dimension than 0; memory indexed by row, although the rows of a beam share a sentence's; a "
    "mean or a sum over the rows of a beam, as of the dimension that unflatten made",
    requires="step_is_pure",
    of="steps",
)
@torch.no_grad()
def gather_commutes_with_step(case: Case) -> None:
    """Rows of memory and state can be reordered, widened to a beam and dropped between steps."""
    model = case.model
    memory, state = case.after_steps(2)
    wide = gather(state, torch.arange(ROWS).repeat_interleave(BEAM))
    token = torch.randint(END + 1, TARGET_VOCAB, (ROWS * BEAM,))
    step = model.step(token, wide, memory)
    attention = model.step(token, wide, memory, attention=True).attention
    following = torch.randint(END + 1, TARGET_VOCAB, (ROWS * BEAM,))
    expected = model.step(following, step.state, memory).logits
    for row in range(BEAM):
        alone = model.step(token[row::BEAM], state, memory, attention=True)
        for kind, weights in alone.attention.items():
            what = f"{kind} attention of row {row} of a beam differs from that of a beam of 1"
            require_close(attention[kind][row::BEAM], weights, what)
        what = f"row {row} of each beam differs from a beam of 1"
        require_close(step.logits[row::BEAM], alone.logits, what)
        # What a row remembers of the others shows in the step after.
        after = model.step(following[row::BEAM], alone.state, memory).logits
        require_close(expected[row::BEAM], after, f"{what}, one step later")
    # Reorder the beams alone: as many rows as before, of the same sentences.
    rows = (torch.arange(ROWS)[:, None] * BEAM + torch.tensor([1, 2, 0])).flatten()
    gathered = model.step(following[rows], gather(step.state, rows), memory)
    what = "the step of a reordered beam is not the reordered step"
    require_close(gathered.logits, expected[rows], what)
    # Drop sentences 1 and 3, reorder the others, and reorder their beams.
    kept = torch.tensor([4, 0, 2])
    rows = (kept[:, None] * BEAM + torch.tensor([2, 0, 0])).flatten()
    gathered = model.step(following[rows], gather(step.state, rows), gather(memory, kept))
    what = "the step of gathered rows is not the gathered step"
    require_close(gathered.logits, expected[rows], what)


@law(
    causes="writing in place (+=, copy_, index assignment) to an argument of step; state on the "
    "module; a hand-written buffer in place of zoo.nn.Cache",
    requires="shapes randomness_is_seeded",
    of="steps",
)
@torch.no_grad()
def step_is_pure(case: Case) -> None:
    """A step changes neither the token nor the state nor the memory that it receives."""
    model = case.model
    memory = model.encode(case.source, case.mask).memory
    original = _cloned(memory)
    states, expected = [model.init_state(memory)], []
    for position in range(case.target.shape[1]):
        before, token = _cloned(states[-1]), case.target[:, position].clone()
        step = model.step(token, states[-1], memory)
        if not torch.equal(token, case.target[:, position]):
            raise BrokenLawError(f"step {position} changes the tokens that it receives, in place")
        if not _are_equal(before, tensors(states[-1])):
            raise BrokenLawError(f"step {position} changes the state that it receives, in place")
        states.append(step.state)
        expected.append(step.logits)
    if not _are_equal(original, tensors(memory)):
        raise BrokenLawError("a step changed the memory")
    # Branch from an old state first: what it appends must not show up in newer states.
    model.step(torch.full((ROWS,), TARGET_VOCAB - 1), states[2], memory)
    for position, logits in enumerate(expected):
        again = model.step(case.target[:, position], states[position], memory).logits
        what = f"the state before step {position} gives other logits when it is used again"
        require_close(again, logits, what)


def _cloned(tree: Tree) -> list[torch.Tensor]:
    """Return copies of all tensors of memory or state."""
    return [tensor.clone() for tensor in tensors(tree)]


def _are_equal(parts: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    """Return whether two lists have tensors of equal numbers, or none in the same entries."""
    return [part.shape for part in parts] == [other.shape for other in others] and all(
        bool(((one == other) | ((one != one) & (other != other))).all())
        for one, other in zip(parts, others, strict=True)
    )


@law(
    causes="a result of encode or step kept on the module instead of in memory and state",
    requires="step_is_pure",
    of="steps",
)
@torch.no_grad()
def batches_are_independent(case: Case) -> None:
    """Another batch can be encoded and decoded between two steps, as threads do; none is kept."""
    _require_nothing_kept(case)
    model = case.model

    def begin(source: torch.Tensor, mask: torch.Tensor) -> tuple[Tree, Tree]:
        memory = model.encode(source, mask).memory
        return memory, model.init_state(memory)

    memory, state = begin(case.source, case.mask)
    expected = []
    for token in case.target.unbind(1):
        step = model.step(token, state, memory)
        state = step.state
        expected.append(step.logits)
    memory, state = begin(case.source, case.mask)
    fewer = slice(1, 3)
    other_memory, other_state = begin(case.source[fewer], case.mask[fewer])
    for position, token in enumerate(case.target.unbind(1)):
        step = model.step(token, state, memory)
        state = step.state
        other_state = model.step(token[fewer], other_state, other_memory).state
        what = f"step {position} differs once another batch is decoded in between"
        require_close(step.logits, expected[position], what)


def _require_nothing_kept(case: Case) -> None:
    """Raise if a module keeps a tensor whose values are those of the batch that it read last."""
    kept = []
    for batch in (case, replace(case, **{n: getattr(case, n).flip(0) for n in BATCH})):
        compute(batch, case.model, "cpu")
        kept.append({name: tensor.clone() for name, tensor in _kept_tensors(case.model)})
    for name, tensor in kept[0].items():
        other = kept[1].get(name, tensor)
        if tensor.shape == other.shape and not torch.equal(tensor, other):
            raise BrokenLawError(f"the module keeps a tensor of the batch as `{name}`")


def _kept_tensors(model: Seq2Seq) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors that are attributes of modules, or in trees there, and no parameters."""
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if not name.startswith("_"):
                for tensor in tree_leaves(value):
                    if isinstance(tensor, torch.Tensor):
                        yield f"{path}.{name}".removeprefix("."), tensor
