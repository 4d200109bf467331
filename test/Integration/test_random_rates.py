# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers that random operators are given, and that each call changes: one program for all of them, with eager's
stream of random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from Integration.harness import Compile, Steps, attempt, scenario, values
from Integration.training import labelled, settled, state, whole_step
from torch import nn

# What a step does to its input with the number.
DRAWS: dict[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "dropout": lambda x, p: F.dropout(x, p),
    "dropout by name": lambda x, p: F.dropout(x, training=True, p=p),
    "dropout in place": lambda x, p: F.dropout(x * 1, p, inplace=True),
    "two dropouts": lambda x, p: F.dropout(F.dropout(x, p) + 1, p / 2),
    "torch.dropout": lambda x, p: torch.dropout(x, p, True),
    "channels": lambda x, p: F.dropout1d(x[None], p)[0],
    "alpha": lambda x, p: F.alpha_dropout(x, p, training=True),
    "alpha of channels": lambda x, p: F.feature_alpha_dropout(x[None], p, training=True)[0],
    "attention": lambda x, p: F.scaled_dot_product_attention(x[None], x[None] * 2, x[None] + 1, None, p)[0],
    "attention by name": lambda x, p: F.scaled_dot_product_attention(
        x[None], x[None], x[None], dropout_p=p, is_causal=True
    )[0],
    "bernoulli": lambda x, p: x * torch.empty(x.shape).bernoulli_(1 - p),
    "bernoulli of a tensor": lambda x, p: x * torch.bernoulli(x.detach(), p),
    "normal": lambda x, p: x + torch.normal(0.0, p, size=x.shape),
    "normal of means": lambda x, p: x + torch.normal(x.detach(), p),
    "normal in place": lambda x, p: x + torch.empty(x.shape).normal_(mean=p, std=2 * p),
    "uniform": lambda x, p: x * torch.empty(x.shape).uniform_(-p, p),
    "exponential": lambda x, p: x * torch.empty(x.shape).exponential_(lambd=p),
    "noise": lambda x, p: x + torch.randn_like(x) * p,
    "mask": lambda x, p: x * (torch.rand_like(x) > p) / (1 - p),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("given", ["argument", "attribute"])
def test_step(name: str, given: str) -> None:
    draw = DRAWS[name]

    @settled(hits=5, graphs=3)
    def story(compile: Compile) -> Steps:
        torch.manual_seed(0)
        first, second = nn.Linear(4, 8), nn.Linear(8, 3)
        first.rate = 0.1
        model = nn.ModuleList([first, second])
        chosen = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(x: torch.Tensor, y: torch.Tensor, p: float | None = None) -> Any:
            chosen.zero_grad()
            h = draw(first(x), first.rate if p is None else p)
            loss = F.cross_entropy(second(torch.relu(h)), y)
            loss.backward()
            chosen.step()
            return loss.detach()

        f = compile(step, options={"compare_with_eager": False})
        for i in range(9):
            torch.manual_seed(i)
            rate = 0.1 + 0.07 * i
            first.rate = rate
            more = (rate,) if given == "argument" else ()
            yield [f(*labelled(i), *more), state(model, chosen)]

    story()


@settled(hits=6, graphs=4)
def test_module_whose_rate_is_scheduled(compile: Compile) -> Steps:
    """From nothing, which draws nothing, by way of a half, where both shares are equal."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.0), nn.Linear(8, 3))
    chosen = torch.optim.AdamW(model.parameters(), lr=0.01, eps=1e-3)

    def step(x: torch.Tensor, y: torch.Tensor) -> float:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        chosen.step()
        chosen.zero_grad()
        return loss.item()

    f = compile(step, options={"compare_with_eager": False})
    for i, rate in enumerate([0.0, 0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.5, 0.9, 0.25, 0.0]):
        torch.manual_seed(i)
        model[2].p = rate
        yield [f(*labelled(i)), state(model, chosen)]


@settled(hits=3, graphs=6, versions=False)
def test_rates_at_their_ends(compile: Compile) -> Steps:
    """All is dropped, nothing is, and what is no probability raises."""
    weight = values(4, 4).requires_grad_()

    def f(x: torch.Tensor, p: float) -> torch.Tensor:
        return F.dropout(x @ weight, p).sum() + torch.bernoulli(x.detach(), p).sum()

    f = compile(f, options={"compare_with_eager": False})
    rates = [
        0.5,
        0.25,
        0.125,
        0.75,
        1.0,
        0.0,
        0.3,
        -0.5,
        1.5,
        0.6,
        0.2,
        float("nan"),
        0.4,
    ]
    for i, rate in enumerate(rates):
        torch.manual_seed(i)
        yield [attempt(f, values(3, 4, seed=i), rate), torch.get_rng_state()]


@scenario(captured="late", grad=True, graph_breaks="normal expects std")
def test_numbers_that_raise(compile: Compile) -> Steps:
    """The operator in front of the one that raises has drawn; eager answers the call from the start."""

    def f(x: torch.Tensor, deviation: float) -> torch.Tensor:
        with torch.no_grad():
            noise = torch.empty(3).normal_(0.0, 2.0)
            return x + noise + torch.empty(3).normal_(1.0, deviation)

    f = compile(f, options={"compare_with_eager": False})
    for i, deviation in enumerate([0.5, 0.25, 0.75, -1.0, 0.3, -2.0, 0.1]):
        torch.manual_seed(i)
        result = attempt(f, values(3, seed=i), deviation)
        yield [result, torch.get_rng_state()]


@settled(hits=4, graphs=3)
def test_model_alone(compile: Compile) -> Steps:
    """Compiled without the loss, in grad mode and under no_grad."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
    f = compile(layer, options={"compare_with_eager": False})
    for i in range(8):
        torch.manual_seed(i)
        rate = 0.1 + 0.05 * i
        layer.dropout.p = layer.dropout1.p = layer.dropout2.p = (
            layer.self_attn.dropout
        ) = rate
        out = f(values(2, 3, 8, seed=i))
        layer.zero_grad()
        out.square().mean().backward()
        yield [out, state(layer)]


@settled(hits=5, graphs=3)
def test_rates_and_sizes(compile: Compile) -> Steps:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 3))
    chosen = torch.optim.SGD(model.parameters(), lr=0.1)
    f = compile(whole_step(model, chosen), options={"compare_with_eager": False})
    for i in range(10):
        torch.manual_seed(i)
        model[1].p = 0.1 + 0.05 * i
        yield [f(*labelled(i, rows=4 + i)), state(model, chosen)]
