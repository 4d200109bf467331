# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Autocast on a GPU: the casts are operators of the specialization, but those that a region around it keeps."""

from __future__ import annotations

import copy
import os

import pytest
import torch
import torch.nn.functional as F
from Integration import test_random_autocast
from Integration.random_kinds import numbered
from torch import nn

pytestmark = pytest.mark.gpu


class Mixed(nn.Module):
    """Operators that autocast runs in half precision, in single, and in the widest."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64))
        self.back = nn.Parameter(torch.randn(64, 32) / 8)
        self.conv = nn.Conv1d(1, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.layers(x) @ self.back + self.layers(x * 2) @ self.back
        windows = self.conv(x[:, None])
        return y, y.softmax(1), windows, torch.cat([windows, x[:, None]], 1), y.exp()


class Inside(Mixed):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.autocast("cuda", dtype=torch.float16):
            return super().forward(x)


def check(have: tuple[torch.Tensor, ...], want: tuple[torch.Tensor, ...]) -> None:
    assert [t.dtype for t in have] == [t.dtype for t in want]
    torch.testing.assert_close(have, want, rtol=2e-2, atol=2e-2)


def inputs() -> list[torch.Tensor]:
    return [torch.randn(16, 32, device="cuda") for _ in range(5)]


def test_inside() -> None:
    import pyjit

    model = Inside().cuda().eval()
    fast = pyjit.compile(model)
    with torch.no_grad():
        for x in inputs():
            check(fast(x), model(x))
    stats = pyjit.stats(fast)
    assert (stats["specializations"], stats["graph_breaks"], stats["hits"]) == (1, 0, 4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_around(dtype: torch.dtype) -> None:
    import pyjit

    model = Mixed().cuda().eval().requires_grad_(False)
    fast = pyjit.compile(model)
    for number, x in enumerate(inputs() + inputs()):
        with torch.autocast("cuda", dtype=dtype, enabled=number % 5 != 2):
            check(fast(x), model(x))
    stats = pyjit.stats(fast)
    assert (stats["specializations"], stats["graph_breaks"], stats["hits"]) == (2, 0, 8)


def test_around_with_weights_that_require_grad() -> None:
    """Autocast keeps their casts as long as its region, for the compiled model and for eager."""
    import pyjit

    model = Mixed().cuda().eval()
    fast = pyjit.compile(model)
    with torch.no_grad():
        for number, x in enumerate(inputs() + inputs()):
            with torch.autocast("cuda", dtype=torch.float16):
                check(fast(x), model(x))
                if number % 3 == 0:
                    model.back.mul_(-2)
                    check(fast(x), model(x))
    stats = pyjit.stats(fast)
    assert (stats["specializations"], stats["graph_breaks"], stats["hits"]) == (
        1,
        0,
        13,
    )


def test_training_around() -> None:
    """Gradients go through autocast's own casts, from graph to graph; weights step between the calls."""
    import pyjit

    torch.manual_seed(0)
    model = Mixed().cuda()
    other = copy.deepcopy(model)
    fast = pyjit.compile(other)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.05) for m in (model, other)]
    for x in inputs() + inputs():
        found = []
        for m, f, optimizer in zip(
            (model, other), (model, fast), optimizers, strict=True
        ):
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = sum(F.mse_loss(y, torch.zeros_like(y)) for y in f(x)[:3])
            loss.backward()
            found.append([loss.detach(), *(p.grad for p in m.parameters())])
            optimizer.step()
        torch.testing.assert_close(found[1], found[0], rtol=3e-2, atol=3e-2)
        with torch.no_grad():
            for a, b in zip(model.parameters(), other.parameters(), strict=True):
                b.copy_(a)
    stats = pyjit.stats(fast)
    assert (stats["graph_breaks"], stats["hits"]) == (0, 9)


@pytest.mark.filterwarnings("ignore")
def test_random_regions() -> None:
    check = numbered(test_random_autocast.check, device="cuda")
    batch = check(0, int(os.environ.get("PYJIT_EXAMPLES", "120")) // 4)
    assert not batch.failures, "\n".join(batch.failures[:5])
