# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Timing that is fair to every runner: interleaved rounds, medians; and memory."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch


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
        for name in in_turn(runners, round_number):
            times[name].append(timed(runners[name], batch[name]))
        if time.perf_counter() > deadline and round_number >= 4:
            break
    return {name: sorted(found) for name, found in times.items()}


def in_turn(names: Iterable[str], round_number: int) -> list[str]:
    """Another one first in each round."""
    names = list(names)
    shift = round_number % max(1, len(names))
    return names[shift:] + names[:shift]


class Memory:
    """What a column takes at its steady state, in MB, beside what was there before it.

    On a GPU what PyTorch's allocator has reserved: the pools of CUDA Graphs count. On the CPU the resident set.
    """

    def __init__(self, device: str) -> None:
        self.on_gpu = device == "cuda"
        self.before = self._now()

    def _now(self) -> float:
        gc.collect()
        if self.on_gpu:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            return torch.cuda.memory_reserved() / 1e6
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        return self._status("VmRSS")

    @staticmethod
    def _status(name: str) -> float:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024 / 1e6
        return float("nan")

    def restart(self) -> None:
        """From now on counts for the peak."""
        self._now()
        if self.on_gpu:
            torch.cuda.reset_peak_memory_stats()
        else:
            with contextlib.suppress(OSError):
                Path("/proc/self/clear_refs").write_text("5")

    def peak(self) -> float:
        top = torch.cuda.max_memory_reserved() / 1e6 if self.on_gpu else self._status("VmHWM")  # fmt: skip
        return top - self.before
