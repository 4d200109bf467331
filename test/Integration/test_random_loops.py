# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random loops that data end, against eager: rebinding, writing in place, views, swaps, lists."""

from __future__ import annotations

import os
import random
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import snapshot, values
from Integration.random_sources import compare_program

PROGRAMS = int(os.environ.get("PYJIT_LOOPS", "60"))
NAMES = ("a", "b", "c")


def statement(pick: random.Random) -> str:
    x, y, z = (pick.choice(NAMES) for _ in range(3))
    return pick.choice(
        [
            f"{x} = {y} * 0.5 + {z}",
            f"{x} = torch.tanh({y}) - {z} * 0.25",
            f"{x} = torch.where({y} > 0, {z}, {x})",
            f"{x} = {y}.clamp(-2, 2) + {x}.mean()",
            f"{x} = {y}.flip(0)",
            f"{x} = {y}.clone()",
            f"{x} = {y}",
            f"{x} = {y}.view(-1)",
            f"{x}, {y} = {y}, {x}",
            f"{x}.mul_(0.5)",
            f"{x}.add_({y}.detach() * 0.1)" if x != y else f"{x}.neg_()",
            f"{x}[0] = {y}.sum()",
            f"{x}[1:3] += 1",
            f"box[0] = {x}",
            f"{x} = box[0] + {y}",
            f"box = [{x}, {y} * 2]",
            "k = k + 1",
            f"{x} = {y} + k",
            f"{x} = w * {y}",
            f"out.append({x})",
            f"d = {x} + 0; {y} = d * 0.9; d.add_(1)",
        ]
    )


def program(seed: int) -> str:
    pick = random.Random(seed)
    head = [statement(pick) for _ in range(pick.randrange(3))]
    # What keeps a loop from being a program is rare, or nothing would be tested.
    while True:
        body = [statement(pick) for _ in range(pick.randrange(1, 5))]
        rare = sum("out" in s or "k = " in s or "box" in s for s in body)
        if rare == 0 or pick.random() < 0.15:
            break
    test = pick.choice(["n > 0", "n.sum() > 0", "n"])
    lines = [
        "import torch",
        "def f(a, b, c, w, n):",
        "    k, out, box = 0, [], [a * 1, b * 1]",
        *(f"    {s}" for s in head),
        f"    while {test}:",
        *(f"        {s}" for s in body),
        "        n = n - 1",
        f"    return {pick.choice(['a, b, c, k, out, box', 'a + b, c', 'b', 'c * 1, a, box'])}",
    ]
    return "\n".join(lines) + "\n"


def tell(f: Any, trips: int, seed: int) -> Any:
    a, b, c, w = (values(5, seed=seed + i) for i in range(4))
    result = f(a, b, c, w, torch.tensor(trips))
    flat = [t for t in (result if isinstance(result, tuple) else [result])]
    flat = [u for t in flat for u in (t if isinstance(t, list) else [t])]
    inputs = {"a": a, "b": b, "c": c}
    # Which results are inputs, or one another, and whose memory they share.
    identity = [
        (
            [name for name, t in inputs.items() if t is u],
            [i for i, t in enumerate(flat) if t is u],
        )
        for u in flat
        if isinstance(u, torch.Tensor)
    ]
    shown = snapshot((result, a, b, c))
    for t in (t for t in flat if isinstance(t, torch.Tensor)):
        t.add_(1)
    return shown, identity, snapshot((result, a, b, c))


def outcome(f: Any, call: tuple[int, int]) -> Any:
    seed, trips = call
    try:
        return tell(f, trips, seed)
    except RuntimeError as error:
        return type(error)


def check(seed: int) -> Any:
    calls = enumerate((5, 4, 0, 1, 2, 9, 3))
    return compare_program(program(seed), outcome, calls, versions=False)


counted: list[Any] = []


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_program(seed: int) -> None:
    counted.append(check(seed))


def test_that_loops_were_compiled() -> None:
    """Runs last: a third of the programs at least, or the others prove little. Of the few that a small sample draws,
    none may be."""
    if len(counted) >= 12:
        assert sum(pyjit.stats(f)["loops"] > 0 for f in counted) * 3 >= len(counted)
