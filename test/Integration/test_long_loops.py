# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops whose iterations are a model's work each: one graph answers all of them, however many there are.

Loops are recorded unrolled. That makes one graph of a model's layers; of a thousand steps of a sampler it would make
one that takes minutes to compile (python-bindings/capture/breaks/LongLoops.cpp).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from torch import nn

torch.manual_seed(0)
BLOCK = nn.Sequential(
    *(
        layer
        for _ in range(24)
        for layer in (nn.Linear(8, 8), nn.Tanh(), nn.LayerNorm(8))
    )
).requires_grad_(False)


def _sampled(x: torch.Tensor, n: int) -> torch.Tensor:
    for i in range(n):
        x = x + BLOCK(x) / (i + 1)
    return x


def _while(x: torch.Tensor, n: int) -> tuple[torch.Tensor, int]:
    done = 0
    while done < n:
        x = x - BLOCK(x)
        done += 1
    return x, done


def _collected(x: torch.Tensor, n: int) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for _ in range(n):
        x = BLOCK(x)
        found.append(x)
    return found


def _over_tensors(x: torch.Tensor, n: int) -> torch.Tensor:
    total = torch.zeros(3)
    for row in x.expand(n, 3, 8).unbind():
        total = total + BLOCK(row).abs().sum(-1)
    return total


def _until(x: torch.Tensor, n: int) -> tuple[torch.Tensor, int]:
    for i in range(n):
        x = x + BLOCK(x)
        if x.abs().max() > 1e9:
            break
    return x, i


def _nested(x: torch.Tensor, n: int) -> torch.Tensor:
    for _ in range(n):
        for part in (0, 1):
            x = x + BLOCK(x) * part
        x = x.roll(1, 0)
    return x


def _tried(x: torch.Tensor, n: int) -> torch.Tensor:
    for i in range(n):
        try:
            x = x + BLOCK(x)
            if i == n - 1:
                raise KeyError(i)
        except KeyError:
            x = -x
    return x


LOOPS = [_sampled, _while, _collected, _until, _nested, _tried]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.allclose(a, b, rtol=1e-4, atol=1e-5)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)


@pytest.mark.parametrize("loop", LOOPS, ids=lambda f: f.__name__.strip("_"))
def test_iterations_are_one_graph(loop: Callable[..., Any]) -> None:
    fast = pyjit.compile(loop)
    x = torch.randn(3, 8)
    for n in (40, 40, 45, 41, 50, 47, 60, 44, 52, 3, 48, 55):
        assert _same(fast(x, n), loop(x, n))
    stats = pyjit.stats(fast)
    breaks = [b["code"] for b in pyjit.explain(fast).to_dict()["graph_breaks"]]
    assert breaks.count("long-loop") == 1 or "branch-on-data" in breaks
    kernels, hits = stats["kernels"], stats["hits"]
    for n in (43, 57, 49):
        assert _same(fast(x, n), loop(x, n))
    # Other numbers of iterations take no further graph.
    assert pyjit.stats(fast)["kernels"] == kernels
    assert pyjit.stats(fast)["hits"] > hits


def test_over_tensors() -> None:
    """What splits a tensor in so many is a graph for each number, the iterations are not."""
    fast = pyjit.compile(_over_tensors)
    x = torch.randn(3, 8)
    for n in (40, 40, 45, 41, 50, 47, 60, 44, 52, 3, 48, 55):
        assert _same(fast(x, n), _over_tensors(x, n))
    kernels = pyjit.stats(fast)["kernels"]
    for n in (43, 57, 49):
        assert _same(fast(x, n), _over_tensors(x, n))
    assert pyjit.stats(fast)["kernels"] - kernels <= 3


def test_layers_are_one_graph() -> None:
    """Iterations that meet parameters for the first time, as many as there are."""
    layers = nn.ModuleList(
        nn.Sequential(*(nn.Linear(4, 4) for _ in range(70))) for _ in range(32)
    ).requires_grad_(False)

    def model(x: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            x = layer(x)
        return x

    fast = pyjit.compile(model)
    x = torch.randn(2, 4)
    for _ in range(3):
        assert _same(fast(x), model(x))
    assert not pyjit.stats(fast)["graph_breaks"]


def test_small_iterations_are_one_graph() -> None:
    def steps(x: torch.Tensor, n: int) -> torch.Tensor:
        for _ in range(n):
            x = (x * 1.01 + 1).tanh().sin()
        return x

    fast = pyjit.compile(steps)
    for _ in range(3):
        assert _same(fast(torch.ones(4), 700), steps(torch.ones(4), 700))
    assert not pyjit.stats(fast)["graph_breaks"]


def test_epochs() -> None:
    """No gradient flows from one step to the next: a graph for each step."""

    def trained(seed: int) -> tuple[nn.Module, Callable[..., Any]]:
        torch.manual_seed(seed)
        model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(6)), nn.Linear(8, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

        def epoch(xs: torch.Tensor, ys: torch.Tensor) -> float:
            total = 0.0
            for x, y in zip(xs, ys):
                optimizer.zero_grad()
                loss = ((model(x) - y) ** 2).mean()
                loss.backward()
                optimizer.step()
                total += loss.item()
            return total

        return model, epoch

    ours, epoch = trained(0)
    theirs, wanted = trained(0)
    fast = pyjit.compile(epoch)
    for step in range(8):
        torch.manual_seed(step)
        xs, ys = torch.randn(30, 4, 8), torch.randn(30, 4, 1)
        assert fast(xs, ys) == pytest.approx(wanted(xs, ys), rel=1e-3)
    for p, q in zip(ours.parameters(), theirs.parameters()):
        assert torch.allclose(p, q, rtol=1e-3, atol=1e-4)
    assert pyjit.stats(fast)["hits"]
