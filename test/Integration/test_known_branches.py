# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Branches at which earlier recordings have decided to break the graph, whatever they ask: the recording ends
in front of the jump, and what the jump asks, computed from data, is handed on."""

from __future__ import annotations

import dis
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from pyjit._api import engine_of
from pyjit._recorded_run import BRANCH_ON_DATA


def number(x: torch.Tensor) -> Any:
    if x.sum().item() > 2:
        return x + 1
    return x - 1


def negated(x: torch.Tensor) -> Any:
    if not x.sum().item() > 2:
        return x + 1
    return x - 1


def truth(x: torch.Tensor) -> Any:
    if (x > 1).any():
        return x + 1
    return x - 1


def truth_of_number(x: torch.Tensor) -> Any:
    if int((x > 1).sum()):
        return x + 1
    return x - 1


def either(x: torch.Tensor) -> Any:
    if x.sum().item() > 2 or x[0].item() < -1:
        return x + 1
    return x - 1


def both(x: torch.Tensor) -> Any:
    return x + 1 if x.sum().item() > 2 and x[0].item() < 2 else x - 1


def chained(x: torch.Tensor) -> Any:
    if 0 < x.sum().item() < 4:
        return x + 1
    return x - 1


def contained(x: torch.Tensor) -> Any:
    if 1.0 in x:
        return x + 1
    return x - 1


def member(x: torch.Tensor) -> Any:
    if int(x[0]) in (1, 2):
        return x + 1
    return x - 1


def kept(x: torch.Tensor) -> Any:
    large = x.sum().item() > 2
    if large:
        x = x + 1
    return x, large


def bound(x: torch.Tensor) -> Any:
    if (total := x.sum().item()) > 2:
        return x + total
    return x - total


def none(x: torch.Tensor) -> Any:
    limit = None if x.sum().item() > 2 else 1.0
    if limit is None:
        return x + 1
    return x * limit


def counted(x: torch.Tensor) -> Any:
    rounds = 0
    while x.sum().item() < 6:
        x = x + 1
        rounds += 1
    return x, rounds


def asserted(x: torch.Tensor) -> Any:
    assert x.sum().item() < 4, "large"
    return x + 1


def nested(x: torch.Tensor) -> Any:
    return (number(x), x * 2) if x[0].item() > 0 else (negated(x), x * 3)


def written(x: torch.Tensor) -> Any:
    x[:] = x * 2
    if x.sum().item() > 2:
        return 1
    return 0


PROGRAMS: list[Callable[[torch.Tensor], Any]] = [
    *(number, negated, truth, truth_of_number, either, both, chained, contained),
    *(member, kept, bound, none, counted, asserted, nested, written),
]


def jumps(function: Callable[..., Any]) -> list[int]:
    """Where a function's conditional jumps stand."""
    return [
        instruction.offset
        for instruction in dis.get_instructions(function)
        if instruction.opname.startswith("POP_JUMP")
        or instruction.opname in ("TO_BOOL", "UNARY_NOT")
    ]


def outcome(function: Callable[..., Any], x: torch.Tensor) -> Any:
    try:
        return function(x), x
    except AssertionError:
        return -1, x


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_known_graph_break(program: Callable[[torch.Tensor], Any]) -> None:
    sites = jumps(program)
    assert sites
    # At each of them, and at all.
    for known in [*([site] for site in sites), sites]:
        fast = pyjit.compile(program, options={"fallback": "ignore"})
        points = engine_of(fast, "test").root.graph_break_points
        points.update({(program.__code__, site): BRANCH_ON_DATA for site in known})
        values = [-1.0, 1.0, 4.0, 0.0, 2.0, -3.0, 1.0, 1.5, -1.0, 3.0, 0.5, 1.0]
        for value in values:
            x = torch.tensor([value, 0.25, 0.5])
            want, have = outcome(program, x.clone()), outcome(fast, x.clone())
            torch.testing.assert_close(have, want, rtol=0, atol=0)
