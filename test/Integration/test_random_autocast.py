# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random stories of autocast around compiled calls: what autocast keeps of weights is found where eager finds it.

A story enters and leaves regions, calls compiled models and eager code, goes backward, writes, freezes and
replaces weights, clears the cache. All numbers are small integers, so that no type rounds them: what differs is
another cast. A fifth of PYJIT_EXAMPLES is the number of stories.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration.harness import Raised, attempt, difference, snapshot, without_versions
from torch import nn

EXAMPLES = int(os.environ.get("PYJIT_EXAMPLES", "100"))
WIDTH = 4


class Stop(Exception):
    """Of the model's own."""


def region(kind: str, device: str) -> torch.autocast:
    return torch.autocast(
        device,
        torch.float16 if kind == "half" else torch.bfloat16,
        enabled=kind != "off",
        cache_enabled=kind != "no cache",
    )


class Model(nn.Module):
    """Some steps over a few weights, which several models share."""

    def __init__(self, rng: random.Random, weights: nn.ParameterList, device: str) -> None:  # fmt: skip
        super().__init__()
        self.weights, self.device = weights, device
        self.steps = [self.make(rng, 0) for _ in range(rng.randint(1, 4))]

    def make(self, rng: random.Random, depth: int) -> tuple[Any, ...]:
        first, second = (rng.randrange(len(self.weights)) for _ in range(2))
        leaf: list[tuple[Any, ...]] = [
            ("linear", first, second), ("matmul", first), ("linear", first, second),
            ("twice", first), ("single", first), ("detach", first), ("frozen", first),
        ]  # fmt: skip
        rare: list[tuple[Any, ...]] = [
            ("print",), ("write", first), ("stop",), ("clear",), ("write if", first), ("computed", first),
        ]  # fmt: skip
        if depth < 2 and rng.random() < 0.45:
            inner = [self.make(rng, depth + 1) for _ in range(rng.randint(1, 2))]
            kind = rng.choice(("region", "region", "off", "no cache", "half", "no grad", "branch", "training"))  # fmt: skip
            return (kind, inner, [self.make(rng, depth + 1)])
        return rng.choice(rare) if rng.random() < 0.12 else rng.choice(leaf)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.run(x, self.steps)

    def run(self, x: torch.Tensor, steps: list[tuple[Any, ...]]) -> torch.Tensor:
        for step in steps:
            x = self.step(x, *step).clamp(-1, 1)
        return x

    def step(self, x: torch.Tensor, kind: str, *given: Any) -> torch.Tensor:
        if kind == "linear":
            return F.linear(x, self.weights[given[0]], self.weights[given[1]][0])
        if kind == "matmul":
            return x @ self.weights[given[0]]
        if kind == "twice":
            return (x @ self.weights[given[0]]) + (self.weights[given[0]] @ x.T).T
        if kind == "single":
            return x.float() * self.weights[given[0]].sum(0)
        if kind == "detach":
            return x @ self.weights[given[0]].detach()
        if kind == "frozen":
            with torch.no_grad():
                return x @ self.weights[given[0]]
        if kind == "computed":
            return x @ (self.weights[given[0]] * 2 - self.weights[given[0]])
        if kind == "print":
            print(end="")
            return x
        if kind == "write" or (kind == "write if" and self.training):
            with torch.no_grad():
                self.weights[given[0]].neg_()
            return x
        if kind == "write if":
            return x
        if kind == "stop":
            if self.training:
                raise Stop
            return x
        if kind == "clear":
            torch.clear_autocast_cache()
            return x
        return self.nested(x, kind, *given)

    def nested(
        self, x: torch.Tensor, kind: str, first: Any, second: Any
    ) -> torch.Tensor:
        if kind == "branch":
            return self.run(x, first if x.float().sum() > 0 else second)
        if kind == "training":
            return self.run(x, first if self.training else second)
        if kind == "no grad":
            with torch.no_grad():
                return self.run(x, first)
        with region(kind, self.device):
            x = self.run(x.float() if kind in ("off", "half") else x, first)
        return x.float() if kind == "half" else x


@dataclass
class Backward:
    """Where eager's raises, a compiled one need not: it has a copy of what the call wrote before it was used."""

    raised: list[type]
    gradients: list[Any]


class Story:
    def __init__(self, seed: int, compile: Callable[[nn.Module], Any], device: str) -> None:  # fmt: skip
        rng = self.rng = random.Random(seed)
        self.device = device
        self.generator = torch.Generator().manual_seed(seed)
        self.weights = nn.ParameterList(self.whole() for _ in range(rng.randint(2, 4)))
        self.models = [
            Model(rng, self.weights, device) for _ in range(rng.randint(1, 3))
        ]
        self.calls = [compile(m) for m in self.models]
        self.losses: list[torch.Tensor] = []
        self.seen: list[Any] = []

    def whole(self, rows: int = WIDTH) -> torch.Tensor:
        with torch.inference_mode(False):
            found = torch.randint(-1, 2, (rows, WIDTH), generator=self.generator)
            return found.float().to(self.device)

    def tell(self) -> list[Any]:
        scenes = [self.rng.getrandbits(32) for _ in range(self.rng.randint(1, 3))]
        for _ in range(3):  # what has been seen before is what hits
            for scene in scenes:
                self.rng.seed(scene)
                for _ in range(self.rng.randint(1, 4)):
                    self.act(0)
                self.backward()
        return self.seen

    def act(self, depth: int) -> None:
        rng = self.rng
        if depth < 3 and rng.random() < 0.7 - 0.2 * depth:
            with self.region():
                for _ in range(rng.randint(1, 5)):
                    self.act(depth + 1)
            return
        kind = rng.choice(("call",) * 6 + ("eager", "eager", "write", "write", "backward", "frozen", "other", "clear", "mode"))  # fmt: skip
        weight = rng.choice(list(self.weights))
        if kind in ("call", "eager"):
            number = rng.randrange(len(self.models))
            self.call((self.calls if kind == "call" else self.models)[number])
        elif kind == "write":
            with torch.no_grad():
                weight.copy_(self.whole())
        elif kind == "backward":
            self.backward()
        elif kind == "frozen":
            weight.requires_grad_(not weight.requires_grad)
        elif kind == "other":
            with torch.inference_mode(False):
                self.weights[rng.randrange(len(self.weights))] = nn.Parameter(
                    self.whole()
                )
        elif kind == "clear":
            torch.clear_autocast_cache()
        else:
            for model in self.models:
                model.train(not model.training)

    def region(self) -> Any:
        kind = self.rng.choice(("on",) * 6 + ("off", "no cache", "half", "no grad", "inference"))  # fmt: skip
        if kind == "no grad":
            return torch.no_grad()
        if kind == "inference":
            return torch.inference_mode()
        return region(kind, self.device)

    def call(self, f: Any) -> None:
        x = self.whole(3)
        if self.rng.random() < 0.2:
            x.requires_grad_()
        result = attempt(f, x)
        if isinstance(result, Raised):
            self.seen.append(result.type)
            return
        self.seen.append(without_versions(snapshot(result)))
        if result.requires_grad:
            self.losses.append(result.float().sum())

    def backward(self) -> None:
        if torch.is_inference_mode_enabled():
            return
        # PyTorch advises against a backward within a region: eager casts its operators, too, and keeps their casts,
        # which a compiled call does not (docs/Training.md).
        with torch.autocast(self.device, enabled=False):
            results = [attempt(loss.backward) for loss in self.losses]
        self.losses.clear()
        raised = [r.type for r in results if isinstance(r, Raised)]
        gradients = [without_versions(snapshot(w.grad)) for w in self.weights]
        self.seen.append(Backward(raised, gradients))
        self.seen.append(without_versions(snapshot(list(self.weights))))
        for weight in self.weights:
            weight.grad = None


def check(seed: int, device: str = "cpu") -> int:
    """The number of hits."""
    compiled: list[Any] = []

    def compile(model: nn.Module) -> Any:
        compiled.append(pyjit.compile(model))
        return compiled[-1]

    want = Story(seed, lambda m: m, device).tell()
    have = Story(seed, compile, device).tell()
    assert len(want) == len(have)
    for number, (w, h) in enumerate(zip(want, have, strict=True)):
        if isinstance(w, Backward):
            if w.raised:
                continue
            w, h = w.gradients, h.gradients if not h.raised else h.raised
        found = difference(w, h, f"story {seed}, {number}")
        assert not found, found
    assert not torch.is_autocast_enabled(device)
    return sum(pyjit.stats(f)["hits"] for f in compiled)


@pytest.mark.parametrize("seed", range(EXAMPLES // 5))
def test_random_autocast(seed: int) -> None:
    check(seed)


def test_stories_hit() -> None:
    assert sum(check(seed) for seed in range(10)) > 20
