# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training steps and whole models under a default device."""

from __future__ import annotations

from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration.default_devices import default_device, numbers, tell_under
from Integration.harness import (
    ANY,
    Compile,
    Raised,
    Steps,
    attempt,
    tell,
)
from torch import nn
from torch.utils.checkpoint import checkpoint


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        noise = torch.zeros(x.shape[0], 8)
        return self.second(F.dropout(F.relu(self.first(x)) + noise, 0.1))


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_training_steps(kind: Any) -> None:
    def story(compile: Compile) -> Steps:
        with default_device("cpu"):
            model = Net()
            optimizer = kind(model.parameters(), lr=0.1)

            def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                return loss.detach()

            fast = compile(step)
            for seed in range(6):
                yield fast(numbers(5, 4, seed=seed), torch.arange(5) % 3)
            yield list(model.parameters())

    tell(story, grad=True, captured="late")


def test_gradients_by_the_caller() -> None:
    def story(compile: Compile) -> Steps:
        with default_device("cpu"):
            model = Net()
            fast = compile(model)
            for seed in range(4):
                x = numbers(5, 4, seed=seed).requires_grad_()
                fast(x).square().sum().backward()
                yield x.grad, [p.grad for p in model.parameters()]

    tell(story, grad=True)


class Scales(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * torch.full((4,), 3.0)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g * torch.full((4,), 3.0)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: Scales.apply(x),
        lambda x: checkpoint(
            lambda y: (y * torch.ones(4)).sin(), x, use_reentrant=False
        ),
        lambda x: torch.func.vmap(lambda y: y * torch.ones(()))(x),
        lambda x: torch.func.grad(lambda y: (y * torch.ones(4)).sum())(x),
        lambda x: torch.autograd.grad((x * torch.ones(4)).sum(), x, retain_graph=True),
    ],
    ids=["function", "checkpoint", "vmap", "grad", "autograd.grad"],
)
def test_functions_within_functions(f: Any) -> None:
    def with_backward(x: torch.Tensor) -> Any:
        out = f(x)
        out = out[0] if isinstance(out, tuple) else out
        return out, torch.zeros(2)

    tell_under(
        with_backward,
        lambda: numbers(4).requires_grad_(),
        grad=True,
        captured=False,
        graph_breaks=ANY,
    )


@pytest.mark.parametrize(
    "f",
    [
        torch.func.vmap(lambda y: y.sum() * torch.ones(2)),
        torch.func.vmap(torch.func.grad(lambda y: (y * torch.full((4,), 2.0)).sum())),
        torch.func.vmap(lambda y: y + torch.rand(4), randomness="different"),
    ],
    ids=["sum", "grad", "random"],
)
def test_transforms_are_part_of_the_graph(f: Any) -> None:
    def story(compile: Compile) -> Steps:
        fast = compile(lambda x: f(x) * 2)
        with default_device("cpu"):
            for seed in range(4):
                torch.manual_seed(seed)
                yield fast(numbers(3, 4, seed=seed))

    tell(story)


def test_autocast() -> None:
    layer = nn.Linear(4, 4)

    def g(x: torch.Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return layer(x) + torch.ones(4)

    tell_under(g, lambda: numbers(2, 4))


def test_a_transformer_of_others() -> None:
    from Integration.generating import build

    model = build("llama")

    def story(compile: Compile) -> Steps:
        fast = compile(model)
        with default_device("cpu"):
            for seed in range(4):
                tokens = numbers(2, 5, seed=seed).abs().mul(3).long() + 3
                yield fast(input_ids=tokens, use_cache=False).logits

    tell(story)


def test_behind_dynamo() -> None:
    compiled = torch.compile(lambda x: torch.relu(x) + torch.ones(4), backend="pyjit")
    for device in (None, "cpu", None, "cpu"):
        with default_device(device):
            for seed in range(3):
                x = numbers(4, seed=seed)
                torch.testing.assert_close(compiled(x), torch.relu(x) + 1)
    assert pyjit.stats(compiled)["hits"] >= 8
    assert not pyjit.stats(compiled)["eager_reasons"]
    torch._dynamo.reset()


def test_exceptions_leave_the_stack_alone() -> None:
    def raises(x: torch.Tensor) -> Any:
        torch.ones(3) + x  # of four
        return x

    fast = pyjit.compile(raises)
    with default_device("cpu"):
        for _ in range(3):
            found = attempt(fast, numbers(4))
            assert isinstance(found, Raised) and found.type is RuntimeError
            assert torch.ones(2).device.type == "cpu"
