# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random programs with graph breaks in loops over containers, against eager: what is walked over and how, what
the body does to it, who else holds the iterator; containers that change between calls."""

from __future__ import annotations

import copy
import os
import random
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from Integration.harness import Raised, attempt
from Integration.random_sources import compare_program
from torch import nn

PROGRAMS = int(os.environ.get("PYJIT_LOOP_ITERATORS", "16"))

MODULE = "x = torch.tanh({v}(x))"
KEY = "x = m.table[{v}](x) if {v} in m.table else x"
TEXT = "x = x + len({v}) + ord({v}[-1]) * 0.01"
NUMBER = "x = x * {v} + 0.1"
TENSOR = "x = x + {v}"
SOURCES = (
    ("m.layers", MODULE),
    ("m.blocks", MODULE),
    ("m.plain", MODULE),
    ("m.fixed", MODULE),
    ("m.table.values()", MODULE),
    ("m.modules.values()", MODULE),
    ("m.table", KEY),
    ("m.table.keys()", KEY),
    ("m.names", TEXT),
    ("'aβcd'", TEXT),
    ("m.scales", NUMBER),
    ("range(3)", NUMBER),
    ("[x, x * 2, x + 1]", TENSOR),
    ("reversed(m.plain)", MODULE),
    ("reversed(m.fixed)", MODULE),
    ("reversed(m.layers)", MODULE),
    ("reversed(m.table)", KEY),
    ("list(m.layers)[1:]", MODULE),
    ("[layer for layer in m.plain]", MODULE),
    ("(layer for layer in m.plain)", MODULE),
    ("map(str, m.names)", TEXT),
)
CHANGES = (
    "len(m.plain) < 5 and m.plain.append(m.extra)",
    "len(m.plain) > 1 and m.plain.pop()",
    "len(m.names) < 6 and m.names.append('zz')",
    "len(m.names) < 6 and m.names.insert(0, 'q')",
    "m.names.reverse()",
    "m.table[f'new{len(m.table)}'] = m.extra",
    "m.table.pop('k0', None)",
    "m.table['k1'] = m.extra",
    "m.plain[-1] = m.extra",
    "m.scales[0] += 1",
)
BREAKS = (
    ("note(1)",),
    ("note({v})",),
    ("note(x.shape)",),
    ("if x.sum() > flag:", "    x = x - 0.25"),
    ("if x.sum() > 1e9:", "    break"),
    # Not the sum, where elements cancel out and only rounding is left.
    ("out.append(float(x.abs().sum()))",),
)


class Model(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(count))
        self.blocks = nn.Sequential(*(nn.Linear(4, 4) for _ in range(count)))
        self.by_name = nn.ModuleDict({f"n{i}": nn.Linear(4, 4) for i in range(count)})
        self.table = {f"k{i}": nn.Linear(4, 4) for i in range(count)}
        self.plain = list(self.layers)
        self.fixed = tuple(self.blocks)
        self.names = [f"n{i}" for i in range(count)]
        self.scales = [0.5 + i for i in range(count)]
        self.extra = nn.Linear(4, 4)
        self.held: Any = None


class Writer:
    """A program's text."""

    def __init__(self, pick: random.Random) -> None:
        self.pick = pick
        self.names = 0

    def name(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def source(self, depth: int = 0) -> tuple[str, str, list[str], list[str]]:
        """What is walked over, its pattern, lines that use it, and the variables."""
        kind = self.pick.random()
        if kind < 0.5 or depth > 1:
            text, use = self.pick.choice(SOURCES)
            v = self.name()
            return text, v, [use.format(v=v)], [v]
        if kind < 0.75:
            text, pattern, uses, names = self.source(depth + 1)
            i = self.name()
            start = self.pick.choice(("", ", 2"))
            uses = [*uses, f"x = x + {i} * 0.01"]
            return f"enumerate({text}{start})", f"{i}, ({pattern})", uses, [i, *names]
        if kind < 0.9:
            one, two = self.source(depth + 1), self.source(depth + 1)
            return (
                f"zip({one[0]}, {two[0]})",
                f"({one[1]}), ({two[1]})",
                one[2] + two[2],
                one[3] + two[3],
            )
        v, k = self.name(), self.name()
        table = self.pick.choice(("m.table", "m.by_name"))
        uses = [MODULE.format(v=v), TEXT.format(v=k)]
        return f"{table}.items()", f"{k}, {v}", uses, [k, v]

    def graph_break(self, names: list[str]) -> list[str]:
        known = [v for v in names if v != "x"]
        return [
            line.format(v=self.pick.choice(known)) for line in self.pick.choice(BREAKS)
        ]

    def loop(self, depth: int = 0) -> Iterator[str]:
        pick = self.pick
        text, pattern, uses, names = self.source()
        shared = pick.random() < 0.2
        held = ""
        if shared:
            held = self.name()
            yield f"{held} = iter({text})"
            if pick.random() < 0.5:
                yield f"next({held}, None)"
            if pick.random() < 0.4:
                yield f"m.held = {held}"
            text = held
        yield f"for {pattern} in {text}:"
        pick.shuffle(uses)
        body = [uses[0], *self.graph_break(names), *uses[1:]]
        if depth == 0 and pick.random() < 0.25:
            body += self.loop(1)
        if pick.random() < 0.3:
            body += self.graph_break(names)
        if pick.random() < 0.15:
            body.append(pick.choice(CHANGES))
        if pick.random() < 0.1:
            body += ["if len(out) > 2:", f"    {pick.choice(('break', 'continue'))}"]
        if shared and pick.random() < 0.3:
            body.append(f"x = x + (1 if next({held}, None) is None else 2)")
        yield from ("    " + line for line in body)
        if pick.random() < 0.2:
            yield from ("else:", "    x = x + 3")
        if shared and pick.random() < 0.3:
            yield f"out.append(len(list({held})))"

    def program(self) -> str:
        lines = ["import torch", "", "def f(m, x, flag, note):", "    out = []"]
        for _ in range(self.pick.choice((1, 1, 2))):
            lines += ("    " + line for line in self.loop())
        lines.append("    return x, out, m.held and type(m.held).__name__")
        return "\n".join(lines).replace("m.modules.values()", "m.by_name.values()")


def compare(seed: int) -> None:
    """A pair of models, which calls and what happens between them change alike."""
    pick = random.Random(seed)
    source = Writer(pick).program()
    torch.manual_seed(seed)
    model = Model(pick.choice((1, 2, 3, 3, 4)))
    models: dict[Any, Model] = {}
    steps = []
    for number in range(8):
        change = pick.choice(CHANGES) if pick.random() < 0.3 else ""
        steps.append(
            (number, change, pick.choice((2, 2, 3)), pick.choice((-99.0, 0.0, 99.0)))
        )

    def outcome(f: Any, step: Any) -> Any:
        number, change, rows, flag = step
        mine = models.setdefault(f, copy.deepcopy(model))
        if change:
            exec(change, {"m": mine})
        x = torch.randn(rows, 4, generator=torch.Generator().manual_seed(number))
        noted: list[str] = []

        def note(what: Any) -> None:
            sys.stderr.write("")  # nobody knows what it does
            noted.append(str(what))

        result: Any = attempt(f, mine, x, flag, note)
        if isinstance(result, Raised):
            result = result.type, result.text
        places = {id(layer): name for name, layer in mine.named_modules()}
        lists = [places.get(id(layer)) for layer in mine.plain], mine.names
        return result, noted, lists, list(mine.table), mine.scales

    compare_program(source, outcome, steps, {"compare_with_eager": False})


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_programs(seed: int) -> None:
    compare(seed)
