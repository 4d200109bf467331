# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of few queries in one kernel, its clusters simulated: against float64."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lib.Codegen.PTX.kernels import LIBRARY, PTXAS, assemble
from lib.Codegen.PTX.test_kernels import close, make
from lib.Codegen.PTX.test_symbolic_kernels import Versions, compiled, layout

BUILD = Path(os.environ.get("PYJIT_BUILD", Path(__file__).parents[4] / "build"))
pytestmark = pytest.mark.skipif(
    not (BUILD / LIBRARY).exists(), reason="pyjit_test_ptx is not built"
)

INFINITY = float("inf")


@dataclass
class Shape:
    """Of queries, keys and values, whose number is the symbol."""

    batch: int = 1
    heads: int = 2
    group: int = 1
    queries: int = 1
    width: int = 64
    columns: int = 64
    dtype: torch.dtype = torch.float16
    # Of the mask: its element type, and whether samples have one each.
    mask: torch.dtype | None = None

    def __post_init__(self) -> None:
        self.all_heads = self.heads * self.group
        self.query = (self.batch, self.all_heads, self.queries, self.width)
        self.result = (self.batch, self.all_heads, self.queries, self.columns)

    def program(
        self, group: int = 1, threads: int = 64, vectors: int = 2, chosen: bool = False
    ) -> Versions:
        """Compiled with a schedule whose clusters have `group` blocks, or with the cost model's."""
        numbers = ", ".join(str(n) for n in self.query)
        q = layout(numbers, dtype=self.dtype)
        k = layout(f"{self.batch}, {self.heads}, s0, {self.width}", dtype=self.dtype)
        v = layout(f"{self.batch}, {self.heads}, s0, {self.columns}", dtype=self.dtype)
        r = layout(", ".join(str(n) for n in self.result), dtype=self.dtype)
        types = [q, k, v]
        if self.mask is not None:
            types.append(
                layout(f"{self.batch}, 1, {self.queries}, s0", dtype=self.mask)
            )
        mask = "none" if self.mask is None else "%a3"
        call = (
            f'  %0 = tssa.aten "aten::scaled_dot_product_attention"(%a0, %a1, %a2, {mask},'
            f" 0.0 : f64, false, none, true) : ({', '.join(types)}) -> {r}"
        )
        lanes = 8 if self.dtype != torch.float32 else 4
        while max(self.width, self.columns) // lanes > 32:
            lanes *= 2
        schedule = (
            f'{{family = "attention", lanes = {lanes} : i64, vectors = {vectors} : i64,'
            f" threads = {threads} : i64, group = {group} : i64}}"
        )
        chips = ("sm_90",) if group > 1 else ("sm_80", "sm_90")
        return compiled(types, [call], [("%0", r)], chips, "" if chosen else schedule)

    def inputs(self, keys: int, seed: int = 0) -> list[torch.Tensor]:
        q = make(self.query, self.dtype, seed)
        k = make((self.batch, self.heads, keys, self.width), self.dtype, seed + 1)
        v = make((self.batch, self.heads, keys, self.columns), self.dtype, seed + 2)
        if self.mask is None:
            return [q, k, v]
        shape = (self.batch, 1, self.queries, keys)
        mask = make(shape, torch.bool, seed + 3)
        if self.mask != torch.bool:
            mask = torch.zeros(shape, dtype=self.mask).masked_fill(mask, -INFINITY)
        return [q, k, v, mask]

    def eager(self, q: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        k, v, *mask = rest
        if mask and mask[0].dtype != torch.bool:
            mask = [mask[0].double()]
        return torch.nn.functional.scaled_dot_product_attention(
            q.double(), k.double(), v.double(), *mask, enable_gqa=True
        ).to(self.dtype)

    def check(self, program: Versions, keys: Sequence[int], scale: float = 4) -> None:
        for number in keys:
            inputs = self.inputs(number)
            (got,) = program.run(*inputs, symbols=[number])
            close(got, self.eager(*inputs), scale)


def is_one_kernel(program: Versions) -> bool:
    return all(
        ['family = "attention"' in kernel.schedule for kernel in p.kernels.values()]
        == [True]
        for p in program.all
    )


@pytest.mark.parametrize("blocks", [1, 2, 8])
def test_keys(blocks: int) -> None:
    """Fewer than there are threads, and more than these have in flight."""
    shape = Shape(heads=2, group=4)
    program = shape.program(blocks, threads=32)
    assert is_one_kernel(program)
    shape.check(program, [1, 2, 3, 4, 5, 31, 64, 65, 200])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("width", [8, 40, 64, 80, 96, 128, 256])
def test_widths(width: int, dtype: torch.dtype) -> None:
    """Heads whose vectors are no power of two leave threads without any."""
    shape = Shape(width=width, columns=width, dtype=dtype)
    program = shape.program(2)
    assert is_one_kernel(program)
    shape.check(program, [7, 70])


@pytest.mark.parametrize(("width", "columns"), [(192, 128), (64, 128), (24, 8)])
def test_values_of_another_width(width: int, columns: int) -> None:
    shape = Shape(width=width, columns=columns)
    program = shape.program()
    assert is_one_kernel(program)
    shape.check(program, [1, 33])


@pytest.mark.parametrize(
    ("group", "queries"), [(1, 1), (3, 1), (8, 1), (1, 4), (2, 4), (2, 3)]
)
def test_queries_share_keys(group: int, queries: int) -> None:
    shape = Shape(heads=3, group=group, queries=queries)
    program = shape.program(2, threads=64)
    assert is_one_kernel(program)
    shape.check(program, [5, 40])


def test_many_queries_are_several_kernels() -> None:
    shape = Shape(group=4, queries=4)
    with pytest.raises(ValueError, match="does not fit"):
        shape.program()  # with the schedule of one


@pytest.mark.parametrize("width", [33, 66, 1024])
def test_heads_that_no_warp_reads_are_several_kernels(width: int) -> None:
    """No vectors divide them, or there are more of these than threads."""
    shape = Shape(width=width, columns=width)
    program = shape.program(chosen=True)
    assert not is_one_kernel(program)
    shape.check(program, [5, 40])


@pytest.mark.parametrize("width", [2, 6, 50, 62, 512])
def test_heads_that_a_warp_just_reads(width: int) -> None:
    shape = Shape(width=width, columns=width)
    program = shape.program(chosen=True)
    assert is_one_kernel(program)
    shape.check(program, [5, 40])


@pytest.mark.parametrize("mask", [torch.bool, torch.float16, torch.float32])
def test_masks(mask: torch.dtype) -> None:
    shape = Shape(batch=2, group=2, queries=2, mask=mask)
    program = shape.program(2)
    assert is_one_kernel(program)
    shape.check(program, [2, 9, 100])


@pytest.mark.parametrize("blocks", [1, 4])
def test_a_query_that_sees_nothing(blocks: int) -> None:
    """Zeros, whatever blocks and threads had no key that counts."""
    shape = Shape(batch=3, mask=torch.bool)
    program = shape.program(blocks, threads=32)
    inputs = shape.inputs(50)
    inputs[3][0] = False
    inputs[3][1] = False
    inputs[3][1, :, :, 49] = True
    (got,) = program.run(*inputs, symbols=[50])
    assert not got[0].any()
    close(got, shape.eager(*inputs).nan_to_num(), 4)


def test_what_is_not_finite() -> None:
    """In its own query, column or key alone, and not from behind the last key."""
    shape = Shape(heads=1)
    program = shape.program(2, threads=32)
    for place, value in [(0, INFINITY), (1, INFINITY), (2, INFINITY), (2, -INFINITY)]:
        for keys in (3, 17):
            inputs = shape.inputs(keys)
            inputs[place][..., -1, 5] = value
            (got,) = program.run(*inputs, symbols=[keys])
            close(got, shape.eager(*inputs), 4)


def test_large_numbers() -> None:
    """Sums below a greatest number that grows with each key, or falls."""
    shape = Shape(heads=1, width=8, columns=8, dtype=torch.float32)
    program = shape.program(2, threads=32)
    q = torch.full(shape.query, 10.0)
    v = make((1, 1, 90, 8))
    for signs in (1.0, -1.0):
        k = signs * torch.arange(90.0).reshape(1, 1, 90, 1).expand(1, 1, 90, 8)
        (got,) = program.run(q, k.contiguous(), v, symbols=[90])
        close(got, shape.eager(q, k, v), 4)


@settings(deadline=None, max_examples=12)
@given(
    st.builds(
        Shape,
        batch=st.integers(1, 3),
        heads=st.integers(1, 3),
        group=st.sampled_from([1, 2, 4]),
        queries=st.integers(1, 2),
        width=st.sampled_from([16, 24, 64]),
        columns=st.sampled_from([8, 64]),
        dtype=st.sampled_from([torch.float16, torch.bfloat16, torch.float32]),
        mask=st.sampled_from([None, torch.bool, torch.float32]),
    ),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([32, 64]),
    st.integers(1, 3),
    st.lists(st.integers(1, 150), min_size=1, max_size=3),
)
def test_random(
    shape: Shape, blocks: int, threads: int, vectors: int, keys: list[int]
) -> None:
    program = shape.program(blocks, threads, vectors)
    assert is_one_kernel(program)
    for number in keys:
        inputs = shape.inputs(number)
        (got,) = program.run(*inputs, symbols=[number])
        close(got, shape.eager(*inputs).nan_to_num(), 4)


def test_chosen_schedules_are_assembled() -> None:
    """Without spills, for the widest heads and the most queries."""
    for group, width in [(8, 128), (8, 64), (1, 256), (4, 64), (4, 256)]:
        shape = Shape(group=group, width=width, columns=width)
        program = shape.program(8, threads=128 if group * width > 512 else 256)
        for version in program.all if PTXAS is not None else []:
            assert assemble(version.ptx, "sm_90") == []


@pytest.mark.parametrize("blocks", [1, 4])
def test_queries_that_are_computed_there(blocks: int) -> None:
    """Halves of the features change places, as rotary embeddings have it."""
    shape = Shape(heads=2, group=2, width=32, columns=32)
    numbers = ", ".join(str(n) for n in shape.query)
    q = layout(numbers, dtype=torch.float16)
    half = layout(numbers.replace("32", "16"), dtype=torch.float16)
    part = half.replace(">", ", #tssa.strides<[128, 32, 32, 1]>>")
    angle = layout("32", dtype=torch.float16)
    k = layout("1, 2, s0, 32", dtype=torch.float16)
    lines = [
        f"  %low = tssa.access %a0 [#tssa.view<slice [3, 0, 16, 1]>] : {q} -> {part}",
        f"  %high = tssa.access %a0 [#tssa.view<slice [3, 16, 16, 1]>] : {q} -> {part}",
        f'  %turned = tssa.aten "aten::neg"(%high) : ({part}) -> {half}',
        f'  %joined = tssa.aten "aten::cat"([%turned, %low], 3 : i64) : ({half}, {part}) -> {q}',
        f'  %x = tssa.aten "aten::mul.Tensor"(%a0, %a3) : ({q}, {angle}) -> {q}',
        f'  %y = tssa.aten "aten::mul.Tensor"(%joined, %a4) : ({q}, {angle}) -> {q}',
        f'  %q = tssa.aten "aten::add.Tensor"(%x, %y, 1 : i64) : ({q}, {q}) -> {q}',
        (
            f'  %0 = tssa.aten "aten::scaled_dot_product_attention"(%q, %a1, %a2, none, 0.0 : f64,'
            f" false, none, true) : ({q}, {k}, {k}) -> {q}"
        ),
    ]
    schedule = (
        '{family = "attention", lanes = 8 : i64, vectors = 2 : i64,'
        f" threads = 64 : i64, group = {blocks} : i64}}"
    )
    program = compiled(
        [q, k, k, angle, angle], lines, [("%0", q)], ("sm_90",), schedule
    )
    assert is_one_kernel(program)
    for keys in (1, 6, 77):
        query, key, value = shape.inputs(keys)
        cos, sin = make((32,), torch.float16, 7), make((32,), torch.float16, 8)
        (got,) = program.run(query, key, value, cos, sin, symbols=[keys])
        low, high = query.chunk(2, -1)
        turned = query * cos + torch.cat([-high, low], -1) * sin
        close(got, shape.eager(turned, key, value), 4)
