# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Callbacks that are bound methods of builtin objects, another one in each call (``tokens.append``)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pyjit
import pytest
import torch

CALLS = 24


def two_steps(x: torch.Tensor, put: Callable) -> torch.Tensor:
    """Tells of its steps, as a loop that streams tokens does."""
    y = (x * 2).relu() + 1
    put(y)
    z = y.sin() - x
    put(int(z.argmax()))
    return z * y


def alike(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor):
        torch.testing.assert_close(a, b)
        return True
    return a == b


@pytest.mark.parametrize("make", [list, deque])
@pytest.mark.parametrize("by_keyword", [False, True])
def test_new_lists_are_answered_by_compiled_code(make: type, by_keyword: bool) -> None:
    fast = pyjit.compile(two_steps)
    for i in range(CALLS):
        x = torch.randn(7, generator=torch.Generator().manual_seed(i))
        want, found = make(), make()
        expected = two_steps(x, want.append)
        got = fast(x, put=found.append) if by_keyword else fast(x, found.append)
        torch.testing.assert_close(got, expected)
        assert len(want) == len(found) == 2
        assert all(map(alike, found, want))
    stats = pyjit.stats(fast)
    assert stats.hits >= CALLS - 6
    assert stats.specializations <= 6


def test_other_methods_functions_and_errors_in_between() -> None:
    """Another method of a list, a function, one that raises, and what cannot be called with a value."""
    fast = pyjit.compile(two_steps)
    seen: list[object] = []

    def insert(value: object) -> None:
        seen.insert(0, value)

    def refuse(value: object) -> None:
        raise KeyError("no")

    for i in range(12):
        x = torch.randn(7, generator=torch.Generator().manual_seed(i))
        want, found = [], []
        two_steps(x, want.append)
        fast(x, found.append)
        assert all(map(alike, found, want))
        two_steps(x, want.append)
        fast(x, found.append)
        assert len(want) == len(found) == 4
        assert all(map(alike, found, want))
        seen.clear()
        fast(x, insert)
        assert [type(value) for value in seen] == [int, torch.Tensor]
        for wrong, error in (
            (refuse, KeyError),
            (found.reverse, TypeError),
            (None, TypeError),
        ):
            with pytest.raises(error):
                fast(x, wrong)
        assert len(found) == 4


def test_what_is_asked_of_the_callback_follows_the_call() -> None:
    """A function that looks at the callback itself."""

    def ask(x: torch.Tensor, put: Callable, other: object) -> torch.Tensor:
        y = x * 3
        if put.__self__ is other:
            y = y + 1
        return y.relu() if put.__name__ == "append" else y.tanh()

    fast = pyjit.compile(ask)
    x = torch.randn(5)
    for i in range(16):
        tokens: list[int] = []
        put = tokens.append if i % 3 else tokens.extend
        other = tokens if i % 2 else []
        torch.testing.assert_close(fast(x, put, other), ask(x, put, other))
