# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole training steps through `torch.utils.checkpoint`: the engine calls functions again within the call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, scenario, tell, values
from Integration.training import state
from torch import nn
from torch.utils.checkpoint import checkpoint

again = partial(checkpoint, use_reentrant=False)


class Layer(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 8), nn.Linear(8, width)
        self.drop = nn.Dropout(0.3)
        self.checkpointing = True

    def inner(self, x: torch.Tensor, *, scale: float) -> torch.Tensor:
        return self.drop(self.down(F.gelu(self.up(x)))) * scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # As transformers' GradientCheckpointingLayer does it.
        inner = partial(self.inner, scale=0.5)
        return x + (again(inner, x) if self.checkpointing else inner(x))


def stack() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(Layer(), nn.LayerNorm(4), Layer(), Layer())


def steps(
    compile: Compile,
    model: nn.Module,
    step: Callable[..., Any],
    optimizer: Any = None,
    between: Callable[[int], None] = lambda i: None,
    count: int = 6,
) -> Steps:
    f = compile(step)
    for i in range(count):
        between(i)
        torch.manual_seed(i)
        out = f(values(3, 4, seed=i), values(3, 4, seed=100 + i))
        yield [out, state(model, optimizer), torch.rand(2)]


@scenario(grad=True, captured="late")
def test_a_step_is_one_graph(compile: Compile) -> Steps:
    model = stack()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, eps=1e-3)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    yield from steps(compile, model, step, optimizer)


@scenario(grad=True, captured="late")
def test_gradients_are_set_to_zero_between(compile: Compile) -> Steps:
    model = stack()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        return loss.detach()

    yield from steps(compile, model, step, optimizer)


@scenario(grad=True, captured="late")
def test_two_batches_and_a_kept_graph(compile: Compile) -> Steps:
    model = stack()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(*batch: torch.Tensor) -> list[torch.Tensor]:
        losses = []
        for x in batch:
            loss = model(x).square().mean()
            loss.backward(retain_graph=True)
            (loss * 0.5).backward()
            losses.append(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
        return losses

    yield from steps(compile, model, step, optimizer)


@scenario(grad=True, captured="late")
def test_gradients_by_inputs(compile: Compile) -> Steps:
    model = stack()

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        loss = F.mse_loss(model(x), y)
        return loss.detach(), torch.autograd.grad(loss, list(model.parameters()))

    yield from steps(compile, model, step)


@scenario(grad=True, captured="late")
def test_a_step_under_autocast(compile: Compile) -> Steps:
    model = stack()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.mse_loss(model(x).float(), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    yield from steps(compile, model, step, optimizer)


@scenario(grad=True, captured="late")
def test_checkpointing_is_turned_on_midway(compile: Compile) -> Steps:
    model = stack()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def turn(i: int) -> None:
        for m in model.modules():
            if isinstance(m, Layer):
                m.checkpointing = i >= 3

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    yield from steps(compile, model, step, optimizer, turn, count=9)


class Written(nn.Module):
    """The function reads what is written between the two passes."""

    def __init__(self, write: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.write = nn.Linear(4, 4), write
        self.scale = values(4, seed=1)
        self.register_buffer("shift", values(4, seed=2))

    def inner(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return (self.layer(x) * self.scale + self.shift).sin() * h

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h = x.cos()
        out = again(self.inner, x, h)
        if self.write == "attribute":
            self.scale = y[0]
        elif self.write == "buffer":
            self.shift.add_(1)
        elif self.write == "own":
            out.add_(1)
        return out.square().mean()


def written(compile: Compile, write: str) -> Steps:
    model = Written(write)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = model(x, y)
        loss.backward()
        return loss.detach()

    yield from steps(compile, model, step)


@scenario(grad=True, eager="under checkpoint again, and an object was written since")
def test_an_object_is_written_between(compile: Compile) -> Steps:
    yield from written(compile, "attribute")


@scenario(grad=True, eager="under checkpoint again, and a tensor was written since")
def test_a_buffer_is_written_between(compile: Compile) -> Steps:
    yield from written(compile, "buffer")


@scenario(grad=True, captured="late")
def test_a_result_is_written_between(compile: Compile) -> Steps:
    yield from written(compile, "own")


@scenario(grad=True, captured="late", graph_breaks=ANY)
def test_hooks_of_the_users_under_the_engine(compile: Compile) -> Steps:
    model, seen = stack(), []
    model[0].up.weight.register_hook(lambda g: seen.append(g.clone()))

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss.detach()

    for result in steps(compile, model, step):
        yield [result, seen[-1]]


def outside(compile: Compile, write: str) -> Steps:
    """The backward pass is behind the call that writes."""
    model = Written(write)
    fast = compile(model)
    for i in range(6):
        loss = fast(values(3, 4, seed=i), values(3, 4, seed=100 + i))
        loss.backward()
        yield [loss.detach(), state(model)]


@scenario(
    grad=True, eager="a function under checkpoint, and an object was written since"
)
def test_an_object_is_written_behind_it(compile: Compile) -> Steps:
    yield from outside(compile, "attribute")


@scenario(
    grad=True, eager="a function under checkpoint, and a tensor was written since"
)
def test_a_buffer_is_written_behind_it(compile: Compile) -> Steps:
    yield from outside(compile, "buffer")


@pytest.mark.parametrize("write", ["attribute", "buffer", "step"])
def test_parts_of_calls_in_eager(write: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules that a call in eager calls run compiled, but for those that call `checkpoint`."""
    monkeypatch.setattr("pyjit._modules.WARM_SECONDS", 0.0)

    def story(compile: Compile) -> Steps:
        model = Written(write)

        def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            loss = model(x, y)
            if write == "step":
                model.scale = y[1]
            loss.backward()
            return loss.detach()

        yield from steps(compile, model, step, count=10)

    tell(story, captured=False, graph_breaks=ANY, grad=True)
