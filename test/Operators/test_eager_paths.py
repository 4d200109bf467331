# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Eager's paths for long tensors and for one element differ where eager_paths.py says so, and nowhere else.

For each pointwise overload of the operator table with one or two tensors, over a grid of special values.
ATEN_CPU_CAPABILITY=default or avx2 in the environment chooses other kernels of eager's.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from Operators.eager_paths import DIFFERENCES, base_name, differ

ROOT = Path(__file__).resolve().parents[2]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
LONG = 256  # a multiple of every vector's length, and no scalar tail


def values(dtype: torch.dtype) -> torch.Tensor:
    info = torch.finfo(dtype)
    numbers = [0.0, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 2.5, 10.0, 30.0, 88.0, 100.0, 1e4]
    numbers += [info.tiny, info.tiny / 4, info.max, info.max / 2, torch.inf]
    signed = [sign * number for number in numbers for sign in (1, -1)]
    return torch.tensor([*signed, torch.nan], dtype=torch.float64).to(dtype)


def overloads() -> list[str]:
    page = (ROOT / "docs/Operators.md").read_text()
    return re.findall(r"\| `aten::([^`]+)` \| pure \| own kernel \|", page)


def as_function(overload: str) -> tuple[Callable[..., torch.Tensor], int] | None:
    """The overload as a function of tensors alone, and how many it takes."""
    base, _, name = overload.partition(".")
    op = getattr(getattr(torch.ops.aten, base), name or "default")
    needed = [a for a in op._schema.arguments if not a.has_default_value()]
    if any(str(a.type) != "Tensor" for a in needed) or not 1 <= len(needed) <= 2:
        return None
    return op, len(needed)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_paths(dtype: torch.dtype) -> None:
    grid = values(dtype)
    found: dict[str, list[str]] = {}
    pointwise = 0
    for overload in overloads():
        function = as_function(overload)
        if function is None:
            continue
        op, count = function
        points = torch.cartesian_prod(*[grid] * count).reshape(-1, count)
        size = -(-len(points) // LONG) * LONG
        turns = -(-size // len(points))
        operands = [points[:, i].repeat(turns)[:size] for i in range(count)]
        try:
            long = op(*(operand.clone() for operand in operands))
        except RuntimeError:
            continue  # eager has no such kernel
        if not isinstance(long, torch.Tensor) or long.shape != operands[0].shape:
            continue  # no pointwise operator
        pointwise += 1
        pairs = zip(*(operand.split(1) for operand in operands), strict=True)
        one = torch.cat([op(*pair) for pair in itertools.islice(pairs, len(points))])
        apart = differ(one, long[: len(one)])
        if apart.any() and base_name(overload) not in DIFFERENCES:
            place = int(apart.nonzero()[0])
            at = [operand[place].item() for operand in operands]
            found[overload] = [
                f"{at}: {one[place].item()} alone, {long[place].item()} among others"
            ]
    assert pointwise > 60
    assert not found, found
