# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Branches on data that calls have taken one way only: one program, which speculates on that way.

Each story is told by eager and by pyjit; a call that goes the other way is right, too, and leaves
nothing behind that eager would not have left.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import ANY, Compile, Steps, attempt, tell, values
from torch import nn

Story = Callable[[Compile], Steps]


def speculating(
    story: Story | None = None, *, speculations: int = 1, graphs: int | None = 1
) -> Any:
    """A test of a story at whose end so many branches have gone one way, in so many graphs; told
    on the CPU, and on a simulated device."""
    if story is None:
        return functools.partial(speculating, speculations=speculations, graphs=graphs)

    @pytest.mark.parametrize("device", [False, True], ids=["cpu", "device"])
    def test(device: bool) -> None:
        def told(compile: Compile) -> Steps:
            made: list[Any] = []

            def remember(f: Any, **own: Any) -> Any:
                made.append(compile(f, options={"simulated_device": device}, **own))
                return made[-1]

            yield from story(remember)
            if compile.__name__ == "<lambda>":
                return
            stats = [pyjit.stats(compiled) for compiled in made]
            found = [s["speculations"] for s in stats]
            assert sum(map(len, found)) == speculations, (found, stats)
            if graphs is not None:
                assert sum(s["graphs"] for s in stats) == graphs, stats
                if speculations:
                    assert not any(s["graph_break_sites"] for s in stats), stats

        tell(told, captured="late", graph_breaks=ANY)

    test.__name__ = story.__name__
    test.__doc__ = story.__doc__
    test.__module__ = story.__module__
    return test


def positive(*shape: int, seed: int = 0) -> torch.Tensor:
    return values(*shape, seed=seed).abs() + 0.1


def checked(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    if torch.isnan(y).any():
        raise ValueError("not a number")
    return torch.relu(y) + x


@speculating
def test_a_check_that_holds(compile: Compile) -> Steps:
    f = compile(checked)
    for seed in range(4):
        yield f(values(3, 4, seed=seed))


@speculating
def test_a_check_that_fails_once(compile: Compile) -> Steps:
    """The exception is eager's, and the calls behind it are answered as before."""
    f = compile(checked)
    yield f(values(3, 4, seed=1))
    yield attempt(f, torch.full((3, 4), float("nan")))
    for seed in range(4):
        yield f(values(3, 4, seed=seed))


@speculating
def test_behind_random_numbers(compile: Compile) -> Steps:
    """A call that goes the other way draws what eager draws: its generator is put back first."""

    def g(x: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.dropout(x, 0.5)
        if torch.rand([]) < limit:
            raise ValueError("dropped")
        return y + torch.rand(4)

    f = compile(g)
    for seed, limit in enumerate((0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0)):
        yield attempt(f, values(3, 4, seed=seed), torch.tensor(limit))
        yield torch.rand(3)


@speculating(speculations=0)
def test_the_other_side_comes(compile: Compile) -> Steps:
    """Then the program has both."""

    def g(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x + 1
        return x * 2

    f = compile(g)
    for sign in (1, 1, -1, 1, -1, -1, 1):
        yield f(sign * positive(5, seed=2 + sign))


@speculating(speculations=0, graphs=None)
def test_sides_that_are_no_one_program(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return torch.cat([x, x])
        return x * 2

    f = compile(g)
    for sign in (1, 1, -1, 1, -1, -1, 1):
        yield f(sign * positive(5, seed=2 + sign))


@speculating(speculations=3)
def test_checks_in_a_row(compile: Compile) -> Steps:
    def g(x: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
        if not torch.isfinite(x).all():
            raise OverflowError("infinite")
        y = x @ x.T
        if y.max() > limit:
            y = y / y.max()
        z = torch.softmax(y, -1)
        if (z < 0).any():
            raise RuntimeError("negative")
        return z.sum(0)

    f = compile(g)
    limit = torch.tensor(1000.0)
    for seed in range(4):
        yield f(values(4, 4, seed=seed), limit)
    yield attempt(f, torch.full((4, 4), float("inf")), limit)
    yield f(values(4, 4, seed=7), limit)


@speculating(speculations=1)
def test_one_of_two_goes_either_way(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        if torch.isnan(x).any():
            raise ValueError("not a number")
        y = x * 3
        if y.sum() > 0:
            y = y + 1
        else:
            y = y - 1
        return y.relu()

    f = compile(g)
    for sign in (1, -1, 1, -1, -1, 1):
        yield f(sign * positive(5, seed=2 + sign))


@speculating
def test_in_called_functions(compile: Compile) -> Steps:
    def check(t: torch.Tensor, what: str) -> torch.Tensor:
        if (t.abs() > 100).any():
            raise OverflowError(what)
        return t

    def layer(x: torch.Tensor) -> torch.Tensor:
        return check(torch.tanh(x) * 2, "tanh") + 1

    def g(x: torch.Tensor) -> torch.Tensor:
        return layer(x) * x

    f = compile(g)
    for seed in range(4):
        yield f(values(6, seed=seed))


@speculating(graphs=None)
def test_in_a_module(compile: Compile) -> Steps:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.pad = 0

        def forward(self, ids: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            if self.pad in ids:
                x = x * (ids != self.pad).unsqueeze(-1)
            return self.linear(x)

    torch.manual_seed(3)
    f = compile(Masked().eval())
    ids = torch.arange(1, 7).reshape(2, 3)
    with torch.no_grad():
        for seed in range(4):
            yield f(ids + seed, values(2, 3, 4, seed=seed))


@speculating(speculations=0, graphs=None)
def test_random_numbers_in_front(compile: Compile) -> Steps:
    """A call that is answered again would draw twice: the branch stays a graph break."""

    def g(x: torch.Tensor) -> torch.Tensor:
        y = x + torch.rand(4)
        if y.sum() > 100:
            return y * 0
        return y * 2

    f = compile(g)
    torch.manual_seed(5)
    for seed in range(4):
        yield f(positive(4, seed=seed))
    yield f(positive(4) + 100), torch.rand(2)


@speculating
def test_random_numbers_behind(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 100:
            raise ValueError("large")
        return torch.dropout(x, 0.5, True) + torch.rand(4)

    f = compile(g)
    torch.manual_seed(5)
    for seed in range(4):
        yield f(positive(4, seed=seed))
    yield attempt(f, positive(4) + 100), torch.rand(2)
    yield f(positive(4)), torch.rand(2)


@speculating(graphs=None)
def test_writes_in_front(compile: Compile) -> Steps:
    """A program that does not answer has written nothing: eager writes once."""

    def g(x: torch.Tensor, log: list) -> torch.Tensor:
        x.add_(1)
        log.append(x.shape[0])
        if x.max() > 50:
            raise ValueError("large")
        x.mul_(2)
        return x + 1

    f = compile(g)
    log: list = []
    for seed in range(3):
        log.clear()
        x = positive(4, seed=seed)
        yield f(x, log), x, list(log)
    log.clear()
    x = positive(4) + 100
    yield attempt(f, x, log), x, list(log)
    log.clear()
    x = positive(4)
    yield f(x, log), x, list(log)


@speculating(speculations=0, graphs=None)
def test_what_the_check_keeps_from_running(compile: Compile) -> Steps:
    """Nothing behind a check runs where it fails: the index would be out of range."""

    def g(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        if (i >= x.shape[0]).any():
            return torch.zeros(3)
        return x[i].sum(-1)

    f = compile(g)
    x = values(5, 4)
    for last in (2, 4, 9, 1, 7):
        yield f(x, torch.tensor([0, 1, last]))


@speculating(graphs=None)
def test_what_the_rest_looks_at_changes(compile: Compile) -> Steps:
    state = {"scale": 2.0, "on": True}

    def g(x: torch.Tensor) -> torch.Tensor:
        if x.sum() < 0:
            raise ValueError("negative")
        return x * state["scale"] if state["on"] else x - 1

    f = compile(g)
    for seed in range(3):
        yield f(positive(4, seed=seed))
    for on in (False, True, False, False, True):
        state["on"] = on
        yield f(positive(4, seed=3))


@speculating(speculations=0, graphs=None)
def test_a_rare_side_again_and_again(compile: Compile) -> Steps:
    def g(x: torch.Tensor, seen: list) -> torch.Tensor:
        if x.sum() < 0:
            seen.append("negative")
            return x.abs()
        return x + 1

    f = compile(g)
    for seed in range(12):
        seen: list = []
        sign = -1 if seed % 5 == 3 else 1
        yield f(sign * positive(4, seed=seed), seen), seen


@speculating
def test_held_results(compile: Compile) -> Steps:
    f = compile(checked)
    held = []
    for seed in range(5):
        held.append(f(values(3, 4, seed=seed)))
        yield held


def test_explain_names_the_branch() -> None:
    text = pyjit.explain(pyjit.compile(checked))(values(3, 4))
    assert "1 graph(s), 0 graph break(s)" in text
    assert "goes one way so far: a branch on a tensor's data" in text, text
