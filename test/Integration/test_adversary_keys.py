# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attempts to get a wrong answer: numbers as keys, beside tensors."""

# The spelling that ruff would simplify is what is tested.
# ruff: noqa: C406

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from Integration.harness import ANY, Compile, Steps, attempt, tell, values

_LOOKUPS: dict[str, Callable[[Any, Any], Any]] = {
    "get": lambda x, n: {1: x, 2: x * 2}.get(n, x - 1),
    "get of numbers": lambda x, n: {1: 5, 2: 7}.get(n, x),
    "get of the default": lambda x, n: {1: x + 1, 2: x}.get(n, x),
    "pop": lambda x, n: {1: x, 2: x * 2}.pop(n, x - 1),
    "setdefault": lambda x, n: {1: x, 2: x * 2}.setdefault(n, x - 1),
    "item": lambda x, n: {1: x, 2: x * 2}[n],
    "update": lambda x, n: _updated({2: x}, [(n, x - 1)]),
    "pairs": lambda x, n: dict([(n, x), (1, x * 2)]),
    "pairs in lists": lambda x, n: dict(([2, x], [n, x * 2])),
    "zipped": lambda x, n: dict(zip([n, 1], [x, x * 2])),
    "display": lambda x, n: {n: x, 1: x * 2},
    "element": lambda x, n: [x, x * 2, x - 1][n],
    "insert": lambda x, n: _inserted([x, x * 2, x * 3], n, x - 1),
}


def _updated(d: dict[int, Any], pairs: Any) -> Any:
    d.update(pairs, a=d[2] * 3)
    return d


def _inserted(xs: list[Any], n: int, x: Any) -> Any:
    xs.insert(n, x)
    return xs


@pytest.mark.parametrize("source", ["argument", "data"])
@pytest.mark.parametrize("name", _LOOKUPS)
def test_a_number_as_a_key_beside_tensors(name: str, source: str) -> None:
    """A default that is a tensor does not make a look-up an operator: the key decides."""

    def story(compile: Compile) -> Steps:
        if source == "data":
            f = compile(lambda x, n: _LOOKUPS[name](x, n.item()))
        else:
            f = compile(_LOOKUPS[name])
        for n in (2, 2, 2, 1, 1, 3, 2, 7, 1, 5, 3):
            number = torch.tensor(n) if source == "data" else n
            yield attempt(f, values(3), number)

    tell(story, graph_breaks=ANY)


class _Equal:
    """Equal to each other one, or refuses to say, with a hash of its own."""

    def __init__(self, refuses: bool = False) -> None:
        self.refuses = refuses

    def __eq__(self, other: object) -> bool:
        if self.refuses:
            raise ValueError("no comparison")
        return True

    def __hash__(self) -> int:
        return id(self) >> 4


_KEYS: dict[str, Callable[[], list[Any]]] = {
    "tensors of one element": lambda: [torch.ones(1) for _ in range(3)],
    "tensors": lambda: [torch.ones(3) for _ in range(3)],
    "parameters": lambda: [torch.nn.Parameter(torch.ones(())) for _ in range(3)],
    "tuples of tensors": lambda: [(1, torch.ones(2)) for _ in range(3)],
    "equal ones": lambda: [_Equal() for _ in range(3)],
    "ones that refuse": lambda: [_Equal(refuses=True) for _ in range(3)],
    "strings": lambda: ["a", "b", "c"],
}


@pytest.mark.parametrize("name", _KEYS)
def test_entries_that_are_taken_out_and_put_in_again(name: str) -> None:
    """As where the state of an optimizer is reset: which writes are of one key, a dict decides by hashes."""

    def story(compile: Compile) -> Steps:
        keys = _KEYS[name]()
        table = dict.fromkeys(keys, 0)

        @compile
        def f(x: torch.Tensor, reset: bool) -> torch.Tensor:
            if reset:
                del table[keys[0]], table[keys[2]]
                table.pop(keys[1])
            for i, key in enumerate(keys):
                table[key] = table.get(key, 10) + i
            return x * table[keys[1]]

        for reset in (False, True, True, False, True, False):
            yield attempt(f, values(3), reset)
            yield [table.get(key) for key in keys], len(table)

    tell(story, captured=False, graph_breaks=ANY)


@pytest.mark.parametrize(
    "key", ["a", 3, 2.5, True, None, b"x", ("a", 1), ((1, None), "b"), int], ids=repr
)
def test_a_number_under_a_key_of_any_kind_becomes_an_input(key: Any) -> None:
    def story(compile: Compile) -> Steps:
        table: dict[Any, float] = {}

        @compile
        def f(x: torch.Tensor) -> torch.Tensor:
            return x * table[key]

        for i in range(8):
            table[key] = 0.5 + i / 8
            yield attempt(f, values(3))

    tell(story, captured="late")
