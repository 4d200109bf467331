# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Python's own functions, methods and operators, of numbers that differ between calls: each call's result, and what it
leaves in containers and in the random state, is eager's. What is called is generated (python_calls.py)."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections.abc import Iterator

import pyjit
import pytest
from Integration.python_calls import (
    SOURCES,
    expressions,
    heads,
    kinds_for,
    story,
)

# So many heads, of some 2,000; with PYJIT_EXAMPLES=10000 all of them.
COUNT = int(os.environ.get("PYJIT_EXAMPLES", "200"))
SEED = int(os.environ.get("PYJIT_SEED", "0"))
PARTS = 20


class Endless(BaseException):
    """No exception that a program catches."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises where the interpreter next can: draws from a distribution of infinite parameters never end."""

    def stop(*_: object) -> None:
        raise Endless(f"no end within {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("part", range(PARTS))
def test_python_calls(part: int) -> None:
    chosen = heads()
    random.Random(SEED).shuffle(chosen)
    wrong, hits, asked = [], 0, 0
    for n, head in enumerate(chosen[part:COUNT:PARTS], part):
        for use, expression in enumerate(expressions(head, 1 + COUNT // 2000, SEED)):
            source = list(SOURCES)[(n + use) % len(SOURCES)]
            kinds = kinds_for(expression)
            numbers = kinds[(n + use) // len(SOURCES) % len(kinds)]
            try:
                with limited(5):
                    eager, _ = story(lambda f: f, source, expression, numbers)
            except Endless:
                continue
            with limited(60):
                seen, f = story(pyjit.compile, source, expression, numbers)
            asked += 1
            hits += pyjit.stats(f)["hits"]
            differ = [(a, b) for a, b in zip(eager, seen, strict=True) if a != b]
            wrong += [
                f"{source}, {numbers}: {expression}\n  eager {a}\n  pyjit {b}"
                for a, b in differ[:1]
            ]
    assert not wrong, "\n".join(wrong)
    assert hits > 2 * asked
