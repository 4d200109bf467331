# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matmuls of 2 to 16 rows in half precision on CUDA: kernels of tensor cores, no vendor call."""

from __future__ import annotations

import pyjit
import pytest
import torch
from torch.nn import functional as F

SHAPES = [
    (2, 768, 768),
    (5, 1000, 96),
    (8, 16384, 512),
    (16, 33000, 256),
    (16, 40, 4096),
]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("rows", "columns", "length"), SHAPES)
def test_linear(rows: int, columns: int, length: int, dtype: torch.dtype) -> None:
    torch.manual_seed(rows)
    x = torch.randn(rows, length, device="cuda", dtype=dtype)
    w = torch.randn(columns, length, device="cuda", dtype=dtype)
    bias, residual = (
        w[:, 0].clone(),
        torch.randn(rows, columns, device="cuda").to(dtype),
    )
    fast = pyjit.compile(lambda x, r: F.silu(F.linear(x, w, bias)) + r)
    wanted = F.silu(F.linear(x.double(), w.double(), bias.double())) + residual
    eager = F.silu(F.linear(x, w, bias)) + residual
    error = (eager - wanted).abs().max().item()
    with torch.no_grad():
        for _ in range(4):
            # The sums are rounded once, not between the operations.
            assert (fast(x, residual) - wanted).abs().max().item() <= 1.01 * error
    stats = pyjit.stats(fast)
    assert stats["hits"]
    assert (stats["kernels"], stats["vendor_calls"]) == (1, 0), pyjit.explain(fast)
