# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generators that wait at a `yield` where the graph breaks: context managers around it, loops over what is yielded.

The specialization in front makes another generator that waits at the same place, with what its frame holds
(python-bindings/capture/objects/EscapeGenerators.cpp).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pyjit
import pytest
import torch

LOG: list[Any] = []


@contextlib.contextmanager
def _noted(name: str, scale: float = 2.0) -> Iterator[float]:
    before = [name]
    LOG.append(f"in {name}")
    try:
        yield scale
    except ArithmeticError as error:
        LOG.append(f"met {type(error).__name__}")
    finally:
        before.append("done")
        LOG.append(before)


def _within(x: torch.Tensor) -> torch.Tensor:
    with _noted("a") as scale:
        x = x * scale
        print(end="")
        x = x + 1
    return x - 1


def _nested(x: torch.Tensor) -> torch.Tensor:
    with _noted("a") as one, _noted("b", 3.0) as two:
        x = x * one
        print(end="")
        x = x * two
        print(end="")
    return x


def _raised(x: torch.Tensor) -> torch.Tensor:
    with _noted("a"):
        x = x.cos()
        print(end="")
        raise ZeroDivisionError
    return x


def _left(x: torch.Tensor) -> torch.Tensor:
    for i in range(3):
        with _noted(f"r{i}"):
            x = x.sin()
            print(end="")
            if i == 1:
                return x
    return x


def _walk(x: torch.Tensor, names: list[str]) -> Iterator[tuple[str, torch.Tensor]]:
    for i, name in enumerate(names):
        x = x + i
        yield name, x
    LOG.append("walked")


def _walked(x: torch.Tensor) -> torch.Tensor:
    total = x * 0
    for name, part in _walk(x, ["a", "b", "c"]):
        total = total + part * len(name)
        print(end="")
    return total


def _delegated(x: torch.Tensor) -> torch.Tensor:
    def both() -> Iterator[tuple[str, torch.Tensor]]:
        yield from _walk(x, ["a"])
        yield from _walk(x * 2, ["bb", "cc"])

    total = x * 0
    for name, part in both():
        total = total + part * len(name)
        print(end="")
    return total


def _sent(x: torch.Tensor) -> torch.Tensor:
    def accumulate(total: torch.Tensor) -> Iterator[torch.Tensor]:
        while True:
            got = yield total
            total = total + got

    each = accumulate(x)
    next(each)
    each.send(x * 2)  # type: ignore[attr-defined]
    print(end="")
    return each.send(x * 3)  # type: ignore[attr-defined]


def _closed(x: torch.Tensor) -> torch.Tensor:
    def endless() -> Iterator[torch.Tensor]:
        try:
            while True:
                yield x
        finally:
            LOG.append("closed")

    each = endless()
    y = next(each) + next(each)
    print(end="")
    each.close()  # type: ignore[attr-defined]
    LOG.append("behind")
    return y


def _dropped(x: torch.Tensor) -> torch.Tensor:
    walk = _walk(x, ["a", "b"])
    name, y = next(walk)
    print(end="")
    return y * len(name)


class _Bag:
    def __init__(self) -> None:
        self.first, self.second = 1.5, 2.5

    def __iter__(self) -> Iterator[str]:
        yield from self.__dict__


def _of_object(x: torch.Tensor) -> torch.Tensor:
    bag = _Bag()
    for name in bag:
        x = x * getattr(bag, name)
        print(end="")
    return x


PROGRAMS = [
    _within, _nested, _raised, _left, _walked, _delegated, _sent, _closed, _dropped, _of_object,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__.strip("_"))
def test_as_in_eager(program: Callable[..., Any]) -> None:
    fast = pyjit.compile(program)
    for i in range(8):
        x = torch.randn(3) + i
        results = []
        for f in (program, fast):
            LOG.clear()
            try:
                results.append((f(x), None, [str(entry) for entry in LOG]))
            except ArithmeticError as error:
                results.append((None, type(error), [str(entry) for entry in LOG]))
        wanted, found = results
        assert wanted[1:] == found[1:]
        assert wanted[0] is None or torch.allclose(wanted[0], found[0])
    # Generators with a `finally` of their own are left to eager, contexts apart.
    assert pyjit.stats(fast)["hits"] or program is _closed


def test_contexts_begin_in_the_graph() -> None:
    """The graph breaks within it, and where its end resumes the generator; not where it begins."""
    fast = pyjit.compile(_within)
    for _ in range(6):
        fast(torch.ones(3))
    breaks = pyjit.explain(fast).to_dict()["graph_breaks"]
    assert {b["code"] for b in breaks} == {"print", "earlier-object", "changing-value"}
    assert not any("__enter__" in str(b["stack"]) for b in breaks), breaks


def test_walked_objects_are_one_graph() -> None:
    """A class whose `__iter__` is a generator."""
    bag = _Bag()

    def scaled(x: torch.Tensor) -> torch.Tensor:
        for name in bag:
            x = x * getattr(bag, name)
        return x + sum(len(name) for name in bag)

    fast = pyjit.compile(scaled)
    x = torch.randn(3)
    for _ in range(3):
        assert torch.equal(fast(x), scaled(x))
    bag.third = 3.5  # type: ignore[attr-defined]
    for _ in range(3):
        assert torch.equal(fast(x), scaled(x))
    assert not pyjit.stats(fast)["graph_breaks"]
