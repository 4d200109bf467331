# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An object's `__dict__` is one dict, whoever holds it: what is written through one name is read through each other one,
in a graph, over a graph break, and behind the call."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from Integration.harness import ANY, Compile, Steps, tell, values


class Plain:
    n: int


class AttributeDict(dict[str, Any]):
    """Its entries are its attributes."""

    def __init__(self, **entries: Any) -> None:
        super().__init__(**entries)
        self.__dict__ = self


def _plain(n: int) -> tuple[Any, Any]:
    made = Plain()
    made.n = n
    return made, made.__dict__


def _sharing(n: int) -> tuple[Any, Any]:
    first, second = Plain(), Plain()
    first.n = n
    second.__dict__ = first.__dict__
    return first, second


def _over_a_dict(n: int) -> tuple[Any, Any]:
    made, entries = Plain(), {"n": n}
    made.__dict__ = entries
    return made, entries


def _attribute_dict(n: int) -> tuple[Any, Any]:
    made = AttributeDict(n=n)
    return made, made


# Two names for one dict: an object and what holds its entries.
_PAIRS: dict[str, Callable[[int], tuple[Any, Any]]] = {
    "vars": _plain,
    "two objects": _sharing,
    "a dict that became one": _over_a_dict,
    "a dict whose entries are its attributes": _attribute_dict,
}


def _read(holder: Any) -> Any:
    return holder["n"] if isinstance(holder, dict) else holder.n


def _write(holder: Any, value: Any) -> None:
    if isinstance(holder, dict):
        holder["n"] = value
    else:
        holder.n = value


def _through_both(
    x: torch.Tensor, one: Any, other: Any, between: Callable[[], None]
) -> Any:
    _write(one, _read(one) + 1)
    between()
    _write(other, _read(other) * 2)
    between()
    one.m = 3
    return x * _read(one), _read(other), vars(one), other


_BETWEEN: dict[str, Callable[[], None]] = {
    "one graph": lambda: None,
    "graph breaks": lambda: print(end=""),
}


@pytest.mark.parametrize("between", _BETWEEN)
@pytest.mark.parametrize("where", ["made in the call", "arguments", "kept"])
@pytest.mark.parametrize("pair", _PAIRS)
def test_a_dict_with_two_names(pair: str, where: str, between: str) -> None:
    make = _PAIRS[pair]

    def story(compile: Compile) -> Steps:
        one, other = make(1)

        def step(x: torch.Tensor, n: int, *given: Any) -> Any:
            if where == "made in the call":
                given = make(n)
            return _through_both(x, *(given or (one, other)), _BETWEEN[between])

        fast = compile(step)
        for n in (1, 1, 1, 2, 3, 4, 4, 5):
            seen = fast(values(2), n, *(make(n) if where == "arguments" else ()))
            yield seen[:3], _read(seen[3]), _read(one), _read(other)
            # Behind the call, too.
            seen[2]["n"] = 7
            yield _read(seen[3])

    tell(story, captured=False, graph_breaks=ANY)


@pytest.mark.parametrize("deep", [False, True])
def test_a_copy_of_numbers_that_differ(deep: bool) -> None:
    def story(compile: Compile) -> Steps:
        kept = Plain()
        kept.n = 0

        def step(x: torch.Tensor) -> Any:
            made = copy.deepcopy(kept) if deep else copy.copy(kept)
            kept.n += 2
            made.n += 1
            return x * made.n, vars(made)

        fast = compile(step)
        for _ in range(14):
            yield fast(values(2)), kept.n

    tell(story, captured=False, graph_breaks=ANY)


def test_an_object_over_a_dict_from_before_the_call() -> None:
    def story(compile: Compile) -> Steps:
        def step(x: torch.Tensor, entries: dict[str, Any]) -> Any:
            made = Plain()
            made.__dict__ = entries
            made.n = made.n + 1
            return x * made.n, entries["n"], vars(made) is entries

        fast = compile(step)
        for n in (1, 1, 1, 2, 3, 4):
            entries = {"n": n}
            yield fast(values(2), entries), entries

    tell(story, captured=False, graph_breaks=ANY)


@pytest.mark.parametrize("between", _BETWEEN)
@pytest.mark.parametrize("held", ["arguments", "list"])
def test_arguments_share_a_dict_in_later_calls(held: str, between: str) -> None:
    class Other(Plain):
        pass

    def step(x: torch.Tensor, one: Any, other: Any) -> Any:
        one.n += 1
        _BETWEEN[between]()
        other.n = other.n * 10
        other.m = one.n
        return x * one.n, other.n

    def story(compile: Compile) -> Steps:
        fast = compile(step if held == "arguments" else lambda x, pair: step(x, *pair))
        for shared in (0, 0, 1, 0, 1, 1, 0, 0):
            one, other = Plain(), Other()
            one.n, other.n = 4, 5
            if shared:
                other.__dict__ = one.__dict__
            given = (one, other) if held == "arguments" else ([one, other],)
            yield fast(values(2), *given), vars(one), vars(other)

    tell(story, captured=False, graph_breaks=ANY)


@pytest.mark.parametrize("between", _BETWEEN)
def test_an_argument_is_the_dict_of_another_one_in_later_calls(between: str) -> None:
    def story(compile: Compile) -> Steps:
        def step(x: torch.Tensor, one: Any, entries: dict[str, Any]) -> Any:
            one.n += 1
            _BETWEEN[between]()
            entries["n"] = entries["n"] * 10
            return x * one.n, entries["n"]

        fast = compile(step)
        for n in (0, 0, 1, 0, 1, 1, 0):
            one = Plain()
            one.n = 4
            entries = vars(one) if n else {"n": 4}
            yield fast(values(2), one, entries), one.n, entries

    tell(story, captured=False, graph_breaks=ANY)
