# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Branches on data in training: those that always go one way are no graph breaks."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, attempt, scenario, values
from Integration.training import gradients, leaf, loss_of, perceptron, state
from torch import nn


@scenario(grad=True, captured="late")
def test_branch_that_is_never_taken(compile: Compile) -> Steps:
    m = perceptron()

    def g(x: torch.Tensor) -> torch.Tensor:
        h = m[0](x)
        if not torch.isfinite(h).all():
            raise ValueError("not finite")
        h = h.relu()
        if h.sum() < 0:
            h = h * 2
        return m[2](h)

    f = compile(g)
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    for step in range(8):
        optimizer.zero_grad()
        out = f(values(3, 4, seed=step))
        loss_of(out).backward()
        optimizer.step()
        yield [out, state(m, optimizer)]


@scenario(grad=True, captured="late", graph_breaks=ANY)
def test_branch_that_goes_the_other_way_in_the_end(compile: Compile) -> Steps:
    m = perceptron()

    def g(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        h = m[0](x)
        if x.sum() > 30:
            h = h.exp()
        return m[2](h.relu()), h, h.detach()

    f = compile(g)
    for step in range(10):
        m.zero_grad()
        x = leaf(3, 4, seed=step)
        with torch.no_grad():
            x.add_(10 * (step in (5, 7, 8)))
        out = f(x)
        loss_of(out[:2]).backward()
        yield [out, gradients(x), state(m)]


@scenario(grad=True, captured="late")
def test_what_leaves_both_sides_of_a_branch(compile: Compile) -> Steps:
    m = perceptron()

    def g(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        h = m[0](x)
        part, still = h[:, :4], h.detach()
        if h.isnan().any():
            h = h * 2
        return h, part, still, part * still[:, :4], x

    f = compile(g)
    for step in range(6):
        m.zero_grad()
        x = leaf(3, 4, seed=step)
        out = f(x)
        loss_of(out[:2]).backward(retain_graph=True)
        loss_of(out[3]).backward()
        yield [out, gradients(x), state(m)]


@scenario(grad=True, captured="late", graph_breaks=ANY)
def test_write_behind_a_branch(compile: Compile) -> Steps:
    """Eager's backward says that what it saved was written."""

    def g(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        h = x.exp()
        if h.sum() < 0:
            h = h * 2
        with torch.no_grad():
            h.mul_(2)
        return h * 1, h

    f = compile(g)
    for step in range(6):
        x = leaf(4, seed=step)
        out = f(x)
        yield [out, type(attempt(loss_of(out[0]).backward)).__name__, gradients(x)]


@scenario(grad=True, captured="late", graph_breaks=ANY)
def test_parameter_is_written_behind_a_branch(compile: Compile) -> Steps:
    w = leaf(4, seed=9)

    def g(x: torch.Tensor) -> torch.Tensor:
        h = x * w
        if h.isnan().any():
            h = h * 2
        with torch.no_grad():
            w.mul_(0.9)
        return h.exp()

    f = compile(g)
    for step in range(6):
        x = leaf(4, seed=step)
        out = f(x)
        yield [out, type(attempt(loss_of(out).backward)).__name__, gradients(x, w), w]


@scenario(grad=True, captured="late", graph_breaks=ANY)
def test_branch_on_random_numbers(compile: Compile) -> Steps:
    """Layers that are dropped."""
    m = perceptron()

    def g(x: torch.Tensor) -> torch.Tensor:
        h = m[0](x)
        for _ in range(3):
            if torch.rand([]) < 0.3:
                continue
            h = h + F.dropout(h, 0.2).tanh()
        return m[2](h)

    f = compile(g)
    for step in range(8):
        torch.manual_seed(step)
        m.zero_grad()
        out = f(values(3, 4, seed=step))
        loss_of(out).backward()
        yield [out, state(m)]


@scenario(grad=True, captured="late", graph_breaks=ANY)
def test_distributions(compile: Compile) -> Steps:
    m = nn.Linear(4, 6)
    with torch.no_grad():
        m.weight.copy_(values(6, 4))
        m.bias.zero_()

    def g(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mean, scale = m(x).chunk(2, -1)
        normal = torch.distributions.Normal(mean, F.softplus(scale) + 0.1)
        z = normal.rsample()
        prior = torch.distributions.Normal(0.0, 1.0)
        kl = torch.distributions.kl_divergence(normal, prior)
        return z, normal.log_prob(z.detach()), kl

    f = compile(g)
    for step in range(6):
        torch.manual_seed(step)
        m.zero_grad()
        out = f(values(3, 4, seed=step))
        loss_of(out).backward()
        yield [out, state(m)]


@scenario(grad=True, captured="late", graph_breaks=ANY)
def test_views_taken_behind_a_branch(compile: Compile) -> Steps:
    """What is seen of a tensor from before the branch requires grad as it does; what is detached does not."""

    def g(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        h = x * 2
        if h.sum() > 1e9:
            return (h + 1,)
        with torch.no_grad():
            held = h[0]
        return h[1:], h.t()[0], h.detach()[1:], held

    f = compile(g)
    for step in range(6):
        x = leaf(3, 4, seed=step)
        out = f(x)
        loss_of(out[:2]).backward()
        yield [out, gradients(x), [y.requires_grad for y in out]]


@scenario(grad=True, captured="late", graph_breaks=ANY)
def test_only_a_view_leaves_behind_a_branch(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        h = x * 2
        return h[:1] if h.sum() > 1e9 else h[1:]

    f = compile(g)
    for step in range(6):
        x = leaf(3, 4, seed=step)
        out = f(x)
        loss_of([out]).backward()
        yield [out, gradients(x)]


class LayerDrop(nn.Module):
    """Layers that are left out at random."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3)).double()
        self.probability = probability

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        for _, layer in enumerate(self.layers):
            if self.training:
                draw = torch.rand([])
                if draw < self.probability:
                    continue
            x = layer(x).tanh()
        return x, torch.rand(2)


def trained_with_layer_drop(compile: Compile, probability: float) -> Steps:
    m = LayerDrop(probability)
    f = compile(m)
    for step in range(8):
        torch.manual_seed(step)
        m.zero_grad()
        out = f(values(3, 4, seed=step).double().requires_grad_())
        loss_of(out[0]).backward()
        yield [out, gradients(*m.parameters()), torch.get_rng_state()]


@scenario(grad=True)
def test_layers_are_never_dropped(compile: Compile) -> Steps:
    """No draw from [0, 1) is below 0, each is below 1: there is nothing to decide."""
    for probability in (0.0, 0, -1, 1.0):
        yield from trained_with_layer_drop(compile, probability)


@scenario(grad=True, graph_breaks=ANY, captured=False)
def test_layers_are_dropped(compile: Compile) -> Steps:
    yield from trained_with_layer_drop(compile, 0.5)


@scenario(grad=True, graph_breaks=ANY, captured=False)
def test_a_draw_that_is_written_decides(compile: Compile) -> Steps:
    def g(x: torch.Tensor, number: float) -> torch.Tensor:
        draw = torch.rand([])
        draw.view(1).sub_(number)
        return x * 2 if draw < 0.0 else x * 3

    f = compile(g)
    for step in range(8):
        torch.manual_seed(step)
        x = leaf(3, 4)
        out = f(x, float(step % 2))
        out.sum().backward()
        yield [out, gradients(x)]


@scenario(grad=True)
def test_sides_of_comparisons_with_draws(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> list[torch.Tensor]:
        draw = torch.rand_like(x)[0, 0] * 0 + torch.rand([])
        whole = torch.rand(3)
        return [x + bool(v) for v in ((whole >= 0).all(), (whole > 1).any())] + [
            draw,
            *(x * 2 for _ in range(2) if torch.rand([]) >= 1.0),
            *(x * 3 for _ in range(2) if torch.rand([]) <= 1),
        ]

    f = compile(g)
    for step in range(6):
        torch.manual_seed(step)
        x = leaf(3, 4)
        out = f(x)
        sum(o.sum() for o in out if o.requires_grad).backward()
        yield [out, gradients(x)]


@pytest.mark.parametrize("kind", [torch.float32, torch.int64, torch.bool])
def test_the_truth_of_a_number_decides(kind: torch.dtype) -> None:
    """Python asks the number that a tensor gave, and not the tensor."""

    @scenario(grad=True, captured="late", versions=False)
    def story(compile: Compile) -> Steps:
        m = perceptron()
        optimizer = torch.optim.SGD(m.parameters(), lr=0.1)

        def step_of(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = m(x).square().mean()
            loss.backward()
            bad = m[0].weight.grad.isfinite().logical_not().any().to(kind)
            if not bad.item():
                optimizer.step()
            return loss.detach()

        f = compile(step_of)
        for step in range(12):
            x = values(3, 4, seed=step) * (torch.inf if step in (0, 5, 6, 9) else 1)
            yield [f(x), state(m, optimizer)]

    story()
