# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors where operators take numbers: Torch's parser of arguments calls `item()` unseen, and the program computes
that number. Learning rates that are tensors are the commonest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, attempt, scenario, values
from Integration.training import labelled, perceptron, settled, state, whole_step

OPTIMIZERS: dict[str, Callable[[Any, Any], torch.optim.Optimizer]] = {
    "SGD": lambda p, lr: torch.optim.SGD(p, lr, weight_decay=0.1),
    "momentum": lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9, nesterov=True),
    "foreach SGD": lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9, foreach=True),
    "fused SGD": lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9, fused=True),
    "Adam": lambda p, lr: torch.optim.Adam(p, lr, eps=1e-3),
    "amsgrad": lambda p, lr: torch.optim.Adam(p, lr, eps=1e-3, amsgrad=True),
    "AdamW": lambda p, lr: torch.optim.AdamW(p, lr, eps=1e-3),
    "fused AdamW": lambda p, lr: torch.optim.AdamW(p, lr, eps=1e-3, fused=True),
    "RMSprop": lambda p, lr: torch.optim.RMSprop(p, lr, eps=1e-2),
    "Adagrad": lambda p, lr: torch.optim.Adagrad(p, lr, eps=1e-2),
    "Adadelta": lambda p, lr: torch.optim.Adadelta(p, lr),
    "Adamax": lambda p, lr: torch.optim.Adamax(p, lr, eps=1e-3),
    "NAdam": lambda p, lr: torch.optim.NAdam(p, lr, eps=1e-3),
    "RAdam": lambda p, lr: torch.optim.RAdam(p, lr, eps=1e-3),
}


def change_rate(i: int, optimizer: torch.optim.Optimizer, how: str) -> None:
    group = optimizer.param_groups[0]
    if how == "in place":
        group["lr"].mul_(0.9)
    elif how == "another tensor":
        group["lr"] = torch.tensor(0.01 * (i + 1))


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("how", ["constant", "in place", "another tensor"])
def test_learning_rate(name: str, how: str) -> None:
    @settled(hits=5, graphs=3)
    def story(compile: Compile) -> Steps:
        model = perceptron()
        chosen = OPTIMIZERS[name](model.parameters(), torch.tensor(0.05))
        f = compile(whole_step(model, chosen), options={"compare_with_eager": False})
        for i in range(9):
            x, y = labelled(i)
            yield [f(x, y % 2), state(model, chosen), chosen.param_groups[0]["lr"]]
            change_rate(i, chosen, how)

    story()


@settled(hits=6, graphs=2)
def test_rate_that_follows_the_loss(compile: Compile) -> Steps:
    """No tensor of before the call, and one that the call writes first."""
    model, rate = perceptron(), torch.tensor(0.1)

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        model.zero_grad()
        loss = F.cross_entropy(model(x), y % 2)
        loss.backward()
        size = loss.detach().clamp(max=0.5) * 0.1
        with torch.no_grad():
            rate.mul_(0.9)
            for p in model.parameters():
                p.add_(p.grad, alpha=-size)
                p.sub_(p.grad, alpha=rate)
                p.addcdiv_(p.grad, p.abs() + 1, value=size)
        return loss.detach()

    f = compile(step, options={"compare_with_eager": False})
    for i in range(9):
        yield [f(*labelled(i)), state(model), rate]


TAKEN: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "alpha": lambda x, t: torch.add(x, x, alpha=t),
    "an int": lambda x, t: torch.add(x, x, alpha=t.long()),
    "double precision": lambda x, t: torch.add(x, x, alpha=t.double()),
    "a truth": lambda x, t: torch.add(x, x, alpha=t > 0),
    "twice": lambda x, t: torch.addcmul(x, x, x, value=t).add(x, alpha=t),
    "an operand, too": lambda x, t: torch.add(x, t, alpha=t),
    "filled": lambda x, t: torch.full((3,), t) + x[0, :3],
    "bounds": lambda x, t: torch.clamp(x, -t.abs(), t.abs()),
    "half precision": lambda x, t: torch.add(x.half(), x.half(), alpha=t),
    "a step": lambda x, t: torch.arange(0, 4, t.abs() + 1),
    "list": lambda x, t: torch._foreach_add([x, x], [x, x], alpha=t),
    "leaky": lambda x, t: F.leaky_relu(x, t),
    "rounded": lambda x, t: torch.lerp(x, x * 2, t),
    "dropout": lambda x, t: F.dropout(x, t.abs().clamp(max=0.9)),
    "repeated": lambda x, t: x.repeat_interleave(t.abs().long() + 1, dim=0),
}


@pytest.mark.parametrize("name", TAKEN)
def test_operators(name: str) -> None:
    """Whether it is a graph or not, the number is the one of this call."""

    @scenario(captured=False, graph_breaks=ANY)
    def story(compile: Compile) -> Steps:
        f = compile(lambda x, t: TAKEN[name](x * 2, t * 0.5))
        for i in range(7):
            torch.manual_seed(i)
            number = torch.tensor(
                [0.5, -1.5, 3.0, 1e3, float("inf"), float("nan"), 0.0][i]
            )
            yield attempt(f, values(3, 4, seed=i), number)

    story()


@settled(hits=6, graphs=2)
def test_squared_norms(compile: Compile) -> None:
    """As scripts sum up what they log: the square of a number in single precision is a double."""
    model = perceptron()
    chosen = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        chosen.zero_grad()
        loss = F.cross_entropy(model(x), y % 2)
        loss.backward()
        total = 0.0
        for p in model.parameters():
            total += p.grad.detach().norm(2).item() ** 2
        chosen.step()
        return loss.detach(), total

    f = compile(step, options={"compare_with_eager": False})
    for i in range(9):
        yield [f(*labelled(i)), state(model, chosen)]


@scenario(captured=False, graph_breaks=ANY)
def test_powers_of_data(compile: Compile) -> Steps:
    """Bit by bit, of what is no single precision and of other powers, too."""

    def f(x: torch.Tensor) -> Any:
        a, b = (x[0] * 3).item(), (x[1].double() / 3).item()
        return (a**2).hex(), (b**2).hex(), (a**3).hex(), ((a + b) ** 2).hex()

    def square(x: torch.Tensor) -> float:
        return (x[0] * 3).item() ** 2

    f, square = compile(f), compile(square)
    for i in range(20):
        yield [
            attempt(f, values(5, seed=i) * 10.0 ** (i - 8)),
            square(values(7, seed=i)).hex(),
        ]
    yield [
        square(values(3) * factor) for factor in (1e30, float("inf"), float("nan"), 0.0)
    ]
