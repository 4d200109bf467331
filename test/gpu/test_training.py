# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training on CUDA: outputs, gradients, buffers and random state are eager's."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration import test_batch_norm_kernels, test_loss_kernels, test_random_layers
from Integration import test_random_training as networks
from Integration.random_kinds import numbered, straight_line
from torch import nn

EXAMPLES = int(os.environ.get("PYJIT_EXAMPLES", "120"))


class Attention(nn.Module):
    masked = causal = False

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 50)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        padding = ids < 5 if self.masked else None
        mask = None
        if self.causal:
            mask = nn.Transformer.generate_square_subsequent_mask(
                ids.shape[1], device=ids.device
            )
        x = self.layers(
            self.embed(ids), mask, src_key_padding_mask=padding, is_causal=self.causal
        )
        return self.head(x)


class Masked(Attention):
    masked = True


class Causal(Attention):
    causal = True


class Cells(nn.Module):
    """Recurrent cells, step by step: on a GPU eager has a fused kernel for each."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.first, self.second = nn.LSTMCell(16, 12), nn.GRUCell(12, 20)
        self.last = nn.LSTMCell(20, 8, bias=False)
        self.drop, self.head = nn.Dropout(dropout), nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        one = x.new_zeros(n, 12), x.new_zeros(n, 12)
        unit, two = x.new_zeros(n, 20), (x.new_zeros(n, 8), x.new_zeros(n, 8))
        for i in range(x.shape[1]):
            one = self.first(x[:, i], one)
            unit = self.second(self.drop(one[0]), unit)
            two = self.last(unit, two)
        return self.head(two[0] + two[1])


def images(dropout: float) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(dropout), nn.Linear(32, 10),
    )  # fmt: skip


def perceptron(dropout: float) -> nn.Module:
    return nn.Sequential(
        nn.Linear(16, 64), nn.GELU(), nn.Dropout(dropout), nn.LayerNorm(64), nn.Linear(64, 10)
    )  # fmt: skip


Make = Callable[[float], nn.Module]
MODELS: dict[str, tuple[Make, Callable[[], torch.Tensor]]] = {
    "perceptron": (perceptron, lambda: torch.randn(8, 16)),
    "images": (images, lambda: torch.randn(4, 3, 16, 16)),
    "attention": (Attention, lambda: torch.randint(0, 50, (4, 12))),
    "masked": (Masked, lambda: torch.randint(0, 50, (4, 13))),
    "causal": (Causal, lambda: torch.randint(0, 50, (4, 40))),
    "cells": (Cells, lambda: torch.randn(4, 3, 16)),
}


def steps(model: nn.Module, call: Any, make: Callable[[], torch.Tensor], dtype: Any) -> list[list[torch.Tensor]]:  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    seen = []
    for step in range(5):
        torch.manual_seed(step)
        x = make().cuda()
        target = torch.randint(0, 10, x.shape if x.dim() == 2 and not x.is_floating_point() else x.shape[:1]).cuda()  # fmt: skip
        with torch.autocast("cuda", dtype, enabled=dtype is not None):
            out = call(x)
            loss = F.cross_entropy(out.flatten(0, -2), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        seen.append([loss.detach(), out.detach(), *(p.grad for p in model.parameters())])  # fmt: skip
        optimizer.step()
        seen[-1] += [*(b.clone() for b in model.buffers()), torch.rand(2, device="cuda")]  # fmt: skip
    return seen


@pytest.mark.parametrize("dtype", [None, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("name", MODELS)
def test_training(name: str, dropout: float, dtype: Any) -> None:
    build, make = MODELS[name]
    torch.manual_seed(0)
    model = build(dropout).cuda()
    other = copy.deepcopy(model)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        want = steps(model, model, make, dtype)
        fast = pyjit.compile(other)
        have = steps(other, fast, make, dtype)
    stats = pyjit.stats(fast)
    assert stats.graph_breaks == 0, stats.reasons
    assert stats.hits >= 3
    close = 2e-3 if dtype is None else 6e-2
    for step, (w, h) in enumerate(zip(want, have, strict=True)):
        for number, (a, b) in enumerate(zip(w, h, strict=True)):
            scale = max(1.0, float(a.abs().max()))
            torch.testing.assert_close(
                b, a, rtol=close, atol=close * scale, msg=lambda m, n=(step, number): f"{n}: {m}"
            )  # fmt: skip


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.bfloat16, torch.float16],
    ids=["f32", "bf16", "f16"],
)
@pytest.mark.parametrize("name", test_batch_norm_kernels.SIZES)
def test_batch_norms_channels_last(name: str, dtype: torch.dtype) -> None:
    test_batch_norm_kernels.check("cuda", name, dtype, {})


@pytest.mark.parametrize("options", test_loss_kernels.OPTIONS)
@pytest.mark.parametrize("form", test_loss_kernels.FORMS, ids=lambda f: f.__name__)
def test_losses(form: Any, options: str) -> None:
    if form is test_loss_kernels.of_logarithms and options == "smooth":
        pytest.skip("nll_loss smooths no labels")
    test_loss_kernels.check(
        "cuda", form, torch.float32, test_loss_kernels.OPTIONS[options], {}
    )


def test_matmuls_of_odd_sizes() -> None:
    """The head of a language model: its gradients are no further from float32 than eager's."""
    torch.manual_seed(0)
    rows, width, classes = 512, 1024, 4099
    x, w = torch.randn(rows, width, device="cuda"), torch.randn(classes, width, device="cuda") / 32  # fmt: skip
    targets = torch.randint(0, classes, (rows,), device="cuda")

    def step(x: torch.Tensor, w: torch.Tensor, half: bool) -> list[torch.Tensor]:
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            loss = F.cross_entropy(F.linear(x, w), targets)
        loss.backward()
        return [loss.detach(), x.grad, w.grad]

    fast = pyjit.compile(step)
    exact, eager = step(x, w, False), step(x, w, True)
    for _ in range(3):
        have = fast(x, w, True)
    assert pyjit.stats(fast).hits == 2, pyjit.stats(fast).reasons
    for e, a, b in zip(exact, eager, have, strict=True):
        size = float(e.abs().max())
        error, theirs = (float((t - e).abs().max()) / size for t in (b, a))
        assert error <= 2 * theirs + 1e-3, (error, theirs)


@pytest.mark.filterwarnings("ignore")
def test_gradients_of_random_programs() -> None:
    batch = straight_line(device="cuda", gradients=True)(0, EXAMPLES)
    assert not batch.failures, "\n".join(batch.failures[:10])


@pytest.mark.parametrize(
    "kind",
    [test_random_layers.images, test_random_layers.sequences],
    ids=lambda f: f.__name__,
)
def test_random_training(kind: Any) -> None:
    check = numbered(networks.check, kind=kind, device="cuda")
    batch = check(0, EXAMPLES // 6)
    assert not batch.failures, "\n".join(batch.failures[:5])


@pytest.mark.parametrize("kind", [Attention, Masked, Causal])
def test_lengths_that_differ(kind: Callable[[float], nn.Module]) -> None:
    """With dropout in attention: eager's numbers for each length, and one graph for all."""
    torch.manual_seed(0)
    nets = [kind(0.1).cuda()]
    nets.append(copy.deepcopy(nets[0]))
    fast = pyjit.compile(nets[1])
    for step, length in enumerate((12, 15, 33, 20, 64, 12, 31, 50, 7, 33)):
        ids = torch.randint(0, 50, (4, length), device="cuda")
        found = []
        for net, call in ((nets[0], nets[0]), (nets[1], fast)):
            torch.manual_seed(step)
            net.zero_grad()
            loss = F.cross_entropy(call(ids).flatten(0, 1), ids.flatten())
            loss.backward()
            drawn = torch.rand(2, device="cuda")
            found.append([loss.detach(), drawn, *(p.grad for p in net.parameters())])
        torch.testing.assert_close(found[1], found[0], rtol=2e-3, atol=2e-4)
    stats = pyjit.stats(fast)
    assert stats.graph_breaks == 0, stats.reasons
    assert stats.graphs <= 3, stats.specialized_sizes


def test_gradients_of_gradients() -> None:
    net = perceptron(0.0).cuda()
    fast = pyjit.compile(net)
    for _ in range(3):
        found = []
        for f in (net, fast):
            net.zero_grad()
            x = torch.ones(4, 16, device="cuda", requires_grad=True)
            (g,) = torch.autograd.grad(f(x).square().sum(), x, create_graph=True)
            g.square().sum().backward()
            found.append([g.detach(), *(p.grad for p in net.parameters())])
        torch.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-4)


def test_a_whole_step_under_autocast_is_one_graph() -> None:
    """Autocast's constructor asks which device is the current one, and for bfloat16 what it can do."""
    nets = [perceptron(0.0).cuda()]
    nets.append(copy.deepcopy(nets[0]))
    optimizers = [torch.optim.AdamW(net.parameters()) for net in nets]

    def step(
        net: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor
    ) -> torch.Tensor:
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    fast = pyjit.compile(step)
    for _ in range(6):
        x = torch.randn(8, 16, device="cuda")
        torch.testing.assert_close(
            fast(nets[1], optimizers[1], x),
            step(nets[0], optimizers[0], x),
            rtol=2e-2,
            atol=2e-2,
        )
    stats = pyjit.stats(fast)
    assert stats["graph_breaks"] == 0, stats["graph_break_sites"]
    assert stats["hits"] > 0, stats["reasons"]


def test_tensors_on_the_current_device_follow_it() -> None:
    def f() -> torch.Tensor:
        return torch.ones(4, device="cuda") * torch.cuda.current_device()

    fast = pyjit.compile(f)
    for device in [*range(torch.cuda.device_count()), 0]:
        with torch.cuda.device(device):
            for _ in range(3):
                have, want = fast(), f()
                assert have.device == want.device
                torch.testing.assert_close(have, want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("mask", ["none", "causal", "bool"])
def test_attention_takes_kernels_of_eager(mask: str, dtype: torch.dtype) -> None:
    def attend(q: Any, k: Any, v: Any, m: Any) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, m, is_causal=mask == "causal")

    fast = pyjit.compile(attend)
    # Where the efficient kernel does not fit (masks, rows that differ), ours is written out.
    tolerance = 1e-3 if dtype == torch.float32 else 0
    for rows in (48, 37):
        given = [
            torch.randn(2, 4, rows, 64, device="cuda", dtype=dtype) for _ in range(3)
        ]
        m = torch.ones(rows, rows, dtype=torch.bool, device="cuda").tril() if mask == "bool" else None  # fmt: skip
        for _ in range(4):
            found = []
            for call in (attend, fast):
                leaves = [t.clone().requires_grad_() for t in given]
                out = call(*leaves, m)
                out.square().sum().backward()
                found.append([out.detach(), *(leaf.grad for leaf in leaves)])
            torch.testing.assert_close(
                found[1], found[0], rtol=tolerance, atol=tolerance
            )
    assert pyjit.stats(fast)["hits"] >= 4, pyjit.stats(fast)["reasons"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("whole_step", [False, True])
def test_attention_with_dropout_draws_what_eager_draws(
    whole_step: bool, dtype: torch.dtype
) -> None:
    def attend(q: Any, k: Any, v: Any) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.2)

    def step(call: Any, leaves: list[torch.Tensor]) -> list[torch.Tensor]:
        out = call(*leaves)
        return [out.detach(), *torch.autograd.grad(out.square().sum(), leaves)]

    fast = pyjit.compile(step if whole_step else attend)
    for rows in (48, 48, 37, 40):
        given = [
            torch.randn(2, 4, rows, 64, device="cuda", dtype=dtype) for _ in range(3)
        ]
        leaves = [t.requires_grad_() for t in given]
        for seed in range(3):
            torch.manual_seed(seed)
            want = [*step(attend, leaves), torch.rand(2, device="cuda")]
            torch.manual_seed(seed)
            have = fast(attend, leaves) if whole_step else step(fast, leaves)
            torch.testing.assert_close([*have, torch.rand(2, device="cuda")], want)
    if dtype == torch.bfloat16:
        stats = pyjit.stats(fast)
        assert stats["graph_breaks"] == 0, stats["graph_break_sites"]
        assert stats["hits"] >= 4, stats["reasons"]


@pytest.mark.parametrize("kind", ["foreach", "fused", "plain"])
def test_what_follows_from_weights_alone(kind: str) -> None:
    """Eager optimizers write lists of weights through pointers that no barrier sees."""
    torch.manual_seed(0)
    net = torch.nn.Linear(8, 8, device="cuda")
    how = {} if kind == "plain" else {kind: True}
    optimizer = torch.optim.SGD(net.parameters(), 0.1, **how)

    def scaled(x: torch.Tensor) -> torch.Tensor:
        weight = net.weight.detach()
        return x @ (weight / weight.abs().max())

    fast = pyjit.compile(scaled)
    with torch.no_grad():
        for _ in range(12):
            x = torch.randn(4, 8, device="cuda")
            torch.testing.assert_close(fast(x), scaled(x), rtol=1e-4, atol=1e-4)
            for p in net.parameters():
                p.grad = torch.randn_like(p)
            optimizer.step()
    assert pyjit.stats(fast)["hits"] > 8


def test_saved_numbers_of_the_cpu() -> None:
    """A scale that is computed on the CPU, as DeBERTa's, divides the gradients, too."""
    net = torch.nn.Linear(8, 8, device="cuda")

    def f(x: torch.Tensor) -> torch.Tensor:
        return net(x) / torch.sqrt(torch.tensor(x.size(-1), dtype=torch.float) * 3)

    fast = pyjit.compile(f)
    for _ in range(8):
        x = torch.randn(4, 8, device="cuda")
        gradients = [
            torch.autograd.grad(g(x).square().sum(), list(net.parameters()))
            for g in (f, fast)
        ]
        torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-4)
    assert pyjit.stats(fast)["hits"] > 4
