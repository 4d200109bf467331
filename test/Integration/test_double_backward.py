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


def linear_in_its_input(compile: Compile, *, frozen: bool) -> Steps:
    """The gradient of a convolution's input reads that input, and does not vary with it."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Dropout(0.2), nn.Dropout2d(0.2))
    net.requires_grad_(not frozen)
    f = compile(net)
    for seed in range(4):
        x = leaf(2, 2, 5, 5, seed=seed)
        (g,) = grad(f(x).sum(), x, create_graph=True)
        by_it = str(attempt(lambda g=g, x=x: grad(g.sum(), x, retain_graph=True)))
        unused = grad(g.sum(), x, retain_graph=True, allow_unused=True)
        by_weight = [] if frozen else grad(g.square().sum(), net[0].weight)
        yield [g.detach(), g.requires_grad, by_it, unused, [w.sum() for w in by_weight]]


@scenario(grad=True, versions=False)
def test_linear_in_its_input(compile: Compile) -> Steps:
    return linear_in_its_input(compile, frozen=False)


@scenario(grad=True, versions=False)
def test_frozen_and_linear_in_its_input(compile: Compile) -> Steps:
    return linear_in_its_input(compile, frozen=True)


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
    """As eager refuses it when the second derivative is asked for."""
    f = pyjit.compile(lambda i, w: F.embedding_bag(i, w).sin())
    i = torch.tensor([[0, 1], [2, 1]])
    f(i, leaf(4, 3))
    for _ in range(2):
        w = leaf(4, 3)
        out = f(i, w).sum()
        with pytest.raises(RuntimeError, match="create_graph=True"):
            grad(out, w, create_graph=True)


VANISHING: dict[str, Callable[..., torch.Tensor]] = {
    "relu": lambda x, w, b: F.linear(x, w, b).relu(),
    "leaky relu": lambda x, w, b: F.leaky_relu(F.linear(x, w, b)),
    "hardtanh": lambda x, w, b: F.hardtanh(F.linear(x, w, b)),
    "relu in front": lambda x, w, b: F.linear(x.relu(), w, b),
    "two layers": lambda x, w, b: F.linear(F.linear(x, w, b).relu(), w[:, :3]),
}


@pytest.mark.parametrize("second", "xwb")
@pytest.mark.parametrize("first", "xwb")
@pytest.mark.parametrize("name", VANISHING)
def test_vanishing(name: str, first: str, second: str) -> None:
    """Of a gradient that depends on a tensor by its mask alone, eager's gradient is zeros, and not none."""

    def story(compile: Compile) -> list[object]:
        f, seen = compile(VANISHING[name]), []
        for _ in range(3):
            given = {"x": leaf(4, 5), "w": leaf(3, 5, seed=1), "b": leaf(3, seed=2)}
            (g,) = grad(f(*given.values()).sum(), given[first], create_graph=True)
            made = attempt(lambda g=g, t=given[second]: grad(g.sum(), t)[0])
            seen.append(made if isinstance(made, torch.Tensor) else made.type)
        return seen

    for want, have in zip(story(lambda f: f), story(pyjit.compile), strict=True):
        if isinstance(want, torch.Tensor):
            torch.testing.assert_close(have, want)
        else:
            assert have is want


CONSTANTS: dict[str, Callable[[], torch.Tensor]] = {
    "hann_window": lambda: torch.hann_window(6),
    "hamming_window": lambda: torch.hamming_window(6),
    "bartlett_window": lambda: torch.bartlett_window(6),
    "blackman_window": lambda: torch.blackman_window(6),
    "kaiser_window": lambda: torch.kaiser_window(6),
    "logspace": lambda: torch.logspace(0, 1, 6),
    "fftfreq": lambda: torch.fft.fftfreq(6),
    "rfftfreq": lambda: torch.fft.rfftfreq(10),
    "histc": lambda: torch.histc(torch.arange(6.0), 6),
    "tril_indices": lambda: torch.tril_indices(3, 3)[0].float(),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_beside_constants(name: str) -> None:
    """Operators that make the same tensor each time may be called once more."""

    @scenario(grad=True, versions=False)
    def story(compile: Compile) -> Steps:
        f = compile(lambda x: (x.sin() * CONSTANTS[name]()).sum())
        for _ in range(3):
            x = leaf(6)
            (g,) = grad(f(x), x, create_graph=True)
            yield grad(g.sum(), x)[0]

    story()
