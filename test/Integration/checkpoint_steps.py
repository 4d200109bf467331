# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps in which a function under checkpoint may find something else when the backward pass calls it again."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy
import torch
from Integration.harness import ANY, Compile, Steps, as_test, attempt, values
from Integration.training import state
from torch import nn
from torch.utils.checkpoint import checkpoint

again = partial(checkpoint, use_reentrant=False)


class World:
    """What a step of a story works on, and what it leaves to be looked at."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.layer, self.other = nn.Linear(4, 4), nn.Linear(4, 4)
        self.norm, self.drop = nn.BatchNorm1d(4), nn.Dropout(0.3)
        self.model = nn.ModuleList([self.layer, self.other, self.norm])
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9)
        self.scale: Any = values(4, seed=1)
        self.number = 1.0
        self.seen: list[Any] = []
        self.generator = torch.Generator().manual_seed(3)
        self.walk = itertools.cycle([1.0, 2.0, 3.0])

    def finish(self, loss: torch.Tensor) -> torch.Tensor:
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

    def observed(self) -> Any:
        return [
            state(self.model, self.optimizer),
            [list(self.seen), self.number, self.scale],
            [torch.get_rng_state(), self.generator.get_state(), next(self.walk)],
            [random.getstate(), numpy.random.get_state()[1:3]],
        ]


Step = Callable[[World, torch.Tensor, torch.Tensor], Any]


def story_of(step: Step) -> Callable[[Compile], Steps]:
    def story(compile: Compile) -> Steps:
        world = World()
        random.seed(0)
        numpy.random.seed(0)
        fast = compile(partial(step, world))
        for i in range(6):
            torch.manual_seed(i)
            out = attempt(fast, values(3, 4, seed=i), values(3, 4, seed=100 + i))
            yield [out, world.observed()]

    story.__name__, story.__module__ = step.__name__, step.__module__
    return story


def changed(step: Step) -> Callable[[], None]:
    """The step may have graph breaks, or run in eager; it must be right."""
    return as_test(story_of(step), captured=False, graph_breaks=ANY, grad=True)


def eager(why: str) -> Callable[[Step], Callable[[], None]]:
    """The step runs in eager."""
    return lambda step: as_test(story_of(step), eager=why, grad=True)


def graph(step: Step) -> Callable[[], None]:
    """Nothing that the function reads changes: one graph."""
    return as_test(story_of(step), captured="late", grad=True)
