# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where gradients end within a compiled call: frozen parts, no_grad, detach, numbers, indices."""

from __future__ import annotations

import torch
from Integration.harness import Compile, Steps, scenario, values
from Integration.training import gradients, leaf, perceptron


@scenario(grad=True)
def test_frozen_layer(compile: Compile) -> Steps:
    m = perceptron()
    m[0].requires_grad_(False)
    f = compile(m)
    for _ in range(3):
        m.zero_grad()
        out = f(values(3, 4))
        out.sum().backward()
        yield [out, gradients(*m.parameters())]


@scenario(grad=True)
def test_all_frozen(compile: Compile) -> Steps:
    m = perceptron().requires_grad_(False)
    f = compile(m)
    for _ in range(2):
        yield f(values(3, 4))


@scenario(grad=True)
def test_no_grad_region(compile: Compile) -> Steps:
    m = perceptron()

    def g(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            h = m[0](x)
        return m[2](h.relu())

    f = compile(g)
    for _ in range(3):
        m.zero_grad()
        out = f(values(3, 4))
        out.sum().backward()
        yield [out, gradients(*m.parameters())]


@scenario(grad=True)
def test_detach_inside(compile: Compile) -> Steps:
    f = compile(lambda x: (x.exp() * x.exp().detach(), x.sin().detach()))
    for _ in range(3):
        x = leaf(4)
        out, still = f(x)
        out.sum().backward()
        yield [out, still, gradients(x)]


@scenario(grad=True)
def test_straight_through(compile: Compile) -> Steps:
    f = compile(lambda x: x + (x.round() - x).detach())
    for _ in range(2):
        x = leaf(4)
        out = f(x)
        out.square().sum().backward()
        yield [out, gradients(x)]


@scenario(grad=True)
def test_data_inside(compile: Compile) -> Steps:
    f = compile(lambda x: x.exp() * (x * 2).data)
    for _ in range(2):
        x = leaf(4)
        out = f(x)
        out.sum().backward()
        yield [out, gradients(x)]


@scenario(grad=True)
def test_detached_and_not(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.exp()
        return y, y.detach(), y[1:], y.detach()[1:]

    f = compile(g)
    for _ in range(2):
        x = leaf(4)
        out = f(x)
        (out[0] * out[1]).sum().backward(retain_graph=True)
        out[2].sum().backward()
        yield [out, gradients(x)]


@scenario(grad=True)
def test_detached_alone(compile: Compile) -> Steps:
    f = compile(lambda x: x.exp().detach())
    for _ in range(2):
        yield f(leaf(4))


@scenario(grad=True)
def test_comparisons_and_indices(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        best = x.argmax(-1)
        return torch.where(x > 0, x * 2, x), best, x.max(-1).values

    f = compile(g)
    for _ in range(2):
        x = leaf(3, 4)
        out = f(x)
        (out[0].sum() + out[2].sum()).backward()
        yield [out, gradients(x)]


@scenario(grad=True)
def test_number_of_data(compile: Compile) -> Steps:
    """No gradient flows through what Python has as a number."""
    f = compile(lambda x: (x * x.sum().item(), x.mean().item()))
    for seed in range(3):
        x = leaf(4, seed=seed)
        out, number = f(x)
        out.sum().backward()
        yield [out, number, gradients(x)]


@scenario(grad=True)
def test_only_a_number_leaves(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(lambda x: m(x).sum().item())
    for seed in range(3):
        yield f(values(3, 4, seed=seed))
