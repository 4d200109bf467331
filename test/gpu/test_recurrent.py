# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""cuDNN's recurrent layers: calls of their own within graphs, with eager's answers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from torch import nn

KINDS: dict[str, Callable[[], nn.RNNBase]] = {
    "lstm": lambda: nn.LSTM(16, 24),
    "lstm, batch first, both ways": lambda: nn.LSTM(
        16, 24, num_layers=2, batch_first=True, bidirectional=True
    ),
    "lstm, projected": lambda: nn.LSTM(16, 24, proj_size=8, batch_first=True),
    "lstm, no bias": lambda: nn.LSTM(16, 24, bias=False),
    "gru": lambda: nn.GRU(16, 24, num_layers=2, bidirectional=True),
    "gru, batch first": lambda: nn.GRU(16, 24, batch_first=True),
    "tanh": lambda: nn.RNN(16, 24, num_layers=2),
    "relu": lambda: nn.RNN(16, 24, nonlinearity="relu", batch_first=True),
}


class Network(nn.Module):
    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor, state: Any = None) -> Any:
        out, state = self.layer(torch.tanh(x) * 2, state)
        return out * 0.5 + 1, state


def check(got: Any, want: Any) -> None:
    if isinstance(want, torch.Tensor):
        assert got.stride() == want.stride()
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)
        return
    for a, b in zip(got, want, strict=True):
        check(a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_layers(kind: str) -> None:
    torch.manual_seed(0)
    network = Network(KINDS[kind]()).cuda().eval()
    fast = pyjit.compile(network)
    with torch.no_grad():
        for a, b in [(7, 5)] * 4 + [(9, 5), (9, 6), (7, 5), (3, 11), (4, 2)]:
            x = torch.randn(a, b, 16, device="cuda")
            check(fast(x), network(x))
            _, state = network(x)
            check(fast(x, state), network(x, state))
    stats = pyjit.stats(fast)
    assert not stats["graph_breaks"] and stats["hits"] > 4, stats["reasons"]


@pytest.mark.parametrize("kind", KINDS)
def test_gradients(kind: str) -> None:
    """Of the input, the states and the weights, by what comes from each result; lengths differ."""
    torch.manual_seed(0)
    network = Network(KINDS[kind]()).cuda()
    fast = pyjit.compile(network)
    for step, (a, b) in enumerate([(7, 5)] * 4 + [(9, 5), (9, 6), (7, 5), (3, 4)]):
        x = torch.randn(a, b, 16, device="cuda", requires_grad=True)
        with torch.no_grad():
            _, states = network(x)
        leaves = [states] if isinstance(states, torch.Tensor) else list(states)
        leaves = [x, *(s.detach().requires_grad_() for s in leaves), *network.parameters()]  # fmt: skip
        states = leaves[1:3] if isinstance(states, tuple) else leaves[1]
        found = []
        for f in (network, fast):
            out, last = f(x, states)
            last = last if isinstance(last, torch.Tensor) else sum(s.sum() for s in last)  # fmt: skip
            loss = (out.square().sum(), last.sum(), out.sum() + last.sum())[step % 3]
            grads = torch.autograd.grad(loss, leaves, allow_unused=True)
            found.append([out, loss, *(leaves[0] * 0 if g is None else g for g in grads)])  # fmt: skip
        for got, want in zip(found[1], found[0], strict=True):
            torch.testing.assert_close(got, want, rtol=2e-3, atol=2e-3)
    stats = pyjit.stats(fast)
    assert not stats.graph_breaks and stats.hits >= 3, stats.reasons


def test_a_whole_step_is_one_graph() -> None:
    torch.manual_seed(0)
    nets = [nn.Sequential(nn.Embedding(20, 16), nn.LSTM(16, 24, batch_first=True)).cuda()]  # fmt: skip
    nets.append(copy.deepcopy(nets[0]))
    nets[1][1].flatten_parameters()  # or eager warns in each call
    heads = [nn.Linear(24, 3).cuda() for _ in nets]
    heads[1].load_state_dict(heads[0].state_dict())
    optimizers = [
        torch.optim.Adam([*net.parameters(), *head.parameters()], eps=1e-3)
        for net, head in zip(nets, heads, strict=True)
    ]

    def step(which: int, ids: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        _, (hidden, _) = nets[which](ids)
        loss = F.cross_entropy(heads[which](hidden[-1]), y)
        optimizers[which].zero_grad()
        loss.backward()
        optimizers[which].step()
        return loss.detach()

    fast = pyjit.compile(step)
    for _ in range(8):
        ids = torch.randint(20, (4, 9), device="cuda")
        y = torch.randint(3, (4,), device="cuda")
        torch.testing.assert_close(fast(1, ids, y), step(0, ids, y), rtol=1e-3, atol=1e-4)  # fmt: skip
    for a, b in zip(nets[1].parameters(), nets[0].parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)
    stats = pyjit.stats(fast)
    assert not stats.graph_breaks and stats.hits >= 4, stats.reasons


def test_weights_that_change() -> None:
    network = Network(nn.LSTM(16, 24, batch_first=True)).cuda().eval()
    fast = pyjit.compile(network)
    x = torch.randn(4, 6, 16, device="cuda")
    with torch.no_grad():
        for step in range(8):
            check(fast(x), network(x))
            weight = network.layer.weight_hh_l0
            if step == 2:
                weight.mul_(0.5)
            elif step == 3:
                network.layer.weight_hh_l0 = nn.Parameter(weight * 2)
            elif step == 5:
                network.layer.flatten_parameters()
            elif step == 6:
                network.layer.load_state_dict(
                    nn.LSTM(16, 24, batch_first=True).state_dict()
                )


def test_a_weight_that_the_call_writes() -> None:
    layer = nn.GRU(8, 8).cuda().eval()

    def f(x: torch.Tensor) -> torch.Tensor:
        layer.weight_hh_l0.mul_(0.5)
        return layer(x)[0] + layer.weight_hh_l0.sum()

    fast = pyjit.compile(f)
    x = torch.randn(3, 2, 8, device="cuda")
    with torch.no_grad():
        for _ in range(4):
            before = layer.weight_hh_l0.clone()
            want = f(x)
            layer.weight_hh_l0.copy_(before)
            check(fast(x), want)


@pytest.mark.parametrize("way", ["dropout", "autocast", "grad", "half", "no cuDNN"])
def test_otherwise(way: str) -> None:
    """Random numbers, casts of weights and gradients as before: right, with graph breaks or without."""
    torch.manual_seed(0)
    layer = nn.LSTM(16, 24, num_layers=2, dropout=0.5 if way == "dropout" else 0.0)
    with_gradients = way in ("grad", "no cuDNN")
    network = Network(layer).cuda().train(with_gradients or way == "dropout")
    dtype = torch.float16 if way == "half" else torch.float32
    network = network.to(dtype)
    fast = pyjit.compile(network)
    for seed in range(5):
        x = torch.randn(5, 3, 16, device="cuda", dtype=dtype)
        with (
            torch.set_grad_enabled(with_gradients),
            torch.autocast("cuda", enabled=way == "autocast"),
            torch.backends.cudnn.flags(enabled=way != "no cuDNN", allow_tf32=False),
        ):
            torch.manual_seed(seed)
            want = network(x)[0]
            torch.manual_seed(seed)
            got = fast(x)[0]
        torch.testing.assert_close(
            got, want, rtol=1e-2, atol=1e-4 if with_gradients else 1e-2
        )
        if with_gradients:
            by_eager = torch.autograd.grad(want.sum(), list(network.parameters()))
            by_us = torch.autograd.grad(got.sum(), list(network.parameters()))
            for a, b in zip(by_us, by_eager, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)
