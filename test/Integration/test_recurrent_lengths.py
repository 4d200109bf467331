# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recurrent layers on the CPU with lengths that differ from call to call: eager's answers and gradients, from one
specialization for all of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from torch import nn

OPTIONS = {"compare_with_eager": False}
# Batch and length.
SIZES = [(2, 5), (3, 7), (5, 9), (7, 4), (4, 12), (6, 3), (8, 6), (9, 11), (2, 5)]

KINDS: dict[str, Callable[[], nn.RNNBase]] = {
    "gru": lambda: nn.GRU(4, 6),
    "gru, batch first": lambda: nn.GRU(4, 6, batch_first=True),
    "gru, two layers, both ways": lambda: nn.GRU(4, 6, 2, bidirectional=True),
    "gru, no bias": lambda: nn.GRU(4, 6, bias=False, batch_first=True),
    "gru, double": lambda: nn.GRU(4, 6, 2).double(),
    "tanh": lambda: nn.RNN(4, 6, 2),
    "tanh, both ways": lambda: nn.RNN(4, 6, bidirectional=True, batch_first=True),
    "relu": lambda: nn.RNN(4, 6, 2, nonlinearity="relu", bidirectional=True),
    "relu, no bias": lambda: nn.RNN(4, 6, nonlinearity="relu", bias=False),
}


def given(layer: nn.RNNBase, batch: int, length: int) -> list[torch.Tensor]:
    """An input, and states to begin with."""
    sizes = (batch, length) if layer.batch_first else (length, batch)
    states = layer.num_layers * (2 if layer.bidirectional else 1)
    dtype = next(layer.parameters()).dtype
    return [
        torch.randn(*sizes, layer.input_size, dtype=dtype),
        torch.randn(states, batch, layer.hidden_size, dtype=dtype),
    ]


def weighted(t: torch.Tensor) -> torch.Tensor:
    return (t * torch.linspace(-1, 1, t.numel(), dtype=t.dtype).view(t.shape)).sum()


def gradients(
    f: Callable[..., Any], layer: nn.RNNBase, arguments: list[torch.Tensor], by: str
) -> list[torch.Tensor]:
    leaves = [t.clone().requires_grad_() for t in arguments]
    out, last = f(*leaves)
    loss = {
        "output": weighted(out),
        "state": weighted(last),
        "both": weighted(out) + last.square().sum(),
    }[by]
    wanted = [*leaves, *layer.parameters()]
    found = torch.autograd.grad(loss, wanted, allow_unused=True)
    assert all(t.grad_fn is not None for t in (out, last))
    return [out.detach(), last.detach(), *(g for g in found if g is not None)]


def check(have: Any, want: Any) -> None:
    """Layouts of gradients may be others than eager's."""
    for i, (a, b) in enumerate(zip(have, want, strict=True)):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
        assert i > 1 or a.stride() == b.stride()


def assert_settled(fast: Any, misses: int = 3) -> None:
    stats = pyjit.stats(fast)
    assert not stats["specialized_sizes"] and not stats["fixed_sizes"], stats
    assert stats["misses"] <= misses and stats["graph_breaks"] == 0, stats


@pytest.mark.parametrize("with_state", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_inference(kind: str, with_state: bool) -> None:
    torch.manual_seed(0)
    layer = KINDS[kind]()
    fast = pyjit.compile(layer, options=OPTIONS)
    with torch.no_grad():
        for sizes in SIZES:
            arguments = given(layer, *sizes)[: 2 if with_state else 1]
            check(fast(*arguments), layer(*arguments))
    assert_settled(fast)


@pytest.mark.parametrize("with_state", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients(kind: str, with_state: bool) -> None:
    """Of the input, the states and the weights, by what comes from each result."""
    torch.manual_seed(0)
    layer = KINDS[kind]()
    fast = pyjit.compile(layer, options=OPTIONS)
    for step, sizes in enumerate(SIZES):
        arguments = given(layer, *sizes)[: 2 if with_state else 1]
        by = ("both", "output", "state")[step % 3]
        check(
            gradients(fast, layer, arguments, by),
            gradients(layer, layer, arguments, by),
        )
    assert_settled(fast)


@pytest.mark.parametrize("frozen", ["weight_hh_l0", "bias_ih_l0", "weight_ih_l1"])
def test_weights_that_are_frozen(frozen: str) -> None:
    torch.manual_seed(0)
    layer = nn.GRU(4, 6, 2)
    getattr(layer, frozen).requires_grad_(False)
    fast = pyjit.compile(layer, options=OPTIONS)
    for sizes in SIZES:
        x = given(layer, *sizes)[0]
        found = []
        for f in (fast, layer):
            layer.zero_grad()
            weighted(f(x)[0]).backward()
            found.append([p.grad for p in layer.parameters() if p.requires_grad])
        torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)
    assert_settled(fast)


class Tagger(nn.Module):
    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.words = nn.Embedding(20, layer.input_size)
        self.layer = layer
        self.head = nn.Linear(layer.hidden_size, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        out, last = self.layer(self.words(ids))
        return self.head(out + last[-1][:, None])


@pytest.mark.parametrize("kind", ["gru", "tanh"])
def test_whole_steps(kind: str) -> None:
    torch.manual_seed(0)
    make = nn.GRU if kind == "gru" else nn.RNN
    plain = Tagger(make(8, 6, batch_first=True))
    other = copy.deepcopy(plain)

    def step_of(model: nn.Module) -> Callable[..., torch.Tensor]:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-3)

        def step(ids: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(ids).flatten(0, 1), y.flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss.detach()

        return step

    want = step_of(plain)
    have = fast = pyjit.compile(step_of(other), options=OPTIONS)
    for batch, length in SIZES:
        ids, y = torch.randint(20, (batch, length)), torch.randint(3, (batch, length))
        torch.testing.assert_close(have(ids, y), want(ids, y), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        list(other.parameters()), list(plain.parameters()), rtol=1e-3, atol=1e-4
    )
    assert_settled(fast, misses=4)


def test_steps_are_kernels_where_only_the_batch_differs() -> None:
    layer = nn.GRU(4, 6, batch_first=True)
    fast = pyjit.compile(layer, options=OPTIONS)
    with torch.no_grad():
        for batch in (2, 3, 5, 4, 7):
            x = torch.randn(batch, 6, 4)
            check(fast(x), layer(x))
    assert pyjit.stats(fast)["misses"] == 2
    assert "aten::gru.input" not in str(pyjit.explain(fast, detail="ir"))


@pytest.mark.parametrize("way", ["dropout", "autocast", "bfloat16", "unbatched"])
def test_otherwise(way: str) -> None:
    torch.manual_seed(0)
    layer = nn.GRU(4, 6, 2, dropout=0.5 if way == "dropout" else 0.0)
    layer = layer.to(torch.bfloat16 if way == "bfloat16" else torch.float32)
    fast = pyjit.compile(layer, options=OPTIONS)
    for seed, (batch, length) in enumerate(SIZES[:5]):
        sizes = (length, 4) if way == "unbatched" else (length, batch, 4)
        x = torch.randn(sizes, dtype=layer.weight_ih_l0.dtype)
        found = []
        for f in (fast, layer):
            layer.zero_grad()
            torch.manual_seed(seed)
            with torch.autocast("cpu", enabled=way == "autocast"):
                out = f(x)[0]
            weighted(out.float()).backward()
            found.append([out.detach(), *(p.grad for p in layer.parameters())])
        loose = way in ("autocast", "bfloat16")
        torch.testing.assert_close(
            found[0],
            found[1],
            rtol=5e-2 if loose else 1e-4,
            atol=5e-2 if loose else 1e-5,
        )


@pytest.mark.parametrize("kind", ["gru, two layers, both ways", "tanh", "relu"])
def test_gradients_of_gradients(kind: str) -> None:
    torch.manual_seed(0)
    if kind == "relu":
        layer: nn.RNNBase = nn.RNN(4, 6, nonlinearity="relu")
    else:
        layer = KINDS[kind]()
    fast = pyjit.compile(layer, options=OPTIONS)
    for sizes in SIZES[:5]:
        x = given(layer, *sizes)[0].requires_grad_()
        found = []
        for f in (fast, layer):
            (slope,) = torch.autograd.grad(weighted(f(x)[0]), x, create_graph=True)
            leaves = [x, layer.weight_hh_l0, layer.bias_ih_l0]
            found.append(torch.autograd.grad(slope.square().sum(), leaves))
        torch.testing.assert_close(*found, rtol=1e-3, atol=1e-4)
