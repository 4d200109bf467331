# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether specializations or eager answer calls (``pyjit/_comparison.py``), from times made up."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest
from pyjit._comparison import _SAMPLES, MARGIN, Comparison


def look(comparison: Comparison, compiled: Callable, eager: Callable) -> int:
    """One look; returns how many calls were timed."""
    for number in range(1, 100):
        if comparison.add(eager() if comparison.eager_next else compiled()):
            return number
    raise AssertionError("no end")


def about(seconds: float, seed: int, noise: float = 0.02) -> Callable[[], float]:
    rng = random.Random(seed)
    return lambda: seconds * (1 + noise * rng.random())


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.9, 1.0, 1.15, 2.0, 50.0])
def test_the_faster_answers(ratio: float, seed: int) -> None:
    comparison = Comparison()
    timed = look(comparison, about(ratio * 1e-3, seed), about(1e-3, seed + 100))
    assert comparison.prefers_eager == (ratio > 1 + MARGIN)
    assert timed <= 4 * _SAMPLES
    assert comparison.compiled_seconds == pytest.approx(ratio * 1e-3, rel=0.05)
    assert comparison.eager_seconds == pytest.approx(1e-3, rel=0.05)


def test_far_faster_is_seen_at_once() -> None:
    assert look(Comparison(), about(1e-4, 0), about(1e-3, 1)) == 4


def test_eager_is_preferred_on_more_evidence_only() -> None:
    assert look(Comparison(), about(1e-3, 0), about(1e-4, 1)) == 4 * _SAMPLES
    assert look(Comparison(), about(1.0e-3, 0), about(1.02e-3, 1)) == 2 * _SAMPLES


def test_outliers_seldom_decide_and_not_for_good() -> None:
    """A neighbour takes the machine for one call in eight."""
    wrong = 0
    for seed in range(200):
        rng = random.Random(seed)

        def compiled(rng: random.Random = rng) -> float:
            return 1e-3 * (100 if rng.random() < 0.125 else 1)

        comparison = Comparison()
        look(comparison, compiled, about(1.3e-3, seed))
        wrong += comparison.prefers_eager
        look(comparison, about(1e-3, seed), about(1.3e-3, seed))
        assert not comparison.prefers_eager
    assert wrong <= 4


@pytest.mark.parametrize("ratio", [0.98, 1.0, 1.02])
def test_drift_favours_neither(ratio: float) -> None:
    """The machine slows down from call to call."""
    comparison, now = Comparison(), 1e-3

    def drifting(factor: float) -> Callable[[], float]:
        def take() -> float:
            nonlocal now
            now *= 1.02
            return now * factor

        return take

    look(comparison, drifting(ratio), drifting(1.0))
    assert not comparison.prefers_eager


def test_looks_grow_rare_and_cost_little() -> None:
    for compiled, eager in ((3e-3, 1e-3), (1e-3, 20e-3), (1e-3, 1e-3)):
        comparison = Comparison()
        distances = []
        for _ in range(6):
            look(comparison, about(compiled, 0), about(eager, 1))
            distances.append(comparison.distance())
        assert all(b >= a for a, b in itertools.pairwise(distances)), distances
        assert distances[-1] >= 64 * 256
        lost = 2 * _SAMPLES * abs(compiled - eager)
        assert all(lost <= 0.011 * d * min(compiled, eager) for d in distances)


def look_at_steps(
    comparison: Comparison, calls: tuple[float, float], behind: Callable[[bool], float]
) -> None:
    """One look at calls of so many seconds (compiled, eager), each with what follows it, by who answered."""
    step = None
    for _ in range(100):
        if step is not None:
            comparison.add_step(step)
        eager = comparison.eager_next
        step = calls[eager] + behind(eager)
        if comparison.add(calls[eager]):
            return
    raise AssertionError("no end")


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    ("forwards", "backwards", "eager"),
    [
        ((1.3, 1.0), (1.0, 2.0), False),  # the forward keeps more
        ((1.3, 1.0), (2.0, 2.0), True),
        ((1.3, 1.0), (2.2, 2.0), True),
        ((0.9, 1.0), (2.6, 2.0), True),
        ((0.5, 1.0), (2.9, 2.0), True),  # faster by far, but for the backward
        ((0.9, 1.0), (2.0, 2.0), False),
        ((0.5, 1.0), (1.0, 2.0), False),
    ],
)
def test_backwards_count(
    forwards: tuple[float, float],
    backwards: tuple[float, float],
    eager: bool,
    seed: int,
) -> None:
    others = about(0.5, seed, noise=0.1)  # the loader, the optimizer
    comparison = Comparison()
    look_at_steps(comparison, forwards, lambda eager: backwards[eager] + others())
    assert comparison.prefers_eager == eager
    disagree = (forwards[0] > forwards[1]) != eager
    assert ("up to the next call" in comparison.describe()) == disagree


def test_noise_behind_calls_decides_nothing() -> None:
    """What is faster stays, however long the rest of a step takes."""
    for seed in range(200):
        rng = random.Random(seed)
        comparison = Comparison()
        look_at_steps(comparison, (0.9, 1.0), lambda _, rng=rng: 10 * rng.random())
        assert not comparison.prefers_eager


def test_figures_for_readers() -> None:
    comparison = Comparison()
    assert "not compared" in comparison.describe()
    look(comparison, lambda: 12e-6, lambda: 10e-6)
    assert comparison.describe() == "12.0 us compiled, 10.0 us in eager"


def test_what_goes_on_recording_loses_to_eager() -> None:
    """The first such call is not counted; then eager is timed first."""
    comparison, turns = Comparison(), []
    while True:
        turns.append(comparison.eager_next)
        if turns[-1]:
            decided = comparison.add(1.0)
        else:
            decided = comparison.add_recording(10.0)
        if decided:
            break
    assert turns == [False, True, True, False, False]
    assert comparison.prefers_eager and comparison.goes_on_recording
    assert "recording" in comparison.describe()


def test_what_has_recorded_once_may_win() -> None:
    comparison = Comparison()
    decided = comparison.add_recording(10.0)
    while not decided:
        decided = comparison.add(2.0 if comparison.eager_next else 1.0)
    assert not comparison.prefers_eager


def test_recordings_in_eager_are_not_counted_at_first() -> None:
    comparison = Comparison()
    comparison.add(1.0)
    assert comparison.eager_next and not comparison.add_recording(100.0)
    decided = False
    while not decided:
        decided = comparison.add(0.5 if comparison.eager_next else 1.0)
    assert comparison.prefers_eager
