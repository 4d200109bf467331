# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads that go round or backward, and rests of rows, with vectors of each width and elements of each size."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from lib.Codegen.X86.kernels import Kernels

TYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "i8": torch.int8,
    "i64": torch.int64,
}
KERNELS = """
func.func @moved(%x: tensor<3x{n}x{t}>) -> tensor<3x{n}x{t}> attributes {{pyjit.kernel}} {{
  %e = tensor.empty() : tensor<3x{n}x{t}>
  %r = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, {place})>, affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]}} ins(%x : tensor<3x{n}x{t}>) outs(%e : tensor<3x{n}x{t}>) {{
  ^bb0(%a: {t}, %o: {t}):
    linalg.yield %a : {t}
  }} -> tensor<3x{n}x{t}>
  return %r : tensor<3x{n}x{t}>
}}
"""  # fmt: skip


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("name", TYPES)
def test_rows(root: Path, bits: int, name: str) -> None:
    if bits == 512 and "avx512f" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("no vectors of 512 bits")
    dtype = TYPES[name]
    for n in (5, 8, 9, 19, 33, 50):
        x = (torch.randn(3, n) * 50).to(dtype)
        moves = {"d1": x, f"{n - 1} - d1": x.flip(1)}
        moves |= {f"(d1 - {s}) mod {n}": x.roll(s, 1) for s in (1, n // 2, n - 1)}
        for place, want in moves.items():
            text = KERNELS.format(n=n, t=name, place=place)
            have = torch.zeros_like(x)
            Kernels(root / "build", text, bits).run("moved", [x], [have])
            assert torch.equal(have, want), (n, place)
