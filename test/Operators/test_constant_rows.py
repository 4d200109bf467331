# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Equal numbers have no variance, whatever their mean is rounded to: programs ask ``std == 0``."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pyjit
import pytest
import torch

VALUES = (0.1, 1 / 3, 3.7, 1e-3, -2.3e4, 6e4)
SIZES = (2, 3, 7, 100, 1001)
FUNCTIONS: dict[str, Callable] = {
    "std": lambda x: x.std(-1),
    "var": lambda x: x.var(-1),
    "biased": lambda x: x.var(-1, correction=0),
    "first": lambda x: x.std(0),
    "all": lambda x: x.std(),
    "both": lambda x: torch.stack(torch.var_mean(x, -1)),
}
TYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: str(t)[6:])
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_no_variance(name: str, dtype: torch.dtype) -> None:
    function, asked = FUNCTIONS[name], 0
    for value, size in itertools.product(VALUES, SIZES):
        x = torch.full((5, size), value, dtype=dtype)
        fast = pyjit.compile(function)
        with torch.no_grad():
            want = function(x)
            fast(x)
            got = fast(x)
        none = want == 0
        asked += int(none.sum())
        assert (got[none] == 0).all(), (value, size)
        torch.testing.assert_close(got, want, equal_nan=True)
    assert asked > 0


def test_other_rows_are_as_before() -> None:
    """A mean is between the least and the largest element anyway."""
    torch.manual_seed(0)
    for dtype in (torch.float64, torch.float32):
        x = torch.randn(64, 1000, dtype=dtype) * 3 + 1e4
        x[3, 5], x[7, 2], x[9] = float("nan"), float("inf"), float("-inf")
        for function in (lambda x: x.std(-1), lambda x: x.var(0, correction=0)):
            fast = pyjit.compile(function)
            with torch.no_grad():
                fast(x)
                torch.testing.assert_close(fast(x), function(x), equal_nan=True)
            assert pyjit.stats(fast)["kernels"] > 0
