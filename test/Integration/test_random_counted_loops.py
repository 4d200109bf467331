# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random counted loops that tensor data may end, against eager: who uses the index, what else holds
the iterator, what follows the loop, loops in loops, calls whose trips and bounds differ."""

from __future__ import annotations

import os
import random
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import snapshot, values
from Integration.random_sources import compare_program

PROGRAMS = int(os.environ.get("PYJIT_COUNTED_LOOPS", "24"))
NAMES = ("a", "b", "c")

RANGES = ("range(n)", "range(12)", "range(1, n, 2)", "range(n, 0, -1)", "range(n + 2)")
COMMON = (
    "{x} = {y} * 0.5 + {z}",
    "{x} = torch.tanh({y}) - {z} * 0.25",
    "{x} = {y}.clamp(-2, 2) + {x}.mean()",
    "{x} = {y}.clone()",
    "{x} = {y} * 0.9",
    "{x}, {y} = {y} * 1, {x} * 1",
    "{x} = {y} + {i}",
    "{x} = {y} / ({i} + 2)",
    "k = k + {i}",
    "k = {i}",
    "{x} = {y} + k",
    "{x} = help({x}, {i})",
)
# What may keep a loop from being a program.
RARE = (
    "out.append({i})",
    "out.append({x})",
    "{x} = {y} + table[{i} % 3]",
    "{x} = {y} + w[{i} % 4]",
    "{x}.mul_(0.5)",
    "print(end='')",
    "{x} = {y} + 1 if {i} == 3 else {y}",
    "{x} = {y} + 1 if {i} % 2 else {y}",
    "last = f'{{{i}}}'",
    "first, k = k, {i}",
    "k = {x}.sum() > 0",
    "if {x}.sum() > 2: {x} = {x} * 0.5",
    "box[0] = {i}",
    "{x} = help({x}, box[0])",
    "if {i} > 3: continue",
    "if {i} > 5: break",
    "k = [{i}, k][0]",
)
ITERATOR = ("k = next(steps, 7)", "k = sum(1 for _ in [steps])", "holder = [steps]")
TESTS = (
    "{x}.sum() > lim",
    "({x} > lim).any()",
    "lim < {x}.abs().max()",
    "{x}.abs().max().item() > 1.5",
)


def block(pick: random.Random, index: str, rare: bool) -> list[str]:
    kinds = COMMON + (RARE if rare else ())
    lines = []
    for _ in range(pick.randrange(1, 4)):
        x, y, z = (pick.choice(NAMES) for _ in range(3))
        lines.append(pick.choice(kinds).format(x=x, y=y, z=z, i=index))
    return lines


def loop(pick: random.Random, depth: int) -> list[str]:
    index = "ij"[depth]
    rare = pick.random() < 0.4
    shared = depth == 0 and pick.random() < 0.12
    lines = [f"steps = iter({pick.choice(RANGES)})"] if shared else []
    over = "steps" if shared else pick.choice(RANGES)
    lines.append(f"for {index} in {over}:")
    body = block(pick, index, rare)
    if shared:
        body.append(pick.choice(ITERATOR))
    if depth == 0 and pick.random() < 0.15:
        body += loop(pick, 1)
    leave = "return a, k" if pick.random() < 0.1 else "break"
    test = pick.choice(TESTS).format(x=pick.choice(NAMES))
    body += [f"if {'not ' * (pick.random() < 0.2)}({test}):", f"    {leave}"]
    if pick.random() < 0.4:
        body += block(pick, index, rare)
    lines += ["    " + line for line in body]
    if pick.random() < 0.3:
        lines += ["else:", *("    " + line for line in block(pick, "k", False))]
    if shared:
        lines.append("out.append(list(steps))")
    return lines


def program(seed: int) -> str:
    pick = random.Random(seed)
    result = pick.choice(["a, b, c", "a + b, c, i, k", "c * 1, k, out, box", "b, i"])
    lines = [
        "import torch",
        "table = [0.5, 1.0, 2.0]",
        "def help(x, i):",
        "    return x * 0.5 + i",
        "def f(a, b, c, w, n, lim):",
        "    i, j, k, out, box = -1, -1, 0, [], [1]",
        *("    " + line for line in block(pick, "k", False)[:1]),
        *("    " + line for line in loop(pick, 0)),
        *("    " + line for line in block(pick, "i", False)[:1]),
        f"    return {result}",
    ]
    return "\n".join(lines) + "\n"


def outcome(f: Any, call: tuple[int, int, float]) -> Any:
    seed, n, lim = call
    # What a loop makes of a rounding is beyond any bound of one operator: in double it is small.
    a, b, c, w = (values(4, seed=seed + i).double() for i in range(4))
    try:
        result = f(a, b, c, w, n, torch.tensor(lim))
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        return type(error)
    return snapshot((result, a, b, c))


def check(seed: int) -> Any:
    calls = [(9, 1e9), (9, 1.0), (9, 1e9), (9, 2.0), (0, 1.0), (1, 1e9), (2, 0.5)]
    calls += [(14, 1e9), (6, 3.0), (9, 1e9), (5, 0.1), (11, 1.5)]
    story = [(number % 3, n, lim) for number, (n, lim) in enumerate(calls)]
    return compare_program(program(seed), outcome, story, versions=False)


counted: list[Any] = []


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_program(seed: int) -> None:
    counted.append(check(seed))


def test_that_loops_were_compiled() -> None:
    """Runs last: a fifth of the programs at least, or the others prove little."""
    if len(counted) < 12:
        pytest.skip("the programs ran in other processes")
    assert sum(pyjit.stats(f)["loops"] > 0 for f in counted) * 5 >= len(counted)
