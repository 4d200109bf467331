# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels whose body is several equal parts (`pyjit.batch`): one part's code, of which each block chooses its buffers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from lib.Codegen.PTX.kernels import LIBRARY, PTXAS, Program, assemble

BUILD = Path(os.environ.get("PYJIT_BUILD", Path(__file__).parents[4] / "build"))
pytestmark = pytest.mark.skipif(
    not (BUILD / LIBRARY).exists(), reason="pyjit_test_ptx is not built"
)


def batch(parts: int, size: int, attributes: str = "") -> str:
    """`@main` calls one kernel that computes p - g and p * g for each part's p and g."""
    vector = f"tensor<{size}xf32>"
    arguments = ", ".join(f"%p{i}: {vector}, %g{i}: {vector}" for i in range(parts))
    given = ", ".join(f"%p{i}, %g{i}" for i in range(parts))
    types, twice = ", ".join([vector] * 2 * parts), f"{vector}, {vector}"
    body, returned = [], []
    for i in range(parts):
        body.append(
            f"""
  %e{i} = tensor.empty() : {vector}
  %r{i}:2 = linalg.generic {{indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel"]}}
      ins(%p{i}, %g{i} : {twice}) outs(%e{i}, %e{i} : {twice}) {{
  ^bb0(%a: f32, %b: f32, %o: f32, %q: f32):
    %t = arith.subf %a, %b : f32
    %u = arith.mulf %a, %b : f32
    linalg.yield %t, %u : f32, f32
  }} -> ({twice})"""
        )
        returned.append(f"%r{i}#0, %r{i}#1")
    return f"""
#id = affine_map<(d0) -> (d0)>
func.func private @k({arguments}) -> ({types}) attributes {{pyjit.kernel, pyjit.batch = {parts} : i64{attributes}}} {{{"".join(body)}
  return {", ".join(returned)} : {types}
}}
func.func @main({arguments}) -> ({types}) {{
  %r:{2 * parts} = func.call @k({given}) : ({types}) -> ({types})
  return {", ".join(f"%r#{i}" for i in range(2 * parts))} : {types}
}}
"""


def run(program: Program, parts: int, size: int) -> None:
    torch.manual_seed(parts * size)
    given = [torch.randn(size) for _ in range(2 * parts)]
    results = program.run(*given)
    for i in range(parts):
        p, g = given[2 * i : 2 * i + 2]
        assert torch.equal(results[2 * i], p - g)
        assert torch.equal(results[2 * i + 1], p * g)


@pytest.mark.parametrize("parts", [2, 3, 7])
@pytest.mark.parametrize("size", [1, 64, 1000, 4099])
def test_parts(parts: int, size: int) -> None:
    program = Program(BUILD, batch(parts, size))
    run(program, parts, size)
    assert PTXAS is None or assemble(program.ptx, "sm_90") == []


def test_as_many_as_a_launch_takes() -> None:
    """480 parameters of eight bytes; two of three blocks' parts are other ones than the first's."""
    program = Program(BUILD, batch(120, 96))
    run(program, 120, 96)
    assert PTXAS is None or assemble(program.ptx, "sm_90") == []


def test_one_alone_is_indirect() -> None:
    """Part 1's g and part 0's second result, of twelve buffers."""
    indirect = [i in (3, 7) for i in range(12)]
    words = ", ".join(str(flag).lower() for flag in indirect)
    program = Program(BUILD, batch(3, 33, f", pyjit.indirect = array<i1: {words}>"))
    assert program.kernels["k"].indirect == indirect
    run(program, 3, 33)


def test_what_is_aligned_least_counts() -> None:
    """Vectors are those that each part's buffer allows."""
    aligned = [16] * 12
    aligned[2] = 4  # of part 1
    words = ", ".join(map(str, aligned))
    program = Program(BUILD, batch(3, 4096, f", pyjit.align = array<i32: {words}>"))
    relied = program.kernels["k"].alignment
    assert [relied[i] for i in (0, 2, 4)] == [4, 4, 4]
    assert [relied[i] for i in (1, 3, 5)] == [relied[1]] * 3
    run(program, 3, 4096)
