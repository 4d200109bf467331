# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scripts that say `torch.set_default_device("cuda")` in their first line."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pyjit
import pytest
import torch
from torch import nn


@pytest.fixture(autouse=True)
def on_the_gpu() -> Iterator[None]:
    torch.set_default_device("cuda")
    yield
    torch.set_default_device(None)


def constants(x: torch.Tensor) -> torch.Tensor:
    mask = torch.ones(x.shape[0], x.shape[0]).tril()
    places = torch.arange(x.shape[1]) * torch.tensor(0.5)
    return mask @ x + places + torch.eye(x.shape[0], x.shape[1])


def test_constants() -> None:
    fast = pyjit.compile(constants)
    for rows in (4, 4, 6, 5, 4):
        x = torch.randn(rows, 3)
        got = fast(x)
        assert got.is_cuda
        torch.testing.assert_close(got, constants(x))
    stats = pyjit.stats(fast)
    assert stats.hits >= 2 and not stats.graph_breaks, stats.reasons


def test_random_numbers() -> None:
    def draw(x: torch.Tensor) -> torch.Tensor:
        return x + torch.randn(4) * torch.rand(4, device="cpu").cuda()

    fast = pyjit.compile(draw)
    x = torch.zeros(4)
    for seed in range(5):
        found = []
        for f in (draw, fast):
            torch.manual_seed(seed)
            found.append((f(x), torch.rand(2), torch.rand(2, device="cpu")))
        torch.testing.assert_close(found[1], found[0])


def test_a_whole_step() -> None:
    """Adam's counters are tensors of the GPU then, unlike without a default device."""
    torch.manual_seed(0)
    nets = [nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 3))]
    nets.append(copy.deepcopy(nets[0]))
    optimizers = [torch.optim.SGD(net.parameters(), 0.1, 0.9) for net in nets]

    def step(which: int, x: torch.Tensor) -> torch.Tensor:
        loss = nets[which](x).square().mean() + torch.ones(1).sum()
        optimizers[which].zero_grad()
        loss.backward()
        optimizers[which].step()
        return loss.detach()

    fast = pyjit.compile(step)
    for _ in range(6):
        x = torch.randn(5, 8)
        torch.testing.assert_close(fast(1, x), step(0, x))
    for a, b in zip(nets[1].parameters(), nets[0].parameters(), strict=True):
        torch.testing.assert_close(a, b)
    stats = pyjit.stats(fast)
    assert stats.hits >= 3 and not stats.graph_breaks, stats.reasons


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_adam_is_right(kind: type[torch.optim.Optimizer]) -> None:
    torch.manual_seed(0)
    nets = [nn.Linear(8, 3)]
    nets.append(copy.deepcopy(nets[0]))
    optimizers = [kind(net.parameters(), eps=1e-3) for net in nets]

    def step(which: int, x: torch.Tensor) -> None:
        nets[which](x).square().mean().backward()
        optimizers[which].step()
        optimizers[which].zero_grad()

    fast = pyjit.compile(step)
    for _ in range(5):
        x = torch.randn(5, 8)
        fast(1, x)
        step(0, x)
    for a, b in zip(nets[1].parameters(), nets[0].parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_the_device_is_guarded() -> None:
    def f() -> torch.Tensor:
        return torch.zeros(3) + 1

    fast = pyjit.compile(f)
    for device in ("cuda", "cuda", "cpu", "cpu", None, "cuda:0", "cuda"):
        torch.set_default_device(device)
        got, want = fast(), f()
        assert got.device == want.device and torch.equal(got, want)
