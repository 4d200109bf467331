# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of a graph begin before those in front have ended: the graph gives what launches one by one give."""

from __future__ import annotations

import pyjit
import pytest
import torch

REPLAYS = 300


def chain(x: torch.Tensor) -> torch.Tensor:
    """Each kernel reads what the one in front has just written, by other threads."""
    for _ in range(12):
        x = (x - x.mean(1, keepdim=True)).transpose(0, 1).contiguous()
        x = x * torch.rsqrt(x.square().mean(0, keepdim=True) + 1e-3)
    return x


def wide_and_narrow(x: torch.Tensor) -> torch.Tensor:
    """Kernels of many waves of blocks beside kernels of one block."""
    total = x.sum()
    for _ in range(6):
        x = torch.softmax(x, 1) * total
        total = x.amax() + x.amin()
    return x


def with_vendor_calls(x: torch.Tensor) -> torch.Tensor:
    """A library's kernels in between, which neither wait nor let others begin."""
    for _ in range(4):
        x = torch.tanh(x @ x.t().softmax(1)) + x.sum(0)
        x = x / x.abs().amax()
    return x


def in_place(x: torch.Tensor) -> torch.Tensor:
    """What is read by one kernel is overwritten by the next."""
    y = x.cumsum(1)
    for _ in range(6):
        x.mul_(0.5).add_(y.mean(0))
        y = y - x.flip(0)
        x.sub_(y.amax(1, keepdim=True))
    return y + 1


CASES = (chain, wide_and_narrow, with_vendor_calls, in_place)


@pytest.mark.parametrize("size", [64, 1024])
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_as_launched_one_by_one(function: object, size: int) -> None:
    graph = pyjit.compile(function, options={"launch": "update"})
    plain = pyjit.compile(function, options={"launch": "plain"})
    torch.manual_seed(0)
    inputs = [torch.randn(size, size, device="cuda") for _ in range(4)]
    with torch.no_grad():
        for turn in range(REPLAYS):
            x, y = inputs[turn % 4].clone(), inputs[turn % 4].clone()
            assert torch.equal(graph(x), plain(y)), turn
            assert torch.equal(x, y), turn
    assert pyjit.stats(graph)["hits"] >= REPLAYS - 3
