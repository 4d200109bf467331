# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Regions of autocast and layers of whole numbers, for the tests of autocast around compiled calls.

All numbers are small integers, so that no type rounds them: what differs is another cast, not another rounding.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

BF16, F16 = torch.bfloat16, torch.float16


def region(dtype: torch.dtype = BF16, **settings: Any) -> torch.autocast:
    return torch.autocast("cpu", dtype, **settings)


def whole(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-2, 3, shape, generator=generator).float()


def linear(inputs: int, outputs: int, seed: int = 0) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    with torch.no_grad():
        layer.weight.copy_(whole(outputs, inputs, seed=seed))
        layer.bias.copy_(whole(outputs, seed=seed + 1))
    return layer


def network() -> nn.Sequential:
    return nn.Sequential(linear(4, 6), nn.ReLU(), linear(6, 3, seed=2))


def taken(m: nn.Module, *results: torch.Tensor) -> list[Any]:
    """Results, gradients and weights; the gradients are taken away."""
    for result in results:
        if result.requires_grad:
            result.float().sum().backward()
    seen = [results, [(p.grad, p) for p in m.parameters()]]
    for p in m.parameters():
        p.grad = None
    return seen
