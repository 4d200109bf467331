# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matmuls whose rows, sums or batches differ between calls, and their gradients, against float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration.harness import values

ROWS = (40, 7, 12, 300, 23, 4, 1025, 64, 13, 511, 300)


def perceptron(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.gelu(x @ w) @ v


def two_sizes(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    half = x.shape[0] // 2
    return F.linear(x[: 2 * half].unflatten(0, (2, half)), w.t()).tanh() @ v


def batch(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    tables = x[:, None, :] * w.t()[:, :48]  # rows x 32 x 48
    return (tables @ tables.transpose(1, 2)).softmax(-1) @ tables @ w @ v


def products(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (x.t() @ x) @ w @ v


PROGRAMS: dict[str, Callable[..., torch.Tensor]] = {
    f.__name__: f for f in (perceptron, two_sizes, batch, products)
}


def answers(f: Callable[..., Any], *tensors: torch.Tensor) -> list[torch.Tensor]:
    """The result, and the gradients of all operands."""
    leaves = [t.detach().requires_grad_() for t in tensors]
    result = f(*leaves)
    weights = torch.linspace(-1, 1, result.numel(), dtype=result.dtype)
    (result * weights.view_as(result)).sum().backward()
    return [result.detach(), *(leaf.grad for leaf in leaves)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients(name: str) -> None:
    program = PROGRAMS[name]
    fast = pyjit.compile(program, options={"compare_with_eager": False})
    w, v = values(48, 32, seed=1), values(32, 16, seed=2)
    for seed, rows in enumerate(ROWS):
        tensors = (values(rows, 48, seed=seed + 3), w, v)
        have = answers(fast, *tensors)
        want = answers(program, *tensors)
        exact = answers(program, *(t.double() for t in tensors))
        for ours, eagers, right in zip(have, want, exact, strict=True):
            # Either rounds; sums of a thousand products are taken in another order.
            scale = right.abs().max()
            error = (ours - right).abs().max()
            assert error <= 4 * (eagers - right).abs().max() + 1e-6 * scale, rows
    stats = pyjit.stats(fast)
    assert stats["graphs"] <= 2, stats["specialized_sizes"]
    assert stats["graph_breaks"] == 0
