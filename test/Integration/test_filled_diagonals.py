# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`fill_diagonal_`, which fills a view by strides: of results, inputs, parts, with gradients and in many sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import difference, snapshot


def _of_result(x: torch.Tensor) -> Any:
    y = x @ x.T
    y.fill_diagonal_(0.5)
    return y.tanh() * x.sum()


def _of_clone(x: torch.Tensor) -> Any:
    return x.clone().fill_diagonal_(-1) * x


def _of_part(x: torch.Tensor) -> Any:
    y = x * 2
    y[1:, 1:].fill_diagonal_(7)
    y.T.fill_diagonal_(3)
    return y


def _wrapped(x: torch.Tensor) -> Any:
    y = x.repeat(4, 1)
    return y.fill_diagonal_(1.0, wrap=True)


def _mask(x: torch.Tensor) -> Any:
    keep = torch.ones(x.shape[0], x.shape[0], dtype=torch.bool)
    keep.fill_diagonal_(False)
    return (x @ x.T).masked_fill(~keep, float("-inf")).softmax(-1)


FUNCTIONS = [_of_result, _of_clone, _of_part, _wrapped, _mask]


@pytest.mark.parametrize("grad", [False, True], ids=["plain", "grad"])
@pytest.mark.parametrize("f", FUNCTIONS)
def test_function(f: Callable[..., Any], grad: bool) -> None:
    fast = pyjit.compile(f)
    for n in range(10):
        seen = []
        for call in (f, fast):
            x = torch.randn(3 + n // 3, 4, generator=torch.Generator().manual_seed(n))
            x.requires_grad_(grad)
            result = call(x)
            if grad:
                result.sum().backward()
            # How often a gradient was written differs (docs/Status.md).
            seen.append(snapshot([result, x.grad.clone() if grad else None]))
        assert not (found := difference(*seen)), f"call {n}: {found}"
    stats = pyjit.stats(fast)
    assert stats["hits"] >= 4
    assert f is _wrapped or not stats["graph_breaks"]


def test_input() -> None:
    """Versions, too; an input may begin anywhere in its storage."""

    def f(x: torch.Tensor) -> torch.Tensor:
        x.fill_diagonal_(2)
        return x.sum()

    fast = pyjit.compile(f)
    for n in range(6):
        seen = []
        for call in (f, fast):
            base = torch.arange(40.0).reshape(8, 5)
            x = base[n % 3 : n % 3 + 4, : 3 + n % 2]
            seen.append(snapshot([call(x), x, base]))
        assert not (found := difference(*seen)), f"call {n}: {found}"
    assert pyjit.stats(fast)["hits"]
