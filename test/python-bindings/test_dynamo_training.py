# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training with torch.compile(backend="pyjit"). Beside `test_dynamo.py`, for the same reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from Integration.harness import difference, observe, values, without_versions
from Integration.training import OPTIMIZERS, gradients, leaf, loss_of, state
from torch import nn
from torch.utils.checkpoint import checkpoint

pyjit = pytest.importorskip("pyjit", exc_type=ImportError)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def agrees(story: Callable[[Any], Iterator[object]]) -> None:
    """A story is the same in eager and through Dynamo, where Dynamo by itself tells it so.

    On CPython 3.13.0 it runs a model's eval graph in train mode."""
    found = differences(story, "pyjit")
    if found and differences(story, "aot_eager"):
        pytest.skip("Dynamo differs from eager without pyjit, too")
    assert not found, found


def differences(story: Callable[[Any], Iterator[object]], backend: str) -> str:
    torch._dynamo.reset()
    want = observe(story, lambda f, **_: f, True)
    have = observe(story, lambda f, **o: torch.compile(f, backend=backend, **o), True)
    assert len(want) == len(have)
    for step, pair in enumerate(zip(want, have, strict=True)):
        if found := difference(*map(without_versions, pair), where=f"step {step}"):
            return found
    return ""


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.b(F.gelu(self.a(x))))


class Broken(nn.Module):
    """A graph break, and a branch on data, on the gradient's path."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.a(x).tanh()
        torch._dynamo.graph_break()
        return self.b(x) * 2 if x.sum() > 0 else self.b(x).sin()


class Again(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.inner, x, use_reentrant=False) + x


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        return g * x.sigmoid() * 1.5


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Swish.apply(self.a(x))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "perceptron": lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)),
    "residual": lambda: nn.Sequential(Residual(), Residual()),
    "batch norm": lambda: nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU()),
    "dropout": lambda: nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 2)),
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 4, 2), nn.Flatten(), nn.Linear(4, 2)
    ),
    "attention": lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
    "lstm": lambda: nn.LSTM(4, 4),
    "graph breaks": Broken,
    "checkpoint": Again,
    "function": Own,
}


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
@pytest.mark.parametrize("name", MODELS)
def test_model(name: str, optimizer: str) -> None:
    def story(compile: Any) -> Iterator[object]:
        torch.manual_seed(0)
        m = MODELS[name]()
        f = compile(m)
        chosen = OPTIMIZERS[optimizer](list(m.parameters()))
        for step in range(5):
            torch.manual_seed(step)
            chosen.zero_grad()
            shape = (3, 2, 4) if name in ("attention", "lstm") else (3, 4)
            out = f(values(*shape, seed=step))
            out = out[0] if isinstance(out, tuple) else out
            loss_of(out).backward()
            chosen.step()
            yield [out, state(m, chosen)]

    agrees(story)


def test_loss_inside_and_sizes() -> None:
    def story(compile: Any) -> Iterator[object]:
        torch.manual_seed(0)
        m = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        f = compile(lambda x, y: F.cross_entropy(m(x), y))
        chosen = OPTIMIZERS["SGD"](list(m.parameters()))
        for step, rows in enumerate((3, 3, 5, 6, 7, 3)):
            chosen.zero_grad()
            loss = f(values(rows, 4, seed=step), torch.arange(rows) % 2)
            loss.backward()
            chosen.step()
            yield [loss, state(m, chosen)]

    agrees(story)


def test_step_of_the_optimizer() -> None:
    def story(compile: Any) -> Iterator[object]:
        torch.manual_seed(0)
        m = nn.Linear(4, 2)
        chosen = torch.optim.AdamW(m.parameters(), lr=0.01, eps=1e-3)
        update = compile(lambda: chosen.step())
        for step in range(6):
            chosen.zero_grad()
            loss_of(m(values(3, 4, seed=step))).backward()
            update()
            yield state(m, chosen)

    agrees(story)


def test_accumulation_retained_graphs_and_modes() -> None:
    def story(compile: Any) -> Iterator[object]:
        torch.manual_seed(0)
        m = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.2), nn.Linear(4, 2))
        f = compile(m)
        for step in range(6):
            torch.manual_seed(step)
            m.train(step % 3 > 0)
            x = leaf(3, 4, seed=step)
            loss = loss_of(f(x))
            loss.backward(retain_graph=True)
            loss.backward()
            with torch.no_grad():
                yield [loss, gradients(x), state(m), f(x)]

    agrees(story)


def test_input_is_written_and_returned() -> None:
    def story(compile: Any) -> Iterator[object]:
        seen = torch.zeros(4)

        def g(x: torch.Tensor, w: torch.Tensor) -> Any:
            seen.mul_(0.9).add_(x.detach().mean(0))
            h = x * w
            h.mul_(2)
            return h, x, h[0], w.t()

        f = compile(g)
        for step in range(5):
            x, w = leaf(3, 4, seed=step), leaf(3, 4, seed=9)
            out = f(x, w)
            loss_of(out[:1]).backward()
            yield [out[0], out[1] is x, out[2], gradients(x, w), seen]

    agrees(story)


@pytest.mark.parametrize("half", [False, True])
def test_frozen_parts_and_hooks(half: bool) -> None:
    def story(compile: Any) -> Iterator[object]:
        torch.manual_seed(0)
        m = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
        m[0].requires_grad_(not half)
        seen: list[float] = []
        f = compile(m)
        m[2].weight.register_hook(lambda g: seen.append(float(g.sum())))
        for step in range(5):
            if step == 3:
                m[0].requires_grad_(half)
            m.zero_grad()
            out = f(values(3, 4, seed=step))
            loss_of(out).backward()
            yield [out, state(m), list(seen)]

    agrees(story)
