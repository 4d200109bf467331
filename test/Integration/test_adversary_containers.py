# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attempts to get a wrong answer: slots, dicts of other classes than dict, and what the interpreter says of itself."""

from __future__ import annotations

import collections
import copy
import gc
import operator
import random
import sys
from typing import Any

import pytest
import torch
from Integration.harness import ANY, Compile, Steps, attempt, scenario, tell, values

# Slots -----------------------------------------------------------------------------


class _Meter:
    __slots__ = ("last", "mean", "n")

    def __init__(self) -> None:
        self.mean = 0.0
        self.n = 0

    def add(self, x: Any) -> None:
        self.mean = self.mean * 0.5 + 1.0
        self.n += 1
        self.last = x


@scenario(captured="late")
def test_slots_are_written(compile: Compile) -> Steps:
    meter = _Meter()

    def step(x: Any) -> Any:
        meter.add(x * 2)
        return meter.last + meter.n + meter.mean

    f = compile(step)
    for seed in range(6):
        yield f(values(3, seed=seed)), meter.mean, meter.n, meter.last


@scenario
def test_slots_are_emptied(compile: Compile) -> Steps:
    meter = _Meter()

    def change(x: Any, empty: bool) -> Any:
        if empty:
            del meter.last
        else:
            meter.last = x
        return x + hasattr(meter, "last")

    f = compile(change)
    for empty in (False, False, True, True, False, True):
        yield attempt(f, values(2), empty), hasattr(meter, "last")


@scenario
def test_slots_are_swapped(compile: Compile) -> Steps:
    a, b = _Meter(), _Meter()
    a.last, b.last = values(2), values(2, seed=1)

    def swap(x: Any) -> Any:
        a.last, b.last = b.last, a.last
        return a.last + x

    f = compile(swap)
    for seed in range(3):
        yield f(values(2, seed=seed)), a.last, b.last
    b = a
    yield f(values(2)), a.last, b.last


@scenario(captured="late")
def test_slots_of_a_dict(compile: Compile) -> Steps:
    class Store(dict):  # type: ignore[type-arg]
        __slots__ = ("n",)

    store = Store()
    store.n = 0.0

    def write(x: Any) -> Any:
        store.n = store.n + 1.0
        store.update(b=2.0)
        return x + store.n + store["b"]

    f = compile(write)
    for seed in range(5):
        yield f(values(2, seed=seed)), dict(store), store.n


# Dicts -----------------------------------------------------------------------------


def _count(container: Any) -> Any:
    def count(x: Any, key: str) -> Any:
        container[key] += 1
        return x + container[key]

    return count


@pytest.mark.parametrize(
    "make", [collections.Counter, lambda: collections.defaultdict(int)]
)
def test_counts(make: Any) -> None:
    def story(compile: Compile) -> Steps:
        counts = make()
        f = compile(_count(counts))
        for key in "aaaabbab":
            yield f(values(2), key), dict(counts), list(counts)

    tell(story, captured="late")


@scenario(captured="late")
def test_default_tensors(compile: Compile) -> Steps:
    sums = collections.defaultdict(lambda: torch.zeros(2))

    def add(x: Any, key: str) -> Any:
        sums[key] += x
        return sums[key] * 2

    f = compile(add)
    for seed, key in enumerate("aaabbab"):
        yield f(values(2, seed=seed), key), dict(sums)
    sums.default_factory = lambda: torch.ones(2)
    yield f(values(2), "c"), f(values(2), "d"), dict(sums)


@scenario(captured="late")
def test_defaults_that_raise(compile: Compile) -> Steps:
    calls = []

    def factory() -> float:
        calls.append(1)
        if len(calls) % 2 == 0:
            raise ValueError("no")
        return 1.0

    table = collections.defaultdict(factory)
    none = collections.defaultdict(None, a=1.0)
    f = compile(lambda x, k: x + table[k])
    g = compile(lambda x, k: x + none[k])
    for key in "aabbcbdd":
        yield attempt(f, values(2), key), dict(table), len(calls)
        yield attempt(g, values(2), key), dict(none)


@scenario(graph_breaks="native function time.time", captured="late")
def test_default_with_a_graph_break(compile: Compile) -> Steps:
    import time

    calls = []

    def factory() -> Any:
        calls.append(time.time() > 0)
        return torch.ones(2)

    table = collections.defaultdict(factory)
    f = compile(lambda x, k: x * 2 + table[k])
    for key in "aababcdc":
        yield f(values(2), key), dict(table), len(calls)


@scenario(captured="late")
def test_dict_classes(compile: Compile) -> Steps:
    log = []

    class Logged(dict):  # type: ignore[type-arg]
        def __setitem__(self, key: str, value: Any) -> None:
            log.append(key)
            super().__setitem__(key, value * 2)

        def __delitem__(self, key: str) -> None:
            log.append("-" + key)
            super().__delitem__(key)

    class Plain(dict):  # type: ignore[type-arg]
        pass

    logged, plain = Logged(), Plain()

    def write(x: Any) -> Any:
        logged["a"] = x
        plain["b"] = x
        y = logged["a"] + plain["b"]
        del plain["b"]
        plain["q"] = y
        return y

    f = compile(write)
    g = compile(lambda x: (logged.__delitem__("a"), x + 1)[1])
    for seed in range(3):
        yield f(values(2, seed=seed)), dict(logged), dict(plain), len(log)
    for _ in range(2):
        yield attempt(g, values(2)), dict(logged), len(log)
    Plain.__setitem__ = (  # type: ignore[method-assign]
        lambda self, key, value: dict.__setitem__(self, key, value + 1)
    )
    yield f(values(2)), dict(logged), dict(plain), len(log)


@scenario(captured="late")
def test_ordered_dict(compile: Compile) -> Steps:
    order: Any = collections.OrderedDict(z=0.0)
    items: Any = collections.OrderedDict(a=1.0)

    def write(x: Any, key: str) -> Any:
        items[key] = x
        items.pop("gone", None)
        order.clear()
        order["n"] = x + 1
        order["m"] = 2.0
        order.move_to_end("n")
        return x * 2

    f = compile(write)
    for key in "bbcba":
        yield f(values(2), key), list(items.items()), list(order.items())
        yield list(reversed(order)), order.popitem(last=False)[0]


# The interpreter -------------------------------------------------------------------


@scenario(graph_breaks=ANY, captured="late")
def test_collector(compile: Compile) -> Steps:
    def switch(x: Any) -> Any:
        before = gc.isenabled()
        gc.disable()
        inside = gc.isenabled()
        gc.enable()
        return x + 1, before, inside, gc.isenabled(), gc.get_count()[0] >= 0

    def leave(x: Any, on: bool) -> Any:
        (gc.enable if on else gc.disable)()
        return x * 2

    threshold = gc.get_threshold()
    f, g = compile(switch), compile(leave)
    for _ in range(3):
        yield f(values(2)), gc.isenabled(), gc.get_threshold() == threshold
    for on in (False, False, True, False, True, True):
        yield g(values(2), on), gc.isenabled(), gc.get_threshold() == threshold


@scenario
def test_recursion_limit(compile: Compile) -> Steps:
    f = compile(lambda x: x + sys.getrecursionlimit())
    limit = sys.getrecursionlimit()
    for more in (0, 0, 50, 50, 0):
        sys.setrecursionlimit(limit + more)
        yield f(values(2))
    sys.setrecursionlimit(limit)


# Library functions with a graph break around ---------------------------------------------


@scenario(graph_breaks="a call of deepcopy", captured="late")
def test_deepcopy(compile: Compile) -> Steps:
    config = {"a": [1, 2], "b": {"c": 3.0}}

    def copies(x: Any) -> Any:
        own = copy.deepcopy(config)
        shared = copy.deepcopy([x, x])
        return own, x * own["b"]["c"], shared[0] is shared[1], shared[0] is x

    f = compile(copies)
    for seed in range(6):
        yield f(values(2, seed=seed))
        if seed % 3 == 2:
            config["a"].append(seed)  # type: ignore[attr-defined]


@scenario(graph_breaks=("a call of manual_seed", "a call of Random."), captured="late")
def test_seeds(compile: Compile) -> Steps:
    def draw(x: Any, seed: int) -> Any:
        torch.manual_seed(seed)
        return x + torch.rand(2), random.randint(1, 50), random.choice([1, 2, 3])

    f = compile(draw)
    for seed in (1, 1, 2, 3):
        yield f(values(2), seed), torch.rand(1), random.random()


@scenario
def test_operator_module(compile: Compile) -> Steps:
    def apply(x: Any, flag: int) -> Any:
        y = x.clone()
        z = operator.iadd(y, x)
        operator.imul(y, 2)
        n = operator.ipow(x, 2) if operator.not_(flag) else operator.isub(5, 2)
        return y, z is y, n, operator.truth(flag)

    f = compile(apply)
    for flag in (0, 0, 1, 1, 0):
        yield f(values(3), flag)
