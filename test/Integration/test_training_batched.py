# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Backward passes of compiled calls that another transform runs: batches of gradients (vmap) and gradients with
tangents (forward mode over reverse mode)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from Integration.harness import ANY, Compile, Steps, attempt, scenario, values
from Integration.training import gradients, leaf, loss_of, perceptron, state
from torch.autograd import forward_ad, functional
from torch.func import vmap


def curve(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * x.exp() + x.sum()


def in_two_parts(x: torch.Tensor) -> torch.Tensor:
    h = x.sin() * 2
    print(end="")
    h.register_hook(lambda g: None)
    return h.exp() * x


def statistics(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, (3,)).cumsum(0) @ x.t()


FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "elementwise": curve,
    "with a graph break": in_two_parts,
    "norms and matmuls": statistics,
}


def rows_of(out: torch.Tensor) -> torch.Tensor:
    return torch.eye(out.numel()).reshape(-1, *out.shape)


def batched(f: Any, x: torch.Tensor) -> Any:
    out = f(x)
    return torch.autograd.grad(out, x, rows_of(out), is_grads_batched=True)[0]


def batched_again(f: Any, x: torch.Tensor) -> Any:
    out = f(x)
    (first,) = torch.autograd.grad(
        out, x, rows_of(out), is_grads_batched=True, create_graph=True
    )
    (second,) = torch.autograd.grad(first.square().sum(), x)
    return first, second


def mapped(f: Any, x: torch.Tensor) -> Any:
    out = f(x)

    def pull(v: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(out, x, v, retain_graph=True)[0]

    return vmap(pull)(rows_of(out)), vmap(pull, in_dims=-1)(rows_of(out).movedim(0, -1))


def mapped_twice(f: Any, x: torch.Tensor) -> Any:
    out = f(x)

    def pull(v: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(out, x, v * k, retain_graph=True)[0]

    inner = vmap(pull, in_dims=(0, None))
    return vmap(inner, in_dims=(None, 0))(rows_of(out), values(2, seed=3))


def empty_batch(f: Any, x: torch.Tensor) -> Any:
    out = f(x)
    none = torch.zeros(0, *out.shape)
    return torch.autograd.grad(out, x, none, is_grads_batched=True)[0]


def freed(f: Any, x: torch.Tensor) -> Any:
    out = f(x)
    first = torch.autograd.grad(out, x, rows_of(out), is_grads_batched=True)[0]
    return first, attempt(torch.autograd.grad, out, x, out)


def forward_over_reverse(f: Any, x: torch.Tensor) -> Any:
    out = f(x)
    with forward_ad.dual_level():
        given = forward_ad.make_dual(torch.ones_like(out), values(*out.shape, seed=5))
        (slope,) = torch.autograd.grad(out, x, given)
        value, tangent = forward_ad.unpack_dual(slope)
        return value.clone(), tangent.clone()


WAYS: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "batched": batched,
    "batched, second derivatives": batched_again,
    "vmap": mapped,
    "vmap within vmap": mapped_twice,
    "an empty batch": empty_batch,
    "a second backward": freed,
    "forward over reverse": forward_over_reverse,
    "jacobian": lambda f, x: functional.jacobian(f, x, vectorize=True),
    "jacobian, forward": lambda f, x: functional.jacobian(
        f, x, vectorize=True, strategy="forward-mode"
    ),
    "hessian": lambda f, x: functional.hessian(lambda y: f(y).sum(), x, vectorize=True),
    "hessian, forward": lambda f, x: functional.hessian(
        lambda y: f(y).sum(), x, vectorize=True, outer_jacobian_strategy="forward-mode"
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("way", WAYS)
def test_of_a_compiled_call(way: str, name: str) -> None:
    @scenario(grad=True, graph_breaks=ANY, captured=False, versions=False)
    def story(compile: Compile) -> Steps:
        f = compile(FUNCTIONS[name])
        for step in range(5):
            x = leaf(2, 3, seed=step)
            yield [attempt(WAYS[way], f, x), gradients(x)]

    story()


@pytest.mark.parametrize("way", WAYS)
def test_within_a_compiled_call(way: str) -> None:
    @scenario(grad=True, graph_breaks=ANY, captured=False, versions=False)
    def story(compile: Compile) -> Steps:
        f = compile(lambda x: WAYS[way](curve, x))
        for step in range(5):
            x = leaf(2, 3, seed=step)
            yield [attempt(f, x), gradients(x)]

    story()


@scenario(grad=True, versions=False)
def test_gradients_of_each_sample(compile: Compile) -> Steps:
    """Of a model's parameters, from one call."""
    m = perceptron()
    f = compile(m)
    for step in range(5):
        out = f(values(3, 4, seed=step)).square().mean(1)
        each = torch.autograd.grad(
            out, list(m.parameters()), torch.eye(3), is_grads_batched=True
        )
        yield [list(each), state(m)]


@scenario(grad=True, versions=False)
def test_several_results_and_undefined_gradients(compile: Compile) -> Steps:
    f = compile(lambda a, b: (a.sin() * b, b.exp()))
    for step in range(5):
        a, b = leaf(3, seed=step), leaf(3, seed=9)
        one, two = f(a, b)
        first = torch.autograd.grad(
            one, [a, b], torch.eye(3), is_grads_batched=True, retain_graph=True
        )
        second = torch.autograd.grad(
            [one, two],
            [b, a],
            [torch.eye(3), torch.ones(3, 3)],
            is_grads_batched=True,
            retain_graph=True,
        )
        third = torch.autograd.grad(
            two, [a, b], torch.eye(3), is_grads_batched=True, allow_unused=True
        )
        yield [list(first), list(second), list(third)]


@scenario(grad=True, versions=False)
def test_dropout_keeps_its_mask(compile: Compile) -> Steps:
    f = compile(lambda x: torch.nn.functional.dropout(x, 0.5) * x)
    for step in range(5):
        torch.manual_seed(step)
        x = leaf(4, seed=step)
        yield [batched(f, x), torch.rand(2)]
        loss_of(f(x)).backward()
        yield gradients(x)
