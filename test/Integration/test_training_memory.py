# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes, views and buffers on the path of a gradient, and what a call leaves in memory."""

from __future__ import annotations

import weakref
from typing import Any

import pyjit
import torch
from Integration.harness import Compile, Steps, scenario, values
from Integration.training import gradients, leaf, perceptron
from torch import nn


@scenario(grad=True)
def test_in_place_on_what_the_call_made(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.mul_(0.5)
        y[0].add_(3)
        y[1] = x[2] * x[3]
        return y

    f = compile(g)
    for _ in range(2):
        x = leaf(4, 4)
        out = f(x)
        (out * values(4, 4, seed=1)).sum().backward()
        yield [out, gradients(x)]


@scenario(grad=True)
def test_buffer_made_inside(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros(4, 4)
        y[1:3] = x * 2
        y.add_(1)
        return y

    f = compile(g)
    for _ in range(2):
        x = leaf(2, 4)
        out = f(x)
        (out * values(4, 4, seed=1)).sum().backward()
        yield [out, gradients(x)]


@scenario(grad=True)
def test_views_leave(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.exp()
        return y.t(), y[0], x.t()

    f = compile(g)
    for _ in range(2):
        x = leaf(3, 4)
        out = f(x)
        sum((part * part).sum() for part in out).backward()
        yield [out, gradients(x)]


@scenario(grad=True)
def test_view_without_a_gradient(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.exp()
        with torch.no_grad():
            part = y[0]
        return y, part

    f = compile(g)
    for _ in range(2):
        x = leaf(3, 4)
        out, part = f(x)
        yield [out, part]


@scenario(grad=True)
def test_written_buffer(compile: Compile) -> Steps:
    m = perceptron()
    running = torch.zeros(2)

    def g(x: torch.Tensor) -> torch.Tensor:
        out = m(x)
        with torch.no_grad():
            running.mul_(0.9).add_(out.mean(0))
        return out

    f = compile(g)
    for seed in range(3):
        m.zero_grad()
        out = f(values(3, 4, seed=seed))
        out.sum().backward()
        yield [out, running, gradients(*m.parameters())]


@scenario(grad=True)
def test_kept_on_an_object(compile: Compile) -> Steps:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = perceptron()
            self.last: Any = None

        def forward(self, x: torch.Tensor) -> dict[str, Any]:
            self.last = self.inner[0](x)
            return {"out": self.inner[2](self.last.relu()), "n": 3}

    m = Model()
    f = compile(m)
    for seed in range(3):
        m.zero_grad()
        out = f(values(3, 4, seed=seed))
        (out["out"].sum() + m.last.square().sum()).backward()
        yield [out["out"], m.last, gradients(*m.parameters())]


@scenario(grad=True)
def test_dropout(compile: Compile) -> Steps:
    m = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    f = compile(m)
    for seed in range(4):
        m.zero_grad()
        torch.manual_seed(seed)
        out = f(values(3, 4))
        out.sum().backward()
        yield [out, gradients(*m.parameters()), torch.rand(2)]


def test_memory_is_freed() -> None:
    """Neither nodes nor what they save outlive their outputs."""
    m = perceptron()
    f = pyjit.compile(m, options={"strict": True})
    for _ in range(2):
        f(values(3, 4)).sum().backward()
    x = values(3, 4)
    freed = weakref.ref(x)
    out = f(x)
    del x
    assert freed() is not None
    out.sum().backward()
    assert freed() is None
    x = values(3, 4)
    freed = weakref.ref(x)
    out = f(x)
    del x, out
    assert freed() is None
