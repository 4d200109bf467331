# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Generators are what is tested:
# ruff: noqa: C400, C401, C402, PLC3002, SIM103
"""Generators that native code walks over and that look at tensors' data: `all(g.isfinite().all() for g in gs)`.

A truth that decides how the walk goes on is a branch that calls take one way: guarded, no graph break.
Numbers that are only handed on, or of which the best is taken, stay in the graph. Where native code
looks at them, the walk runs in eager, between two graphs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import (
    ANY,
    Compile,
    Steps,
    attempt,
    difference,
    scenario,
    snapshot,
    values,
)
from torch import nn

Tensors = list[torch.Tensor]


def tensors(*seeds: int) -> Tensors:
    return [values(4, seed=seed) for seed in seeds]


def with_value(number: float, place: int) -> Tensors:
    made = tensors(1, 2, 3)
    made[place][0] = number
    return made


TURNS = (
    tensors(1, 2, 3), tensors(4, 5, 6), with_value(math.nan, 0), tensors(7, 8, 9),
    with_value(math.inf, 2), with_value(-math.inf, 1), with_value(math.nan, 1), tensors(1, 2, 3), tensors(4, 5, 6),
)  # fmt: skip


def signs(xs: Tensors) -> Iterator[torch.Tensor]:
    for x in xs:
        if x.sum() > 0:
            yield x
        else:
            yield -x


def is_large(x: torch.Tensor) -> bool:
    return bool(x.abs().max() > 2)


# Results in Python, which decide the way: one program for each way.
DECIDED: dict[str, Callable[[Tensors], Any]] = {
    "all": lambda xs: all(torch.isfinite(x).all() for x in xs),
    "any": lambda xs: any(x.isnan().any() for x in xs),
    "not any": lambda xs: not any(x.isnan().any() for x in xs),
    "all of truths": lambda xs: all(bool(torch.isfinite(x).all()) for x in xs),
    "list of some": lambda xs: list(x for x in xs if x.sum() > 0),
    "tuple of some": lambda xs: tuple(x + 1 for x in xs if torch.isfinite(x).all()),
    "dict of some": lambda xs: dict((i, x) for i, x in enumerate(xs) if x.sum() > 0),
    "unpacked": lambda xs: [*(x for x in xs if x.sum() > 0)],
    "generator function": lambda xs: sum(signs(xs)),
    "called": lambda xs: any(is_large(x) for x in xs),
    "nested": lambda xs: all(all(v > -9 for v in x) for x in xs),
    "within another": lambda xs: any(y.sum() > 3 for y in (x * x for x in xs)),
    "next": lambda xs: next((x for x in xs if x.sum() > 0), None),
}  # fmt: skip

# Numbers that the graph computes.
COMPUTED: dict[str, Callable[[Tensors], Any]] = {
    "max": lambda xs: max(float(x.norm()) for x in xs),
    "min": lambda xs: min(x.sum().item() for x in xs),
    "max of one": lambda xs: max(x.sum().item() for x in xs[:1]),
    "max with a default": lambda xs: max((x.sum().item() for x in xs), default=0.0),
    "max and constants": lambda xs: max(v for v in (0.5, xs[0].sum().item(), 0.25)),
    "largest of smallest": lambda xs: max(min(v.item() for v in x) for x in xs),
    "sum": lambda xs: sum(float(x.norm()) for x in xs),
    "mean": lambda xs: sum(x.sum().item() for x in xs) / len(xs),
    "list": lambda xs: list(float(x.norm()) for x in xs),
    "tuple": lambda xs: tuple(x.sum().item() for x in xs),
    "star": lambda xs: [0.5, *(x.sum().item() for x in xs)],
    "extend": lambda xs: (lambda made: (made.extend(x.sum().item() for x in xs), made))([1.0])[1],
    "loop": lambda xs: [n * 2 for n in (float(x.norm()) for x in xs)],
}  # fmt: skip

# Native code looks at the numbers.
LOOKED_AT: dict[str, Callable[[Tensors], Any]] = {
    "sorted": lambda xs: sorted(float(x.norm()) for x in xs),
    "text": lambda xs: " ".join(f"{float(x.norm()):.2f}" for x in xs),
    "set": lambda xs: len(set(int(x.sum() > 0) for x in xs)),
    "max by a key": lambda xs: max((float(x.norm()) for x in xs), key=lambda n: -n),
    "rounded": lambda xs: list(round(float(x.sum()), 1) for x in xs),
    "counted": lambda xs: sum(1 for x in xs if float(x.sum()) > 0),
}  # fmt: skip


def close(have: Any, want: Any) -> None:
    found = difference(snapshot(want), snapshot(have))
    assert found is None, found


def walked(walk: Callable[[Tensors], Any]) -> Callable[[Tensors], Any]:
    def f(xs: Tensors) -> Any:
        found = walk([x * 2 for x in xs])
        return [x + 1 for x in xs], found

    return f


def compared(f: Callable[..., Any], turns: Any = TURNS) -> dict[str, Any]:
    """All turns twice, as eager; how it went in the last four."""
    fast = pyjit.compile(f)
    with torch.no_grad():
        for xs in (*turns, *turns):
            close(attempt(fast, xs), attempt(f, xs))
        before = pyjit.stats(fast)
        for _ in range(4):
            fast(turns[0])
    after = pyjit.stats(fast)
    assert not [line for line in after["reasons"] if "compil" in line], after["reasons"]
    return after | {
        "last eager calls": after["eager_calls"] - before["eager_calls"],
        "last hits": after["hits"] - before["hits"],
    }


@pytest.mark.parametrize("walk", DECIDED)
def test_decided(walk: str) -> None:
    stats = compared(walked(DECIDED[walk]), TURNS[:2])
    assert stats["last hits"] == 4
    assert not stats["graph_breaks"], stats["graph_break_sites"]


@pytest.mark.parametrize("walk", DECIDED)
def test_ways_that_change(walk: str) -> None:
    """Each way has a program; where there are too many, eager walks."""
    compared(walked(DECIDED[walk]))
    f = walked(DECIDED[walk])
    compared(f, [tensors(k, k + 50, k + 100) for k in range(30)])


@pytest.mark.parametrize("walk", COMPUTED)
def test_computed(walk: str) -> None:
    stats = compared(walked(COMPUTED[walk]))
    assert stats["last hits"] == 4
    assert not stats["graph_breaks"], stats["graph_break_sites"]


@pytest.mark.parametrize("walk", LOOKED_AT)
def test_looked_at(walk: str) -> None:
    finite = [turn for turn in TURNS if all(x.isfinite().all() for x in turn)]
    stats = compared(walked(LOOKED_AT[walk]), finite)
    assert stats["last hits"] == 4, stats["reasons"]


def training(check: Callable[[torch.nn.Module], Any]) -> tuple[Any, Any]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x: torch.Tensor) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        if check(model):
            optimizer.step()
        return loss.detach()

    return model, step


def grads(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    return (p.grad for p in model.parameters() if p.grad is not None)


def is_finite(model: torch.nn.Module) -> bool:
    return all(torch.isfinite(g).all() for g in grads(model))


def is_no_nan(model: torch.nn.Module) -> bool:
    return not any(g.isnan().any() for g in grads(model))


def is_small(model: torch.nn.Module) -> bool:
    if max(float(g.norm()) for g in grads(model)) < 100:
        return True
    return False


def is_short(model: torch.nn.Module) -> bool:
    if sum(float(g.norm()) for g in grads(model)) < 100:
        return True
    return False


@pytest.mark.parametrize("check", [is_finite, is_no_nan, is_small, is_short])
def test_whole_step(check: Callable[[torch.nn.Module], Any]) -> None:
    """A step that looks at its gradients is one program; one with a NaN among them does not update."""
    model, step = training(check)
    like, eager = training(check)
    fast = pyjit.compile(step)
    for turn in range(14):
        x = values(3, 4, seed=turn)
        if turn in (6, 11):
            x[0, 0] = math.nan
        close(fast(x), eager(x))
        for have, want in zip(model.parameters(), like.parameters(), strict=True):
            torch.testing.assert_close(have, want)
    stats = pyjit.stats(fast)
    assert not stats["graph_breaks"], stats["graph_break_sites"]
    assert stats["hits"] >= 9


@scenario(captured="late", graph_breaks=ANY)
def test_what_the_body_does(compile: Compile) -> Steps:
    """As far as the walk goes, and no further."""
    seen: list[int] = []

    def noted(xs: Tensors) -> Iterator[torch.Tensor]:
        for i, x in enumerate(xs):
            seen.append(i)
            yield x

    f = compile(lambda xs: (all(x.sum() > 0 for x in noted(xs)), xs[0] + 1))
    for turn in (*TURNS, *TURNS):
        seen.clear()
        yield f(turn), list(seen)


@scenario(captured="late", graph_breaks=ANY)
def test_what_is_left_of_the_walk(compile: Compile) -> Steps:
    """A generator that goes on behind the native call."""

    def f(xs: Tensors) -> Any:
        walk = (x.sum() > 0 for x in xs)
        return any(walk), [bool(rest) for rest in walk], xs[0] * 2

    fast = compile(f)
    for turn in (*TURNS, *TURNS):
        yield fast(turn)


@scenario(captured=False, graph_breaks=ANY)
def test_nothing_to_walk_over(compile: Compile) -> Steps:
    def best(xs: Tensors) -> Any:
        try:
            return max(float(x.norm()) for x in xs)
        except ValueError as error:
            return str(error)

    f = compile(best)
    g = compile(lambda xs: max((float(x.norm()) for x in xs), default=-1.0))
    for turn in ([], TURNS[0], [], TURNS[1], TURNS[0]):
        yield f(turn), g(turn)


@scenario(captured="late", graph_breaks=ANY)
def test_errors_in_the_walk(compile: Compile) -> Steps:
    """From data, and in the middle."""

    def checked(x: torch.Tensor) -> float:
        if x.isnan().any():
            raise ValueError("not a number")
        return float(x.norm())

    def f(xs: Tensors) -> Any:
        try:
            return max(checked(x) for x in xs), xs[0] + 1
        except ValueError as error:
            return str(error), xs[0] - 1

    fast = compile(f)
    for turn in (*TURNS, *TURNS):
        yield fast(turn)


class _Hinted:
    """Says how many elements it has, or how many it may have."""

    def __init__(self, name: str, asked: list[str]) -> None:
        self.name, self.asked = name, asked

    def __iter__(self) -> Any:
        return iter([1.0, 2.0, 3.0])


class _WithLength(_Hinted):
    def __len__(self) -> int:
        self.asked.append("length")
        return 3


class _WithHint(_Hinted):
    def __length_hint__(self) -> int:
        self.asked.append("hint")
        return 7


_STARRED: dict[str, Callable[[Any, Any], Any]] = {
    "display": lambda x, o: [*o, x][-1] * len([*o]),
    "arguments": lambda x, o: (lambda *a: a[-1] * len(a))(*o, x),
    "list": lambda x, o: x * len(list(o)),
    "tuple": lambda x, o: x * len(tuple(o)),
}


@pytest.mark.parametrize(
    "kind",
    (nn.ModuleList, nn.ParameterList, _WithLength, _WithHint),
    ids=lambda k: k.__name__,
)
@pytest.mark.parametrize("use", _STARRED)
def test_lengths_are_hinted(use: str, kind: Any) -> None:
    """Who makes a list of something asks its `__len__` first, or its `__length_hint__`."""
    results = []
    for compile in (lambda f: f, pyjit.compile):
        asked: list[str] = []
        if kind in (_WithLength, _WithHint):
            o = kind("o", asked)
        else:
            o = kind(
                [
                    nn.Linear(2, 2)
                    if kind is nn.ModuleList
                    else nn.Parameter(torch.ones(2))
                    for _ in range(3)
                ]
            )
        f = compile(_STARRED[use])
        results.append(
            [f(torch.ones(2) * call, o) for call in range(6)]
            + [torch.tensor(len(asked))]
        )
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)
    stats = pyjit.stats(f)
    assert stats.hits >= 3 and (asked or not stats.graph_breaks), stats
