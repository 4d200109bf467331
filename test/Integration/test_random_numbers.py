# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random programs in which tensors' data become numbers of Python's, and back, against eager:
`item()`, `float`, `int`, `bool`, arithmetic, comparisons, branches, counted loops. Tensors are f64, so
that numbers are compared bit by bit."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch
from Integration.harness import snapshot
from Integration.random_sources import EXAMPLES, compare_program, compare_programs

TENSORS = ("x", "y")
FLOATS = ("v", "w")
INTS = ("k", "m")


def number(pick: random.Random) -> str:
    t = pick.choice(TENSORS)
    return pick.choice(
        [
            f"{t}[{pick.randrange(4)}].item()",
            f"float({t}[{pick.randrange(4)}])",
            f"{t}.max().item()",
            f"float({t}[1:2])",
            f"{t}.float()[2].item()",
        ]
    )


def integer(pick: random.Random) -> str:
    t = pick.choice(TENSORS)
    return pick.choice(
        [
            f"n[{pick.randrange(3)}].item()",
            f"int(n[{pick.randrange(3)}])",
            f"n.int()[{pick.randrange(3)}].item()",
            f"int(({t} > 0)[1])",
            f"({t} > 0).sum().item()",
            f"({t} > 0).any().item() + 0",
        ]
    )


def truth(pick: random.Random) -> str:
    t, v, w = pick.choice(TENSORS), pick.choice(FLOATS), pick.choice(FLOATS)
    k, m = pick.choice(INTS), pick.choice(INTS)
    return pick.choice(
        [
            f"{v} > {w}",
            f"{v} < 0.3",
            f"{number(pick)} > {v}",
            f"{number(pick)} <= 0",
            f"{integer(pick)} == 2",
            f"{k} < {m}",
            f"{k} % 2 == 0",
            f"{k} > {v}",
            f"bool(({t} > 0).all())",
            f"({t} > 0.5).any().item()",
            f"not ({t} > 0).all()",
            f"{v} > 0 and {k} < 3",
            f"{number(pick)} > 0 or {w} > 1",
            f"{v}",
            f"not {k}",
            f"{t}.sum() > {v}",
        ]
    )


def statement(pick: random.Random) -> str:
    if pick.random() < 0.15:
        return container(pick)
    t, u = pick.choice(TENSORS), pick.choice(TENSORS)
    v, w = pick.choice(FLOATS), pick.choice(FLOATS)
    k, m = pick.choice(INTS), pick.choice(INTS)
    return pick.choice(
        [
            f"{v} = {number(pick)}",
            f"{v} = {number(pick)}",
            f"{k} = {integer(pick)}",
            f"{t} = {u} * {v}",
            f"{t} = {u} + {k}",
            f"{t} = {u} * 0.5 - {t}",
            f"{t} = {t}.clamp(-3, 3)",
            f"{t} = torch.where({u} > {v}, {t}, {u} * 0.5)",
            f"{t}[{pick.randrange(4)}] = {v}",
            f"{t} = {u}.clone()",
            f"{v} = {v} * 0.3 + {w}",
            f"{v} = {v} - {k}",
            f"{v} = {w} / 3",
            f"{v} = {w} / {v}",
            f"{v} = -{w}",
            f"{v} = abs({w})",
            f"{v} = float({k})",
            f"{v} = {w} * {w}",
            f"{v} = min({v}, {w})",
            f"{k} = {k} + 1",
            f"{k} = {m} - {k}",
            f"{k} = {k} * 2",
            f"{k} = int({v})",
            f"out.append({v})",
            f"out.append({k})",
            f'out.append(f"{{{v}:.2f}}")',
            f"flag = {v} > {w}",
            f"box = ({v}, {t})",
            f"{v} = {w} if {truth(pick)} else 0.25",
            f"{v} = helper({t}, {w})",
            "k, m = m, k",
        ]
    )


def container(pick: random.Random) -> str:
    """What Python's containers do with a number as key, index or element."""
    t, u = pick.choice(TENSORS), pick.choice(TENSORS)
    v, w = pick.choice(FLOATS), pick.choice(FLOATS)
    k, m = pick.choice(INTS), pick.choice(INTS)
    method = pick.choice(["get", "pop", "setdefault"])
    return pick.choice(
        [
            f"{t} = {{0: {u}, 1: {u} * 0.5, 2: {u} - 1}}.{method}({k}, {t})",
            f"{t} = {{True: {u}, 2: {t} + 1}}.{method}({v}, {t})",
            f"{v} = {{0: 0.5, 1: {w}}}.{method}({k}, {v})",
            f"{t} = dict([({k}, {u}), (1, {t})])[1]",
            f"{t} = ({u}, {t}, {t} * 0.5)[{k} % 3]",
            f"{v} = [{w}, 0.5, {v}][-({k} % 3)]",
            f"{k} = ({k}, {m}, 1).index({m})",
            f"{k} = [{k}, {m}, 1, {v}].count({m})",
            f"out.insert({k} % 4, {v})",
            f"{k} = max({k}, {m}, 1)",
            f"{v} = sorted([{v}, {w}, 0.5])[1]",
        ]
    )


def loop(pick: random.Random) -> Iterator[str]:
    t, v, k = pick.choice(TENSORS), pick.choice(FLOATS), pick.choice(INTS)
    other = pick.choice(TENSORS)
    tests = [
        f"{t}.abs().max().item() > 1e-2",
        f"float({t}.abs().max()) > 1e-2",
        f"{t}.abs().max() > 1e-2",
        f"bool(({t}.abs() > 1e-2).any())",
    ]
    more = pick.choice(
        ["", f"{k} < 9", f"{v} < 5", f"{k} < 9 and not ({t} > 50).any()"]
    )
    body = [
        f"{t} = {t} * 0.5",
        *(
            pick.choice(
                [
                    f"{k} += 1",
                    f"{k} = {k} + 2",
                    f"{v} = {v} + 0.125",
                    f"{v} = {v} * 0.9",
                    f"{other} = {other} + {t}",
                    f"{other} = {other} * 0.5 + {k}",
                    f"{v} = {t}[0].item()",
                    f"out.append({k})",
                    statement(pick),
                ]
            )
            for _ in range(pick.randrange(3))
        ),
    ]
    form = pick.randrange(4)
    test = pick.choice(tests)
    if any(s.startswith((f"{t} = ", f"{t}[")) for s in body[1:]):
        more = more or f"{k} < 9"
    if form < 2:
        body, bound = ending(body, more, k, v)
    if form == 0:
        yield f"while {test}{' and ' + more if more else ''}:"
        yield from (f"    {s}" for s in body + bound)
    elif form == 1:
        yield f"while {more + ' and ' if more else ''}{test}:"
        yield from (f"    {s}" for s in body + bound)
    else:
        end = pick.choice(["12", "m % 9 + 3"])
        yield f"for i in range({end}):"
        yield from (f"    {s}" for s in body)
        yield f"    if not ({test}):"
        yield "        break"
        if pick.random() < 0.3:
            yield "else:"
            yield f"    {t} = {t} + 1"
        if pick.random() < 0.5:
            yield "k = k + i"


def ending(body: list[str], more: str, k: str, v: str) -> tuple[list[str], list[str]]:
    """A while loop's body without what could keep its second test true, and what makes it false."""
    counter, step = (k, "1") if f"{k} < 9" in more else (v, "0.5")
    if not more:
        return body, []
    others = (f"{counter} = ", "k, m = ")
    return [s for s in body if not s.startswith(others)], [f"{counter} += {step}"]


def block(pick: random.Random, depth: int, budget: list[int]) -> Iterator[str]:
    for _ in range(pick.randrange(1, 4)):
        if depth < 2 and budget[0] and pick.random() < 0.4:
            budget[0] -= 1
            if pick.random() < 0.4:
                yield from loop(pick)
                continue
            yield f"if {truth(pick)}:"
            yield from (f"    {line}" for line in block(pick, depth + 1, budget))
            if pick.random() < 0.6:
                yield "else:"
                yield from (f"    {line}" for line in block(pick, depth + 1, budget))
        else:
            yield statement(pick)


def program(seed: int) -> str:
    pick = random.Random(seed)
    final = pick.choice(
        ["x, y, v, w, k, m, out", "x * v, out, k", "v", "k, m", "x, box, flag, y * w"]
    )
    lines = [
        "import torch",
        "def helper(t, s):",
        f"    if t[{pick.randrange(4)}].item() > s:",
        "        return s * 0.5",
        f"    return {pick.choice(['s', 's + 1', 't[0].item()', '0.5'])}",
        "def f(x, y, n, s):",
        f"    v, w, k, m = {number(pick)}, s, {pick.choice(['0', integer(pick)])}, 3",
        "    out, box, flag, i = [], None, None, 0",
        *(f"    {line}" for line in block(pick, 0, [3])),
        f"    return {final}",
    ]
    return "\n".join(lines) + "\n"


def outcome(f: Any, seed: int) -> Any:
    torch.manual_seed(seed)
    scale = (1.0, 30.0, 0.001)[seed % 3]
    x, y = torch.randn(2, 4, dtype=torch.float64) * scale
    n = torch.randint(-3, 6, (3,))
    try:
        result = f(x, y, n, (0.25, 0.75, -1.5)[seed % 3])
    except (ArithmeticError, ValueError, RuntimeError) as error:
        return type(error)
    return snapshot((result, x, y))


# Branches whose sides hold numbers are seldom merged: this program's is.
MERGED = 8
CALLS = (0, 1, 2, 3, 4, 5, 0, 6, 7, 1, 8, 2, 4)


def check(seed: int, **settings: Any) -> None:
    compare_program(program(seed), outcome, CALLS, **settings)


def test_programs() -> None:
    stats = compare_programs(program, outcome, CALLS, also=(MERGED,))
    # Or the others prove little.
    assert sum(s["hits"] + s["continuation_hits"] > 0 for s in stats) * 2 >= len(stats)
    assert any(s["loops"] for s in stats) and any(s["branches"] for s in stats)


def test_programs_on_a_simulated_device() -> None:
    compare_programs(
        program,
        outcome,
        CALLS,
        examples=max(EXAMPLES // 4, 1),
        options={"simulated_device": True},
    )
