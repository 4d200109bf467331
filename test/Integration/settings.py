# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What stories of settings that change between calls, and back, share: a change with what undoes it, and how a story of
changes is told by eager and by pyjit (`module_settings.py`, `optimizer_settings.py`)."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from Integration.harness import Raised, attempt, difference
from pyjit._api import engine_of, is_compiled

Undo = Callable[[], Any]

EXAMPLES = int(os.environ.get("PYJIT_EXAMPLES", "200"))
# Of each module or optimizer: one in CI, as many as examples are asked for elsewhere.
STORIES = 1 if EXAMPLES <= 200 else EXAMPLES


@dataclasses.dataclass
class Change[World]:
    """One that is made to a world: it says how it is undone."""

    name: str
    do: Callable[[World], Undo]
    # To and fro, calls meet what earlier ones have met. A hook has another number each time that it is registered; a
    # parametrization makes a class.
    returns: bool = True


def with_attribute(name: str, value: Any) -> Callable[[Any], Undo]:
    """The world itself has another attribute."""

    def do(world: Any) -> Undo:
        before = getattr(world, name)
        setattr(world, name, value)
        return lambda: setattr(world, name, before)

    return do


@contextlib.contextmanager
def undone(undos: list[Undo]) -> Iterator[None]:
    """Undoes what a story left changed, which may be a class that others share."""
    try:
        yield
    finally:
        while undos:
            with contextlib.suppress(Exception):
                undos.pop()()


class Telling[World]:
    """What each call of one world shows, and how many recordings there were behind it."""

    def __init__(self, world: World, compiled: Any) -> None:
        self.world = world
        self.compiled = compiled
        self.seen: list[tuple[str, Any]] = []
        self.recordings: list[int] = []

    def show(self, number: int) -> Any:
        """Calls, and says all that a user could see then. `number`: of the call."""
        raise NotImplementedError

    def step(self, text: str) -> None:
        self.seen.append((text, self.show(len(self.seen))))
        if is_compiled(self.compiled):
            self.recordings.append(engine_of(self.compiled, "stats").captures)

    def change(self, change: Change[World], turns: int) -> None:
        undos: list[Undo] = []
        with undone(undos):
            for turn in range(turns):
                made = attempt(change.do, self.world)
                if isinstance(made, Raised):
                    self.seen.append((f"{change.name} cannot be made", made.type))
                    return
                undos.append(made)  # type: ignore[arg-type]
                for _ in range(2 if turn == 0 else 1):
                    self.step(f"{change.name}, turn {turn}")
                attempt(undos.pop())
                self.step(f"{change.name}, undone in turn {turn}")


def show_the_same(
    want: Telling[Any],
    have: Telling[Any],
    told: str,
    may_differ: Callable[[Any], bool] = lambda shown: False,
) -> None:
    """`may_differ`: of what eager shows."""
    assert [text for text, _ in want.seen] == [text for text, _ in have.seen]
    for (text, eagers), (_, ours) in zip(want.seen, have.seen, strict=True):
        if not may_differ(eagers):
            found = difference(eagers, ours, text)
            assert not found, f"{told}: {found}"


def draws(name: str, kind: int) -> random.Random:
    """The draws of a module's or optimizer's stories of one kind: the same ones in each run."""
    return random.Random(zlib.crc32(name.encode()) + kind)
