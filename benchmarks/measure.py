# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Timing that is fair to every runner: interleaved rounds, medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any


def seconds(f: Callable[..., Any], *args: Any) -> tuple[float, Any]:
    """How long one call takes, and what it returns."""
    start = time.perf_counter()
    result = f(*args)
    return time.perf_counter() - start, result


def interleaved(
    runners: dict[str, Callable[[], Any]],
    budget: float = 6.0,
    rounds: int = 15,
    wait: Callable[[], Any] | None = None,
) -> dict[str, float]:
    """Median seconds per call of each runner.

    The runners take turns, so that a slow moment of the machine hits all of them.
    Calls are timed in batches of two milliseconds, with `wait` (until a device is
    idle) of twenty, because it belongs to the time of the batch.
    """
    found = rounds_of(runners, budget, rounds, wait)
    return {name: statistics.median(times) for name, times in found.items()}


def rounds_of(
    runners: dict[str, Callable[[], Any]],
    budget: float = 6.0,
    rounds: int = 15,
    wait: Callable[[], Any] | None = None,
) -> dict[str, list[float]]:
    """As `interleaved`, but the seconds per call of each round, the least first."""
    if not runners:
        return {}
    long_enough = 2e-3 if wait is None else 20e-3
    wait = wait or (lambda: None)

    def timed(run: Callable[[], Any], count: int) -> float:
        wait()
        start = time.perf_counter()
        for _ in range(count):
            run()
        wait()
        return (time.perf_counter() - start) / count

    batch = {}
    for name, run in runners.items():
        run()
        once = min(timed(run, 1) for _ in range(2))
        batch[name] = max(1, min(2000, int(long_enough / max(once, 1e-7))))
    times: dict[str, list[float]] = {name: [] for name in runners}
    deadline = time.perf_counter() + budget * len(runners)
    for round_number in range(rounds):
        names = list(runners)
        # Another one first in each round.
        shift = round_number % len(names)
        for name in names[shift:] + names[:shift]:
            times[name].append(timed(runners[name], batch[name]))
        if time.perf_counter() > deadline and round_number >= 4:
            break
    return {name: sorted(found) for name, found in times.items()}
