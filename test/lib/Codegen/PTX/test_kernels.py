# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of every family: assembled for each chip, their schedules run and compared.

Operators are given as functions on tssa, fused as in the product; what eager
PyTorch answers is the truth.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from lib.Codegen.PTX.kernels import (
    CHIPS,
    LIBRARY,
    PTXAS,
    Program,
    assemble,
    tensor_type,
)

BUILD = Path(os.environ.get("PYJIT_BUILD", Path(__file__).parents[4] / "build"))
pytestmark = pytest.mark.skipif(
    not (BUILD / LIBRARY).exists(), reason="pyjit_test_ptx is not built"
)

TOLERANCE = {
    torch.float16: 2e-3,
    torch.bfloat16: 1.6e-2,
    torch.float32: 2e-6,
    torch.float64: 1e-12,
}


class Function:
    """Writes `@main` over the operators that eager PyTorch is called with."""

    def __init__(self, *inputs: torch.Tensor) -> None:
        self.inputs = inputs
        self.lines: list[str] = []
        self.names = {id(t): f"%a{i}" for i, t in enumerate(inputs)}
        self.kept = list(inputs)

    def op(
        self, name: str, args: str, result: torch.Tensor, *tensors: torch.Tensor
    ) -> torch.Tensor:
        """Adds a call whose `{}` in `args` are `tensors`, and whose value is `result`."""
        value = f"%v{len(self.lines)}"
        operands = args.format(*(self.names[id(t)] for t in tensors))
        types = ", ".join(tensor_type(t) for t in tensors)
        self.lines.append(
            f'  {value} = tssa.aten "aten::{name}"({operands}) : ({types}) -> {tensor_type(result)}'
        )
        self.names[id(result)] = value
        self.kept.append(result)
        return result

    def view(
        self, source: torch.Tensor, path: str, shown: torch.Tensor
    ) -> torch.Tensor:
        """Adds an access of `source`."""
        value = f"%v{len(self.lines)}"
        self.lines.append(
            f"  {value} = tssa.access {self.names[id(source)]} [#tssa.view<{path}>] : "
            f"{tensor_type(source)} -> {tensor_type(shown)}"
        )
        self.names[id(shown)] = value
        self.kept.append(shown)
        return shown

    def check(
        self,
        *results: torch.Tensor,
        scale: float = 1.0,
        chips: Sequence[str] = ("sm_90",),
        schedule: str = "",
    ) -> Program:
        """Compiles for `chips`, runs the schedules, compares with `results`."""
        arguments = ", ".join(
            f"%a{i}: {tensor_type(t)}" for i, t in enumerate(self.inputs)
        )
        types = ", ".join(tensor_type(t) for t in results)
        values = ", ".join(self.names[id(t)] for t in results)
        text = "\n".join(
            [f"func.func @main({arguments}) -> ({types}) {{", *self.lines]
            + [f"  return {values} : {types}", "}"]
        )
        for chip in chips:
            program = Program(
                BUILD, text, chip, simulate=chip == chips[-1], schedule=schedule
            )
            if PTXAS is not None:
                assert assemble(program.ptx, chip) == []
        before = [t.clone() for t in self.inputs]
        for got, wanted in zip(program.run(*self.inputs), results, strict=True):
            close(got, wanted, scale)
        for now, then in zip(self.inputs, before, strict=True):
            torch.testing.assert_close(now, then, rtol=0, atol=0, equal_nan=True)
        return program


def close(got: torch.Tensor, wanted: torch.Tensor, scale: float = 1.0) -> None:
    """Equal for integers; relative to the largest value for numbers."""
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype
    if not wanted.dtype.is_floating_point:
        assert torch.equal(got, wanted)
        return
    limit = scale * TOLERANCE[wanted.dtype]
    largest = (
        wanted.double().abs().nan_to_num().clamp(max=1e30).max().item()
        if wanted.numel()
        else 0
    )
    torch.testing.assert_close(
        got.double(), wanted.double(), rtol=limit, atol=limit * largest, equal_nan=True
    )


def make(
    shape: Sequence[int], dtype: torch.dtype = torch.float32, seed: int = 0
) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if not dtype.is_floating_point:
        return torch.randint(0, 50, shape, generator=generator).to(dtype)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


SHAPES = [
    (),
    (1,),
    (5,),
    (1003,),
    (64, 512),
    (7, 33),
    (3, 5, 64),
    (2, 3, 4, 5),
    (0, 4),
    (70001,),
]
FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
INTEGERS = [torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8]


@pytest.mark.parametrize("shape", SHAPES)
def test_pointwise_shapes(shape: tuple[int, ...]) -> None:
    x, y = make(shape), make(shape, seed=1)
    f = Function(x, y)
    s = f.op("add.Tensor", "{}, {}, 2 : i64", x + 2 * y, x, y)
    f.check(f.op("relu", "{}", s.relu(), s))


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
@pytest.mark.parametrize("shape", [(1003,), (4, 4096)])
def test_pointwise_types(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, y = make(shape, dtype), make(shape, dtype, seed=1)
    f = Function(x, y)
    p = f.op("mul.Tensor", "{}, {}", x * y, x, y)
    f.check(f.op("maximum", "{}, {}", torch.maximum(p, x), p, x), chips=CHIPS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
def test_compare_and_select(dtype: torch.dtype) -> None:
    x, y, m = (
        make((9, 40), dtype),
        make((9, 40), dtype, seed=1),
        make((40,), torch.bool),
    )
    f = Function(x, y, m)
    c = f.op("gt.Tensor", "{}, {}", x > y, x, y)
    a = f.op("logical_and", "{}, {}", c & m, c, m)
    f.check(f.op("where.self", "{}, {}, {}", torch.where(a, x, y), a, x, y), a)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((64, 32), (32,)),
        ((64, 32), (64, 1)),
        ((8, 1, 6), (5, 1)),
        ((3, 40), ()),
        ((256, 1), (1, 130)),
    ],
)
def test_broadcasts(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    x, y = make(left), make(right, seed=1)
    f = Function(x, y)
    f.check(f.op("mul.Tensor", "{}, {}", x * y, x, y))


STRIDED: list[Callable[[], torch.Tensor]] = [
    lambda: make((33, 70)).t(),
    lambda: make((4, 8, 16)).permute(2, 0, 1),
    lambda: make((4, 8, 16)).permute(1, 0, 2),
    lambda: make((2, 3, 8, 9)).contiguous(memory_format=torch.channels_last),
]


@pytest.mark.parametrize("number", range(len(STRIDED)))
def test_strides(number: int) -> None:
    x = STRIDED[number]()
    y = make(x.shape, seed=1)
    f = Function(x, y)
    f.check(f.op("sub.Tensor", "{}, {}, 1 : i64", torch.sub(y, x), y, x))
    f = Function(x)
    f.check(f.op("neg", "{}", -x, x))


FUNCTIONS = [
    "exp",
    "log",
    "tanh",
    "erf",
    "rsqrt",
    "sigmoid",
    "silu",
    "sqrt",
    "log1p",
    "expm1",
    "floor",
    "round",
]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_functions(name: str, dtype: torch.dtype) -> None:
    x = make((2500,), dtype)
    if name in ("log", "rsqrt", "sqrt", "log1p"):
        x = x.abs()
    f = Function(x)
    result = torch.nn.functional.silu(x) if name == "silu" else getattr(torch, name)(x)
    f.check(f.op(name, "{}", result, x), chips=CHIPS)


ROWS = [
    (1, 1),
    (4, 8),
    (8, 64),
    (3, 1000),
    (5, 1001),
    (2, 4096),
    (2, 20000),
    (300, 16),
    (40, 3),
    (150, 12000),
    (3, 0),
    (0, 7),
]


@pytest.mark.parametrize("shape", ROWS)
def test_row_sums(shape: tuple[int, int]) -> None:
    x = make(shape)
    f = Function(x)
    f.check(f.op("sum.dim_IntList", "{}, [1 : i64], false, none", x.sum(1), x), scale=4)


@pytest.mark.parametrize("shape", [s for s in ROWS if 0 not in s])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_softmax(shape: tuple[int, int], dtype: torch.dtype) -> None:
    x = make(shape, dtype)
    f = Function(x)
    chips = CHIPS if shape[1] in (64, 4096, 20000) else ("sm_90",)
    f.check(f.op("softmax.int", "{}, -1 : i64, none", x.softmax(-1), x), chips=chips)
    f = Function(x)
    f.check(
        f.op("log_softmax.int", "{}, -1 : i64, none", x.log_softmax(-1), x), scale=4
    )


def row(lanes: int, vectors: int, group: int) -> str:
    """A schedule that walks a row once per stage."""
    return (
        f'{{family = "row", lanes = {lanes}, vectors = {vectors}, threads = 128, '
        f"group = {group}, resident = false}}"
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("schedule", [row(1, 3, 1), row(4, 2, 32), row(2, 4, 128)])
def test_maximum_and_sum_in_one_walk(dtype: torch.dtype, schedule: str) -> None:
    """What is not finite means what it means when the maximum is known before."""
    inf, nan = float("inf"), float("nan")
    x = make((13, 772), dtype) * 3
    x[1] = -inf
    x[2, 5] = inf
    x[3, 700] = nan
    x[4, :768] = -inf
    x[5, 4:] = -inf
    x[6, 100:300] = -inf
    x[7] = -60000
    x[8] = torch.arange(772).to(dtype) - 200
    x[9] = 200 - torch.arange(772).to(dtype)
    x[10, ::2] = -inf
    x[10, 771] = inf
    x[11] = inf
    x[12, 3], x[12, 500] = inf, -inf
    for name, args, wanted in [
        ("softmax.int", "{}, -1 : i64, none", x.softmax(-1)),
        ("log_softmax.int", "{}, -1 : i64, none", x.log_softmax(-1)),
        ("logsumexp", "{}, [-1 : i64], false", x.logsumexp(-1)),
    ]:
        f = Function(x)
        f.check(f.op(name, args, wanted, x), scale=4, schedule=schedule)


@pytest.mark.parametrize(
    "shape",
    [(4, 8), (300, 100), (500, 101), (40, 64), (3, 5, 7), (64, 32, 48), (5000, 4)],
)
def test_columns(shape: tuple[int, ...]) -> None:
    x = make(shape)
    f = Function(x)
    f.check(f.op("sum.dim_IntList", "{}, [0 : i64], false, none", x.sum(0), x), scale=8)
    f = Function(x)
    f.check(f.op("softmax.int", "{}, 0 : i64, none", x.softmax(0), x), chips=CHIPS)


@pytest.mark.parametrize("dtype", [*INTEGERS[:4], torch.float64, torch.bfloat16])
@pytest.mark.parametrize("dim", [0, 1])
def test_reductions_of_types(dtype: torch.dtype, dim: int) -> None:
    x = make((40, 136), dtype)
    f = Function(x)
    f.check(f.op("amax", f"{{}}, [{dim} : i64], false", x.amax(dim), x), chips=CHIPS)
    f = Function(x)
    f.check(
        f.op("sum.dim_IntList", f"{{}}, [{dim} : i64], false, none", x.sum(dim), x),
        scale=4,
    )


@pytest.mark.parametrize("shape", [(6, 64), (6, 100), (3, 768), (2, 9000), (3, 4, 33)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_norms(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, y = make(shape, dtype), make(shape, dtype, seed=3)
    w, b = make(shape[-1:], dtype, seed=1), make(shape[-1:], dtype, seed=2)
    n = shape[-1]
    f = Function(x, w, b)
    wanted = torch.nn.functional.layer_norm(x, (n,), w, b)
    f.check(
        f.op(
            "layer_norm",
            f"{{}}, [{n} : i64], {{}}, {{}}, 1.0e-05 : f64, true",
            wanted,
            x,
            w,
            b,
        ),
        scale=4,
        chips=CHIPS,
    )
    f = Function(x, y, w)
    s = f.op("add.Tensor", "{}, {}, 1 : i64", x + y, x, y)
    wanted = torch.nn.functional.rms_norm(s, (n,), w, 1e-6)
    f.check(
        f.op("rms_norm", f"{{}}, [{n} : i64], {{}}, 1.0e-06 : f64", wanted, s, w),
        s,
        scale=4,
    )


def test_given_schedules() -> None:
    """The same kernel under schedules that the cost model would not choose."""
    text = """
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func private @k(%x: tensor<9x{n}xf32>) -> tensor<9x{n}xf32> attributes {{pyjit.kernel,
    pyjit.indirect = array<i1: true, false>,
    pyjit.schedule = {{family = "row", lanes = {lanes}, vectors = {vectors}, threads = {threads},
                      group = {group}, resident = {resident}}}}} {{
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<9xf32>
  %f = tensor.empty() : tensor<9x{n}xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<9xf32>) -> tensor<9xf32>
  %s = linalg.generic {{indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}}
      ins(%x : tensor<9x{n}xf32>) outs(%i : tensor<9xf32>) {{
  ^bb0(%a: f32, %acc: f32):
    %t = arith.addf %a, %acc : f32
    linalg.yield %t : f32
  }} -> tensor<9xf32>
  %r = linalg.generic {{indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}}
      ins(%x, %s : tensor<9x{n}xf32>, tensor<9xf32>) outs(%f : tensor<9x{n}xf32>) {{
  ^bb0(%a: f32, %b: f32, %o: f32):
    %t = arith.subf %a, %b : f32
    linalg.yield %t : f32
  }} -> tensor<9x{n}xf32>
  return %r : tensor<9x{n}xf32>
}}
func.func @main(%x: tensor<9x{n}xf32>) -> tensor<9x{n}xf32> {{
  %r = call @k(%x) : (tensor<9x{n}xf32>) -> tensor<9x{n}xf32>
  return %r : tensor<9x{n}xf32>
}}
"""
    for n, lanes, vectors, threads, group, resident in [
        (96, 4, 24, 64, 1, "true"),
        (96, 4, 2, 64, 2, "false"),
        (96, 2, 3, 96, 16, "true"),
        (96, 1, 3, 64, 32, "true"),
        (104, 4, 1, 128, 32, "true"),
        (104, 4, 1, 256, 64, "true"),
        (104, 2, 2, 512, 16, "false"),
        (999, 1, 2, 256, 128, "false"),
        (1000, 4, 1, 256, 256, "true"),
        (4000, 4, 1, 1024, 1024, "true"),
    ]:
        x = make((9, n))
        program = Program(
            BUILD,
            text.format(
                n=n,
                lanes=lanes,
                vectors=vectors,
                threads=threads,
                group=group,
                resident=resident,
            ),
        )
        close(program.run(x)[0], x - x.sum(1, keepdim=True), 4)


TRANSPOSED = [(5, 7), (64, 64), (100, 40), (33, 70), (130, 66), (16, 1000)]


@pytest.mark.parametrize("shape", TRANSPOSED)
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.float64, torch.bool]
)
def test_transposes(shape: tuple[int, int], dtype: torch.dtype) -> None:
    x, y = make(shape, dtype), make(shape[::-1], dtype, seed=1)
    f = Function(x, y)
    v = f.view(x, "permute [1, 0]", x.t())
    wanted = torch.logical_or(y, v) if dtype == torch.bool else y + v
    if dtype == torch.bool:
        result = f.op("logical_or", "{}, {}", wanted, y, v)
    else:
        result = f.op("add.Tensor", "{}, {}, 1 : i64", wanted, y, v)
    program = f.check(result, chips=CHIPS)
    if min(shape) >= 16:
        assert '"tile"' in next(iter(program.kernels.values())).schedule


def test_batched_transposes() -> None:
    x = make((3, 20, 5, 64))
    f = Function(x)
    v = f.view(x, "permute [0, 3, 2, 1]", x.permute(0, 3, 2, 1))
    f.check(f.op("clone", "{}, none", v.contiguous(), v))
    y = make((2, 40, 6, 8)).contiguous(memory_format=torch.channels_last)
    z = make((2, 40, 6, 8), seed=1)
    f = Function(y, z)
    f.check(f.op("add.Tensor", "{}, {}, 1 : i64", torch.add(z, y), z, y))


@pytest.mark.parametrize(
    "shape", [(262144,), (300, 5000), (1, 400000), (70000,), (5, 7, 9000)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_whole_sums(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Too few results for the machine: two kernels."""
    x = make(shape, dtype)
    f = Function(x)
    dims = ", ".join(f"{i} : i64" for i in range(x.dim()))
    total = f.op("sum.dim_IntList", f"{{}}, [{dims}], false, none", x.sum(), x)
    program = f.check(f.op("mul.Scalar", "{}, 0.5 : f64", total * 0.5, total), scale=8)
    names = [function for function, _, _ in program.calls]
    assert any(name.endswith("_parts") for name in names)


def test_few_columns_and_variance() -> None:
    x = make((4096, 96))
    f = Function(x)
    program = f.check(
        f.op("sum.dim_IntList", "{}, [0 : i64], false, none", x.sum(0), x), scale=8
    )
    assert len(program.calls) == 2
    x = make((2, 300000))
    f = Function(x)
    f.check(
        f.op("var.correction", "{}, [1 : i64], 1 : i64, false", x.var(1), x), scale=8
    )


F64_FUNCTIONS = [
    "exp",
    "log",
    "tanh",
    "erf",
    "sigmoid",
    "sin",
    "cos",
    "atan",
    "sinh",
    "log1p",
]


@pytest.mark.parametrize("name", F64_FUNCTIONS)
def test_f64_functions_have_code(name: str) -> None:
    """Run by the C library here; the GPU's own are measured in test_device_math.py."""
    x = make((300,), torch.float64)
    f = Function(x)
    if name in ("log", "log1p"):
        f.inputs[0].abs_()
    f.check(f.op(name, "{}", getattr(torch, name)(x), x), chips=CHIPS)


@pytest.mark.parametrize(
    "name", ["atan", "asin", "acosh", "tan", "sinh", "log10", "exp2", "erfc"]
)
def test_rare_functions_have_code(name: str) -> None:
    x = make((300,)).abs() + (1 if name == "acosh" else 0)
    x = x.clamp(max=1) if name == "asin" else x
    f = Function(x)
    f.check(f.op(name, "{}", getattr(torch, name)(x), x))


def test_remainders_and_powers() -> None:
    x, y = make((500,)), make((500,), seed=1) * 1e-3
    f = Function(x, y)
    f.check(f.op("fmod.Tensor", "{}, {}", torch.fmod(x, y), x, y), chips=CHIPS)
    f = Function(x, y)
    a = f.op("abs", "{}", x.abs(), x)
    f.check(f.op("pow.Tensor_Tensor", "{}, {}", a.pow(y), a, y))


def test_exp_to_the_last_bits() -> None:
    """Over all of its range, infinities and denormal results included."""
    inf = float("inf")
    special = torch.tensor(
        [
            0.0,
            -0.0,
            inf,
            -inf,
            float("nan"),
            88.7228,
            88.73,
            -87.34,
            -103.9,
            -104.0,
            1e30,
            -1e30,
        ]
    )
    x = torch.cat([torch.linspace(-106, 90, 20001), special])
    f = Function(x)
    arguments = f"%a0: {tensor_type(x)}"
    f.op("exp", "{}", x.exp(), x)
    text = f"func.func @main({arguments}) -> {tensor_type(x)} {{\n{f.lines[0]}\n  return %v0 : {tensor_type(x)}\n}}"
    got = Program(BUILD, text).run(x)[0]
    exact = x.double().exp()
    step = torch.nextafter(exact.float().abs(), torch.tensor(inf)) - exact.float().abs()
    same = (got == exact.float()) | (got.isnan() & exact.isnan())
    error = ((got.double() - exact) / step.double()).abs().masked_fill(same, 0)
    assert error.max() <= 2, x[error.argmax()]


@pytest.mark.parametrize("divisor", [1e-42, 1e-36, 3.0, 1e36, 3e38])
def test_division_by_a_row_value(divisor: float) -> None:
    """A row's reciprocal, taken once, neither overflows nor vanishes, and its quotients are rounded once."""
    x = make((6, 64)) * divisor
    x[0, :3] = torch.tensor([0.0, -0.0, float("inf")])
    x[1, :2] = torch.tensor([float("nan"), -float("inf")])
    f = Function(x)
    m = f.op("amax", "{}, [1 : i64], true", x.amax(1, keepdim=True), x)
    program = f.check(f.op("div.Tensor", "{}, {}", x / m, x, m), scale=2)
    (quotients,) = program.run(x)
    got, wanted = quotients.nan_to_num(7), (x / m).nan_to_num(7)
    # What a product leaves of numbers without all their bits is lost.
    ulps = 1 if divisor < 1e-30 else 0
    assert ((got - wanted).abs() <= ulps * 2**-23 * wanted.abs()).all()


def test_what_is_largest_is_one() -> None:
    """As in x / x.amax(): 41 * (1 / 41) is less."""
    x = torch.arange(1.0, 257.0).view(256, 1).repeat(1, 8)
    f = Function(x)
    m = f.op("amax", "{}, [1 : i64], true", x.amax(1, keepdim=True), x)
    q = f.op("div.Tensor", "{}, {}", x / m, x, m)
    (ones,) = f.check(f.op("floor", "{}", q.floor(), q)).run(x)
    assert torch.equal(ones, torch.ones(256, 8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_gathers(dtype: torch.dtype) -> None:
    table, index = make((50, 64), dtype), make((7, 9), torch.int64)
    f = Function(table, index)
    f.check(
        f.op(
            "embedding",
            "{}, {}, -1 : i64, false, false",
            torch.nn.functional.embedding(index, table),
            table,
            index,
        ),
        chips=CHIPS,
    )
    f = Function(table, index)
    rows = index.reshape(-1)[:50]
    f = Function(table, rows)
    f.check(
        f.op(
            "index_select", "{}, 0 : i64, {}", table.index_select(0, rows), table, rows
        )
    )
    picks = make((50, 3), torch.int64)
    f = Function(table, picks)
    f.check(
        f.op("gather", "{}, 1 : i64, {}, false", table.gather(1, picks), table, picks)
    )


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.int64, torch.uint8]
)
def test_cat(dim: int, dtype: torch.dtype) -> None:
    x, y = make((33, 40), dtype), make((33, 40), dtype, seed=1)
    f = Function(x, y)
    f.check(
        f.op("cat", f"[{{}}, {{}}], {dim} : i64", torch.cat([x, y], dim), x, y),
        chips=CHIPS,
    )


@pytest.mark.parametrize("dim", [0, 1])
def test_argmax(dim: int) -> None:
    x = make((40, 100))
    f = Function(x)
    f.check(f.op("argmax", f"{{}}, {dim} : i64, false", x.argmax(dim), x))


@pytest.mark.parametrize("shape", [(2, 8, 6, 10), (4, 12, 33)])
def test_batch_and_group_norm(shape: tuple[int, ...]) -> None:
    x, c = make(shape), shape[1]
    w, b = make((c,), seed=1), make((c,), seed=2)
    m, v = make((c,), seed=3), make((c,), seed=4).abs() + 0.1
    f = Function(x, w, b, m, v)
    wanted = torch.nn.functional.batch_norm(x, m, v, w, b, False, 0.1, 1e-5)
    f.check(
        f.op(
            "batch_norm",
            "{}, {}, {}, {}, {}, false, 0.1 : f64, 1.0e-05 : f64, false",
            wanted,
            x,
            w,
            b,
            m,
            v,
        ),
        scale=4,
    )
    f = Function(x, w, b)
    wanted = torch.nn.functional.group_norm(x, 4, w, b)
    f.check(
        f.op(
            "group_norm", "{}, 4 : i64, {}, {}, 1.0e-05 : f64, false", wanted, x, w, b
        ),
        scale=8,
    )


def test_wide_indices() -> None:
    """Offsets beyond 32 bits: a few rows far apart, and a tensor as large as that."""
    x = torch.empty_strided((4, 8), (2**29, 1), dtype=torch.int8)
    x.copy_(make((4, 8), torch.int8))
    y = make((4, 8), torch.int8, seed=1)
    f = Function(x, y)
    program = f.check(f.op("add.Tensor", "{}, {}, 1 : i64", torch.add(y, x), y, x))
    assert "mul.wide" not in program.ptx or ".b64" in program.ptx
    f = Function(x)
    f.check(f.op("amax", "{}, [1 : i64], false", x.amax(1), x))
    huge = "tensor<70000x70000xf16>"
    text = (
        f"func.func @main(%a0: {huge}) -> {huge} {{\n"
        f'  %0 = tssa.aten "aten::softmax.int"(%a0, -1 : i64, none) : ({huge}) -> {huge}\n'
        f'  %1 = tssa.aten "aten::relu"(%0) : ({huge}) -> {huge}\n  return %1 : {huge}\n}}'
    )
    program = Program(BUILD, text, simulate=False)
    if PTXAS is not None:
        assert assemble(program.ptx, "sm_90") == []


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", ["any.dim", "all.dim"])
def test_any_and_all(name: str, dim: int) -> None:
    x = make((70, 96), torch.bool) | make((70, 96), torch.bool, seed=1)
    f = Function(x)
    wanted = getattr(x, name.split(".")[0])(dim)
    f.check(f.op(name, f"{{}}, {dim} : i64, false", wanted, x), chips=CHIPS)


def test_the_simulator_refuses_misaligned_vectors() -> None:
    """As a GPU does; what the launcher would have found out is left out here."""
    program = Program(
        BUILD,
        """
    #id = affine_map<(d0) -> (d0)>
    func.func @kernel(%x: tensor<1048576xf32>) -> tensor<1048576xf32> attributes {pyjit.kernel} {
      %e = tensor.empty() : tensor<1048576xf32>
      %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
          ins(%x : tensor<1048576xf32>) outs(%e : tensor<1048576xf32>) {
      ^bb0(%a: f32, %o: f32):
        %n = arith.negf %a : f32
        linalg.yield %n : f32
      } -> tensor<1048576xf32>
      return %0 : tensor<1048576xf32>
    }
    """,
    )
    kernel = program.kernels["kernel"]
    assert kernel.alignment == [16, 16]
    kernel.alignment = [1, 1]
    x, y = torch.randn(1048584), torch.empty(1 << 20)
    program.launch(kernel, [x[4:], y])
    assert torch.equal(y, -x[4:-4])
    for offset in (1, 2, 3, 6):
        with pytest.raises(AssertionError, match="no multiple of 16"):
            program.launch(kernel, [x[offset:], y])
