# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kinds of regions of autocast around compiled calls: nested, of two types, without their cache, switched by hand."""

from __future__ import annotations

import torch
from Integration.autocasting import F16, linear, network, region, taken, whole
from Integration.harness import Compile, Steps, attempt, scenario
from torch import nn

# Kinds of regions


@scenario(grad=True, versions=False)
def test_nested_regions(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    for seed in range(3):
        with region():
            with region():
                first = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
            with region():
                second = f(whole(5, 4, seed=seed))
            with region(enabled=False):
                third = f(whole(5, 4, seed=seed))
        yield taken(m, first, second, third)


@scenario(grad=True, versions=False)
def test_region_within_one_that_is_off(compile: Compile) -> Steps:
    m = network()

    def g(x: torch.Tensor) -> torch.Tensor:
        with region():
            return m(x)

    f = compile(g)
    for seed in range(3):
        with region(enabled=False):
            first = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
            second = f(whole(5, 4, seed=seed))
        third = f(whole(5, 4, seed=seed))
        yield taken(m, first, second, third)


@scenario(grad=True, versions=False, captured="late")
def test_region_within_another_one(compile: Compile) -> Steps:
    m, last = network(), linear(3, 3, seed=5)

    def g(x: torch.Tensor) -> torch.Tensor:
        y = m(x)
        with region():
            y = last(y) + m[2](m[0](x).relu())
        with region(enabled=False):
            y = m[2](m[0](x).relu()) + y
        return last(y)

    f = compile(g)
    for seed in range(3):
        with region():
            out = f(whole(5, 4, seed=seed))
        yield taken(nn.ModuleList([m, last]), out)
        yield taken(nn.ModuleList([m, last]), f(whole(5, 4, seed=seed)))


@scenario(grad=True, versions=False)
def test_region_within_of_another_type(compile: Compile) -> Steps:
    m, last = network(), linear(4, 3, seed=5)

    def g(x: torch.Tensor) -> torch.Tensor:
        with region(F16):
            y = last(x)
        return m(x).float() + y.float()

    f = compile(g)
    for seed in range(3):
        with region():
            first = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                last.weight.add_(1)
            second = f(whole(5, 4, seed=seed))
        yield taken(nn.ModuleList([m, last]), first, second)


@scenario(grad=True, versions=False)
def test_two_types_in_one_region(compile: Compile) -> Steps:
    """Eager finds the cast of the other type, and mostly raises."""
    m = network()
    f = compile(m)
    for seed in range(3):
        with region():
            first = f(whole(5, 4, seed=seed))
            with region(F16):
                raised = attempt(f, whole(5, 4, seed=seed))
            second = f(whole(5, 4, seed=seed))
        yield raised
        yield taken(m, first, second)


@scenario(grad=True, versions=False)
def test_without_cache(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    for seed in range(3):
        with region(cache_enabled=False):
            first = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
            second = f(whole(5, 4, seed=seed))
            with region():
                third = f(whole(5, 4, seed=seed))
        yield taken(m, first, second, third)


@scenario(grad=True, versions=False)
def test_cache_within_a_region_without(compile: Compile) -> Steps:
    m = network()

    def g(x: torch.Tensor) -> torch.Tensor:
        with region():
            return m(x)

    f = compile(g)
    for seed in range(3):
        with region(cache_enabled=False):
            first = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
            second = f(whole(5, 4, seed=seed))
        yield taken(m, first, second)


@scenario(grad=True, versions=False)
def test_cache_cleared_between_calls(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    for seed in range(3):
        with region():
            first = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
            torch.clear_autocast_cache()
            second = f(whole(5, 4, seed=seed))
        yield taken(m, first, second)


@scenario(graph_breaks="clear_autocast_cache")
def test_cache_cleared_by_the_call(compile: Compile) -> Steps:
    m = network()

    def g(x: torch.Tensor) -> torch.Tensor:
        y = m(x)
        with torch.no_grad():
            m[0].weight.add_(1)
        torch.clear_autocast_cache()
        return m(x) + y

    f = compile(g)
    for seed in range(3):
        with region():
            out = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
            later = m(whole(5, 4, seed=seed))
        yield taken(m, out, later)


@scenario(grad=True, versions=False, graph_breaks=None)
def test_cache_cleared_where_autocast_is_off(compile: Compile) -> Steps:
    """Outside of any region a call that clears the cache clears nothing; within one that is off, it does."""
    m = network()

    def g(x: torch.Tensor) -> torch.Tensor:
        torch.clear_autocast_cache()
        return x + 1

    f = compile(g)
    for seed in range(3):
        x = whole(5, 4, seed=seed)
        outside = f(x)
        with region():
            first = m(x)
            with torch.no_grad():
                m[0].weight.add_(1)
            with torch.autocast("cpu", enabled=False):
                within = f(x)
            later = m(x)
        yield taken(m, outside, first, within, later)


@scenario(grad=True, versions=False)
def test_switched_on_without_a_region(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    torch.set_autocast_enabled("cpu", True)
    try:
        for seed in range(3):
            first = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
            second = f(whole(5, 4, seed=seed))
            yield taken(m, first, second)
            torch.clear_autocast_cache()
    finally:
        torch.set_autocast_enabled("cpu", False)
        torch.clear_autocast_cache()


@scenario(grad=True, captured=False, versions=False, graph_breaks=None)
def test_switched_on_by_the_call(compile: Compile) -> Steps:
    m = network()

    def g(x: torch.Tensor) -> torch.Tensor:
        torch.set_autocast_enabled("cpu", True)
        y = m(x)
        torch.set_autocast_enabled("cpu", False)
        return y

    f = compile(g)
    for seed in range(4):
        first = f(whole(5, 4, seed=seed))
        with torch.no_grad():
            m[0].weight.add_(1)
        yield taken(m, first)
    torch.clear_autocast_cache()


@scenario(grad=True, versions=False, captured="late")
def test_around_and_not_in_turn(compile: Compile) -> Steps:
    """A region within the call, with one around it and without."""
    m = network()

    def g(x: torch.Tensor) -> torch.Tensor:
        with region():
            return m(x)

    f = compile(g)
    for seed in range(3):
        yield taken(m, f(whole(5, 4, seed=seed)))
        with region():
            first = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
            second = f(whole(5, 4, seed=seed))
        yield taken(m, first, second)
