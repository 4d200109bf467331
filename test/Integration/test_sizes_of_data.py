# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results whose size depends on data: one graph while masks let as many elements through, a graph break once
they do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from torch import nn

Tensor = torch.Tensor


def mask_of(count: int, size: int, seed: int) -> Tensor:
    """So many of so many, drawn."""
    chosen = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
    return torch.zeros(size, dtype=torch.bool).index_fill(0, chosen[:count], True)


def experts(x: Tensor, mask: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    for k, chosen in enumerate((mask, ~mask)):
        rows = torch.where(chosen)[0]
        out.index_add_(0, rows, x[rows] * (k + 2))
    return out


def written(x: Tensor, mask: Tensor) -> Tensor:
    y = x.clone()
    y[mask] = x[mask] * 2 + y[mask]
    return y


PROGRAMS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "mask": lambda x, m: (x * 2)[m].relu(),
    "masked mean": lambda x, m: x.sin()[m].mean(),
    "masked select": lambda x, m: torch.masked_select(x, m[:, None]).exp(),
    "nonzero": lambda x, m: x[m.nonzero().squeeze(1)].sum(0),
    "nonzero, as a tuple": lambda x, m: x[torch.nonzero(m, as_tuple=True)] + 1,
    "where": lambda x, m: x[torch.where(m)[0]] * 3,
    "argwhere": lambda x, m: torch.argwhere(m).float() + x[0, 0],
    "mask and slice": lambda x, m: x[m, 1:3].sum(),
    "two masks": lambda x, m: x[m][:, torch.tensor([True, False, True, False])] - 1,
    "of the call": lambda x, m: (x + 1)[m & (x[:, 0] > -100)].sum(),
    "sizes": lambda x, m: x[m].sum() / x[m].shape[0] + x[m].numel(),
    "empty": lambda x, m: x[m & ~m].sum() + x[m].sum(),
    "experts": experts,
    "written": written,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_many_in_each_call(name: str) -> None:
    """One graph, whichever elements they are."""
    program = PROGRAMS[name]
    fast = pyjit.compile(program)
    for seed in range(6):
        x, mask = torch.randn(9, 4), mask_of(5, 9, seed)
        torch.testing.assert_close(fast(x, mask), program(x, mask))
    stats = pyjit.stats(fast)
    assert not stats["graph_breaks"], pyjit.explain(fast)
    assert stats["hits"] == 5, pyjit.explain(fast)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
def test_another_number_of_them(name: str, train: bool) -> None:
    """The second number breaks the graph, for good: what follows has sizes that differ."""
    program = PROGRAMS[name]
    fast = pyjit.compile(program)
    for seed, count in enumerate((5, 5, 5, 3, 4, 5, 2, 6, 7, 3, 0, 1, 9, 4)):
        x, mask = torch.randn(9, 4), mask_of(count, 9, seed)
        leaf, other = (x.clone().requires_grad_(train) for _ in range(2))
        want, have = program(leaf, mask), fast(other, mask)
        torch.testing.assert_close(have, want, equal_nan=True)
        if train and want.requires_grad:
            want.sum().backward()
            have.sum().backward()
            torch.testing.assert_close(other.grad, leaf.grad, equal_nan=True)
    stats = pyjit.stats(fast)
    assert stats["specializations"] < 24, pyjit.explain(fast)


def test_nothing_has_happened() -> None:
    """Where the number is another one, the launch has written and drawn nothing."""

    def program(x: Tensor, m: Tensor, log: list[int]) -> Tensor:
        x.add_(1)
        noise = torch.rand(3)
        log.append(1)
        return x[m].sum() + noise

    fast = pyjit.compile(program)
    for seed, count in enumerate((4, 4, 4, 6, 2, 4, 6)):
        x, mask = torch.randn(9), mask_of(count, 9, seed)
        found = []
        for function in (program, fast):
            own, log = x.clone(), []
            torch.manual_seed(seed)
            found.append([function(own, mask, log), own, torch.rand(2), len(log)])
        torch.testing.assert_close(found[1], found[0])


class GraphLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        out = torch.zeros_like(x).index_add(0, edges[1], self.linear(x)[edges[0]])
        return out.relu() + x


def test_nodes_that_are_trained() -> None:
    """Of a graph's nodes, those with labels: a whole step is one graph."""

    def run(compiled: bool) -> tuple[list[float], Any, Any]:
        torch.manual_seed(0)
        model = GraphLayer()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        x, labels = torch.randn(12, 6), torch.randint(0, 6, (12,))
        edges = torch.randint(0, 12, (2, 30))
        train = mask_of(7, 12, 1)

        def step() -> Tensor:
            optimizer.zero_grad()
            out = model(x, edges)
            loss = F.cross_entropy(out[train], labels[train])
            loss.backward()
            optimizer.step()
            return loss.detach()

        fast = pyjit.compile(step) if compiled else step
        return [float(fast()) for _ in range(8)], list(model.parameters()), fast

    want, weights, _ = run(False)
    have, ours, fast = run(True)
    torch.testing.assert_close(have, want)
    torch.testing.assert_close(ours, weights)
    stats = pyjit.stats(fast)
    assert stats["hits"] >= 4 and not stats["graph_breaks"], pyjit.explain(fast)
