# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Leaves that a call writes, unseen by autograd, and then uses again: several updates, two models, `.data`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, attempt, scenario, values
from Integration.training import OPTIMIZERS, gradients, leaf, perceptron, state
from torch import nn


def networks(compile: Compile, step: Callable[..., Any], *modules: nn.Module) -> Steps:
    """A step that is given a batch; what it may change."""
    f = compile(step)
    for i in range(6):
        yield [f(values(6, 4, seed=i), values(6, 2, seed=50 + i)), *map(state, modules)]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_several_updates(name: str) -> None:
    @scenario(grad=True, captured="late")
    def story(compile: Compile) -> Steps:
        m = perceptron()
        optimizer = OPTIMIZERS[name](list(m.parameters()))

        def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            for _ in range(3):
                optimizer.zero_grad()
                loss = F.mse_loss(m(x), y)
                loss.backward()
                optimizer.step()
            return loss

        f = compile(step)
        for i in range(6):
            loss = f(values(6, 4, seed=i), values(6, 2, seed=9))
            yield [loss.detach(), attempt(loss.backward), state(m, optimizer)]

    story()


@scenario(grad=True, captured="late")
def test_accumulation_with_two_updates(compile: Compile) -> Steps:
    m = perceptron()
    optimizer = OPTIMIZERS["AdamW"](list(m.parameters()))

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for k in range(4):
            loss = F.mse_loss(m(x[k : k + 3]), y[k : k + 3]) / 2
            loss.backward()
            if k % 2:
                optimizer.step()
                optimizer.zero_grad(set_to_none=False)
        return loss.detach()

    yield from networks(compile, step, m)


@pytest.mark.parametrize("clamps", [False, True])
def test_two_models(clamps: bool) -> None:
    @scenario(grad=True, captured="late")
    def story(compile: Compile) -> Steps:
        g, d = perceptron(), nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
        og = OPTIMIZERS["Adam"](list(g.parameters()))
        od = OPTIMIZERS["RMSprop"](list(d.parameters()))

        def step(x: torch.Tensor, real: torch.Tensor) -> list[torch.Tensor]:
            fake = g(x)
            od.zero_grad()
            loss = d(fake.detach()).mean() - d(real).mean()
            loss.backward()
            od.step()
            if clamps:
                for p in d.parameters():
                    p.data.clamp_(-0.2, 0.2)
            og.zero_grad()
            other = -d(fake).mean()
            other.backward()
            og.step()
            return [loss.detach(), other.detach()]

        yield from networks(compile, step, g, d)

    story()


@scenario(grad=True, captured="late")
def test_target_networks(compile: Compile) -> Steps:
    m = perceptron()
    target = copy.deepcopy(m)
    optimizer = OPTIMIZERS["Adam"](list(m.parameters()))

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            for a, b in zip(target.parameters(), m.parameters(), strict=True):
                a.mul_(0.9).add_(b, alpha=0.1)
            y = y + target(x * 2)
        for _ in range(2):
            loss = F.mse_loss(m(x), y) + F.mse_loss(m(x), target(x).detach())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        for a, b in zip(target.parameters(), m.parameters(), strict=True):
            a.data.copy_(0.9 * a.data + 0.1 * b.data)
        return loss.detach()

    yield from networks(compile, step, m, target)


@scenario(grad=True)
def test_update_by_hand(compile: Compile) -> Steps:
    w, b = leaf(4), leaf(4, seed=2)

    def g(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            loss = (x * w + b).square().sum()
            with torch.no_grad():
                for p, d in zip((w, b), torch.autograd.grad(loss, (w, b)), strict=True):
                    p -= 0.01 * d
        return loss.detach()

    f = compile(g)
    for i in range(4):
        yield [f(values(4, seed=i)), w, b]


@scenario(grad=True)
def test_a_part_is_written(compile: Compile) -> Steps:
    w = leaf(4, 4)

    def g(x: torch.Tensor) -> list[torch.Tensor]:
        with torch.no_grad():
            w[1].mul_(0.9)
        a = (x @ w).square().sum()
        a.backward()
        with torch.no_grad():
            w[:, 2].sub_(0.1 * w.grad[:, 2])
        b = (x @ w).square().sum()
        b.backward()
        return [a.detach(), b.detach()]

    f = compile(g)
    for i in range(4):
        w.grad = None
        yield [f(values(4, 4, seed=i)), w, gradients(w)]


@scenario(grad=True)
def test_a_graph_from_before_the_write(compile: Compile) -> Steps:
    """A sum saves nothing: eager goes through the use in front of the write, too."""
    w, b = leaf(4, 4), leaf(4, seed=3)

    def g(x: torch.Tensor) -> torch.Tensor:
        h = x @ w + b
        (h.detach() + b).sum().backward()
        with torch.no_grad():
            b.sub_(0.1 * b.grad)
        loss = (h + b * b).sum()
        loss.backward()
        return loss.detach()

    f = compile(g)
    for i in range(4):
        w.grad = b.grad = None
        yield [f(values(4, 4, seed=i)), w, b, gradients(w, b)]


@scenario(grad=True)
def test_detached_aliases(compile: Compile) -> Steps:
    w = leaf(4)

    def g(x: torch.Tensor) -> torch.Tensor:
        d, e = w.detach(), w.data
        (x * w).sum().backward()
        with torch.no_grad():
            w.sub_(0.1 * w.grad)
        ((x * w * d).sum() + (e * w).sum()).backward()
        d.mul_(0.9)
        loss = (x * w).exp().sum()
        loss.backward()
        return loss.detach()

    f = compile(g)
    for i in range(4):
        w.grad = None
        yield [f(values(4, seed=i)), w, gradients(w)]


@scenario(grad=True, eager="whose `.data` was written")
def test_saved_and_written_without_a_version(compile: Compile) -> Steps:
    """What eager computes with, where `.data` was written, is what lies there then."""
    w = leaf(4)

    def g(x: torch.Tensor) -> torch.Tensor:
        loss, other = (x * w * w).sum(), (x * 2 * w).sum()
        other.backward()
        w.data.mul_(2)
        loss.backward()
        return loss.detach()

    f = compile(g)
    for _ in range(4):
        w.grad = None
        x = leaf(4, seed=1)
        yield [f(x), w, gradients(w, x)]


@scenario(grad=True, graph_breaks=ANY, captured=False)
def test_data_of_another_input_is_written(compile: Compile) -> Steps:
    """It is no leaf, and a product has saved it."""
    w = leaf(4)

    def g(x: torch.Tensor) -> torch.Tensor:
        loss = (x * w).sum()
        x.data.mul_(2)
        loss.backward()
        return loss.detach()

    def h(x: torch.Tensor) -> torch.Tensor:
        loss = (x * w).sum()
        (w * 2).sum().backward()
        x.data.mul_(2)
        loss.backward()
        return loss.detach()

    def k(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        loss = (y * w).sum()
        (w * 2).sum().backward()
        y.data.mul_(2)
        loss.backward()
        return loss.detach()

    for one in (g, h, k):
        f = compile(one)
        for i in range(4):
            w.grad = None
            x = values(4, seed=i)
            yield [f(x), w, gradients(w), x]


@scenario(grad=True)
def test_data_of_another_input_is_written_ahead(compile: Compile) -> Steps:
    w = leaf(4)

    def g(x: torch.Tensor) -> torch.Tensor:
        x.data[1:].mul_(2)
        return (x * w).exp()

    f = compile(g)
    for i in range(4):
        w.grad = None
        x = values(4, seed=i)
        out = f(x)
        out.sum().backward()
        yield [out, w, gradients(w), x]


@scenario(grad=True, eager="under checkpoint again")
def test_checkpoint_and_a_write(compile: Compile) -> Steps:
    """The function runs again in the backward, and reads what is there then."""
    m = perceptron()

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.utils.checkpoint.checkpoint(m, x, use_reentrant=False)
        loss = F.mse_loss(out, y)
        m(x).sum().backward()
        with torch.no_grad():
            for p in m.parameters():
                p.mul_(0.9)
        loss.backward()
        return loss.detach()

    yield from networks(compile, step, m)


@scenario(grad=True, graph_breaks=ANY, captured="late")
def test_a_view_from_before_the_write(compile: Compile) -> Steps:
    w = leaf(4, 4)

    def g(x: torch.Tensor) -> list[torch.Tensor]:
        with torch.no_grad():
            w.mul_(0.9)
        v = w.t()
        a = (x @ v).sum()
        a.backward()
        with torch.no_grad():
            w.sub_(0.1 * w.grad)
        b = (x @ v).square().sum()
        b.backward()
        return [a.detach(), b.detach()]

    f = compile(g)
    for i in range(4):
        w.grad = None
        yield [f(values(4, 4, seed=i)), w, gradients(w)]


@scenario(grad=True, graph_breaks=ANY, captured="late")
def test_a_view_is_written(compile: Compile) -> Steps:
    w = leaf(4, 4)

    def g(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            w.mul_(0.9)
        v = w.t()
        (x @ v).sum().backward()
        with torch.no_grad():
            v.mul_(0.5)
        loss = (x @ w).square().sum()
        loss.backward()
        return loss.detach()

    f = compile(g)
    for i in range(4):
        w.grad = None
        yield [f(values(4, 4, seed=i)), w, gradients(w)]


@scenario(grad=True, graph_breaks="a view of a leaf", captured="late")
def test_a_view_leaves(compile: Compile) -> Steps:
    w = leaf(4, 4)

    def g(x: torch.Tensor) -> list[torch.Tensor]:
        with torch.no_grad():
            w.mul_(0.9)
        v = w.t()
        return [v, x @ v]

    f = compile(g)
    for i in range(4):
        w.grad = None
        v, out = f(values(4, 4, seed=i))
        (out.sum() + v.square().sum()).backward()
        with torch.no_grad():
            w.add_(1)
        yield [v, out, w, gradients(w)]


@scenario(grad=True, graph_breaks="leaf after a write", captured="late")
def test_written_again_behind_the_call(compile: Compile) -> Steps:
    """The graph that leaves checks versions, as eager's does."""
    w = leaf(4)

    def g(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            w.mul_(0.9)
        return (x * w).exp()

    f = compile(g)
    for i in range(4):
        w.grad = None
        x = leaf(4, seed=i)
        out = f(x)
        if i % 2:
            with torch.no_grad():
                w.mul_(2)
        yield [out, w, attempt(out.sum().backward), gradients(w, x)]


@scenario(grad=True, graph_breaks="another one can begin at", captured="late")
def test_a_loss_behind_the_update_leaves(compile: Compile) -> Steps:
    w = leaf(4)

    def g(x: torch.Tensor) -> torch.Tensor:
        (x * w).sum().backward()
        with torch.no_grad():
            w.sub_(0.1 * w.grad)
        return (x * w).exp().sum()

    f = compile(g)
    for i in range(4):
        w.grad = None
        out = f(values(4, seed=i))
        out.backward()
        yield [out, w, gradients(w)]
