"""The loss of teacher forcing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from zoo.data.batches import Batch
from zoo.nn.contract import PADDING, UNKNOWN
from zoo.registry.recipe import Recipe


class Loss(NamedTuple):
    """Sums over a batch's real target tokens, in nats; `tokens` is their number."""

    total: Tensor
    tokens: Tensor


def training_loss(model: Callable[..., Any], batch: Batch, recipe: Recipe) -> Loss:
    """Return the `teacher_forcing` that a recipe asks for."""
    return teacher_forcing(model, batch, recipe.label_smoothing, recipe.r_drop, recipe.word_dropout)


def teacher_forcing(
    model: Callable[..., Any],
    batch: Batch,
    smoothing: float = 0.0,
    r_drop: float = 0.0,
    word_dropout: float = 0.0,
) -> Loss:
    """Return −Σ_i Σ_y q_i(y) log p(y | y_1 … y_{i−1}, x) over real target tokens.

    q puts 1 − `smoothing` on the reference and spreads the rest evenly over the whole vocabulary
    (Szegedy et al. 2016, section 7). The network reads the target without its last token and is
    to give it without its first.

    With `r_drop` it reads the batch twice, dropping other values each time: the mean of the two
    losses, and `r_drop` times the `divergence` of what they say (Liang et al. 2021, section 2).
    With `word_dropout` each token that the network reads, of either side, is unknown to it with
    that probability (Bowman et al. 2016, section 3.1); what it is to give stays whole.
    """
    source, mask, target, _ = batch
    if r_drop:
        source, mask, target = (torch.cat([part, part]) for part in (source, mask, target))
    read = target[:, :-1]
    if word_dropout:
        source, read = _forgotten(source, word_dropout), _forgotten(read, word_dropout)
    logits = model(source, mask, read).logits.flatten(0, 1)
    wanted = target[:, 1:].flatten()
    total, tokens = cross_entropy(logits, wanted, smoothing), (wanted != PADDING).sum()
    if r_drop:
        once = wanted[: len(wanted) // 2]
        total, tokens = total / 2 + r_drop * divergence(logits, once), tokens // 2
    return Loss(total, tokens)


def _forgotten(ids: Tensor, chance: float) -> Tensor:
    """Return ids (batch, length), words among them unknown with this probability."""
    words = ids > UNKNOWN  # sentences' ends and padding stay
    return ids.masked_fill(words & (torch.rand(ids.shape, device=ids.device) < chance), UNKNOWN)


def cross_entropy(logits: Tensor, wanted: Tensor, smoothing: float = 0.0) -> Tensor:
    """Return the sum of `teacher_forcing` of logits (tokens, vocab) and ids (tokens,).

    The sum is in float32 or wider, whatever the logits are in.
    """
    return _CrossEntropy.apply(logits, wanted, smoothing)  # type: ignore[no-untyped-call]  # torch has no types for it


class _CrossEntropy(torch.autograd.Function):
    """The loss from the probabilities, which its gradient needs and nothing else.

    With x the logits, p their softmax, s the smoothing and V the vocabulary's size:

        log Σ_y e^{x_y} = x_top − log p_top
        loss = log Σ_y e^{x_y} − (1 − s) x_wanted − s / V Σ_y x_y
        d loss / d x_y = p_y − (1 − s) [y = wanted] − s / V

    Two tensors of the size of the logits are made, in the logits' own type. A probability in
    bfloat16 is right to 1 / 256, so that no token's loss is off by much more; the logarithm of a
    small one in bfloat16, which torch's own takes, is off by several times that.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, wanted: Tensor, smoothing: float) -> Tensor:
        wide = torch.promote_types(logits.dtype, torch.float32)
        ids = wanted[:, None]
        probability = logits.softmax(-1, dtype=logits.dtype)
        # The largest cannot have vanished, as that of the token wanted could.
        loss = logits.amax(1, keepdim=True) - probability.amax(1, keepdim=True).to(wide).log()
        loss -= (1 - smoothing) * logits.gather(1, ids)
        if smoothing:
            loss -= smoothing / logits.shape[1] * logits.sum(1, keepdim=True)
        real = ids != PADDING
        if ctx.needs_input_grad[0]:
            rows = torch.arange(len(wanted), device=wanted.device)
            probability[rows, wanted] -= 1 - smoothing
            ctx.save_for_backward(probability, real)
            ctx.spread = smoothing / logits.shape[1]
        return loss.masked_fill_(~real, 0.0).sum()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        pull, real = ctx.saved_tensors
        scale = (gradients[0] * real).to(pull.dtype)
        return (pull * scale).sub_(scale * ctx.spread), None, None


def divergence(logits: Tensor, wanted: Tensor) -> Tensor:
    """Return Σ ½ (KL(p‖q) + KL(q‖p)) over the real tokens of ids (tokens,).

    logits is (2 × tokens, vocab): its first half is p's, the second q's. The sum is in float32 or
    wider, whatever the logits are in.
    """
    return _Divergence.apply(logits, wanted)  # type: ignore[no-untyped-call]  # torch has no types for it


class _Divergence(torch.autograd.Function):
    """The divergence, some tokens at a time, so that all but its gradient stays in the caches.

    p is the softmax of the logits x, q that of z; with r = x − z, from which log p − log q differs
    by a constant, and Σ_y p_y − q_y = 0:

        ½ (KL(p‖q) + KL(q‖p)) = ½ Σ_y (p_y − q_y) r_y
        d / d x_y = ½ (p_y − q_y + p_y (r_y − Σ_w p_w r_w))
        d / d z_y = ½ (q_y − p_y − q_y (r_y − Σ_w q_w r_w))
    """

    TOKENS = 16
    """Looked at in one go on a processor; a GPU takes all."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, wanted: Tensor) -> Tensor:
        wide = torch.promote_types(logits.dtype, torch.float32)
        gradient = torch.empty_like(logits)
        total = torch.zeros((), dtype=wide, device=logits.device)
        real = (wanted != PADDING)[:, None].to(wide)
        some = _Divergence.TOKENS if logits.device.type == "cpu" else len(wanted)
        parts = [x.split(some) for x in (*logits.chunk(2), *gradient.chunk(2), real)]
        for x, z, of_x, of_z, share in zip(*parts, strict=True):
            p, q = x.softmax(-1, dtype=wide), z.softmax(-1, dtype=wide)
            apart, r = (p - q).mul_(share / 2), (x.to(wide) - z).mul_(share / 2)
            of_p, of_q = ((chance * r).sum(-1, keepdim=True) for chance in (p, q))
            total += (of_p - of_q).sum()
            of_x.copy_(p.mul_(r - of_p).add_(apart))
            of_z.copy_(q.mul_(of_q - r).sub_(apart))
        ctx.save_for_backward(gradient)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * gradients[0].to(gradient.dtype), None
