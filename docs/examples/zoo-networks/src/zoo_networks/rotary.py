"""Rotary positions."""

import torch
from torch import Tensor


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """Return x (rows, heads, n, d) rotated by its positions, (n,) or (rows, n).

    Dimensions i and i + d/2 are turned by the angle p · 10000^(−2i/d) (Su et al. 2021, section
    3.2.2), so that a product of two rotated vectors depends on the distance of their positions.
    """
    half = x.shape[-1] // 2
    rates = 10000.0 ** (torch.arange(half, device=x.device, dtype=torch.float64) / -half)
    angles = positions.to(torch.float64)[..., None] * rates  # (…, n, d/2)
    if angles.dim() == 3:
        angles = angles[:, None]
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, -1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)
