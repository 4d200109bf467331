# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Inputs that lie one behind the other in one memory, as cuDNN keeps the weights of a recurrent layer:
written in place like any other, and left to eager where they overlap."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pyjit
import pytest
import torch
from torch import nn


class Gates(nn.Module):
    """Two weights that are parts of one tensor."""

    def __init__(self, own_counters: bool = False) -> None:
        super().__init__()
        whole = torch.linspace(-1, 1, 8 * 16).view(8, 16)
        self.a, self.b = nn.Parameter(whole[:4]), nn.Parameter(whole[4:])
        if own_counters:  # as flatten_parameters of recurrent layers has it
            for part in (self.a, self.b):
                part.data = torch.empty(0).set_(
                    whole.untyped_storage(), part.storage_offset(), part.shape
                )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ self.a.t()) + torch.sigmoid(x @ self.b.t())


OPTIMIZERS: dict[str, Callable] = {
    "adam": lambda p: torch.optim.Adam(p, eps=1e-3),
    "foreach": lambda p: torch.optim.AdamW(p, eps=1e-3, foreach=True),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
}


@pytest.mark.parametrize("own_counters", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_whole_steps(name: str, own_counters: bool) -> None:
    nets = [Gates(own_counters), Gates(own_counters)]
    assert nets[0].a.untyped_storage().data_ptr() == nets[0].b.untyped_storage().data_ptr()  # fmt: skip
    optimizers = [OPTIMIZERS[name](net.parameters()) for net in nets]

    def step(which: int, x: torch.Tensor) -> torch.Tensor:
        loss = nets[which](x).square().mean()
        optimizers[which].zero_grad()
        loss.backward()
        optimizers[which].step()
        return loss.detach()

    fast = pyjit.compile(step)
    for rows in (5, 5, 5, 7, 3, 5, 9):
        x = torch.randn(rows, 16)
        before = [p._version for p in nets[1].parameters()]
        versions = [p._version for p in nets[0].parameters()]
        torch.testing.assert_close(fast(1, x), step(0, x))
        for a, b in zip(nets[1].parameters(), nets[0].parameters(), strict=True):
            torch.testing.assert_close(a, b)
        assert [p._version - v for p, v in zip(nets[1].parameters(), before)] == [
            p._version - v for p, v in zip(nets[0].parameters(), versions)
        ]
    stats = pyjit.stats(fast)
    assert stats.hits >= 3 and not stats.graph_breaks, stats.reasons


def scale(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a.mul_(2)
    b.add_(a.sum())
    return a[0] + b[0]


def test_overlapping_ones_are_not_answered_by_it() -> None:
    """The guards look where the inputs of each call lie."""
    fast = pyjit.compile(scale)
    places = [(0, 4), (0, 4), (0, 4), (4, 0), (0, 5), (0, 3), (0, 0), (2, 0), (0, 4)]
    for a, b in places:
        found = []
        for f in (scale, fast):
            memory = torch.linspace(-1, 1, 12 * 3).view(12, 3)
            out = f(memory[a : a + 4], memory[b : b + 4])
            found.append((out, memory))
        torch.testing.assert_close(found[1], found[0])
    assert pyjit.stats(fast).hits >= 3


def test_parts_between_one_another_stay_in_eager() -> None:
    """Columns of one tensor: what they reach over is not their own."""

    def move(position: torch.Tensor, velocity: torch.Tensor) -> torch.Tensor:
        velocity.sub_(position * 0.5)
        position.add_(velocity)
        return position.sum()

    fast = pyjit.compile(move)
    states = [torch.randn(5, 4)]
    states.append(states[0].clone())
    for _ in range(5):
        want = move(states[0][:, :2], states[0][:, 2:])
        torch.testing.assert_close(fast(states[1][:, :2], states[1][:, 2:]), want)
        torch.testing.assert_close(states[1], states[0])


def test_views_of_a_third_input() -> None:
    """The whole is an input as well: nothing is apart from it."""

    def f(whole: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.mul_(1.5)
        b.add_(1)
        return whole.sum() + a[0] - b[0]

    fast = pyjit.compile(f)
    for _ in range(4):
        memory = torch.randn(8)
        other = copy.deepcopy(memory)
        want = f(memory, memory[:4], memory[4:])
        torch.testing.assert_close(fast(other, other[:4], other[4:]), want)
        torch.testing.assert_close(other, memory)


def test_versions_of_a_part_that_the_call_comes_upon_late() -> None:
    """`b` is looked at when `a` has been written, and their one counter has gone on."""

    def f(parts: dict[str, torch.Tensor], x: torch.Tensor) -> None:
        parts["a"].copy_(x.expand(2, 4))
        parts["b"].copy_(x.expand(2, 4))
        parts["a"].add_(1)

    fast = pyjit.compile(f)
    memories = [torch.zeros(4, 8) for _ in range(2)]
    eager, mine = ({"a": m[:2, :4], "b": m[2:, :4]} for m in memories)
    for number in range(4):
        x = torch.full((2, 1), float(number))
        f(eager, x)
        fast(mine, x)
        assert memories[1]._version == memories[0]._version
        torch.testing.assert_close(memories[1], memories[0])
