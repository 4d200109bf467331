# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Why specializations did not answer: which guard failed, what it was and is, and what became dynamic for it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyjit._guards import (
    Failure,
    Guards,
    closest_failure,
    continuation_names,
    parameter_names,
)
from pyjit._settings import log_topics

if TYPE_CHECKING:
    from pyjit._engine import Engine

_MOST = 64
"""Guards that are remembered of one function."""


@dataclass
class Miss:
    """Calls that failed one guard."""

    guard: str
    was: str
    now: str
    """Both in the latest of them."""
    count: int = 0
    dynamic: list[str] = field(default_factory=list)
    """What was made an input or a symbol since, because it differed."""

    def __str__(self) -> str:
        change = f"{self.was} -> {self.now}" if self.now else self.was
        times = f" ({self.count} times)" if self.count > 1 else ""
        dynamic = f"; dynamic now: {', '.join(self.dynamic)}" if self.dynamic else ""
        return f"{self.guard}: {change}{times}{dynamic}"


class Misses:
    """The misses of one function that were looked into: those that were recorded anew."""

    def __init__(self) -> None:
        self.by_guard: dict[str, Miss] = {}

    def add(
        self,
        engine: Engine,
        args: tuple,
        kwargs: dict[str, Any],
        became_dynamic: Iterable[Any] = (),
    ) -> None:
        """A call with these arguments was answered by none of the engine's specializations."""
        specializations = engine.compiled.specializations
        if not specializations:
            return
        names = argument_names(engine, kwargs)
        failure = closest_failure(
            specializations,
            lambda found: Guards(found, engine.compiled.target, names),
            args,
            kwargs,
        ) or Failure("what the graph speculates of its data", "one way", "another", 0)
        if len(self.by_guard) >= _MOST and failure.guard not in self.by_guard:
            return
        miss = self.by_guard.setdefault(
            failure.guard, Miss(failure.guard, failure.was, failure.now)
        )
        miss.count += 1
        miss.was, miss.now = failure.was, failure.now
        for path in became_dynamic:
            text = _path_text(path, names)
            if text not in miss.dynamic:
                miss.dynamic.append(text)
        if "recompiles" in log_topics():
            print(
                f"[pyjit:recompiles] {engine.name}: no specialization answers "
                f"({len(specializations)} so far): {miss}",
                file=sys.stderr,
            )

    def most_frequent(self) -> str:
        """The guard that most calls failed, or ''."""
        misses = sorted(self.by_guard.values(), key=lambda miss: -miss.count)
        return str(misses[0]) if misses else ""


def argument_names(engine: Engine, keywords: Iterable[str] = ()) -> Any:
    """What the user calls an engine's arguments."""
    if engine.key is not None:
        return continuation_names(engine.key)
    return parameter_names(engine.compiled.target, keywords)


def _path_text(path: Any, names: Any) -> str:
    """What became dynamic, in words."""
    kind = "sizes of" if path.is_size else "numbers in"
    if path.argument is None:
        return f"{kind} what the function reads"
    return f"{kind} {names(path.argument)}"
