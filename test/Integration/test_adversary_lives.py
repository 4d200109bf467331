# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attempts to get a wrong answer out of when objects die, and out of natives that give back the
object that they were given."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import Compile, Steps, scenario, values


@pytest.mark.parametrize(
    "same",
    [abs, int, lambda j: max(j, j), lambda j: min(j, 10**9)],
    ids=["abs", "int", "max", "min"],
)
def test_a_native_gives_back_its_argument(same: Callable[[Any], Any]) -> None:
    """What is asked of the result is asked of the number itself."""

    @scenario
    def story(compile: Compile) -> Steps:
        f = compile(lambda x, j: x + math.isqrt(same(j)))
        for j in (8, 8, 1, 5, 10, 17):
            yield f(values(3), j)

    story()


@scenario
def test_float_gives_back_its_argument(compile: Compile) -> Steps:
    f = compile(lambda x, s: x + math.erf(float(s)))
    for s in (0.5, 0.5, 1.5, 2.5, 0.25):
        yield f(values(3), s)


@scenario(eager="an object with __del__")
def test_finalizers_run_when_eager_runs_them(compile: Compile) -> Steps:
    log: list[int] = []

    class Noted:
        def __del__(self) -> None:
            log.append(1)

    def g(x: torch.Tensor) -> Any:
        made = Noted()
        y = x * 2
        del made
        return y + len(log)

    f = compile(g)
    for _ in range(4):
        yield f(values(3)), len(log)


def test_an_interrupt_behind_a_compilation_stays_one() -> None:
    """The specialization that was just made dies while the interrupt is on its way, and must not
    take it along."""

    def handler(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def f(x: torch.Tensor) -> Any:
        n = 0
        while x.abs().max() > 0.5:
            x = x * 0.9
            n += 1
        return x, n

    before = signal.signal(signal.SIGALRM, handler)
    x = torch.ones(4)
    interrupts = 0
    end = time.monotonic() + 10
    try:
        with torch.no_grad():
            while interrupts < 12 and time.monotonic() < end:
                compiled = pyjit.compile(f)
                start = time.perf_counter()
                compiled(x)
                first = time.perf_counter() - start
                compiled = pyjit.compile(f)
                try:
                    # Somewhere in the compilation, which is most of the call.
                    signal.setitimer(signal.ITIMER_REAL, first * 0.5)
                    compiled(x)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except KeyboardInterrupt:
                    interrupts += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupts
