# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Optimizers of PyTorch's own list (`optim_db`), each of its configurations: settings of groups, state, parameters and
hooks change between steps, and back. A whole step, the model, or the update alone is compiled (`optimizer_settings.py`).

Each optimizer has one story of either kind in CI, drawn by its name. PYJIT_EXAMPLES above 200: as many of each.
"""

from __future__ import annotations

import warnings
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import Compile, Raised, attempt, snapshot
from Integration.optimizer_settings import (
    FORMS,
    OPTIMIZERS,
    OptimizerInfo,
    World,
    changes_of,
    configurations,
    make_world,
    steps_of,
)
from Integration.settings import STORIES, Telling, draws, show_the_same

# Steps that eager answers, where not the model alone is compiled, and why.
EAGER = {
    "LBFGS": "its closure is made anew in each step: recorded anew each time, until pyjit gives up (open)",
    "SparseAdam": "sparse gradients",
}


class Calls(Telling[World]):
    """Steps of an optimizer; of each, all of it is compiled, the model, or the update alone."""

    def __init__(
        self, info: OptimizerInfo, configuration: int, form: str, compile: Compile
    ) -> None:
        world = make_world(info, configuration)
        self.call, compiled = steps_of(compile, world, form, info.step_requires_closure)
        super().__init__(world, compiled)

    def show(self, number: int) -> list[Any]:
        world = self.world
        torch.manual_seed(number)
        dtype = next(world.model.parameters()).dtype
        batch = (torch.randn(5, n, dtype=dtype) for n in (4, 2))
        world.seen.clear()
        out = attempt(self.call, *batch)
        named = list(world.model.named_parameters())
        groups = [
            {key: value for key, value in group.items() if key != "params"}
            for group in world.optimizer.param_groups
        ]
        gradients = [None if p.grad is None else p.grad.detach() for _, p in named]
        return [
            out.type if isinstance(out, Raised) else snapshot(out),
            snapshot(named),
            snapshot([None if g is None else g.to_dense().clone() for g in gradients]),
            snapshot(list(world.optimizer.state.values())),
            snapshot(groups),
            snapshot(list(world.seen)),
            torch.get_rng_state(),
        ]


def same_story(
    info: OptimizerInfo, configuration: int, form: str, names: list[str], turns: int
) -> Calls:
    """Tells it both ways; returns pyjit's telling."""
    tellings = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for compile in (lambda f: f, pyjit.compile):
            tellings.append(telling := Calls(info, configuration, form, compile))
            for _ in range(4):
                telling.step("nothing changed")
            for name in names:
                # A change before it may have left nothing of it.
                known = {change.name: change for change in changes_of(telling.world)}
                if name in known:
                    telling.change(known[name], turns)
    want, have = tellings
    if info.step_requires_closure:
        # Behind a minimum, a line search divides noise by noise: the first steps alone have one answer.
        want.seen, have.seen = want.seen[:3], have.seen[:3]
    show_the_same(want, have, f"configuration {configuration}, {form}, {names}")
    return have


@pytest.mark.parametrize("info", OPTIMIZERS, ids=lambda info: info.optim_cls.__name__)
def test_settings_change(info: OptimizerInfo) -> None:
    name = info.optim_cls.__name__
    r, hits = draws(name, 0), 0
    for n in range(STORIES):
        configuration = r.randrange(len(configurations(info)))
        changes = changes_of(make_world(info, configuration))
        names = [change.name for change in r.sample(changes, 3)]
        telling = same_story(info, configuration, r.choice(FORMS), names, 1)
        hits += pyjit.stats(telling.compiled)["hits"]
    assert hits or name in EAGER


@pytest.mark.parametrize("info", OPTIMIZERS, ids=lambda info: info.optim_cls.__name__)
def test_settings_go_to_and_fro(info: OptimizerInfo) -> None:
    """Between two values: no step of the last turns is recorded."""
    name = info.optim_cls.__name__
    if name in EAGER:
        pytest.skip(EAGER[name])
    r = draws(name, 1)
    for n in range(STORIES):
        configuration = r.randrange(len(configurations(info)))
        changes = changes_of(make_world(info, configuration))
        chosen = r.choice([change.name for change in changes if change.returns])
        form = r.choice(FORMS)
        recorded = same_story(info, configuration, form, [chosen], 10).recordings
        assert recorded[-1] == recorded[-4], f"{name}, {form}, {chosen}: {recorded}"
