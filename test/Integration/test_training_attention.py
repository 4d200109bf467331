# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention takes eager's kernels, for gradients as well: the numbers are eager's, bit by bit."""

from __future__ import annotations

from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F

ROWS = 7


def heads(
    dtype: torch.dtype, rows: int = ROWS, transposed: bool = False
) -> torch.Tensor:
    shape = (2, rows, 3, 8) if transposed else (2, 3, rows, 8)
    made = torch.randn(shape, dtype=dtype)
    return made.transpose(1, 2) if transposed else made


MASKS: dict[str, Any] = {
    "none": lambda dtype: None,
    "bool": lambda dtype: torch.ones(ROWS, ROWS, dtype=torch.bool).tril(),
    "added": lambda dtype: torch.randn(2, 1, ROWS, ROWS).to(dtype),
    "rows": lambda dtype: (torch.arange(ROWS) < 5)[None, None, None, :],
}


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str
)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("mask", MASKS)
def test_gradients(mask: str, transposed: bool, dtype: torch.dtype) -> None:
    def attend(q: Any, k: Any, v: Any, m: Any) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, m, scale=0.3)

    fast = pyjit.compile(attend)
    for step in range(4):
        torch.manual_seed(step)
        given = [heads(dtype, transposed=transposed) for _ in range(3)]
        m = MASKS[mask](dtype)
        found = []
        for call in (attend, fast):
            leaves = [t.clone().requires_grad_() for t in given]
            out = call(*leaves, m)
            out.square().sum().backward()
            found.append([out.detach(), *(leaf.grad for leaf in leaves)])
        for want, have in zip(*found, strict=True):
            assert torch.equal(want, have)
            assert want.stride() == have.stride()
    assert pyjit.stats(fast)["hits"] == 3
    assert pyjit.stats(fast)["graph_breaks"] == 0


def test_rows_that_differ() -> None:
    """One specialization answers other numbers of rows, with the kernel that was recorded."""

    def attend(q: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, q, q, is_causal=True)

    fast = pyjit.compile(attend)
    for rows in (5, 6, 9, 17, 33, 64):
        found = []
        x = heads(torch.float32, rows)
        for call in (attend, fast):
            leaf = x.clone().requires_grad_()
            call(leaf).square().sum().backward()
            found.append(leaf.grad)
        torch.testing.assert_close(found[1], found[0])
    assert pyjit.stats(fast)["hits"] >= 3, pyjit.stats(fast)["reasons"]


def test_a_mask_that_learns_and_dropout() -> None:
    """Eager writes these out, and so does pyjit."""

    def attend(q: torch.Tensor, m: torch.Tensor, p: float) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, q, q, m, p)

    for p in (0.0, 0.3):
        fast = pyjit.compile(attend)
        for step in range(4):
            found = []
            for call in (attend, fast):
                torch.manual_seed(step)
                q = heads(torch.float32).requires_grad_()
                m = torch.randn(ROWS, ROWS, requires_grad=True)
                call(q, m, p).square().sum().backward()
                found.append((q.grad, m.grad, torch.rand(2)))
            torch.testing.assert_close(found[1], found[0], rtol=1e-5, atol=1e-4)
