# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training loops with autocast around the compiled model: losses, gradients and parameters are as good as eager's.

Half precision rounds in other places than eager: each step is compared with the same network in double, from
eager's parameters, which all networks get behind the step.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration.harness import values
from torch import nn

STEPS = 5


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.LSTM(8, 12, num_layers=2, batch_first=True)
        self.last = nn.Linear(12, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.cells(x)[0][:, -1])


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.GRU(8, 12, batch_first=True)
        self.last = nn.Linear(12, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.cells(x)[0].mean(1))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.last = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        return self.last((x + self.attention(y, y, y, need_weights=False)[0]).mean(1))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norms[1](x))


class GPT(nn.Module):
    """Three layers; the head shares the embedding's weight."""

    def __init__(self, words: int = 11, width: int = 16) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(8, width)
        self.blocks = nn.ModuleList([Block(width, 2) for _ in range(3)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.size(1)))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).flatten(0, 1)


def perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Linear(8, 16), nn.LayerNorm(16), nn.Tanh(), nn.Linear(16, 4)
    )


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 8, 3, groups=2), nn.GroupNorm(2, 8), nn.SiLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip


def floats(*shape: int) -> Callable[[int], tuple[torch.Tensor, torch.Tensor]]:
    return lambda seed: (values(*shape, seed=seed), torch.arange(shape[0]) % 4)


def words(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    text = torch.randint(0, 11, (3, 7), generator=torch.Generator().manual_seed(seed))
    return text[:, :-1], text[:, 1:].flatten()


KINDS = {
    "perceptron": (perceptron, floats(6, 8)),
    "convolutions": (convolutions, floats(6, 3, 8, 8)),
    "LSTM": (Recurrent, floats(6, 5, 8)),
    "GRU": (Gated, floats(6, 5, 8)),
    "attention": (Attention, floats(6, 5, 8)),
    "GPT": (GPT, words),
}


@functools.cache
def why_eager_fails(kind: str) -> str:
    """oneDNN has no LSTM in bfloat16 for a CPU without 512-bit vectors."""
    make, batch = KINDS[kind]
    try:
        with torch.no_grad(), on(torch.bfloat16):
            make()(batch(0)[0])
    except RuntimeError as error:
        return str(error)
    return ""


@pytest.fixture(autouse=True)
def eager_runs(request: pytest.FixtureRequest) -> None:
    call = getattr(request.node, "callspec", None)
    kind = call.params.get("kind") if call else None
    if kind in KINDS and (why := why_eager_fails(kind)):
        pytest.skip(f"not on this CPU: {why}")


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01),
}


class Loop:
    def __init__(
        self, model: nn.Module, call: Any, optimizer: str, dtype: torch.dtype
    ) -> None:
        self.model, self.call, self.dtype = model, call, dtype
        self.optimizer = OPTIMIZERS[optimizer](model.parameters())

    def loss(self, x: torch.Tensor, y: torch.Tensor, autocast: Any) -> torch.Tensor:
        if x.is_floating_point() and self.dtype == torch.float64:
            x = x.double()
        with autocast:
            return F.cross_entropy(self.call(x).to(self.dtype), y)

    def step(
        self, x: torch.Tensor, y: torch.Tensor, autocast: Any
    ) -> list[torch.Tensor]:
        self.optimizer.zero_grad()
        loss = self.loss(x, y, autocast)
        loss.backward()
        seen = [loss, *(p.grad for p in self.model.parameters()), *self.model.buffers()]
        seen = [t.detach().clone() for t in seen]
        self.optimizer.step()
        return seen + [p.detach().clone() for p in self.model.parameters()]


def off() -> Any:
    return torch.autocast("cpu", enabled=False)


def on(dtype: torch.dtype) -> Any:
    return torch.autocast("cpu", dtype)


def compare(want: list[Any], have: list[Any], true: list[Any], what: str) -> None:
    for number, (w, h, t) in enumerate(zip(want, have, true, strict=True)):
        facts = [(v.dtype, v.shape, v.stride(), v.requires_grad) for v in (w, h)]
        assert facts[0] == facts[1], (what, number)
        if not w.is_floating_point():
            assert torch.equal(w, h), (what, number)
            continue
        far = [float((v.double() - t).norm()) for v in (w, h)]
        assert far[1] <= 2 * far[0] + 1e-3, (what, number, far)


def check(kind: str, optimizer: str, dtype: torch.dtype) -> None:
    make, batch = KINDS[kind]
    torch.manual_seed(0)
    model = make()
    fast, exact = copy.deepcopy(model), copy.deepcopy(model).double()
    compiled = pyjit.compile(fast)
    loops = [
        Loop(model, model, optimizer, torch.float32),
        Loop(fast, compiled, optimizer, torch.float32),
        Loop(exact, exact, optimizer, torch.float64),
    ]
    for seed in range(STEPS):
        x, y = batch(seed)
        regions = [on(dtype), on(dtype), off()]
        steps = [loop.step(x, y, r) for loop, r in zip(loops, regions, strict=True)]
        compare(*steps, f"{kind}, {optimizer}, step {seed}")
        # An optimizer that divides by a gradient's size makes a step of a rounding.
        with torch.no_grad():
            for other in (fast, exact):
                other.load_state_dict(model.state_dict())
    assert pyjit.stats(compiled)["hits"] >= STEPS - 1, pyjit.stats(compiled)
    assert not pyjit.stats(compiled)["reasons"], pyjit.stats(compiled)["reasons"]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("kind", KINDS)
def test_loop(kind: str, optimizer: str) -> None:
    check(kind, optimizer, torch.bfloat16)


@pytest.mark.parametrize("kind", ["perceptron", "attention"])
def test_half(kind: str) -> None:
    check(kind, "SGD", torch.float16)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("kind", KINDS)
def test_evaluation(kind: str, mode: Any) -> None:
    make, batch = KINDS[kind]
    torch.manual_seed(0)
    model = make().eval()
    exact = copy.deepcopy(model).double()
    f = pyjit.compile(model)
    for seed in range(4):
        x, _ = batch(seed)
        with mode():
            with on(torch.bfloat16):
                want, have = model(x), f(x)
            true = exact(x.double() if x.is_floating_point() else x)
            compare([want], [have], [true], f"{kind}, call {seed}")
    assert pyjit.stats(f)["hits"] == 3


def test_scaled_loop() -> None:
    """A loop as PyTorch's documentation writes it, with gradients that are scaled, clipped and accumulated."""
    torch.manual_seed(0)
    model = perceptron()
    fast = copy.deepcopy(model)
    compiled = pyjit.compile(fast)
    losses = []
    for m, call in ((model, model), (fast, compiled)):
        optimizer = torch.optim.AdamW(m.parameters(), lr=0.02)
        scaler = torch.amp.GradScaler("cpu")
        found = []
        for seed in range(12):
            for k in range(2):
                x = values(6, 8, seed=2 * (seed % 3) + k)
                with on(torch.bfloat16):
                    loss = F.cross_entropy(call(x).float(), torch.arange(6) % 4) / 2
                scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(m.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            found.append(float(loss.detach()))
        losses.append(found)
    torch.testing.assert_close(losses[1], losses[0], rtol=0.03, atol=0.01)
    assert losses[1][-1] < losses[1][0]
    assert pyjit.stats(compiled)["hits"] == 23
