# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`f(*xs)` of what is no list: generators, maps, objects with an `__iter__`; of functions, classes and modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

import pyjit
import pytest
import torch
from Integration.harness import attempt, difference, snapshot
from torch import nn


class Composed:
    def __init__(self, *parts: Callable[..., Any], scale: float = 1.0) -> None:
        self.parts, self.scale = parts, scale

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            x = part(x)
        return x * self.scale


class Module(nn.Module):
    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = parts

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            x = part(x)
        return x


class Made(Composed):
    """An object that `__new__` makes."""

    def __new__(cls, *parts: Any) -> Self:
        made = super().__new__(cls)
        made.count = len(parts)
        return made


class Pair(tuple):  # type: ignore[type-arg]
    """Native code takes what it is given."""

    def __new__(cls, *parts: Any) -> Self:
        return super().__new__(cls, parts)


class Refusing:
    def __init__(self, one: Any) -> None:
        self.one = one


def added(*parts: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: sum(part(x) for part in parts)


class Bag:
    """Its length is asked first."""

    def __init__(self, parts: list[Any]) -> None:
        self.parts, self.asked = parts, 0

    def __len__(self) -> int:
        self.asked += 1
        return len(self.parts)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.parts)


def _same(layer: nn.Module) -> nn.Module:
    return layer


LAYERS = nn.ModuleList([nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)])
BAG = Bag(list(LAYERS))

SOURCES: dict[str, Callable[[], Any]] = {
    "generator": lambda: (layer for layer in LAYERS),
    "map": lambda: map(_same, LAYERS),
    "module list": lambda: LAYERS,
    "object": lambda: BAG,
    "zip": lambda: zip(LAYERS, LAYERS),
    "dict values": lambda: dict(enumerate(LAYERS)).values(),
    "chained": lambda: (layer for layer in [*LAYERS, torch.relu]),
}
TARGETS = (Composed, Module, Made, Pair, Refusing, added, nn.Sequential)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.__name__)
@pytest.mark.parametrize("source", SOURCES)
def test_starred(source: str, target: Callable[..., Any]) -> None:
    make = SOURCES[source]

    def f(x: torch.Tensor) -> Any:
        made = target(*make())
        return made(x) if callable(made) else [part(x) for part in made]

    fast, asked, hits = pyjit.compile(f), [], 0
    for n in range(5):
        seen = []
        for call in (f, fast):
            BAG.asked = 0
            x = torch.randn(2, 4, generator=torch.Generator().manual_seed(n))
            result = attempt(call, x)
            seen.append(snapshot(result))
            asked.append(BAG.asked)
        assert not (found := difference(*seen)), f"call {n}: {found}"
    assert asked[::2] == asked[1::2]
    hits = pyjit.stats(fast)["hits"]
    followed = source in ("generator", "map", "module list", "object")
    if followed and target in (Composed, Module, added):
        assert hits >= 3 and not pyjit.stats(fast)["graph_breaks"]
