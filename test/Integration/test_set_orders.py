# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sets that a call makes, and that leave it or go over a graph break, are walked over in eager's order: elements whose
hashes meet lie as they were added."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import values

Tensor = torch.Tensor


def _returned(x: Tensor, c: list[Any]) -> Any:
    return x + 1, set(c), frozenset(c)


def _over_a_break(x: Tensor, c: list[Any]) -> Any:
    made = {*c}
    print(end="")
    return x + 1, list(made), str(made)


def _filled(x: Tensor, c: list[Any]) -> Any:
    made = set()
    for element in c:
        made.add(element)
    made.discard(c[0])
    made.add(c[0])
    return x + len(made), made


def _held(x: Tensor, c: list[Any]) -> Any:
    return {"a": [set(c[1:])]}, x * 2


def _order(result: Any) -> Any:
    """Sets as lists, tensors left out."""
    if isinstance(result, (set, frozenset)):
        return type(result).__name__, list(result)
    if isinstance(result, (tuple, list)):
        return [_order(item) for item in result]
    if isinstance(result, dict):
        return {key: _order(value) for key, value in result.items()}
    return None if isinstance(result, Tensor) else result


def _elements() -> list[list[Any]]:
    r = random.Random(0)
    few = [list(c) for c in itertools.permutations([-3, 5, 6])]
    wide = [[r.randrange(-(2**40), 2**40) for _ in range(n)] for n in (2, 4, 5, 9, 20)]
    near = [r.sample(range(0, 64, 8), n) for n in (3, 4, 6)]
    mixed = [[0.5, -1, 2**61, 8.0, None], ["a", "b", "c", "d", "e", "f"], [(1, 2), 3]]
    return [*few, *wide, *near, *mixed]


@pytest.mark.parametrize("f", [_returned, _over_a_break, _filled, _held])
def test_orders(f: Callable[..., Any]) -> None:
    fast = pyjit.compile(f)
    for c in _elements():
        alone = pyjit.compile(f)
        for step in (fast, alone, alone, alone):
            assert _order(step(values(3), list(c))) == _order(f(values(3), list(c)))


def _united(x: Tensor, s: Any) -> Any:
    return x + 1, s.union([(1, 2)]), frozenset(s), s - {7}


def _shrunk(x: Tensor, s: Any) -> Any:
    made = set(s)
    for element in list(made)[::2]:
        made.discard(element)
    return x + 1, made


def _added_over_a_break(x: Tensor, s: Any) -> Any:
    made = set(s)
    print(end="")
    for element in (100, 73, 15, 17, "z"):
        made.add(element)
    return x + 1, list(made), made


@pytest.mark.parametrize("f", [_united, _shrunk, _added_over_a_break])
def test_tables(f: Callable[..., Any]) -> None:
    """What C code made lies otherwise than what grew by one element after the other; so do later elements then."""
    r = random.Random(1)
    sets = [
        {0, 7, 8, 24, -2},
        {0, 1, 16, 7, 24, -2},
        {"a", "b", "c", "d", 8, 16},
        set(),
        {0, 8, 16, 24, 32, (1, 2)},
    ]
    sets += [
        set(r.sample(range(0, 512, 8), n)) | set(r.sample(range(64), n))
        for n in (2, 3, 5, 9)
    ]
    for s in sets:
        fast = pyjit.compile(f)
        for _ in range(4):
            have, want = fast(values(3), set(s)), f(values(3), set(s))
            assert _order(have) == _order(want)
            for made in (*have[1:], *want[1:]):
                if isinstance(made, set):
                    made.update([5, 100, 37, 64, 72, "new"])
            assert _order(have) == _order(want)
