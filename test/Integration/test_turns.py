# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Who answers: a specialization, or eager although a specialization could (``python-bindings/pyjit/_turns.py``)."""

from __future__ import annotations

import sys
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import pyjit
import pyjit._comparison
import pytest
import torch
from Integration.harness import in_threads, values
from pyjit._turns import _LATER

pytestmark = [
    pytest.mark.alone,
    pytest.mark.filterwarnings("ignore:Warning only once for all operators"),
]


class Faulty:
    """Takes the place of ``cumsum`` when specializations call it already: while it is out of order, every
    other call raises. A graph's call does then, and eager's, which follows, does not."""

    def __init__(self, library: torch.library.Library) -> None:
        self.library = library
        self.placed = self.out_of_order = False
        self.calls = 0
        # Seconds more where a graph calls it, and where eager does.
        self.slow_graph = self.slow_eager = 0.0

    def place(self) -> None:
        if not self.placed:
            self.placed = True
            self.library.impl("cumsum", self.run, "CPU")

    def run(self, x: torch.Tensor, dim: int, dtype: Any = None) -> torch.Tensor:
        self.calls += 1
        if self.out_of_order and self.calls % 2:
            raise RuntimeError("out of order")
        frame = sys._getframe()
        while frame and frame.f_code not in PROGRAMS:
            frame = frame.f_back
        time.sleep(self.slow_eager if frame else self.slow_graph)
        return torch.from_numpy(x.numpy().cumsum(dim))


# Their code runs in eager alone.
PROGRAMS: set[types.CodeType] = set()


@pytest.fixture
def faulty() -> Iterator[Faulty]:
    library = torch.library.Library("aten", "IMPL")
    yield Faulty(library)
    library._destroy()


def program(x: torch.Tensor, flag: bool = True) -> torch.Tensor:
    y = torch.cumsum(x + 1, 0)
    return torch.relu(y) if flag else y * 3


PROGRAMS.add(program.__code__)


def call(f: Callable, *args: Any) -> None:
    torch.testing.assert_close(f(*args), program(*args))


def prepared(faulty: Faulty, **options: Any) -> Callable:
    """One specialization, which answers."""
    f = pyjit.compile(program, options={"strict": True, **options})
    for _ in range(3):
        call(f, values(8))
    assert pyjit.stats(f)["hits"] == 2, pyjit.stats(f)
    faulty.place()
    faulty.calls = 0
    faulty.out_of_order = True
    return f


def alone(f: Callable, faulty: Faulty, *args: Any) -> None:
    """A call by itself: the reference would exchange whose turn it is to raise."""
    args = args or (values(8),)
    got = f(*args)
    calls, faulty.calls = faulty.calls, 1
    torch.testing.assert_close(got, program(*args))
    faulty.calls = calls


@pytest.mark.parametrize("simulated", [False, True])
def test_graph_that_raises_alone_is_given_up(faulty: Faulty, simulated: bool) -> None:
    f = prepared(faulty, simulated_device=simulated)
    for _ in range(3):
        alone(f, faulty)
    assert faulty.calls == 6, "each by the graph, then by eager"
    for _ in range(5):
        faulty.calls = 1  # eager's turn not to raise
        alone(f, faulty)
        assert faulty.calls == 2, "by eager alone"
    stats = pyjit.stats(f)
    assert stats["hits"] == 2 and stats["specializations"] == 1, stats
    assert any("out of order" in reason for reason in stats["reasons"]), stats
    faulty.calls = 1
    text = pyjit.explain(f)(values(8))
    assert "given up: a graph raises where eager does not" in text, text


def test_errors_of_the_program_are_no_mistakes() -> None:
    def f(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x.scatter(0, index, 5.0) + 1

    fast, x, index = pyjit.compile(f), values(8), torch.tensor([1, 2])
    fast(x, index)
    for _ in range(10):
        with pytest.raises(RuntimeError, match="out of bounds"):
            fast(x, torch.tensor([1, 9]))
    assert torch.equal(fast(x, index), f(x, index))
    stats = pyjit.stats(fast)
    assert stats["hits"] == 1 and stats["eager_calls"] == 10, stats
    assert "given up" not in pyjit.explain(fast)(x, index)


def test_rare_mistakes_are_forgiven(faulty: Faulty) -> None:
    """A device that is short of memory now and then, say."""
    f = prepared(faulty)
    for _ in range(6):
        faulty.calls, faulty.out_of_order = 0, True
        alone(f, faulty)
        faulty.out_of_order = False
        for _ in range(70):
            call(f, values(8))
    assert "given up" not in pyjit.explain(f)(values(8))
    assert pyjit.stats(f)["hits"] >= 420


def test_sizes_get_specializations_of_their_own_first(faulty: Faulty) -> None:
    """Where the specialization for all sizes raises, one for a size may not."""
    f = pyjit.compile(program, options={"strict": True})
    for n in (8, 9, 10, 11):
        call(f, values(n))
    assert any(s["symbols"] for s in pyjit.specializations(f)), "sizes are inputs"
    faulty.place()
    faulty.calls, faulty.out_of_order = 0, True
    for n in (12, 13, 14):
        alone(f, faulty, values(n))
    faulty.out_of_order = False
    for _ in range(3):
        call(f, values(20))
    stats = pyjit.stats(f)
    assert not any(r["symbols"] for r in pyjit.specializations(f)), stats
    assert any("raised" in reason for reason in stats["fixed_sizes"]), stats
    assert pyjit.specializations(f)[0]["hits"] >= 1, stats


# Slower than eager -------------------------------------------------------------------------------

LOOK = pyjit._comparison.FIRST_LOOK + 4 * pyjit._comparison._SAMPLES


def comparing(faulty: Faulty, f: Callable = program, **options: Any) -> Callable:
    fast = pyjit.compile(
        f, options={"strict": True, "compare_with_eager": True, **options}
    )
    fast(values(8))
    faulty.place()
    faulty.calls = 0
    return fast


def answers(f: Callable) -> list[str]:
    return [known["answers"] for known in pyjit.stats(f)["compared"]]


@pytest.mark.parametrize("simulated", [False, True])
def test_slow_specialization_is_left_to_eager(
    faulty: Faulty, simulated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyjit._turns._ON_DEVICE", 3)
    faulty.slow_graph = 2e-3
    f = comparing(faulty, simulated_device=simulated)
    for number in range(LOOK):
        x = values(8, seed=number)
        torch.testing.assert_close(f(x), torch.relu((x + 1).cumsum(0)))
    assert faulty.calls == 2 * LOOK, "each call was made once, and once by the test"
    assert answers(f) == ["eager"], pyjit.stats(f)
    before = pyjit.stats(f)
    for _ in range(10):
        call(f, values(8))
    after = pyjit.stats(f)
    assert after["hits"] == before["hits"]
    assert after["eager_calls"] == before["eager_calls"] + 10
    (known,) = after["compared"]
    assert known["compiled_microseconds"] > 2000 > known["eager_microseconds"]
    assert any("eager is faster" in reason for reason in after["reasons"])
    text = pyjit.explain(f)(values(8))
    assert "us compiled, " in text and "us in eager: eager answers" in text, text


def test_fast_specialization_stays(faulty: Faulty) -> None:
    faulty.slow_eager = 5e-3
    f = comparing(faulty)
    for _ in range(2 * LOOK):
        f(values(8))
    assert answers(f) == ["specialization"], pyjit.stats(f)
    stats = pyjit.stats(f)
    # Two calls of each are enough, where no other process takes the time of ours.
    assert 2 <= stats["eager_calls"] < LOOK // 2, stats
    assert stats["hits"] == 2 * LOOK - stats["eager_calls"], stats
    assert not stats["reasons"]


def test_looks_again(faulty: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyjit._comparison._FIRST_DISTANCE", 8)
    monkeypatch.setattr("pyjit._comparison._SHARE", 1e9)
    faulty.slow_graph = 1e-3
    f = comparing(faulty)
    for _ in range(LOOK):
        f(values(8))
    assert answers(f) == ["eager"]
    faulty.slow_graph, faulty.slow_eager = 0.0, 1e-3
    for _ in range(LOOK + 8):
        f(values(8))
    assert answers(f) == ["specialization"], pyjit.stats(f)
    hits = pyjit.stats(f)["hits"]
    for _ in range(8):
        f(values(8))
    assert pyjit.stats(f)["hits"] == hits + 8


def test_switched_off(faulty: Faulty) -> None:
    faulty.slow_graph = 1e-3
    f = comparing(faulty, compare_with_eager=False)
    for _ in range(2 * LOOK):
        f(values(8))
    stats = pyjit.stats(f)
    assert stats["hits"] == 2 * LOOK and not stats["compared"]


def test_effects_and_random_numbers_happen_once(faulty: Faulty) -> None:
    log: list[int] = []

    def f(x: torch.Tensor, log: list[int]) -> torch.Tensor:
        log.append(7)
        x.add_(1)
        return torch.cumsum(x, 0) + torch.rand(8)

    PROGRAMS.add(f.__code__)
    faulty.slow_graph = 1e-3
    fast = pyjit.compile(f, options={"strict": True, "compare_with_eager": True})
    ours, theirs, their_log = values(8), values(8), []
    for number in range(3 * LOOK):
        if number == 1:
            faulty.place()
        torch.manual_seed(number)
        want = f(theirs, their_log)
        state = torch.get_rng_state()
        torch.manual_seed(number)
        torch.testing.assert_close(fast(ours, log), want)
        assert torch.equal(torch.get_rng_state(), state)
        torch.testing.assert_close(ours, theirs)
        assert log == their_log
    assert answers(fast), pyjit.stats(fast)


@pyjit.disable
def note(seen: list[float], x: torch.Tensor) -> None:
    seen.append(float(x.sum()))


def test_call_with_graph_breaks_is_compared_as_a_whole(faulty: Faulty) -> None:
    def f(x: torch.Tensor, seen: list[float]) -> torch.Tensor:
        y = torch.cumsum(x + 1, 0)
        note(seen, y)
        return torch.relu(y) * 2

    PROGRAMS.add(f.__code__)
    faulty.slow_graph = 2e-3
    fast = pyjit.compile(f, options={"strict": True, "compare_with_eager": True})
    ours, theirs = [], []
    for number in range(2 * LOOK):
        if number == 1:
            faulty.place()
        x = values(8, seed=number)
        torch.testing.assert_close(fast(x, ours), f(x, theirs))
        assert ours == theirs
    assert answers(fast) == ["eager"], pyjit.stats(fast)
    before = pyjit.stats(fast)
    fast(values(8), ours)
    after = pyjit.stats(fast)
    assert after["continuation_hits"] == before["continuation_hits"]


def test_other_sizes_are_another_matter(faulty: Faulty) -> None:
    """What was measured of the specialization for one size says nothing of the one for others."""
    faulty.slow_graph = 1e-3
    f = comparing(faulty)
    for _ in range(LOOK):
        f(values(8))
    assert answers(f) == ["eager"]
    for n in (9, 10, 11, 12):
        call(f, values(n))
    before = pyjit.stats(f)["hits"]
    call(f, values(16))  # the others' octave is being compared
    assert pyjit.stats(f)["hits"] == before + 1
    call(f, values(8))
    assert pyjit.stats(f)["hits"] == before + 1


def test_sizes_that_grow_are_compared(faulty: Faulty) -> None:
    """No call has the sizes of another one; what was measured holds for those of the same octave."""
    f = comparing(faulty)
    for n in range(9, 12):
        f(values(n))
    faulty.slow_graph = 1e-3
    for n in range(64, 64 + 2 * LOOK):
        f(values(n))
    assert answers(f) == ["eager"], pyjit.stats(f)
    before = pyjit.stats(f)["hits"]
    call(f, values(127))
    assert pyjit.stats(f)["hits"] == before
    call(f, values(128))
    assert pyjit.stats(f)["hits"] == before + 1


def test_the_one_that_is_asked_most_waits_for_no_other(faulty: Faulty) -> None:
    """As the step of a generation would for its prompt."""
    f = comparing(faulty)
    for _ in range(pyjit._comparison.FIRST_LOOK + 1):
        f(values(8))  # and now it is compared
    f(values(8), False)
    for _ in range(pyjit._comparison.FIRST_LOOK + 2 * _LATER + LOOK):
        f(values(8), False)
    assert len(answers(f)) == 1, pyjit.stats(f)
    for _ in range(_LATER + LOOK):
        f(values(8))
    assert len(answers(f)) == 2, "it has its turn later"


def test_grad_mode_is_another_matter(faulty: Faulty) -> None:
    faulty.slow_graph = 1e-3
    with torch.no_grad():
        f = comparing(faulty)
        for _ in range(LOOK):
            f(values(8))
    assert answers(f) == ["eager"]
    misses = pyjit.stats(f)["misses"]
    call(f, values(8))
    assert pyjit.stats(f)["misses"] == misses + 1, "grad mode is on: a call of its own"


def test_one_within_another(faulty: Faulty) -> None:
    """Calls inside of a call that is timed are not timed."""
    inner = pyjit.compile(program, options={"strict": True, "compare_with_eager": True})

    @pyjit.disable
    def outside(x: torch.Tensor) -> torch.Tensor:
        return inner(x)

    def f(x: torch.Tensor) -> torch.Tensor:
        return outside(x * 2) + 1

    fast = pyjit.compile(f, options={"strict": True, "compare_with_eager": True})
    for number in range(3 * LOOK):
        x = values(8, seed=number)
        want = torch.relu((x * 2 + 1).cumsum(0)) + 1
        torch.testing.assert_close(fast(x), want)
        torch.testing.assert_close(inner(x), program(x))
    assert answers(fast) and answers(inner)


def test_threads(faulty: Faulty) -> None:
    faulty.slow_graph = 2e-4
    f = comparing(faulty)
    wrong: list[int] = []

    def work(seed: int) -> None:
        for number in range(3 * LOOK):
            x = values(8, seed=seed + number)
            if not torch.allclose(f(x), torch.relu((x + 1).cumsum(0))):
                wrong.append(number)

    in_threads(work, ((1000 * k,) for k in range(3)))
    assert not wrong
    assert answers(f), pyjit.stats(f)


def test_reset_forgets(faulty: Faulty) -> None:
    faulty.slow_graph = 1e-3
    f = comparing(faulty)
    for _ in range(LOOK - 3):
        f(values(8))
    pyjit.reset()  # in the middle of a look
    for _ in range(LOOK):
        call(f, values(8))
    pyjit.reset()
    assert not pyjit.stats(f)["compared"] and not pyjit.stats(f)["reasons"]
    call(f, values(8))
    assert pyjit.stats(f)["misses"] == 1


def test_errors_end_no_comparison(faulty: Faulty) -> None:
    """Calls that raise are timed by nobody."""

    def f(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x.scatter(0, index, 5.0), 0)

    PROGRAMS.add(f.__code__)
    faulty.slow_graph = 1e-3
    fast = pyjit.compile(f, options={"compare_with_eager": True})
    good, bad = torch.tensor([1, 2]), torch.tensor([1, 9])
    fast(values(8), good)
    faulty.place()
    for _ in range(LOOK):
        fast(values(8), good)
        with pytest.raises(RuntimeError, match="out of bounds"):
            fast(values(8), bad)
    assert answers(fast) == ["eager"], pyjit.stats(fast)
