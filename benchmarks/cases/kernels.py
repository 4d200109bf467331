# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small programs: one kernel each, or the cost of a call."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .registry import case, floats


@case("relu-add", "relu(a + b) * 2 on 64 floats: the cost of a call")
def _relu_add() -> Any:
    return (lambda a, b: torch.relu(a + b) * 2), floats((64,), (64,))


@case("pointwise", "a chain of ten pointwise operators on a million floats")
def _pointwise() -> Any:
    def chain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = torch.sigmoid(x) * y + x
        z = torch.tanh(z) * 0.5 + torch.relu(y - x)
        return z * z - y

    return chain, floats((1024, 1024), (1024, 1024))


@case("softmax", "softmax over rows, 4096 x 1024")
def _softmax() -> Any:
    return (lambda x: torch.softmax(x * 0.5, -1)), floats((4096, 1024))


class AddNorm(nn.Module):
    """A residual add and a layer norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.norm(x + y)


@case("layer-norm", "residual add and layer norm, 2048 x 768")
def _layer_norm() -> Any:
    return AddNorm(768), floats((2048, 768), (2048, 768))


def _layers() -> nn.Module:
    torch.manual_seed(0)
    layers = (nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512), nn.LayerNorm(512))
    return nn.Sequential(*layers).eval()


@case("mlp", "two linear layers with GELU and layer norm, 32 x 512")
def _mlp() -> Any:
    return _layers(), floats((32, 512))


class ScaledMLP(nn.Module):
    """An MLP whose input is scaled by a CPU scalar that each call brings."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = _layers()

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return self.layers(x * scale)


@case("mlp-scalar", "the MLP with a CPU scalar argument per call", on_cpu=(1,))
def _mlp_scalar() -> Any:
    return ScaledMLP().eval(), floats((32, 512), ())
