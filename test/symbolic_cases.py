# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs that are called with batches of many sizes, for a simulated device and for a GPU."""

from __future__ import annotations

from collections.abc import Callable

import pyjit
import torch
from torch import nn
from torch.nn import functional as F

Made = tuple[Callable, Callable[[int], tuple]]

SIZES = [4, 2, 3, 5, 17] + 4 * [2, 3, 5, 17] + [130]


def check(
    fast: Callable, f: Callable, make: Callable[[int], tuple], **tolerance: float
) -> None:
    """All calls agree with `f`; one specialization of the first size and one of all are made."""
    held = []
    with torch.no_grad():
        for n in SIZES:
            args = make(n)
            have, want = fast(*args), f(*args)
            torch.testing.assert_close(have, want, **tolerance)
            held.append((have, want))
        # No later call wrote what an earlier one returned.
        for have, want in held:
            torch.testing.assert_close(have, want, **tolerance)
    stats = pyjit.stats(fast)
    assert not stats["eager_reasons"] and not stats["fixed_sizes"], stats
    assert stats["specializations"] == 2, stats
    assert stats["hits"] == len(SIZES) - 2, stats


def mlp(device: str, dtype: torch.dtype) -> Made:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 16)
    )
    return model.to(device, dtype).eval(), lambda n: (
        torch.randn(n, 32, device=device).to(dtype),
    )


def cnn(device: str, dtype: torch.dtype) -> Made:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, 10),
        nn.Softmax(-1),
    )
    return model.to(device, dtype).eval(), lambda n: (
        torch.randn(n, 3, 12, 12, device=device).to(dtype),
    )


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)
        self.first, self.second = nn.LayerNorm(32), nn.LayerNorm(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, _ = x.shape
        q, k, v = (
            h.view(b, t, 4, 8).transpose(1, 2)
            for h in self.qkv(self.first(x)).chunk(3, -1)
        )
        a = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, 32))
        return x + self.down(F.gelu(self.up(self.second(x))))


def encoder(device: str, dtype: torch.dtype) -> Made:
    torch.manual_seed(0)
    return Encoder().to(device, dtype).eval(), lambda n: (
        torch.randn(n, 7, 32, device=device).to(dtype),
    )


def encoder_lengths(device: str, dtype: torch.dtype) -> Made:
    torch.manual_seed(0)
    return Encoder().to(device, dtype).eval(), lambda n: (
        torch.randn(n, n + 3, 32, device=device).to(dtype),
    )


def reductions(device: str, dtype: torch.dtype) -> Made:
    """Along and across the size, and parts that begin at a multiple of it."""

    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.float()
        return (
            y.softmax(0),
            y.softmax(1),
            y.sum(0),
            (y * 2).amax(),
            y[-1] * 2,
            y[:, 1:] - y[:, :-1],
        )

    return f, lambda n: (torch.randn(n, n + 1, device=device).to(dtype),)


def transposed(device: str, dtype: torch.dtype) -> Made:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x.t() + y).contiguous().relu()

    return f, lambda n: (
        torch.randn(n, 48, device=device).to(dtype),
        torch.randn(48, n, device=device).to(dtype),
    )


CASES: dict[str, Callable[[str, torch.dtype], Made]] = {
    f.__name__: f for f in (mlp, cnn, encoder, encoder_lengths, reductions, transposed)
}
