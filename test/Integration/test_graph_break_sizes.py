# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sizes that change between calls, in functions that have graph breaks, branch or loop on data."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

WEIGHT = torch.randn(8, 8, generator=torch.Generator().manual_seed(0))


def operator_in_the_middle(x: torch.Tensor) -> Any:
    y = torch.relu(x @ WEIGHT)
    n = torch.nonzero(y)
    z = y * 2 + 1
    return z.sum(1), n.shape[1]


def two_graph_breaks(x: torch.Tensor) -> Any:
    y = x @ WEIGHT
    first = y.abs().sum().item()
    y = y + first
    second = torch.unique(y.round()).shape[0]
    return y.view(-1, 4, 2).sum(-1) * x.shape[0], second


def branch(x: torch.Tensor) -> torch.Tensor:
    y = x @ WEIGHT
    if y.sum() > 0:
        y = y + 1
    else:
        y = y - x.shape[0]
    return y.mean(0) * 2


def loop(x: torch.Tensor) -> torch.Tensor:
    y = x @ WEIGHT
    while y.abs().sum() > 10:
        y = y * 0.5
    return y + x.shape[0]


def loop_and_branch(x: torch.Tensor) -> torch.Tensor:
    y = x
    while y.abs().max() > 0.1:
        y = y * 0.5
    if y.sum() > 0:
        return y.flatten()[x.shape[0] :]
    return y.t() @ x


def of_two(x: torch.Tensor) -> torch.Tensor:
    """The continuation is given tensors of different sizes."""
    a, b = x[1:], x[:2]
    k = torch.nonzero(a > 0).shape[0]
    return torch.cat([a, b]) * 2 + min(k, 1)


def check(f: Callable[..., Any], sizes: list[int], **options: Any) -> dict[str, Any]:
    import pyjit

    fast = pyjit.compile(f, options={"max_records": 64, **options})
    with torch.no_grad():
        for i, n in enumerate(sizes):
            x = torch.randn(n, 8, generator=torch.Generator().manual_seed(i))
            want, have = f(x), fast(x)
            if not isinstance(want, tuple):
                want, have = (want,), (have,)
            assert len(want) == len(have)
            for a, b in zip(want, have):
                torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-4)
                if isinstance(a, torch.Tensor):
                    assert a.stride() == b.stride()
    return pyjit.stats(fast)


@pytest.mark.parametrize("device", [False, True], ids=["cpu", "device"])
def test_a_continuation_is_recorded_once_more(device: bool) -> None:
    stats = check(
        operator_in_the_middle, [2, 3, 5, 17, 6, 9, 4], simulated_device=device
    )
    # The first call went on with the number of elements that it found.
    assert stats["graph_breaks"] and stats["misses"] == 3, stats
    assert stats["continuation_hits"] == 4 <= stats["hits"], stats
    assert not stats["eager_calls"] and not stats["fixed_sizes"], stats


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "f",
    [operator_in_the_middle, two_graph_breaks, branch, loop, loop_and_branch, of_two],
    ids=lambda f: f.__name__,
)
def test_random_sizes(f: Callable[..., Any], seed: int) -> None:
    """One and zero among them; often the same ones again."""
    draw = random.Random(seed)
    common = [draw.randrange(2, 20) for _ in range(3)]
    sizes = [
        draw.choice(common) if draw.random() < 0.5 else draw.randrange(1, 40)
        for _ in range(14)
    ]
    check(f, sizes, simulated_device=seed % 2 == 1)
