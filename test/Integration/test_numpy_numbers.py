# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers of numpy beside tensors: operands, arguments, what is stored, bounds of slices; on either side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyjit
import pytest
import torch
from Integration.harness import attempt, difference, snapshot

OPERATORS = ("+", "-", "*", "/", "//", "%", "**", "<", "<=", ">", ">=", "==", "!=")
NUMBERS = {
    "float64": np.float64(2.5),
    "float32": np.float32(0.1),
    "float16": np.float16(1.5),
    "int64": np.int64(3),
    "int32": np.int32(-2),
    "uint8": np.uint8(7),
}
TENSORS = {
    "float32": torch.tensor([1.5, -2.0, 0.0, 7.0]),
    "bfloat16": torch.tensor([1.5, -2.0, 0.5], dtype=torch.bfloat16),
    "int64": torch.tensor([1, -2, 3]),
}


def _same(f: Callable[..., Any], *calls: tuple[Any, ...]) -> None:
    """Hits where eager does not raise."""
    fast = pyjit.compile(f)
    raised = False
    for call in calls:
        want, have = attempt(f, *call), attempt(fast, *call)
        raised |= not isinstance(want, (torch.Tensor, tuple))
        assert not (found := difference(snapshot(want), snapshot(have))), found
    if not raised:
        stats = pyjit.stats(fast)
        assert stats["hits"] and not stats["graph_breaks"], stats["reasons"]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_operator(operator: str, number: str) -> None:
    """Of a global and of what the call makes."""
    for tensor in TENSORS.values():
        for text in (f"x {operator} K", f"K {operator} x", f"x {operator} (K + K)"):
            f = eval(f"lambda x: {text}", {"K": NUMBERS[number]})
            _same(f, (tensor,), (tensor.flip(0),), (tensor,))


def _stored(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros(3, 4)
    y[..., 0] = np.log(2.0)
    y[..., -1] = np.float64(1.5)
    y[1] = np.int64(7)
    y[:2] = np.float64(3)
    return y + x.sum()


def _given(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    clamped = torch.clamp(x, np.float64(-1), np.float32(1.5))
    return clamped, torch.full((2,), np.float64(0.1)), torch.rsub(x, np.int64(2))


def _log_density(x: torch.Tensor) -> torch.Tensor:
    return -0.5 * x.shape[-1] * np.log(2 * np.pi) - x.square().sum(-1) * np.sqrt(0.25)


@pytest.mark.parametrize("f", [_stored, _given, _log_density])
def test_function(f: Callable[..., Any]) -> None:
    x = TENSORS["float32"]
    _same(f, (x,), (x.flip(0),), (x * 2,))


def test_another_number() -> None:
    """Another value, and another type of the same value."""
    holder = {}

    def f(x: torch.Tensor) -> torch.Tensor:
        return holder["k"] * x - holder["k"]

    fast = pyjit.compile(f)
    x = torch.tensor([257, 3])
    for k in (np.int64(2), np.int64(3), np.float64(2), np.float32(2), 2, 2.0, np.int64(2)):  # fmt: skip
        holder["k"] = k
        assert not (found := difference(snapshot(f(x)), snapshot(fast(x)))), found
