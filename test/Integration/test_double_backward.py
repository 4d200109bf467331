# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of gradients (`create_graph=True`) of compiled calls."""

from __future__ import annotations

from collections.abc import Callable

import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration.harness import Compile, Steps, attempt, scenario, values
from torch import nn
from torch.autograd import grad

FUNCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "sin": torch.sin,
    "exp": torch.exp,
    "sigmoid": torch.sigmoid,
    "product": lambda x: x * x * x[0],
    "softmax": lambda x: x.softmax(-1) * x,
    "mean and deviation": lambda x: x.mean() ** 2 + x.std(),
    "matrices": lambda x: (x @ x.t()).exp(),
    "views": lambda x: (x.t() ** 3)[1:],
    "logarithm of a sum": lambda x: x.logsumexp(0),
    "written": lambda x: torch.zeros(3, 4).copy_(x * x).mul_(x),
}


def leaf(*shape: int, seed: int = 0) -> torch.Tensor:
    return values(*shape, seed=seed).requires_grad_()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_third_order(name: str) -> None:
    @scenario(grad=True, versions=False)
    def story(compile: Compile) -> Steps:
        f = compile(FUNCTIONS[name])
        for _ in range(3):
            x = leaf(3, 4)
            (g,) = grad(f(x).sum(), x, create_graph=True)
            (h,) = grad((g * values(3, 4, seed=1)).sum(), x, create_graph=True)
            (k,) = grad((h * values(3, 4, seed=2)).sum(), x)
            yield [t.detach().contiguous() for t in (g, h, k)]

    story()


@scenario(grad=True, versions=False)
def test_layer_norm(compile: Compile) -> Steps:
    """Eager's third derivative is wrong: of the sum, which is 0, it is not 0."""
    f = compile(lambda x: F.layer_norm(x, (4,)).exp())
    for _ in range(2):
        x = leaf(3, 4)
        (g,) = grad(f(x).sum(), x, create_graph=True)
        (h,) = grad((g * values(3, 4, seed=1)).sum(), x)
        yield [g.detach(), h]


@scenario(grad=True)
def test_two_inputs(compile: Compile) -> Steps:
    f = compile(lambda x, y: (x.exp() * y).sum(0))
    for _ in range(2):
        x, y = leaf(3, 4), leaf(3, 4, seed=1)
        a, b = grad(f(x, y).sum(), [x, y], create_graph=True)
        (a.square().sum() + b.sum()).backward()
        yield [a.detach(), b.detach(), x.grad, y.grad]


@scenario(grad=True, versions=False)
def test_signs_have_no_derivative(compile: Compile) -> Steps:
    """Zeros, and not none: eager's gradient of `relu` depends on its result."""
    f = compile(lambda x: x.relu())
    for _ in range(2):
        x = leaf(4)
        (g,) = grad(f(x).sum(), x, create_graph=True)
        (h,) = grad(g.sum(), x)
        yield [g.requires_grad, g.detach(), h]


@scenario(grad=True)
def test_constant_gradient(compile: Compile) -> Steps:
    f = compile(lambda x: x * 3)
    for _ in range(2):
        x = leaf(4)
        (g,) = grad(f(x).sum(), x, create_graph=True)
        yield [g.requires_grad, g.clone(), type(attempt(g.sum().backward))]


@scenario(grad=True)
def test_incoming_gradient_requires_grad(compile: Compile) -> Steps:
    f = compile(lambda x: x * 3)
    for _ in range(2):
        x, v = leaf(4), leaf(4, seed=1)
        (g,) = grad(f(x), x, v, create_graph=True)
        g.square().sum().backward()
        yield [g.detach(), x.grad, v.grad]


@scenario(grad=True)
def test_gradient_penalty(compile: Compile) -> Steps:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)
    )
    f = compile(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for seed in range(4):
        x = leaf(5, 4, seed=seed)
        out = f(x)
        (g,) = grad(out.sum(), x, create_graph=True)
        loss = out.mean() + ((g.norm(dim=1) - 1) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield [loss, list(net.parameters())]


@scenario(grad=True, versions=False)
def test_differential_equation(compile: Compile) -> Steps:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    f = compile(net)
    for seed in range(3):
        net.zero_grad()
        x = leaf(6, 2, seed=seed)
        u = f(x)
        (first,) = grad(u.sum(), x, create_graph=True)
        (second,) = grad(first[:, 0].sum(), x, create_graph=True)
        (second[:, 1] + u[:, 0] * first[:, 0]).square().mean().backward()
        yield [p.grad.flatten() for p in net.parameters()]


@scenario(grad=True, versions=False)
def test_sizes_that_differ(compile: Compile) -> Steps:
    f = compile(lambda x, w: (x * w).tanh().mean())
    for n in (3, 3, 4, 5, 6, 4):
        x, w = leaf(n, 4), leaf(4, seed=1)
        (g,) = grad(f(x, w), x, create_graph=True)
        g.square().sum().backward()
        yield [g.detach(), x.grad, w.grad]


@scenario(grad=True)
def test_number_that_differs(compile: Compile) -> Steps:
    f = compile(lambda x, n: x.exp() * n)
    for n in range(4):
        x = leaf(4)
        first, second = f(x, n + 0.5), f(x, n + 7.5)
        (g,) = grad(first.sum(), x, create_graph=True)
        (h,) = grad(g.sum(), x)
        yield [g.detach(), h, second]


@scenario(grad=True)
def test_released(compile: Compile) -> Steps:
    f = compile(lambda x: x.exp())
    for _ in range(2):
        x = leaf(4)
        out = f(x).sum()
        out.backward()
        yield str(attempt(lambda out=out, x=x: grad(out, x, create_graph=True)))


@scenario(grad=True, versions=False)
def test_drawn_numbers(compile: Compile) -> Steps:
    """A gradient of a gradient has the call's masks, whatever was drawn since."""

    def network(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        mixed = x[torch.randperm(x.shape[0])] * (torch.rand_like(x) + 0.5)
        return F.dropout(torch.tanh(mixed @ w), 0.5).sin()

    f = compile(network)
    for step in range(3):
        torch.manual_seed(step)
        x, w = leaf(4, 3), leaf(3, 5, seed=1)
        out = f(x, w).sum()
        torch.rand(7)
        a, b = grad(out, [x, w], create_graph=True)
        torch.rand(3)
        second = grad((a.square().sum() + b.sin().sum()), [x, w])
        yield out, a, b, second, torch.rand(2)


@scenario(grad=True)
def test_written_inputs(compile: Compile) -> Steps:
    """Gradients of gradients know what the call's inputs held before it wrote them."""

    def network(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        x.mul_(0.5)
        x[:, 0] = 1.0
        return torch.tanh(x @ w).sum()

    f = compile(network)
    for step in range(3):
        x, w = values(4, 3, seed=step), leaf(3, 5, seed=1)
        (g,) = grad(f(x, w), w, create_graph=True)
        yield x, g, grad(g.square().sum(), w)


def test_what_has_no_second_derivative_is_refused() -> None:
    f = pyjit.compile(lambda v, g: torch._weight_norm(v, g, 0).sin())
    f(leaf(4, 3), leaf(4, 1))
    for _ in range(2):
        v, g = leaf(4, 3), leaf(4, 1)
        out = f(v, g).sum()
        with pytest.raises(RuntimeError, match="create_graph=True"):
            grad(out, v, create_graph=True)
