# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Branches on data in a region of autocast that the call begins: no graph break leaves the region, so the recording
goes on through the branch, one way. Masks of transformers and checks for non-finite losses are such branches."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyjit
import pytest
import torch
from Integration.autocasting import linear, network, region, whole
from torch import nn

Step = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def masked(m: nn.Module) -> Step:
    """Ends with the region: inference, or a backward by the caller."""

    def step(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        with region():
            y = m(x)
            if not mask.all():
                y = y * mask[:, None]
            return m(y @ y.T @ x)

    return step


def trained(m: nn.Module) -> Step:
    optimizer = torch.optim.SGD(m.parameters(), 2.0**-6)

    def step(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        with region():
            y = m(x)
            if not mask.all():
                y = y * mask[:, None]
            loss = y.sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def written(m: nn.Module) -> Step:
    """The region keeps the cast of a weight that is written within it, in front of the branch."""

    def step(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        with region():
            y = m(x)
            with torch.no_grad():
                m[0].weight.neg_()
            if mask.all():
                y = y + m(x)
            return y

    return step


def switched_off(m: nn.Module) -> Step:
    last = linear(3, 3, seed=5)

    def step(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        with region(enabled=False):
            y = m(x)
            if mask.any():
                y = last(y)
        return y

    return step


PROGRAMS = (masked, trained, written, switched_off)


@pytest.mark.parametrize("mixed", (False, True), ids=("one way", "both ways"))
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_branches(make: Callable[[nn.Module], Step], mixed: bool) -> None:
    told = []
    for compile in (lambda f: f, pyjit.compile):
        m = network()
        f = compile(make(m))
        draw = random.Random(1)
        results = []
        for number in range(24):
            mask = torch.ones(5, dtype=torch.bool)
            mask[2] = not mixed or draw.random() < 0.6
            result = f(whole(5, 4, seed=number), mask)
            if result.requires_grad:
                result.float().sum().backward()
            assert not torch.is_autocast_enabled("cpu")
            results.append((result.detach().clone(), *[p.detach().clone() for p in m.parameters()]))  # fmt: skip
            results[-1] += tuple(p.grad.clone() for p in m.parameters() if p.grad is not None)  # fmt: skip
        told.append(results)
    for want, have in zip(*told, strict=True):
        for expected, found in zip(want, have, strict=True):
            torch.testing.assert_close(found, expected, rtol=2**-6, atol=2**-6)
    stats = pyjit.stats(f)
    if make is written:
        return  # autograd does not see what is written: a graph break, in the region
    assert stats.hits >= (8 if mixed else 16), stats
    assert stats.eager_calls <= 8, stats
