# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`del` of variables that nested functions share: within a call, across a graph break, of an enclosing function."""

# ruff: noqa: F821, B023 (what a program deletes, and asks for again; functions that share what loops bind)

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch


def _own(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    total = sum(y[i] for i in range(3))
    del y
    return total + x


def _again(x: torch.Tensor) -> torch.Tensor:
    out = x
    for scale in (2.0, 3.0):
        y = out * scale
        out = torch.stack([y[i] for i in range(3)])
        add_up = lambda: y.sum()
        total = add_up()
        del y
        print(end="")
        out = out + total
    return out


def _unbound(x: torch.Tensor) -> Any:
    y = x * 2

    def read() -> torch.Tensor:
        return y

    first = read()
    del y
    print(end="")
    try:
        return read()
    except NameError as error:
        return first, str(error)


def _twice(x: torch.Tensor) -> Any:
    y = x + 1
    read = lambda: y
    first = read()
    del y
    try:
        del y
    except NameError:
        return first
    return None


@pytest.mark.parametrize(
    "program", [_own, _again, _unbound, _twice], ids=lambda f: f.__name__.strip("_")
)
def test_own_variables(program: Callable[..., Any]) -> None:
    fast = pyjit.compile(program)
    for i in range(6):
        x = torch.randn(3)
        wanted, found = program(x), fast(x)
        if isinstance(wanted, tuple):
            assert wanted[1] == found[1]
            wanted, found = wanted[0], found[0]
        assert torch.allclose(wanted, found)
    assert pyjit.stats(fast)["hits"]


def test_an_enclosing_function() -> None:
    """What it shares is empty behind the call, full again before the next, or not."""

    def stories(compiled: Callable[[Any], Any]) -> list[Any]:
        state = torch.ones(3)

        def drop(x: torch.Tensor) -> torch.Tensor:
            nonlocal state
            y = x + state
            del state
            return y

        def fill(x: torch.Tensor) -> torch.Tensor:
            nonlocal state
            state = x * 2
            return x + 1

        def look(x: torch.Tensor) -> Any:
            try:
                return state + x
            except NameError:
                return None

        drop, fill, look = map(compiled, (drop, fill, look))
        seen: list[Any] = []
        for i in range(8):
            x = torch.full((3,), float(i))
            seen.append(drop(x))
            seen.append(look(x))
            if i % 3 == 2:
                with pytest.raises(NameError):
                    drop(x)
            seen.append(fill(x))
            seen.append(look(x))
        return seen

    wanted, found = stories(lambda f: f), stories(pyjit.compile)
    assert [v is None for v in wanted] == [v is None for v in found]
    assert all(a is None or torch.equal(a, b) for a, b in zip(wanted, found))


def test_parts_of_annotations() -> None:
    """`typing.get_args` and `get_origin` of `int | None` and `list[int]`, as dataclasses are checked with."""
    fields = {"a": int | None, "b": list[int], "c": dict[str, float], "d": float}

    def described(x: torch.Tensor) -> torch.Tensor:
        for kind in fields.values():
            parts = typing.get_args(kind)
            x = x + len(parts)
            if typing.get_origin(kind) is list or type(None) in parts:
                x = x * 2
        return x

    fast = pyjit.compile(described)
    x = torch.randn(3)
    for _ in range(3):
        assert torch.equal(fast(x), described(x))
    fields["d"] = str | None
    for _ in range(3):
        assert torch.equal(fast(x), described(x))
    assert not pyjit.stats(fast)["graph_breaks"]
