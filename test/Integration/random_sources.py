"""Random programs as source text, against eager: what their tests share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pyjit
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from Integration.harness import difference, module_of

EXAMPLES = int(os.environ.get("PYJIT_EXAMPLES", "40"))


def compare_programs(
    program: Callable[[int], str],
    outcome: Callable[[Any, int], Any],
    calls: tuple[int, ...],
    *,
    examples: int = EXAMPLES,
    options: dict[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Compares so many programs with eager; returns `pyjit.stats` of each.

    program: the source of a module with a function `f`, by seed. outcome: calls `f` with
    arguments that a number decides, one of `calls` after the other, and says what a user sees.
    """
    stats: list[dict[str, Any]] = []

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize="PYJIT_EXAMPLES" not in os.environ,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 10**9))
    def compare(seed: int) -> None:
        source = program(seed)
        plain = module_of(source).f
        fast: Any = pyjit.compile(module_of(source).f, options=options or {})
        with torch.no_grad():
            for call in calls:
                found = difference(outcome(plain, call), outcome(fast, call))
                assert not found, f"call {call}: {found}\n{source}"
        stats.append(pyjit.stats(fast))

    compare()
    return stats
