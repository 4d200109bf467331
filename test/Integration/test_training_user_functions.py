# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an `autograd.Function` may do with its context, in a training loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, attempt, scenario, values
from Integration.training import OPTIMIZERS, gradients, leaf, loss_of, state
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class Wanted(Function):
    """Computes what is asked for, and counts that."""

    counts: ClassVar[dict[str, int]] = {}

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor, b: Any) -> torch.Tensor:
        ctx.save_for_backward(x, w)
        key = f"forward {ctx.needs_input_grad}"
        Wanted.counts[key] = Wanted.counts.get(key, 0) + 1
        return F.linear(x, w, b)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:  # type: ignore[override]
        x, w = ctx.saved_tensors
        key = f"backward {ctx.needs_input_grad}"
        Wanted.counts[key] = Wanted.counts.get(key, 0) + 1
        of_x = g @ w if ctx.needs_input_grad[0] else None
        of_w = g.t() @ x if ctx.needs_input_grad[1] else None
        of_b = g.sum(0) if ctx.needs_input_grad[2] else None
        return of_x, of_w, of_b


class Unused(Function):
    """Gradients that are not there stay away."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x.sin(), x.cos()

    @staticmethod
    def backward(ctx: Any, of_sin: Any, of_cos: Any) -> Any:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        total = torch.zeros_like(x)
        if of_sin is not None:
            total = total + of_sin * x.cos()
        if of_cos is not None:
            total = total - of_cos * x.sin() * 3
        return total


class Kept(Function):
    """Keeps what it computed, its result, and tensors as attributes."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: float) -> torch.Tensor:
        y = (x * scale).exp()
        ctx.save_for_backward(y)
        ctx.scale, ctx.mask = scale, x > 0
        return y

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:  # type: ignore[override]
        (y,) = ctx.saved_tensors
        return g * y * ctx.scale * ctx.mask, None


class Cube(Function):
    """With a context of its own, and vmap made for it."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor) -> Any:
        return x**3, 3 * x**2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(inputs[0], output[1])

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor, _: Any) -> Any:  # type: ignore[override]
        return g * ctx.saved_tensors[1]


class Written(Function):
    """Writes the first argument, and passes the second on as it is."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        ctx.mark_dirty(x)
        ctx.save_for_backward(y)
        x.mul_(y.detach())
        return x, y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: torch.Tensor, of_y: torch.Tensor) -> Any:  # type: ignore[override]
        (y,) = ctx.saved_tensors
        return g * y, of_y * 2


class Straight(Function):
    """Rounds, and lets the gradient through."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.mul(4).round().div(4)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return g.clamp(-1, 1)


class Noisy(Function):
    """Draws in both directions."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x + torch.randn_like(x) * 0.1

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return g * torch.rand_like(g)


class Nested(Function):
    """Differentiates within its backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        with torch.no_grad():
            return x.sin() * x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            y = x.detach().requires_grad_()
            (slope,) = torch.autograd.grad((y.sin() * y).sum(), y)
        return g * slope


# What a layer computes of the activations and its weight.
USES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "needs_input_grad": lambda h, w: Wanted.apply(h, w, w[0]),
    "of what needs none": lambda h, w: h + Wanted.apply(h.detach(), w, None),
    "first result alone": lambda h, w: Unused.apply(h @ w)[0],
    "second result alone": lambda h, w: Unused.apply(h @ w)[1],
    "both results": lambda h, w: sum(Unused.apply(h @ w)),
    "saved results": lambda h, w: Kept.apply(h @ w, 0.5),
    "setup_context": lambda h, w: torch.add(*Cube.apply(h @ w)),
    "mark_dirty": lambda h, w: sum(Written.apply(h @ w, h * 2)),
    "straight through": lambda h, w: Straight.apply(h @ w),
    "draws": lambda h, w: Noisy.apply(h @ w),
    "differentiates": lambda h, w: Nested.apply(h @ w),
    "one behind the other": lambda h, w: Straight.apply(Kept.apply(h @ w, 0.1).sin()),
}


class Layer(nn.Module):
    def __init__(self, use: Callable[[torch.Tensor, torch.Tensor], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)
        self.w, self.use = nn.Parameter(values(4, 4, seed=3)), use

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.use(self.first(x).tanh(), self.w).tanh())


@pytest.mark.parametrize("name", USES)
def test_model(name: str) -> None:
    @scenario(grad=True, graph_breaks=ANY, captured="late")
    def story(compile: Compile) -> Steps:
        Wanted.counts.clear()
        m = Layer(USES[name])
        f = compile(m)
        optimizer = OPTIMIZERS["AdamW"](list(m.parameters()))
        for step in range(6):
            torch.manual_seed(step)
            optimizer.zero_grad()
            out = f(values(3, 4, seed=step))
            loss_of(out).backward()
            optimizer.step()
            yield [out, state(m, optimizer), dict(sorted(Wanted.counts.items()))]

    story()


@pytest.mark.parametrize("name", USES)
def test_whole_step(name: str) -> None:
    @scenario(grad=True, graph_breaks=ANY, captured="late")
    def story(compile: Compile) -> Steps:
        Wanted.counts.clear()
        m = Layer(USES[name])
        optimizer = OPTIMIZERS["SGD"](list(m.parameters()))
        target = values(3, 2, seed=9)

        def step_of(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = F.mse_loss(m(x), target)
            loss.backward()
            optimizer.step()
            return loss.detach()

        f = compile(step_of)
        for step in range(7):
            torch.manual_seed(step)
            yield [f(values(3, 4, seed=step)), state(m, optimizer)]
            yield dict(sorted(Wanted.counts.items()))

    story()


@pytest.mark.parametrize("name", USES)
def test_frozen_and_not(name: str) -> None:
    """What wants gradients changes between steps."""

    @scenario(grad=True, graph_breaks=ANY, captured="late")
    def story(compile: Compile) -> Steps:
        Wanted.counts.clear()
        m = Layer(USES[name])
        f = compile(m)
        for step in range(8):
            torch.manual_seed(step)
            m.first.requires_grad_(step % 3 > 0)
            m.w.requires_grad_(step % 2 > 0)
            m.zero_grad()
            out = f(values(3, 4, seed=step))
            loss_of(out).backward()
            yield [out, state(m), dict(sorted(Wanted.counts.items()))]

    story()


class Saves(Function):
    """Saves an argument that somebody may write before the backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:  # type: ignore[override]
        x, y = ctx.saved_tensors
        return g * y, g * x


@scenario(grad=True, graph_breaks=ANY, captured="late")
def test_saved_tensors_are_written(compile: Compile) -> Steps:
    def g(x: torch.Tensor, y: torch.Tensor, writes: bool) -> torch.Tensor:
        h = y * 2
        out = Saves.apply(x.sin(), h)
        if writes:
            h.add_(1)
        return out.sum() + h.sum()

    f = compile(g)
    for step in range(6):
        x, y = leaf(4, seed=step), values(4, seed=9)
        out = f(x, y, step % 3 == 1)
        yield [out, attempt(out.backward), gradients(x)]


@scenario(grad=True, graph_breaks=ANY, captured=False)
def test_whole_step_whose_saved_tensors_are_written(compile: Compile) -> Steps:
    def g(x: torch.Tensor, y: torch.Tensor, writes: bool) -> torch.Tensor:
        h = y * 2
        out = Saves.apply(x.sin(), h)
        if writes:
            h.add_(1)
        out.sum().backward()
        return out.detach()

    f = compile(g)
    for step in range(6):
        x, y = leaf(4, seed=step), values(4, seed=9)
        yield [attempt(lambda x=x, y=y, s=step: f(x, y, s % 3 == 1)), gradients(x)]


class Wrong(Function):
    """Mistakes that eager tells at the backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, kind: str) -> torch.Tensor:
        ctx.kind = kind
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:  # type: ignore[override]
        if ctx.kind == "too few":
            return g
        if ctx.kind == "shape":
            return g[:2], None
        if ctx.kind == "raises":
            raise ValueError("not today")
        if ctx.kind == "no tensor":
            return 3, None
        return None if ctx.kind == "none" else g, None


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    "kind", ["too few", "shape", "raises", "no tensor", "none", "fine"]
)
def test_mistakes(kind: str, whole: bool) -> None:
    @scenario(grad=True, graph_breaks=ANY, captured=False)
    def story(compile: Compile) -> Steps:
        def run(x: torch.Tensor) -> torch.Tensor:
            out = Wrong.apply(x.sin(), kind).cos()
            if whole:
                out.sum().backward()
            return out

        f = compile(run)
        for step in range(5):
            x = leaf(4, seed=step)
            out = attempt(f, x)
            yield out
            if not whole:
                yield attempt(lambda out=out: out.sum().backward())  # type: ignore[attr-defined]
            yield gradients(x)

    story()


@scenario(grad=True, graph_breaks=ANY, captured="late")
def test_second_derivatives(compile: Compile) -> Steps:
    f = compile(lambda x: Nested.apply(Kept.apply(x, 0.5)) * x)
    g = compile(lambda x: Cube.apply(x * 2)[0].sin())
    for step in range(5):
        x = leaf(4, seed=step)
        (first,) = torch.autograd.grad(g(x).sum(), x, create_graph=True)
        yield [first, attempt(first.square().sum().backward), gradients(x)]
        x = leaf(4, seed=step)
        (first,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
        yield [first, attempt(first.square().sum().backward), gradients(x)]


@scenario(grad=True, graph_breaks=ANY, captured=False)
def test_under_transforms(compile: Compile) -> Steps:
    def run(x: torch.Tensor) -> torch.Tensor:
        return Cube.apply(x.sin())[0].sum()

    f = compile(run)
    g = compile(torch.func.grad(run))
    h = compile(torch.func.vmap(torch.func.grad(run)))
    for step in range(5):
        x = values(2, 3, seed=step)
        yield [f(x), torch.func.grad(f)(x), g(x), h(x), torch.func.vmap(f)(x)]


@scenario(grad=True, graph_breaks=ANY, captured="late")
def test_backward_that_the_user_replaces(compile: Compile) -> Steps:
    """A function of autograd is looked up at each call."""

    class Own(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            return g * 2

    f = compile(lambda x: Own.apply(x.sin()).cos())
    for step in range(8):
        if step == 4:
            Own.backward = staticmethod(lambda ctx, g: g * 7)  # type: ignore[assignment]
        if step == 6:
            Own.forward = staticmethod(lambda ctx, x: x * 3)  # type: ignore[assignment]
        x = leaf(4, seed=step)
        out = f(x)
        out.sum().backward()
        yield [out, gradients(x)]


class Part(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, whole: bool) -> Any:
        return x.view(-1) if whole else (x[0], x * 2)

    @staticmethod
    def backward(ctx: Any, *g: torch.Tensor) -> Any:
        raise AssertionError("nobody goes back")


@scenario(graph_breaks=ANY, captured=False)
def test_views_of_leaves_under_no_grad(compile: Compile) -> Steps:
    """Eager's are leaves that require grad."""
    for whole in (True, False):
        f = compile(lambda x, whole=whole: Part.apply(x, whole))
        for step in range(4):
            x = leaf(2, 3, seed=step)
            with torch.no_grad():
                out = f(x)
            yield [
                (t, t.requires_grad, t.is_leaf, t.grad_fn is None, t._base is x)
                for t in (out if isinstance(out, tuple) else (out,))
            ]
