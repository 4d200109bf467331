"""Random programs as source text, against eager: what their tests share."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pyjit
import torch
from Integration.harness import difference, module_of

EXAMPLES = int(os.environ.get("PYJIT_EXAMPLES", "40"))


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
        source = program(number)
        plain = module_of(source).f
        fast: Any = pyjit.compile(module_of(source).f, options=options or {})
        with torch.no_grad():
            for call in calls:
                found = difference(outcome(plain, call), outcome(fast, call))
                assert not found, f"call {call}: {found}\n{source}"
        stats.append(pyjit.stats(fast))
    return stats
