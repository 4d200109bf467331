# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls of one function that differ in kind, each with branches on data that go one way: a generation's prompt and its
steps, say. Whether the branch of one kind can be part of a program says nothing of the others'.

Each call is compared with eager, state included; once all kinds have been seen, no graph break is left.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pyjit
import pytest
import torch
from Integration.harness import difference

ONES, PADDED = torch.ones(2, 5), torch.tensor([[1.0] * 5, [0.0, 0.0, 1.0, 1.0, 1.0]])


class State:
    """What a generation keeps between steps."""

    def __init__(self) -> None:
        self.ready = False
        self.keys: Any = None

    def seen(self) -> tuple[Any, ...]:
        return self.ready, self.keys


def compare(f: Callable[..., Any], calls: Iterable[tuple[Any, ...]]) -> dict[str, Any]:
    """Compares each call with eager, and the state behind it; a call without arguments begins with a new one."""
    fast = pyjit.compile(f)
    states = State(), State()
    with torch.no_grad():
        for number, given in enumerate(calls):
            if not given:
                states = State(), State()
                continue
            want = f(*given, states[0]), states[0].seen()
            have = fast(*given, states[1]), states[1].seen()
            found = difference(want, have)
            assert not found, f"call {number}: {found}"
    return dict(pyjit.stats(fast))


def runs(masks: Iterable[torch.Tensor], steps: int = 3) -> list[tuple[Any, ...]]:
    """Generations: a prompt, and steps with a longer input each."""
    calls: list[tuple[Any, ...]] = []
    for seed, mask in enumerate(masks):
        calls.append(())
        generator = torch.Generator().manual_seed(seed)
        for step in range(steps):
            size = (*mask.shape,) if not step else (mask.shape[0], 1)
            calls.append((torch.randn(size, generator=generator), mask))
    return calls


def masked(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    y = x * 2
    if mask.all():
        return y + 1
    return y * mask.mean() - 1


def only_steps_can_be_joined(
    x: torch.Tensor, mask: torch.Tensor, state: State
) -> torch.Tensor:
    first = {"prompt"} if not state.ready else None
    y = masked(x, mask)
    if first is not None and "prompt" in first:  # a set is asked, which is not joined
        y = y * 3
    if not state.ready:
        state.ready, state.keys = True, y
    else:
        state.keys = torch.cat([state.keys, y], 1)
    return state.keys.relu().sum(1)


class Output(collections.OrderedDict):  # type: ignore[type-arg]
    """As transformers' outputs are."""


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


class Parts(list):  # type: ignore[type-arg]
    pass


def objects_over_a_branch(
    x: torch.Tensor, mask: torch.Tensor, state: State
) -> torch.Tensor:
    out = Output(a=x + 1, b=x * 2)
    pair, parts = Pair(x - 1, x), Parts([x, x * 3, x])
    y = masked(x, mask)
    for key in (*out.keys(),):
        y = y + out[key] * len(key)
    if "c" not in out and len(out) == 2:
        y = y * len(pair)
    return y * len(parts) + parts[1] + pair.first


def asks_in_order(x: torch.Tensor, mask: torch.Tensor, state: State) -> Any:
    out = Output(b=x, a=x * 2)
    y = masked(x, mask)
    return [(key, value + y) for key, value in out.items()], list(out)


REGISTRY: dict[str, Callable[..., Any]] = {}


def registered(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs)

    REGISTRY[f.__name__] = inner
    return inner


@registered
def causal(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return masked(x, mask) if x.isfinite().all() else -x


def through_a_registry(
    x: torch.Tensor, mask: torch.Tensor, state: State
) -> torch.Tensor:
    y = REGISTRY["causal"](x, mask).relu()
    return REGISTRY["causal"](y + 1, mask) * 2 + x


PROGRAMS = [only_steps_can_be_joined, objects_over_a_branch, asks_in_order, through_a_registry]  # fmt: skip
WIDER = torch.ones(3, 7)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_one_way(f: Callable[..., Any]) -> None:
    stats = compare(f, runs([ONES] * 3))
    left = 1 if f is only_steps_can_be_joined else 0
    assert len(stats["graph_break_sites"]) == left, stats
    assert stats["speculations"], stats


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "masks",
    [
        [ONES, ONES, PADDED, PADDED, ONES, PADDED],
        [PADDED, ONES, PADDED],
        [ONES, WIDER, ONES, WIDER * 0.5, PADDED, WIDER],
        [ONES[:1], ONES, WIDER, PADDED[:1], PADDED[1:], WIDER[:1]],
    ],
    ids=["later", "padded first", "sizes", "batches"],
)
def test_hostile(f: Callable[..., Any], masks: list[torch.Tensor]) -> None:
    compare(f, runs(masks))
    compare(f, runs(masks, steps=6))


@pytest.mark.parametrize("f", PROGRAMS[1:], ids=lambda f: f.__name__)
def test_both_ways_of_all_sizes_settle(f: Callable[..., Any]) -> None:
    """Each way of each kind has a graph, whatever the sizes are: no further ones, and no graph breaks."""
    masks = [
        torch.full((rows, columns), 1.0 - way)
        for rows, columns in ((2, 5), (2, 6), (3, 6), (4, 7), (5, 9), (3, 4))
        for way in (0, 0.5)
    ]
    stats = compare(f, runs(masks))
    assert not stats["graph_break_sites"], stats
    again = compare(f, [*runs(masks), *runs(masks[::-1])])
    assert again["misses"] == stats["misses"], (stats, again)
    assert again["graphs"] == stats["graphs"], (stats, again)
