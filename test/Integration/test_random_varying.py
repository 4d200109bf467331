# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random programs with branches on data whose numbers and sizes differ between calls, against
eager: sizes that Python computes with, counters in objects, numbers in one side or in both."""

from __future__ import annotations

import random
import re
from typing import Any

import torch
from Integration.harness import snapshot, values
from Integration.random_sources import (
    EXAMPLES,
    Grammar,
    compare_program,
    compare_programs,
)

NAMES = ("a", "b", "c")
CALLS = (0, 1, 2, 3, 1, 4, 5, 6, 2, 7, 8, 9, 4, 10)


def number(pick: random.Random) -> str:
    return pick.choice(
        ["k", "r", "k + 1", "r * 0.5", "k * r", "s.n", "n", "m", "2", "0.25", "s.n + k"]
    )


def statement(pick: random.Random) -> str:
    x, y, z = (pick.choice(NAMES) for _ in range(3))
    return pick.choice(
        [
            f"{x} = {y} * {number(pick)} + {z}",
            f"{x} = {y} + {number(pick)}",
            f"{x} = torch.tanh({y} - {number(pick)})",
            f"{x} = {y} * 0.5 + {z}",
            f"{x} = {y}.clamp(-2, 2)",
            f"{x} = ({y}.reshape(n * m) * {number(pick)}).reshape(n, m)",
            f"{x} = {y}.reshape(-1, m) + {z}.sum(0)",
            f"{x} = {y} + {z}.mean() * {y}.shape[0]",
            f"{x} = torch.cat([{y}, {z}])[:n]",
            f"{x} = {y}.flip(0) - {z}[0]",
            f"{x} = torch.where({y} > {number(pick)}, {z}, {x})",
            f"{x} = {x} + torch.full((n, m), 0.5)",
            "k = k + 1",
            "r = r * 2",
            "s.n += 1",
            "s.r = r",
            f"s.last = {x}",
            f"{x} = helper({y}, {number(pick)})",
            f"{x} = {y} * w[:, :m].sum()",
            f"{x}.mul_(0.5)" if pick.random() < 0.3 else f"{x} = {y}.abs()",
            f"if {number(pick)} > 3: {x} = {y} - 1",
        ]
    )


def condition(pick: random.Random) -> str:
    x = pick.choice(NAMES)
    return pick.choice(
        [
            f"{x}.sum() > 0",
            f"{x}[0, 1] > 0",
            f"torch.isnan({x}).any()",
            f"0 in {x}",
            f"{x}.mean() * k > 1",
            f"({x} > r).all()",
        ]
    )


GRAMMAR = Grammar(
    statement,
    condition,
    early=lambda pick: f"return {pick.choice(NAMES)} * {number(pick)}",
    early_chance=0.1,
    else_chance=0.6,
)


def program(seed: int) -> str:
    pick = random.Random(seed)
    body = GRAMMAR.block(pick)
    lines = [
        "import torch",
        "def helper(p, q):",
        "    if p[0, 0] > 0:",
        f"        return p * {pick.choice(['q', '2'])}",
        f"    return {pick.choice(['p - q', 'p', 'p.abs() + p.shape[0]'])}",
        "def f(a, b, c, w, k, r, s):",
        "    n, m = a.shape",
        f"    {pick.choice(NAMES)} = {pick.choice(NAMES)} * {number(pick)}",
        *(f"    {line}" for line in body),
        f"    return {pick.choice(['a, b, c, k', 'a + b, r, n', 'c, s.n', 'a', 'b, (k, r), [c]'])}",
    ]
    return "\n".join(lines) + "\n"


class State:
    def __init__(self) -> None:
        self.n = 3
        self.r = 0.5
        self.last: Any = None


def outcome(
    states: dict[Any, State], vary: str, dtype: torch.dtype = torch.float32
) -> Any:
    def call(f: Any, number: int) -> Any:
        # One object for all calls of a function: what it counts goes on.
        state = states.setdefault(f, State())
        draw = random.Random(number)
        sign = draw.choice([1, 1, -1])
        size = draw.choice([2, 3, 5, 7]) if "s" in vary else 3
        k = draw.choice([0, 1, 2, 3, 4, 5, True, False]) if "n" in vary else 2
        r = draw.choice([0.5, 1.25, -0.75, True]) if "n" in vary else 0.5
        a, b, c = (
            sign * values(size, 4, seed=number * 3 + i).abs().to(dtype)
            for i in range(3)
        )
        w = values(3, 4, seed=99).to(dtype)
        try:
            result = f(a, b, c, w, k, r, state)
        except Exception as error:
            return type(error).__name__
        return snapshot((result, a, b, c, w, state.n, state.r, state.last))

    return call


def check(seed: int, vary: str, **settings: Any) -> None:
    try:
        compare_program(program(seed), outcome({}, vary), CALLS, **settings)
    except AssertionError as error:
        # Sums that cancel lose digits, in another order others: those of double stay.
        off = re.search(r"Greatest relative difference: (\S+)", str(error))
        if off is None or not float(off[1]) < 1e-4:
            raise
        double = outcome({}, vary, torch.float64)
        compare_program(program(seed), double, CALLS, **settings)


def compare(vary: str, **settings: Any) -> list[dict[str, Any]]:
    return compare_programs(program, outcome({}, vary), CALLS, also=(), **settings)


def test_numbers() -> None:
    stats = compare("n")
    assert sum(s["branches"] + len(s["speculations"]) > 0 for s in stats) * 4 > len(
        stats
    )


def test_sizes() -> None:
    stats = compare("s")
    assert sum(s["symbols"] > 0 for s in stats) * 3 > len(stats)


def test_numbers_and_sizes() -> None:
    compare("ns")


def test_on_a_simulated_device() -> None:
    compare("ns", examples=max(EXAMPLES // 4, 1), options={"simulated_device": True})
