# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results that show the memory of arguments, or of one another, whose sizes differ between
calls: the same memory, sizes and strides as eager's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

SIZES = [(2, 8), (3, 8), (5, 6), (17, 12), (4, 8), (2, 8)]


def flat(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    return [tensor for part in result for tensor in flat(part)]


def heads(x: torch.Tensor) -> torch.Tensor:
    b, n, d = x.shape
    return x.reshape(b, n, 4, d // 4).transpose(1, 2)


def both(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x * 2
    return y[:, 1:], y[: y.shape[0] - 1].transpose(0, 1)


def middle(x: torch.Tensor) -> torch.Tensor:
    return x[x.shape[0] - 2, x.shape[1] // 2 :]


VIEWS: dict[str, Callable[[torch.Tensor], Any]] = {
    "heads": heads,
    "flattened": lambda x: x.flatten(1),
    "split": lambda x: x.unflatten(-1, (4, 4)),
    "first half": lambda x: x[: x.shape[1] // 2],
    "last row": lambda x: x[x.shape[0] - 1],
    "last of each": lambda x: x[:, -1],
    "but one": lambda x: [x[:-1], x[1:]],
    "every second": lambda x: x[..., ::2],
    "transposed": lambda x: x.mT,
    "expanded": lambda x: x[:, None].expand(-1, 3, -1, -1),
    "middle": middle,
    "of a result": both,
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_that_escape(name: str) -> None:
    import pyjit

    f = VIEWS[name]
    fast = pyjit.compile(f)
    with torch.no_grad():
        for b, n in SIZES:
            x = torch.randn(b, n, 16)
            want, have = flat(f(x)), flat(fast(x))
            for a, e in zip(have, want, strict=True):
                torch.testing.assert_close(a, e)
                assert a.stride() == e.stride()
                assert a.storage_offset() == e.storage_offset()
                shared = e.untyped_storage().data_ptr() == x.data_ptr()
                assert (a.untyped_storage().data_ptr() == x.data_ptr()) == shared
            first = have[0].untyped_storage().data_ptr()
            assert all(a.untyped_storage().data_ptr() == first for a in have)
            if have[0].untyped_storage().data_ptr() == x.data_ptr():
                have[0].fill_(7)
                assert (want[0] == 7).all()
    stats = pyjit.stats(fast)
    assert not stats["fixed_sizes"] and not stats["specialized_sizes"], stats
    assert not stats["eager_calls"] and stats["misses"] <= 3, stats


def test_views_of_a_part() -> None:
    """An argument that begins somewhere in its memory."""
    import pyjit

    fast = pyjit.compile(lambda x: x[1:, -1])
    memory = torch.randn(64, 8)
    with torch.no_grad():
        for start, stop in ((2, 7), (5, 9), (1, 30), (0, 4), (9, 14)):
            have, want = fast(memory[start:stop]), memory[start:stop][1:, -1]
            assert have.data_ptr() == want.data_ptr()
            assert have.shape == want.shape and have.stride() == want.stride()
    assert pyjit.stats(fast)["misses"] == 2


RESHAPES: dict[str, Callable[[torch.Tensor], Any]] = {
    "transposed": lambda x: x.t().reshape(x.shape),
    "three": lambda x: x.t().reshape(x.shape[0], -1, 1),
    "with ones": lambda x: x.t()[:, None].reshape(x.shape[0], 1, -1),
    "parts": lambda x: x[:, :2].reshape(-1, x.shape[0]),
    "flattened": lambda x: x[:, 1:].flatten(),
}


@pytest.mark.parametrize("name", RESHAPES)
def test_reshape_copies_where_no_view_is_possible(name: str) -> None:
    """A square is one that a view shows, as eager's result of that call does."""
    import pyjit

    f = RESHAPES[name]
    fast = pyjit.compile(f)
    with torch.no_grad():
        for b, n in [(2, 8), (3, 8), (5, 6), (6, 6), (4, 8), (4, 4), (2, 2), (8, 2)]:
            x = torch.randn(b, n)
            want, have = f(x), fast(x)
            assert (have.shape, have.stride()) == (want.shape, want.stride())
            assert have._is_view() == want._is_view()
            assert (have.data_ptr() == x.data_ptr()) == (
                want.data_ptr() == x.data_ptr()
            )
            torch.testing.assert_close(have, want)
    assert pyjit.stats(fast)["hits"] > 0


NOTHING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "columns": lambda x: torch.cat([torch.zeros(x.shape[1], 0), x[0]], 1) * 2,
    "rows": lambda x: torch.cat([torch.zeros(0, x.shape[1]), x[..., 0]]) * 2,
    "between": lambda x: torch.ones(x.shape[0], 0, x.shape[1]).sum(1) + x[..., 0],
    "returned": lambda x: torch.zeros(x.shape[1], 0),
}


@pytest.mark.parametrize("name", NOTHING)
def test_dimensions_of_nothing(name: str) -> None:
    """What prompts without a past join in front of a mask: strides as Torch's, one specialization."""
    import pyjit

    f = NOTHING[name]
    fast = pyjit.compile(f)
    for b, n in SIZES:
        x = torch.randn(b, n, 16)
        want, have = f(x), fast(x)
        assert (want.shape, want.stride()) == (have.shape, have.stride())
        torch.testing.assert_close(have, want)
    assert pyjit.stats(fast)["misses"] <= 3


def rotated(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    turns = torch.polar(torch.ones_like(angles), angles)
    numbers = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(numbers * turns[:, :, None]).flatten(3)


def stated(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    b, n, heads, d = x.size()
    assert list(x.size()) == [b, n, heads, d]
    return x.sum(1) * angles.shape[1]


@pytest.mark.parametrize("f", [rotated, stated])
def test_complex_numbers_and_lists_of_sizes(f: Callable[..., torch.Tensor]) -> None:
    import pyjit

    fast = pyjit.compile(f)
    misses = 0
    for turn, (b, n) in enumerate([(2, 3), (2, 5), (3, 5), (4, 7), (5, 9), (2, 11)]):
        if turn == 4:
            misses = pyjit.stats(fast).misses
        x, angles = torch.randn(b, n, 4, 8), torch.randn(b, n, 4)
        have, want = fast(x, angles), f(x, angles)
        torch.testing.assert_close(have, want)
        assert have.stride() == want.stride()
    stats = pyjit.stats(fast)
    assert stats.misses == misses, stats
    assert not stats["fixed_sizes"] and not stats["specialized_sizes"], stats
