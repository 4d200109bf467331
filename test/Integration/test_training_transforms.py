# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torch.func in and around compiled functions: transforms of losses, ensembles, gradients of each sample."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, attempt, scenario, values
from Integration.training import gradients, leaf, loss_of, perceptron, state
from torch import nn
from torch.autograd import forward_ad
from torch.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)


def wave(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() * x).sum()


def curve(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * x.exp()


# What a transform gives for `f`, a function of one tensor, at `x`.
TRANSFORMS: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "grad": lambda f, x: grad(lambda y: f(y).sum())(x),
    "grad and value": lambda f, x: grad_and_value(lambda y: f(y).sum())(x),
    "grad of grad": lambda f, x: grad(lambda y: grad(lambda z: f(z).sum())(y).sum())(x),
    "vmap": lambda f, x: vmap(f)(x),
    "vmap over columns": lambda f, x: vmap(f, in_dims=1, out_dims=1)(x),
    "vmap of grad": lambda f, x: vmap(grad(lambda y: f(y).sum()))(x),
    "vmap within vmap": lambda f, x: vmap(vmap(f))(x),
    "vjp": lambda f, x: vjp(f, x)[1](torch.ones_like(x))[0],
    "jvp": lambda f, x: jvp(f, (x,), (torch.ones_like(x),)),
    "linearize": lambda f, x: linearize(f, x)[1](torch.ones_like(x)),
    "jacrev": lambda f, x: jacrev(f)(x),
    "jacfwd": lambda f, x: jacfwd(f)(x),
    "hessian": lambda f, x: hessian(lambda y: f(y).sum())(x),
    "functionalize": lambda f, x: functionalize(f)(x),
}


def told(make: Callable[[Compile], Any]) -> None:
    """`make`: what is called, of `compile`. With plain tensors, then with some that require grad."""

    @scenario(grad=True, graph_breaks=ANY, captured=False)
    def story(compile: Compile) -> Steps:
        call = make(compile)
        for step in range(5):
            yield call(values(2, 3, seed=step))
        for step in range(5):
            x = leaf(2, 3, seed=step)
            out = call(x)
            loss_of(out).backward()
            yield [out, gradients(x), torch.get_rng_state()]

    story()


@pytest.mark.parametrize("name", TRANSFORMS)
def test_within_a_compiled_function(name: str) -> None:
    def make(compile: Compile) -> Any:
        return compile(lambda x: TRANSFORMS[name](curve, x * 2))

    told(make)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_of_a_compiled_function(name: str) -> None:
    def make(compile: Compile) -> Any:
        f = compile(curve)
        return lambda x: TRANSFORMS[name](f, x * 2)

    told(make)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_of_a_compiled_function_that_served(name: str) -> None:
    """A specialization for plain tensors must not answer a transform's."""

    def make(compile: Compile) -> Any:
        f = compile(curve)

        def call(x: torch.Tensor) -> Any:
            before = f(x)
            out = TRANSFORMS[name](f, x)
            return before, out, f(x)

        return call

    told(make)


@scenario(grad=True, graph_breaks=ANY, captured=False)
def test_steps_by_functional_gradients(compile: Compile) -> Steps:
    m = perceptron()

    def loss(weights: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(functional_call(m, weights, (x,)), y)

    def update(weights: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        slopes, value = grad_and_value(loss)(weights, x, y)
        return {k: w - 0.1 * slopes[k] for k, w in weights.items()}, value

    f = compile(update)
    weights = {name: p.detach() for name, p in m.named_parameters()}
    for step in range(5):
        weights, value = f(weights, values(3, 4, seed=step), values(3, 2, seed=9))
        yield [weights, value, state(m)]


@scenario(grad=True, graph_breaks=ANY, captured=False)
def test_functional_gradients_of_a_compiled_loss(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(lambda w, x: functional_call(m, w, (x,)).square().mean())
    weights = {name: p.detach() for name, p in m.named_parameters()}
    for step in range(5):
        slopes = grad(f)(weights, values(3, 4, seed=step))
        weights = {k: w - 0.1 * slopes[k] for k, w in weights.items()}
        yield [weights, slopes, f(weights, values(3, 4)), state(m)]


@pytest.mark.parametrize("inside", [True, False])
def test_gradients_of_each_sample(inside: bool) -> None:
    @scenario(grad=True, graph_breaks=ANY, captured=False)
    def story(compile: Compile) -> Steps:
        m = perceptron()
        model = m if inside else compile(m)

        def loss(weights: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            out = functional_call(model, weights, (x.unsqueeze(0),))
            return F.mse_loss(out, y.unsqueeze(0))

        each = vmap(grad(loss), in_dims=(None, 0, 0))
        f = compile(each) if inside else each
        optimizer = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
        for step in range(5):
            weights = {name: p.detach() for name, p in m.named_parameters()}
            slopes = f(weights, values(3, 4, seed=step), values(3, 2, seed=9))
            for name, p in m.named_parameters():
                norms = slopes[name].flatten(1).norm(dim=1)
                scale = (1 / norms).clamp(max=1)
                p.grad = torch.einsum("b,b...->...", scale, slopes[name])
            optimizer.step()
            yield [slopes, state(m, optimizer)]

    story()


@pytest.mark.parametrize("inside", [True, False])
def test_ensemble(inside: bool) -> None:
    @scenario(grad=True, graph_breaks=ANY, captured=False)
    def story(compile: Compile) -> Steps:
        torch.manual_seed(0)
        models = [
            nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)) for _ in "abc"
        ]
        weights, buffers = stack_module_state(models)
        base = copy.deepcopy(models[0]).to("meta")

        def one(w: Any, b: Any, x: torch.Tensor) -> torch.Tensor:
            return functional_call(base, (w, b), (x,))

        many = vmap(one, in_dims=(0, 0, None))
        f = compile(many) if inside else vmap(compile(one), in_dims=(0, 0, None))
        optimizer = torch.optim.Adam(weights.values(), lr=0.01, eps=1e-3)
        for step in range(5):
            optimizer.zero_grad()
            out = f(weights, buffers, values(3, 4, seed=step))
            loss_of(out).backward()
            optimizer.step()
            yield [out, weights, gradients(*weights.values())]

    story()


@scenario(grad=True, graph_breaks=ANY, captured=False)
def test_draws_under_vmap(compile: Compile) -> Steps:
    f = compile(lambda x: vmap(lambda r: F.dropout(r, 0.5), randomness="different")(x))
    g = compile(lambda x: vmap(lambda r: r + torch.randn(3), randomness="same")(x))
    for step in range(5):
        torch.manual_seed(step)
        x = leaf(2, 3, seed=step)
        out = f(x), g(x)
        loss_of(out).backward()
        yield [out, gradients(x), torch.get_rng_state()]


@scenario(grad=True, graph_breaks=ANY, captured=False)
def test_branches_under_transforms(compile: Compile) -> Steps:
    """A branch on data is an error under vmap, and none under grad."""

    def branch(x: torch.Tensor) -> torch.Tensor:
        return x.sin().sum() if x.sum() > 0 else x.cos().sum()

    f = compile(branch)
    g = compile(grad(branch))
    h = compile(vmap(branch))
    for step in range(5):
        x = values(2, 3, seed=step)
        yield [grad(f)(x), g(x), type(attempt(h, x)).__name__]
        yield [f(x), type(attempt(vmap(f), x)).__name__, f(x)]


@scenario(grad=True, graph_breaks=ANY, captured=False)
def test_inner_steps_of_a_learner(compile: Compile) -> Steps:
    """The gradient of a loss behind an inner step (MAML)."""
    m = perceptron()

    def loss(weights: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(functional_call(m, weights, (x,)), y)

    def task(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        weights = dict(m.named_parameters())
        slopes = grad(loss)(weights, x, y)
        fast = {k: w - 0.1 * slopes[k] for k, w in weights.items()}
        return loss(fast, x.flip(0), y.flip(0))

    f = compile(task)
    g = compile(loss)
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    for step in range(5):
        optimizer.zero_grad()
        x, y = values(3, 4, seed=step), values(3, 2, seed=9)
        out = f(x, y)
        out.backward()
        optimizer.step()
        yield [out, g(dict(m.named_parameters()), x, y), state(m, optimizer)]


@scenario(grad=True, graph_breaks="forward-mode differentiation is running")
def test_forward_mode(compile: Compile) -> Steps:
    """What was compiled for plain tensors does not answer for dual ones."""
    f = compile(curve)
    for step in range(5):
        yield f(values(3, seed=step))
    for step in range(5):
        x = values(3, seed=step)
        plain = f(x)
        with forward_ad.dual_level():
            out = f(forward_ad.make_dual(x, torch.ones(3)))
            value, slope = forward_ad.unpack_dual(out)
            yield [plain, value.clone(), slope]


@scenario(grad=True, graph_breaks=ANY, captured="late")
def test_forward_mode_within(compile: Compile) -> Steps:
    def slope_of(x: torch.Tensor) -> Any:
        h = x * 2
        with forward_ad.dual_level():
            out = curve(forward_ad.make_dual(h, x))
            value, slope = forward_ad.unpack_dual(out)
        return value + 1, slope * 2

    f = compile(slope_of)
    for step in range(5):
        yield f(values(3, seed=step))


@scenario(grad=True, graph_breaks=ANY, captured=False, versions=False)
def test_functions_of_autograd_functional(compile: Compile) -> Steps:
    f = compile(wave)
    for step in range(5):
        x = values(3, seed=step)
        yield torch.autograd.functional.jacobian(f, x)
        yield torch.autograd.functional.hessian(f, x)
        yield torch.autograd.functional.hvp(f, x, torch.ones(3))
        yield torch.autograd.functional.vhp(f, x, torch.ones(3))
