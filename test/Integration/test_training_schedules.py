# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What changes an optimizer between steps: schedules, groups, loaded state, closures."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, scenario, values
from Integration.training import loss_of, perceptron, settled, state, whole_step
from torch import nn
from torch.optim import lr_scheduler as schedulers

SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "StepLR": lambda o: schedulers.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda o: schedulers.MultiStepLR(o, [2, 5], 0.5),
    "ExponentialLR": lambda o: schedulers.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda o: schedulers.CosineAnnealingLR(o, 10),
    "warm restarts": lambda o: schedulers.CosineAnnealingWarmRestarts(o, 4),
    "OneCycleLR": lambda o: schedulers.OneCycleLR(o, 0.1, total_steps=30),
    "CyclicLR": lambda o: schedulers.CyclicLR(o, 0.01, 0.1, step_size_up=3),
    "LambdaLR": lambda o: schedulers.LambdaLR(o, lambda n: 1 / (1 + n)),
    "LinearLR": lambda o: schedulers.LinearLR(o, 0.1, total_iters=8),
    "PolynomialLR": lambda o: schedulers.PolynomialLR(o, 20, 2.0),
    "plateau": lambda o: schedulers.ReduceLROnPlateau(o, patience=1, threshold=0.5),
    "warmup and cosine": lambda o: schedulers.SequentialLR(
        o,
        [
            schedulers.LinearLR(o, 0.1, total_iters=4),
            schedulers.CosineAnnealingLR(o, 20),
        ],
        [4],
    ),
}
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01, eps=1e-3),
    "Adam, foreach": lambda p: torch.optim.Adam(p, lr=0.01, eps=1e-3, foreach=True),
    "AdamW, fused": lambda p: torch.optim.AdamW(p, lr=0.01, eps=1e-3, fused=True),
}


def advance(schedule: Any, loss: torch.Tensor) -> None:
    if isinstance(schedule, schedulers.ReduceLROnPlateau):
        schedule.step(loss.item())
    else:
        schedule.step()


def rates(optimizer: torch.optim.Optimizer) -> list[Any]:
    return [
        {k: v for k, v in group.items() if k != "params"}
        for group in optimizer.state_dict()["param_groups"]
    ]


class Step:
    """A model, its optimizer, its schedule, and a step."""

    def __init__(
        self, optimizer: str, schedule: Callable[[Any], Any] | None, inside: bool
    ) -> None:
        self.model = perceptron()
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())
        self.schedule = schedule(self.optimizer) if schedule else None
        self.target, self.inside = values(3, 2, seed=9), inside

    def run(self, x: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = F.mse_loss(self.model(x), self.target)
        loss.backward()
        self.optimizer.step()
        if self.inside:
            advance(self.schedule, loss)
        return loss.detach()

    def seen(self) -> list[Any]:
        return [state(self.model, self.optimizer), rates(self.optimizer)]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule_behind_the_step(name: str, optimizer: str) -> None:
    """A learning rate that changes is a number: four specializations at most before it is one."""
    made: list[Any] = []

    @scenario(grad=True, graph_breaks=ANY, captured="late")
    def story(compile: Compile) -> Steps:
        s = Step(optimizer, SCHEDULES[name], inside=False)
        f = compile(s.run)
        made.append(f)
        for step in range(14):
            loss = f(values(3, 4, seed=step))
            advance(s.schedule, loss)
            yield [loss, s.seen()]

    story()
    stats = pyjit.stats(made[-1])
    assert stats["hits"] >= 6, (stats["hits"], stats["graphs"], stats["reasons"])


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
@pytest.mark.parametrize("name", [n for n in SCHEDULES if n != "plateau"])
def test_schedule_in_the_step(name: str, optimizer: str) -> None:
    """No specialization for each number of an epoch, but for those at which the schedule does something else."""

    @settled(hits=14, graphs=8)
    def story(compile: Compile) -> Steps:
        s = Step(optimizer, SCHEDULES[name], inside=True)
        f = compile(s.run)
        for step in range(22):
            yield [f(values(3, 4, seed=step)), s.seen()]

    story()


@scenario(grad=True, graph_breaks=ANY, captured="late")
def test_plateau_in_the_step(compile: Compile) -> Steps:
    s = Step("AdamW", SCHEDULES["plateau"], inside=True)
    f = compile(s.run)
    for step in range(12):
        yield [f(values(3, 4, seed=step)), s.seen()]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_group_is_added(optimizer: str) -> None:
    @scenario(grad=True, graph_breaks=ANY, captured="late")
    def story(compile: Compile) -> Steps:
        m = perceptron()
        chosen = OPTIMIZERS[optimizer](m[0].parameters())

        f = compile(whole_step(m, chosen, values(3, 2, seed=9)))
        for step in range(12):
            if step == 5:
                chosen.add_param_group({"params": m[2].weight, "lr": 0.3})
            if step == 9:
                chosen.add_param_group({"params": m[2].bias, "weight_decay": 0.1})
            yield [f(values(3, 4, seed=step)), state(m, chosen), rates(chosen)]

    story()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_groups_with_rates_of_their_own(optimizer: str) -> None:
    @scenario(grad=True, graph_breaks=ANY, captured="late")
    def story(compile: Compile) -> Steps:
        m = perceptron()
        groups = [
            {"params": [m[0].weight, m[2].weight], "weight_decay": 0.1},
            {"params": [m[0].bias, m[2].bias], "weight_decay": 0.0, "lr": 0.03},
        ]
        chosen = OPTIMIZERS[optimizer](groups)
        schedule = schedulers.LambdaLR(
            chosen, [lambda n: 1 / (n + 1), lambda n: 0.9**n]
        )

        f = compile(whole_step(m, chosen, values(3, 2, seed=9)))
        for step in range(10):
            yield [f(values(3, 4, seed=step)), state(m, chosen), rates(chosen)]
            schedule.step()

    story()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("through", ["dict", "copy", "file", "fresh"])
def test_state_is_loaded(optimizer: str, through: str) -> None:
    @scenario(grad=True, graph_breaks=ANY, captured="late")
    def story(compile: Compile) -> Steps:
        s = Step(optimizer, None, inside=False)
        f = compile(s.run)
        kept: Any = None
        for step in range(12):
            if step == 3:
                kept = [s.model.state_dict(), s.optimizer.state_dict()]
                if through != "dict":
                    kept = copy.deepcopy(kept)
                if through == "file":
                    file = io.BytesIO()
                    torch.save(kept, file)
                    file.seek(0)
                    kept = torch.load(file)
            if step in (5, 9):
                if through == "fresh":
                    s.optimizer = OPTIMIZERS[optimizer](s.model.parameters())
                s.model.load_state_dict(kept[0], assign=through == "file")
                s.optimizer.load_state_dict(kept[1])
            yield [f(values(3, 4, seed=step)), s.seen()]

    story()


LBFGS: dict[str, dict[str, Any]] = {
    "plain": {"max_iter": 4},
    "strong Wolfe": {"max_iter": 4, "line_search_fn": "strong_wolfe"},
    "little history": {"max_iter": 3, "history_size": 2, "lr": 0.5},
}


@pytest.mark.parametrize("where", ["model", "closure", "step"])
@pytest.mark.parametrize("name", LBFGS)
def test_closure(name: str, where: str) -> None:
    @scenario(grad=True, graph_breaks=ANY, captured=False)
    def story(compile: Compile) -> Steps:
        m = perceptron().double()  # a line search tells the least of differences
        model = compile(m) if where == "model" else m
        optimizer = torch.optim.LBFGS(m.parameters(), **LBFGS[name])
        x, target = values(6, 4).double(), values(6, 2, seed=9).double()

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), target)
            loss.backward()
            return loss

        evaluate = compile(closure) if where == "closure" else closure
        step = compile(lambda: optimizer.step(evaluate))
        if where != "step":
            step = lambda: optimizer.step(evaluate)
        for _ in range(5):
            yield [step(), state(m), optimizer.state_dict()["state"]]

    story()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_closure_of_other_optimizers(optimizer: str) -> None:
    @scenario(grad=True, graph_breaks=ANY, captured="late")
    def story(compile: Compile) -> Steps:
        m = perceptron()
        chosen = OPTIMIZERS[optimizer](m.parameters())
        target = values(3, 2, seed=9)

        def step_of(x: torch.Tensor) -> torch.Tensor:
            def closure() -> torch.Tensor:
                chosen.zero_grad()
                loss = F.mse_loss(m(x), target)
                loss.backward()
                return loss

            return chosen.step(closure).detach()

        f = compile(step_of)
        for step in range(8):
            yield [f(values(3, 4, seed=step)), state(m, chosen)]

    story()


@scenario(grad=True, graph_breaks=ANY, captured="late")
def test_options_change_between_steps(compile: Compile) -> Steps:
    s = Step("SGD", None, inside=False)
    f = compile(s.run)
    for step in range(16):
        group = s.optimizer.param_groups[0]
        if step == 4:
            group["momentum"] = 0.5
        if step == 7:
            group["weight_decay"] = 0.1
        if step == 10:
            group["nesterov"] = True
        if step == 13:
            group["lr"] = 0.0
        yield [f(values(3, 4, seed=step)), s.seen()]


@scenario(grad=True, graph_breaks=ANY, captured="late")
def test_hooks_of_optimizers(compile: Compile) -> Steps:
    s = Step("AdamW", None, inside=False)
    counts = {"before": 0, "after": 0}

    def before(*_: Any) -> None:
        counts["before"] += 1

    def after(optimizer: Any, *_: Any) -> None:
        counts["after"] += 1
        with torch.no_grad():
            for p in optimizer.param_groups[0]["params"]:
                p.clamp_(-0.3, 0.3)

    f = compile(s.run)
    handles: list[Any] = []
    for step in range(12):
        if step == 4:
            handles += [
                s.optimizer.register_step_pre_hook(before),
                s.optimizer.register_step_post_hook(after),
            ]
        if step == 9:
            for handle in handles:
                handle.remove()
        yield [f(values(3, 4, seed=step)), s.seen(), dict(counts)]


@scenario(grad=True, graph_breaks=ANY, captured="late")
def test_model_compiled_and_schedule_outside(compile: Compile) -> Steps:
    m = nn.Sequential(perceptron(), nn.Dropout(0.2))
    f = compile(m)
    optimizer = torch.optim.AdamW(m.parameters(), lr=0.01, eps=1e-3)
    schedule = schedulers.OneCycleLR(optimizer, 0.1, total_steps=10)
    for step in range(6):
        torch.manual_seed(step)
        optimizer.zero_grad()
        loss_of(f(values(3, 4, seed=step))).backward()
        optimizer.step()
        schedule.step()
        yield [state(m, optimizer), rates(optimizer)]


def test_step_alone_with_a_schedule() -> None:
    """A schedule wraps the optimizer's step, which then reaches it by a weak reference: its rate is an input."""
    results, steps = [], None
    for compiled in (False, True):
        model = perceptron()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        schedule = schedulers.ExponentialLR(optimizer, 0.9)
        step = steps = pyjit.compile(optimizer.step) if compiled else optimizer.step
        for seed in range(12):
            optimizer.zero_grad()
            model(values(4, 4, seed=seed)).square().mean().backward()
            step()
            schedule.step()
        results.append([p.detach() for p in model.parameters()])
    torch.testing.assert_close(*results)
    stats = pyjit.stats(steps)
    assert stats["specializations"] <= 2 and stats["hits"] >= 9, stats
