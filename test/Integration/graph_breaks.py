# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the tests of graph breaks share: stories that must have gone on in compiled code."""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Callable
from typing import Any

from Integration.harness import ANY, Compile, Steps, as_test


def graph_break_scenario(
    story: Callable[[Compile], Steps] | None = None,
    *,
    hits: int = 1,
    eager: str | tuple[str, ...] = (),
    grad: bool = False,
) -> Any:
    """Makes a pytest test of a story in which calls have graph breaks.

    hits: so many times at least, compiled code must have gone on after a graph break. eager: the story is
    about something that cannot have a graph break: nothing hits, for these reasons.
    """
    if story is None:
        return functools.partial(
            graph_break_scenario, hits=hits, eager=eager, grad=grad
        )

    def check(made: list[Any]) -> None:
        import pyjit

        stats = [pyjit.stats(compiled) for compiled in made]
        went_on = sum(s["continuation_hits"] for s in stats)
        assert went_on >= hits, [
            (
                s["graph_break_sites"],
                s["reasons"],
                s["eager_calls"],
                s["specializations"],
            )
            for s in stats
        ]

    return as_test(
        story, captured="late", graph_breaks=ANY, eager=eager, grad=grad, check=check
    )


def printed(f: Callable[..., Any], *args: Any) -> tuple[Any, str]:
    """A call's result and what it printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        result = f(*args)
    return result, out.getvalue()
