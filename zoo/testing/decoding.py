"""Laws of decoding: a step is the forward pass, one position at a time, and it is pure."""

from __future__ import annotations

import torch

from zoo.nn.cache import Cache
from zoo.nn.contract import END
from zoo.nn.tree import Tree, gather, tensors
from zoo.testing.case import BEAM, ROWS, TARGET_VOCAB, Case
from zoo.testing.law import BrokenLawError, law, same


@law(
    causes="layers before rows, as torch's recurrent nets return states; a Cache with dim=0; "
    "logits of all positions where the last alone is asked for"
)
@torch.no_grad()
def shapes(case: Case) -> None:
    """Everything has the shape and rows that the contract says, rows first."""
    # Two numbers of rows: a dimension that is as long as the batch by chance shows in one of them.
    for rows in (ROWS, ROWS - 2):
        source, mask, target = case.source[:rows], case.mask[:rows], case.target[:rows]
        memory = case.model.encode(source, mask).memory
        state = case.model.init_state(memory)
        logits, after, _ = case.model.step(target[:, 0], state, memory)
        for name, tree in (("memory", memory), ("state", state), ("state after a step", after)):
            _rows_first(name, tree, rows)
        if logits.shape != (rows, TARGET_VOCAB):
            raise BrokenLawError(
                f"step's logits are {tuple(logits.shape)}, not (rows, target_vocab)"
                f" = {(rows, TARGET_VOCAB)}"
            )
        everything = case.model(source, mask, target).logits
        wanted = (rows, target.shape[1], TARGET_VOCAB)
        if everything.shape != wanted:
            raise BrokenLawError(
                f"forward's logits are {tuple(everything.shape)}, not (sentences, length, "
                f"target_vocab) = {wanted}"
            )


def _rows_first(name: str, tree: Tree, rows: int) -> None:
    for tensor in tensors(tree):
        if tensor.dim() == 0 or len(tensor) != rows:
            raise BrokenLawError(
                f"{name} holds a tensor {tuple(tensor.shape)} for {rows} rows: "
                "its rows are not on dimension 0"
            )
    if isinstance(tree, Cache) and tree.dim == 0:
        raise BrokenLawError(
            f"{name} holds a Cache that grows along dimension 0, which is its rows"
        )
    if isinstance(tree, tuple | list):
        for part in tree:
            _rows_first(name, part, rows)


@law(
    causes="a position off by one; a window too short; the first state not what forward starts "
    "from; a mask over the source that one of the two forgets"
)
@torch.no_grad()
def step_equals_forward(case: Case) -> None:
    """Stepping through a target gives the logits that forward gives of all positions at once."""
    model = case.model
    wanted = model(case.source, case.mask, case.target).logits
    memory = model.encode(case.source, case.mask).memory
    state = model.init_state(memory)
    for place in range(case.target.shape[1]):
        logits, state, _ = model.step(case.target[:, place], state, memory)
        same(logits, wanted[:, place], f"step {place} differs from forward")


@law(
    causes="state kept on the module or in an object that gather does not reach; rows along "
    "another dimension than 0; memory read by row where a beam's rows share a sentence's"
)
@torch.no_grad()
def step_of_gathered_is_gathered_step(case: Case) -> None:
    """Rows of memory and state may be reordered, widened to a beam and dropped at any time."""
    model = case.model
    memory = model.encode(case.source, case.mask).memory
    state = model.init_state(memory)
    for place in range(2):
        _, state, _ = model.step(case.target[:, place], state, memory)
    wide = gather(state, torch.arange(ROWS).repeat_interleave(BEAM))
    token = torch.randint(END + 1, TARGET_VOCAB, (ROWS * BEAM,))
    logits, after, _ = model.step(token, wide, memory)
    _, _, wide_kinds = model.step(token, wide, memory, attention=True)
    for beam in range(BEAM):
        narrow, _, kinds = model.step(token[beam::BEAM], state, memory, attention=True)
        for kind, weights in kinds.items():
            what = f"{kind} attention of row {beam} of a beam is not that of a beam of 1"
            same(wide_kinds[kind][beam::BEAM], weights, what)
        same(logits[beam::BEAM], narrow, f"row {beam} of each beam differs from a beam of 1")
    # Drop sentences 1 and 3, and let the beams of the others change places.
    kept = torch.tensor([4, 0, 2])
    rows = (kept[:, None] * BEAM + torch.tensor([2, 0, 0])).flatten()
    following = torch.randint(END + 1, TARGET_VOCAB, (ROWS * BEAM,))
    wanted, _, _ = model.step(following, after, memory)
    seen, _, _ = model.step(following[rows], gather(after, rows), gather(memory, kept))
    same(seen, wanted[rows], "the step of gathered rows is not the gathered step")


@law(
    causes="writing in place (+=, copy_, index assignment) into what a step was given; state kept "
    "on the module; a buffer of its own where zoo.Cache would do"
)
@torch.no_grad()
def an_old_state_gives_its_old_answer(case: Case) -> None:
    """A step changes neither the state nor the memory that it was given."""
    model = case.model
    memory = model.encode(case.source, case.mask).memory
    remembered = [tensor.clone() for tensor in tensors(memory)]
    states, answers = [model.init_state(memory)], []
    for place in range(case.target.shape[1]):
        logits, state, _ = model.step(case.target[:, place], states[-1], memory)
        states.append(state)
        answers.append(logits)
    for before, now in zip(remembered, tensors(memory), strict=True):
        if not torch.equal(before, now):
            raise BrokenLawError("a step changed the memory")
    # Branch from an old state first: what it appends must not show in the newer ones.
    model.step(torch.full((ROWS,), TARGET_VOCAB - 1), states[2], memory)
    for place, wanted in enumerate(answers):
        seen, _, _ = model.step(case.target[:, place], states[place], memory)
        same(seen, wanted, f"the state before step {place} gives another answer later")


@law(causes="what encode or a step found kept on the module instead of in memory and state")
@torch.no_grad()
def two_batches_go_side_by_side(case: Case) -> None:
    """Another batch may be read and written between two steps: threads search side by side."""
    model = case.model

    def begin(source: torch.Tensor, mask: torch.Tensor) -> tuple[Tree, Tree]:
        memory = model.encode(source, mask).memory
        return memory, model.init_state(memory)

    memory, state = begin(case.source, case.mask)
    alone = []
    for token in case.target.unbind(1):
        logits, state, _ = model.step(token, state, memory)
        alone.append(logits)
    memory, state = begin(case.source, case.mask)
    fewer = slice(1, 3)
    other_memory, other = begin(case.source[fewer], case.mask[fewer])
    for place, token in enumerate(case.target.unbind(1)):
        logits, state, _ = model.step(token, state, memory)
        _, other, _ = model.step(case.target[fewer, 0], other, other_memory)
        same(logits, alone[place], f"step {place} differs once another batch is written")


@law(
    causes="weights before the softmax or after dropout; a mask left out; layers or heads on "
    "another dimension than (rows, layers, heads, queries, keys)"
)
@torch.no_grad()
def attention_sums_to_one(case: Case) -> None:
    """Attention asked for changes no result; it sums to one over real tokens, zero elsewhere."""
    model, mask = case.model, case.mask
    plain = model(case.source, mask, case.target).logits
    logits, kinds = model(case.source, mask, case.target, attention=True)
    same(logits, plain, "asking for attention changes the logits")
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
        same(weights.sum(-1), torch.ones_like(weights[..., 0]), f"{kind} attention's sum")
    for place in range(n):
        _, state, of_step = model.step(case.target[:, place], state, memory, attention=True)
        for kind, weights in of_step.items():
            seen = weights[:, :, :, 0]
            wanted = kinds[kind][:, :, :, place, : seen.shape[-1]]
            same(seen, wanted, f"{kind} attention of step {place} differs from forward's")
