# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matmuls of one row are kernels on a (simulated) device, with what stands behind them."""

from __future__ import annotations

from collections.abc import Callable

import pyjit
import pytest
import torch
from torch import nn
from torch.nn import functional

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
VENDOR = ("aten::linear", "aten::addmm", "aten::mm", "aten::bmm", "aten::matmul")


def draw(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator).to(dtype)


def check(f: Callable, *calls: tuple, kernels: bool = True) -> None:
    """Errors against double precision are at most those of eager, but for a rounding."""
    fast = pyjit.compile(f, options={"simulated_device": True})
    with torch.no_grad():
        for args in calls:
            for _ in range(2):
                want, have = f(*args), fast(*args)
                assert have.dtype == want.dtype
                assert have.stride() == want.stride()
                exact = f(*(arg.double() for arg in args))
                allowed = (want - exact).abs().max().item()
                scale = exact.abs().max().item() * torch.finfo(want.dtype).eps
                assert (have - exact).abs().max().item() <= 1.5 * allowed + scale
        text = str(pyjit.explain(fast, detail="launch")(*calls[-1]))
    called = [name for name in VENDOR if name in text]
    assert not called if kernels else called, text


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 96), (1, 1, 96), (96,)], ids=str)
def test_linear(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    def f(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, w, b).relu()

    x, w, b = (
        draw(*shape, dtype=dtype),
        draw(40, 96, dtype=dtype),
        draw(40, dtype=dtype),
    )
    check(f, (x, w, b), kernels=len(shape) > 1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_conv1d(dtype: torch.dtype) -> None:
    """GPT-2's layer, whose weight is in x out."""

    def f(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return functional.gelu(torch.addmm(b, x, w), approximate="tanh")

    check(
        f, (draw(1, 96, dtype=dtype), draw(96, 40, dtype=dtype), draw(40, dtype=dtype))
    )


@pytest.mark.parametrize("form", [torch.mm, torch.matmul])
def test_views(form: Callable) -> None:
    """The last row of several, columns that lie apart, a weight that is turned."""

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return form(x[-1:, ::2], w.t()) + form(x[:1, :24], w[:, 8:32].t())

    check(f, (draw(5, 96)[:, :96], draw(20, 48)))


def test_gated() -> None:
    """Two matmuls and the gate between them."""

    def f(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return functional.silu(functional.linear(x, gate)) * functional.linear(x, up)

    check(f, (draw(1, 1, 64), draw(120, 64), draw(120, 64)))


def test_batches_of_lengths() -> None:
    """Attention by hand: sums over, and columns of, a number that differs between calls."""

    def f(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.matmul(torch.matmul(q, k.transpose(-1, -2)).softmax(-1), v)

    check(
        f,
        *(
            (draw(2, 4, 1, 16), draw(2, 4, n, 16), draw(2, 4, n, 16))
            for n in (5, 6, 7, 1, 33)
        ),
    )


def test_more_rows_stay() -> None:
    check(functional.linear, (draw(2, 64), draw(32, 64)), kernels=False)


def test_sums_of_nothing() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, w) + 1

    for n in (3, 0, 5):
        check(f, (draw(1, n), draw(n, 4)), kernels=n > 0)
    check(f, *((draw(1, n), draw(n, 4)) for n in (3, 5, 6, 7, 0)), kernels=False)


def test_special_values() -> None:
    """What is infinite or no number is so in the sum, as in eager."""
    x = torch.tensor([[1.0, torch.inf, -torch.inf, torch.nan]])
    for w in (torch.eye(4), torch.zeros(4, 4), torch.full((4, 4), -1.0)):
        fast = pyjit.compile(torch.mm, options={"simulated_device": True})
        with torch.no_grad():
            for _ in range(2):
                torch.testing.assert_close(fast(x, w), torch.mm(x, w), equal_nan=True)


def test_weights_of_a_model_change() -> None:
    """Kernels read a weight where it is: there is no copy that could be stale."""
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8)).eval()
    fast = pyjit.compile(model, options={"simulated_device": True})
    x = draw(1, 32)
    with torch.no_grad():
        for _ in range(4):
            torch.testing.assert_close(fast(x), model(x), rtol=1e-5, atol=1e-5)
            model[0].weight.mul_(1.5)
            model[2].weight.data = torch.randn(8, 64)
