# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Signals reach Python while a compiled loop runs."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

import pyjit
import pytest
import torch


@pytest.fixture
def seen() -> Iterator[list[int]]:
    """SIGALRM's handler notes the signal and, while `raises` is in the list, interrupts."""
    notes: list[int] = []

    def handler(number: int, frame: FrameType | None) -> None:
        notes.append(number)
        if -1 in notes:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    yield notes
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def count(n: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
    while n < limit:
        n = n + 1
    return n * 2


def compiled() -> pyjit.CompiledFunction:
    f = pyjit.compile(count)
    zero = torch.tensor(0.0, dtype=torch.float64)
    for limit in (8, 12, 5, 9):
        got = f(zero, torch.tensor(limit, dtype=torch.float64))
        assert got.item() == 2 * limit
    assert pyjit.stats(f)["loops"] == 1
    assert pyjit.stats(f)["hits"] >= 2
    return f


# Long enough that no machine is through before the signal, and no endless loop where it is lost.
FAR = torch.tensor(2e8, dtype=torch.float64)


def test_keyboard_interrupt_ends_a_compiled_loop(seen: list[int]) -> None:
    f = compiled()
    zero = torch.tensor(0.0, dtype=torch.float64)
    seen.append(-1)
    hits = pyjit.stats(f)["hits"]
    start = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    with pytest.raises(KeyboardInterrupt):
        f(zero, FAR)
    assert time.monotonic() - start < 5
    assert zero.item() == 0
    stats = pyjit.stats(f)
    assert stats["eager_calls"] == 0 and not stats["eager_reasons"]
    # It is usable afterwards.
    assert f(zero, torch.tensor(7.0, dtype=torch.float64)).item() == 14
    assert pyjit.stats(f)["hits"] > hits


def test_a_handler_that_returns_lets_the_loop_go_on(seen: list[int]) -> None:
    f = compiled()
    zero = torch.tensor(0.0, dtype=torch.float64)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    limit = 1 << 16
    while len(seen) < 2:
        limit *= 2
        got = f(zero, torch.tensor(float(limit), dtype=torch.float64))
        assert got.item() == 2 * limit
    assert pyjit.stats(f)["eager_calls"] == 0


def test_other_threads_are_not_interrupted(seen: list[int]) -> None:
    """Python delivers signals to the main thread, also while another one loops."""
    f = compiled()
    seen.append(-1)
    results: list[float] = []

    def work() -> None:
        zero = torch.tensor(0.0, dtype=torch.float64)
        results.append(f(zero, torch.tensor(3e5, dtype=torch.float64)).item())

    thread = threading.Thread(target=work)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        time.sleep(10)
    thread.join()
    assert results == [6e5]
