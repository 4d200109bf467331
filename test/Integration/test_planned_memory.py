# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The memory that calls are planned to take, as `stats` and `explain` tell it."""

from __future__ import annotations

import pyjit
import torch

MEGABYTE = 2**20


def products(x: torch.Tensor) -> torch.Tensor:
    for _ in range(5):
        x = torch.linalg.solve(x @ x.sin(), x.cos())
    return x


def test_intermediates() -> None:
    """Some are alive at a time, however many the call makes."""
    x = torch.eye(1024) + torch.rand(1024, 1024) / 1024  # 4 MB
    fast = pyjit.compile(products)
    with torch.no_grad():
        fast(x)
    planned = pyjit.stats(fast)["planned_memory_bytes"]
    assert 4 * MEGABYTE <= planned <= 20 * MEGABYTE
    (part,) = pyjit.specializations(fast)
    assert part["planned_memory"] == (planned, 0, 0)


def test_what_a_backward_needs() -> None:
    x = torch.rand(2048, 2048, requires_grad=True)  # 16 MB
    fast = pyjit.compile(lambda x: (x.sin().exp() * x).cumsum(0).tanh().sum())
    fast(x).backward()
    (part,) = pyjit.specializations(fast)
    scratch, saved, backward = part["planned_memory"]
    assert saved >= 16 * MEGABYTE
    planned = pyjit.stats(fast)["planned_memory_bytes"]
    assert planned == saved + max(scratch, backward)
    assert f"memory of a call: {planned / 1e6:.1f} MB" in str(pyjit.explain(fast))


def test_sizes_that_differ() -> None:
    """It is another size each time."""
    fast = pyjit.compile(lambda x: (x.sin() @ x.t()).cumsum(0))
    for rows in (3, 4, 5):
        fast(torch.rand(rows, 7))
    parts = pyjit.specializations(fast)
    assert any(part["symbols"] and part["planned_memory"] is None for part in parts)
