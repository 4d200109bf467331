# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights that calls cast within a region of autocast: frozen, tied, computed, written, leaves or not."""

from __future__ import annotations

import torch
from Integration.autocasting import linear, network, region, taken, whole
from Integration.harness import Compile, Steps, scenario
from torch import nn

# Weights


@scenario(grad=True, versions=False)
def test_frozen_weights(compile: Compile) -> Steps:
    m = network()
    m[0].requires_grad_(False)
    f = compile(m)
    for seed in range(3):
        with region():
            first = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
                m[2].weight.add_(1)
            second = f(whole(5, 4, seed=seed))
        yield taken(m, first, second)


@scenario(grad=True, versions=False)
def test_tied_weights(compile: Compile) -> Steps:
    m = nn.Sequential(linear(4, 4), nn.ReLU(), linear(4, 4))
    m[2].weight = m[0].weight
    f = compile(m)
    for seed in range(3):
        with region():
            out = f(whole(3, 4, seed=seed))
        yield taken(m, out)


@scenario(grad=True, versions=False)
def test_weight_in_both_types(compile: Compile) -> Steps:
    m = linear(4, 4)
    f = compile(lambda x: m(x).float() + m.weight.sum() * x.sum())
    for seed in range(3):
        with region():
            out = f(whole(3, 4, seed=seed))
        yield taken(m, out)


@scenario(grad=True, versions=False)
def test_weights_as_arguments(compile: Compile) -> Steps:
    a, b = (whole(4, 4, seed=s).requires_grad_() for s in (1, 2))
    f = compile(lambda x, w: torch.relu(x @ w) @ w)
    for seed in range(3):
        with region():
            outs = [f(whole(3, 4, seed=seed), w) for w in (a, b, a)]
            with torch.no_grad():
                a.add_(1)
            outs.append(f(whole(3, 4, seed=seed), a))
        sum(o.float().sum() for o in outs).backward()
        yield [outs, a.grad, b.grad]
        a.grad = b.grad = None


@scenario(grad=True, versions=False)
def test_computed_weight(compile: Compile) -> Steps:
    """Autocast keeps the casts of leaves alone."""
    m = linear(4, 4)

    def g(x: torch.Tensor) -> torch.Tensor:
        w = m.weight * 2
        return x @ w + x @ w.detach() + x @ m.weight.detach()

    f = compile(g)
    for seed in range(3):
        with region():
            first = f(whole(3, 4, seed=seed))
            with torch.no_grad():
                m.weight.add_(1)
            second = f(whole(3, 4, seed=seed))
        yield taken(m, first, second)


@scenario(grad=True, versions=False)
def test_leaf_or_not(compile: Compile) -> Steps:
    leaf = whole(4, 4, seed=1).requires_grad_()
    f = compile(lambda x, w: torch.relu(x @ w) @ w)
    for seed in range(3):
        with region():
            x = whole(3, 4, seed=seed)
            outs = [
                f(x, leaf),
                f(x, leaf * 2),
                f(x, leaf.detach().requires_grad_()),
                f(x, leaf),
            ]
        sum(o.float().sum() for o in outs).backward()
        yield [outs, leaf.grad]
        leaf.grad = None


@scenario(grad=True, versions=False)
def test_input_that_requires_grad(compile: Compile) -> Steps:
    """A leaf, like a weight: its cast is kept."""
    m = network()
    f = compile(m)
    for seed in range(3):
        x = whole(5, 4, seed=seed).requires_grad_()
        with region():
            first = f(x)
            with torch.no_grad():
                x.add_(1)
            second = f(x)
        yield taken(m, first, second)
        yield x.grad


@scenario(captured="late", grad=True, versions=False, graph_breaks=None)
def test_leaf_of_the_call(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            w = (x @ x.T).float().requires_grad_()
            y = x.T @ w
        return y, w

    f = compile(g)
    for seed in range(4):
        with region():
            y, w = f(whole(3, 4, seed=seed))
            with torch.no_grad():
                w.add_(1)
                z = whole(4, 3) @ w
        yield [y, w, z]


@scenario(grad=True, versions=False, graph_breaks=None)
def test_weight_written_before_its_use(compile: Compile) -> Steps:
    m = network()

    def g(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            m[2].weight.add_(1)
        return m(x)

    f = compile(g)
    for seed in range(4):
        with region():
            first = f(whole(5, 4, seed=seed))
            second = f(whole(5, 4, seed=seed))
        yield taken(m, first, second)


@scenario
def test_weight_written_after_its_use(compile: Compile) -> Steps:
    m = network()

    def g(x: torch.Tensor) -> torch.Tensor:
        y = m(x)
        m[2].weight.add_(1)
        return y + m(x)

    f = compile(g)
    for seed in range(4):
        with region():
            yield f(whole(5, 4, seed=seed))
            yield f(whole(5, 4, seed=seed))
        yield [p.detach().clone() for p in m.parameters()]


@scenario(graph_breaks=None)
def test_input_that_overlaps_a_weight(compile: Compile) -> Steps:
    w = whole(4, 4, seed=1).requires_grad_()

    def g(x: torch.Tensor, buffer: torch.Tensor) -> torch.Tensor:
        buffer.add_(1)
        return x @ w

    f = compile(g)
    for seed in range(3):
        for _ in range(2):
            with region():
                yield f(whole(3, 4, seed=seed), whole(4))
        with region():
            yield f(whole(3, 4, seed=seed), w.detach()[0])
        with region():
            yield f(whole(3, 4, seed=seed), whole(4))
