# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions with derivatives of the user's own, and functions that the backward pass calls again."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, attempt, scenario, values
from Integration.training import gradients, leaf, loss_of, perceptron, state
from torch import nn
from torch.autograd.function import once_differentiable
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

GRADIENT = "an autograd function with a gradient"


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        s = x.sigmoid()
        return g * s * (1 + x * (1 - s)) + 0.01 * x


class Scaled(torch.autograd.Function):
    """`setup_context`, a default, an argument that is no tensor."""

    @staticmethod
    def forward(x: torch.Tensor, w: torch.Tensor, k: float = 2.0) -> torch.Tensor:
        return x * w * k

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        x, w, k = inputs
        ctx.save_for_backward(x, w)
        ctx.k = k

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[Any, ...]:
        x, w = ctx.saved_tensors
        return g * w * ctx.k, g * x * ctx.k, None


class Largest(torch.autograd.Function):
    """Several results, of which one has no gradient."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, n: int
    ) -> tuple[torch.Tensor, torch.Tensor, int]:
        found, places = x.topk(n)
        ctx.mark_non_differentiable(places)
        ctx.save_for_backward(places)
        ctx.shape = x.shape
        return found, places, n

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: torch.Tensor, *_: Any) -> tuple[Any, ...]:
        (places,) = ctx.saved_tensors
        return torch.zeros(ctx.shape).scatter_(-1, places, g), None


class Doubled(torch.autograd.Function):
    """Writes its argument."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g * 2


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: float) -> torch.Tensor:
        ctx.scale, ctx.wanted = scale, ctx.needs_input_grad[0]
        return x.view_as(x) if ctx.wanted else x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[Any, ...]:
        return -ctx.scale * g, None


def functions(x: torch.Tensor, w: torch.Tensor) -> Any:
    h = Scaled.apply(Swish.apply(x * w), w)
    h = Scaled.apply(h, w, 0.5) + 1
    found, places, n = Largest.apply(h, 2)
    return Reversed.apply(Doubled.apply(found * 1.5).relu(), 0.3), places, n


@scenario
def test_without_gradients_they_are_python_like_any_other(compile: Compile) -> Steps:
    f = compile(functions)
    for step in range(4):
        yield f(values(3, 8, seed=step), values(3, 8, seed=9))


@scenario(grad=True)
def test_of_what_requires_no_grad(compile: Compile) -> Steps:
    f = compile(functions)
    for step in range(4):
        yield f(values(3, 8, seed=step), values(3, 8, seed=9))


@scenario(grad=True, captured="late", graph_breaks=GRADIENT)
def test_where_gradients_flow(compile: Compile) -> Steps:
    f = compile(functions)
    for step in range(5):
        x, w = leaf(3, 8, seed=step), leaf(3, 8, seed=9)
        out = f(x, w)
        loss_of(out[:1]).backward()
        yield [out, gradients(x, w)]


@scenario(grad=True, captured="late", graph_breaks=ANY)
def test_in_a_layer_of_a_model(compile: Compile) -> Steps:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + Swish.apply(self.inner(x))

    torch.manual_seed(0)
    m = nn.Sequential(Layer(), Layer(), nn.Linear(4, 2))
    f = compile(m)
    for step in range(5):
        m.zero_grad()
        out = f(values(3, 4, seed=step))
        loss_of(out).backward()
        yield [out, state(m)]


@scenario(grad=True, captured="late", graph_breaks=GRADIENT)
def test_gradients_of_their_gradients(compile: Compile) -> Steps:
    f = compile(lambda x: Swish.apply(x * 2).sin() * x)
    for step in range(4):
        x = leaf(4, seed=step)
        (first,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
        first.square().sum().backward()
        yield [first, gradients(x)]


def block(rate: float = 0.0) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Dropout(rate), nn.Linear(8, 4))


class Checkpointed(nn.Module):
    def __init__(self, inner: nn.Module, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.inner, self.last = nn.Linear(4, 4), inner, nn.Linear(4, 2)
        self.options = options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x).relu()
        h = h + checkpoint(self.inner, h, **self.options)
        return self.last(h * 2)


def train(compile: Compile, m: nn.Module, steps: int = 5) -> Steps:
    f = compile(m)
    for step in range(steps):
        m.zero_grad()
        torch.manual_seed(step)
        out = f(values(3, 4, seed=step))
        loss_of(out).backward()
        yield [out, state(m), torch.rand(2)]


@scenario(grad=True)
def test_checkpoint_is_no_graph_break(compile: Compile) -> Steps:
    yield from train(compile, Checkpointed(block(), use_reentrant=False))


@scenario(grad=True)
def test_checkpoint_of_dropout(compile: Compile) -> Steps:
    m = Checkpointed(block(0.4), use_reentrant=False, preserve_rng_state=True)
    yield from train(compile, m)


@scenario
def test_checkpoint_without_gradients(compile: Compile) -> Steps:
    for reentrant in (False, True):
        m = Checkpointed(block(), use_reentrant=reentrant)
        f = compile(m)
        for step in range(3):
            yield f(values(3, 4, seed=step))


@scenario(grad=True, captured="late", graph_breaks="a call of checkpoint")
def test_reentrant_checkpoint(compile: Compile) -> Steps:
    yield from train(compile, Checkpointed(block(0.2), use_reentrant=True))


@scenario(grad=True, captured="late", graph_breaks="a call of checkpoint")
def test_checkpoint_that_forgets_random_numbers(compile: Compile) -> Steps:
    m = Checkpointed(block(0.5), use_reentrant=False, preserve_rng_state=False)
    yield from train(compile, m)


@scenario(grad=True, captured="late", graph_breaks="under checkpoint")
def test_checkpoint_of_running_statistics(compile: Compile) -> Steps:
    """The backward pass updates them once more."""
    inner = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    yield from train(compile, Checkpointed(inner, use_reentrant=False))


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.calls = nn.Linear(4, 4), 0
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.inner(x).tanh()


@scenario(grad=True, captured="late", graph_breaks="under checkpoint")
def test_checkpoint_of_what_counts_its_calls(compile: Compile) -> Steps:
    m = Checkpointed(Counting(), use_reentrant=False)
    for out in train(compile, m):
        yield [out, m.inner.calls]


@scenario(grad=True, captured=False, graph_breaks=ANY)
def test_checkpoint_of_what_fills_a_list(compile: Compile) -> Steps:
    inner = block()

    def g(x: torch.Tensor) -> Any:
        seen: list[torch.Tensor] = []

        def body(h: torch.Tensor) -> torch.Tensor:
            h = inner(h)
            seen.append(h.detach())
            return h.sin()

        return checkpoint(body, x * 2, use_reentrant=False), seen

    f = compile(g)
    for step in range(5):
        inner.zero_grad()
        x = leaf(3, 4, seed=step)
        out, seen = f(x)
        loss_of(out).backward()
        yield [out, len(seen), seen, gradients(x), state(inner)]


@scenario(grad=True, captured=False, graph_breaks=ANY)
def test_checkpoint_of_what_writes_its_argument(compile: Compile) -> Steps:
    inner = block()

    def g(x: torch.Tensor) -> Any:
        counts = torch.zeros(4)

        def body(h: torch.Tensor) -> torch.Tensor:
            counts.add_(1)
            return inner(h).sin()

        return checkpoint(body, x * 2, use_reentrant=False), counts

    f = compile(g)
    for step in range(5):
        inner.zero_grad()
        x = leaf(3, 4, seed=step)
        out, counts = f(x)
        loss_of(out).backward()
        yield [out, counts, gradients(x), state(inner)]


@scenario(grad=True)
def test_checkpoint_of_partial_functions_and_keywords(compile: Compile) -> Steps:
    m = perceptron()

    def body(scale: float, h: torch.Tensor, *, shift: torch.Tensor) -> Any:
        made = [m(h) * scale]
        made.append(made[0] + shift)
        return made[1], (made[0], scale)

    def g(x: torch.Tensor) -> Any:
        again = partial(checkpoint, use_reentrant=False)
        y, (z, scale) = again(partial(body, 0.5), x.sin(), shift=x.sum())
        return y * z * scale + checkpoint_sequential(m, 2, x, use_reentrant=False)

    f = compile(g)
    for step in range(4):
        m.zero_grad()
        x = leaf(3, 4, seed=step)
        out = f(x)
        loss_of(out).backward()
        yield [out, gradients(x), state(m)]


@scenario(grad=True, captured="late", graph_breaks=ANY)
def test_checkpoint_within_checkpoint(compile: Compile) -> Steps:
    inner = Checkpointed(block(), use_reentrant=False)
    inner.last = nn.Linear(4, 4)
    yield from train(compile, Checkpointed(inner, use_reentrant=False))


@scenario(grad=True, captured="late", graph_breaks=ANY)
def test_checkpoint_of_what_breaks_the_graph(compile: Compile) -> Steps:
    m = perceptron()

    def body(h: torch.Tensor) -> torch.Tensor:
        h = m[0](h)
        if h.sum() > 0:
            h = h * 2
        return m[2](Swish.apply(h))

    f = compile(lambda x: checkpoint(body, x.sin(), use_reentrant=False).cos())
    for step in range(6):
        m.zero_grad()
        x = leaf(3, 4, seed=step)
        out = f(x)
        loss_of(out).backward()
        yield [out, gradients(x), state(m)]


@scenario(grad=True, captured="late", graph_breaks=ANY)
def test_checkpoint_of_what_raises(compile: Compile) -> Steps:
    m = perceptron()

    def body(h: torch.Tensor, fails: bool) -> torch.Tensor:
        if fails:
            raise ValueError("no")
        return m(h)

    def g(x: torch.Tensor, fails: bool) -> torch.Tensor:
        try:
            h = checkpoint(body, x * 2, fails, use_reentrant=False)
        except ValueError:
            h = x * 3
        return h.sin()

    f = compile(g)
    for step in range(6):
        x = leaf(3, 4, seed=step)
        out = f(x, step % 3 == 1)
        loss_of(out).backward()
        yield [out, gradients(x)]


@scenario(grad=True, captured=False, graph_breaks=ANY)
def test_wrong_uses_of_checkpoint_raise(compile: Compile) -> Steps:
    f = compile(lambda x: checkpoint(torch.sin, x, use_reentrant=False, debug=3) + 1)
    g = compile(lambda x: checkpoint(lambda y: y + 1, x, k=1, use_reentrant=True) + 1)
    for step in range(3):
        x = leaf(3, seed=step)
        yield [attempt(partial(f, x)), attempt(partial(g, x))]


@scenario(grad=True)
def test_functional_call(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(lambda weights, x: functional_call(m, weights, (x,)).sin())
    for step in range(4):
        weights = {
            name: (p.detach() * (1 + step)).requires_grad_()
            for name, p in m.named_parameters()
        }
        out = f(weights, values(3, 4, seed=step))
        loss_of(out).backward()
        yield [out, gradients(*weights.values()), state(m)]


@scenario(grad=True)
def test_norms_that_are_clamped_unseen(compile: Compile) -> Steps:
    """`cosine_similarity` clamps norms under no_grad; their gradients flow on."""
    m = perceptron()
    f = compile(lambda x: F.cosine_similarity(m(x), m(x * 2).sin()))
    for step in range(4):
        m.zero_grad()
        x = leaf(3, 4, seed=step)
        out = f(x)
        loss_of(out).backward()
        yield [out, gradients(x), state(m)]


@scenario(grad=True)
def test_values_that_are_replaced_unseen(compile: Compile) -> Steps:
    def g(x: torch.Tensor, w: torch.Tensor) -> Any:
        h = (x * w).sin()
        with torch.no_grad():
            h.mul_(h).clamp_(max=0.5)
        y = h + w
        h.add_(x)
        return y, h, h.detach() * 2

    f = compile(g)
    for step in range(4):
        x, w = leaf(3, 4, seed=step), leaf(3, 4, seed=9)
        out = f(x, w)
        loss_of(out[:2]).backward()
        yield [out, gradients(x, w)]


@scenario(grad=True, captured="late", graph_breaks=ANY)
def test_values_that_are_replaced_and_shown(compile: Compile) -> Steps:
    """A view of them shows what was written, and has the gradient of what was there."""

    def g(x: torch.Tensor) -> Any:
        h = x.sin() * 2
        shown = h[:, :2]
        with torch.no_grad():
            h.mul_(3)
        return h * x, shown + 1

    f = compile(g)
    for step in range(5):
        x = leaf(3, 4, seed=step)
        out = f(x)
        loss_of(out).backward()
        yield [out, gradients(x)]
