# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batch norms of training that are kernels (on a device those whose channels lie beside each other): against eager, and
no further from double precision than eager is."""

from __future__ import annotations

import copy
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from torch import nn

SIMULATED: dict[str, Any] = {"simulated_device": True}

# Sizes of images; how far their mean is from zero, in standard deviations.
SIZES = {
    "small": ((4, 8, 5, 6), 0.0),
    "many rows": ((16, 24, 32, 32), 3.0),
    "few channels": ((8, 3, 17, 13), 0.0),
    "channels that fill no vector": ((6, 37, 9, 9), 0.0),
    "many channels": ((4, 512, 5, 5), 0.0),
    "far from zero": ((8, 16, 16, 16), 300.0),
    "volumes": ((2, 16, 4, 6, 5), 1.0),
    "rows": ((256, 40), 2.0),
}
FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


class Block(nn.Module):
    """A norm between elementwise operators, as in residual networks."""

    def __init__(self, channels: int, rank: int, **options: Any) -> None:
        super().__init__()
        kind = {2: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[rank]
        self.norm = kind(channels, **options)
        with torch.no_grad():
            for p in self.norm.parameters():
                p.add_(torch.randn_like(p) * 0.3)

    def forward(self, x: torch.Tensor, skipped: torch.Tensor) -> torch.Tensor:
        return F.silu(self.norm(x * 1.5) + skipped)  # no kink, which roundings cross


def train(model: nn.Module, call: Any, inputs: list[Any]) -> list[list[torch.Tensor]]:
    """Results, gradients and statistics of each step."""
    seen = []
    for x, skipped, weight in inputs:
        x, skipped = (t.detach().requires_grad_() for t in (x, skipped))
        out = call(x, skipped)
        (out * weight).sum().backward()
        seen.append([out.detach(), x.grad, skipped.grad])
        for p in model.parameters():
            seen[-1].append(p.grad.clone())
            p.grad = None
        seen[-1] += [b.clone() for b in model.buffers()]
    return seen


def check(
    device: str,
    name: str,
    dtype: torch.dtype,
    compile_options: dict[str, Any],
    channels_last: bool = True,
    **options: Any,
) -> None:
    shape, mean = SIZES[name]
    torch.manual_seed(0)
    model = Block(shape[1], len(shape), **options).to(device)
    layout = torch.contiguous_format
    if channels_last:
        layout = FORMATS.get(len(shape), layout)

    def draw() -> torch.Tensor:
        return torch.randn(shape).to(device, dtype).contiguous(memory_format=layout)

    inputs = [(draw() + mean, draw(), draw()) for _ in range(5)]
    double = [tuple(t.double() for t in step) for step in inputs]
    exact = copy.deepcopy(model).double()
    other = copy.deepcopy(model)
    fast = pyjit.compile(other, options=compile_options)
    want, have = train(model, model, inputs), train(other, fast, inputs)
    truth = train(exact, exact, double)
    stats = pyjit.stats(fast)
    # Without a momentum, the factor is a number of how many batches there were.
    assert (stats.graph_breaks, stats.hits) == (0, 4), stats.reasons
    for step, rows in enumerate(zip(want, have, truth, strict=True)):
        for number, (w, h, t) in enumerate(zip(*rows, strict=True)):
            assert (w.dtype, w.stride()) == (h.dtype, h.stride()), (step, number)
            if not w.is_floating_point():
                assert torch.equal(w, h)
                continue
            size = float(t.abs().max()) + 1e-6
            error, theirs = (float((x - t).abs().max()) / size for x in (h, w))
            least = 4 * torch.finfo(w.dtype).eps
            assert error <= 3 * theirs + least, (step, number, error, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("name", SIZES)
def test_training(name: str, dtype: torch.dtype) -> None:
    check("cpu", name, dtype, SIMULATED)


@pytest.mark.parametrize("channels_last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("name", SIZES)
def test_training_on_a_host(name: str, channels_last: bool) -> None:
    check("cpu", name, torch.float32, {}, channels_last)


@pytest.mark.parametrize(
    "options",
    [{"affine": False}, {"track_running_stats": False}, {"momentum": None}, {"eps": 0.1, "momentum": 0.7}],
    ids=lambda o: ",".join(o),
)  # fmt: skip
def test_options(options: dict[str, Any]) -> None:
    check("cpu", "many rows", torch.float32, SIMULATED, **options)
