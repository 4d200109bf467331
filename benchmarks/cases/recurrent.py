# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs with loops: recurrent cells, decoding with a cache, generation."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from .registry import case, floats


class GRUCell(nn.Module):
    """A gated recurrent unit written by hand, one step."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.from_input = nn.Linear(inputs, 3 * hidden)
        self.from_state = nn.Linear(hidden, 3 * hidden)

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        xr, xz, xn = self.from_input(x).chunk(3, -1)
        hr, hz, hn = self.from_state(h).chunk(3, -1)
        r = torch.sigmoid(xr + hr)
        z = torch.sigmoid(xz + hz)
        n = torch.tanh(xn + r * hn)
        return (1 - z) * n + z * h


@case("gru-cell", "a GRU cell written by hand, 8 x 256")
def _gru() -> Any:
    torch.manual_seed(0)
    return GRUCell(256, 256).eval(), floats((8, 256), (8, 256))


class LSTMCell(nn.Module):
    """A long short-term memory cell written by hand, one step."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.from_input = nn.Linear(inputs, 4 * hidden)
        self.from_state = nn.Linear(hidden, 4 * hidden)

    def forward(
        self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        gates = self.from_input(x) + self.from_state(h)
        i, f, g, o = gates.chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class LSTM(nn.Module):
    """Layers of cells over a sequence, in Python loops."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.width = width
        self.cells = nn.ModuleList(LSTMCell(width, width) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states = [
            (x.new_zeros(x.shape[1], self.width), x.new_zeros(x.shape[1], self.width))
            for _ in self.cells
        ]
        for step in range(x.shape[0]):
            value = x[step]
            for number, cell in enumerate(self.cells):
                h, c = cell(value, *states[number])
                states[number] = (h, c)
                value = h
        return value


@case("lstm", "LSTM in Python loops: 50 steps, 10 layers, 256 wide, batch 1")
def _lstm() -> Any:
    torch.manual_seed(0)
    return LSTM(256, 10).eval(), floats((50, 1, 256))


class AttentionDecode(nn.Module):
    """Decoding steps of one attention layer over a cache that is written in place."""

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads, self.length = heads, length
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps, batch, width = x.shape
        size = width // self.heads
        keys = x.new_zeros(batch, self.heads, self.length, size)
        values = x.new_zeros(batch, self.heads, self.length, size)
        results = x.new_zeros(steps, batch, width)
        for step in range(steps):
            q, k, v = self.qkv(x[step]).view(batch, 3, self.heads, size).unbind(1)
            keys[:, :, step] = k
            values[:, :, step] = v
            scores = torch.matmul(
                q.unsqueeze(2), keys[:, :, : step + 1].transpose(2, 3)
            )
            weights = torch.softmax(scores / math.sqrt(size), -1)
            mixed = torch.matmul(weights, values[:, :, : step + 1])
            results[step] = self.out(mixed.reshape(batch, width))
        return results


@case("attention-decode", "16 decoding steps of attention over an in-place cache")
def _attention_decode() -> Any:
    torch.manual_seed(0)
    return AttentionDecode(256, 8, 64).eval(), floats((16, 1, 256))


class Seq2Seq(nn.Module):
    """A GRU encoder, and a decoder that goes on until it says the end token."""

    def __init__(self, vocabulary: int, width: int, longest: int) -> None:
        super().__init__()
        self.longest = longest
        self.encoder = GRUCell(width, width)
        self.decoder = GRUCell(width, width)
        self.embedding = nn.Embedding(vocabulary, width)
        self.to_vocabulary = nn.Linear(width, vocabulary)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        state = x.new_zeros(x.shape[1], x.shape[2])
        for step in range(x.shape[0]):
            state = self.encoder(x[step], state)
        token = torch.ones(x.shape[1], dtype=torch.int64, device=x.device)
        total = x.new_zeros(x.shape[1])
        steps = 0
        while bool((token != 0).any()) and steps < self.longest:
            state = self.decoder(self.embedding(token), state)
            scores, token = self.to_vocabulary(state).max(-1)
            total = total + scores
            steps += 1
        return total, token


@case("seq2seq", "GRU encoder of 10 steps, data-dependent while of at most 20 steps")
def _seq2seq() -> Any:
    torch.manual_seed(0)
    return Seq2Seq(64, 128, 20).eval(), floats((10, 1, 128))
