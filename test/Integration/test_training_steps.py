# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole training steps in one call: forward, backward and optimizer, compared with eager."""

import copy

import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration.training import Trainer, assert_same_state
from torch import nn


def perceptron():
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))


def with_norm():
    return nn.Sequential(
        nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4)
    )


def with_dropout():
    return nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.3), nn.Linear(16, 4))


def convolutional():
    return nn.Sequential(
        nn.Unflatten(1, (2, 2, 2)),
        nn.Conv2d(2, 4, 2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(36, 4),
    )


def batches(count, rows=6):
    torch.manual_seed(1)
    return [(torch.randn(rows, 8), torch.randn(rows, 4)) for _ in range(count)]


def compare(make_model, make_optimizer, step, steps=6, breaks=0, hits=1, data=None):
    eager = Trainer(make_model, make_optimizer, step)
    ours = Trainer(make_model, make_optimizer, step)
    compiled = pyjit.compile(ours.call)
    for batch in data or batches(steps):
        torch.manual_seed(7)
        expected = eager.call(*batch)
        drawn = torch.rand(3)
        torch.manual_seed(7)
        found = compiled(*batch)
        assert torch.equal(torch.rand(3), drawn), "random numbers behind the step"
        if isinstance(expected, torch.Tensor):
            torch.testing.assert_close(
                found.detach(), expected.detach(), rtol=2e-4, atol=2e-5
            )
            assert found.requires_grad == expected.requires_grad
        else:
            assert found == pytest.approx(expected, rel=2e-4, abs=2e-5)
        assert_same_state(ours, eager)
    stats = pyjit.stats(compiled)
    assert stats["hits"] >= hits, stats["reasons"]
    if breaks is not None:
        assert stats["graph_breaks"] <= breaks, stats["graph_break_sites"]
    return compiled


def plain_step(model, optimizer, x, y):
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


OPTIMIZERS = {
    "sgd": lambda m: torch.optim.SGD(m.parameters(), lr=0.1),
    "sgd, momentum": lambda m: torch.optim.SGD(
        m.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True
    ),
    "adam": lambda m: torch.optim.Adam(m.parameters(), lr=0.01),
    "adamw": lambda m: torch.optim.AdamW(m.parameters(), lr=0.01, amsgrad=True),
    "rmsprop": lambda m: torch.optim.RMSprop(m.parameters(), lr=0.01),
    "adadelta": lambda m: torch.optim.Adadelta(m.parameters(), lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_is_one_graph(name):
    # The first steps make state, and meet gradients that are not there yet.
    compare(perceptron, OPTIMIZERS[name], plain_step, steps=8, hits=4)


OTHERS = {
    "adagrad": lambda m: torch.optim.Adagrad(m.parameters(), lr=0.01),
    "adamax": lambda m: torch.optim.Adamax(m.parameters(), lr=0.01),
    "nadam": lambda m: torch.optim.NAdam(m.parameters(), lr=0.01),
    "radam": lambda m: torch.optim.RAdam(m.parameters(), lr=0.01),
    "rprop": lambda m: torch.optim.Rprop(m.parameters(), lr=0.01),
    "asgd": lambda m: torch.optim.ASGD(m.parameters(), lr=0.01),
    "adafactor": lambda m: torch.optim.Adafactor(m.parameters(), lr=0.01),
    "adamw, foreach": lambda m: torch.optim.AdamW(
        m.parameters(), lr=0.01, foreach=True
    ),
    "adamw, fused": lambda m: torch.optim.AdamW(m.parameters(), lr=0.01, fused=True),
    "adam, capturable": lambda m: torch.optim.Adam(
        m.parameters(), lr=torch.tensor(0.01), foreach=False
    ),
    "sgd, foreach": lambda m: torch.optim.SGD(
        m.parameters(), lr=0.01, momentum=0.9, foreach=True
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_optimizers(name):
    compare(perceptron, OTHERS[name], plain_step, breaks=None, hits=0)


@pytest.mark.parametrize("model", [with_norm, with_dropout, convolutional])
def test_models(model):
    compare(model, OPTIMIZERS["sgd"], plain_step, hits=2)


def test_gradients_that_nobody_sees():
    def step(model, optimizer, x, y):
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    compare(perceptron, OPTIMIZERS["sgd"], step, hits=3)


def test_gradients_are_kept_and_accumulate():
    def step(model, optimizer, x, y):
        optimizer.zero_grad(set_to_none=False)
        for part in range(2):
            rows = slice(3 * part, 3 * part + 3)
            (F.mse_loss(model(x[rows]), y[rows]) / 2).backward()
        optimizer.step()
        return x.sum()

    compare(perceptron, OPTIMIZERS["sgd"], step, hits=2)


def test_accumulation_across_calls():
    def step(model, optimizer, x, y):
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss.detach()

    compare(perceptron, OPTIMIZERS["sgd"], step, hits=2)


def test_clipping():
    def step(model, optimizer, x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        return norm

    compare(perceptron, OPTIMIZERS["sgd"], step, breaks=None, hits=2)


def test_frozen_parts():
    def make():
        model = perceptron()
        model[0].requires_grad_(False)
        return model

    compare(make, OPTIMIZERS["sgd"], plain_step, hits=2)


def test_gradients_as_results():
    def step(model, optimizer, x, y):
        loss = F.mse_loss(model(x), y)
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for p, g in zip(model.parameters(), gradients):
                p -= 0.1 * g
        return gradients[0]

    compare(perceptron, OPTIMIZERS["sgd"], step, hits=2)


def test_two_optimizers_in_turns():
    """A small GAN: the second forward comes behind the first update."""

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.g, self.d = nn.Linear(8, 4), nn.Linear(4, 1)

    def step(model, optimizer, x, y):
        fake = model.g(x)
        loss = (
            F.softplus(model.d(fake.detach())).mean() + F.softplus(-model.d(y)).mean()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        second = F.softplus(-model.d(model.g(x))).mean()
        second.backward()
        optimizer.step()
        return second

    compare(Both, OPTIMIZERS["sgd"], step, breaks=None, hits=2)


def test_a_learning_rate_that_changes():
    def make(m):
        optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
        make.scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        return optimizer

    schedulers = []

    class Scheduled(Trainer):
        def __init__(self):
            super().__init__(perceptron, make, plain_step)
            schedulers.append(make.scheduler)

    eager, ours = Scheduled(), Scheduled()
    compiled = pyjit.compile(ours.call)
    for batch in batches(10):
        torch.testing.assert_close(
            compiled(*batch).detach(), eager.call(*batch).detach()
        )
        for scheduler in schedulers:
            scheduler.step()
        assert_same_state(ours, eager)
    stats = pyjit.stats(compiled)
    assert stats["hits"] >= 4, stats


@pytest.mark.parametrize("kind", ["tensor", "post accumulate"])
def test_hooks_that_come_later(kind):
    eager = Trainer(perceptron, OPTIMIZERS["sgd"], plain_step)
    ours = Trainer(perceptron, OPTIMIZERS["sgd"], plain_step)
    compiled = pyjit.compile(ours.call)
    seen = {eager: [], ours: []}
    for i, batch in enumerate(batches(8)):
        if i == 5:
            for trainer in (eager, ours):
                p = trainer.model[0].weight
                if kind == "tensor":
                    p.register_hook(
                        lambda g, t=trainer: seen[t].append(g.sum().item()) or g * 2
                    )
                else:
                    p.register_post_accumulate_grad_hook(
                        lambda p, t=trainer: seen[t].append(p.grad.sum().item())
                    )
        eager.call(*batch)
        compiled(*batch)
        assert_same_state(ours, eager)
    assert len(seen[ours]) == 3
    assert seen[ours] == pytest.approx(seen[eager], rel=1e-4)


def test_a_second_backward_raises_as_eager_does():
    ours = Trainer(perceptron, OPTIMIZERS["sgd"], plain_step)
    compiled = pyjit.compile(ours.call)
    for batch in batches(5):
        loss = compiled(*batch)
        with pytest.raises(
            RuntimeError, match="Trying to backward through the graph a second time"
        ):
            loss.backward()
    assert pyjit.stats(compiled)["hits"] >= 2


def test_tied_and_copied_parameters():
    """What was recorded for two parameters does not serve where they are one."""

    def make():
        return nn.ModuleList([nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)])

    def step(model, optimizer, x):
        loss = model[1](torch.tanh(model[0](x))).square().mean()
        loss.backward()
        return loss.detach()

    torch.manual_seed(3)
    data = [(torch.randn(3, 4),) for _ in range(8)]
    pair = [Trainer(make, OPTIMIZERS["sgd"], step) for _ in range(2)]
    compiled = pyjit.compile(pair[0].call)
    for i, batch in enumerate(data):
        if i == 4:
            for trainer in pair:
                trainer.model[1].weight = trainer.model[0].weight
        torch.testing.assert_close(compiled(*batch), pair[1].call(*batch))
        for p, q in zip(pair[0].model.parameters(), pair[1].model.parameters()):
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("inputs", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("accumulates", [False, True])
def test_parameters_that_become_one(inputs, accumulates):
    """What the call differentiates by may become a tensor that it only reads."""

    def make():
        return nn.ModuleList([nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)])

    def step(model, optimizer, x):
        loss = model[1](torch.tanh(model[0](x))).square().mean()
        chosen = [model[i].weight for i in inputs]
        if accumulates:
            loss.backward(inputs=chosen)
            return [p.grad.clone() for p in chosen]
        return torch.autograd.grad(loss, chosen)

    pair = [Trainer(make, OPTIMIZERS["sgd"], step) for _ in range(2)]
    compiled = pyjit.compile(pair[0].call)
    for i in range(8):
        if i == 4:
            for trainer in pair:
                trainer.model[1].weight = trainer.model[0].weight
        x = torch.randn(3, 4)
        for have, want in zip(compiled(x), pair[1].call(x), strict=True):
            torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-5)
    assert pyjit.stats(compiled)["hits"] >= 3


def test_state_is_loaded_in_between():
    eager = Trainer(perceptron, OPTIMIZERS["adam"], plain_step)
    ours = Trainer(perceptron, OPTIMIZERS["adam"], plain_step)
    compiled = pyjit.compile(ours.call)
    for i, batch in enumerate(batches(9)):
        if i == 5:
            for trainer in (eager, ours):
                saved = copy.deepcopy(trainer.optimizer.state_dict())
                for slots in saved["state"].values():
                    slots["step"] += 10
                trainer.optimizer.load_state_dict(saved)
        eager.call(*batch)
        compiled(*batch)
        assert_same_state(ours, eager)


def test_hooks_where_gradients_are_results():
    def step(model, optimizer, x, y):
        loss = F.mse_loss(model(x), y)
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for p, g in zip(model.parameters(), gradients):
                p -= 0.1 * g
        return loss.detach()

    eager = Trainer(perceptron, OPTIMIZERS["sgd"], step)
    ours = Trainer(perceptron, OPTIMIZERS["sgd"], step)
    compiled = pyjit.compile(ours.call)
    for i, batch in enumerate(batches(7)):
        if i == 4:
            for trainer in (eager, ours):
                trainer.model[0].weight.register_hook(lambda g: g * 3)
        torch.testing.assert_close(
            compiled(*batch), eager.call(*batch), rtol=2e-4, atol=2e-5
        )
    assert_same_state(ours, eager)
    assert pyjit.stats(compiled)["hits"] >= 2


def test_hooks_of_what_is_not_reached():
    """Eager does not call a hook of a leaf that the backward does not come to."""

    def make():
        model = perceptron()
        model.extra = nn.Parameter(torch.ones(3))
        return model

    def step(model, optimizer, x, y):
        return F.mse_loss(model[2](model[1](model[0](x))), y), model.extra.norm()

    eager = Trainer(make, OPTIMIZERS["sgd"], step)
    ours = Trainer(make, OPTIMIZERS["sgd"], step)
    compiled = pyjit.compile(ours.call)
    seen = {eager: [], ours: []}
    for i, batch in enumerate(batches(6)):
        for trainer in (eager, ours):
            if i == 3:
                hook = lambda g, t=trainer: seen[t].append(g.sum().item())
                trainer.model.extra.register_hook(hook)
                trainer.model[0].weight.register_hook(hook)
        for call in (eager.call, compiled):
            loss, norm = call(*batch)
            loss.backward()
            if i % 2:
                norm.backward()
        assert_same_state(ours, eager)
    assert len(seen[ours]) == len(seen[eager]) == 5
    assert seen[ours] == pytest.approx(seen[eager], rel=1e-4)


def test_who_looks_at_saved_tensors():
    eager = Trainer(perceptron, OPTIMIZERS["sgd"], plain_step)
    ours = Trainer(perceptron, OPTIMIZERS["sgd"], plain_step)
    compiled = pyjit.compile(ours.call)
    packed = {}
    for i, batch in enumerate(batches(6)):
        for trainer, call in ((eager, eager.call), (ours, compiled)):
            seen = []
            if i < 4:
                call(*batch)
            else:
                with torch.autograd.graph.saved_tensors_hooks(
                    lambda t, s=seen: s.append(t.shape) or t, lambda t: t
                ):
                    call(*batch)
            packed[trainer] = seen
        assert packed[ours] == packed[eager]
        assert_same_state(ours, eager)
    assert pyjit.stats(compiled)["hits"] >= 2
    with (
        torch.autograd.detect_anomaly(check_nan=True),
        pytest.raises(RuntimeError, match="nan"),
    ):
        compiled(torch.full((6, 8), float("nan")), torch.zeros(6, 4))
