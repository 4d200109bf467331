# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions with symbolic sizes, compiled once by pyjit-run for each case and called with several sizes, against Torch."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

RUN = (
    Path(os.environ.get("PYJIT_BUILD", Path(__file__).parents[2] / "build"))
    / "bin"
    / "pyjit-run"
)


def layout(sizes: str, strides: str, dtype: str = "f32") -> str:
    shape = "x".join(
        s.strip() if s.strip().isdigit() else "?" for s in sizes.split(",")
    )
    return f"tensor<{shape}x{dtype}, #tssa.layout<[{sizes}], [{strides}]>>"


def run(tmp_path: Path, text: str, *arguments: torch.Tensor) -> list[torch.Tensor]:
    source = tmp_path / "f.mlir"
    source.write_text(text)
    command = [str(RUN), str(source), "--entry", "f", "--save", str(tmp_path / "out")]
    for i, argument in enumerate(arguments):
        np.save(tmp_path / f"in{i}.npy", argument.contiguous().numpy())
        command += ["--arg", str(tmp_path / f"in{i}.npy")]
    for old in tmp_path.glob("out*.npy"):
        old.unlink()
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    files = sorted(tmp_path.glob("out*.npy"), key=lambda p: int(p.stem[3:]))
    return [torch.from_numpy(np.load(f)) for f in files]


def check(tmp_path, text, eager, inputs, sizes):
    """`inputs(*size)` makes the arguments of a call, `eager` its results."""
    for size in sizes:
        torch.manual_seed(0)
        arguments = inputs(*size)
        expected = eager(*arguments)
        expected = expected if isinstance(expected, tuple) else (expected,)
        actual = run(tmp_path, text, *arguments)
        assert len(actual) == len(expected)
        for a, e in zip(actual, expected):
            torch.testing.assert_close(a, e, rtol=1e-5, atol=1e-4)


BATCH = [(2,), (3,), (5,), (17,), (64,), (1000,)]
X64 = layout("s0, 64", "64, 1")
ONE = "pyjit.symbols = [array<i64: 0, 0>]"
TWO = "pyjit.symbols = [array<i64: 0, 0>, array<i64: 0, 1>]"


def function(
    arguments: str, body: str, results: str, types: str, symbols: str = ONE
) -> str:
    return f"func.func @f({arguments}) -> ({types}) attributes {{{symbols}}} {{\n{body}\n  return {results} : {types}\n}}\n"


def test_pointwise_and_row_reduction(tmp_path):
    row = layout("s0", "1")
    text = function(
        f"%x: {X64}, %y: {X64}",
        f"""
  %0 = tssa.aten "aten::mul.Tensor"(%x, %y) : ({X64}, {X64}) -> {X64}
  %1 = tssa.aten "aten::tanh"(%0) : ({X64}) -> {X64}
  %2 = tssa.aten "aten::sum.dim_IntList"(%1, [1 : i64], false, none) : ({X64}) -> {row}""",
        "%1, %2",
        f"{X64}, {row}",
    )
    check(
        tmp_path,
        text,
        lambda x, y: (torch.tanh(x * y), torch.tanh(x * y).sum(1)),
        lambda n: (torch.randn(n, 64), torch.randn(n, 64)),
        BATCH,
    )


def test_reduction_over_the_symbolic_dimension(tmp_path):
    scalar = "tensor<f32>"
    text = function(
        f"%x: {X64}",
        f"""
  %0 = tssa.aten "aten::sum.dim_IntList"(%x, [0 : i64], false, none) : ({X64}) -> tensor<64xf32>
  %1 = tssa.aten "aten::amax"(%x, [0 : i64, 1 : i64], false) : ({X64}) -> {scalar}""",
        "%0, %1",
        f"tensor<64xf32>, {scalar}",
    )
    check(
        tmp_path,
        text,
        lambda x: (x.sum(0), x.amax((0, 1))),
        lambda n: (torch.randn(n, 64),),
        BATCH,
    )


def test_symbolic_innermost_dimension(tmp_path):
    x = layout("s0, s1", "s1, 1")
    row = layout("s0", "1")
    text = function(
        f"%x: {x}",
        f"""
  %0 = tssa.aten "aten::softmax.int"(%x, -1 : i64, none) : ({x}) -> {x}
  %1 = tssa.aten "aten::exp"(%x) : ({x}) -> {x}
  %2 = tssa.aten "aten::sum.dim_IntList"(%1, [1 : i64], false, none) : ({x}) -> {row}""",
        "%0, %1, %2",
        f"{x}, {x}, {row}",
        TWO,
    )
    check(
        tmp_path,
        text,
        lambda x: (x.softmax(-1), x.exp(), x.exp().sum(1)),
        lambda n, m: (torch.randn(n, m),),
        [(2, 2), (2, 3), (3, 7), (5, 8), (4, 33), (7, 100), (2, 20000), (300, 5)],
    )


def test_layer_norm_and_linear(tmp_path):
    x = layout("s0, s1, 64", "s1 * 64, 64, 1")
    y = layout("s0, s1, 32", "s1 * 32, 32, 1")
    text = function(
        f"%x: {x}, %w: tensor<64xf32>, %b: tensor<64xf32>, %m: tensor<32x64xf32> {{pyjit.param}}, %n: tensor<32xf32> {{pyjit.param}}",
        f"""
  %0 = tssa.aten "aten::layer_norm"(%x, [64 : i64], %w, %b, 1.0e-05 : f64, true) : ({x}, tensor<64xf32>, tensor<64xf32>) -> {x}
  %1 = tssa.aten "aten::linear"(%0, %m, %n) : ({x}, tensor<32x64xf32>, tensor<32xf32>) -> {y}
  %2 = tssa.aten "aten::gelu"(%1, "none") : ({y}) -> {y}""",
        "%2",
        y,
        TWO,
    )
    check(
        tmp_path,
        text,
        lambda x, w, b, m, n: F.gelu(F.linear(F.layer_norm(x, (64,), w, b), m, n)),
        lambda n, m: (
            torch.randn(n, m, 64),
            torch.randn(64),
            torch.randn(64),
            torch.randn(32, 64),
            torch.randn(32),
        ),
        [(2, 2), (3, 5), (8, 16), (2, 100)],
    )


def test_heads(tmp_path):
    """What attention does around its matmuls: split, transpose, merge."""
    x = layout("s0, s1, 64", "s1 * 64, 64, 1")
    split = layout("s0, s1, 4, 16", "s1 * 64, 64, 16, 1")
    heads = layout("s0, 4, s1, 16", "s1 * 64, 16, 64, 1")
    dense = layout("s0, 4, s1, 16", "s1 * 64, s1 * 16, 16, 1")
    back = layout("s0, s1, 4, 16", "s1 * 64, 16, s1 * 16, 1")
    flat = layout("s0, 4, s1, s1", "s1 * s1 * 4, s1 * s1, s1, 1")
    text = function(
        f"%x: {x}, %m: {flat}",
        f"""
  %0 = tssa.access %x [#tssa.view<view [s0, s1, 4, 16]>] : {x} -> {split}
  %1 = tssa.access %0 [#tssa.view<permute [0, 2, 1, 3]>] : {split} -> {heads}
  %2 = tssa.aten "aten::mul.Tensor"(%1, wrapped(2.0 : f64)) : ({heads}) -> {heads}
  %3 = tssa.aten "aten::matmul"(%m, %2) : ({flat}, {heads}) -> {dense}
  %4 = tssa.access %3 [#tssa.view<permute [0, 2, 1, 3]>] : {dense} -> {back}
  %5 = tssa.aten "aten::clone"(%4, 0 : i64) : ({back}) -> {split}
  %6 = tssa.access %5 [#tssa.view<view [s0, s1, 64]>] : {split} -> {x}
  %7 = tssa.aten "aten::relu"(%6) : ({x}) -> {x}""",
        "%7",
        x,
        TWO,
    )

    def eager(x, m):
        h = x.view(x.shape[0], x.shape[1], 4, 16).transpose(1, 2) * 2
        return (m @ h).transpose(1, 2).contiguous().view(x.shape).relu()

    check(
        tmp_path,
        text,
        eager,
        lambda n, m: (torch.randn(n, m, 64), torch.randn(n, 4, m, m)),
        [(2, 2), (2, 3), (3, 7), (8, 16), (2, 100)],
    )


def test_slices_and_selects(tmp_path):
    x = layout("s0, s1", "s1, 1")
    less = layout("s0, s1 - 1", "s1, 1")
    dense = layout("s0, s1 - 1", "s1 - 1, 1")
    row = layout("s1", "1")
    column = layout("s0", "s1")
    text = function(
        f"%x: {x}",
        f"""
  %0 = tssa.access %x [#tssa.view<slice [1, 1, s1 - 1, 1]>] : {x} -> {less}
  %1 = tssa.access %x [#tssa.view<slice [1, 0, s1 - 1, 1]>] : {x} -> {less}
  %2 = tssa.aten "aten::sub.Tensor"(%0, %1, 1 : i64) : ({less}, {less}) -> {dense}
  %3 = tssa.access %x [#tssa.view<select [0, s0 - 1]>] : {x} -> {row}
  %4 = tssa.aten "aten::neg"(%3) : ({row}) -> {row}
  %5 = tssa.access %x [#tssa.view<select [1, s1 - 1]>] : {x} -> {column}
  %6 = tssa.aten "aten::neg"(%5) : ({column}) -> {layout("s0", "1")}""",
        "%2, %4, %6",
        f"{dense}, {row}, {layout('s0', '1')}",
        TWO,
    )
    check(
        tmp_path,
        text,
        lambda x: (x[:, 1:] - x[:, :-1], -x[-1], -x[:, -1]),
        lambda n, m: (torch.randn(n, m),),
        [(2, 2), (3, 5), (8, 17), (2, 100)],
    )


def test_merged_and_split_symbolic_dimensions(tmp_path):
    x = layout("s0, s1, 8", "s1 * 8, 8, 1")
    merged = layout("s0 * s1, 8", "8, 1")
    text = function(
        f"%x: {x}",
        f"""
  %0 = tssa.access %x [#tssa.view<view [s0 * s1, 8]>] : {x} -> {merged}
  %1 = tssa.aten "aten::softmax.int"(%0, -1 : i64, none) : ({merged}) -> {merged}
  %2 = tssa.access %1 [#tssa.view<view [s0, s1, 8]>] : {merged} -> {x}
  %3 = tssa.aten "aten::add.Tensor"(%2, %x, 1 : i64) : ({x}, {x}) -> {x}""",
        "%3",
        x,
        TWO,
    )
    check(
        tmp_path,
        text,
        lambda x: x.view(-1, 8).softmax(-1).view(x.shape) + x,
        lambda n, m: (torch.randn(n, m, 8),),
        [(2, 2), (3, 5), (8, 17)],
    )


def test_embedding_and_cat(tmp_path):
    index = layout("s0, 6", "6, 1", "i64")
    vectors = layout("s0, 6, 16", "96, 16, 1")
    joined = layout("s0, 6, 32", "192, 32, 1")
    text = function(
        f"%t: tensor<10x16xf32>, %i: {index}, %y: {vectors}",
        f"""
  %0 = tssa.aten "aten::embedding"(%t, %i, -1 : i64, false, false) : (tensor<10x16xf32>, {index}) -> {vectors}
  %1 = tssa.aten "aten::cat"([%0, %y], 2 : i64) : ({vectors}, {vectors}) -> {joined}
  %2 = tssa.aten "aten::relu"(%1) : ({joined}) -> {joined}""",
        "%2",
        joined,
        "pyjit.symbols = [array<i64: 1, 0>]",
    )
    check(
        tmp_path,
        text,
        lambda t, i, y: torch.cat([t[i], y], 2).relu(),
        lambda n: (
            torch.randn(10, 16),
            torch.randint(0, 10, (n, 6)),
            torch.randn(n, 6, 16),
        ),
        BATCH[:4],
    )


def test_sizes_as_arguments(tmp_path):
    text = function(
        f"%x: {X64}",
        f"""
  %0 = tssa.aten "aten::zeros"([affine_map<()[s0] -> (s0)>, 64 : i64], 6 : i64, none, device("cpu"), none) : () -> {X64}
  %1 = tssa.aten "aten::cat"([%x, %0], 0 : i64) : ({X64}, {X64}) -> {layout("s0 * 2, 64", "64, 1")}
  %2 = tssa.aten "aten::arange"(affine_map<()[s0] -> (s0)>, 6 : i64, none, device("cpu"), none) : () -> {layout("s0", "1")}
  %3 = tssa.aten "aten::mul.Tensor"(%2, wrapped(2.0 : f64)) : ({layout("s0", "1")}) -> {layout("s0", "1")}""",
        "%1, %3",
        f"{layout('s0 * 2, 64', '64, 1')}, {layout('s0', '1')}",
    )
    check(
        tmp_path,
        text,
        lambda x: (
            torch.cat([x, torch.zeros_like(x)]),
            torch.arange(float(len(x))) * 2,
        ),
        lambda n: (torch.randn(n, 64),),
        BATCH[:4],
    )


def test_intermediate_of_a_fixed_size(tmp_path):
    """A buffer of known size beside symbolic ones in the arena."""
    text = function(
        f"%x: {X64}",
        f"""
  %0 = tssa.aten "aten::sum.dim_IntList"(%x, [0 : i64], false, none) : ({X64}) -> tensor<64xf32>
  %1 = tssa.aten "aten::cumsum"(%0, 0 : i64, none) : (tensor<64xf32>) -> tensor<64xf32>
  %2 = tssa.aten "aten::mul.Tensor"(%x, %1) : ({X64}, tensor<64xf32>) -> {X64}
  %3 = tssa.aten "aten::cumsum"(%2, 1 : i64, none) : ({X64}) -> {X64}""",
        "%3",
        X64,
    )
    check(
        tmp_path,
        text,
        lambda x: (x * x.sum(0).cumsum(0)).cumsum(1),
        lambda n: (torch.rand(n, 64) * 0.1,),
        BATCH[:4],
    )


def test_symbol_from_a_number(tmp_path):
    text = function(
        "%x: tensor<64xf32>, %n: tensor<i64>",
        f"""
  %0 = tssa.access %x [#tssa.view<expand [s0, 64]>] : tensor<64xf32> -> {layout("s0, 64", "0, 1")}
  %1 = tssa.aten "aten::neg"(%0) : ({layout("s0, 64", "0, 1")}) -> {X64}""",
        "%1",
        X64,
        "pyjit.symbols = [array<i64: 1, -1>]",
    )
    check(
        tmp_path,
        text,
        lambda x, n: -x.expand(int(n), 64),
        lambda n: (torch.randn(64), torch.tensor(n)),
        BATCH[:4],
    )


@pytest.mark.parametrize("stride, padding", [(1, 1), (2, 3)])
def test_convolution_with_batch(tmp_path, stride, padding):
    height = (16 + 2 * padding - 3) // stride + 1
    x = layout("s0, 3, 16, 16", "768, 256, 16, 1")
    y = layout(
        f"s0, 32, {height}, {height}",
        f"{32 * height * height}, {height * height}, {height}, 1",
    )
    p = "pyjit.param"
    text = function(
        f"%x: {x}, %w: tensor<32x3x3x3xf32> {{{p}}}, %b: tensor<32xf32> {{{p}}}",
        f"""
  %0 = tssa.aten "aten::conv2d"(%x, %w, %b, [{stride} : i64, {stride} : i64], [{padding} : i64, {padding} : i64], [1 : i64, 1 : i64], 1 : i64) : ({x}, tensor<32x3x3x3xf32>, tensor<32xf32>) -> {y}
  %1 = tssa.aten "aten::relu"(%0) : ({y}) -> {y}
  %2 = tssa.aten "aten::mul.Tensor"(%1, wrapped(2.0 : f64)) : ({y}) -> {y}""",
        "%2",
        y,
    )
    check(
        tmp_path,
        text,
        lambda x, w, b: F.conv2d(x, w, b, stride, padding).relu() * 2,
        lambda n: (
            torch.randn(n, 3, 16, 16),
            torch.randn(32, 3, 3, 3),
            torch.randn(32),
        ),
        BATCH[:4],
    )
