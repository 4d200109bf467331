# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models that people wrap or alter before they train them: parametrizations, adapters, averages, checkpoints."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, scenario, values
from Integration.training import OPTIMIZERS, loss_of, state
from torch import nn
from torch.nn.utils import parametrizations, parametrize
from torch.optim import swa_utils
from torch.utils.checkpoint import checkpoint

Made = Callable[[], nn.Module]


def layers(first: nn.Module, *others: nn.Module) -> nn.Module:
    return nn.Sequential(first, nn.Tanh(), *others, nn.Linear(4, 2))


class Symmetric(nn.Module):
    def forward(self, w: torch.Tensor) -> torch.Tensor:
        return w.triu() + w.triu(1).t()

    def right_inverse(self, w: torch.Tensor) -> torch.Tensor:
        return w.triu()


class LowRank(nn.Module):
    """A frozen linear layer and what is learnt beside it (LoRA)."""

    def __init__(self, base: nn.Linear, rank: int = 2, rate: float = 0.2) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, base.in_features) * 0.1)
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))
        self.dropout, self.merged, self.scale = nn.Dropout(rate), False, 2.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.base(x)
        if self.merged:
            return out
        return out + self.dropout(x) @ self.a.t() @ self.b.t() * self.scale

    @torch.no_grad()
    def merge(self, merged: bool) -> None:
        if merged != self.merged:
            sign = 1 if merged else -1
            self.base.weight += sign * self.scale * self.b @ self.a
            self.merged = merged


class AsParametrization(nn.Module):
    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.randn(2, columns) * 0.1)
        self.b = nn.Parameter(torch.zeros(rows, 2))

    def forward(self, w: torch.Tensor) -> torch.Tensor:
        return w + self.b @ self.a


def adapted() -> nn.Module:
    m = nn.Linear(4, 4)
    m.weight.requires_grad_(False)
    parametrize.register_parametrization(m, "weight", AsParametrization(4, 4))
    return layers(m)


def symmetric() -> nn.Module:
    m = nn.Linear(4, 4)
    parametrize.register_parametrization(m, "weight", Symmetric())
    return layers(m)


class Again(nn.Module):
    def __init__(self, rate: float, reentrant: bool, **options: Any) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.inner = nn.Sequential(nn.Linear(4, 8), nn.Dropout(rate), nn.Linear(8, 4))
        self.options = {"use_reentrant": reentrant, **options}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = checkpoint(self.inner, self.first(x), **self.options)
        return checkpoint(self.inner, x.sin(), **self.options)[:, :2]


# `nn.utils.weight_norm` and `spectral_norm` are the older ones, of hooks.
MODELS: dict[str, Made] = {
    "weight norm": lambda: layers(parametrizations.weight_norm(nn.Linear(4, 4))),
    "weight norm, dim": lambda: layers(
        parametrizations.weight_norm(nn.Linear(4, 4), dim=None)  # type: ignore[arg-type]
    ),
    "old weight norm": lambda: layers(nn.utils.weight_norm(nn.Linear(4, 4))),
    "spectral norm": lambda: layers(parametrizations.spectral_norm(nn.Linear(4, 4))),
    "old spectral norm": lambda: layers(nn.utils.spectral_norm(nn.Linear(4, 4))),
    "orthogonal": lambda: layers(parametrizations.orthogonal(nn.Linear(4, 4))),
    "orthogonal, Cayley": lambda: layers(
        parametrizations.orthogonal(nn.Linear(4, 4), orthogonal_map="cayley")
    ),
    "orthogonal, Householder": lambda: layers(
        parametrizations.orthogonal(nn.Linear(4, 4), orthogonal_map="householder")
    ),
    "symmetric": symmetric,
    "adapted": adapted,
    "low rank": lambda: layers(LowRank(nn.Linear(4, 4)), LowRank(nn.Linear(4, 4))),
    "checkpoint": lambda: Again(0.3, False),
    "reentrant checkpoint": lambda: Again(0.3, True),
    "checkpoint, other numbers": lambda: Again(0.3, False, preserve_rng_state=False),
}


def steps_of(
    compile: Compile, make: Made, between: Callable[[int, nn.Module], None], whole: bool
) -> Steps:
    """Five steps and more of a model, or of a whole step; `between` changes something in front of a step."""
    torch.manual_seed(0)
    m = make()
    trained = [p for p in m.parameters() if p.requires_grad]
    optimizer = OPTIMIZERS["SGD" if whole else "AdamW"](trained)
    target = values(3, 2, seed=9)

    def step_of(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    model = m if whole else compile(m)
    f = compile(step_of) if whole else step_of
    for step in range(6):
        between(step, m)
        torch.manual_seed(step)
        yield [f(values(3, 4, seed=step)), state(m, optimizer)]


@pytest.mark.parametrize("whole", [False, True], ids=["model", "step"])
@pytest.mark.parametrize("name", MODELS)
def test_model(name: str, whole: bool) -> None:
    @scenario(grad=True, graph_breaks=ANY, captured=False)
    def story(compile: Compile) -> Steps:
        yield from steps_of(compile, MODELS[name], lambda step, m: None, whole)

    story()


@pytest.mark.parametrize("whole", [False, True], ids=["model", "step"])
@pytest.mark.parametrize("name", MODELS)
def test_in_turns_with_evaluation(name: str, whole: bool) -> None:
    def between(step: int, m: nn.Module) -> None:
        m.train(step % 3 > 0)

    @scenario(grad=True, graph_breaks=ANY, captured=False)
    def story(compile: Compile) -> Steps:
        yield from steps_of(compile, MODELS[name], between, whole)

    story()


@scenario(grad=True, graph_breaks=ANY, captured="late")
def test_parametrization_comes_and_goes(compile: Compile) -> Steps:
    torch.manual_seed(0)
    m = layers(nn.Linear(4, 4))
    f = compile(m)
    for step in range(9):
        if step == 3:
            parametrize.register_parametrization(m[0], "weight", Symmetric())
        if step == 6:
            parametrize.remove_parametrizations(m[0], "weight")
        m.zero_grad()
        out = f(values(3, 4, seed=step))
        loss_of(out).backward()
        yield [out, state(m)]


@scenario(grad=True, graph_breaks=ANY, captured="late")
def test_parametrizations_are_cached(compile: Compile) -> Steps:
    torch.manual_seed(0)
    m = nn.Linear(4, 4)
    parametrize.register_parametrization(m, "weight", Symmetric())
    f = compile(lambda x: m(m(x).tanh()))
    for step in range(5):
        m.zero_grad()
        with parametrize.cached():
            out = f(values(3, 4, seed=step))
        loss_of(out).backward()
        yield [out, state(m), f(values(3, 4))]


@scenario(grad=True, graph_breaks=ANY, captured="late")
def test_adapters_are_merged_between_steps(compile: Compile) -> Steps:
    torch.manual_seed(0)
    m = layers(LowRank(nn.Linear(4, 4)), LowRank(nn.Linear(4, 4)))
    optimizer = OPTIMIZERS["AdamW"]([p for p in m.parameters() if p.requires_grad])
    f = compile(m)
    for step in range(5):
        torch.manual_seed(step)
        optimizer.zero_grad()
        loss_of(f(values(3, 4, seed=step))).backward()
        optimizer.step()
        for merged in (True, False):
            for layer in (m[0], m[2]):
                layer.merge(merged)
            with torch.no_grad():
                yield [f(values(3, 4)), state(m, optimizer)]


@scenario(grad=True, graph_breaks=ANY, captured="late")
def test_backbone_thaws(compile: Compile) -> Steps:
    """Layers get gradients one by one, with groups of their own in the optimizer."""
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Linear(4, 2))
    m[:3].requires_grad_(False)
    optimizer = torch.optim.AdamW(m[3].parameters(), lr=0.01, eps=1e-3)
    f = compile(m)
    for step in range(9):
        if step in (3, 6):
            layer = m[2 if step == 3 else 0].requires_grad_(True)
            optimizer.add_param_group({"params": layer.parameters(), "lr": 0.003})
        optimizer.zero_grad()
        loss_of(f(values(3, 4, seed=step))).backward()
        optimizer.step()
        yield state(m, optimizer)


AVERAGES: dict[str, Callable[[nn.Module], Any]] = {
    "mean": swa_utils.AveragedModel,
    "exponential": lambda m: swa_utils.AveragedModel(
        m, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9)
    ),
    "exponential, each": lambda m: swa_utils.AveragedModel(
        m, avg_fn=swa_utils.get_ema_avg_fn(0.9)
    ),
    "with buffers": lambda m: swa_utils.AveragedModel(m, use_buffers=True),
}


@pytest.mark.parametrize("where", ["outside", "inside", "compiled"])
@pytest.mark.parametrize("name", AVERAGES)
def test_average(name: str, where: str) -> None:
    """The update is called in eager, in the compiled step, or is compiled by itself."""

    @scenario(grad=True, graph_breaks=ANY, captured=False)
    def story(compile: Compile) -> Steps:
        torch.manual_seed(0)
        m = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
        average = AVERAGES[name](m)
        optimizer = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
        target = values(3, 2, seed=9)

        def step_of(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = F.mse_loss(m(x), target)
            loss.backward()
            optimizer.step()
            if where == "inside":
                average.update_parameters(m)
            return loss.detach()

        f, g = compile(step_of), compile(average)
        update = average.update_parameters
        if where == "compiled":
            update = compile(update)
        for step in range(8):
            out = f(values(3, 4, seed=step))
            if where != "inside":
                update(m)
            yield [out, state(m, optimizer), list(average.parameters())]
            yield [list(average.buffers()), int(average.n_averaged)]
            with torch.no_grad():
                yield g(values(3, 4, seed=step))

    story()


@scenario(grad=True, graph_breaks=ANY, captured="late")
def test_statistics_of_an_average(compile: Compile) -> Steps:
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    average = swa_utils.AveragedModel(m)
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    schedule = swa_utils.SWALR(optimizer, swa_lr=0.02, anneal_epochs=3)
    f, g = compile(m), compile(average)
    for step in range(5):
        optimizer.zero_grad()
        loss_of(f(values(6, 4, seed=step))).backward()
        optimizer.step()
        schedule.step()
        average.update_parameters(m)
        swa_utils.update_bn([values(6, 4, seed=s) for s in range(3)], average)
        yield [state(m, optimizer), list(average.buffers()), g(values(3, 4))]


@scenario(grad=True, graph_breaks=ANY, captured="late")
def test_teacher_in_the_step(compile: Compile) -> Steps:
    """A student, and a teacher that follows it slowly."""
    torch.manual_seed(0)
    m = layers(nn.Linear(4, 4), nn.Dropout(0.2))
    teacher = copy.deepcopy(m).requires_grad_(False)
    optimizer = torch.optim.AdamW(m.parameters(), lr=0.01, eps=1e-3)

    def step_of(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            wanted = teacher(x).softmax(-1)
        loss = F.kl_div(m(x).log_softmax(-1), wanted, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for mine, theirs in zip(teacher.parameters(), m.parameters(), strict=True):
                mine.mul_(0.9).add_(theirs.detach(), alpha=0.1)
        return loss.detach()

    f = compile(step_of)
    for step in range(7):
        torch.manual_seed(step)
        yield [
            f(values(3, 4, seed=step)),
            state(m, optimizer),
            list(teacher.parameters()),
        ]


def test_recordings_that_stop_in_the_backward() -> None:
    """The engine runs nodes under a copy of the thread's state: what was left of a recording watched on."""
    model = Again(0.3, False)
    optimizer = OPTIMIZERS["SGD"](model.parameters())

    def step(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    fast = pyjit.compile(step)
    for _ in range(3):
        fast(torch.randn(3, 4))
    # Followed sizes are lost where an operator begins twice.
    later = pyjit.compile(lambda x, y: torch.broadcast_tensors(x[:, None], y)[0] * 2)
    for n in range(3, 8):
        later(torch.randn(n, 2), torch.randn(n, 2))
    assert pyjit.stats(later)["misses"] == 2, pyjit.stats(later)
