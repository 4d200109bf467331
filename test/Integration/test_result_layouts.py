# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What library calls of gradients return lies as their programs are compiled for: nothing is copied to another layout."""

from __future__ import annotations

from collections.abc import Callable

import pyjit
import pytest
import torch
from torch.nn import functional as F

ROWS, LENGTH, HEADS, SIZE = 2, 6, 3, 8
Operands = tuple[torch.Tensor, ...]


def split(x: torch.Tensor) -> Operands:
    """As GPT-2 has them: parts of one matmul's result, rows first."""
    return tuple(
        t.view(ROWS, LENGTH, HEADS, SIZE).transpose(1, 2)
        for t in x.view(ROWS, LENGTH, -1).split(HEADS * SIZE, -1)
    )


def packed(x: torch.Tensor) -> Operands:
    """As timm's vision transformers have them."""
    return x.view(ROWS, LENGTH, 3, HEADS, SIZE).permute(2, 0, 3, 1, 4).unbind(0)


def rows_first(x: torch.Tensor) -> Operands:
    return tuple(
        t.contiguous().view(ROWS, LENGTH, HEADS, SIZE).transpose(1, 2)
        for t in x.view(ROWS, LENGTH, -1).chunk(3, -1)
    )


def heads_first(x: torch.Tensor) -> Operands:
    return tuple(t.contiguous() for t in packed(x))


FORMS = (split, packed, rows_first, heads_first)


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_attention(form: Callable[[torch.Tensor], Operands]) -> None:
    check_attention("cpu", torch.float32, form)


def check_attention(
    device: str,
    dtype: torch.dtype,
    form: Callable[[torch.Tensor], Operands],
    **how: float,
) -> None:
    """``how``: of ``scaled_dot_product_attention``."""
    torch.manual_seed(0)
    x = torch.randn(ROWS * LENGTH * 3 * HEADS * SIZE, device=device, dtype=dtype)

    def step(x: torch.Tensor) -> Operands:
        y = F.scaled_dot_product_attention(*form(x * 2), **how)
        y = y.transpose(1, 2).reshape(ROWS, LENGTH, -1)
        (gradient,) = torch.autograd.grad(y.square().sum(), x)
        return y.detach(), gradient

    def answer(f: Callable, call: int) -> Operands:
        given = (x + call).requires_grad_()
        torch.manual_seed(call)
        return f(given)

    fast = pyjit.compile(step)
    answer(fast, 0)
    before = pyjit._C.relaid_results()
    for call in range(4):
        torch.testing.assert_close(
            answer(fast, call), answer(step, call), rtol=2e-2, atol=2e-2
        )
    assert pyjit.stats(fast)["graph_breaks"] == 0
    assert pyjit.stats(fast)["hits"] >= 3
    assert pyjit._C.relaid_results() == before
