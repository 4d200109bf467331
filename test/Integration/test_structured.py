# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Joins, indexed reads, positions of extremes and group norm as kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F


def agree(f: Callable[..., Any], *args: Any, calls: int | None = None) -> None:
    """Compiled and eager agree on the recorded call and on the next one."""
    compiled = pyjit.compile(f)
    with torch.no_grad():
        for _ in range(2):
            want, have = f(*args), compiled(*args)
            torch.testing.assert_close(have, want, equal_nan=True)
            if isinstance(want, torch.Tensor):
                assert have.stride() == want.stride()
    (specialization,) = pyjit.specializations(compiled)
    assert specialization["hits"] == 1
    if calls is not None:
        assert specialization["vendor_calls"] == calls


def values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if not dtype.is_floating_point:
        return torch.randint(-100, 100, shape, generator=generator).to(dtype)
    return torch.randn(shape, generator=generator).to(dtype)


DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.bool]


@pytest.mark.parametrize("dtype", DTYPES)
def test_cat(dtype: torch.dtype) -> None:
    a, b, c = (values(n, 24, dtype=dtype) for n in (3, 5, 2))
    agree(lambda a, b, c: torch.cat([a, b, c]), a, b, c, calls=0)
    agree(lambda a, b, c: torch.cat([a.t(), b.t(), c.t()], 1), a, b, c)
    x, y = values(4, 6, 16, dtype=dtype), values(4, 6, 32, dtype=dtype)
    agree(lambda x, y: torch.cat([x, y, x], -1), x, y, calls=0)
    agree(lambda x, y: torch.cat([x[:, 1:3], y[:, :, :16]], 1), x, y, calls=0)


def test_cat_of_what_is_computed() -> None:
    def rotary(x: torch.Tensor, c: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        half = x.shape[-1] // 2
        turned = torch.cat([-x[..., half:], x[..., :half]], -1)
        return x * c + turned * s

    x = values(2, 4, 10, 64)
    compiled = pyjit.compile(rotary)
    c, s = values(10, 64), values(1, 10, 64)
    agree(rotary, x, c, s, calls=0)
    compiled(x, c, s)
    (specialization,) = pyjit.specializations(compiled)
    assert specialization["kernels"] == 1


def test_cat_that_stays_a_vendor_call() -> None:
    a, b = values(4, 3), values(4, 1)
    agree(lambda a, b: torch.cat([a, b], 1), a, b)
    agree(lambda a, b: torch.cat([a, b.long()], 1), a, b)
    agree(lambda a, b: torch.cat([a, b], 0), a, torch.zeros(0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_stack_and_repeat(dtype: torch.dtype) -> None:
    a, b = values(5, 16, dtype=dtype), values(5, 16, dtype=dtype)
    for dim in (0, 1, -1):
        agree(lambda a, b, dim=dim: torch.stack([a, b, a], dim), a, b)
    agree(lambda a, b: a.repeat(2, 3), a, b)
    agree(lambda a, b: a.repeat(2, 1, 2), a, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index_dtype", [torch.int64, torch.int32])
def test_indexed_reads(dtype: torch.dtype, index_dtype: torch.dtype) -> None:
    table = values(7, 20, dtype=dtype)
    index = torch.tensor([[3, 0], [6, 6], [1, 2]], dtype=index_dtype)
    if dtype.is_floating_point:
        agree(lambda t, i: F.embedding(i, t), table, index)
        agree(lambda t, i: F.embedding(i, t.t()), table, index)
    agree(lambda t, i: t.index_select(0, i[:, 0]), table, index)
    agree(lambda t, i: t.index_select(1, i[0]), table, index)
    agree(lambda t, i: t.t().index_select(-1, i[1]), table, index)
    agree(lambda t, i: t[i], table, index)
    agree(lambda t, i: t[:, i], table, index)
    agree(lambda t, i: t[i - 7], table, index)
    if index_dtype == torch.int64:
        agree(lambda t, i: t.gather(0, i), table, index)
        agree(lambda t, i: t.gather(1, i), table, index)
    agree(lambda t, i: (t * 2)[i[:, 0]] if t.dtype != torch.bool else t, table, index)


@pytest.mark.parametrize(
    ("read", "bad"),
    [
        (lambda t, i: F.embedding(i, t), 7),
        (lambda t, i: F.embedding(i, t), -1),
        (lambda t, i: t.index_select(0, i), 7),
        (lambda t, i: t.index_select(0, i), -1),
        (lambda t, i: t[i], 7),
        (lambda t, i: t[i], -8),
        (lambda t, i: t.gather(0, i[:, None]), 7),
        (lambda t, i: t.gather(0, i[:, None]), -1),
    ],
)
@pytest.mark.filterwarnings("ignore:.*ran in eager")
def test_out_of_range(read: Callable[..., torch.Tensor], bad: int) -> None:
    """A compiled call raises what eager raises, and is right again after it."""
    compiled = pyjit.compile(read)
    table, good = values(7, 20), torch.tensor([0, 6, 3])
    wrong = torch.tensor([0, bad, 3])
    compiled(table, good)
    with pytest.raises((IndexError, RuntimeError)) as expected:
        read(table, wrong)
    with pytest.raises((IndexError, RuntimeError)) as raised:
        compiled(table, wrong)
    assert raised.type is expected.type
    assert str(raised.value) == str(expected.value)
    torch.testing.assert_close(compiled(table, good), read(table, good))


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.int64, torch.int32]
)
def test_positions(dtype: torch.dtype) -> None:
    x = values(6, 33, 5, dtype=dtype)
    x[:, 7] = x[:, 20]
    for dim in (0, 1, -1):
        agree(lambda x, dim=dim: x.argmax(dim), x)
        agree(lambda x, dim=dim: x.argmin(dim, True), x)
        agree(lambda x, dim=dim: tuple(x.max(dim)), x)
        agree(lambda x, dim=dim: tuple(x.min(dim, keepdim=True)), x)
    agree(lambda x: x.reshape(-1).argmax(0), x)
    agree(lambda x: x.argmax(), x)


def test_positions_of_what_is_no_number() -> None:
    x = values(4, 40)
    x[0, 3] = x[0, 30] = float("nan")
    x[1, :] = float("inf")
    x[2, :] = float("-inf")
    agree(lambda x: (x.argmax(1), x.argmin(1), *x.max(1), *x.min(1)), x)


@pytest.mark.parametrize("affine", [True, False])
def test_group_norm(affine: bool) -> None:
    norm = torch.nn.GroupNorm(4, 12, affine=affine)
    if affine:
        torch.nn.init.normal_(norm.weight)
        torch.nn.init.normal_(norm.bias)
    agree(norm, values(2, 12, 5, 7), calls=0)
    agree(norm, values(3, 12), calls=0)
    agree(norm, values(2, 12, 6, 6).to(memory_format=torch.channels_last))


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float16, torch.int8, torch.int16])
@pytest.mark.parametrize("shape", [(64, 64), (100, 70), (3, 9), (17, 200), (8, 8)])
def test_turned(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    x = values(*shape, dtype=dtype)
    agree(lambda x: x.t().contiguous(), x, calls=0)
    y = values(*reversed(shape), dtype=dtype)
    agree(lambda x, y: torch.where(y == x.t(), y, x.t()), x, y)
    agree(lambda x: x.unsqueeze(0).repeat(3, 1, 1).transpose(1, 2).contiguous(), x)


@pytest.mark.parametrize("size", [1 << 16, 100_000, 1 << 20, 65_537])
def test_split_reductions(size: int) -> None:
    for dtype in (torch.float32, torch.float64, torch.int64, torch.bool):
        x = values(size, dtype=dtype)
        if dtype.is_floating_point:
            agree(lambda x: (x.mean(), x.max(), x.min(), x.sum().sqrt()), x)
            agree(lambda x: (x - x.mean()).square().sum(), x)
        else:
            agree(lambda x: (x.sum(), x.any(), x.all()), x)
        agree(lambda x: (x.view(2, -1) if x.numel() % 2 == 0 else x).sum(0), x)
        agree(lambda x: (x.view(2, -1) if x.numel() % 2 == 0 else x).sum(-1), x)


def test_half_precision_sums(one_thread: None) -> None:
    """Eager's threads round their parts of a sum; how many there are, the machine says."""
    for dtype in (torch.bfloat16, torch.float16):
        x = values(1 << 17, dtype=dtype)
        agree(lambda x: (x.sum(), x.max(), x * 2, x.view(8, -1).sum(1)), x)
