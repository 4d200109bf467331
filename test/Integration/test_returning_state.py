# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""State that changes between calls and comes back to what it was, while other specializations answer, or none does:
numbers and flags from small sets, in every kind of place that a function reads them from."""

from __future__ import annotations

import functools
import random
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import pyjit
import pytest
import torch
from Integration.harness import values

Tensor = torch.Tensor
Program = tuple[
    Callable[[Tensor], Tensor], Callable[[int, int], None], Callable[[], Any]
]


def _step(x: Tensor, n: int, m: int) -> Tensor:
    """One way or the other, or an error, by the flag."""
    if m == 2:
        raise ValueError(n)
    return x * n if m else x - n


def _cells() -> Program:
    n = m = 0

    def f(x: Tensor) -> Tensor:
        nonlocal n
        n += 1
        return _step(x, n, m)

    def put(a: int, b: int) -> None:
        nonlocal n, m
        n, m = a, b

    return f, put, lambda: (n, m)


def _globals() -> Program:
    space: dict[str, Any] = {"step": _step}
    exec("def f(x):\n    global n\n    n += 1\n    return step(x, n, m)", space)
    return space["f"], lambda a, b: space.update(n=a, m=b), lambda: space["n"]


class _Plain:
    n = m = 0


class _Slots:
    __slots__ = ("m", "n")


def _object(kind: type) -> Program:
    holder: Any = kind()

    def f(x: Tensor) -> Tensor:
        holder.n += 1
        return _step(x, holder.n, holder.m)

    def put(a: int, b: int) -> None:
        holder.n, holder.m = a, b

    return f, put, lambda: (holder.n, holder.m)


def _type() -> Program:
    class Holder(_Plain):
        pass

    def f(x: Tensor) -> Tensor:
        Holder.n += 1
        return _step(x, Holder.n, Holder.m)

    def put(a: int, b: int) -> None:
        Holder.n, Holder.m = a, b

    return f, put, lambda: (Holder.n, Holder.m)


def _items(holder: Any, n: Any, m: Any) -> Program:
    def f(x: Tensor) -> Tensor:
        holder[n] += 1
        return _step(x, holder[n], holder[m])

    def put(a: int, b: int) -> None:
        holder[n], holder[m] = a, b

    return f, put, lambda: repr(holder)


def _replaced(make: Callable[[int, int], Any]) -> Program:
    """A new holder each time, read only."""
    holder = types.SimpleNamespace(now=make(0, 0))

    def f(x: Tensor) -> Tensor:
        n, m = holder.now
        return _step(x, n, m)

    return f, lambda a, b: setattr(holder, "now", make(a, b)), lambda: None


class _Pair(NamedTuple):
    n: int
    m: int


def _partial() -> Program:
    holder = types.SimpleNamespace(now=functools.partial(_step, n=0, m=0))
    return (
        lambda x: holder.now(x),
        lambda a, b: setattr(holder, "now", functools.partial(_step, n=a, m=b)),
        lambda: None,
    )


def _defaults() -> Program:
    def inner(x: Tensor, n: int = 0, m: int = 0) -> Tensor:
        return _step(x, n, m)

    return (
        lambda x: inner(x),
        lambda a, b: setattr(inner, "__defaults__", (a, b)),
        lambda: None,
    )


PLACES: dict[str, Callable[[], Program]] = {
    "cells": _cells,
    "globals": _globals,
    "attributes": lambda: _object(_Plain),
    "slots": lambda: _object(_Slots),
    "class": _type,
    "dict": lambda: _items({}, "n", "m"),
    "list": lambda: _items([0, 0], 0, 1),
    "tuple": lambda: _replaced(lambda n, m: (n, m)),
    "named tuple": lambda: _replaced(_Pair),
    "partial": _partial,
    "defaults": _defaults,
}


def _tried(f: Callable[[Tensor], Tensor], x: Tensor) -> Any:
    try:
        return f(x)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("seed", range(8))
def test_places(place: str, seed: int) -> None:
    """Short stories: what was checked for one value at first is soon a number that may differ. Numbers are fresh
    objects now and then; small ones are CPython's own, one object each."""
    r = random.Random(seed)
    (mine, put_mine, see_mine), (theirs, put_theirs, see_theirs) = (
        PLACES[place](),
        PLACES[place](),
    )
    fast = pyjit.compile(mine, options={"recompile_limit": 64})
    numbers, flags = (
        r.choice([(1, 5), (5, 300), (0, 1)]),
        r.choice([(0, 1), (1, 2), (0, 1, 2)]),
    )
    for step in range(14):
        if not step or r.random() < 0.8:
            n, m = r.choice(numbers), r.choice(flags)
            put_mine(int(str(n)), m)
            put_theirs(n, m)
        x = values(r.choice([3, 3, 4]))
        have, want = _tried(fast, x), _tried(theirs, x)
        if isinstance(want, Tensor):
            torch.testing.assert_close(have, want, rtol=0, atol=0)
        else:
            assert have == want
        assert see_mine() == see_theirs()
