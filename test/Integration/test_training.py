# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A compiled model in a training loop of Python's: one autograd node for each compiled part of a call."""

from __future__ import annotations

from typing import Any

import pyjit
import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, attempt, scenario, values
from Integration.training import gradients, leaf, perceptron

# Loops.


@scenario(grad=True)
def test_perceptron(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(m)
    for seed in range(3):
        m.zero_grad()
        out = f(values(3, 4, seed=seed))
        out.square().mean().backward()
        yield [out, gradients(*m.parameters())]


@scenario(grad=True)
def test_sgd(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(m)
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    for seed in range(5):
        optimizer.zero_grad()
        loss = F.mse_loss(f(values(6, 4, seed=seed)), values(6, 2, seed=9))
        loss.backward()
        optimizer.step()
        yield [loss, list(m.parameters())]


@scenario(grad=True)
def test_loss_inside(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(lambda x, y: F.cross_entropy(m(x), y))
    optimizer = torch.optim.Adam(m.parameters(), lr=0.1)
    target = torch.tensor([0, 1, 1, 0, 1, 0])
    for seed in range(4):
        optimizer.zero_grad(set_to_none=False)
        loss = f(values(6, 4, seed=seed), target)
        loss.backward()
        optimizer.step()
        yield [loss, list(m.parameters())]


@scenario(grad=True, captured="late")
def test_with_and_without_gradients(compile: Compile) -> Steps:
    """The two are specializations of their own, which do not thrash."""
    m = perceptron()
    f = compile(m)
    for seed in range(4):
        x = values(3, 4, seed=seed)
        with torch.no_grad():
            yield f(x)
        m.zero_grad()
        out = f(x)
        out.sum().backward()
        yield [out, gradients(*m.parameters())]


def test_one_graph_and_hits() -> None:
    m = perceptron()
    f = pyjit.compile(m, options={"strict": True})
    for _ in range(4):
        f(values(3, 4)).sum().backward()
    stats = pyjit.stats(f)
    assert stats["hits"] == 3
    assert stats["graphs"] == 1
    assert stats["graph_breaks"] == 0
    assert stats["eager_calls"] == 0
    assert f(values(3, 4)).grad_fn.name() == "PyjitBackward"


# Graph breaks.


def test_graph_break_leaves_two_nodes() -> None:
    m = perceptron()

    def g(x: torch.Tensor) -> torch.Tensor:
        h = m[0](x)
        print(end="")
        h.register_hook(lambda gradient: None)
        return m[2](h.relu())

    f = pyjit.compile(g, options={"strict": True})
    for _ in range(3):
        m.zero_grad()
        out = f(values(3, 4))
        out.sum().backward()
    have = gradients(*m.parameters())
    names = set()
    work = [out.grad_fn]
    while work:
        node = work.pop()
        names.add((node.name(), id(node)))
        work += [before for before, _ in node.next_functions if before]
    assert sum(name == "PyjitBackward" for name, _ in names) == 2
    m.zero_grad()
    g(values(3, 4)).sum().backward()
    for one, other in zip(have, gradients(*m.parameters()), strict=True):
        torch.testing.assert_close(one, other)


@scenario(grad=True, graph_breaks=ANY, captured=False)
def test_backward_inside(compile: Compile) -> Steps:
    m = perceptron()

    def g(x: torch.Tensor) -> torch.Tensor:
        loss = m(x).square().mean()
        loss.backward()
        return loss.detach() * 2

    f = compile(g)
    for _ in range(3):
        m.zero_grad()
        yield [f(values(3, 4)), gradients(*m.parameters())]


@scenario(grad=True, graph_breaks=ANY)
def test_asks_for_the_node(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        return y * (2 if y.grad_fn is not None else 3)

    f = compile(g)
    for _ in range(3):
        x = leaf(4)
        out = f(x)
        out.sum().backward()
        yield [out, gradients(x)]


@scenario(grad=True, eager="a node of autograd's graph")
def test_asks_which_node(compile: Compile) -> Steps:
    """All that is compiled has one node; eager's are of a class for each operator."""

    def g(x: torch.Tensor) -> Any:
        y = x.exp()
        print(end="")
        behind = (y * 2).grad_fn.next_functions
        return y, type(y.grad_fn).__name__, [type(f).__name__ for f, _ in behind]

    f = compile(g)
    for _ in range(6):
        yield f(leaf(4))


@scenario(
    grad=True,
    graph_breaks=("autograd does not see that", "the call has turned grad mode on"),
    captured="late",
)
def test_unseen_write_behind(compile: Compile) -> Steps:
    def g(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = x * w
        with torch.no_grad():
            w.mul_(2)
        return y + w

    f = compile(g)
    w = leaf(4, seed=1)
    for _ in range(3):
        x = leaf(4)
        out = f(x, w)
        yield [out, w, attempt(out.sum().backward)]


@scenario(grad=True, graph_breaks="autograd does not see", captured="late")
def test_unseen_write_ahead(compile: Compile) -> Steps:
    def g(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            w.mul_(2)
        return (x * w).exp()

    f = compile(g)
    w = leaf(4, seed=1)
    for _ in range(3):
        w.grad = None
        x = leaf(4)
        out = f(x, w)
        out.sum().backward()
        yield [out, w, gradients(x, w)]


@scenario(grad=True, graph_breaks="a branch on a tensor's data")
def test_branch_on_data(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        if y.sum() > 4:
            return y * 2
        return y * 3

    f = compile(g)
    for seed in range(6):
        x = leaf(4, seed=seed)
        out = f(x)
        out.sum().backward()
        yield [out, gradients(x)]


@scenario(grad=True, graph_breaks="a branch on a tensor's data", captured=False)
def test_loop_on_data(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        while x.abs().sum() > 0.1:
            x = x * 0.5
        return x

    f = compile(g)
    for seed in range(5):
        x = leaf(4, seed=seed)
        out = f(x)
        out.sum().backward()
        yield [out, gradients(x)]


@scenario(grad=True, graph_breaks="cannot be differentiated", captured=False)
def test_no_derivative(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        return torch.mvlgamma((x * 2).exp() + 1, 2) * 3

    f = compile(g)
    for _ in range(3):
        x = leaf(4)
        out = f(x)
        out.sum().backward()
        yield [out, gradients(x)]


@scenario(grad=True)
def test_complex(compile: Compile) -> Steps:
    f = compile(lambda x: torch.view_as_real(torch.fft.fft(x.exp())).sum())
    for _ in range(2):
        x = leaf(4)
        out = f(x)
        out.backward()
        yield [out, gradients(x)]


@scenario(
    grad=True,
    graph_breaks="a leaf that the call made leaves with its history",
    captured="late",
)
def test_leaf_made_inside(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        w = torch.ones(4, requires_grad=True)
        return x * 2, w * x, w

    f = compile(g)
    for _ in range(3):
        x = leaf(4)
        out = f(x)
        out[1].sum().backward()
        yield [out, gradients(x, out[2])]


@scenario(graph_breaks="the call has turned grad mode on", captured="late")
def test_grad_mode_turned_on_inside(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            y = x * 2
            z = y.exp()
        return z

    f = compile(g)
    for _ in range(3):
        x = leaf(4)
        out = f(x)
        out.backward(torch.ones(4))
        yield [out, gradients(x)]


@scenario(grad=True)
def test_optimizer_step_as_before(compile: Compile) -> Steps:
    """What runs under no_grad alone writes parameters, whatever mode it is called in."""
    w = leaf(4)

    @torch.no_grad()
    def step(gradient: torch.Tensor) -> torch.Tensor:
        w.add_(gradient, alpha=-0.1)
        return w.sum()

    f = compile(step)
    for seed in range(3):
        yield [f(values(4, seed=seed)), w]
