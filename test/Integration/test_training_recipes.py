# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole steps as recipes have them: what stands between forward, backward and update."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, scenario, values
from Integration.training import perceptron, state
from torch import nn


@scenario(grad=True, captured="late")
def test_mixup(compile: Compile) -> Steps:
    m = perceptron()
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)

    def step_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        part = torch.distributions.Beta(0.4, 0.4).sample()
        order = torch.randperm(x.shape[0])
        out = m(part * x + (1 - part) * x[order])
        one = F.cross_entropy(out, y, label_smoothing=0.1)
        other = F.cross_entropy(out, y[order], label_smoothing=0.1)
        optimizer.zero_grad()
        (part * one + (1 - part) * other).backward()
        optimizer.step()
        return one.detach()

    f = compile(step_of)
    for step in range(7):
        torch.manual_seed(step)
        loss = f(values(3, 4, seed=step), torch.tensor([0, 1, 0]))
        yield [loss, state(m, optimizer)]


@scenario(grad=True, captured="late")
def test_lookahead(compile: Compile) -> Steps:
    """Every third step goes half the way only."""
    m = perceptron()
    slow = [p.detach().clone() for p in m.parameters()]
    optimizer = torch.optim.Adam(m.parameters(), lr=0.01, eps=1e-3)
    target, count = values(3, 2, seed=9), [0]

    def step_of(x: torch.Tensor) -> float:
        optimizer.zero_grad()
        loss = F.mse_loss(m(x), target)
        loss.backward()
        optimizer.step()
        count[0] += 1
        if count[0] % 3 == 0:
            with torch.no_grad():
                for p, kept in zip(m.parameters(), slow, strict=True):
                    kept.lerp_(p, 0.5)
                    p.copy_(kept)
        return loss.item()

    f = compile(step_of)
    for step in range(10):
        yield [f(values(3, 4, seed=step)), state(m, optimizer), slow, count[0]]


@scenario(grad=True, captured="late")
def test_accumulation_counted_in_the_step(compile: Compile) -> Steps:
    m = perceptron()
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    target, count = values(3, 2, seed=9), [0]

    def step_of(x: torch.Tensor) -> torch.Tensor:
        loss = F.mse_loss(m(x), target) / 2
        loss.backward()
        count[0] += 1
        if count[0] % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    f = compile(step_of)
    for step in range(9):
        yield [f(values(3, 4, seed=step)), state(m, optimizer)]


@scenario(grad=True, captured="late", graph_breaks=ANY)
def test_average_of_the_loss(compile: Compile) -> Steps:
    m = perceptron()
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    target, kept = values(3, 2, seed=9), {"mean": 0.0, "count": 0}

    def step_of(x: torch.Tensor) -> float:
        optimizer.zero_grad()
        loss = F.mse_loss(m(x), target)
        loss.backward()
        optimizer.step()
        kept["count"] += 1
        kept["mean"] = 0.9 * kept["mean"] + 0.1 * loss.item()
        return kept["mean"] / (1 - 0.9 ** kept["count"])

    f = compile(step_of)
    for step in range(8):
        yield [f(values(3, 4, seed=step)), state(m, optimizer), dict(kept)]


@scenario(grad=True)
def test_temperature_that_falls(compile: Compile) -> Steps:
    m, teacher = perceptron(), perceptron().eval().requires_grad_(False)

    def loss_at(x: torch.Tensor, heat: float) -> torch.Tensor:
        mine = F.log_softmax(m(x) / heat, -1)
        wanted = F.softmax(teacher(x * 2) / heat, -1)
        return F.kl_div(mine, wanted, reduction="batchmean") * heat * heat

    f = compile(loss_at)
    for step in range(6):
        m.zero_grad()
        # The first two calls are equal: a number is lifted once it has differed.
        loss = f(values(3, 4, seed=step), 4.0 - max(step - 1, 0) * 0.5)
        loss.backward()
        yield [loss, state(m)]


@scenario(grad=True)
def test_scaled_gradients(compile: Compile) -> Steps:
    """Scaler, clipping and a step that is left out stand around the compiled model."""
    m = perceptron()
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=128.0, growth_interval=2)
    f = compile(m)
    for step in range(7):
        optimizer.zero_grad()
        x = values(3, 4, seed=step) * (torch.inf if step == 4 else 1)
        scaler.scale(f(x).square().mean()).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        yield [scaler.get_scale(), state(m, optimizer)]


@scenario(grad=True, captured="late")
def test_hidden_state_is_carried(compile: Compile) -> Steps:
    """Backpropagation through a window of time."""
    torch.manual_seed(0)
    cell, out = nn.GRUCell(4, 5), nn.Linear(5, 2)
    trained = [*cell.parameters(), *out.parameters()]
    optimizer = torch.optim.Adam(trained, lr=0.01, eps=1e-3)

    def step_of(xs: torch.Tensor, h: torch.Tensor) -> Any:
        h, loss = h.detach(), torch.zeros(())
        for x in xs:
            h = cell(x, h)
            loss = loss + out(h).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach(), h.detach()

    f = compile(step_of)
    h = torch.zeros(3, 5)
    for step in range(7):
        loss, h = f(values(4, 3, 4, seed=step), h)
        yield [loss, h, state(cell, optimizer), state(out)]


@scenario(grad=True, captured="late")
def test_variational(compile: Compile) -> Steps:
    torch.manual_seed(0)
    encoder, decoder = nn.Linear(4, 4), nn.Linear(2, 4)
    trained = [*encoder.parameters(), *decoder.parameters()]
    optimizer = torch.optim.Adam(trained, lr=0.01, eps=1e-3)

    def step_of(x: torch.Tensor) -> float:
        mean, spread = encoder(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (0.5 * spread).exp()
        gap = (-0.5 * (1 + spread - mean**2 - spread.exp()).sum(1)).mean()
        loss = F.mse_loss(decoder(z), x) + gap
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    f = compile(step_of)
    for step in range(7):
        torch.manual_seed(step)
        yield [f(values(3, 4, seed=step)), state(encoder, optimizer), state(decoder)]


@scenario(grad=True, captured="late")
def test_contrasts(compile: Compile) -> Steps:
    m = perceptron()
    optimizer = torch.optim.RMSprop(m.parameters(), lr=0.01, eps=1e-3)

    def step_of(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        one, other = F.normalize(m(a), dim=1), F.normalize(m(b), dim=1)
        loss = F.cross_entropy(one @ other.t() / 0.1, torch.arange(len(a)))
        loss = loss + F.triplet_margin_loss(one, other, other.roll(1, 0))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(m.parameters(), 0.1)
        optimizer.step()
        return loss.detach()

    f = compile(step_of)
    for step in range(7):
        a, b = values(5, 4, seed=step), values(5, 4, seed=step + 50)
        yield [f(a, b), state(m, optimizer)]


@scenario(grad=True, captured="late", graph_breaks=ANY)
def test_queue_of_samples(compile: Compile) -> Steps:
    m = perceptron()
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    queue, place = values(8, 2, seed=4), [0]

    def step_of(x: torch.Tensor) -> torch.Tensor:
        z = m(x)
        near = torch.cat([z, z @ queue.t()], 1)
        loss = F.cross_entropy(near, torch.zeros(3, dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            queue[place[0] : place[0] + 2] = z[:2]
            place[0] = (place[0] + 2) % 8
        return loss.detach()

    f = compile(step_of)
    for step in range(9):
        yield [f(values(3, 4, seed=step)), state(m, optimizer), queue, place[0]]


@scenario(grad=True, captured="late", graph_breaks=ANY)
def test_rate_that_is_a_tensor(compile: Compile) -> Steps:
    m = perceptron()
    rate = torch.tensor(0.01)
    optimizer = torch.optim.AdamW(m.parameters(), lr=rate, eps=1e-3)
    target = values(3, 2, seed=9)

    def step_of(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(m(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    f = compile(step_of)
    for step in range(6):
        yield [f(values(3, 4, seed=step)), state(m, optimizer)]
        rate.mul_(0.9)
