# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps that branch on data in front of their backward, or behind it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from torch import nn

Step = Callable[..., Any]


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))


def skips(model: nn.Module, optimizer: Any, x: Any, y: Any) -> Any:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    if not torch.isfinite(loss):
        return None
    loss.backward()
    optimizer.step()
    return loss.detach()


def steps_if_finite(model: nn.Module, optimizer: Any, x: Any, y: Any) -> Any:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    if torch.isfinite(loss):
        loss.backward()
        optimizer.step()
    return loss.detach()


def raises(model: nn.Module, optimizer: Any, x: Any, y: Any) -> Any:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    if torch.isnan(loss).any():
        raise ValueError("nan")
    loss.backward()
    optimizer.step()
    return loss.detach()


def asks_number(model: nn.Module, optimizer: Any, x: Any, y: Any) -> Any:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    if loss.item() < 20:
        loss.backward()
        optimizer.step()
    return loss.item()


def drops(model: nn.Module, optimizer: Any, x: Any, y: Any) -> Any:
    """Random numbers that were drawn in front of a branch that goes the other way are put back."""
    optimizer.zero_grad()
    loss = F.cross_entropy(F.dropout(model(x), 0.3), y)
    if not torch.isfinite(loss):
        return torch.rand(())
    loss.backward()
    optimizer.step()
    return loss.detach()


def distribution(model: nn.Module, optimizer: Any, x: Any, y: Any) -> Any:
    chosen = torch.distributions.Categorical(logits=model(x.nan_to_num()))
    loss = -chosen.log_prob(y).mean() - 0.01 * chosen.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def clipped(model: nn.Module, optimizer: Any, x: Any, y: Any) -> Any:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if torch.isfinite(norm):
        optimizer.step()
    return loss.detach()


def penalized(model: nn.Module, optimizer: Any, x: Any, y: Any) -> Any:
    optimizer.zero_grad()
    leaf = x.detach().clone().requires_grad_()
    out = model(leaf)
    (g,) = torch.autograd.grad(out.sum(), leaf, create_graph=True)
    loss = F.cross_entropy(out, y) + g.square().mean()
    if not torch.isfinite(loss):
        return None
    loss.backward()
    optimizer.step()
    return loss.detach()


STEPS: list[Step] = [
    skips, steps_if_finite, raises, asks_number, drops, distribution, clipped, penalized,
]  # fmt: skip


def outcome(step: Step, *args: Any) -> Any:
    try:
        return step(*args)
    except ValueError as error:
        return str(error)


def same(want: Any, have: Any) -> bool:
    if isinstance(want, torch.Tensor) and isinstance(have, torch.Tensor):
        return torch.allclose(want, have, rtol=2e-4, atol=2e-5, equal_nan=True)
    if isinstance(want, float) and isinstance(have, float):
        return (
            math.isclose(want, have, rel_tol=2e-4)
            or math.isnan(want)
            and math.isnan(have)
        )
    return type(want) is type(have) and want == have


class Pair:
    """A step in eager and compiled, on models of their own."""

    def __init__(self, step: Step) -> None:
        self.model, self.step = network(), step
        self.other = copy.deepcopy(self.model)
        self.compiled = pyjit.compile(step)
        self.optimizers = [
            torch.optim.Adam(model.parameters(), 0.01) for model in (self.model, self.other)
        ]  # fmt: skip

    def go(self, number: int, spoiled: bool) -> None:
        torch.manual_seed(number)
        x, y = torch.randn(5, 8), torch.randint(0, 4, (5,))
        x = x * math.nan if spoiled else x
        drawn = []
        results = []
        for step, model, optimizer in zip(
            (self.step, self.compiled), (self.model, self.other), self.optimizers
        ):
            torch.manual_seed(number)
            results.append(outcome(step, model, optimizer, x, y))
            drawn.append(torch.get_rng_state())
        assert same(*results), (number, results)
        assert torch.equal(*drawn), number
        for p, q in zip(self.model.parameters(), self.other.parameters()):
            assert same(p, q) and same(p.grad, q.grad), number


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_one_way(step: Step) -> None:
    pair = Pair(step)
    for number in range(7):
        pair.go(number, spoiled=False)
    before = pyjit.stats(pair.compiled)
    assert before["graph_breaks"] == 0, before["graph_break_sites"]
    assert not before["eager_reasons"]
    pair.go(7, spoiled=False)
    assert pyjit.stats(pair.compiled)["hits"] == before["hits"] + 1


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_the_other_way_comes_up(step: Step) -> None:
    pair = Pair(step)
    for number in range(16):
        pair.go(number, spoiled=number in (5, 9, 10))


def test_both_ways_again_and_again() -> None:
    """Recordings do not pile up where calls take either way and other things change as well."""

    def step(model: nn.Module, optimizer: Any, x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        if x.sum() > 0:
            loss = loss * 2
        if x[0, 0] > 0:
            loss = loss + 1
        loss.backward()
        optimizer.step()
        return loss.detach()

    pair = Pair(step)
    for number in range(40):
        pair.go(number, spoiled=False)
    assert pyjit.stats(pair.compiled)["specializations"] <= 16
