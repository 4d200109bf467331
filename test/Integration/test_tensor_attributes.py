# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attributes of Python's that a call sets on tensors: of its arguments, and of those that it makes."""

from __future__ import annotations

from typing import Any

import pyjit
import torch
from Integration.harness import ANY, Compile, Steps, scenario, values
from torch import nn


def told(t: torch.Tensor) -> list[Any]:
    return [(name, value) for name, value in vars(t).items()]


@scenario
def test_of_arguments(compile: Compile) -> Steps:
    def f(x: torch.Tensor, y: torch.Tensor, word: str) -> torch.Tensor:
        x.note = "seen"
        y.note, y.count = word, 3
        x.note = word * 2
        return x + y

    g = compile(f)
    for seed in range(3):
        x, y = values(3, seed=seed), values(3, seed=seed + 9)
        yield g(x, y, "a"), told(x), told(y)
    yield g(x, x, "a"), told(x)
    yield g(x, y, "a"), told(x), told(y)


@scenario
def test_of_results(compile: Compile) -> Steps:
    def f(x: torch.Tensor) -> Any:
        y, z, lost = x * 2, x[1:], x - 1
        y.note = "result"
        y.other = z
        z.note = ["view", 1]
        lost.note = y
        return [y], y, x.sum()

    g = compile(f)
    for seed in range(3):
        held, y, total = g(values(4, seed=seed))
        yield (
            held,
            total,
            held[0] is y,
            y.note,
            y.other,
            y.other.note,
            y.other._is_view(),
        )


@scenario(captured="late")
def test_read_and_deleted(compile: Compile) -> Steps:
    def f(x: torch.Tensor) -> Any:
        if hasattr(x, "count"):
            del x.count
            return x * 3
        y = x + 1
        y.count = x.count = 1
        if y.count == 1:
            y.count = 2
        return y

    g = compile(f)
    x = values(3)
    for _ in range(8):
        yield told(g(x)), told(x)


@scenario(captured="late")
def test_marks_of_dynamo(compile: Compile) -> Steps:
    """A cache as transformers makes its static one, in the first of its calls."""

    class Cache:
        def __init__(self) -> None:
            self.keys: Any = None
            self.count = torch.tensor(0)

        def update(self, x: torch.Tensor) -> torch.Tensor:
            if self.keys is None:
                self.keys = torch.zeros(2, 8, 4)
                torch._dynamo.mark_static_address(self.keys)
                torch._dynamo.mark_static_address(self.count)
            at = torch.arange(x.shape[1]) + self.count
            self.count.add_(x.shape[1])
            self.keys.index_copy_(1, at, x)
            return self.keys

    f = compile(lambda cache, x: cache.update(x * 2).sum(1))
    for _ in range(3):
        cache = Cache()
        for seed in range(3):
            yield f(cache, values(2, 1, 4, seed=seed)), cache.keys, cache.count
            yield told(cache.keys), told(cache.count)


@scenario(graph_breaks=ANY)
def test_over_a_graph_break(compile: Compile) -> Steps:
    def f(x: torch.Tensor) -> Any:
        y = x * 2
        y.note = 1
        x.note = 2
        print(end="")
        y.note += x.note
        return y

    g = compile(f)
    for seed in range(3):
        x = values(3, seed=seed)
        y = g(x)
        yield y, told(x), told(y)


@scenario
def test_of_parameters(compile: Compile) -> Steps:
    layer = nn.Linear(3, 3)

    def f(x: torch.Tensor) -> torch.Tensor:
        layer.weight.uses = 1
        return layer(x)

    g = compile(f)
    for seed in range(3):
        yield g(values(2, 3, seed=seed)).shape, told(layer.weight)
        if seed == 1:
            del layer.weight.uses


def test_counters_settle() -> None:
    w = torch.ones(3)
    w.given, w.count = 0, 0

    def f(x: torch.Tensor) -> torch.Tensor:
        w.count += 1
        return x * w.count + w.given

    fast = pyjit.compile(f, options={"compare_with_eager": False})
    for step in range(30):
        w.given = step
        torch.testing.assert_close(
            fast(torch.ones(3)), torch.full((3,), 1.0 + 2 * step)
        )
        assert w.count == step + 1
    assert pyjit.stats(fast).hits > 20, pyjit.explain(fast)
