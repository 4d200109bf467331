# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers that change between calls and come out of an instruction or a function: unpacked, rounded, looked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from Integration.harness import Compile, Steps, attempt, values
from Integration.test_lifting import misses


class Pair(NamedTuple):
    a: float
    b: float


def unpacked(x: torch.Tensor, given: Any) -> torch.Tensor:
    a, b = given
    return x * a + b


# What is given in the n-th call.
GIVEN: dict[str, Callable[[float], Any]] = {
    "tuple": lambda n: (0.5 + n, 0.9),
    "tuple, last": lambda n: (0.9, 0.5 + n),
    "list": lambda n: [0.5 + n, 0.9],
    "both": lambda n: (0.5 + n, 3.5 + n * n),
    "ints": lambda n: (300 + int(n), 700 - int(n)),
}


@pytest.mark.parametrize("name", GIVEN)
def test_unpacked(name: str) -> None:
    @misses(2)
    def story(compile: Compile) -> Steps:
        f = compile(unpacked)
        for n in range(7):
            yield f(values(3), GIVEN[name](n))

    story()


@misses(2)
def test_one_object_twice(compile: Compile) -> Steps:
    """Two places of a tuple hold the same number, and then do not."""
    f = compile(unpacked)
    for n in range(8):
        number = 0.5 + n
        yield f(values(3), (number, number) if n < 4 else (number, 2.5 * n))


@misses(2)
def test_in_a_loop(compile: Compile) -> Steps:
    def total(x: torch.Tensor, pairs: list[tuple[float, float]]) -> torch.Tensor:
        for weight, shift in pairs:
            x = x * weight + shift
        return x

    f = compile(total)
    for n in range(7):
        yield f(values(3), [(0.5 + n, 0.25), (0.5 - n, 0.75)])


def test_named_tuple() -> None:
    """Right, whatever is lifted."""
    import pyjit

    f = pyjit.compile(unpacked)
    for n in range(6):
        x, given = values(3, seed=n), Pair(0.5 + n, 0.9)
        torch.testing.assert_close(f(x, given), unpacked(x, given))


ROUNDED: dict[str, Callable[[Any], Any]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "floor of a product": lambda n: math.floor(n * 1.5) + 1,
}


@pytest.mark.parametrize("name", ROUNDED)
def test_rounded(name: str) -> None:
    @misses(2)
    def story(compile: Compile) -> Steps:
        f = compile(lambda x, n: (x * ROUNDED[name](n), ROUNDED[name](n)))
        for n in (0.3, 1.7, 2.0, -0.4, -2.5, -0.0, 1e15 + 0.5, 2.0**52 + 1, 1e-300):
            yield f(values(3), n)

    story()


@pytest.mark.parametrize("name", ROUNDED)
def test_rounded_int(name: str) -> None:
    @misses(2)
    def story(compile: Compile) -> Steps:
        f = compile(lambda x, n: x * ROUNDED[name](n))
        for n in (3, 7, -5, 0, 1 << 40):
            yield f(values(3), n)

    story()


@pytest.mark.parametrize("name", ROUNDED)
def test_what_has_no_integer(name: str) -> None:
    """Errors are Python's."""
    import pyjit

    def g(x: torch.Tensor, n: float) -> torch.Tensor:
        return x * ROUNDED[name](n)

    f = pyjit.compile(g)
    for n in (0.5, 1.5, 2.5, math.nan, math.inf, -math.inf, 3.5):
        have, want = attempt(f, values(3), n), attempt(g, values(3), n)
        assert repr(have) == repr(want)


@misses(4)
def test_looked_for_in_a_tuple(compile: Compile) -> Steps:
    """One specialization for the calls that find nothing, one for each that is found."""

    def step(x: torch.Tensor, n: int) -> torch.Tensor:
        return x * 2 if n in (4, 7) else x * n

    f = compile(step)
    for n in (1, 2, 3, 4, 5, 6, 7, 8, 4, 7, 9, 2):
        yield f(values(3), n)


def test_looked_for_in_a_list_that_changes() -> None:
    import pyjit

    marks = [4, 7]

    def step(x: torch.Tensor, n: float) -> torch.Tensor:
        return x * 2 if n in marks else x * n

    f = pyjit.compile(step)
    for n in (1.0, 2.0, 3.0, 4.0, 5.0, math.nan, 6.0, 7.0, 8, 4, 9.5, True, 2.0):
        if n == 8:
            marks.append(9.5)
        if n == 9.5:
            marks[0] = 1
        x = values(3)
        torch.testing.assert_close(f(x, n), step(x, n), equal_nan=True)
    number = math.nan
    marks[:] = [number, 0.25]
    for _ in range(3):
        torch.testing.assert_close(f(x, number), step(x, number), equal_nan=True)
