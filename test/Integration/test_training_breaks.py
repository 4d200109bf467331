# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graph breaks in the gradient's path: each part of a call is a node of its own, and autograd joins them."""

from __future__ import annotations

import copy
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, attempt, scenario, values
from Integration.training import gradients, leaf, loss_of, perceptron, state
from torch import nn

NONE = "cannot be differentiated: aten::mvlgamma"


def without_derivative(x: torch.Tensor) -> torch.Tensor:
    """Has a derivative in eager alone."""
    return torch.mvlgamma(x.tanh() + 3, 2).exp()


@scenario(grad=True, graph_breaks=NONE, captured="late")
def test_between_two_layers(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(lambda x: m[2](without_derivative(m[0](x))))
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    for step in range(5):
        optimizer.zero_grad()
        out = f(values(3, 4, seed=step))
        loss_of(out).backward()
        optimizer.step()
        yield [out, state(m, optimizer)]


@scenario(grad=True, graph_breaks=ANY, captured="late")
def test_in_each_layer(compile: Compile) -> Steps:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + without_derivative(self.inner(x))

    torch.manual_seed(0)
    # Three such layers make much of a rounding.
    m = nn.Sequential(Layer(), Layer(), Layer()).double()
    f = compile(m)
    for step in range(5):
        m.zero_grad()
        out = f(values(3, 4, seed=step).double())
        loss_of(out).backward()
        yield [out, state(m)]


@scenario(grad=True, graph_breaks=NONE, captured="late")
def test_beside_the_path(compile: Compile) -> Steps:
    """What leaves the part before a graph break is used on both of its sides."""

    def g(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        h = x * w
        kept = h.sin()
        y = torch.mvlgamma(h.tanh() + 3, 2) + kept
        return y * h, kept, h.detach()

    f = compile(g)
    for step in range(4):
        x, w = leaf(4, seed=step), leaf(4, seed=7)
        out = f(x, w)
        loss_of(out[:2]).backward()
        yield [out, gradients(x, w)]


@scenario(grad=True, captured="late")
def test_under_no_grad_it_is_one_graph(compile: Compile) -> Steps:
    """An operator without a derivative matters where gradients flow through it only."""
    f = compile(
        lambda x, y: x * torch.special.i0e(y) + torch.mvlgamma(x.detach().tanh() + 3, 2)
    )
    for step in range(3):
        x = leaf(4, seed=step)
        out = f(x, values(4, seed=9))
        loss_of(out).backward()
        yield [out, gradients(x)]


@scenario(grad=True, graph_breaks=ANY, captured="late")
def test_function_of_autograd(compile: Compile) -> Steps:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return g * 2 + x * 0.01

    m = perceptron()
    f = compile(lambda x: m[2](Double.apply(m[0](x)).relu()))
    for step in range(4):
        m.zero_grad()
        out = f(values(3, 4, seed=step))
        loss_of(out).backward()
        yield [out, state(m)]


@scenario(grad=True, graph_breaks=ANY, captured=False)
def test_hook_on_what_the_call_made(compile: Compile) -> Steps:
    m = perceptron()
    seen: list[Any] = []

    def g(x: torch.Tensor) -> torch.Tensor:
        h = m[0](x)
        h.register_hook(lambda gradient: seen.append(gradient.clone()))
        return m[2](h.relu())

    f = compile(g)
    for step in range(4):
        m.zero_grad()
        out = f(values(3, 4, seed=step))
        loss_of(out).backward()
        yield [out, list(seen), state(m)]


@scenario(grad=True, graph_breaks=ANY, captured="late")
def test_gradient_penalty(compile: Compile) -> Steps:
    m = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    with torch.no_grad():
        for i, p in enumerate(m.parameters()):
            p.copy_(values(*p.shape, seed=i))

    def g(x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(m(x).sum(), x, create_graph=True)
        return (gradient.norm(dim=1) - 1).square().mean()

    f = compile(g)
    for step in range(4):
        m.zero_grad()
        out = f(values(3, 4, seed=step))
        out.backward()
        yield [out, state(m)]


@scenario(grad=True, graph_breaks=ANY, captured="late")
def test_branches_and_loops_on_data(compile: Compile) -> Steps:
    m = perceptron()

    def g(x: torch.Tensor) -> torch.Tensor:
        h = m[0](x).relu()
        if h.mean() > 0.35:
            h = h * 0.5
        steps = 0
        while h.abs().sum() > 2 and steps < 4:
            h = h * 0.7
            steps += 1
        return m[2](h)

    f = compile(g)
    for step in range(8):
        m.zero_grad()
        out = f(values(3, 4, seed=step))
        loss_of(out).backward()
        yield [out, state(m)]


@scenario(grad=True, graph_breaks="a branch on a tensor's data", captured="late")
def test_statistics_in_an_arm(compile: Compile) -> Steps:
    norm = nn.BatchNorm1d(4)

    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if y.sum() > 0:
            y = norm(y)
        return y + 1

    f = compile(g)
    for step in range(8):
        x = leaf(5, 4, seed=step)
        out = f(x)
        loss_of(out).backward()
        yield [out, gradients(x), state(norm)]


@scenario(graph_breaks=ANY, captured="late")
def test_statistics_in_an_arm_without_gradients(compile: Compile) -> Steps:
    norm = nn.BatchNorm1d(4)

    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if y.sum() > 0:
            y = norm(y)
        return y + 1

    f = compile(g)
    for step in range(10):
        yield [f(values(5, 4, seed=step)), list(norm.buffers())]


# What the compiler refuses is learned after the first time.


@scenario(
    grad=True, graph_breaks="cannot be differentiated: aten::embedding", captured="late"
)
def test_sparse_gradient(compile: Compile) -> Steps:
    torch.manual_seed(0)
    table, out = nn.Embedding(9, 4, sparse=True), nn.Linear(4, 2)
    f = compile(lambda ids: out(table(ids).tanh()))
    for step in range(5):
        table.zero_grad()
        out.zero_grad()
        y = f(torch.tensor([1, 2, 2, step]))
        loss_of(y).backward()
        yield [y, table.weight.grad.to_dense(), state(out)]


def test_refusal_does_not_warn() -> None:
    table = nn.Embedding(9, 4, sparse=True)
    f = pyjit.compile(lambda ids: table(ids).tanh().sum())
    for _ in range(4):
        f(torch.tensor([1, 2])).backward()
    stats = pyjit.stats(f)
    assert not stats["eager_reasons"]
    (site,) = stats["graph_break_sites"]
    assert site.count(" at ") == 1, site
    assert stats["hits"] >= 1


# Writes.


@scenario(grad=True, graph_breaks=ANY, captured="late")
def test_input_is_written(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x.exp()

    f = compile(g)
    for step in range(4):
        x = leaf(4, seed=step)
        h = x * 3
        out = f(h)
        loss_of(out).backward()
        yield [out, h, gradients(x), attempt(f, x)]


@scenario(grad=True, graph_breaks=ANY, captured="late")
def test_buffer_gets_a_history(compile: Compile) -> Steps:
    def g(x: torch.Tensor, buffer: torch.Tensor) -> torch.Tensor:
        buffer[0] = x.exp().sum()
        return buffer * 2

    f = compile(g)
    for step in range(4):
        x, buffer = leaf(4, seed=step), torch.zeros(3)
        out = f(x, buffer)
        loss_of(out).backward()
        yield [out, buffer, gradients(x)]


@scenario(grad=True)
def test_parts_are_written(compile: Compile) -> Steps:
    """As the cells of recurrent layers do."""

    def g(x: torch.Tensor) -> torch.Tensor:
        a, b = torch.unsafe_chunk(x * 2, 2, 1)
        a.sigmoid_()
        return a * b.tanh_() + a

    f = compile(g)
    for step in range(3):
        x = leaf(3, 6, seed=step)
        out = f(x)
        loss_of(out).backward()
        yield [out, gradients(x)]


@scenario(grad=True, graph_breaks="as a part that autograd knows", captured=False)
def test_parts_are_written_and_the_whole_is_read(compile: Compile) -> Steps:
    """Eager's gradient of the whole does not know what was written."""

    def g(x: torch.Tensor) -> torch.Tensor:
        whole = x * 2
        a, b = torch.unsafe_chunk(whole, 2, 1)
        a.sigmoid_()
        return a * b + whole[:, :3]

    f = compile(g)
    for step in range(3):
        x = leaf(3, 6, seed=step)
        out = f(x)
        loss_of(out).backward()
        yield [out, gradients(x)]


@scenario(grad=True, graph_breaks=ANY, captured=False)
def test_parts_are_written_and_the_whole_leaves(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        whole = x * 2
        a, b = torch.unsafe_chunk(whole, 2, 1)
        a.sigmoid_()
        return a * b, whole

    f = compile(g)
    for step in range(3):
        x = leaf(3, 6, seed=step)
        out = f(x)
        loss_of(out).backward()
        yield [out, gradients(x)]


@scenario(grad=True, graph_breaks=ANY, captured=False)
def test_written_parts_leave(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b = torch.unsafe_chunk(x * 2, 2, 1)
        a.sigmoid_()
        return a, b

    f = compile(g)
    for step in range(3):
        x = leaf(3, 6, seed=step)
        out = f(x)
        loss_of(out).backward()
        yield [out, gradients(x)]


@scenario(grad=True)
def test_transposed_in_place(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.transpose_(0, 1)
        return y.exp() @ x

    f = compile(g)
    for step in range(3):
        x = leaf(3, 4, seed=step)
        out = f(x)
        loss_of(out).backward()
        yield [out, gradients(x)]


@pytest.mark.parametrize("name", ["exp", "matrix"])
def test_saved_parts_of_what_was_computed(name: str) -> None:
    """What is saved may be a part of memory with gaps."""

    @scenario(grad=True)
    def story(compile: Compile) -> Steps:
        m = nn.Linear(4, 12, bias=False)
        with torch.no_grad():
            m.weight.copy_(values(12, 4))

        def g(x: torch.Tensor) -> torch.Tensor:
            q, k, v = m(x).chunk(3, -1)
            return q.exp() @ v.t() if name == "exp" else (q @ k.t()).softmax(-1) @ v

        f = compile(g)
        for step in range(4):
            m.zero_grad()
            out = f(values(5, 4, seed=step))
            loss_of(out).backward()
            yield [out, state(m)]

    story()


@scenario(grad=True, graph_breaks=NONE, captured="late")
def test_random_numbers_on_both_sides(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = F.dropout(x * 2, 0.3)
        y = without_derivative(y)
        return F.dropout(y, 0.3) + torch.rand_like(y)

    f = compile(g)
    for step in range(4):
        torch.manual_seed(step)
        x = leaf(4, seed=step)
        out = f(x)
        loss_of(out).backward()
        yield [out, gradients(x), torch.rand(2)]


def test_copies_of_a_model() -> None:
    """A copy of a trained module is compiled on its own."""
    m = perceptron()
    f = pyjit.compile(m)
    for _ in range(3):
        loss_of(f(values(3, 4))).backward()
    other = copy.deepcopy(m)
    other.zero_grad()
    g = pyjit.compile(other)
    for _ in range(3):
        loss_of(g(values(3, 4))).backward()
    for a, b in zip(m.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)


@scenario(grad=True, graph_breaks=ANY, captured=False)
def test_script_that_differentiates_itself(compile: Compile) -> Steps:
    """TorchScript gives what it returns a history that no operator has made."""
    scripted = torch.jit.script(scripted_body)
    for seed in range(4):
        scripted(leaf(4, seed=seed)).sum().backward()
    f = compile(lambda x: scripted(x) + x)
    for seed in range(4):
        x = leaf(4, seed=seed)
        out = f(x)
        out.sum().backward()
        yield [out, gradients(x)]


def scripted_body(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() * x + 1).tanh() * 2
