# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training loops as people write them: what stands around a compiled model must not matter."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, scenario, values
from Integration.training import gradients, leaf, loss_of, perceptron, state
from torch import nn


@scenario(grad=True)
def test_accumulation(compile: Compile) -> Steps:
    m = perceptron()
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    f = compile(m)
    for step in range(6):
        loss_of(f(values(3, 4, seed=step))).div(2).backward()
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()
        yield state(m, optimizer)


@scenario(grad=True)
def test_clipped(compile: Compile) -> Steps:
    m = perceptron()
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    f = compile(m)
    for step in range(5):
        optimizer.zero_grad()
        loss_of(f(values(3, 4, seed=step))).mul(100).backward()
        norm = nn.utils.clip_grad_norm_(m.parameters(), 0.5)
        optimizer.step()
        schedule.step()
        yield [norm, state(m, optimizer)]


@scenario(grad=True)
def test_moving_average(compile: Compile) -> Steps:
    m = perceptron()
    teacher = copy.deepcopy(m).requires_grad_(False)
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    f, g = compile(m), compile(teacher)
    for step in range(5):
        x = values(3, 4, seed=step)
        optimizer.zero_grad()
        F.mse_loss(f(x), g(x)).backward()
        optimizer.step()
        with torch.no_grad():
            for mine, theirs in zip(teacher.parameters(), m.parameters(), strict=True):
                mine.lerp_(theirs, 0.1)
        yield [state(m, optimizer), list(teacher.parameters())]


@scenario(grad=True)
def test_adversaries(compile: Compile) -> Steps:
    torch.manual_seed(0)
    maker = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4))
    judge = nn.Sequential(
        nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Dropout(0.2), nn.Linear(8, 1)
    )
    of_maker = torch.optim.SGD(maker.parameters(), lr=0.1)
    of_judge = torch.optim.SGD(judge.parameters(), lr=0.1)
    make, decide = compile(maker), compile(judge)
    one, zero = torch.ones(3, 1), torch.zeros(3, 1)
    for step in range(4):
        fake = make(values(3, 2, seed=step))
        of_judge.zero_grad()
        real = F.binary_cross_entropy_with_logits(decide(values(3, 4, seed=step)), one)
        wrong = F.binary_cross_entropy_with_logits(decide(fake.detach()), zero)
        (real + wrong).backward()
        of_judge.step()
        of_maker.zero_grad()
        F.binary_cross_entropy_with_logits(decide(fake), one).backward()
        of_maker.step()
        yield [fake, state(maker, of_maker), state(judge, of_judge)]


@scenario(grad=True)
def test_inputs_are_trained(compile: Compile) -> Steps:
    """An image that a frozen network likes."""
    m = perceptron().requires_grad_(False)
    f = compile(m)
    x = leaf(3, 4)
    optimizer = torch.optim.Adam([x], lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        (-f(x)[:, 0].sum()).backward()
        optimizer.step()
        yield [x, gradients(x, *m.parameters())]


@scenario(grad=True)
def test_closure(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(m)
    optimizer = torch.optim.LBFGS(m.parameters(), lr=0.1, max_iter=3)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(f(values(3, 4)))
        loss.backward()
        return loss

    for _ in range(3):
        yield [optimizer.step(closure), list(m.parameters())]


@scenario(grad=True)
def test_tied_weights(compile: Compile) -> Steps:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(7, 4)
            self.out = nn.Linear(4, 7, bias=False)
            self.out.weight = self.embed.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.out(self.embed(ids).tanh())

    torch.manual_seed(0)
    m = Tied()
    optimizer = torch.optim.AdamW(m.parameters(), lr=0.1, eps=1e-3)
    f = compile(m)
    for step in range(4):
        optimizer.zero_grad()
        loss_of(f(torch.tensor([[1, 2, step], [3, 6, 0]]))).backward()
        optimizer.step()
        yield state(m, optimizer)


@scenario(grad=True)
def test_one_module_twice(compile: Compile) -> Steps:
    m = nn.Linear(4, 4)
    with torch.no_grad():
        m.weight.copy_(values(4, 4))
        m.bias.copy_(values(4))
    f = compile(lambda x, y: (m(x).tanh(), m(y) * m(x)))
    for step in range(3):
        m.zero_grad()
        loss_of(f(values(3, 4, seed=step), values(3, 4, seed=9))).backward()
        yield state(m)


@scenario(grad=True)
def test_two_compiled_parts(compile: Compile) -> Steps:
    m = perceptron()
    first, second = compile(m[:2]), compile(m[2])
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    for step in range(4):
        optimizer.zero_grad()
        h = first(values(3, 4, seed=step))
        h.retain_grad()
        loss_of(second(F.dropout(h, 0.2))).backward()
        optimizer.step()
        yield [h, gradients(h), state(m, optimizer)]


@scenario(grad=True)
def test_two_backwards(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(lambda x: m(x).split(1, 1))
    for step in range(3):
        m.zero_grad()
        a, b = f(values(3, 4, seed=step))
        a.sum().backward(retain_graph=True)
        first = gradients(*m.parameters())
        b.exp().sum().backward()
        yield [first, state(m)]


@scenario(grad=True)
def test_calls_before_backwards(compile: Compile) -> Steps:
    """Each node keeps what its own call saved."""
    m = perceptron()
    f = compile(m)
    for step in range(3):
        m.zero_grad()
        outs = [f(values(n, 4, seed=step + n)) for n in (3, 3, 3)]
        for out in reversed(outs):
            loss_of(out).backward()
        yield state(m)


@scenario(grad=True)
def test_jacobian(compile: Compile) -> Steps:
    f = compile(lambda x: (x @ x.t()).sum(1).sin())
    for seed in range(3):
        x = leaf(3, 4, seed=seed)
        out = f(x)
        rows = [torch.autograd.grad(o, x, retain_graph=True)[0] for o in out]
        yield torch.stack(rows)


@scenario(grad=True, captured="late")
def test_evaluation_between(compile: Compile) -> Steps:
    m = nn.Sequential(perceptron(), nn.BatchNorm1d(2), nn.Dropout(0.3))
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    f = compile(m)
    for epoch in range(4):
        m.train()
        for step in range(2):
            optimizer.zero_grad()
            torch.manual_seed(step + 2 * epoch)
            loss_of(f(values(5, 4, seed=step))).backward()
            optimizer.step()
        m.eval()
        with torch.no_grad():
            yield [f(values(5, 4, seed=9)), state(m, optimizer)]


@scenario(grad=True, captured="late")
def test_saved_and_loaded(compile: Compile) -> Steps:
    m = nn.Sequential(perceptron(), nn.BatchNorm1d(2))
    f = compile(m)
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    kept = copy.deepcopy(m.state_dict())
    for step in range(6):
        if step == 3:
            m.load_state_dict(kept)
        optimizer.zero_grad()
        loss_of(f(values(5, 4, seed=step))).backward()
        optimizer.step()
        yield state(m, optimizer)


@scenario(grad=True, graph_breaks=ANY, captured=False)
def test_checkpoint_and_dropout(compile: Compile) -> Steps:
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(0)
    a = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 4))
    b = nn.Linear(4, 2)
    for reentrant in (True, False):
        f = compile(
            lambda x, how=reentrant: b(checkpoint(a, x, use_reentrant=how).tanh())
        )
        for step in range(3):
            x = leaf(3, 4, seed=step)
            torch.manual_seed(step)
            a.zero_grad()
            b.zero_grad()
            out = f(x)
            loss_of(out).backward()
            yield [out, gradients(x), state(a), state(b)]


@scenario(grad=True, graph_breaks=ANY, captured=False)
def test_checkpoint_of_a_compiled_part(compile: Compile) -> Steps:
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(0)
    a = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 4))
    f = compile(a)
    for reentrant in (True, False):
        for step in range(4):
            x = leaf(3, 4, seed=step)
            torch.manual_seed(step)
            a.zero_grad()
            out = checkpoint(f, x, use_reentrant=reentrant)
            loss_of(out).backward()
            yield [out, gradients(x), state(a)]


@scenario(grad=True)
def test_functional_call(compile: Compile) -> Steps:
    m = perceptron()

    def g(parameters: dict[str, Any], x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, parameters["0.weight"]).relu() @ parameters["2.weight"].t()

    f = compile(g)
    for step in range(3):
        given = {n: (p * (step + 1)) for n, p in m.named_parameters()}
        m.zero_grad()
        loss_of(f(given, values(3, 4))).backward()
        yield state(m)
