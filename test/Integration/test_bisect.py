# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where a number belongs among sorted ones (buckets of positions, schedules), and digits."""

from __future__ import annotations

import bisect

import pytest
import torch
from Integration.harness import values

pyjit = pytest.importorskip("pyjit", exc_type=ImportError)


def bucket(x: torch.Tensor, k: float, edges: list) -> torch.Tensor:
    return x * bisect.bisect_left(edges, k) + bisect.bisect(edges, k, 1, 3)


def test_hits() -> None:
    fast, x, edges = pyjit.compile(bucket), values(4), [1, 4, 9, 16]
    for _ in range(3):
        assert torch.equal(fast(x, 5, edges), bucket(x, 5, edges))
    stats = pyjit.stats(fast)
    assert stats["hits"] == 2
    assert not stats["graph_break_sites"]


def test_what_is_sorted_changes() -> None:
    fast, x, edges = pyjit.compile(bucket), values(4), [1, 4, 9, 16]
    for k, change in ((5, None), (9, None), (9, 7), (9, 8), (2, None)):
        if change:
            bisect.insort(edges, change)
        assert torch.equal(fast(x, k, edges), bucket(x, k, edges))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * bisect.bisect_left([torch.tensor(1), torch.tensor(5)], 3),
        lambda x: x * bisect.bisect_left([3, 1], 2, key=lambda v: -v),
        lambda x: x * bisect.bisect_left(range(9), 2),
        lambda x: x * int(bin(x.shape[0])[2:]),
        lambda x: x * len(hex(torch.tensor(255))) + len(oct(9)),
    ],
)
def test_of_other_kinds(function) -> None:
    fast, x = pyjit.compile(function), values(4)
    for _ in range(3):
        assert torch.equal(fast(x), function(x))
