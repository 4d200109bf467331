# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results of runners side by side: their tensors, and how far they differ."""

from __future__ import annotations

import math
from typing import Any

import torch


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Every tensor in a result, in a fixed order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for key in value for t in tensors_of(value[key])]
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in tensors_of(item)]
    return []


def largest_difference(want: Any, have: Any, *, relative: bool = False) -> float:
    """The largest absolute difference between two results; infinite when unlike.

    With ``relative``, where values exceed 1, relative to the largest of them: an
    untrained ResNet-50 answers values of 500, whose own rounding in float32 is 3e-4.
    """
    left, right = tensors_of(want), tensors_of(have)
    if len(left) != len(right) or not left:
        return float("inf")
    worst = 0.0
    for a, b in zip(left, right, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        if a.numel():
            gap = (a.double() - b.double()).abs().max().item()
            # A NaN is a difference, not something that max() may pass over.
            if math.isnan(gap):
                return float("inf")
            scale = max(1.0, a.double().abs().max().item()) if relative else 1.0
            worst = max(worst, gap / scale)
    return worst
