# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Branches on data within a region of autocast, in a call or a whole step: no graph break can be in there, so recordings
go on through them, as those that calls take one way."""

from __future__ import annotations

from collections.abc import Callable

import pyjit
import pytest
import torch
from torch import nn

CALLS = 14


def region(enabled: bool) -> torch.autocast:
    return torch.autocast("cpu", torch.bfloat16, enabled=enabled)


def one(m: nn.Module, x: torch.Tensor, a: torch.Tensor, enabled: bool) -> torch.Tensor:
    with region(enabled):
        return m(x).square() if a.all() else m(x).square() * a


def two(m: nn.Module, x: torch.Tensor, a: torch.Tensor, enabled: bool) -> torch.Tensor:
    if x.sum() > 1e6:
        x = x / 2
    with region(enabled):
        y = m(x)
        if a.any():
            y = y * 2
        if a.all():
            y = y + 1
    return y if a.min() > 2 else y.float() * a


def inner(
    m: nn.Module, x: torch.Tensor, a: torch.Tensor, enabled: bool
) -> torch.Tensor:
    """A region within another, and a function's own frame."""

    def masked(y: torch.Tensor) -> torch.Tensor:
        return y if a.all() else y * a

    with region(True), region(enabled):
        return masked(m(x)).float()


def whole_step(loss_of: Callable, enabled: bool) -> Callable:
    torch.manual_seed(0)
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def step(x: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        loss = loss_of(model, x, a, enabled).float().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def inference(loss_of: Callable, enabled: bool) -> Callable:
    torch.manual_seed(0)
    model = nn.Linear(8, 8).requires_grad_(False)
    return lambda x, a: loss_of(model, x, a, enabled)


def masks(turns: str) -> list[torch.Tensor]:
    made = [torch.ones(4, 8) for _ in turns]
    for mask, turn in zip(made, turns, strict=True):
        if turn == "p":
            mask[0, 1] = 0
    return made


@pytest.mark.parametrize(
    "turns", ["p" * CALLS, "pppppwwpwpppppww"], ids=["one way", "both"]
)
@pytest.mark.parametrize("enabled", [False, True])
@pytest.mark.parametrize("loss_of", [one, two, inner], ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", [inference, whole_step], ids=lambda f: f.__name__)
def test_branches(kind: Callable, loss_of: Callable, enabled: bool, turns: str) -> None:
    plain, fast = kind(loss_of, enabled), pyjit.compile(kind(loss_of, enabled))
    for call, mask in enumerate(masks(turns)):
        x = torch.randn(4, 8, generator=torch.Generator().manual_seed(call))
        torch.testing.assert_close(fast(x, mask), plain(x, mask), rtol=2e-2, atol=1e-3)
        assert not torch.is_autocast_enabled("cpu")
    stats = pyjit.stats(fast)
    # (Some hits are answered in eager, to be compared with it.)
    assert stats["hits"] + stats["eager_calls_timed"] >= len(turns) - (
        9 if "w" in turns else 4
    ), stats
