# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A simulated device refuses the addresses that a GPU's code of the same kernels would fault on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

WEIGHT = torch.randn(16, 16)


def parts(x: torch.Tensor) -> Any:
    flat = x.reshape(-1).cumsum(0)
    return flat[1:].exp(), flat[:-1].exp(), flat[2:10].exp()


def behind_a_size(x: torch.Tensor) -> Any:
    """A vendor call's result, from a place that depends on the call."""
    return x.reshape(-1).cumsum(0)[x.shape[0] :].exp()


def one_before_a_size(x: torch.Tensor) -> Any:
    return x.reshape(-1).cumsum(0)[x.shape[0] - 1 :].exp()


def rows(x: torch.Tensor) -> Any:
    return torch.sigmoid((x @ WEIGHT)[1:]).sum(1)


def half(x: torch.Tensor) -> Any:
    return x.half().cumsum(1).reshape(-1)[3:].exp()


@pytest.mark.parametrize("f", [parts, behind_a_size, one_before_a_size, rows, half])
def test_views_are_aligned_as_kernels_rely_on(f: Callable[..., Any]) -> None:
    import pyjit

    fast = pyjit.compile(f, options={"simulated_device": True})
    with torch.no_grad():
        for n in (5, 6, 7, 9, 11, 8, 4):
            for extra in (0, 1):
                x = torch.randn(16 * n + 1)[extra : 16 * n + extra].view(n, 16)
                torch.testing.assert_close(fast(x), f(x), rtol=1e-3, atol=1e-3)
    stats = pyjit.stats(fast)
    assert stats["hits"] and not stats["reasons"] and not stats["eager_calls"], stats


def test_expanded_arguments_anywhere() -> None:
    """An argument whose elements share memory is brought to where kernels find it, too."""
    import pyjit

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x).cumsum(0) + x.sum()

    fast = pyjit.compile(f, options={"simulated_device": True, "strict": True})
    with torch.no_grad():
        for offset in (0, 1, 2, 3, 0, 1):
            rows = torch.randn(16 * 2 + offset)[offset:].view(2, 1, 16)[1]
            x = rows.expand(4, 16)
            torch.testing.assert_close(fast(x), f(x))
    stats = pyjit.stats(fast)
    assert stats["hits"] == 5 and not stats["reasons"], stats
