"""Backward passes that are written by hand and cannot be differentiated themselves."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from zoo.errors import ZooError

Backward = Callable[..., Any]


def once_differentiable(backward: Backward) -> Backward:
    """Refuse a backward pass that shall be differentiated itself (`create_graph=True`).

    torch's decorator of that name refuses only some second derivatives. Others, by tensors that
    were saved or with `autograd.grad`, would silently lack a part.
    """

    @functools.wraps(backward)
    def once(ctx: Any, *gradients: Tensor) -> Any:
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            raise ZooError(
                "there is no second derivative (create_graph=True)",
                "this backward pass is written by hand, for speed",
                "Compute this part with torch's own operators",
            )
        return backward(ctx, *gradients)

    return once
