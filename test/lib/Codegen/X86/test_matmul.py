# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matmuls in tiles of rows: values for sizes that leave rests everywhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from lib.Codegen.X86.kernels import LIBRARY, Kernels

BUILD = Path(os.environ.get("PYJIT_BUILD", Path(__file__).parents[4] / "build"))
pytestmark = pytest.mark.skipif(
    not (BUILD / LIBRARY).exists(), reason="pyjit_test_kernels is not built"
)


def operands(rows: int, channels: int, columns: int, panel: int) -> tuple[str, str]:
    """Types of x, and of w as panels of columns."""
    return (
        f"tensor<{rows}x{channels}xf32>",
        f"tensor<{columns // panel}x{channels}x{panel}xf32>",
    )


def maps(panel: int) -> str:
    return f"""#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n floordiv {panel}, k, n mod {panel})>
#y = affine_map<(m, n, k) -> (m, n)>
#id = affine_map<(m, n) -> (m, n)>"""


def product(x: str, w: str, y: str) -> str:
    """%r = %x @ %w, beside %z, a zero, and %e, an empty result."""
    return f"""  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : {y}
  %i = linalg.fill ins(%z : f32) outs(%e : {y}) -> {y}
  %r = linalg.generic {{indexing_maps = [#x, #w, #y],
      iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%x, %w : {x}, {w}) outs(%i : {y}) {{
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  }} -> {y}"""


def matmul(rows: int, channels: int, columns: int, panel: int) -> str:
    """relu(x @ w), with w as panels of columns."""
    x, w = operands(rows, channels, columns, panel)
    y = f"tensor<{rows}x{columns}xf32>"
    return f"""
{maps(panel)}
func.func @matmul(%x: {x}, %w: {w}) -> {y} attributes {{pyjit.kernel}} {{
{product(x, w, y)}
  %q = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}}
      ins(%r : {y}) outs(%e : {y}) {{
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %a, %z : f32
    linalg.yield %m : f32
  }} -> {y}
  return %q : {y}
}}
"""


SIZES = [
    (256, 64, 48, 16),
    (7, 5, 16, 16),
    (49, 600, 32, 16),
    (1, 9, 32, 16),
    (3001, 7, 16, 16),
    (25, 11, 24, 8),
    (13, 1, 8, 8),
]


@pytest.mark.parametrize("unitwise", [False, True])
@pytest.mark.parametrize(("rows", "channels", "columns", "panel"), SIZES)
def test_values(
    rows: int, channels: int, columns: int, panel: int, unitwise: bool
) -> None:
    torch.manual_seed(0)
    kernels = Kernels(BUILD, matmul(rows, channels, columns, panel))
    x, w = torch.randn(rows, channels), torch.randn(channels, columns)
    packed = w.view(channels, columns // panel, panel).permute(1, 0, 2).contiguous()
    y = torch.full((rows, columns), float("nan"))
    kernels.run("matmul", [x, packed], [y], unitwise=unitwise)
    want = torch.relu(x.double() @ w.double())
    # The error of a sum of n products of values around one.
    assert (y.double() - want).abs().max() <= 1e-6 * channels**0.5 * 4


def test_wide_vectors() -> None:
    """512-bit tiles compile to two vectors of 256 bits where the host has no more."""
    kernels = Kernels(BUILD, matmul(40, 33, 32, 32), vector_bits=512)
    x, w = torch.randn(40, 33), torch.randn(33, 32)
    y = torch.empty(40, 32)
    kernels.run("matmul", [x, w.view(1, 33, 32)], [y])
    assert (y - torch.relu(x @ w)).abs().max() <= 1e-4


def matmul_with_epilogue(rows: int, channels: int, columns: int, panel: int) -> str:
    """x @ w, and tanh(x @ w + bias) * gain + residual, with a gain for each row."""
    x, w = operands(rows, channels, columns, panel)
    y, bias, gain = (
        f"tensor<{rows}x{columns}xf32>",
        f"tensor<{columns}xf32>",
        f"tensor<{rows}xf32>",
    )
    return f"""
{maps(panel)}
#column = affine_map<(m, n) -> (n)>
#row = affine_map<(m, n) -> (m)>
func.func @matmul(%x: {x}, %w: {w}, %bias: {bias}, %gain: {gain}, %residual: {y}) -> ({y}, {y})
    attributes {{pyjit.kernel}} {{
{product(x, w, y)}
  %q = linalg.generic {{indexing_maps = [#id, #column, #row, #id, #id],
      iterator_types = ["parallel", "parallel"]}}
      ins(%r, %bias, %gain, %residual : {y}, {bias}, {gain}, {y}) outs(%e : {y}) {{
  ^bb0(%a: f32, %b: f32, %g: f32, %h: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    %t = math.tanh %s : f32
    %m = arith.mulf %t, %g : f32
    %n = arith.addf %m, %h : f32
    linalg.yield %n : f32
  }} -> {y}
  return %r, %q : {y}, {y}
}}
"""


@pytest.mark.parametrize("unitwise", [False, True])
@pytest.mark.parametrize(
    ("rows", "channels", "columns", "panel"), [*SIZES, (128, 1030, 64, 32)]
)
def test_epilogue(
    rows: int, channels: int, columns: int, panel: int, unitwise: bool
) -> None:
    """The sums of a tile are in memory, and its rows a loop."""
    torch.manual_seed(0)
    kernels = Kernels(BUILD, matmul_with_epilogue(rows, channels, columns, panel))
    x, w = torch.randn(rows, channels), torch.randn(channels, columns)
    bias, gain = torch.randn(columns), torch.randn(rows)
    residual = torch.randn(rows, columns)
    packed = w.view(channels, columns // panel, panel).permute(1, 0, 2).contiguous()
    sums, y = (torch.full((rows, columns), float("nan")) for _ in range(2))
    kernels.run(
        "matmul", [x, packed, bias, gain, residual], [sums, y], unitwise=unitwise
    )
    exact = x.double() @ w.double()
    error = 1e-6 * channels**0.5 * 4
    assert (sums.double() - exact).abs().max() <= error
    want = torch.tanh(exact + bias.double()) * gain.double()[:, None] + residual
    assert (y.double() - want).abs().max() <= error * gain.abs().max() + 1e-6
