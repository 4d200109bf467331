# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results of a call that were computed from other results of it: who looks at the gradient of one of these sees
what eager shows, and who hangs hooks on one result is told of no other."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, attempt, scenario, values
from Integration.training import gradients, leaf, perceptron
from torch import nn

Results = tuple[torch.Tensor, ...]


def features_and_scores(m: nn.Sequential, x: torch.Tensor) -> Results:
    h = m[0](x).tanh()
    return h, m[2](h)


def chain(m: nn.Sequential, x: torch.Tensor) -> Results:
    a = m[0](x)
    b = a.sin()
    c = m[2](b.exp()) + b.sum()
    return c, a, b


def around(m: nn.Sequential, x: torch.Tensor) -> Results:
    """Gradients of the second come by way of the first, and beside it, from something that is saved."""
    k = m[0](x).tanh()
    h = k.sin()
    return h, m[2](h * k.cos())


def two_of_one(m: nn.Sequential, x: torch.Tensor) -> Results:
    h = m[0](x)
    return h, m[2](h.tanh()).sin(), h.exp()


def apart(m: nn.Sequential, x: torch.Tensor) -> Results:
    """Neither was computed from the other, but they were from something that nobody sees."""
    k = m[0](x).tanh()
    return k.sin(), m[2](k)


def nothing_saved(m: nn.Sequential, x: torch.Tensor) -> Results:
    h = x + m[0].bias[:4]
    return h, h + 1


def equal_ones(m: nn.Sequential, x: torch.Tensor) -> Results:
    """Two tensors of one value; the third was computed from one of them."""
    h = m[0](x)
    return h.exp(), h.exp(), h.exp() * 2


def written(m: nn.Sequential, x: torch.Tensor) -> Results:
    h = m[0](x)
    y = h * h.detach()
    h = h.sin()
    h += 1
    return h, y, m[2](h)


def gradient(of: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    """Strides are not compared."""
    return torch.autograd.grad(of.sum(), by)[0].contiguous()


def view(m: nn.Sequential, x: torch.Tensor) -> Results:
    h = m[0](x).tanh().reshape(1, -1, 8)
    return h, m[2](h)


def part(m: nn.Sequential, x: torch.Tensor) -> Results:
    h = m[0](x).tanh()[1:]
    return h, m[2](h), h.sin()


def view_and_base(m: nn.Sequential, x: torch.Tensor) -> Results:
    h = m[0](x).tanh()
    v = h.t()
    return v, h, m[2](v.t()) + h.sum()


def view_of_view(m: nn.Sequential, x: torch.Tensor) -> Results:
    h = m[0](x).tanh()
    v = h[1:]
    return m[2](v), v[:, 2:], v


def view_of_input(m: nn.Sequential, x: torch.Tensor) -> Results:
    v = x[1:]
    return v, m[0](v)


def views_alone(m: nn.Sequential, x: torch.Tensor) -> Results:
    v = x[1:]
    return v[:, 1:], v


CALLS: dict[str, Callable[[nn.Sequential, torch.Tensor], Results]] = {
    f.__name__: f
    for f in (
        features_and_scores, chain, around, two_of_one, apart, nothing_saved, equal_ones, written,
        view, part, view_and_base, view_of_view, view_of_input, views_alone,
    )
}  # fmt: skip
calls = pytest.mark.parametrize("name", CALLS)


def story_of(name: str, body: Callable[..., Steps], **expected: Any) -> None:
    @scenario(grad=True, versions=False, captured="late", **expected)
    def story(compile: Compile) -> Steps:
        m = perceptron()
        f = compile(lambda x: CALLS[name](m, x))
        for seed in range(3):
            yield from body(m, lambda seed=seed: f(leaf(3, 4, seed=seed)))

    story()


@calls
def test_gradients_by_each_other(name: str) -> None:
    def body(m: nn.Sequential, call: Callable[[], Results]) -> Steps:
        count = len(call())
        for i in range(count):
            for k in range(count):
                results = call()
                yield attempt(gradient, results[i], results[k])
                # What is left may be gone through, as far as nothing was freed.
                yield attempt(gradient, results[i], results[k])
                for r in (*results, results[0]):
                    m.zero_grad()
                    # Where it raises, eager has gone some of the way.
                    raised = attempt(r.sum().backward)
                    yield raised, None if raised else gradients(*m.parameters())

    story_of(name, body)


@calls
def test_retained_graphs(name: str) -> None:
    def body(m: nn.Sequential, call: Callable[[], Results]) -> Steps:
        results = call()
        losses = [r.sin().sum() for r in results]
        for loss in losses:
            for r in results:
                yield torch.autograd.grad(loss, r, retain_graph=True, allow_unused=True)
        sum(losses).backward()
        yield gradients(*m.parameters())
        yield [attempt(loss.backward) for loss in losses]

    story_of(name, body)


@calls
def test_hooks_of_results(name: str) -> None:
    """They see the whole gradient, change it for all that is in front, and hear of no other result."""

    def body(m: nn.Sequential, call: Callable[[], Results]) -> Steps:
        count = len(call())
        for kind in range(3):
            for k in range(count):
                for i in range(count):
                    m.zero_grad()
                    results = call()
                    seen: list[Any] = []
                    if kind == 0:
                        results[k].register_hook(
                            lambda g, seen=seen: seen.append(g.clone()) or g * 2
                        )
                    elif kind == 1:
                        results[k].retain_grad()
                    else:
                        results[k].grad_fn.register_prehook(
                            lambda gs, seen=seen: seen.append([g.clone() for g in gs])
                        )
                    results[i].sin().sum().backward()
                    yield [seen, results[k].grad if kind == 1 else None]
                    yield gradients(*m.parameters())

    story_of(name, body)


@calls
def test_several_losses(name: str) -> None:
    def body(m: nn.Sequential, call: Callable[[], Results]) -> Steps:
        for watched in (None, 0, 1):
            m.zero_grad()
            results = call()
            if watched is not None:
                results[watched].retain_grad()
            sum(r.sin().sum() for r in results).backward()
            yield gradients(*m.parameters())
            yield None if watched is None else results[watched].grad

    story_of(name, body)


@scenario(grad=True, versions=False, captured="late", graph_breaks=ANY)
def test_in_front_of_a_graph_break(compile: Compile) -> Steps:
    m = perceptron()

    def g(x: torch.Tensor) -> torch.Tensor:
        h = m[0](x)
        y = h.sin().sum()
        print(end="")
        return torch.autograd.grad(y, h)[0]

    f = compile(g)
    for seed in range(4):
        yield f(leaf(3, 4, seed=seed))


@scenario(grad=True, versions=False, captured="late")
def test_inputs_of_a_backward(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(lambda x: features_and_scores(m, x))
    for seed in range(3):
        h, y = f(leaf(3, 4, seed=seed))
        y.sum().backward(inputs=[h, m[2].weight])
        yield [h.grad, gradients(*m.parameters())]
        m.zero_grad()


@scenario(grad=True, versions=False, captured="late")
def test_an_input_of_another_result(compile: Compile) -> Steps:
    """The engine comes to what results share on its way to any input, and frees what it came for."""

    def scaled(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = F.gelu(a)
        return y, y * b.exp()

    f = compile(scaled)
    for seed in range(4):
        a, b = leaf(3, 4, seed=seed), leaf(3, 4, seed=seed + 9)
        y, z = f(a, b)
        yield torch.autograd.grad(y.sum(), [b], allow_unused=True)
        yield torch.autograd.grad(y.sum() + z.sum(), [a, b])


@scenario(grad=True, versions=False, captured="late")
def test_batches_of_gradients(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(lambda x: features_and_scores(m, x))
    for seed in range(3):
        h, y = f(leaf(3, 4, seed=seed))
        yield torch.autograd.grad(
            y, h, values(5, *y.shape), is_grads_batched=True, retain_graph=True
        )
        yield torch.autograd.grad(y, h, values(*y.shape))


def test_nodes_are_freed() -> None:
    """Results that are saved for each other's gradients do not keep each other."""
    f = pyjit.compile(lambda x: (x.exp(), (x.exp() * 2).tanh(), (x * x).sigmoid()))
    for _ in range(3):
        x = leaf(4)
        results = f(x)
        gone = [weakref.ref(r) for r in results] + [weakref.ref(x)]
        results[0].sum().backward()
        del results, x
        assert not any(r() for r in gone)


def test_gradients_of_gradients_by_a_result() -> None:
    """An error that says so: the gradient has no history."""
    m = perceptron()
    f = pyjit.compile(lambda x: features_and_scores(m, x))
    for _ in range(2):
        h, y = f(leaf(3, 4))
    with pytest.raises(RuntimeError, match="call the function that was compiled"):
        torch.autograd.grad(y.sum(), h, create_graph=True)


@scenario(grad=True, versions=False, captured="late")
def test_the_loss_of_a_gradient(compile: Compile) -> Steps:
    """A step by hand: its loss, whose graph `autograd.grad` has freed, is returned. The bias, of which no gradient
    was asked for, lies behind what was freed."""
    weight, bias = leaf(4, 3), leaf(3, seed=1)

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(x @ weight + bias, y)
        (gradient,) = torch.autograd.grad(loss, weight)
        with torch.no_grad():
            weight.sub_(gradient, alpha=0.1)
        return loss

    for seed in range(6):
        loss = step(values(5, 4, seed=seed), torch.arange(5) % 3)
        yield loss, weight
        yield attempt(loss.backward), bias.grad


@scenario(grad=True, versions=False, captured=False, graph_breaks=ANY)
def test_the_sum_of_a_gradient(compile: Compile) -> Steps:
    """Nothing was saved: another backward goes through."""
    weight, bias = leaf(3), leaf(3, seed=1)

    @compile
    def step(x: torch.Tensor) -> torch.Tensor:
        loss = (x + weight + bias).sum()
        (gradient,) = torch.autograd.grad(loss, weight)
        with torch.no_grad():
            weight.sub_(gradient)
        return loss

    for seed in range(4):
        loss = step(values(3, seed=seed))
        yield loss, weight
        yield attempt(loss.backward), bias.grad
