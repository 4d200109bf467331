# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps with gradients of gradients, and with leaves that the call makes."""

from __future__ import annotations

from typing import Any

import pyjit
import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, scenario, values
from torch import nn
from torch.autograd import grad


def network(inputs: int = 4, outputs: int = 1) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, 8), nn.LeakyReLU(0.2), nn.Linear(8, outputs)
    )  # fmt: skip


def seen(model: nn.Module, *more: Any) -> list[Any]:
    gradients = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    return [*model.parameters(), *gradients, *more]


@scenario(grad=True, captured="late", versions=False)
def test_gradient_penalty(compile: Compile) -> Steps:
    critic = network()
    optimizer = torch.optim.Adam(critic.parameters(), 0.01)

    @compile
    def step(real: Any, fake: Any, eps: Any) -> Any:
        mixed = (eps * real + (1 - eps) * fake).requires_grad_(True)
        (g,) = grad(critic(mixed).sum(), mixed, create_graph=True)
        penalty = ((g.norm(2, dim=1) - 1) ** 2).mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    for i in range(5):
        loss = step(values(6, 4, seed=i), values(6, 4, seed=i + 9), values(6, 1, seed=i) % 1)  # fmt: skip
        yield seen(critic, loss)


@scenario(grad=True, captured="late", versions=False)
def test_differential_equation(compile: Compile) -> Steps:
    """Derivatives with gradients given, as physics-informed networks take them."""
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), 0.05)

    @compile
    def step(points: Any) -> Any:
        x = points.clone()
        x.requires_grad = True
        u = net(x)
        du = grad(u, x, grad_outputs=torch.ones_like(u), create_graph=True, retain_graph=True)[0]  # fmt: skip
        ddu = grad(du[:, 0], x, torch.ones_like(du[:, 0]), create_graph=True)[0]
        loss = (ddu[:, 1] + u[:, 0] * du[:, 0]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    for i in range(5):
        yield seen(net, step(values(6, 2, seed=i)))


@scenario(grad=True, captured="late", versions=False)
def test_inner_step(compile: Compile) -> Steps:
    """Meta-learning: the update of the inner step is differentiated."""
    weight = nn.Parameter(values(4, 3))
    optimizer = torch.optim.SGD([weight], 0.1)

    @compile
    def step(x: Any, y: Any) -> Any:
        (g,) = grad(F.mse_loss(torch.tanh(x @ weight), y), weight, create_graph=True)
        loss = F.mse_loss(torch.tanh((x + 1) @ (weight - 0.1 * g)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    for i in range(5):
        loss = step(values(6, 4, seed=i), values(6, 3, seed=i + 9))
        yield [loss, weight, weight.grad]


@scenario(grad=True)
def test_gradient_without_history(compile: Compile) -> Steps:
    """No gradient comes to a weight through what an earlier backward made."""

    @compile
    def step(w: Any, x: Any) -> Any:
        (w * x).square().sum().backward()
        (h,) = grad((w.grad * w).sum(), w)
        return h

    for i in range(3):
        w = values(3, 4).requires_grad_()
        yield [step(w, values(3, 4, seed=i)), w.grad]


@scenario(grad=True)
def test_masks_have_no_derivative(compile: Compile) -> Steps:
    """Zeros, and not none, where only the mask of a relu depends on the weight."""

    @compile
    def step(w: Any, x: Any) -> Any:
        (g,) = grad(torch.relu(w * x).sum(), w, create_graph=True)
        return grad(g.sum(), w)

    for i in range(3):
        yield step(values(3, 4).requires_grad_(), values(3, 4, seed=i))


@scenario(grad=True)
def test_history_that_leaves(compile: Compile) -> Steps:
    f = compile(lambda w, x: grad(((x * w) ** 3).mean(), w, create_graph=True)[0])
    for i in range(3):
        w = values(3, 4).requires_grad_()
        g = f(w, values(3, 4, seed=i))
        g.square().sum().backward()
        yield [g.detach(), w.grad]


@scenario(grad=True)
def test_used_before_it_was_a_leaf(compile: Compile) -> Steps:
    @compile
    def step(w: Any, x: Any) -> Any:
        leaf = x * 2
        before = leaf * 3
        leaf.requires_grad_()
        (g,) = grad((torch.tanh(leaf @ w.t()) + before.sum() * leaf.sum()).sum(), leaf)
        return g

    for i in range(3):
        yield [step(values(3, 4).requires_grad_(), values(3, 4, seed=i))]


@scenario(grad=True, captured="late", versions=False)
def test_adversarial_example(compile: Compile) -> Steps:
    model = network(outputs=3)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)

    @compile
    def step(x: Any, y: Any) -> Any:
        delta = torch.zeros_like(x, requires_grad=True)
        for _ in range(3):
            (g,) = grad(F.mse_loss(model(x + delta), y), delta)
            delta = (delta + 0.05 * g.sign()).clamp(-0.1, 0.1).detach().requires_grad_()
        adversary = (x + delta).detach().clone().requires_grad_()
        F.mse_loss(model(adversary), y).backward()
        optimizer.zero_grad()
        loss = F.mse_loss(model(x + 0.1 * adversary.grad.sign()), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for i in range(5):
        yield seen(model, step(values(6, 4, seed=i), values(6, 3, seed=i + 9)))


@scenario(grad=True, graph_breaks="leaves with its history", captured="late")
def test_leaf_that_leaves(compile: Compile) -> Steps:
    @compile
    def step(w: Any, x: Any) -> Any:
        leaf = (x * 2).requires_grad_()
        torch.tanh(leaf @ w.t()).sum().backward()
        return leaf

    for i in range(3):
        w = values(3, 4).requires_grad_()
        leaf = step(w, values(3, 4, seed=i))
        yield [leaf, leaf.grad, w.grad]


@scenario(grad=True, graph_breaks=ANY, captured="late")
def test_leaf_across_a_graph_break(compile: Compile) -> Steps:
    @compile
    def step(w: Any, x: Any) -> Any:
        leaf = (x * 2).requires_grad_()
        y = torch.tanh(leaf @ w.t()).sum()
        print(end="")
        (g,) = grad(y, leaf)
        return g

    for i in range(4):
        yield [step(values(3, 4).requires_grad_(), values(3, 4, seed=i))]


@scenario(grad=True, graph_breaks="shares", captured="late")
def test_leaf_that_shares_memory(compile: Compile) -> Steps:
    @compile
    def step(w: Any, x: Any) -> Any:
        leaf = x.detach().requires_grad_()
        torch.tanh(leaf @ w.t()).sum().backward()
        x += leaf.grad
        return leaf.detach() * 2

    for i in range(4):
        x = values(3, 4, seed=i)
        yield [step(values(3, 4).requires_grad_(), x), x]


def test_one_program() -> None:
    """A gradient penalty's step is answered by one program from the second call on."""
    critic = network()

    @pyjit.compile
    def step(x: torch.Tensor) -> torch.Tensor:
        leaf = x.detach().clone().requires_grad_()
        (g,) = grad(critic(leaf).sum(), leaf, create_graph=True)
        critic.zero_grad()
        loss = g.square().mean()
        loss.backward()
        return loss.detach()

    for i in range(5):
        step(values(6, 4, seed=i))
    assert pyjit.stats(step)["graph_breaks"] == 0
    assert pyjit.stats(step)["hits"] >= 3
