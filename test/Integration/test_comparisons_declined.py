# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What Python compares behind a method of a class that answers `NotImplemented`, or does not ask at all.

The method of the other operand is asked next, which may be C code that reads both; then objects are compared by
identity, as containers compare their elements to begin with.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from Integration.harness import ANY, Compile, Steps, attempt, scenario, values

NAN = float("nan")


@functools.cache
def declining(base: type) -> type:
    """A class that compares in native code only, behind methods of its own."""

    def decline(self: Any, other: Any) -> Any:
        return NotImplemented

    names = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
    methods: dict[str, Any] = dict.fromkeys(names, decline)
    return type(
        f"Declining{base.__name__}", (base,), {**methods, "__hash__": base.__hash__}
    )


#: Equal to a plain object of its kind where the number is 5.
KINDS: dict[str, tuple[Callable[[int], Any], Any]] = {
    "list": (lambda n: declining(list)([n, 2]), [5, 2]),
    "tuple": (lambda n: declining(tuple)((n, 2)), (5, 2)),
    "dict": (lambda n: declining(dict)(a=n), {"a": 5}),
    "set": (lambda n: declining(set)({n}), {5}),
    "frozenset": (lambda n: declining(frozenset)({n}), {5}),
    "deque": (lambda n: declining(collections.deque)([n]), collections.deque([5])),
    "str": (lambda n: declining(str)(n), "5"),
    "int": (lambda n: declining(int)(n), 5),
    "float": (lambda n: declining(float)(n), 5.0),
    "counter": (lambda n: collections.Counter({"a": n}), {"a": 5}),
    "ordered": (lambda n: collections.OrderedDict(a=n), {"a": 5}),
}  # fmt: skip

WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "ge": lambda a, b: a >= b,
    "in": lambda a, b: a in [b],
    "within": lambda a, b: [a] == [b],
    "count": lambda a, b: (b, b).count(a),
}


@pytest.mark.parametrize("kind", KINDS)
def test_native_kinds(kind: str) -> None:
    make, plain = KINDS[kind]

    @scenario(captured=False, graph_breaks=ANY)
    def story(compile: Compile) -> Steps:
        for way in WAYS.values():
            for turned in (False, True):

                def g(
                    x: torch.Tensor, a: Any, way: Any = way, turned: Any = turned
                ) -> Any:
                    y = x + 1
                    return y, way(plain, a) if turned else way(a, plain)

                f = compile(g)
                for n in (4, 5, 6, 5, 4):
                    yield attempt(f, values(3), make(n))

    story()


class Number:
    """Not equal to itself, where it holds a nan."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]


class Nobody:
    def __eq__(self, other: object) -> bool:
        return NotImplemented

    def __ne__(self, other: object) -> bool:
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]


PAIRS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a in [b],
    lambda a, b: [a] == [b],
    lambda a, b: (a,) != (b,),
    lambda a, b: {1: a} == {1: b},
    lambda a, b: [b].count(a),
]


@pytest.mark.parametrize("make", [lambda: Number(NAN), Nobody])
def test_one_object_or_two(make: Callable[[], Any]) -> None:
    @scenario(graph_breaks=ANY)
    def story(compile: Compile) -> Steps:
        for way in PAIRS:
            f = compile(lambda x, a, b, way=way: (x + 1, way(a, b)))
            for same in (False, False, True, False, True):
                a = make()
                yield attempt(f, values(3), a, a if same else make())

    story()


@scenario
def test_of_no_native_kind(compile: Compile) -> Steps:
    """What a class of Python's leaves to another one is one graph."""

    class Version:
        def __init__(self, number: int) -> None:
            self.number = number

        def __eq__(self, other: object) -> bool:
            if not isinstance(other, Version):
                return NotImplemented
            return self.number == other.number

        __hash__ = None  # type: ignore[assignment]

    f = compile(lambda x, v: x + (v == Version(2)) + (v == 2) + (v in [1, Version(2)]))
    for number in (1, 1, 2, 3, 2):
        yield f(values(3), Version(number))


@scenario(captured=False, graph_breaks=ANY)
def test_slices_of_containers(compile: Compile) -> Steps:
    """A slice is compared, and printed, by what it holds."""
    f = compile(lambda x, d: (x + 1, slice(1, d) == slice(1, [5]), repr(slice(d, 2))))
    for number in (4, 5, 6, 5):
        yield f(values(3), [number])
