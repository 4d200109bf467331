# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every pointwise overload of the operator table before every reduction, where there are no elements.

One program applies one pointwise overload and then each reduction, to tensors of their own, so
that each pair is a kernel. It is called with shapes that have a 0 at each position, with sizes
that differ between calls (a symbol beside the 0), and with sizes that become 0.

PYJIT_OPERATORS=full takes every pointwise overload and shape; by default 20 of these pairs.
"""

from __future__ import annotations

import math
import os
import random
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from Operators.calls import function, table

FULL = os.environ.get("PYJIT_OPERATORS", "") == "full"
# A program's calls; of two equal ones the second has to be a hit.
SHAPES: dict[str, list[tuple[int, ...]]] = {
    "one": [(0,), (0,)],
    "first": [(0, 3), (0, 3)],
    "middle": [(2, 0, 3), (2, 0, 3)],
    "last": [(3, 0), (3, 0)],
    "beside other sizes": [(4, 0), (5, 0), (6, 0), (6, 0), (0, 0), (0, 0)],
    "a size becomes 0": [(3, 4), (3, 5), (3, 6), (3, 0), (3, 0)],
    "both sizes become 0": [(5, 4), (6, 5), (7, 6), (0, 7), (8, 0), (8, 0)],
}
Kernel = Callable[..., Any]


def own_kernels() -> list[str]:
    return sorted(
        name
        for name, row in table().items()
        if row.kind == "pure" and row.lowering.startswith("own kernel")
    )


def takes_tensors(overload: str) -> int:
    """How many tensors an overload takes that needs nothing else; 0: it needs more."""
    needed = [
        argument
        for argument in function(overload)._schema.arguments
        if not argument.has_default_value()
    ]
    only = all(str(argument.type) == "Tensor" for argument in needed)
    return len(needed) if only and len(needed) <= 3 else 0


def shape_of(call: Kernel, *operands: torch.Tensor) -> tuple[int, ...] | None:
    try:
        result = call(*operands)
    except (RuntimeError, IndexError, TypeError):
        return None
    return tuple(result.shape) if isinstance(result, torch.Tensor) else None


def operands(count: int, shape: tuple[int, ...], seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    assert math.prod(shape) < 1000
    return [torch.rand(shape, generator=generator) * 0.5 + 0.25 for _ in range(count)]


def pointwise() -> list[str]:
    """Overloads that give a tensor of their operands' shape."""
    found = []
    for overload in own_kernels():
        count = takes_tensors(overload)
        shapes = [(2, 3), (4,), (2, 4, 3), (0,)]
        if count and all(
            shape_of(function(overload), *operands(count, shape, 0)) == shape
            for shape in shapes
        ):
            found.append(overload)
    return found


def along(overload: str) -> Kernel:
    """A reduction's overload along its first dimension and along its last."""
    op = function(overload)
    arguments = [argument.name for argument in op._schema.arguments]
    kind = str(op._schema.arguments[arguments.index("dim")].type)
    one = "List" in kind

    def both(x: torch.Tensor) -> list[torch.Tensor]:
        return [op(x, dim=[d] if one else d) for d in (0, -1)]

    return both


def reductions() -> dict[str, Kernel]:
    """Overloads whose result has fewer elements, or a row's elements combined."""
    found: dict[str, Kernel] = {}
    x = torch.rand(2, 3)
    for overload in own_kernels():
        arguments = [argument.name for argument in function(overload)._schema.arguments]
        if takes_tensors(overload) == 1 and shape_of(function(overload), x) == ():
            found[overload] = function(overload)
        if "dim" not in arguments:
            continue
        try:
            results = along(overload)(x)
        except (RuntimeError, IndexError, TypeError):
            continue
        if isinstance(results[0], torch.Tensor):
            found[f"{overload} along"] = along(overload)
    return found


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    REDUCTIONS = reductions()
    POINTWISE = pointwise()
CHOSEN = [(overload, name) for overload in POINTWISE for name in SHAPES]
if not FULL:
    CHOSEN = random.Random(13).sample(CHOSEN, 20)


def test_table() -> None:
    """The table has what this test is about."""
    assert len(POINTWISE) > 80
    assert {"sum", "sum.dim_IntList along", "amax along", "prod"} <= REDUCTIONS.keys()
    assert len(REDUCTIONS) > 15


def same(want: Any, have: Any, what: str) -> None:
    if isinstance(want, (list, tuple)):
        assert len(want) == len(have)
        for number, (a, b) in enumerate(zip(want, have, strict=True)):
            same(a, b, f"{what}[{number}]")
        return
    assert want.dtype == have.dtype, what
    assert want.shape == have.shape, what
    # Of no elements a result is exact: the neutral number, or what is made of it.
    tolerance = 0.0 if 0 in want.shape else 1e-4
    torch.testing.assert_close(
        have, want, rtol=tolerance, atol=tolerance, equal_nan=True, check_stride=False,
        msg=lambda message: f"{what}: {message}",
    )  # fmt: skip


def valid(overload: str, shapes: Sequence[tuple[int, ...]]) -> list[str]:
    """The reductions that eager carries out after an overload for all of these shapes."""
    names = []
    count = takes_tensors(overload)
    for name, call in REDUCTIONS.items():
        try:
            for shape in shapes:
                call(function(overload)(*operands(count, shape, 0)))
        except (RuntimeError, IndexError):
            continue
        names.append(name)
    return names


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("overload", "name"), CHOSEN)
def test_reductions(overload: str, name: str) -> None:
    import pyjit

    shapes = SHAPES[name]
    op, count = function(overload), takes_tensors(overload)
    names = valid(overload, shapes)
    calls = [REDUCTIONS[name] for name in names]
    assert len(calls) > 6, names

    def program(*groups: list[torch.Tensor]) -> list[Any]:
        return [call(op(*group)) for call, group in zip(calls, groups, strict=True)]

    with torch.no_grad():
        fast: Any = pyjit.compile(program, options={"strict": True})
        for number, shape in enumerate(shapes):
            groups = [operands(count, shape, seed) for seed in range(len(calls))]
            want, have = program(*groups), fast(*groups)
            for reduction, a, b in zip(names, want, have, strict=True):
                same(a, b, f"{overload}, {reduction}, call {number} of {shape}")
    stats = pyjit.stats(fast)
    assert stats["hits"], stats["reasons"]
    assert stats["kernels"], "no kernel of ours ran"
