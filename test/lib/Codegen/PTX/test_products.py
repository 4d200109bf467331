# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matmuls of few rows in half precision: tensor cores simulated, against float64."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
import torch
from lib.Codegen.PTX.kernels import CHIPS, LIBRARY, Program
from lib.Codegen.PTX.test_kernels import Function, make

BUILD = Path(os.environ.get("PYJIT_BUILD", Path(__file__).parents[4] / "build"))
pytestmark = pytest.mark.skipif(
    not (BUILD / LIBRARY).exists(), reason="pyjit_test_ptx is not built"
)

HALVES = [torch.float16, torch.bfloat16]


def linear(
    x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """In double precision, rounded once."""
    wanted = torch.nn.functional.linear(
        x.double(), w.double(), None if bias is None else bias.double()
    )
    return wanted.to(x.dtype)


def of_products(program: Program) -> list[bool]:
    return [
        'family = "product"' in kernel.schedule for kernel in program.kernels.values()
    ]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("rows", [2, 3, 7, 8, 9, 15, 16])
def test_rows(rows: int, dtype: torch.dtype) -> None:
    x, w = make((rows, 256), dtype), make((48, 256), dtype, seed=1)
    f = Function(x, w)
    program = f.check(f.op("linear", "{}, {}, none", linear(x, w), x, w), chips=CHIPS)
    assert of_products(program) == [True]


@pytest.mark.parametrize("columns", [2, 5, 15, 16, 17, 100, 500])
@pytest.mark.parametrize("length", [32, 64, 96, 1056, 4096])
def test_sizes(columns: int, length: int) -> None:
    x, w = make((8, length), torch.float16), make((columns, length), torch.float16, 1)
    f = Function(x, w)
    program = f.check(f.op("linear", "{}, {}, none", linear(x, w), x, w))
    assert of_products(program) == [True]


@pytest.mark.parametrize("dtype", HALVES)
def test_what_follows_is_fused(dtype: torch.dtype) -> None:
    """Bias, activation and residual, for rows of several dims."""
    x, w = make((2, 3, 128), dtype), make((40, 128), dtype, seed=1)
    bias, residual = make((40,), dtype, seed=2), make((2, 3, 40), dtype, seed=3)
    f = Function(x, w, bias, residual)
    sums = linear(x, w, bias)
    y = f.op("linear", "{}, {}, {}", sums, x, w, bias)
    y = f.op("relu", "{}", y.relu(), y)
    y = f.op("add.Tensor", "{}, {}, 1 : i64", y + residual, y, residual)
    program = f.check(y, scale=2)
    assert of_products(program) == [True]


def test_what_stands_in_front_is_a_kernel_of_its_own() -> None:
    x, w = make((8, 128), torch.float16), make((64, 128), torch.float16, seed=1)
    f = Function(x, w)
    y = f.op("relu", "{}", x.relu(), x)
    y = f.op("linear", "{}, {}, none", linear(x.relu(), w), y, w)
    program = f.check(y)
    assert sorted(of_products(program)) == [False, True]


def test_operands_as_they_lie() -> None:
    """Rows apart, half of them beside whole vectors, a weight seen turned."""
    x = make((8, 204), torch.float16)[:, :128]
    w = make((64, 136), torch.float16, seed=1)[:, :128]
    f = Function(x, w.t())
    program = f.check(f.op("mm", "{}, {}", linear(x, w), x, f.inputs[1]))
    assert of_products(program) == [True]


@pytest.mark.parametrize("dtype", HALVES)
def test_what_is_not_finite_stays_in_its_row(dtype: torch.dtype) -> None:
    inf, nan = float("inf"), float("nan")
    x, w = make((5, 352), dtype), make((24, 352), dtype, seed=1)
    x[1, 3], x[2, 351] = inf, nan
    w[7, 350] = -inf
    f = Function(x, w)
    program = f.check(f.op("linear", "{}, {}, none", linear(x, w), x, w))
    assert of_products(program) == [True]


def schedule(vectors: int, threads: int, group: int = 1) -> str:
    return (
        f'{{family = "product", lanes = 8, vectors = {vectors}, threads = {threads}, '
        f"group = {group}}}"
    )


@pytest.mark.parametrize("seed", range(16))
def test_schedules(seed: int) -> None:
    """Any number of warps, columns and loads in flight, whatever rest they leave."""
    draw = random.Random(seed)
    rows, group = draw.randint(2, 16), draw.choice([1, 2, 3, 4])
    warps = draw.randint(1, 10 if group > 2 else 16)
    length, columns = 32 * draw.randint(1, 40), draw.randint(2, 150)
    dtype = draw.choice(HALVES)
    x, w = make((rows, length), dtype, seed), make((columns, length), dtype, seed + 99)
    bias = make((columns,), dtype, seed + 7)
    f = Function(x, w, bias)
    wanted = f.op("linear", "{}, {}, {}", linear(x, w, bias), x, w, bias)
    # ptxas has room for so many loads of a thread.
    given = schedule(draw.randint(1, 8 // group), 32 * warps, group)
    assert of_products(f.check(wanted, schedule=given)) == [True]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (schedule(4, 1024, 3), "sums of 53248 bytes in shared memory"),
        (
            '{family = "product", lanes = 4, vectors = 1, threads = 256}',
            "eight elements along its sum",
        ),
    ],
)
def test_schedules_that_do_not_fit(given: str, said: str) -> None:
    x, w = make((8, 64), torch.float16), make((16, 64), torch.float16, seed=1)
    f = Function(x, w)
    wanted = f.op("linear", "{}, {}, none", linear(x, w), x, w)
    with pytest.raises(ValueError, match=said):
        f.check(wanted, schedule=given)


def test_other_kernels_are_no_products() -> None:
    x = make((8, 64))
    f = Function(x)
    wanted = f.op("sum.dim_IntList", "{}, [1 : i64], false, none", x.sum(1), x)
    with pytest.raises(ValueError, match="no product of few rows"):
        f.check(wanted, schedule=schedule(4, 256))
