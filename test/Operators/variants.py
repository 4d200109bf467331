"""Eager's own answers to one call, where it has several.

ATen's CPU kernels have a vector loop and a scalar loop (for the tail, and for operands that are not contiguous). The two
differ in places: which of two zeros is the greater, `gelu(inf)` on AVX-512, products that are fused or not, functions of
SLEEF and of the C library. Which element meets which loop depends on its place in memory, on the number of threads and
on the CPU, so no program can rely on it: either answer is right.
"""

from __future__ import annotations

from typing import Any

import torch
from Operators.cases import Case, run
from Operators.compare import ulps

MOST = 100_000
ALONE = 1000
LONG = 64  # elements that one vector loop is sure to take


def explained(
    case: Case,
    have: torch.Tensor,
    want: torch.Tensor,
    bound: int,
    slack: torch.Tensor | None,
) -> bool:
    """Whether each element that differs is what eager's other loop answers to the same numbers."""
    if have.shape != want.shape or have.dtype != want.dtype:
        return False
    if have.dim() == 0:
        have, want = have.reshape(1), want.reshape(1)
    apart = differing(have, want, bound)
    if slack is not None:
        apart &= ~((have.double() - want.double()).abs() <= slack)
    differ = apart.nonzero(as_tuple=True)
    count = len(differ[0])
    if count == 0 or count > MOST:
        return False
    mine = have[differ]
    right = torch.zeros(count, dtype=torch.bool, device=have.device)
    for answer in answers(case, want.shape, differ):
        if answer.shape == mine.shape and answer.dtype == mine.dtype:
            right |= ~differing(mine, answer, bound)
    return bool(right.all())


def differing(a: torch.Tensor, b: torch.Tensor, bound: int) -> torch.Tensor:
    if not a.dtype.is_floating_point:
        return a != b
    return ulps(a.contiguous(), b.contiguous()) > bound


def answers(
    case: Case, shape: torch.Size, at: tuple[torch.Tensor, ...]
) -> list[torch.Tensor]:
    """What the vector loop and the scalar loop say of the elements at some places."""
    found = []
    for lay_out, read in ((repeated, lambda r: r[::LONG]), (spread, lambda r: r)):
        try:
            values = [picked(value, shape, at, lay_out) for value in case.arguments]
            found.append(read(run(case.row, values)))
        except (RuntimeError, IndexError, TypeError):
            continue
    if len(at[0]) <= ALONE:
        try:
            places = range(len(at[0]))
            found.append(torch.cat([single(case, shape, at, i) for i in places]))
        except (RuntimeError, IndexError, TypeError):
            pass
    return found


def single(
    case: Case, shape: torch.Size, at: tuple[torch.Tensor, ...], i: int
) -> torch.Tensor:
    """What eager says of the i-th of some elements, given nothing else."""
    values = [
        value.expand(shape)[tuple(index[i] for index in at)].reshape(1)
        if isinstance(value, torch.Tensor) and value.dim()
        else value
        for value in case.arguments
    ]
    return run(case.row, values)


def picked(
    value: Any, shape: torch.Size, at: tuple[torch.Tensor, ...], lay_out: Any
) -> Any:
    """An operand's elements at those places; one of a single element stays as it is, as loops see that."""
    if not isinstance(value, torch.Tensor) or (
        value.numel() == 1 and shape.numel() > 1
    ):
        return value
    return lay_out(value.expand(shape)[at])


def repeated(values: torch.Tensor) -> torch.Tensor:
    return values.repeat_interleave(LONG)


def spread(values: torch.Tensor) -> torch.Tensor:
    return torch.stack([values, values], dim=1)[:, 0]
