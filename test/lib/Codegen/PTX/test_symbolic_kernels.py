# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels whose sizes differ between calls: compiled once, their schedules run for many sizes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lib.Codegen.PTX.kernels import CHIPS, LIBRARY, NAMES, PTXAS, Program, assemble
from lib.Codegen.PTX.test_kernels import close, make

BUILD = Path(os.environ.get("PYJIT_BUILD", Path(__file__).parents[4] / "build"))
pytestmark = pytest.mark.skipif(
    not (BUILD / LIBRARY).exists(), reason="pyjit_test_ptx is not built"
)


def layout(sizes: str, strides: str = "", dtype: torch.dtype = torch.float32) -> str:
    """The type of a tensor with these sizes, row-major unless strides are given."""
    parts = [s.strip() for s in sizes.split(",")]
    if not strides:
        rest = [" * ".join(parts[i + 1 :]) or "1" for i in range(len(parts))]
        strides = ", ".join(rest)
    shape = "".join(f"{s if s.isdigit() else '?'}x" for s in parts)
    if "s" not in sizes + strides:
        return f"tensor<{shape}{NAMES[dtype]}>"
    return f"tensor<{shape}{NAMES[dtype]}, #tssa.layout<[{sizes}], [{strides}]>>"


class Versions:
    """A program whose kernels take sizes as parameters, and one whose kernels read them on the device.

    The latter is launched with more blocks than sizes ask for. Both give the same, bit for bit.
    """

    def __init__(self, text: str, chip: str, simulate: bool, schedule: str) -> None:
        self.all = [
            Program(BUILD, text, chip, simulate, schedule, device_sizes)
            for device_sizes in (False, True)
        ]

    def run(self, *tensors: torch.Tensor, symbols: Sequence[int]) -> list[torch.Tensor]:
        by_value, on_device = (p.run(*tensors, symbols=symbols) for p in self.all)
        for one, other in zip(by_value, on_device, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
        return by_value


def compiled(
    arguments: Sequence[str],
    lines: Sequence[str],
    results: Sequence[tuple[str, str]],
    chips: Sequence[str] = CHIPS,
    schedule: str = "",
) -> Versions:
    """`lines` define values over `%a0`, `%a1`, …; `results` are some of them and their types."""
    takes = ", ".join(f"%a{i}: {t}" for i, t in enumerate(arguments))
    types = ", ".join(t for _, t in results)
    values = ", ".join(v for v, _ in results)
    text = "\n".join(
        [f"func.func @main({takes}) -> ({types}) {{", *lines]
        + [f"  return {values} : {types}", "}"]
    )
    for chip in chips:
        program = Versions(text, chip, chip == chips[-1], schedule)
        for version in program.all if PTXAS is not None else []:
            # Of schedules that the cost model would not choose, registers may be short.
            assert assemble(version.ptx, chip, may_spill=bool(schedule)) == []
    return program


def op(
    result: str, name: str, args: str, types: Sequence[str], result_type: str
) -> str:
    return f'  {result} = tssa.aten "aten::{name}"({args}) : ({", ".join(types)}) -> {result_type}'


BATCHES = [2, 3, 5, 17, 64, 200]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("inner", ["64", "33", ""])
def test_pointwise(dtype: torch.dtype, inner: str) -> None:
    sizes = f"s0, {inner}" if inner else "s0"
    t = layout(sizes, dtype=dtype)
    program = compiled(
        [t, t],
        [
            op("%0", "add.Tensor", "%a0, %a1, 2 : i64", [t, t], t),
            op("%1", "relu", "%0", [t], t),
        ],
        [("%1", t)],
    )
    for n in [*BATCHES, 1003]:
        shape = (n, int(inner)) if inner else (n,)
        x, y = make(shape, dtype), make(shape, dtype, 1)
        close(program.run(x, y, symbols=[n])[0], (x + 2 * y).relu())


def test_broadcast_and_strides() -> None:
    x, y = layout("s0, s1"), layout("s1, s0", "s0, 1")
    turned = layout("s0, s1", "1, s0")
    b = layout("s1")
    program = compiled(
        [x, y, b],
        [
            f"  %0 = tssa.access %a1 [#tssa.view<permute [1, 0]>] : {y} -> {turned}",
            op("%1", "add.Tensor", "%a0, %0, 1 : i64", [x, turned], x),
            op("%2", "mul.Tensor", "%1, %a2", [x, b], x),
        ],
        [("%2", x)],
    )
    for n, m in [(2, 2), (2, 3), (5, 4), (17, 64), (64, 17), (100, 33)]:
        p, q, r = make((n, m)), make((m, n), seed=1), make((m,), seed=2)
        close(program.run(p, q, r, symbols=[n, m])[0], (p + q.t()) * r)


def test_transposed_tiles() -> None:
    """Shared-memory tiles whose square lies along a symbolic dim."""
    x, y = layout("s0, 64"), layout("64, s0", "1, 64")
    dense = layout("64, s0")
    program = compiled(
        [x],
        [
            f"  %0 = tssa.access %a0 [#tssa.view<permute [1, 0]>] : {x} -> {y}",
            op("%1", "clone", "%0, 0 : i64", [y], dense),
        ],
        [("%1", dense)],
    )
    for n in BATCHES:
        p = make((n, 64))
        close(program.run(p, symbols=[n])[0], p.t().contiguous())


@pytest.mark.parametrize("length", ["64", "1000", "1001", "4096", "s1"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_rows(length: str, dtype: torch.dtype) -> None:
    t, row = layout(f"s0, {length}", dtype=dtype), layout("s0", dtype=dtype)
    program = compiled(
        [t],
        [
            op("%0", "softmax.int", "%a0, -1 : i64, none", [t], t),
            op("%1", "sum.dim_IntList", "%a0, [1 : i64], false, none", [t], row),
        ],
        [("%0", t), ("%1", row)],
    )
    lengths = [2, 3, 31, 64, 65, 300, 5000] if length == "s1" else [int(length)]
    for n in [2, 3, 17]:
        for m in lengths:
            x = make((n, m), dtype)
            got = program.run(x, symbols=[n, m])
            close(got[0], x.softmax(-1), 2)
            close(got[1], x.sum(1), 8)


@pytest.mark.parametrize("width", ["64", "33", "s1"])
def test_columns(width: str) -> None:
    t, row = layout(f"s0, {width}"), layout(width)
    program = compiled(
        [t],
        [
            op("%0", "softmax.int", "%a0, 0 : i64, none", [t], t),
            op("%1", "sum.dim_IntList", "%a0, [0 : i64], false, none", [t], row),
        ],
        [("%0", t), ("%1", row)],
    )
    for n in BATCHES:
        for m in [2, 5, 40] if width == "s1" else [int(width)]:
            x = make((n, m))
            got = program.run(x, symbols=[n, m])
            close(got[0], x.softmax(0), 2)
            close(got[1], x.sum(0), 8)


def test_whole_sums() -> None:
    t = layout("s0, 64")
    program = compiled(
        [t],
        [
            op("%0", "sum", "%a0, none", [t], "tensor<f32>"),
            op("%1", "amax", "%a0, [0 : i64, 1 : i64], false", [t], "tensor<f32>"),
        ],
        [("%0", "tensor<f32>"), ("%1", "tensor<f32>")],
    )
    for n in [*BATCHES, 3000]:
        x = make((n, 64))
        got = program.run(x, symbols=[n])
        close(got[0], x.sum(), 20)
        close(got[1], x.amax())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layer_norm(dtype: torch.dtype) -> None:
    t, w = layout("s0, s1, 96", dtype=dtype), f"tensor<96x{NAMES[dtype]}>"
    program = compiled(
        [t, w, w],
        [
            op(
                "%0",
                "layer_norm",
                "%a0, [96 : i64], %a1, %a2, 1.0e-05 : f64, true",
                [t, w, w],
                t,
            ),
            op("%1", "gelu", '%0, "none"', [t], t),
        ],
        [("%1", t)],
    )
    for n, m in [(2, 2), (3, 5), (2, 77)]:
        x, a, b = make((n, m, 96), dtype), make((96,), dtype, 1), make((96,), dtype, 2)
        f = torch.nn.functional
        wanted = f.gelu(f.layer_norm(x, (96,), a, b))
        close(program.run(x, a, b, symbols=[n, m])[0], wanted, 4)


def test_parts() -> None:
    """Offsets and strides that are polynomials."""
    x, less, dense = (
        layout("s0, s1"),
        layout("s0, s1 - 1", "s1, 1"),
        layout("s0, s1 - 1"),
    )
    program = compiled(
        [x],
        [
            f"  %0 = tssa.access %a0 [#tssa.view<slice [1, 1, s1 - 1, 1]>] : {x} -> {less}",
            f"  %1 = tssa.access %a0 [#tssa.view<slice [1, 0, s1 - 1, 1]>] : {x} -> {less}",
            op("%2", "sub.Tensor", "%0, %1, 1 : i64", [less, less], dense),
        ],
        [("%2", dense)],
    )
    for n, m in [(2, 3), (5, 4), (17, 64), (40, 33)]:
        p = make((n, m))
        got = program.run(p, symbols=[n, m])
        close(got[0], p[:, 1:] - p[:, :-1])


SCHEDULES = [
    '{family = "row", lanes = 1, vectors = 3, threads = 96, group = 16, resident = false}',
    '{family = "row", lanes = 4, vectors = 2, threads = 64, group = 1, resident = false}',
    '{family = "row", lanes = 2, vectors = 1, threads = 256, group = 128, resident = false}',
]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_given_schedules(schedule: str) -> None:
    """Rows of a symbolic length, known to be a multiple of four."""
    t, row = layout("s0, s1 * 4"), layout("s0")
    program = compiled(
        [t],
        [
            op("%0", "sum.dim_IntList", "%a0, [1 : i64], false, none", [t], row),
            op("%1", "sub.Tensor", "%0, %0, 1 : i64", [row, row], row),
        ][:1],
        [("%0", row)],
        ("sm_90",),
        schedule,
    )
    for n, m in [(2, 2), (3, 5), (17, 16), (2, 400)]:
        x = make((n, 4 * m))
        close(program.run(x, symbols=[n, m])[0], x.sum(1), 4)


def test_refused_schedules() -> None:
    t, row = layout("s0, s1"), layout("s0")
    lines = [op("%0", "sum.dim_IntList", "%a0, [1 : i64], false, none", [t], row)]
    for schedule, reason in [
        (
            '{family = "row", lanes = 4, vectors = 1, threads = 64, group = 32, resident = false}',
            "vectors need not divide the dim",
        ),
        (
            '{family = "row", lanes = 1, vectors = 8, threads = 64, group = 32, resident = true}',
            "differs between calls",
        ),
    ]:
        with pytest.raises(ValueError, match=reason):
            compiled([t], lines, [("%0", row)], ("sm_90",), schedule)


PROGRAMS: dict[str, Callable[[], tuple[Program, Callable]]] = {}


@st.composite
def two_sizes(draw: st.DrawFn) -> tuple[int, int]:
    size = st.one_of(st.integers(2, 12), st.sampled_from([31, 32, 33, 127, 130, 257]))
    return draw(size), draw(size)


def _mixed() -> tuple[Program, Callable]:
    x, b, row, flat = (
        layout("s0, s1, 6"),
        layout("s1, 1", "1, 1"),
        layout("s0, s1"),
        layout("s0 * s1, 6"),
    )
    program = compiled(
        [x, b],
        [
            op("%0", "mul.Tensor", "%a0, %a1", [x, b], x),
            op("%1", "softmax.int", "%0, 1 : i64, none", [x], x),
            f"  %2 = tssa.access %1 [#tssa.view<view [s0 * s1, 6]>] : {x} -> {flat}",
            op("%3", "tanh", "%2", [flat], flat),
            op("%4", "amax", "%0, [2 : i64], false", [x], row),
        ],
        [("%3", flat), ("%4", row)],
        ("sm_90",),
    )

    def eager(p: torch.Tensor, q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = p * q
        return y.softmax(1).view(-1, 6).tanh(), y.amax(2)

    return program, eager


@settings(max_examples=40, deadline=None)
@given(two_sizes())
def test_any_sizes(sizes: tuple[int, int]) -> None:
    if "mixed" not in PROGRAMS:
        made = _mixed()
        PROGRAMS["mixed"] = lambda: made
    program, eager = PROGRAMS["mixed"]()
    n, m = sizes
    x, b = make((n, m, 6)), make((m, 1), seed=1)
    for got, wanted in zip(program.run(x, b, symbols=[n, m]), eager(x, b), strict=True):
        close(got, wanted, 4)
