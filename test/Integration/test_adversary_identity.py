# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attempts to get a wrong answer: which object it is, where equal ones are told apart."""

# Texts that are equal and not one object have to be joined.
# ruff: noqa: FLY002

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from Integration.harness import ANY, Compile, Steps, scenario, tell, values

_KINDS: dict[str, Callable[[str], Any]] = {
    "float": float,
    "int": lambda text: int(float(text) * 1000),
    "text": lambda text: "".join(["a", text]),
    "bytes": lambda text: text.encode() * 2,
    "complex": complex,
    "nan": lambda text: float("nan"),
}
_ASKS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "is": lambda x, a, b: x * 2 if a is b else x,
    "is not": lambda x, a, b: (x * 2, a is not b),
    "behind a graph break": lambda x, a, b: (print("in front"), x * (a is b))[1],
    "operator.is_": lambda x, a, b: (x * 2, operator.is_(a, b), operator.is_not(a, b)),
    "mapped": lambda x, a, b: (x * 2, list(map(operator.is_, [a, a], (b, a)))),
    "mapped over a zip": lambda x, a, b: (
        x + 1,
        list(map(operator.is_not, [a, a], [b, a])),
    ),
    "mapped over an iterator": lambda x, a, b: (
        x + 1,
        list(map(operator.is_, iter([a, b]), iter([b, b]))),
    ),
    "kept": lambda x, a, b: x * 3 if {"a": a}["a"] is b else x,
}


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("ask", _ASKS)
def test_equal_values_are_one_object_or_two(ask: str, kind: str) -> None:
    def story(compile: Compile) -> Steps:
        f = compile(_ASKS[ask])
        make = _KINDS[kind]
        one, two, other = make("1.5"), make("1.5"), make("2.5")
        for a, b in [
            (one, one), (one, one), (one, two), (two, one), (two, two), (one, other),
            (other, one), (other, other), (one, two), (make("3.5"), make("3.5")),
        ]:  # fmt: skip
            yield f(values(4), a, b)

    tell(story, captured=False, graph_breaks=ANY)


@scenario(captured="late", graph_breaks=ANY)
def test_a_default_is_told_apart(compile: Compile) -> Steps:
    default = "".join(["me", "an"])
    f = compile(lambda x, how=default: x.mean() if how is default else x.sum())
    yield f(values(4), "sum")
    yield f(values(4), "sum")
    yield f(values(4), "none")
    yield f(values(4))
    yield f(values(4), "mean")
    yield f(values(4), "".join(["me", "an"]))
    yield f(values(4), default)
    yield f(values(4), "sum")


@scenario(captured="late")
def test_small_ints_are_one_object(compile: Compile) -> Steps:
    three = 3
    f = compile(lambda x, n: x * 2 if n is three else x + n)
    for n in (3, 3, 3, int("3"), 4, 5, -5, 3, 250 + 6, 3):
        yield f(values(4), n)


@scenario
def test_tensors_that_are_one_object(compile: Compile) -> Steps:
    def g(x: torch.Tensor, y: torch.Tensor, both: list[Any]) -> Any:
        return x + (1 if x is y else 2), [t is x for t in both], both[0] is both[1]

    f = compile(g)
    a, b = values(3), values(3)
    for x, y, both in [
        (a, b, [a, b]), (a, b, [a, b]), (a, a, [a, a]), (a, a, [b, b]), (b, b, [b, a]),
        (a, a.detach(), [a.view(3), a]), (a, b, [b, a]), (b, a, [a, a]),
    ]:  # fmt: skip
        yield f(x, y, both)


def _of_the_caller() -> object:
    return sorted(sys._getframe(1).f_locals)


@scenario(eager="the local variables of a frame")
def test_variables_of_frames(compile: Compile) -> Steps:
    """A frame behind a graph break has all variables that the program has set."""

    def inner(x: torch.Tensor) -> object:
        z = x + 1
        return _of_the_caller(), z

    def g(x: torch.Tensor) -> object:
        y = x * 2
        seen = [_of_the_caller()]
        total = y.sum()
        seen.append(inner(x))
        print(end="")
        seen.append(_of_the_caller())
        return y, total, seen

    f = compile(g)
    for i in range(6):
        yield f(values(4, seed=i))
