# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Elements of one vector that lie gigabytes apart. The memory in between is never touched."""

from __future__ import annotations

import pyjit
import pytest
import torch

APART = 1 << 28
ROWS, COLUMNS = 3, 16


@pytest.fixture(scope="module")
def base() -> torch.Tensor:
    try:
        return torch.empty(APART * COLUMNS, dtype=torch.uint8)
    except RuntimeError:
        pytest.skip("no address space for 4 GiB")


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_columns_far_apart(base: torch.Tensor, dtype: torch.dtype) -> None:
    apart = APART // dtype.itemsize

    def f(x: torch.Tensor) -> torch.Tensor:
        return x.contiguous() + 1

    fast = pyjit.compile(f, options={"strict": True})
    for seed in range(2):
        x = base.view(dtype).as_strided((ROWS, COLUMNS), (1, apart))
        generator = torch.Generator().manual_seed(seed)
        x.copy_(torch.randint(0, 99, (ROWS, COLUMNS), generator=generator))
        assert torch.equal(fast(x), f(x))
    stats = pyjit.stats(fast)
    assert stats["hits"] == 1 and stats["kernels"] == 1, stats
