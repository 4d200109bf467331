# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers that are sizes: of arguments, attributes and counters that differ between calls."""

from __future__ import annotations

from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import Compile, Raised, Steps, attempt, scenario, values

_BUFFER = values(2, 20, 4)

_USES = {
    "new": lambda x, n: torch.zeros(n, 2) + x,
    "range": lambda x, n: torch.arange(n) * 2 + x.sum(),
    "slice": lambda x, n: _BUFFER[:, :n].sum(1) + x.sum(),
    "select": lambda x, n: _BUFFER[:, n] + x.sum(),
    "both": lambda x, n: _BUFFER[:, n : n + 2].softmax(1) + x.sum(),
    "expand": lambda x, n: x.expand(n, 2).sum(0),
}


@pytest.mark.parametrize("use", _USES)
def test_argument(use: str) -> None:
    f = _USES[use]
    fast = pyjit.compile(f)
    with torch.no_grad():
        for n in (3, 4, 5, 6, 9, 2, 12, 4, 1, 0, 18):
            x = values(2, seed=n)
            want, have = f(x, n), fast(x, n)
            assert (want.shape, want.stride()) == (have.shape, have.stride())
            torch.testing.assert_close(have, want)
    assert pyjit.stats(fast)["hits"] >= 5


# What each gives for n, and whether all n have one specialization.
_NEGATIVE = {
    "linspace": (lambda x, n: torch.linspace(0, -n, 3) + x.sum(), True),
    "arange": (lambda x, n: torch.arange(-n, 0) * x.sum(), True),
    "full": (lambda x, n: torch.full((3,), -n) * x.sum(), True),
    "to the end": (lambda x, n: x[-n:] * 2, True),
    "from the end": (lambda x, n: x[:-n] * 2, True),
    "both from the end": (lambda x, n: x[-n:-1] * 2, True),
    "an element from the end": (lambda x, n: x[-n] * 2, True),
    "columns": (lambda x, n: x[:, -n:].sum(1), True),
    "less than a size": (lambda x, n: x[n - 9 :] * 2, True),
    "roll": (lambda x, n: torch.roll(x, -n, 0) * 2, False),
    "pad": (lambda x, n: torch.nn.functional.pad(x, (0, 0, 1 - n, 0)) * 2, False),
    "written": (lambda x, n: _with_zeros(x, n), True),
}


def _with_zeros(x: torch.Tensor, n: int) -> torch.Tensor:
    y = x.clone()
    y[-n:] = 0
    return y


@pytest.mark.parametrize("use", _NEGATIVE)
def test_negative_numbers(use: str) -> None:
    """A number of an operator may be less than nothing, where a size may not: no launch raises."""
    f, lifted = _NEGATIVE[use]
    fast = pyjit.compile(f)
    with torch.no_grad():
        for n in (3, 5, 4, 6, 7, 2, 8, 3, 1, 0, -1, -3, 4, 5, 6):
            x = values(9, 9, seed=n + 3)
            want, have = attempt(f, x, n), attempt(fast, x, n)
            if isinstance(want, Raised):
                assert isinstance(have, Raised) and have.type is want.type
                continue
            assert (want.shape, want.stride()) == (have.shape, have.stride())
            torch.testing.assert_close(have, want)
    stats = pyjit.stats(fast)
    told = stats["reasons"] + stats["fixed_sizes"]
    assert not [line for line in told if "raised" in line or "no rule" in line], told
    assert not lifted or stats["hits"] >= 7


@pytest.mark.parametrize("rows", [20, 32, 40])
def test_rest_of_a_fixed_dimension(rows: int) -> None:
    """Sizes like `20 - n`, of which guesses at `n` make less than nothing."""

    def f(b: torch.Tensor, n: int) -> tuple[torch.Tensor, ...]:
        rest = b[n:]
        return rest * 2 + 1, rest.sum(), rest.exp().sum(1), rest[:, :4].softmax(0)

    fast = pyjit.compile(f)
    with torch.no_grad():
        for n in (3, 5, 7, 9, 11, 4, 18, 19, 20):
            b = values(rows, 17, seed=n)
            torch.testing.assert_close(fast(b, n), f(b, n))
    assert pyjit.stats(fast)["hits"] >= 4


class _Position:
    def __init__(self) -> None:
        self.value = 3


@scenario(captured="late")
def test_counter(compile: Compile) -> Steps:
    position = _Position()

    def step(x: Any) -> Any:
        position.value += 1
        return _BUFFER[:, : position.value].sum(1) + x

    f = compile(step)
    for seed in range(10):
        yield f(values(2, 4, seed=seed)), position.value
    position.value = 0
    yield f(values(2, 4)), position.value
    yield f(values(2, 4)), position.value
    position.value = 30
    yield f(values(2, 4)), position.value


def test_refused_write() -> None:
    """A write at a place that is a number: for each number its own specialization."""
    position = _Position()
    buffer, expected = torch.zeros(2, 12, 4), torch.zeros(2, 12, 4)

    def step(x: Any) -> Any:
        buffer[:, position.value] = x
        position.value += 1
        return buffer[:, : position.value].sum(1)

    fast = pyjit.compile(step)
    with torch.no_grad():
        for seed in range(8):
            x = values(2, 4, seed=seed)
            have = fast(x)
            expected[:, 3 + seed] = x
            torch.testing.assert_close(buffer, expected)
            torch.testing.assert_close(have, expected[:, : 4 + seed].sum(1))
    assert not pyjit.stats(fast)["reasons"]
