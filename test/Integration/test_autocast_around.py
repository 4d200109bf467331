# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Autocast in a region around the compiled call, with weights that require grad.

Autocast keeps the cast of such a weight until its outermost region ends: later uses find it, in compiled code or
in eager, even where somebody has written the weight meanwhile. All numbers here are small integers, so that no
type rounds them: what differs is another cast, not another rounding.
"""

from __future__ import annotations

import torch
from Integration.autocasting import BF16, F16, linear, network, region, taken, whole
from Integration.harness import Compile, Steps, scenario
from torch import nn

# One call in each region


@scenario(grad=True, versions=False)
def test_training(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    optimizer = torch.optim.SGD(m.parameters(), lr=0.5)
    for seed in range(4):
        with region():
            out = f(whole(5, 4, seed=seed))
        out.float().sum().backward()
        for p in m.parameters():
            p.grad.sign_()
        optimizer.step()
        yield taken(m, out.detach())


@scenario
def test_no_grad(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    for seed in range(4):
        with region():
            yield f(whole(5, 4, seed=seed))
        m[0].weight.add_(1)


@scenario(grad=True)
def test_inference_mode(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    for seed in range(4):
        with torch.inference_mode(), region():
            yield f(whole(5, 4, seed=seed))


@scenario(grad=True, versions=False, captured="late")
def test_modes_in_turn(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    for seed in range(3):
        with region():
            out = f(whole(5, 4, seed=seed))
        yield taken(m, out)
        yield taken(m, f(whole(5, 4, seed=seed)))
        with torch.no_grad(), region():
            yield f(whole(5, 4, seed=seed))
        with region(F16):
            out = f(whole(5, 4, seed=seed))
        yield taken(m, out)


# Several calls in a region


@scenario(grad=True, versions=False)
def test_several_calls(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    for seed in range(3):
        with region():
            outs = [f(whole(5, 4, seed=seed + k)) for k in range(3)]
        yield taken(m, *outs)


@scenario(grad=True, versions=False)
def test_weight_written_between_calls(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    for seed in range(3):
        with region():
            first = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
                m[2].bias.mul_(2)
            second = f(whole(5, 4, seed=seed))
        yield taken(m, first, second)


@scenario
def test_weight_written_between_calls_without_grad(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    for seed in range(3):
        with region():
            yield f(whole(5, 4, seed=seed))
            m[0].weight.add_(1)
            yield f(whole(5, 4, seed=seed))


@scenario(grad=True, versions=False)
def test_optimizer_steps_within_the_region(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    optimizer = torch.optim.SGD(m.parameters(), lr=1.0)
    for seed in range(2):
        with region():
            for k in range(3):
                out = f(whole(2, 4, seed=seed + k))
                out.float().sum().backward()
                for p in m.parameters():
                    p.grad.sign_()
                optimizer.step()
                yield taken(m, out.detach())


@scenario(grad=True, versions=False)
def test_cast_was_made_without_grad(compile: Compile) -> Steps:
    """Autocast turns grad mode on for it: a later use is differentiated."""
    m = network()
    f = compile(m)
    for seed in range(3):
        with region():
            with torch.no_grad():
                first = f(whole(5, 4, seed=seed))
            second = f(whole(5, 4, seed=seed + 1))
        yield taken(m, first, second)


@scenario(grad=True, versions=False)
def test_weight_replaced_within_the_region(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    for seed in range(3):
        with region():
            first = f(whole(5, 4, seed=seed))
            m[0].weight = nn.Parameter(whole(6, 4, seed=seed + 7))
            second = f(whole(5, 4, seed=seed))
            m[2].weight.data = whole(3, 6, seed=seed + 8)
            third = f(whole(5, 4, seed=seed))
        yield taken(m, first, second, third)


@scenario(grad=True, versions=False)
def test_weight_frozen_within_the_region(compile: Compile) -> Steps:
    """Of one that does not require grad nothing is kept, but what was is found again."""
    m = network()
    f = compile(m)
    for seed in range(4):
        with region():
            first = f(whole(5, 4, seed=seed))
            m[0].weight.requires_grad_(False)
            m[0].weight.add_(1)
            second = f(whole(5, 4, seed=seed))
            m[0].weight.requires_grad_(True)
            third = f(whole(5, 4, seed=seed))
        yield taken(m, first, second, third)


# Eager code in the same region


@scenario(grad=True, versions=False)
def test_eager_code_made_the_cast(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    for seed in range(3):
        with region():
            first = m(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
            second = f(whole(5, 4, seed=seed))
        yield taken(m, first, second)


@scenario(grad=True, versions=False)
def test_eager_code_finds_the_cast(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    for seed in range(3):
        with region():
            first = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
            second = m(whole(5, 4, seed=seed))
        yield taken(m, first, second)


@scenario(grad=True, versions=False, captured="late")
def test_only_what_the_call_uses_is_cast(compile: Compile) -> Steps:
    m, other = network(), linear(4, 6, seed=3)
    f = compile(lambda x, which: (m if which else other)(x))
    for seed in range(3):
        for which in (True, False):
            with region():
                first = f(whole(5, 4, seed=seed), which)
                with torch.no_grad():
                    m[0].weight.add_(1)
                    other.weight.add_(1)
                second = m(whole(5, 4, seed=seed))
                third = other(whole(5, 4, seed=seed))
            yield taken(nn.ModuleList([m, other]), first, second, third)


@scenario(grad=True, versions=False)
def test_a_call_that_misses_makes_no_cast(compile: Compile) -> Steps:
    """Guards of `f` fail behind those of the weight: nobody has used it by then."""
    m = network()
    box = {"scale": 1.0, "use": True}

    def g(x: torch.Tensor) -> torch.Tensor:
        return m(x) if box["use"] else x * 3

    f = compile(g)
    for seed in range(3):
        box["use"] = True
        with region():
            first = f(whole(5, 4, seed=seed))
        box["use"] = False
        with region():
            second = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
            third = m(whole(5, 4, seed=seed))
        yield taken(m, first, second, third)


@scenario(grad=True, versions=False)
def test_saved_tensors_hook_has_seen_the_cast(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    with region():
        yield taken(m, f(whole(5, 4)))
    with region():
        yield taken(m, f(whole(5, 4)))
    kept = []

    def pack(t: torch.Tensor) -> torch.Tensor:
        kept.append(t)
        return t

    for seed in range(3):
        with region():
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
                first = m(whole(5, 4, seed=seed))
            with torch.no_grad():
                for t in kept:
                    if t.dtype == BF16 and t.shape in ((6, 4), (4, 6)):
                        t.add_(1)
            second = f(whole(5, 4, seed=seed))
        yield [first.detach(), second.detach()]
        kept.clear()
