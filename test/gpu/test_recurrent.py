# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""cuDNN's recurrent layers: calls of their own within graphs, with eager's answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
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


@pytest.mark.parametrize("way", ["dropout", "autocast", "grad", "half"])
def test_otherwise(way: str) -> None:
    """Random numbers, casts of weights and gradients as before: right, with graph breaks or without."""
    torch.manual_seed(0)
    layer = nn.LSTM(16, 24, num_layers=2, dropout=0.5 if way == "dropout" else 0.0)
    network = Network(layer).cuda().train(way in ("dropout", "grad"))
    dtype = torch.float16 if way == "half" else torch.float32
    network = network.to(dtype)
    fast = pyjit.compile(network)
    for seed in range(5):
        x = torch.randn(5, 3, 16, device="cuda", dtype=dtype)
        with (
            torch.set_grad_enabled(way == "grad"),
            torch.autocast("cuda", enabled=way == "autocast"),
        ):
            torch.manual_seed(seed)
            want = network(x)[0]
            torch.manual_seed(seed)
            got = fast(x)[0]
        torch.testing.assert_close(
            got, want, rtol=1e-2, atol=1e-2 if way != "grad" else 1e-4
        )
        if way == "grad":
            by_eager = torch.autograd.grad(want.sum(), list(network.parameters()))
            by_us = torch.autograd.grad(got.sum(), list(network.parameters()))
            for a, b in zip(by_us, by_eager, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)
