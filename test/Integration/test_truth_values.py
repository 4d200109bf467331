# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The truth of data as a value that no jump asks for at once (``torch._check(t.item())``): one program while calls find
the same, a graph break once they do not."""

from __future__ import annotations

import pyjit
import pytest
import torch


def _checked(x: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
    torch._check((last[0] == x.shape[-1] - 1).item(), lambda: "not the last one")
    return x * 2


def _all_checked(x: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
    torch._check_tensor_all(last == x.shape[-1] - 1, lambda: "not the last one")
    return x * 2


def _passed_on(x: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
    def scaled(y: torch.Tensor, wanted: bool) -> torch.Tensor:
        return y * 3 if wanted else y

    wanted = bool((last > 0).all())
    return scaled(x + 1, wanted) + scaled(x, wanted)


@pytest.mark.parametrize("f", [_checked, _all_checked, _passed_on])
def test_calls_that_find_the_same_are_one_graph(f: object) -> None:
    fast = pyjit.compile(f)
    misses = 0
    for turn, n in enumerate((3, 4, 5, 6, 7, 8, 9, 10)):
        if turn == 4:
            misses = pyjit.stats(fast).misses
        x, last = torch.randn(2, n), torch.tensor([n - 1])
        torch.testing.assert_close(fast(x, last), f(x, last), rtol=0, atol=0)
    stats = pyjit.stats(fast)
    assert stats.misses == misses, stats
    assert not stats["graph_break_sites"], stats


@pytest.mark.parametrize("f", [_checked, _all_checked])
def test_a_check_that_fails_raises(f: object) -> None:
    fast = pyjit.compile(f)
    for n in (3, 4, 5, 6, 7):
        x = torch.randn(2, n)
        assert torch.equal(fast(x, torch.tensor([n - 1])), x * 2)
        with pytest.raises(RuntimeError, match="not the last one"):
            fast(x, torch.tensor([n]))
        assert torch.equal(fast(x, torch.tensor([n - 1])), x * 2)


def test_what_differs_settles_behind_a_graph_break() -> None:
    fast = pyjit.compile(_passed_on)
    x = torch.randn(2, 3)
    misses = 0
    for turn in range(16):
        if turn == 8:
            misses = pyjit.stats(fast).misses
        last = torch.tensor([turn % 3 - 1])
        assert torch.equal(fast(x, last), _passed_on(x, last))
    stats = pyjit.stats(fast)
    assert stats.misses == misses, stats
    assert stats["graph_break_sites"], stats


def test_a_loop_that_asks_is_not_unrolled() -> None:
    def halved(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        turns = 0
        small = False
        while not small:
            x = x / 2
            small = bool((x.abs() < 1).all())
            turns += 1
        return x, turns

    fast = pyjit.compile(halved)
    for n in (3, 40, 7, 25, 12, 3, 40):
        x = torch.full((4,), 2.0**n)
        have, want = fast(x), halved(x)
        assert torch.equal(have[0], want[0]) and have[1] == want[1]
    assert pyjit.stats(fast)["graph_break_sites"]
