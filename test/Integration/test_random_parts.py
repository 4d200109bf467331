# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random programs that write parts of their inputs at places that differ between calls, with reads before and behind,
vendor calls that may raise in between, aliases, and several owners of one memory.

After each call results, inputs, versions and errors are eager's: also where a call raised in its middle.
PYJIT_EXAMPLES sets the number of programs, 60 by default.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyjit
import pytest
import torch

EXAMPLES = int(os.environ.get("PYJIT_EXAMPLES", "60"))
ROWS, COLUMNS = 7, 8
WAYS = ("", "plain", "copy", "table", "update")


# An operator may be given rows of the memory that it writes: where they overlap, eager refuses. Of columns that overlap
# it does not know, and its answer is undefined: there are none.
# By the shape of what they give; `{m}` is an input that is written, `{row}` and so on any expression of that shape.
EXPRESSIONS = {
    "row": [
        "y", "x[0]", "{m}[p]", "{m}[0]", "{m}.sum(0)", "(x @ w)[1]", "{row} * 2 + {row}", "torch.tanh({row})",
        "{m}[p:].mean(0)", "w[q]", "{m}.index_select(0, i).sum(0)", "{row} + torch.linalg.cholesky(e).sum()", "{row} @ w",
    ],
    "column": [
        "x[:, 1]", "{m}[:, q]", "{m}[:, 0]", "{m}.sum(1)", "{m} @ y", "{column} - 1", "{m}[:, :q].sum(1)",
        "{column} * {column}", "torch.linalg.cholesky(e) @ {column}",
    ],
    "rows": ["x[:2]", "{m}[i]", "{m}[2:4]", "{m}[p:p + 2]", "{m}[2:4] * 1", "{rows} + y", "{rows} @ w", "{m}.index_select(0, i)", "torch.relu({rows})"],
    "matrix": ["x", "{m} + 1", "{m} @ w", "{m} * {m}", "{m}.clone()", "torch.softmax({m}, 1)", "{m}.cumsum(0)",
               "{matrix} - {row}", "torch.linalg.cholesky(e) @ {matrix}"],
}  # fmt: skip
WRITES = [
    "{m}[p] = {row}", "{m}[p] = {row}", "{m}[:, q] = {column}", "{m}[:, q] = {column}", "{m}[0] = {row}",
    "{m}[p] += {row}", "{m}[:, q] *= {column}", "{m}[p:p + 2] = {rows}", "{m}[1:3] = {rows}", "{m}[3:5] += {rows}",
    "{m}[:, :q] = 0", "{m}[:, :q] = {matrix}[:, :1]", "{m}[p, q] = 3.5", "{m}[p].copy_({row})", "{m}[p, 2:5].mul_(2)",
    "{m}[1:] += {row}", "{m}[:, ::3] += 1", "{m}.diagonal().add_(1)", "{m}.t()[q] = {column}", "{m}[p].zero_()",
    "{m}.index_copy_(0, i, {rows})", "{m}.index_copy_(0, i, {rows})", "{m}.index_add_(0, i, {rows})",
    "{m}.index_fill_(0, i, 0.25)", "{m}[i] = {rows}", "{m}[i] += {rows}", "{m}[:, j] = 2.0",
    "{m}.scatter_(1, k, {matrix})", "{m}.scatter_(1, k, 1.5)", "{m}.scatter_add_(1, k, {matrix})",
    "{m}.index_put_((i,), {rows}, accumulate=True)", "{m}.narrow(0, p, 1).fill_(0.5)", "{m}.mul_(0.5)", "{m}.add_({row})",
    "{view} = {m}[p]", "{view} = {m}[:, q:]", "{view}.mul_(1.5)", "{view}.add_(1)",
]  # fmt: skip


class Generator:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.known: dict[str, list[str]] = {}
        self.views: list[str] = []

    def expression(self, kind: str, depth: int = 0) -> str:
        known = self.known.get(kind, [])
        if known and self.rng.random() < 0.4:
            return self.rng.choice(known)
        simple = [
            e for e in EXPRESSIONS[kind] if depth < 2 or "{m" in e or "{" not in e
        ]
        return self.fill(self.rng.choice(simple), depth + 1)

    def fill(self, template: str, depth: int = 0) -> str:
        while (start := template.find("{")) >= 0:
            name = template[start + 1 : template.index("}", start)]
            if name == "m":
                what = self.rng.choice("ab")
            elif name == "view":
                what = self.rng.choice(self.views or ["a[1]"])
            elif depth > 3:
                what = {
                    "row": "y",
                    "column": "x[:, 1]",
                    "rows": "x[:2]",
                    "matrix": "x",
                }[name]
            else:
                what = self.expression(name, depth)
            template = (
                template[:start] + what + template[template.index("}", start) + 1 :]
            )
        return template

    def statement(self) -> str:
        if self.rng.random() < 0.35:
            kind = self.rng.choice(list(EXPRESSIONS))
            name = f"{kind}{len(self.known.get(kind, []))}"
            line = f"{name} = {self.expression(kind)}"
            self.known.setdefault(kind, []).append(name)
            return line
        write = self.rng.choice(WRITES)
        if write.startswith("{view} ="):
            name = f"view{len(self.views)}"
            line = self.fill(write.replace("{view}", name, 1))
            self.views.append(name)
            return line
        return self.fill(write)

    def program(self) -> str:
        lines = ["def f(a, b, x, y, w, e, i, j, k, p, q):"]
        lines += [f"    {self.statement()}" for _ in range(self.rng.randint(1, 6))]
        given = [self.expression(self.rng.choice(list(EXPRESSIONS))) for _ in range(2)]
        given += self.rng.sample(["a", "b", "a[0]", "b[:, 1]", *self.views], 2)
        lines.append(
            f"    return {', '.join(self.rng.sample(given, self.rng.randint(1, 3)))}"
        )
        return "\n".join(lines) + "\n"


def owners(way: int, generator: torch.Generator) -> list[torch.Tensor]:
    """Two inputs: with memory of their own, with gaps, both of one storage, one tensor twice, one inside of the other."""
    memory = torch.randn(4 * ROWS, 2 * COLUMNS, generator=generator)
    a, b = memory[:ROWS, :COLUMNS], memory[ROWS : 2 * ROWS, :COLUMNS]
    return [memory] + [
        [a.clone(), b.clone()],
        [a, b],
        [memory[: 2 * ROWS : 2, ::2], b.clone().t().contiguous().t()],
        [a, a],
        [a, memory[2 : 2 + ROWS, :COLUMNS]],
        [memory[::4, :COLUMNS], memory[2::4, COLUMNS:]],
    ][way]


def outcome(f: Callable[..., Any], arguments: list[Any]) -> tuple[str, Any]:
    try:
        results = f(*arguments)
    except Exception as error:
        return type(error).__name__, ()
    return "", results if isinstance(results, tuple) else (results,)


def shares(x: torch.Tensor, y: torch.Tensor) -> bool:
    return x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()


@dataclass
class Call:
    """What one call is given; made anew for each function that is called."""

    seed: int
    way: int
    spoilt: bool  # a library's call raises
    places: dict[str, Any]

    def make(self) -> tuple[torch.Tensor, list[Any]]:
        """All memory of the two inputs that are written, and the arguments."""
        generator = torch.Generator().manual_seed(self.seed)
        memory, a, b = owners(self.way, generator)
        x, y = (
            torch.randn(*shape, generator=generator)
            for shape in ((ROWS, COLUMNS), (COLUMNS,))
        )
        w = torch.randn(COLUMNS, COLUMNS, generator=generator) * 0.3
        e = torch.eye(ROWS) * (-1 if self.spoilt else 2)
        indices = [torch.tensor(self.places[name]) for name in "ijk"]
        return memory, [a, b, x, y, w, e, *indices, self.places["p"], self.places["q"]]


def calls(rng: random.Random, seed: int) -> Iterator[Call]:
    usual = rng.randrange(3)
    for number in range(12):
        way = usual if rng.random() < 0.9 else rng.randrange(6)
        # Of elements that are written several times eager does not say which value stays.
        places: dict[str, Any] = {
            "p": rng.randrange(2, ROWS - 1), "q": rng.randrange(2, COLUMNS), "i": rng.sample(range(ROWS), 2),
            "j": rng.choice([[0, 3], [7, 2], [5, 5]]), "k": [rng.sample(range(COLUMNS), COLUMNS) for _ in range(ROWS)],
        }  # fmt: skip
        spoilt = number > 2 and rng.random() < 0.15
        if number > 2 and rng.random() < 0.2:
            wrong = rng.choice(["p", "p", "q", "i", "k"])
            places[wrong] = {
                "p": rng.choice([0, 1, ROWS]), "q": COLUMNS, "i": [1, ROWS], "k": [[COLUMNS] * COLUMNS] * ROWS,
            }[wrong]  # fmt: skip
        yield Call(1000 * seed + number, way, spoilt, places)


def compare(
    f: Callable[..., Any], fast: Callable[..., Any], call: Call, source: str
) -> None:
    (memory, mine), (other, eager) = call.make(), call.make()
    with torch.no_grad():
        want, got = outcome(f, eager), outcome(fast, mine)
    told = f"{call}\n{source}"
    assert got[0] == want[0], f"{got[0]} is not {want[0]}, {told}"
    pairs = [
        (f"argument {k}", *pair)
        for k, pair in enumerate(zip(mine[:6], eager[:6], strict=True))
    ]
    for what, ours, theirs in pairs:
        assert ours._version == theirs._version, f"version of {what}, {told}"
    pairs.append(("memory", memory, other))
    for k, (ours, theirs) in enumerate(zip(got[1], want[1], strict=True)):
        pairs.append((f"result {k}", ours, theirs))
        assert ours.stride() == theirs.stride(), f"strides of result {k}, {told}"
        alike = [shares(ours, t) for t in mine[:2]] == [
            shares(theirs, t) for t in eager[:2]
        ]
        assert alike, f"memory of result {k}, {told}"
    for what, ours, theirs in pairs:
        torch.testing.assert_close(
            ours, theirs, rtol=1e-4, atol=1e-4, equal_nan=True, msg=f"{what}, {told}"
        )


def check(seed: int, options: dict[str, Any] | None = None) -> None:
    rng = random.Random(seed)
    source = Generator(rng).program()
    scope: dict[str, Any] = {"torch": torch}
    exec(source, scope)
    options = dict(options or {})
    if options.get("simulated_device") and (way := rng.choice(WAYS)):
        options["launch"] = way
    fast = pyjit.compile(scope["f"], options=options)
    for call in calls(rng, seed):
        compare(scope["f"], fast, call, source)


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_random_parts(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", range(EXAMPLES, EXAMPLES + EXAMPLES // 3))
def test_random_parts_launched(seed: int) -> None:
    check(seed, options={"simulated_device": True})
