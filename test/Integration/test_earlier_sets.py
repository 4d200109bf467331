# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sets from before a call: what C code makes of them (copies, unions, differences), which lies as the set's own table
does, and what a call adds to them and removes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import values

Tensor = torch.Tensor
Use = Callable[[Tensor, Any], Any]

MADE: dict[str, Use] = {
    "set": lambda x, s: (x + len(set(s)), list(set(s))),
    "frozenset": lambda x, s: (x * 2, list(frozenset(s))),
    "copy": lambda x, s: (x * 2, list(s.copy())),
    "or": lambda x, s: (x + len(s | {3, "z"}), list(s | {3, "z"})),
    "ror": lambda x, s: (x * 2, list({40, 8} | s)),
    "and": lambda x, s: (x * 2, list(s & {1, 5, 33}), list({5, 1} & s)),
    "sub": lambda x, s: (x * 2, list(s - {5}), list({1, 2, 33} - s)),
    "xor": lambda x, s: (x * 2, list(s ^ {5, 8})),
    "union": lambda x, s: (x * 2, list(s.union([7, 5], {16: 1}))),
    "difference": lambda x, s: (x * 2, list(s.difference([5], {1}))),
    "intersection": lambda x, s: (x * 2, list(s.intersection(range(40)))),
    "asked": lambda x, s: (x * 2, s.issubset({1, 5, 9}), s.issuperset([1]), s.isdisjoint({5}), s <= {1, 5, 9}),
    "updated": lambda x, s: _updated(x, s),
    "sorted": lambda x, s: (x + len(sorted(s, key=str)), sorted(s, key=str)),
    "least": lambda x, s: (x * 2, min(s, key=str, default=None)),
    "keys": lambda x, s: (x * 2, sorted({1: 2, 8: 4}.keys() - s), list(dict.fromkeys(s))),
    "joined": lambda x, s: (x * 2, list({*s, *s})),
    "told": lambda x, s: (x * 2, s == set(s), repr(set(s)), hash(frozenset(s)) == hash(frozenset(s))),
}  # fmt: skip


def _updated(x: Tensor, s: Any) -> Any:
    own = {100}
    own.update(s)
    own -= {5}
    own |= s
    return x + len(own), list(own)


def _grown(*elements: Any) -> set[Any]:
    """In a larger table, with places of elements that were removed."""
    made = set(range(200, 300))
    made.update(elements)
    made.difference_update(range(200, 300))
    return made


def _shrunk(*elements: Any) -> set[Any]:
    made = {*elements, 1000}
    made.discard(1000)
    return made


STORY: list[set[Any]] = [
    {1, 5, 9}, {1, 5, 9}, {1, 5, 9}, {9, 1, 5}, _grown(1, 33, 5), {1, 33, 5}, {33, 1, 5}, _shrunk(1, 33, 5), {1, 33, 5},
    {0, 8, 16}, _grown(0, 8, 16), {16, 8, 0}, {"a", "b", 5}, {"a", "b", 5}, {5, "b", "a"}, set(), set(), {1.0, 5, 9},
    {True, 5, 9}, set(range(0, 80, 8)), set(range(72, -1, -8)),
]  # fmt: skip


@pytest.mark.parametrize("kind", [set, frozenset])
@pytest.mark.parametrize("use", MADE)
def test_made(use: str, kind: type) -> None:
    fast = pyjit.compile(MADE[use], options={"recompile_limit": 64})
    for _ in range(2):
        for element in STORY:
            given = element if kind is set else frozenset(element)
            have, want = fast(values(3), given), MADE[use](values(3), given)
            assert torch.equal(have[0], want[0])
            assert repr(have[1:]) == repr(want[1:])
    assert pyjit.stats(fast).hits > 14, pyjit.stats(fast)


@pytest.mark.parametrize("use", MADE)
def test_one_graph(use: str) -> None:
    fast, given = pyjit.compile(MADE[use]), {1, 5, 9, "a"}
    for _ in range(8):
        fast(values(3), given)
        fast(values(3), given | set())
    assert not pyjit.stats(fast).graph_breaks, pyjit.explain(fast)


# ---- Changes


def _added(x: Tensor, s: Any, k: Any) -> Any:
    s.add(k)
    return x * 2, k in s, "other" in s


def _counted(x: Tensor, s: Any, k: Any) -> Any:
    before = len(s)
    s.add(k)
    return x + len(s), len(s) - before


def _removed(x: Tensor, s: Any, k: Any) -> Any:
    s.discard(k)
    return x * 2, k in s


def _raises(x: Tensor, s: Any, k: Any) -> Any:
    try:
        s.remove(k)
    except KeyError as error:
        return x + 1, str(error)
    return x * 2, k in s


def _moved(x: Tensor, s: Any, k: Any) -> Any:
    s.discard(k)
    s.add(k)
    return x, list(s)


def _walked(x: Tensor, s: Any, k: Any) -> Any:
    known = list(s | set())
    s.add(k)
    return x, known, list(s), sorted(s, key=str)


def _once(x: Tensor, s: Any, k: Any) -> Any:
    """As programs warn once."""
    if k not in s:
        s.add(k)
        return x * 3, True
    return x * 2, False


def _popped(x: Tensor, s: Any, k: Any) -> Any:
    s.add(k)
    return x, s.pop(), len(s)


def _narrowed(x: Tensor, s: Any, k: Any) -> Any:
    s.intersection_update({k, 1, 5})
    s.difference_update([5])
    s.symmetric_difference_update({7})
    return x, list(s)


def _pairs(x: Tensor, s: Any, k: Any) -> Any:
    s.add((k, "pair"))
    s.add((k, None))
    return x * 2, (k, "pair") in s


CHANGES = {
    f.__name__.strip("_"): f
    for f in (_added, _counted, _removed, _raises, _moved, _walked, _once, _popped, _narrowed, _pairs)
}  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("change", CHANGES)
def test_changed(change: str, seed: int) -> None:
    """Elements of equal hashes among them: where they lie, and so in which order, follows from what came before."""
    f, r = CHANGES[change], random.Random(seed)
    fast = pyjit.compile(f, options={"recompile_limit": 64})
    mine: set[Any] = set()
    theirs: set[Any] = set()
    for _ in range(40):
        key = r.choice([0, 8, 16, 1, "a", "b", 2.5, None, True])
        have, want = fast(values(3), mine, key), f(values(3), theirs, key)
        assert torch.equal(have[0], want[0])
        assert repr(have[1:]) == repr(want[1:])
        assert list(mine) == list(theirs)
        if r.random() < 0.3:
            gone = r.choice([0, 8, 16, "a", "b"])
            mine.discard(gone)
            theirs.discard(gone)
        if r.random() < 0.1:
            mine, theirs = set(mine), set(theirs)


def test_change_is_one_graph() -> None:
    seen: set[str] = set()

    def f(x: Tensor, name: str) -> Any:
        y = x * 2
        if name not in seen:
            seen.add(name)
        return y.sin() + len(name)

    fast = pyjit.compile(f)
    for _ in range(3):
        seen.clear()
        for name in ("a", "a", "b", "b"):
            assert torch.equal(fast(values(3), name), (values(3) * 2).sin() + 1)
            assert name in seen
    assert not pyjit.stats(fast).graph_breaks, pyjit.explain(fast)


def test_modules_counters() -> None:
    """What a call does to a set is done again in each call, and to whichever set is there."""

    class M(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.sizes: set[int] = set()

        def forward(self, x: Tensor) -> Tensor:
            self.sizes.add(x.shape[0])
            return x * 2

    m = M()
    fast = pyjit.compile(m)
    for step, size in enumerate((3, 3, 4, 5, 3, 6, 4, 3)):
        if step == 6:
            m.sizes = {1}
        fast(values(size))
    assert m.sizes == {1, 4, 3}
