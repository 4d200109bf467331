# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""When two results are the same, to the bit of their meaning."""

from __future__ import annotations

from typing import Any

import torch

BITS = {torch.float64: torch.int64, torch.float32: torch.int32}
HALVES = (torch.float16, torch.bfloat16)


def ordered(value: torch.Tensor) -> torch.Tensor:
    """Floats as integers in the order of the floats: neighbours differ by one, both zeros are 0."""
    bits = value.view(BITS.get(value.dtype, torch.int16)).to(torch.int64)
    width = 8 * value.element_size()
    lowest = -(2 ** (width - 1)) if width < 64 else -(2**63)
    return torch.where(bits < 0, lowest - bits, bits)


def ulps(have: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """How many floats lie between; 0 for two nans; huge where only one is nan or the sign of zero differs."""
    distance = (ordered(have) - ordered(want)).abs()
    distance = torch.where(distance < 0, 2**62, distance)  # overflow of opposite ends
    nan_have, nan_want = have.isnan(), want.isnan()
    distance = torch.where(nan_have & nan_want, 0, distance)
    distance = torch.where(nan_have ^ nan_want, 2**62, distance)
    zeros = (have == 0) & (want == 0) & (have.signbit() != want.signbit())
    return torch.where(zeros, 2**62, distance)


def difference(
    have: Any, want: Any, bound: int, slack: torch.Tensor | None = None
) -> str:
    """Why two results are not the same, or an empty text.

    bound: units in the last place by which floats may differ. slack: by how much each may differ
    besides, where results cancel.
    """
    if isinstance(want, (tuple, list)):
        if len(have) != len(want):
            return f"{len(have)} results for {len(want)}"
        found = (
            difference(h, w, bound, slack) for h, w in zip(have, want, strict=True)
        )
        return next((text for text in found if text), "")
    for fact in ("dtype", "shape", "requires_grad"):
        if getattr(have, fact) != getattr(want, fact):
            return f"{fact} {getattr(have, fact)} for {getattr(want, fact)}"
    for size, mine, theirs in zip(
        want.shape, have.stride(), want.stride(), strict=True
    ):
        if size > 1 and mine != theirs and want.numel():
            return f"strides {have.stride()} for {want.stride()}"
    return value_difference(have.detach(), want.detach(), bound, slack)


def value_difference(
    have: torch.Tensor, want: torch.Tensor, bound: int, slack: torch.Tensor | None
) -> str:
    have, want = have.cpu().contiguous(), want.cpu().contiguous()
    if want.dtype.is_complex:
        have, want = torch.view_as_real(have), torch.view_as_real(want)
    if not want.dtype.is_floating_point:
        wrong = have != want
    else:
        wrong = ulps(have, want) > bound
        if slack is not None:
            close = (have.double() - want.double()).abs() <= slack.cpu()
            wrong &= ~close
    if not wrong.any():
        return ""
    at = wrong.nonzero()[0].tolist()
    mine, theirs = have[tuple(at)].item(), want[tuple(at)].item()
    return f"{int(wrong.sum())} of {want.numel()} differ, first at {at}: {mine!r} for {theirs!r}"
