#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One case in a process of its own: sets up each column, compares losses, then times all in turns.

Facts go to a file of JSON lines as soon as they are known: whoever started the process may end it.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import math
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import case_process
import torch
from measure import Memory, rounds_of
from torch import nn

from train.cases import CASES, Case, Work
from train.columns import COLUMNS, Step

#: Batches, and steps over them whose losses are compared, from the same weights.
BATCHES, COMPARED = 4, 8
#: Steps before anything is timed: pyjit chooses ways to launch, and compares itself with eager.
WARM = {"cpu": 16, "cuda": 40}
#: What the timing needs of the limit, as a share.
TIMING = 0.2


class LossModel(nn.Module):
    """Model, autocast and loss in one module (`--autocast inside`)."""

    def __init__(self, inner: nn.Module, loss_of: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.inner = inner
        self.loss_of = loss_of

    def forward(self, *batch: torch.Tensor) -> torch.Tensor:
        return self.loss_of(self.inner, *batch)


@dataclass
class Trial:
    """One case on one device: what each column starts from."""

    case: Case
    work: Work
    device: str
    inside: bool

    def loss_of(self, model: Any, *batch: torch.Tensor) -> torch.Tensor:
        if self.device == "cuda" and self.case.autocast:
            with torch.autocast("cuda", torch.bfloat16):
                return self.work.loss(model, batch)
        return self.work.loss(model, batch)

    def make_step(self, make: Callable[..., Step]) -> Step:
        model = copy.deepcopy(self.work.model).to(self.device).train()
        if self.work.channels_last:
            model = model.to(memory_format=torch.channels_last)
        optimizer = torch.optim.AdamW(model.parameters())
        if not self.inside:
            return make(model, optimizer, self.loss_of)
        whole = LossModel(model, self.loss_of)
        return make(whole, optimizer, lambda f, *batch: f(*batch))

    def batches(self) -> list[tuple[torch.Tensor, ...]]:
        made = []
        for seed in range(BATCHES):
            batch = self.work.batch(torch.Generator().manual_seed(seed))
            if self.work.channels_last:
                batch = (batch[0].contiguous(memory_format=torch.channels_last), *batch[1:])  # fmt: skip
            made.append(tuple(t.to(self.device) for t in batch))
        return made

    def wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


@contextlib.contextmanager
def other_kernels(device: str, random: bool) -> Iterator[None]:
    """Eager with other kernels of PyTorch's own, as right as the ones that it chooses."""
    with contextlib.ExitStack() as settings:
        if device == "cpu":
            settings.enter_context(torch.backends.mkldnn.flags(enabled=False))
            yield
            return
        settings.enter_context(torch.backends.cudnn.flags(enabled=False))
        if not random:  # attention's kernels draw numbers of their own
            from torch.nn.attention import SDPBackend, sdpa_kernel

            settings.enter_context(sdpa_kernel(SDPBackend.MATH))
        before = torch.backends.cuda.preferred_blas_library()
        torch.backends.cuda.preferred_blas_library("cublaslt")
        try:
            yield
        finally:
            torch.backends.cuda.preferred_blas_library(before)


class OutOfTime(Exception):
    pass


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises `OutOfTime` where the interpreter next can."""

    def stop(*_: Any) -> None:
        raise OutOfTime(f"no end within {seconds:.0f} s")

    if seconds <= 0:
        raise OutOfTime("no time was left")
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def first_steps(trial: Trial, step: Step, facts: dict[str, Any]) -> None:
    """Losses of the first steps, and what the first two of them took."""
    torch.manual_seed(1)
    batches = trial.batches()
    trial.wait()
    start = time.perf_counter()
    losses = []
    for number in range(COMPARED):
        loss = step.take(*batches[number % BATCHES])
        if number == 1:
            trial.wait()
            facts["first_two"] = time.perf_counter() - start
        losses.append(float(loss))
    facts["losses"] = losses


def gap(losses: list[float], others: list[float]) -> float:
    """The largest difference, relative to the loss; infinite where one is no number."""
    pairs = zip(losses, others, strict=True)
    gaps = [abs(a - b) / max(abs(a), 1e-6) for a, b in pairs]
    return float("inf") if any(math.isnan(g) for g in gaps) else max(gaps)


def set_up(name: str, trial: Trial, facts: dict[str, Any]) -> Callable[[], Any]:
    """A column, compared and warm. Returns what takes the next step."""
    memory = Memory(trial.device)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    start = time.perf_counter()
    step = trial.make_step(COLUMNS[name].make)
    first_steps(trial, step, facts)
    batches = trial.batches()
    deadline = time.perf_counter() + 20
    for number in range(WARM[trial.device]):
        step.take(*batches[number % BATCHES])
        if number > 4 and time.perf_counter() > deadline:
            break
    memory.restart()
    for batch in batches:
        step.take(*batch)
    trial.wait()
    facts["peak_mb"] = memory.peak()
    facts["set_up"] = time.perf_counter() - start
    facts |= step.facts()
    turn = iter(range(1 << 60))
    return lambda: step.take(*batches[next(turn) % BATCHES])


def run(options: argparse.Namespace, say: Callable[[dict[str, Any]], None]) -> None:
    begun = time.perf_counter()
    case = CASES[options.case]
    torch.manual_seed(0)
    trial = Trial(case, case.make(options.size), options.device, options.autocast == "inside")  # fmt: skip

    def left() -> float:
        return options.limit * (1 - TIMING) - (time.perf_counter() - begun)

    known: dict[str, dict[str, Any]] = {}
    ready: dict[str, Callable[[], Any]] = {}
    import pyjit  # noqa: F401 - before any column's memory is measured
    from torch._inductor.utils import fresh_cache

    caches = contextlib.ExitStack()
    for name in options.columns.split(","):
        facts = known[name] = {"column": name}
        if not COLUMNS[name].shares_cache or len(known) == 1:
            caches.close()
            caches.enter_context(fresh_cache())
        try:
            with limited(left()):
                ready[name] = set_up(name, trial, facts)
        except Exception as error:
            facts["error"] = case_process.reason_of(error)
        if name == "eager" and "losses" in facts:
            with contextlib.suppress(Exception), limited(left()):
                other: dict[str, Any] = {}
                with other_kernels(trial.device, case.random):
                    first_steps(trial, trial.make_step(COLUMNS[name].make), other)
                facts["kernels_gap"] = gap(facts["losses"], other["losses"])
        elif "losses" in facts and "losses" in known.get("eager", {}):
            facts["gap"] = gap(known["eager"]["losses"], facts["losses"])
        say(facts)
    wait = trial.wait if options.device == "cuda" else None
    times = rounds_of(ready, options.budget, options.rounds, wait)
    caches.close()
    for name, found in times.items():
        known[name]["ms"] = statistics.median(found) * 1e3
        known[name]["ms_least"] = found[0] * 1e3
        if "eager" in times:
            known[name]["eager_ms"] = statistics.median(times["eager"]) * 1e3
        say(known[name])


def main() -> None:
    parser = case_process.worker_options(__doc__)
    parser.add_argument("--autocast", default="around")
    parser.add_argument("--limit", type=float, default=600)
    parser.add_argument("--budget", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=15)
    case_process.answer(parser.parse_args(), run)


if __name__ == "__main__":
    main()
