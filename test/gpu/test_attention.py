# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of few queries to keys whose number grows: clusters of blocks, against float64."""

from __future__ import annotations

import pyjit
import pytest
import torch

LENGTHS = [3, 4, 5, 9, 33, 64, 65, 200, 511, 1000, 4097, 6]


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None
) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, enable_gqa=True
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize(
    ("batch", "heads", "group", "queries", "width"),
    [
        (1, 12, 1, 1, 64),
        (1, 8, 4, 1, 64),
        (8, 8, 4, 1, 64),
        (32, 8, 4, 1, 64),
        (1, 1, 8, 1, 256),
        (1, 8, 4, 1, 128),
        (2, 32, 1, 1, 80),
        (4, 2, 7, 1, 64),
        (1, 4, 2, 4, 96),
    ],
)
@pytest.mark.parametrize("masked", [False, True])
def test_lengths(
    batch: int,
    heads: int,
    group: int,
    queries: int,
    width: int,
    dtype: torch.dtype,
    masked: bool,
) -> None:
    torch.manual_seed(0)
    fast = pyjit.compile(attend)
    made = {"device": "cuda", "dtype": dtype}
    with torch.no_grad():
        for length in LENGTHS:
            q = torch.randn(batch, heads * group, queries, width, **made)
            k = torch.randn(batch, heads, length, width, **made)
            v = torch.randn(batch, heads, length, width, **made)
            mask = None
            if masked:
                mask = torch.rand(batch, 1, queries, length, device="cuda") > 0.3
                mask[..., 0] = True
            wanted = attend(q.double(), k.double(), v.double(), mask)
            error = (attend(q, k, v, mask).double() - wanted).abs().max().item()
            for _ in range(3):  # as first launched, as captured, as replayed
                got = fast(q, k, v, mask).double()
                ours = (got - wanted).abs().max().item()
                limit = 2e-6 if dtype == torch.float32 else 0
                assert ours <= max(1.5 * error, limit), (length, ours, error)
