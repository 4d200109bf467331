# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torch.func within a compiled function, captured as one graph; and what of it is a graph break."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, attempt, scenario, values
from Integration.training import gradients, leaf, loss_of
from torch import nn
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)

W = values(5, 4, seed=1)


def curve(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * x.exp()


def energy(x: torch.Tensor) -> torch.Tensor:
    return (x @ W.T).tanh().square().sum()


def trees(d: dict[str, torch.Tensor]) -> Any:
    return {"a": d["x"].sum(), "b": (d["x"] * 2, [d["x"].exp()])}


def in_place(a: torch.Tensor) -> torch.Tensor:
    y = a * 2
    y[0] = 1.0
    return y.add_(a)


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def plain(m: nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.detach() for name, p in m.named_parameters()}


MODEL = net().requires_grad_(False)


def field(a: torch.Tensor) -> torch.Tensor:
    return MODEL(a.unsqueeze(0)).sum()


# What a compiled function does with a tensor of 3 rows and 4 columns.
PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "vmap": lambda x: vmap(lambda a: (W @ a).tanh().sum())(x) * 2,
    "vmap over columns": lambda x: vmap(curve, in_dims=1, out_dims=1)(x),
    "vmap over the last dimension": lambda x: vmap(curve, in_dims=-1, out_dims=-1)(x),
    "vmap of one argument": lambda x: vmap(lambda a, b: a * b.sum(), in_dims=(0, None))(
        x, x
    ),
    "vmap of trees": lambda x: vmap(trees, in_dims=({"x": 0},))({"x": x}),
    "vmap of a result of its own": lambda x: vmap(lambda a: (a, torch.ones(2)))(x),
    "vmap of what it was given": lambda x: vmap(lambda a: a)(x),
    "vmap within vmap": lambda x: vmap(vmap(curve))(x),
    "vmap in place": lambda x: vmap(in_place)(x),
    "vmap in chunks": lambda x: vmap(curve, chunk_size=2)(x),
    # A sample without dimensions, and numbers of Python's, which functorch's promotion makes tensors of.
    "vmap of sums and numbers": lambda x: vmap(
        lambda a: (a.sum() * 2, 2 - a.sum() * 1.5, 0 + a[0] * 2, a.argmax() * 1.5)
    )(x),
    "vmap of stacked sums": lambda x: vmap(
        lambda a: torch.stack([a.sum(), a.sum() * 2]) + sum(r * 2 for r in a.unbind())
    )(x),
    "vmap of other numbers": lambda x: vmap(
        lambda a: (torch.xlogy(2.0, a.exp().sum()), a.sum() + True, a.sum() % 2)
    )(x),
    "grad": lambda x: grad(energy)(x) * 2,
    "grad and value": lambda x: grad_and_value(energy)(x),
    "grad of the second argument": lambda x: grad(
        lambda a, b: (a * b).sin().sum(), argnums=1
    )(x, x * 2),
    "grad beside what else it gives": lambda x: grad(
        lambda a: (energy(a), a.cos()), has_aux=True
    )(x),
    "grad of grad": lambda x: grad(lambda y: grad(energy)(y).square().sum())(x),
    "grad of what does not depend": lambda x: grad(lambda a: W.sum())(x),
    "vmap of grad": lambda x: vmap(grad(energy))(x),
    "grad of vmap": lambda x: grad(lambda a: vmap(energy)(a).sum())(x),
    "vjp": lambda x: vjp(curve, x)[1](x.cos())[0],
    "jvp": lambda x: jvp(curve, (x,), (x.cos(),)),
    "jvp by what is constant": lambda x: jvp(lambda a: a * 2 + W[0], (x,), (x,)),
    "jacrev": lambda x: jacrev(curve)(x),
    "jacrev in chunks": lambda x: jacrev(curve, chunk_size=2)(x[0]),
    "jacfwd": lambda x: jacfwd(curve)(x),
    "hessian": lambda x: hessian(energy)(x),
    "jacobians of each row": lambda x: vmap(jacfwd(jacrev(curve)))(x),
    "hessian of a network, forward": lambda x: vmap(
        lambda a: torch.trace(hessian(field)(a))
    )(x),
    "hessian of a network": lambda x: vmap(
        lambda a: torch.trace(jacrev(jacrev(field))(a))
    )(x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph(name: str) -> None:
    # Who sums gradients in place counts a write, and a recording holds them.
    @scenario(versions=name != "vjp")
    def story(compile: Compile) -> Steps:
        f = compile(PROGRAMS[name])
        for step in range(4):
            yield f(values(3, 4, seed=step))

    story()


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_that_change(name: str) -> None:
    """What the rules of transforms compute with sizes is right for one size alone."""

    @scenario(versions=name != "vjp")
    def story(compile: Compile) -> Steps:
        f = compile(PROGRAMS[name])
        for rows in (3, 3, 5, 6, 3, 5, 1, 6):
            yield f(values(rows, 4, seed=rows))

    story()


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_through(name: str) -> None:
    """The caller differentiates what the transform gives."""

    @scenario(grad=True, graph_breaks=ANY, captured=False)
    def story(compile: Compile) -> Steps:
        f = compile(PROGRAMS[name])
        for step in range(4):
            x = leaf(3, 4, seed=step)
            out = f(x)
            parts = out if isinstance(out, tuple) else (out,)
            seen = [part for part in parts if isinstance(part, torch.Tensor)]
            if any(part.requires_grad for part in seen):
                loss_of(seen).backward()
            yield [out, gradients(x)]

    story()


@scenario
def test_ensemble(compile: Compile) -> Steps:
    models = [net().requires_grad_(False) for _ in range(3)]
    for i, m in enumerate(models):
        m[0].weight.add_(i)
    weights, buffers = stack_module_state(models)
    weights = {name: w.detach() for name, w in weights.items()}

    def one(w: Any, b: Any, x: torch.Tensor) -> torch.Tensor:
        return functional_call(models[0], (w, b), (x,))

    f = compile(lambda x: vmap(one, in_dims=(0, 0, None))(weights, buffers, x))
    for step in range(3):
        yield f(values(3, 4, seed=step))
    weights["0.bias"] = values(3, 8)
    yield f(values(3, 4)), weights, list(models[0].parameters())


@pytest.mark.parametrize("loss", [F.mse_loss, F.cross_entropy, F.smooth_l1_loss])
def test_gradients_of_each_sample(loss: Callable[..., torch.Tensor]) -> None:
    one_graph = loss is not F.cross_entropy

    @scenario(graph_breaks=() if one_graph else ANY, captured=one_graph)
    def story(compile: Compile) -> Steps:
        m = net().requires_grad_(False)
        weights = plain(m)

        def of_one(w: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            out = functional_call(m, w, (x.unsqueeze(0),))
            return loss(out, y.unsqueeze(0))

        each = vmap(grad(of_one), in_dims=(None, 0, 0))
        f = compile(lambda w, x, y: each(w, x, y))
        for step in range(4):
            y = values(3, 2, seed=9 + step)
            y = y[:, 0].gt(0).long() if loss is F.cross_entropy else y
            yield f(weights, values(3, 4, seed=step), y), list(m.parameters())

    story()


@scenario(graph_breaks="a functorch transform is running")
def test_compiled_function_under_a_transform_of_another(compile: Compile) -> Steps:
    g = compile(curve)
    f = compile(lambda x: vmap(g)(x))
    for step in range(4):
        yield f(values(3, 4, seed=step))
    yield g(values(4)), vmap(g)(values(3, 4)), grad(lambda x: g(x).sum())(values(4))


@scenario(captured=False, graph_breaks=ANY)
def test_errors(compile: Compile) -> Steps:
    """Those of Torch's own, of the function's, and of what a transform forbids."""
    programs: list[Callable[[torch.Tensor], Any]] = [
        lambda x: vmap(lambda a: a.sum() if a.sum() > 0 else a)(x),
        lambda x: vmap(lambda a: a * a.sum().item())(x),
        lambda x: vmap(lambda a: a.nonzero())(x),
        lambda x: vmap(lambda a: torch.randn(3) + a.sum())(x),
        lambda x: vmap(lambda a: a @ a.new_ones(7))(x),
        lambda x: vmap(lambda a: {}["missing"])(x),
        lambda x: vmap(lambda a, b: a + b)(x, x[:2]),
        lambda x: vmap(curve, in_dims=5)(x),
        lambda x: vmap(curve, in_dims=None)(x),
        lambda x: vmap(curve, randomness="unheard of")(x),
        lambda x: vmap(lambda a: "text")(x),
        lambda x: vmap(lambda a: W.clone().mul_(a.unsqueeze(0)))(x),
        lambda x: grad(lambda a: a)(x),
        lambda x: grad(lambda a: a.sum(), argnums=3)(x),
        lambda x: grad(lambda a: a.requires_grad_().sum())(x.detach()),
        lambda x: jvp(curve, (x,), (x[0],)),
    ]
    for program in programs:
        f = compile(program)
        for step in range(3):
            yield attempt(f, values(3, 4, seed=step))
    # No transform is left behind.
    h = compile(lambda x: vmap(curve)(x))
    yield h(values(3, 4)), h(values(3, 4))


@scenario(graph_breaks=ANY, captured=False)
def test_a_caught_error_leaves_no_transform(compile: Compile) -> Steps:
    def f(x: torch.Tensor) -> torch.Tensor:
        try:
            vmap(lambda a: {}["missing"])(x)
        except KeyError:
            x = x + 1
        return vmap(curve)(x)

    g = compile(f)
    for step in range(4):
        yield g(values(3, 4, seed=step))


@scenario(
    graph_breaks=("a tensor's data", "print", "a branch", "the result holds"),
    captured=False,
)
def test_what_breaks_the_graph_around_a_transform(compile: Compile) -> Steps:
    seen = []

    def branch(a: torch.Tensor) -> torch.Tensor:
        return a.sin().sum() if a.sum() > 0 else a.cos().sum()

    def looks(a: torch.Tensor) -> torch.Tensor:
        seen.append(a.sum().item())
        return a.sin().sum()

    def prints(a: torch.Tensor) -> torch.Tensor:
        print(end="")
        return a.sin().sum()

    def use(f: Any) -> Callable[[torch.Tensor], Any]:
        def run(x: torch.Tensor) -> Any:
            h = (x * 2).tanh()
            slope = grad(f)(h)
            return slope * 3 + h

        return run

    for inner in (branch, looks, prints):
        f = compile(use(inner))
        for step in range(5):
            yield f(values(3, 4, seed=step) * (-1) ** step), list(seen)


@scenario(grad=True, graph_breaks=ANY, captured=False)
def test_closures_over_what_requires_grad(compile: Compile) -> Steps:
    w = leaf(4, seed=3)
    programs: list[Callable[[torch.Tensor], Any]] = [
        lambda x: vmap(lambda a: (a * w).tanh())(x),
        lambda x: grad(lambda a: (a * w).tanh().sum())(x),
        lambda x: vmap(grad(lambda a: (a * w).square().sum()))(x),
        lambda x: jacrev(lambda a: (a * w).sin())(x[0]),
    ]
    for program in programs:
        f = compile(program)
        for step in range(4):
            w.grad = None
            out = f(values(3, 4, seed=step))
            if out.requires_grad:
                loss_of(out).backward()
            yield out, gradients(w)


@scenario(captured=False, graph_breaks=ANY)
def test_hooks_on_saved_tensors_around_the_call(compile: Compile) -> Steps:
    """grad and its like raise there."""
    f = compile(lambda x: grad(energy)(x))
    g = compile(lambda x: vmap(curve)(x))
    for step in range(3):
        yield f(values(3, 4, seed=step)), g(values(3, 4, seed=step))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        yield attempt(f, values(3, 4)), attempt(g, values(3, 4))
    with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
        yield attempt(f, values(3, 4)), attempt(g, values(3, 4))
    yield f(values(3, 4))


@scenario(captured=False, graph_breaks=ANY)
def test_writes_to_what_was_there_before(compile: Compile) -> Steps:
    total = torch.zeros(4)
    kept = []

    def counts(x: torch.Tensor) -> torch.Tensor:
        out = vmap(lambda a: a * 2)(x)
        total.add_(out.sum(0))
        return out

    def keeps(x: torch.Tensor) -> torch.Tensor:
        return vmap(lambda a: (kept.append(a), a * 2)[1])(x)

    f, g = compile(counts), compile(keeps)
    for step in range(4):
        yield f(values(3, 4, seed=step)), total
        yield g(values(3, 4, seed=step)), len(kept)


@scenario(captured=False, graph_breaks=ANY)
def test_numbers_that_change(compile: Compile) -> Steps:
    f = compile(lambda x, n: vmap(lambda a: a * n + a[: int(n)].sum())(x))
    for n in (1, 2, 3, 2.5, 3, 1, 4):
        yield attempt(f, values(3, 4), n)


@scenario(grad=True, captured=False, graph_breaks=ANY)
def test_draws(compile: Compile) -> Steps:
    f = compile(lambda x: vmap(lambda a: F.dropout(a), randomness="different")(x))
    g = compile(lambda x: vmap(lambda a: a + torch.rand(4), randomness="same")(x))
    for step in range(4):
        torch.manual_seed(step)
        yield f(values(3, 4)), g(values(3, 4)), torch.get_rng_state()


@scenario(captured=False, graph_breaks=ANY)
def test_transforms_of_the_programs_own(compile: Compile) -> Steps:
    """Interpreters that no function of torch.func pushes."""
    from torch._functorch.vmap import vmap_increment_nesting

    def f(x: torch.Tensor) -> torch.Tensor:
        with vmap_increment_nesting(3, "error") as level:
            inner = torch._C._functorch._add_batch_dim(x, 0, level)
            out = torch._C._functorch._remove_batch_dim(inner.sin(), level, 3, 0)
        return out * 2

    g = compile(f)
    for step in range(4):
        yield g(values(3, 4, seed=step))
