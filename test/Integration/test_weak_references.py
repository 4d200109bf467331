# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Objects that a call makes, and drops while a weak reference looks: a recording must not keep them alive."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from Integration.harness import ANY, Compile, Steps, scenario, values


class Thing:
    value: Any = None


@scenario(captured=False, graph_breaks=ANY)
def test_reference(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, bool, bool]:
        thing = Thing()
        thing.value = x + 1
        gone = weakref.ref(thing)
        there = gone() is thing
        del thing
        return x * 2, there, gone() is None

    f = compile(g)
    for seed in range(5):
        yield f(values(4, seed=seed))


@scenario(captured=False, graph_breaks=ANY)
def test_local_that_is_not_used_again(compile: Compile) -> Steps:
    """It lives as long as its frame."""

    def g(x: torch.Tensor) -> Any:
        thing = Thing()
        seen = weakref.ref(thing)
        y = x * 2
        print(end="")
        alive = seen() is not None
        return y + alive, alive

    f = compile(g)
    for seed in range(4):
        yield f(values(4, seed=seed))


@scenario(captured=False, graph_breaks=ANY)
def test_tensor(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> Any:
        gone = weakref.ref(x * 2)
        return gone() is None, weakref.ref(x)() is x

    f = compile(g)
    for _ in range(3):
        yield f(values(4))


@scenario(captured=False, graph_breaks=ANY)
def test_finalizer(compile: Compile) -> Steps:
    log: list[int] = []

    def g(x: torch.Tensor, seed: int) -> tuple[torch.Tensor, int]:
        thing = Thing()
        weakref.finalize(thing, log.append, seed)
        del thing
        return x * 2, len(log)

    f = compile(g)
    for seed in range(5):
        yield f(values(4, seed=seed), seed), list(log)


@scenario(captured=False, graph_breaks=ANY)
def test_weak_dicts(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, list[int]]:
        named: Any = weakref.WeakValueDictionary()
        numbered: Any = weakref.WeakKeyDictionary()
        first, second = Thing(), Thing()
        named["a"], numbered[second] = first, 1
        sizes = [len(named), len(numbered)]
        del first, second
        return x * 2, [*sizes, len(named), len(numbered)]

    f = compile(g)
    for seed in range(5):
        yield f(values(4, seed=seed))


@scenario(graph_breaks=ANY, captured="late")
def test_things_that_others_hold(compile: Compile) -> Steps:
    """A cache of weak references to what outlives the call."""
    cache: Any = weakref.WeakValueDictionary()
    held: list[Thing] = []

    def g(x: torch.Tensor, key: str) -> torch.Tensor:
        thing = cache.get(key)
        if thing is None:
            thing = Thing()
            thing.value = torch.full((4,), 3.0)
            cache[key] = thing
            held.append(thing)
        return x * thing.value

    f = compile(g)
    for seed in range(8):
        yield f(values(4, seed=seed), "ab"[seed // 5]), len(cache)
