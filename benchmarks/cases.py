"""The named programs that benchmarks and the demo run.

A case makes its callable and its inputs; weights are random, seeds are fixed.
"""

from __future__ import annotations

import logging
import math
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Case:
    """A program: `make()` gives the callable and a maker of its inputs by seed."""

    name: str
    about: str
    make: Callable[[], tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]]
    tolerance: float = 2e-4


CASES: dict[str, Case] = {}


def case(name: str, about: str, tolerance: float = 2e-4) -> Callable[[Any], Any]:
    def register(make: Any) -> Any:
        CASES[name] = Case(name, about, make, tolerance)
        return make

    return register


def _quiet_transformers() -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    logging.getLogger("transformers").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="transformers")


def _tokens(vocabulary: int, length: int) -> Callable[[int], tuple[Any, ...]]:
    def make(seed: int) -> tuple[Any, ...]:
        generator = torch.Generator().manual_seed(seed)
        return (torch.randint(0, vocabulary, (1, length), generator=generator),)

    return make


def _floats(*shapes: tuple[int, ...]) -> Callable[[int], tuple[Any, ...]]:
    def make(seed: int) -> tuple[Any, ...]:
        generator = torch.Generator().manual_seed(seed)
        return tuple(torch.randn(shape, generator=generator) for shape in shapes)

    return make


def _settle_batch_norms(model: nn.Module) -> nn.Module:
    """Gives batch norms statistics that a trained network could have."""
    generator = torch.Generator().manual_seed(7)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            shape = module.running_mean.shape
            module.running_mean.copy_(torch.randn(shape, generator=generator) * 0.1)
            module.running_var.copy_(torch.rand(shape, generator=generator) + 0.5)
    return model


@case("bert-base", "transformers BertModel, base size, 256 tokens")
def _bert() -> Any:
    _quiet_transformers()
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    return BertModel(BertConfig()).eval(), _tokens(30000, 256)


@case("resnet50", "torchvision resnet50, 224 x 224")
def _resnet() -> Any:
    from torchvision.models import resnet50

    torch.manual_seed(0)
    model = _settle_batch_norms(resnet50(weights=None)).eval()
    return model, _floats((1, 3, 224, 224))


@case("resnet18", "torchvision resnet18, 224 x 224")
def _resnet18() -> Any:
    from torchvision.models import resnet18

    torch.manual_seed(0)
    model = _settle_batch_norms(resnet18(weights=None)).eval()
    return model, _floats((1, 3, 224, 224))


@case("gpt2", "transformers GPT2Model, 12 layers, use_cache=False, 128 tokens")
def _gpt2() -> Any:
    _quiet_transformers()
    from transformers import GPT2Config, GPT2Model

    torch.manual_seed(0)
    return GPT2Model(GPT2Config(use_cache=False)).eval(), _tokens(50000, 128)


@case("mobilenetv3", "torchvision mobilenet_v3_large, 224 x 224")
def _mobilenet() -> Any:
    from torchvision.models import mobilenet_v3_large

    torch.manual_seed(0)
    model = _settle_batch_norms(mobilenet_v3_large(weights=None)).eval()
    return model, _floats((1, 3, 224, 224))


class GRUCell(nn.Module):
    """A gated recurrent unit written by hand, one step."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.from_input = nn.Linear(inputs, 3 * hidden)
        self.from_state = nn.Linear(hidden, 3 * hidden)

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        xr, xz, xn = self.from_input(x).chunk(3, -1)
        hr, hz, hn = self.from_state(h).chunk(3, -1)
        r = torch.sigmoid(xr + hr)
        z = torch.sigmoid(xz + hz)
        n = torch.tanh(xn + r * hn)
        return (1 - z) * n + z * h


@case("gru-cell", "a GRU cell written by hand, 8 x 256")
def _gru() -> Any:
    torch.manual_seed(0)
    return GRUCell(256, 256).eval(), _floats((8, 256), (8, 256))


@case("relu-add", "relu(a + b) * 2 on 64 floats: the cost of a call")
def _relu_add() -> Any:
    return (lambda a, b: torch.relu(a + b) * 2), _floats((64,), (64,))


@case("pointwise", "a chain of ten pointwise operators on a million floats")
def _pointwise() -> Any:
    def chain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = torch.sigmoid(x) * y + x
        z = torch.tanh(z) * 0.5 + torch.relu(y - x)
        return z * z - y

    return chain, _floats((1024, 1024), (1024, 1024))


@case("softmax", "softmax over rows, 4096 x 1024")
def _softmax() -> Any:
    return (lambda x: torch.softmax(x * 0.5, -1)), _floats((4096, 1024))


@case("layer-norm", "residual add and layer norm, 2048 x 768")
def _layer_norm() -> Any:
    norm = nn.LayerNorm(768)
    return (lambda x, y: norm(x + y)), _floats((2048, 768), (2048, 768))


@case("mlp", "three linear layers with GELU, 32 x 512")
def _mlp() -> Any:
    torch.manual_seed(0)
    layers = (nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512), nn.LayerNorm(512))
    return nn.Sequential(*layers).eval(), _floats((32, 512))


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
