# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`p.data = …` within a step: averages that are assigned, clamped weights, weights that are swapped and put back."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, scenario, values
from Integration.training import classifier, labelled, perceptron, settled, state
from torch import nn


def clamp(m: nn.Module) -> None:
    for p in m.parameters():
        p.data = p.data.clamp(-0.2, 0.2)


def clamp_by_module(m: nn.Module) -> None:
    def visit(module: nn.Module) -> None:
        if hasattr(module, "weight"):
            module.weight.data = module.weight.data.clamp(-0.2, 0.2)

    m.apply(visit)


def subtract(m: nn.Module) -> None:
    for p in m.parameters():
        p.data -= 0.1 * p.data.sign()


def twice(m: nn.Module) -> None:
    for p in m.parameters():
        p.data = p.data * 0.5
        p.data = p.data + 0.01


def then_written(m: nn.Module) -> None:
    with torch.no_grad():
        for p in m.parameters():
            p.data = p.data * 0.9
            p.add_(0.01)


def of_gradients(m: nn.Module) -> None:
    for p in m.parameters():
        p.grad.data = p.grad.data.clamp(-0.05, 0.05)


AFTER: dict[str, Callable[[nn.Module], None]] = {
    f.__name__: f
    for f in (clamp, clamp_by_module, subtract, twice, then_written, of_gradients)
}


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("momentum", [0, 0.9])
def test_data_is_set_behind_the_update(after: str, momentum: float) -> None:
    @settled(hits=6, graphs=3)
    def story(compile: Compile) -> Steps:
        m = classifier()
        chosen = torch.optim.SGD(m.parameters(), lr=0.1, momentum=momentum)

        def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            chosen.zero_grad()
            loss = F.cross_entropy(m(x), y)
            loss.backward()
            chosen.step()
            AFTER[after](m)
            return loss.detach()

        f = compile(step)
        for i in range(10):
            torch.manual_seed(i)
            before = [p.data for p in m.parameters()]
            yield [f(*labelled(i)), state(m, chosen)]
            # Who held the memory that a parameter has shown keeps it.
            yield [before, [p.data_ptr() == b.data_ptr() for p, b in zip(m.parameters(), before)]]  # fmt: skip

    story()


@pytest.mark.parametrize("order", ["before", "after"])
def test_averages_that_are_assigned(order: str) -> None:
    """As MoCo does in front of the backward, and BYOL behind the update."""

    @settled(hits=6, graphs=3)
    def story(compile: Compile) -> Steps:
        m = perceptron()
        average = copy.deepcopy(m).requires_grad_(False)
        chosen = torch.optim.AdamW(m.parameters(), lr=0.01, eps=1e-3)

        def update() -> None:
            for p, a in zip(m.parameters(), average.parameters()):
                a.data = a.data * 0.9 + p.data * 0.1

        def step(x: torch.Tensor) -> torch.Tensor:
            out = m(x)
            if order == "before":
                update()
            with torch.no_grad():
                goal = average(x.flip(0))
            loss = F.mse_loss(out, goal) + out.square().mean()
            chosen.zero_grad()
            loss.backward()
            chosen.step()
            if order == "after":
                update()
            return loss.detach()

        f = compile(step)
        for i in range(10):
            yield [f(values(5, 4, seed=i)), state(m, chosen), state(average)]

    story()


@settled(hits=6, graphs=3)
def test_sharpness_aware(compile: Compile) -> Steps:
    """Weights go up, and are put back in front of the update."""
    m = perceptron()
    chosen = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    kept: dict[Any, torch.Tensor] = {}

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = m(x).square().mean()
        loss.backward()
        for p in m.parameters():
            kept[p] = p.data.clone()
            p.data.add_(0.05 * p.grad)
        chosen.zero_grad()
        m(x).square().mean().backward()
        for p in m.parameters():
            p.data = kept[p]
        chosen.step()
        chosen.zero_grad()
        return loss.detach()

    f = compile(step)
    for i in range(10):
        yield [f(values(5, 4, seed=i)), state(m, chosen), list(kept.values())]


@settled(hits=6, graphs=6)
def test_averages_are_shown_and_taken_back(compile: Compile) -> Steps:
    """The parameters show other tensors from before the call, and then again what they did."""
    m = perceptron()
    shadow = {n: torch.full_like(p, 0.1) for n, p in m.named_parameters()}
    backup: dict[str, torch.Tensor] = {}

    def evaluate(x: torch.Tensor) -> torch.Tensor:
        for n, p in m.named_parameters():
            backup[n] = p.data
            p.data = shadow[n]
        with torch.no_grad():
            out = m(x)
        for n, p in m.named_parameters():
            p.data = backup[n]
        backup.clear()
        return out

    f = compile(evaluate)
    for i in range(9):
        before = [p.data_ptr() for p in m.parameters()]
        yield [f(values(5, 4, seed=i)), state(m), list(shadow.values())]
        yield [p.data_ptr() == b for p, b in zip(m.parameters(), before)]


@scenario(grad=True, captured=False, graph_breaks=ANY)
def test_averages_are_shown_between_calls(compile: Compile) -> Steps:
    """Behind such a call a parameter and its average are one memory, which the next update writes."""
    m = perceptron()
    chosen = torch.optim.SGD(m.parameters(), lr=0.1)
    shadow = [torch.full_like(p, 0.1) for p in m.parameters()]

    def show(x: torch.Tensor) -> torch.Tensor:
        loss = m(x).square().mean()
        chosen.zero_grad()
        loss.backward()
        chosen.step()
        for p, s in zip(m.parameters(), shadow):
            p.data = s
        return loss.detach()

    f = compile(show)
    for i in range(8):
        yield [f(values(5, 4, seed=i)), state(m), shadow]
        yield [p.data_ptr() == s.data_ptr() for p, s in zip(m.parameters(), shadow)]
        with torch.no_grad():
            m[0].weight.mul_(1.5)
        yield [state(m), shadow]


@scenario(grad=True, captured=False, graph_breaks=ANY)
def test_two_parameters_change_places(compile: Compile) -> Steps:
    a, b = values(3, seed=1).requires_grad_(), values(3, seed=2).requires_grad_()

    def swap(x: torch.Tensor) -> Any:
        first, second = a.data, b.data
        a.data = second
        b.data = first
        with torch.no_grad():
            a.mul_(2)
        return a * 1 + x, first

    f = compile(swap)
    for i in range(6):
        ahead = a.data_ptr()
        yield [f(values(3, seed=i)), a, b]
        yield b.data_ptr() == ahead


BREAKS: dict[str, Callable[[nn.Module, torch.Tensor], Any]] = {
    "gradients flow to it": lambda m, x: m(x).square().mean().backward(),
    "it leaves a loss": lambda m, x: m(x).square().mean(),
}


@pytest.mark.parametrize("then", BREAKS)
@pytest.mark.parametrize("first", [False, True])
def test_data_is_set_in_front_of_gradients(then: str, first: bool) -> None:
    """What has saved the parameter finds what it shows when the backward comes, as in eager."""

    @scenario(grad=True, captured=False, graph_breaks=ANY)
    def story(compile: Compile) -> Steps:
        m = perceptron()

        def step(x: torch.Tensor) -> Any:
            m.zero_grad()
            early = m(x).square().mean() if first else None
            for p in m.parameters():
                p.data = p.data * 0.9
            if early is not None:
                early.backward()
            return BREAKS[then](m, x)

        f = compile(step)
        for i in range(8):
            loss = f(values(5, 4, seed=i))
            if loss is not None:
                loss.backward()
            yield [loss, state(m)]

    story()


@scenario(grad=True, captured=False, graph_breaks=ANY)
def test_one_memory_under_two_names(compile: Compile) -> Steps:
    """Two tensors of one memory, or one tensor twice: later calls are given what the first was not."""
    a, b = values(3, seed=1), values(3, seed=2)

    def g(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        p.data = p * 2
        return q + p

    f = compile(g)
    for i in range(8):
        p = values(3, seed=i)
        q = p if i in (3, 6) else p.detach() if i in (4, 7) else values(3, seed=9)
        yield [f(p, q), p, q, a, b]


@scenario(grad=True, captured=False, graph_breaks=ANY)
def test_data_of_another_kind(compile: Compile) -> Steps:
    """Another size, stride or type is a graph break."""

    def g(x: torch.Tensor, kind: int) -> torch.Tensor:
        p = x.clone()
        given = [x[:1], x.t(), x.double(), x + 1][kind]
        p.data = given
        x.data = given
        return p * 2

    f = compile(g)
    for i in range(12):
        x = values(3, 3, seed=i)
        yield [f(x, i % 4), x]


@pytest.mark.parametrize("kind", ["data", "grad", "number"])
def test_what_was_kept_is_taken_out_and_put_back(kind: str) -> None:
    """An effect that takes the last holder away leaves what a later effect uses."""

    @scenario(grad=True, captured="late", graph_breaks=ANY)
    def story(compile: Compile) -> Steps:
        kept: dict[str, Any] = {}
        p = nn.Parameter(values(3))

        def step(x: torch.Tensor) -> Any:
            if kind == "data":
                y = (p * x).sum()
                p.data = kept.pop("it")
            elif kind == "grad":
                y = (x * 2).sum()
                p.grad = kept.pop("it")
            else:
                y = (x * 2).sum()
                x.fill_(kept.pop("it"))
            return y.detach()

        f = compile(step)
        for i in range(8):
            kept["it"] = float(i) / 3 if kind == "number" else values(3, seed=i)
            x = values(3, seed=i + 9)
            yield [f(x), x, p, p.grad, kept]

    story()
