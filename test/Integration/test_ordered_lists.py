# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`heapq`, `bisect.insort` and `Counter`: C code that compares or counts what the call holds, and changes it."""

from __future__ import annotations

import bisect
import dataclasses
import heapq
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import attempt, values

Tensor = torch.Tensor


@dataclasses.dataclass(order=True)
class Item:
    rank: int
    name: str = dataclasses.field(compare=False, default="")


def _heap(x: Tensor, l: list[Any], n: Any) -> Any:
    h: list[Any] = []
    for v in (3, n, 2, 7):
        heapq.heappush(h, (v, str(v)))
    first = heapq.heappop(h)
    return (
        x * first[0],
        first,
        heapq.heappushpop(h, (0, "z")),
        heapq.heapreplace(h, (9, "n")),
        h,
    )


def _sorted_heap(x: Tensor, l: list[Any], n: Any) -> Any:
    heapq.heapify(l)
    heapq.heappush(l, n)
    return x + len(l), heapq.heappop(l), heapq.nsmallest(2, l), heapq.nlargest(1, l)


def _beam(x: Tensor, l: list[Any], n: Any) -> Any:
    """Tensors ride along: what comes first decides."""
    h: list[Any] = []
    for i, rank in enumerate((n, 2.5, 1)):
        heapq.heappush(h, (rank, i, x * i))
    return heapq.heappop(h)[2] + heapq.heappop(h)[2] * 2


def _insort(x: Tensor, l: list[Any], n: Any) -> Any:
    own = [1, 3, 5]
    bisect.insort(own, n)
    bisect.insort_left(own, 3)
    bisect.insort(l, n)
    return x * bisect.bisect_left(own, 4), own


def _objects(x: Tensor, l: list[Any], n: Any) -> Any:
    h = [Item(3, "c"), Item(1, "a")]
    heapq.heapify(h)
    heapq.heappush(h, Item(2, "b"))
    bisect.insort(h, Item(int(n), "n"))
    return x + h[0].rank, [item.name for item in h]


def _counter(x: Tensor, l: list[Any], n: Any) -> Any:
    c = Counter("abca")
    c.update(["a", "b"])
    c.update(l)
    c["n"] += n
    return x * c["a"], dict(c), c["none"], sum(c.values()), list(c)


def _kept(x: Tensor, l: list[Any], n: Any) -> Any:
    l[:] = sorted(l)[-6:]
    return x, l


USES = {
    f.__name__.strip("_"): f for f in (_heap, _sorted_heap, _beam, _insort, _objects, _counter, _kept)
}  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_uses(use: str) -> None:
    f: Callable[..., Any] = USES[use]
    fast = pyjit.compile(f, options={"recompile_limit": 64})
    mine, theirs = [5, 1, 4], [5, 1, 4]
    for step in range(16):
        n = [4, 4, 4, 1, 2.5, 4, 10][step % 7]
        if step == 11:
            mine.append(2)
            theirs.append(2)
        have, want = attempt(fast, values(3), mine, n), attempt(f, values(3), theirs, n)
        if isinstance(want, tuple):
            assert torch.equal(have[0], want[0]) and repr(have[1:]) == repr(want[1:])
        elif isinstance(want, Tensor):
            assert torch.equal(have, want)
        else:
            assert repr(have) == repr(want)
        assert mine == theirs
        if len(mine) > 6:
            del mine[6:], theirs[6:]


@pytest.mark.parametrize("use", ["heap", "insort", "objects"])
def test_one_graph(use: str) -> None:
    fast = pyjit.compile(USES[use])
    for _ in range(8):
        fast(values(3), [1, 4], 4)
    assert not pyjit.stats(fast).graph_breaks, pyjit.explain(fast)
