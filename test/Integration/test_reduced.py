# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`functools.reduce` with `max` and `min`, as `torch.broadcast_shapes` has it: numbers, lengths, sizes that differ."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import attempt, difference, snapshot


def _broadcast(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.zeros(torch.broadcast_shapes(x.shape, y.shape, (1,))) + x + y


def _dims(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x * functools.reduce(max, (len(t.shape) for t in (x, y)))


def _sizes(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x + functools.reduce(min, (n for t in (x, y) for n in t.shape))


def _list(x: torch.Tensor, y: torch.Tensor) -> Any:
    return functools.reduce(max, [x.shape[0], 3, y.shape[-1]]), x * 2


def _mixed(x: torch.Tensor, y: torch.Tensor) -> Any:
    """Ties: the first one."""
    return functools.reduce(max, [True, 1, 1.0]), functools.reduce(min, (2.0, 2)), x + y


def _initial(x: torch.Tensor, y: torch.Tensor) -> Any:
    return functools.reduce(max, (n for n in x.shape), 4) * y


def _empty(x: torch.Tensor, y: torch.Tensor) -> Any:
    return functools.reduce(max, (n for n in x.shape[:0])) * y


def _one(x: torch.Tensor, y: torch.Tensor) -> Any:
    return functools.reduce(max, (t for t in [x])) * y


FUNCTIONS = [_broadcast, _dims, _sizes, _list, _mixed, _initial, _empty, _one]


@pytest.mark.parametrize("f", FUNCTIONS)
def test_reduced(f: Callable[..., Any]) -> None:
    fast = pyjit.compile(f)
    for n in range(12):
        rows = 2 + n // 2 % 4
        x, y = torch.ones(rows, 3) * n, torch.arange(3.0)
        found = difference(*(snapshot(attempt(call, x, y)) for call in (f, fast)))
        assert not found, f"call {n}: {found}"
    stats = pyjit.stats(fast)
    assert stats["hits"] >= 4 or f is _empty
    assert not stats["graph_breaks"] or f in (_initial, _empty), stats["reasons"]
