# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One captured graph for calls of many sizes on a GPU: grids, numbers and addresses are renewed in its nodes, or in a table."""

from __future__ import annotations

from typing import Any

import pyjit
import pytest
import torch
from Integration.test_one_graph import counts, report
from torch.nn import functional

TOLERANCE = {
    torch.float32: {"rtol": 1e-3, "atol": 1e-4},
    torch.float16: {"rtol": 1e-2, "atol": 1e-2},
    torch.bfloat16: {"rtol": 6e-2, "atol": 6e-2},
}
LENGTHS = [5, *range(6, 70), 130, 7, 515, 64, 1000]


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    new: torch.Tensor,
    w: torch.Tensor,
) -> Any:
    """Two heads of keys for eight of queries, and a matmul of a fixed size."""
    k, v = torch.cat([k, new], dim=-2), torch.cat([v, -new], dim=-2)
    y = functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    return y.transpose(1, 2).reshape(2, 512) @ w, k, v


def step(length: int, dtype: torch.dtype) -> tuple:
    generator = torch.Generator("cuda").manual_seed(length)

    def make(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device="cuda", generator=generator).to(dtype)

    caches = make(2, 2, length, 64), make(2, 2, length, 64)
    return make(2, 8, 1, 64), *caches, make(2, 2, 1, 64), make(512, 64) / 20


@pytest.mark.parametrize("launch", [None, "plain", "update", "table"])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_lengths(dtype: torch.dtype, launch: str | None) -> None:
    fast = pyjit.compile(attend, options={"launch": launch} if launch else {})
    held = []
    with torch.no_grad():
        for length in LENGTHS:
            args = step(length, dtype)
            held.append((fast(*args), attend(*args)))
        for have, want in held:
            torch.testing.assert_close(have, want, **TOLERANCE[dtype])
        text = report(fast, step(6, dtype))
    ((graphs, plain),) = counts(text)
    assert graphs <= 8, text  # two ways to launch by graphs, four amounts of room
    if launch in ("update", "table"):
        assert graphs >= 1 and plain <= 2, text


@pytest.mark.parametrize("launch", ["update", "table"])
def test_streams(launch: str) -> None:
    """Each has a graph and memory of its own; sizes are written while the others' launches run."""
    fast = pyjit.compile(attend, options={"launch": launch})
    streams = [torch.cuda.Stream() for _ in range(3)]
    calls = [step(5 + i % 41, torch.float32) for i in range(90)]
    torch.cuda.synchronize()
    held = []
    with torch.no_grad():
        for i, args in enumerate(calls):
            with torch.cuda.stream(streams[i % 3]):
                held.append(fast(*args))
        torch.cuda.synchronize()
        for have, args in zip(held, calls, strict=True):
            torch.testing.assert_close(have, attend(*args), **TOLERANCE[torch.float32])
