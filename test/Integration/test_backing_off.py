# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls that no specialization answers are observed now and then, and cost little otherwise.

The clock is the tests' own: what a monitored run and a call in eager take is made up.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import values
from pyjit._api import engine_of
from pyjit._backoff import BUDGET
from torch import nn

EAGER, OBSERVED = 1e-3, 20e-3


class Clock:
    """From one look at it to the next it is as late as if a call had run in eager in between."""

    now = 0.0

    def __call__(self) -> float:
        self.now += EAGER
        return self.now


clock = Clock()


@pytest.fixture(autouse=True)
def fake_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from pyjit import _C, _backoff, _engine

    class Backoff(_backoff.Backoff):
        def __init__(self, free: float, free_seconds: float) -> None:
            super().__init__(clock, free, free_seconds)

    observe = _C.capture_with_graph_breaks

    def capture_with_graph_breaks(*args: Any, **options: Any) -> Any:
        clock.now += OBSERVED
        return observe(*args, **options)

    monkeypatch.setattr(_engine, "Backoff", Backoff)
    monkeypatch.setattr(
        _engine._C, "capture_with_graph_breaks", capture_with_graph_breaks
    )
    yield


@pytest.fixture
def hooks() -> Iterator[None]:
    """On saved tensors: where grad mode is on and an input requires grad, nothing is recorded."""
    # Nobody goes backward; a function of Python's would be observed itself.
    with torch.autograd.graph.saved_tensors_hooks(id, id):
        yield


def refused(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x * y) * 2


def observed(f: Callable) -> int:
    return engine_of(f, "test").captures


def weight() -> torch.Tensor:
    return values(8).requires_grad_()


@pytest.mark.usefixtures("hooks")
def test_long_run_costs_little() -> None:
    f, w = pyjit.compile(refused), weight()
    runs = []
    for number in range(30_000):
        before = observed(f)
        f(w, w)
        runs += [number] * (observed(f) - before)
    assert 4 <= len(runs) <= 2 + BUDGET * 30_000 * EAGER / OBSERVED, runs
    gaps = [b - a for a, b in itertools.pairwise(runs[2:])]
    assert all(b >= 1.5 * a for a, b in itertools.pairwise(gaps)), gaps
    stats = pyjit.stats(f)
    assert stats["misses"] + stats["hits"] == 30_000
    assert stats["reasons"], "and says why"


@pytest.mark.usefixtures("hooks")
def test_changed_grad_mode_is_noticed_at_once() -> None:
    f, w = pyjit.compile(refused), weight()
    for _ in range(200):
        f(w, w)
    assert pyjit.stats(f)["specializations"] == 0
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(f(w, w), torch.tanh(w * w) * 2)
    stats = pyjit.stats(f)
    assert stats["specializations"] == 1 and stats["hits"] == 2, stats
    runs = observed(f)
    for _ in range(50):
        f(w, w)
    assert observed(f) == runs, "what was in vain still is"


@pytest.mark.usefixtures("hooks")
def test_changed_mode_of_a_module_is_noticed_soon() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return refused(x, x)

    model, w = Model(), weight()
    f = pyjit.compile(model)
    for _ in range(200):
        f(w)
    runs = observed(f)
    model.eval()
    for _ in range(70):  # those that are let past look at grad mode alone
        f(w)
    assert observed(f) > runs


def test_reason_behind_a_graph_break() -> None:
    """Each call leaves grad mode on where it began with it off: what is in vain is the part's."""

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = torch.relu(x) + 1
            apart(y)
            z = y * 2
        return torch.tanh(z * w)

    fast, w = pyjit.compile(f), weight()
    for seed in range(400):
        x = values(8, seed=seed)
        torch.testing.assert_close(fast(x, w), f(x, w))
    assert observed(fast) <= 8, pyjit.stats(fast)
    assert pyjit.stats(fast)["hits"] > 390


@pyjit.disable
def apart(x: torch.Tensor) -> None:
    pass


def test_what_follows_a_graph_break_may_end_in_another_mode(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is not asked is a matter of the mode in which it begins."""
    from pyjit._engine import Engine

    asked = []
    answer = Engine._answer_in_eager
    monkeypatch.setattr(
        Engine,
        "_answer_in_eager",
        lambda self, *rest: (asked.append(self), answer(self, *rest))[1],
    )

    def squares(x: torch.Tensor) -> torch.Tensor | None:
        with torch.enable_grad():
            w = x.clone().requires_grad_()
            (w * w).sum().backward()
        return w.grad

    fast, x = pyjit.compile(squares), values(4)
    with torch.no_grad():
        for _ in range(200):
            assert torch.equal(fast(x), 2 * x)  # type: ignore[arg-type]
    assert len(asked) < 40


def test_limit_of_specializations_is_cheap() -> None:
    """Beyond it, neither the engine nor guards are asked each time; those that hit still are."""
    asked = 0

    def f(x: torch.Tensor, name: str) -> torch.Tensor:
        return torch.relu(x) * len(name)

    fast = pyjit.compile(f, options={"max_records": 4})
    for number in range(4):
        fast(values(8), "n" * number)
    engine = engine_of(fast, "test")
    miss = engine._answer_in_eager

    def count(*args: Any) -> Any:
        nonlocal asked
        asked += 1
        return miss(*args)

    engine._answer_in_eager = count
    for number in range(1000):
        x = values(8, seed=number)
        torch.testing.assert_close(fast(x, "another name"), f(x, "another name"))
    assert asked < 50
    before = pyjit.stats(fast)["hits"]
    for number in range(4):
        fast(values(8), "n" * number)
    assert pyjit.stats(fast)["hits"] == before + 4
    assert observed(fast) == 4


def test_limit_of_specializations_is_cheap_where_each_call_is_another() -> None:
    """Sizes that come once: soon most calls ask no specialization. Those that are met again are found soon."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.vander(x, 3).relu()

    fast = pyjit.compile(f, options={"max_records": 4})
    for size in range(2, 2000):
        x = values(size)
        assert torch.equal(fast(x), f(x))
    stats = pyjit.stats(fast)
    assert stats["specializations"] == 4
    assert stats["misses"] < 400, stats
    for _ in range(60):
        fast(values(4))
    assert pyjit.stats(fast)["hits"] >= stats["hits"] + 25


def test_limit_of_specializations_with_hits_in_between() -> None:
    def f(x: torch.Tensor, name: str) -> torch.Tensor:
        return torch.relu(x) * len(name)

    fast = pyjit.compile(f, options={"max_records": 2})
    for number in range(2):
        fast(values(8), "n" * number)
    hits = pyjit.stats(fast)["hits"]
    for number in range(300):
        name = "n" * (number % 3)
        torch.testing.assert_close(fast(values(8), name), f(values(8), name))
    assert pyjit.stats(fast)["hits"] == hits + 200


def test_programs_own_errors_back_off() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        raise KeyError("the program's own")

    fast = pyjit.compile(f)
    for _ in range(500):
        with pytest.raises(KeyError, match="own"):
            fast(values(8))
    assert observed(fast) <= 4
