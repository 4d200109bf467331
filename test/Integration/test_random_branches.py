# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random programs with branches on data, against eager: nested, in a row, in called functions;
rebinding, writing in place, views, containers, early returns."""

from __future__ import annotations

import random
from typing import Any

from Integration.random_sources import (
    EXAMPLES,
    Grammar,
    compare_program,
    compare_programs,
)
from Integration.test_random_loops import NAMES, outcome


def statement(pick: random.Random) -> str:
    x, y, z = (pick.choice(NAMES) for _ in range(3))
    plain = [
        f"{x} = {y} * 0.5 + {z}",
        f"{x} = torch.tanh({y}) - {z} * 0.25",
        f"{x} = torch.where({y} > 0, {z}, {x})",
        f"{x} = {y}.clamp(-2, 2) + {x}.mean()",
        f"{x} = {y}.flip(0)",
        f"{x} = w * {y}",
    ]
    telling = [
        f"{x} = {y}",
        f"{x} = {y}.view(-1)",
        f"{x}, {y} = {y}, {x}",
        f"{x}.mul_(0.5)",
        f"{x}.add_({y} * 0.1)",
        f"{x}[0] = {y}.sum()",
        f"{x}[1:3] += 1",
        f"box[0] = {x}",
        f"{x} = box[0] + {y}",
        f"box = [{x}, {y} * 2]",
        f"box.append({x})",
        f"{x} = {y} + k",
        "k = 2",
        f"{x} = helper({y}, {z})",
        f"d = {x} + 0; {y} = d * 0.9; d.add_(1)",
        f"{x} = {x}[:3].repeat(2)[:5].clone()",
    ]
    return pick.choice(plain if pick.random() < 0.65 else telling)


def condition(pick: random.Random) -> str:
    x = pick.choice(NAMES)
    return pick.choice(
        [f"{x}.sum() > 0", f"not ({x}[1] > 0)", f"{x}[2] > 0", f"({x} > 1).any()"]
    )


def conditional(pick: random.Random) -> str:
    x, y = pick.choice(NAMES), pick.choice(NAMES)
    return f"{x} = {y} * 2 if {condition(pick)} else {y}.abs()"


GRAMMAR = Grammar(
    statement,
    condition,
    conditional,
    early=lambda pick: f"return {pick.choice(NAMES)} * 3",
    early_chance=0.08,
)


def program(seed: int) -> str:
    pick = random.Random(seed)
    body = GRAMMAR.block(pick)
    final = pick.choice(["a, b, c, box", "a + b, c", "b", "c * 1, a", "a, a + 1, [b]"])
    lines = [
        "import torch",
        "def helper(p, q):",
        f"    if p[{pick.randrange(5)}] > 0:",
        "        return p * q",
        f"    return {pick.choice(['q - p', 'q - p', 'q - p', 'q', 'p.view(-1)'])}",
        "def f(a, b, c, w, n):",
        "    k, box = 1.5, [a * 1, b * 1]",
        f"    {pick.choice(NAMES)} = {pick.choice(NAMES)} * 1",
        *(f"    {line}" for line in body),
        f"    return {final}",
    ]
    return "\n".join(lines) + "\n"


CALLS = tuple((call, 1) for call in (0, 1, 2, 3, 4, 5, 0, 6, 7, 1, 8, 9, 2, 5))


def check(seed: int, **settings: Any) -> None:
    compare_program(program(seed), outcome, CALLS, **settings)


def compare(**settings: Any) -> list[int]:
    """How many branches were merged in each program."""
    stats = compare_programs(program, outcome, CALLS, **settings)
    return [s["branches"] for s in stats]


def test_programs() -> None:
    merged = compare()
    # A third of the programs at least, or the others prove little.
    assert sum(count > 0 for count in merged) * 3 >= len(merged)


def test_programs_on_a_simulated_device() -> None:
    compare(examples=max(EXAMPLES // 4, 1), options={"simulated_device": True})
