# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random programs as source text, against eager: what their tests share."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyjit
import torch
from Integration.harness import difference, module_of, without_versions

EXAMPLES = int(os.environ.get("PYJIT_EXAMPLES", "40"))

# One of a grammar's productions, drawn with the generator.
Draw = Callable[[random.Random], str]


@dataclass(frozen=True)
class Grammar:
    """Blocks of statements with branches on data in them."""

    statement: Draw
    condition: Draw
    # A whole statement instead of a branch, and how often.
    conditional: Draw | None = None
    conditional_chance: float = 0.2
    # The statement that ends a branch early, and how often.
    early: Draw = lambda pick: "return"
    early_chance: float = 0.1
    else_chance: float = 0.7

    def block(self, pick: random.Random, branches: int = 3) -> Iterator[str]:
        """Lines of at most so many branches, up to two deep."""
        return self._block(pick, 0, [branches])

    def _block(self, pick: random.Random, depth: int, left: list[int]) -> Iterator[str]:
        def indented() -> Iterator[str]:
            return (f"    {line}" for line in self._block(pick, depth + 1, left))

        for _ in range(pick.randrange(1, 4)):
            if depth >= 2 or not left[0] or pick.random() >= 0.45:
                yield self.statement(pick)
                continue
            left[0] -= 1
            if self.conditional and pick.random() < self.conditional_chance:
                yield self.conditional(pick)
                continue
            yield f"if {self.condition(pick)}:"
            yield from indented()
            if pick.random() < self.early_chance:
                yield f"    {self.early(pick)}"
            if pick.random() < self.else_chance:
                yield "else:"
                yield from indented()


def compare_program(
    source: str,
    outcome: Callable[[Any, Any], Any],
    calls: Iterable[Any],
    options: dict[str, Any] | None = None,
    versions: bool = True,
) -> Any:
    """Compares the function `f` of a module's source with eager; returns it, compiled.

    outcome: calls it with arguments that one of `calls` decides, and says what a user sees.
    versions: version counters are compared, but of a program with a loop on data: of what that writes the
    count is a bound (docs/TraceGrammar.md).
    """
    versions = versions and "while " not in source
    plain = module_of(source).f
    fast: Any = pyjit.compile(module_of(source).f, options=options or {})
    with torch.no_grad():
        for number, call in enumerate(calls):
            want, have = (outcome(f, call) for f in (plain, fast))
            if not versions:
                want, have = without_versions(want), without_versions(have)
            found = difference(want, have)
            assert not found, f"call {number}, {call}: {found}\n{source}"
    return fast


def compare_programs(
    program: Callable[[int], str],
    outcome: Callable[[Any, int], Any],
    calls: tuple[int, ...],
    *,
    examples: int = EXAMPLES,
    also: tuple[int, ...] = (),
    options: dict[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Compares so many programs with eager; returns `pyjit.stats` of each.

    program: the source of a module with a function `f`, by number: the same ones each time unless
    PYJIT_EXAMPLES asks for others; `also` are always among them. outcome: calls `f` with
    arguments that a number decides, one of `calls` after the other, and says what a user sees.
    """
    others = "PYJIT_EXAMPLES" in os.environ
    numbers = random.sample(range(10**9), examples) if others else range(examples)
    stats: list[dict[str, Any]] = []
    for number in (*also, *numbers):
        fast = compare_program(program(number), outcome, calls, options)
        stats.append(pyjit.stats(fast))
    return stats
