# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules of PyTorch's own list (`module_db`) of which one setting changes at a time, and back, told by eager and by
pyjit: attributes, parameters, buffers, hooks, classes, submodules, inputs (`module_settings.py`).

Each module has one story in CI, drawn by its name. PYJIT_EXAMPLES above 200: as many of each.
"""

from __future__ import annotations

import random
import warnings
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import Compile, Raised, attempt, snapshot
from Integration.module_settings import (
    MODULES,
    ModuleInfo,
    World,
    changes_of,
    inputs,
    make_world,
    sample_count,
)
from Integration.settings import STORIES, Telling, draws, show_the_same

# Changes of a story.
LENGTH = 2


def loss_of(out: Any) -> torch.Tensor | None:
    """Each element counts differently; None where nothing has a gradient."""
    if isinstance(out, torch.Tensor):
        if not out.requires_grad:
            return None
        weights = torch.linspace(0.5, 1.5, out.numel(), dtype=out.dtype)
        return (out * weights.view(out.shape)).sum()
    if not isinstance(out, (list, tuple)):
        return None
    parts = [part for part in map(loss_of, out) if part is not None]
    return sum(parts[1:], parts[0]) if parts else None


def gradient(t: torch.Tensor) -> torch.Tensor | None:
    return None if t.grad is None else t.grad.detach().clone()


def plain(module: torch.nn.Module) -> dict[str, str]:
    """Attributes that are numbers, texts or tuples of them."""
    kinds = (int, float, str, tuple, type(None))
    return {k: repr(v) for k, v in vars(module).items() if isinstance(v, kinds)}


class Calls(Telling[World]):
    """Of a module, or of a function that calls it."""

    def __init__(self, world: World, grad: bool, form: str, compile: Compile) -> None:
        self.grad = grad
        module = world.module
        called: Any = module if form == "module" else lambda *a, **k: module(*a, **k)
        super().__init__(world, compile(called))

    def show(self, number: int) -> list[Any]:
        world = self.world
        module = world.module
        module.zero_grad()
        world.seen.clear()
        torch.manual_seed(number)
        random.seed(number)
        args, kwargs, leaves = inputs(world, number, self.grad)
        with torch.set_grad_enabled(self.grad):
            out = attempt(self.compiled, *args, **kwargs)
        loss = loss_of(out) if self.grad else None
        back = attempt(loss.backward) if loss is not None else None
        named = list(module.named_parameters())
        return [
            # Texts of errors may name what an operator was given.
            *(o.type if isinstance(o, Raised) else snapshot(o) for o in (out, back)),
            snapshot([gradient(leaf) for leaf in leaves]),
            snapshot([list(args), kwargs]),
            snapshot([(name, p, gradient(p)) for name, p in named]),
            snapshot(list(module.named_buffers())),
            snapshot(list(world.seen)),
            torch.get_rng_state(),
            snapshot([(path, plain(part)) for path, part in module.named_modules()]),
        ]


def told(
    info: ModuleInfo,
    sample: int,
    names: list[str],
    turns: int,
    grad: bool,
    form: str,
    compile: Compile,
) -> Calls:
    world = make_world(info, sample, grad)
    assert world is not None
    named = {change.name: change for change in changes_of(world.module)}
    telling = Calls(world, grad, form, compile)
    for _ in range(3):
        telling.step("nothing changed")
    for name in names:
        telling.change(named[name], turns)
    return telling


def same_story(
    info: ModuleInfo,
    sample: int,
    names: list[str],
    turns: int,
    grad: bool,
    form: str,
) -> Calls:
    """Tells it both ways; returns pyjit's telling."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = told(info, sample, names, turns, grad, form, lambda f: f)
        have = told(info, sample, names, turns, grad, form, pyjit.compile)
    # What the backward has saved was written: eager minds, a compiled call need not.
    show_the_same(
        want,
        have,
        f"sample {sample}, {form}, grad {grad}, {names}",
        lambda eagers: isinstance(eagers, list) and eagers[1] is RuntimeError,
    )
    return have


def samples_and_changes(info: ModuleInfo) -> list[tuple[int, list[str], list[str]]]:
    """Of each sample with inputs: all changes, and those that calls go to and fro between."""
    found = []
    for sample in range(sample_count(info)):
        if world := make_world(info, sample, False):
            changes = changes_of(world.module)
            returning = [change.name for change in changes if change.returns]
            found.append((sample, [change.name for change in changes], returning))
    return found


@pytest.mark.parametrize("info", MODULES, ids=lambda info: info.name)
def test_settings_change(info: ModuleInfo) -> None:
    r = draws(info.name, 0)
    hits, answered = 0, False
    samples = samples_and_changes(info)
    if not samples:
        pytest.skip("upstream gives it no inputs")
    for _ in range(STORIES):
        sample, changes, _ = r.choice(samples)
        names = r.sample(changes, min(LENGTH, len(changes)))
        grad, form = r.random() < 0.6, r.choice(("module", "function"))
        telling = same_story(info, sample, names, 1, grad, form)
        hits += pyjit.stats(telling.compiled)["hits"]
        # Eager may raise in each call: targets that are to have gradients, samples in another precision.
        answered |= not isinstance(telling.seen[0][1][0], type)
    assert hits or not answered


@pytest.mark.parametrize(
    "info", MODULES[:: 1 if STORIES > 1 else 8], ids=lambda info: info.name
)
def test_settings_go_to_and_fro(info: ModuleInfo) -> None:
    """Between two values: no call of the last turns is recorded."""
    r = draws(info.name, 1)
    samples = samples_and_changes(info)
    if not samples:
        pytest.skip("upstream gives it no inputs")
    for _ in range(STORIES):
        sample, _, changes = r.choice(samples)
        name = r.choice(changes)
        grad, form = r.random() < 0.6, r.choice(("module", "function"))
        recorded = same_story(info, sample, [name], 8, grad, form).recordings
        assert recorded[-1] == recorded[-4], f"{info.name}, {name}: {recorded}"
