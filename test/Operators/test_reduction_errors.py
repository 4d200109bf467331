# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions are as accurate as eager's, whatever the layout of their input: both against float64.

A sum's error grows with the number of elements that one accumulator takes in. Eager's cascades keep that to a few dozen;
so must every loop of ours: vectors along rows, vectors across rows, scalars far apart, loops inside of loops. Numbers
of one sign do not cancel, and of equal numbers each rounding errs to the same side.

PYJIT_OPERATORS=full: all inputs instead of a seeded sample (an hour).
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F

Reduction = Callable[[torch.Tensor, int], torch.Tensor]
FULL = os.environ.get("PYJIT_OPERATORS") == "full"
SAMPLE = {torch.float32: 24, torch.bfloat16: 6}

# Along dimension `dim`; the norms of layers along the last one, or along all.
REDUCTIONS: dict[str, Reduction] = {
    "sum": lambda x, dim: x.sum(dim),
    "sum of all": lambda x, dim: x.sum(),
    "sum in float32": lambda x, dim: x.sum(dim, dtype=torch.promote_types(x.dtype, torch.float32)),
    "sum of values": lambda x, dim: (x * torch.sigmoid(x)).sum(dim),
    "mean": lambda x, dim: x.mean(dim),
    "nanmean": lambda x, dim: x.nanmean(dim),
    "var": lambda x, dim: x.var(dim),
    "std of all": lambda x, dim: x.std(),
    "prod": lambda x, dim: (x * 1e-6 + 1).prod(dim),
    "norm": lambda x, dim: x.norm(dim=dim),
    "norm 1": lambda x, dim: torch.linalg.vector_norm(x, 1, dim),
    "norm 3": lambda x, dim: torch.linalg.vector_norm(x, 3, dim),
    "normalize": lambda x, dim: F.normalize(x, dim=dim),
    "softmax": lambda x, dim: x.softmax(dim),
    "log_softmax": lambda x, dim: x.log_softmax(dim),
    "logsumexp": lambda x, dim: x.logsumexp(dim),
    "layer_norm": lambda x, dim: F.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x, dim: F.rms_norm(x, x.shape[-1:]),
    "group_norm": lambda x, dim: F.group_norm(x.unsqueeze(0), 1),
    "mse_loss": lambda x, dim: F.mse_loss(x, x * 0.5),
    "cosine_similarity": lambda x, dim: F.cosine_similarity(x, x * 0.5 + 1, dim),
    "cumsum": lambda x, dim: x.cumsum(dim),
}  # fmt: skip
# Of equal numbers these are zero, in eager exactly: a rounding of the mean would be divided by a deviation of nothing.
CENTERED = ("var", "std of all", "layer_norm", "group_norm")
# Group norm subtracts two products that are large there, in eager with one rounding less.
FAR = ("var", "std of all", "layer_norm")
# Numbers of one sign; one number; numbers far from zero and close to each other.
VALUES = ("any", "equal", "far")

Memory = Callable[..., torch.Tensor]
# Of new memory, a tensor of that many rows and columns.
LAYOUTS: dict[str, Callable[[Memory, int, int], torch.Tensor]] = {
    "dense": lambda new, rows, columns: new(rows, columns),
    "every second": lambda new, rows, columns: new(rows, 2 * columns)[:, ::2],
    "every ninth": lambda new, rows, columns: new(rows, 9 * columns)[:, 5::9],
    "transposed": lambda new, rows, columns: new(columns, rows).t(),
    "transposed, every second": lambda new, rows, columns: new(columns, 2 * rows)[:, ::2].t(),
    "expanded row": lambda new, rows, columns: new(1, columns).expand(rows, columns),
    "expanded column": lambda new, rows, columns: new(rows, 1).expand(rows, columns),
    "window": lambda new, rows, columns: new(rows + 2, columns + 3)[1:-1, 1:-2],
    "three of four": lambda new, rows, columns: new(rows, columns // 3 + 1, 4)[:, :, :3].flatten(1)[:, :columns],
    "rows of three": lambda new, rows, columns: new(rows, columns // 3 + 1, 4)[:, :, :3],
    "rows of three, permuted": lambda new, rows, columns: new(3, rows, columns // 3 + 1).permute(1, 2, 0),
}  # fmt: skip
SHAPES = [(1, 1), (5, 37), (70, 1024), (1030, 9), (3, 20_011), (20_011, 3), (1, 300_000), (300_000, 1)]  # fmt: skip


@dataclass
class Input:
    layout: str
    rows: int
    columns: int
    values: str
    dim: int
    written: bool  # reduced right after a write

    def make(self, dtype: torch.dtype) -> torch.Tensor:
        generator = torch.Generator().manual_seed(self.rows + self.columns)

        def new(*shape: int) -> torch.Tensor:
            values = torch.rand(shape, generator=generator) + 0.25
            if self.values == "far":
                values = values / 64 + 700
            return torch.full(shape, 0.7, dtype=dtype) if self.values == "equal" else values.to(dtype)  # fmt: skip

        return LAYOUTS[self.layout](new, self.rows, self.columns)


def inputs(name: str, dtype: torch.dtype) -> Iterator[Input]:
    found = [
        Input(layout, *shape, values, dim, written)
        for layout, shape, values, dim, written in itertools.product(
            LAYOUTS, SHAPES, VALUES, (-1, 0), (False, True)
        )
        if not (written and layout.startswith("expanded"))
        and not (values == "far" and name not in FAR)
        and not (name == "group_norm" and shape == (1, 1))  # refused
    ]
    draw = random.Random(f"{name} {dtype}")
    return iter(found if FULL else draw.sample(found, SAMPLE[dtype]))


def error(result: torch.Tensor, exact: torch.Tensor) -> float:
    """The root of the mean square of differences, in units of the mean size of results; of 1 where all are 0."""
    scale = (exact.square().mean().sqrt() or 1.0) * torch.finfo(result.dtype).eps
    return float((result.double() - exact).square().mean().sqrt() / scale)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("dtype", SAMPLE, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_error(name: str, dtype: torch.dtype) -> None:
    import pyjit

    function = REDUCTIONS[name]

    def reduce(x: torch.Tensor, dim: int) -> torch.Tensor:
        return function(x, dim)

    def write_and_reduce(x: torch.Tensor, dim: int) -> torch.Tensor:
        x[-1] = 0.5
        return function(x, dim)

    wrong = []
    for case in inputs(name, dtype):
        program = write_and_reduce if case.written else reduce
        with torch.no_grad():
            # Of the numbers that the type has.
            exact = program(case.make(dtype).double(), case.dim)
            if not exact.isfinite().all():
                continue  # a variance of one element
            fast = pyjit.compile(program, options={"strict": True})
            fast(case.make(dtype), case.dim)
            mine = error(fast(case.make(dtype), case.dim), exact)
            theirs = error(program(case.make(dtype), case.dim), exact)
        if mine > 4 * theirs + (4 if case.values == "equal" else 2):
            wrong.append(f"{case}: {mine:.1f} units, eager {theirs:.1f}")
    assert not wrong, "\n".join(wrong)
