# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sizes that are divided and rounded: windows, strided slices, halves, padding to a multiple."""

from __future__ import annotations

from collections.abc import Callable

import pyjit
import pytest
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
CONV = nn.Conv2d(3, 8, 3, stride=2, padding=1).eval()
NEXT = nn.Conv2d(8, 8, 3, stride=2, padding=1).eval()
SKIP = nn.Conv2d(3, 8, 1, stride=2).eval()
NORM = nn.BatchNorm2d(8).eval()
BACK = nn.ConvTranspose2d(8, 3, 4, stride=2, padding=1).eval()


def rows(n: int) -> torch.Tensor:
    return torch.randn(3, n, 5)


def images(n: int) -> torch.Tensor:
    return torch.randn(2, 3, n, n + 3)


def squares(n: int) -> torch.Tensor:
    return torch.randn(2, 3, n, n)


def padded(x: torch.Tensor) -> torch.Tensor:
    """Eight rows each; the last ones are filled up."""
    missing = (-x.shape[1]) % 8
    return F.pad(x, (0, 0, 0, missing)).view(3, (x.shape[1] + missing) // 8, 8, 5)


def residual(x: torch.Tensor) -> torch.Tensor:
    return F.relu(NORM(CONV(x)) + SKIP(x))


def pooled(x: torch.Tensor) -> torch.Tensor:
    x = F.max_pool2d(F.relu(NEXT(residual(x))), 2, ceil_mode=True)
    return F.adaptive_avg_pool2d(x, 1).flatten(1)


def halved_and_back(x: torch.Tensor) -> torch.Tensor:
    small = F.interpolate(F.avg_pool2d(x, 2), scale_factor=2)
    return torch.cat([small, x], 1) * 2


def halves(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[1] // 2
    return x[:, :half] * x[:, -half:]


def written(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[:, ::3] += 1
    x[:, 1::2] = 0
    return x * 2


# The function, its input, and how many of the sizes below need no new specialization.
CASES: dict[str, tuple[Callable, Callable, int]] = {
    "every other": (lambda x: x[:, ::2] * 2, rows, 11),
    "even and odd": (lambda x: (x[:, 1::2] + 1, x[:, ::2].sum(1)), rows, 10),
    "even with odd": (lambda x: x[:, ::2] + x[:, 1::2], rows, 4),
    "every third": (lambda x: x[:, 2:-1:3].sum(1), rows, 9),
    "a view": (lambda x: x[:, ::2], rows, 10),
    "written": (written, rows, 0),
    "convolution": (lambda x: CONV(x), images, 12),
    "residual": (residual, images, 12),
    "pooled": (pooled, images, 9),
    "max": (lambda x: F.max_pool2d(x, 3, 2, 1) + 1, images, 12),
    "max, up": (
        lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True) + 1,
        images,
        11,
    ),
    "positions": (lambda x: F.max_pool2d(x, 2, return_indices=True), images, 11),
    "average, dilated": (
        lambda x: F.avg_pool2d(F.max_pool2d(x, 2, 1, dilation=3), 2),
        images,
        9,
    ),
    "one dimension": (
        lambda x: F.conv1d(x.transpose(1, 2), torch.ones(4, 5, 3), stride=2),
        rows,
        10,
    ),
    "transposed": (lambda x: BACK(CONV(x)), images, 12),
    "channels last": (
        lambda x: CONV(x.contiguous(memory_format=torch.channels_last)).relu(),
        images,
        12,
    ),
    "twice": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), images, 12),
    "one and a half": (lambda x: F.interpolate(x, scale_factor=1.5) + 1, images, 0),
    "of one size": (lambda x: F.interpolate(x, size=(8, 9)) + 1, images, 12),
    "and back": (halved_and_back, squares, 6),
    "a multiple": (padded, rows, 7),
    "halves": (halves, rows, 11),
    "the better half": (lambda x: x.topk(int(0.5 * x.shape[1]), 1).values, rows, 11),
    "and again": (lambda x: x[:, ::2][:, ::2] + x[:, ::4], rows, 8),
}
# 0, 1 and 2 among them, where eager may raise.
SIZES = (20, 21, 22, 23, 40, 33, 64, 31, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 24)


@pytest.mark.parametrize("device", ["cpu", "simulated"])
@pytest.mark.parametrize("name", CASES)
def test_sizes(name: str, device: str) -> None:
    """Eager's answers, layouts and errors at each size, and few specializations."""
    f, make, hits = CASES[name]
    fast = pyjit.compile(f, options={"simulated_device": device == "simulated"})
    with torch.no_grad():
        for n in SIZES:
            torch.manual_seed(n)
            x = make(n)
            try:
                want = f(x)
            except (RuntimeError, IndexError) as error:
                with pytest.raises(type(error)):
                    fast(x)
                continue
            have = fast(x)
            torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-4)
            for a, b in zip(
                have if isinstance(have, tuple) else (have,),
                want if isinstance(want, tuple) else (want,),
            ):
                assert a.stride() == b.stride(), (n, a.shape)
    stats = pyjit.stats(fast)
    assert not stats["graph_breaks"], stats
    if device == "cpu":
        assert stats["hits"] >= hits, stats


def test_quotients_of_one_call() -> None:
    """Sizes that coincided when they were recorded, and do not later on."""

    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x[::2] * 2, y[::3] + 1

    fast = pyjit.compile(f)
    for n, m in ((20, 30), (21, 31), (24, 36), (9, 50), (50, 9), (2, 3), (3, 2)):
        x, y = torch.randn(n), torch.randn(m)
        torch.testing.assert_close(fast(x, y), f(x, y))
    assert pyjit.stats(fast)["hits"] >= 3
