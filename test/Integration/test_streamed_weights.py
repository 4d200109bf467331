# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A step of one row on a CPU reads large weights where they lie: nothing is packed beside the model."""

from __future__ import annotations

import pyjit
import pytest
import torch
from torch import nn
from torch.nn import functional

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
WIDE = 1024  # 512 rows of it are more than what is packed


class Conv1D(nn.Module):
    """As GPT-2 has it: the weight is in x out."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inner, outer) / 32)
        self.bias = nn.Parameter(torch.randn(outer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.addmm(self.bias, x, self.weight)


class Block(nn.Module):
    def __init__(self, kind: type[nn.Module], inner: int = 512) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm = nn.LayerNorm(WIDE)
        self.up, self.down = kind(WIDE, inner), kind(inner, WIDE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = functional.gelu(self.up(self.norm(x)), approximate="tanh")
        return x + self.down(hidden)


def compare(fast: nn.Module, model: nn.Module, x: torch.Tensor) -> None:
    """Errors against double precision are at most twice those of eager, but for a rounding."""
    exact = model.double()(x.double())
    want, have = model.to(x.dtype)(x), fast(x)
    allowed = (want - exact).abs().max() * 2
    rounding = exact.abs().max() * torch.finfo(x.dtype).eps
    assert have.dtype == want.dtype and have.stride() == want.stride()
    assert (have - exact).abs().max() <= allowed + rounding


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", [nn.Linear, Conv1D])
def test_one_row(kind: type[nn.Module], dtype: torch.dtype) -> None:
    model, other = Block(kind).to(dtype), Block(kind).to(dtype)
    fast = pyjit.compile(model)
    with torch.no_grad():
        for seed in range(3):
            torch.manual_seed(seed)
            compare(fast, other, torch.randn(1, WIDE).to(dtype))
    stats = pyjit.stats(fast)
    assert stats["hits"] and not stats["vendor_calls"], stats
    assert not stats["packed_weight_bytes"], stats


def test_odd_columns() -> None:
    """A vocabulary that divides into no vectors."""
    model, other = Block(nn.Linear, 517), Block(nn.Linear, 517)
    fast = pyjit.compile(model)
    with torch.no_grad():
        for _ in range(3):
            compare(fast, other, torch.randn(1, WIDE))
    stats = pyjit.stats(fast)
    assert not stats["vendor_calls"] and not stats["packed_weight_bytes"], stats


def test_weights_that_are_written() -> None:
    model, other = Block(nn.Linear), Block(nn.Linear)
    fast = pyjit.compile(model)
    x = torch.randn(1, WIDE)
    with torch.no_grad():
        for write in (
            lambda m: None,
            lambda m: None,
            lambda m: m.up.weight.mul_(2),
            lambda m: m.down.load_state_dict({k: v + 1 for k, v in m.down.state_dict().items()}),
            lambda m: setattr(m.up, "weight", nn.Parameter(m.up.weight.flip(0))),
        ):  # fmt: skip
            write(model), write(other)
            torch.testing.assert_close(fast(x), other(x), rtol=1e-4, atol=1e-3)


def test_more_rows_behind_one() -> None:
    """A prompt, a step, another batch: each what eager gives, whichever form of the weight it reads."""
    model, other = Block(nn.Linear), Block(nn.Linear)
    fast = pyjit.compile(model)
    with torch.no_grad():
        for rows in (5, 1, 7, 1, 2, 1, 70, 1):
            x = torch.randn(rows, WIDE)
            torch.testing.assert_close(fast(x), other(x), rtol=1e-4, atol=1e-4)


def test_gradients() -> None:
    """Of one row, through weights that are read where they lie."""
    model, other = Block(nn.Linear), Block(nn.Linear)
    fast = pyjit.compile(model)
    for _ in range(3):
        x = torch.randn(1, WIDE)
        for m in (fast, other):
            m.zero_grad()
            m(x).square().sum().backward()
        for a, b in zip(model.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-3)
