# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions among the arguments that are made anew for each call: what they do is told by their code and by what they
hold, and calls that are given another one of the same are answered by one specialization."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, attempt, tell, values
from Integration.training import classifier, labelled, state
from pyjit._api import engine_of

Tensor = torch.Tensor

_OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01),
}


@pytest.mark.parametrize("name", _OPTIMIZERS)
def test_a_closure_for_each_step_settles(name: str) -> None:
    """`opt.step(closure)`, with one closure for each batch."""
    made: list[Any] = []

    def story(compile: Compile) -> Steps:
        module = classifier()
        chosen = _OPTIMIZERS[name](module.parameters())
        step = compile(lambda closure: chosen.step(closure))
        made.append(step)
        for i in range(12):
            x, y = labelled(i)

            def closure(x: Tensor = x, y: Tensor = y) -> Tensor:
                chosen.zero_grad()
                loss = F.cross_entropy(module(x), y)
                loss.backward()
                return loss

            yield step(closure).detach(), state(module, chosen)

    tell(story, captured="late", grad=True)
    assert engine_of(made[-1], "stats").captures <= 3


def _with_cell(n: float) -> Any:
    return lambda x: x * n


def _with_default(n: float) -> Any:
    return lambda x, k=n: x * k


def _with_keyword(n: float) -> Any:
    def given(x: Tensor, *, k: float = n) -> Tensor:
        return x * k

    return given


def _with_inner(n: float) -> Any:
    inner = _with_cell(n)
    return lambda x: inner(x) + 1


def _with_attribute(n: float) -> Any:
    def given(x: Tensor) -> Tensor:
        return x * given.n  # type: ignore[attr-defined]

    given.n = n  # type: ignore[attr-defined]
    return given


def _that_counts(n: float) -> Any:
    calls = 0

    def given(x: Tensor) -> Any:
        nonlocal calls
        calls += 1
        return x * n + calls, calls

    return given


def _that_keeps(n: float) -> Any:
    kept: list[float] = []

    def given(x: Tensor) -> Any:
        kept.append(n)
        return x * n, list(kept)

    return given


def _wrapped(n: float) -> Any:
    @functools.wraps(F.relu)
    def given(x: Tensor) -> Tensor:
        return F.relu(x) * n

    return given


def _partial(n: float) -> Any:
    return functools.partial(lambda x, k: x * k, k=n)


_FUNCTIONS: dict[str, Callable[[float], Any]] = {
    "cell": _with_cell,
    "default": _with_default,
    "keyword": _with_keyword,
    "inner": _with_inner,
    "attribute": _with_attribute,
    "counts": _that_counts,
    "keeps": _that_keeps,
    "wrapped": _wrapped,
    "partial": _partial,
}


def _called(x: Tensor, f: Any, g: Any) -> Any:
    return f(x), f(x + 1), g(x)


def _over_a_break(x: Tensor, f: Any, g: Any) -> Any:
    first = f(x)
    print(end="")
    return first, g(x), f(x)


def _told_apart(x: Tensor, f: Any, g: Any) -> Any:
    return f(x), f is g, {f: 1, g: 2}[f], f == g, [f].count(g)


def _changed(x: Tensor, f: Any, g: Any) -> Any:
    seen = f(x)
    f.calls = getattr(f, "calls", 0) + 1
    return seen, f.calls, vars(g)


def _returned(x: Tensor, f: Any, g: Any) -> Any:
    return x * 2, f, [g]


def _looked_at(x: Tensor, f: Any, g: Any) -> Any:
    name = getattr(f, "__name__", None)
    return x + 1, name, getattr(g, "__defaults__", None), callable(f)


_USES = (_called, _over_a_break, _told_apart, _changed, _returned, _looked_at)


def _given() -> Iterator[tuple[str, float, str, float | None]]:
    """Two kinds of functions with what they hold; without, one function is given twice."""
    kinds = [*_FUNCTIONS]
    for place, kind in enumerate(kinds):
        other = kinds[(place + 1) % len(kinds)]
        for one, two in [(2.0, 3.0)] * 3 + [(2.0, 4.0), (5.0, 3.0), (6.0, 3.0)]:
            yield kind, one, kind, two
        yield kind, 2.0, kind, None
        yield kind, 2.0, other, 3.0
        yield kind, 3.0, kind, None
        yield kind, 7.0, kind, 3.0


@pytest.mark.parametrize("use", _USES, ids=lambda use: use.__name__.strip("_"))
def test_what_they_hold_is_seen(use: Callable[..., Any]) -> None:
    def story(compile: Compile) -> Steps:
        step = compile(use)
        for one, n, two, m in _given():
            f = _FUNCTIONS[one](n)
            g = f if m is None else _FUNCTIONS[two](m)
            seen = attempt(step, values(3), f, g)
            if use is _returned:
                assert isinstance(seen, tuple)
                yield seen[0], seen[1] is f, seen[2][0] is g
                # Who gets it back calls it.
                yield seen[1](values(3))
            else:
                yield seen
            yield f(values(3)), g(values(3))

    tell(story, captured=False, graph_breaks=ANY)


def test_one_specialization_for_all() -> None:
    step = pyjit.compile(_called)
    for n in range(12):
        f, g = _with_cell(n + 0.5), _with_inner(n + 0.25)
        torch.testing.assert_close(step(values(3), f, g), _called(values(3), f, g))
    assert engine_of(step, "stats").captures <= 3
    assert pyjit.stats(step)["hits"] >= 9


@pytest.mark.parametrize("kind", ["default", "keyword", "defaults list", "inner"])
def test_numbers_in_defaults_settle(kind: str) -> None:
    """Numbers that a frame begins with are fixed: after some recordings the call of the function is a graph break."""

    def make(n: float) -> Any:
        inner = _with_cell(n)
        kept = [n]
        return {
            "default": _with_default(n),
            "keyword": _with_keyword(n),
            "defaults list": lambda x, k=kept: x * k[0],
            "inner": lambda x, f=inner: f(x),
        }[kind]

    def use(x: Tensor, f: Any) -> Tensor:
        return f(x * 2) + 1

    step = pyjit.compile(use)
    for n in [*range(24), 3, True, 2.5, False, 1]:
        f = make(n)
        torch.testing.assert_close(step(values(3), f), use(values(3), f))
    assert engine_of(step, "stats").captures <= 8
    assert pyjit.stats(step)["hits"] >= 12
