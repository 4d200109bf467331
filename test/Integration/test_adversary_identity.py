# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attempts to get a wrong answer: which object it is, where equal ones are told apart."""

# Texts that are equal and not one object have to be joined.
# ruff: noqa: FLY002

from __future__ import annotations

import math
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


# Containers find a nan by its identity.
_SEARCHES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "lists": lambda x, a, b: (x * 2, [a] == [b], [a, 1.0] != [b, 1.0]),
    "tuples": lambda x, a, b: (x * 2, (a, b) == (b, a), {"k": (a,)} == {"k": (b,)}),
    "in": lambda x, a, b: (x * 2, a in [b], b in (a, 2.0), [a, b].count(a)),
    "index": lambda x, a, b: (x * 2, [b, a].index(a)),
    "a key": lambda x, a, b: (x * 2, b in {a: 1}, len({a, b})),
    "behind a graph break": lambda x, a, b: (
        (k := [a]),
        print(end=""),
        x * 2,
        k == [b],
        k == [a],
    )[2:],
    "returned": lambda x, a, b: (x * 2, [a, b, a]),
    "of a constant": lambda x, a, b: (x * 2, (a, b) == _PAIR, a in _PAIR),
}
_NAN = float("nan")
_PAIR = (_NAN, float("nan"))


@pytest.mark.parametrize("held", ["arguments", "list", "dict"])
@pytest.mark.parametrize("search", _SEARCHES)
def test_nans_are_one_object_or_two(search: str, held: str) -> None:
    ask = _SEARCHES[search]
    forms: dict[str, tuple[Callable[..., Any], Callable[[Any, Any], Any]]] = {
        "arguments": (ask, lambda a, b: (a, b)),
        "list": (lambda x, k: ask(x, *k), lambda a, b: ([a, b],)),
        "dict": (lambda x, k: ask(x, k["a"], k["b"]), lambda a, b: ({"a": a, "b": b},)),
    }

    def story(compile: Compile) -> Steps:
        called, give = forms[held]
        f = compile(called)
        nans = [float("nan") for _ in range(4)]
        one, two, three, four = nans
        for a, b in [
            (one, one), (two, two), (one, two), (two, one), (three, four), (three, three),
            (_NAN, _PAIR[1]), (_NAN, one), (1.0, one), (one, 1.0), (1.0, 1.0), (four, one), (four, four),
        ]:  # fmt: skip
            answer = f(values(4), *give(a, b))
            shown = answer[1]
            if isinstance(shown, list):
                # Which of those that it was given they are.
                yield answer[0], [[v is a, v is b] for v in shown if math.isnan(v)]
            yield answer

    tell(story, captured=False, graph_breaks=ANY)


@pytest.mark.parametrize("where", ["dict", "set"])
def test_nans_are_keys(where: str) -> None:
    def story(compile: Compile) -> Steps:
        f = compile(lambda x, keys, a: (x * 2, a in keys, len(keys)))
        one, two = float("nan"), float("nan")
        keys: Any = {one: 1, 2.0: 3} if where == "dict" else {one, 2.0}
        for a in (two, two, one, two, one, 2.0, one):
            yield f(values(4), keys, a)

    tell(story, captured=False, graph_breaks=ANY)


@pytest.mark.parametrize("kind", _KINDS)
def test_an_address_is_asked_twice(kind: str) -> None:
    """It is that of one object, which a number that is handed on would not be."""

    def story(compile: Compile) -> Steps:
        def step(x: torch.Tensor, v: Any) -> Any:
            w = v * 2
            first, other, again = id(v), id(w), id(v)
            return x * 3, first == again, first == other, id(w) == other, id(None)

        f = compile(step)
        for n in range(9):
            yield f(values(4), _KINDS[kind](f"{n}.5"))

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
