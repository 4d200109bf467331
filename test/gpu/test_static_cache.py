# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes at places that differ between calls, on a GPU: the cases of the CPU's tests."""

from __future__ import annotations

from collections.abc import Callable

import pyjit
import pytest
import torch
from Integration.test_static_cache import CASES, POSITIONS


@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_positions(f: Callable) -> None:
    """Eager's contents and answers at each position that fits."""
    fast = pyjit.compile(f)
    ours = torch.randn(3, 20, 8, device="cuda")
    eagers = ours.clone()
    with torch.no_grad():
        for pos in filter(lambda p: p + 3 <= 20, POSITIONS):
            x = torch.randn(3, 3, 8, device="cuda")
            want = f(eagers, x, pos)
            torch.testing.assert_close(fast(ours, x, pos), want, rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(ours, eagers, rtol=1e-4, atol=1e-4)
    assert not pyjit.stats(fast)["fixed_sizes"]
