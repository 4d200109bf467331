# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Monitored runs in vain are paid for in time (``pyjit/_backoff.py``), without a recorder."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from pyjit._backoff import (
    _FREE,
    BUDGET,
    FREE_MADE,
    FREE_SECONDS,
    FREE_UNUSED,
    Backoff,
    Clock,
)


class Hand:
    """A clock that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Function:
    """Calls of a function whose monitored runs come to nothing, or each to a specialization (``makes``), which answer
    ``hits`` calls in all."""

    def __init__(
        self,
        eager: float,
        monitored: float,
        own: float = 0.0,
        makes: bool = False,
        hits: float = math.inf,
    ) -> None:
        self.clock = Hand()
        self.backoff = Backoff(self.clock)
        self.eager, self.monitored = eager, monitored
        self.own = own  # of each call that comes by the policy
        self.makes = makes
        self.hits = hits
        self.runs: list[int] = []
        self.unseen = self.past = 0
        self.calls = 0
        self.timed = 0

    def call(self, reason: object = None) -> None:
        self.calls += 1
        if self.unseen:
            self.unseen -= 1
            self.past += 1
            self.clock.now += self.eager
            return
        start = self.clock.now
        self.clock.now += self.own
        if self.backoff.may_observe(reason):
            self.runs.append(self.calls)
            self.clock.now += self.monitored
            if self.makes:
                self.backoff.came_to_something(reason, start, self.hits)
            else:
                self.backoff.observed_in_vain(reason, start)
            return
        self.timed += 1
        start = self.clock.now
        self.clock.now += self.eager
        self.unseen = self.backoff.answered(reason, start, past=self.past)
        self.past = 0


@pytest.mark.parametrize("ratio", [1.5, 20.0, 1000.0, 1e5])
@pytest.mark.parametrize("eager", [3e-6, 1e-3, 2.0])
def test_long_run_costs_little(ratio: float, eager: float) -> None:
    f = Function(eager, ratio * eager)
    free = _FREE * ratio * eager
    calls = int(min(200 * ratio / BUDGET, 100_000))
    for _ in range(calls):
        f.call()
    spent = len(f.runs) * ratio * eager - free
    assert spent <= BUDGET * calls * eager + ratio * eager
    if calls > 10 * ratio / BUDGET:
        assert len(f.runs) > _FREE, "never looked again"


def test_waits_double() -> None:
    f = Function(1e-3, 1e-2)
    for _ in range(40_000):
        f.call()
    gaps = [b - a for a, b in zip(f.runs[_FREE - 1 :], f.runs[_FREE:])]
    assert len(gaps) >= 5
    for short, long in itertools.pairwise(gaps):
        assert 1.7 < long / short < 2.4, gaps
    # In time, not in calls: the first wait is what pays for one run.
    assert gaps[0] == pytest.approx(1e-2 / BUDGET / 1e-3, rel=0.3)


def test_waits_are_time_and_not_calls() -> None:
    """Eager calls that take ten times as long are a tenth as many."""
    short, long = Function(1e-3, 1e-1), Function(1e-2, 1e-1)
    for _ in range(30_000):
        short.call()
        long.call()
    first = [f.runs[_FREE] - f.runs[_FREE - 1] for f in (short, long)]
    assert first[0] == pytest.approx(10 * first[1], rel=0.3)


def test_few_calls_come_by() -> None:
    f = Function(1e-5, 1e-2, own=2e-6)
    for _ in range(20_000):
        f.call()
    assert f.timed < f.calls / 20


def test_new_reason_is_noticed_at_once() -> None:
    f = Function(1e-3, 1.0)
    for _ in range(100):
        f.call("grad")
    assert not f.backoff.may_observe("grad")
    assert f.backoff.may_observe("no grad")
    f.backoff.observed_in_vain("no grad", f.clock.now)
    assert f.backoff.may_observe("no grad"), "its own second run is free"
    assert not f.backoff.may_observe("grad")


def observed_of(calls: list[bool]) -> list[int]:
    """Which of these calls (whether they return) are recorded, where those that return make nothing."""
    backoff, clock = Backoff(hand := Hand()), hand
    found, unseen, past = [], 0, 0
    for number, returns in enumerate(calls):
        start = clock.now
        clock.now += 1e-5
        if unseen:
            unseen -= 1
            past += 1
        elif not backoff.may_observe(None):
            unseen = backoff.answered(None, start, returns, past)
            past = 0
        else:
            found.append(number)
            if not returns:
                backoff.raised(None)
            else:
                backoff.came_to_something(None, start)
    return found


def test_calls_that_raise_wait_for_one_that_returns() -> None:
    # A wrong shape, twice, in a notebook: the second good call is recorded.
    assert observed_of([False] * 2 + [True] * 3)[:3] == [0, 1, 3]
    assert observed_of([False] * 1000) == [0, 1]


def test_calls_that_mostly_raise_are_recorded_ever_less() -> None:
    source = random.Random(1)
    calls = [source.random() < 0.02 for _ in range(20_000)]
    raising = [number for number in observed_of(calls) if not calls[number]]
    assert len(raising) < 20


def test_reasons_do_not_pile_up() -> None:
    f = Function(1e-3, 1.0)
    for number in range(1000):
        f.backoff.observed_in_vain(number, f.clock.now)
    assert len(f.backoff._accounts) <= 16


def test_success_is_a_clean_slate() -> None:
    f = Function(1e-3, 1.0)
    for _ in range(50):
        f.call()
    assert not f.backoff.may_observe(None)
    f.backoff.came_to_something(None, f.clock.now)
    assert f.backoff.may_observe(None)


@pytest.mark.parametrize("ratio", [0.5, 20.0, 400.0])
def test_ever_more_specializations_are_paid_for(ratio: float) -> None:
    """None of them is of use to any other call: all of them together take at most as long as eager's calls."""
    f = Function(1e-3, ratio * 1e-3, makes=True)
    for _ in range(20_000):
        f.call()
    paid = (len(f.runs) - FREE_MADE) * f.monitored
    assert f.runs[:FREE_MADE] == list(range(1, FREE_MADE + 1))
    assert paid <= f.calls * f.eager
    # Nor is more left undone than that.
    assert paid + f.monitored >= 0.2 * f.calls * f.eager or len(f.runs) < FREE_MADE + 3


def test_specializations_that_answer_nothing_are_paid_for_sooner() -> None:
    """As where each call has flags of its own, drawn at random."""
    f = Function(1e-3, 0.1, makes=True, hits=0)
    for _ in range(FREE_UNUSED + 300):
        f.call()
    assert f.runs[: FREE_UNUSED + 1] == list(range(1, FREE_UNUSED + 2))
    assert 2 <= len(f.runs) - FREE_UNUSED <= 4, "each further one for 100 calls"
    useful = Function(1e-3, 0.1, makes=True, hits=100)
    for _ in range(FREE_MADE):
        useful.call()
    assert len(useful.runs) == FREE_MADE


def test_recordings_in_eager_parts_pay_for_none() -> None:
    clock = Clock()
    start = clock()
    with clock.recording():
        inside = clock()
        while clock() - inside < 0.02:
            pass  # what is being recorded counts for itself
    assert clock() - start < 0.01


def test_specializations_that_answer_calls_are_worth_more() -> None:
    f = Function(1e-3, 1.0, makes=True)
    for _ in range(FREE_MADE + 3):
        f.call()
    made = len(f.runs)
    assert not f.backoff.may_observe(None, 7 * made)
    assert f.backoff.may_observe(None, 8 * made)
    f.backoff.observed_in_vain(None, f.clock.now - 1)
    f.backoff.observed_in_vain(None, f.clock.now - 1)
    assert not f.backoff.may_observe(None, 8 * made), "no run in vain is"


def test_long_compilations_are_paid_for_sooner() -> None:
    f = Function(1e-3, 0.4 * FREE_SECONDS, makes=True)
    for _ in range(50):
        f.call()
    assert f.runs == [1, 2, 3]


def test_specializations_of_one_run_count_once() -> None:
    f = Function(1e-3, 1.0)
    for _ in range(5 * FREE_MADE):
        f.backoff.came_to_something(None, f.clock.now)
    assert f.backoff.may_observe(None)


def test_given_up_for_good() -> None:
    f = Function(1.0, 1.0)
    f.backoff.give_up(None)
    for _ in range(10_000):
        f.call()
    assert not f.runs
    assert f.timed < 200


def test_uneven_calls_are_not_overrated() -> None:
    """Calls that are not timed count as the shortest one that was."""
    rng = random.Random(1)
    f = Function(1e-3, 0.5)
    total = 0.0
    for _ in range(200_000):
        f.eager = 10 ** rng.uniform(-5, -2)
        total += f.eager
        f.call()
    assert (len(f.runs) - _FREE) * 0.5 <= BUDGET * total + 0.5


def test_a_clock_that_stands_still() -> None:
    f = Function(0.0, 0.0)
    for _ in range(1000):
        f.call()
    assert f.calls == 1000
