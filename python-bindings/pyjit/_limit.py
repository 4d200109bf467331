# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How many specializations one function has, and what the user is told when calls meet none of many.

Two bounds: so many are free (``_backoff``: each further one waits until eager has answered calls for as long as one
takes to make), and so many are kept (the option ``recompile_limit``).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pyjit._backoff import FEW_MADE, FREE_MADE, FREE_SECONDS
from pyjit._branches import repeated_ways
from pyjit._C import ReasonKind
from pyjit._reasons import Reason
from pyjit._settings import Settings

if TYPE_CHECKING:
    from pyjit._engine import Engine


class SpecializationLimit:
    """The bounds of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waits = False
        self._reached = False

    def free_recordings(self) -> float:
        """How many recordings may make specializations before any has to be paid for."""
        engine = self._engine
        if engine.settings.recompile_limit != Settings.recompile_limit:
            return math.inf  # the user has said how many
        return FEW_MADE if engine.is_modules and engine.modules.few else FREE_MADE

    def free_seconds(self) -> float:
        """How long these may take: where answers may not hang from the machine's load, for ever."""
        settings = self._engine.settings
        return FREE_SECONDS if settings.compare_with_eager else math.inf

    def count_kinds(self) -> int:
        """How many specializations there are; those for other ways of the same branches count once."""
        engine = self._engine
        made = engine.compiled.specializations
        segments = [s for s in engine.call_segments if s.specialization in made]
        return len(made) - repeated_ways(segments)

    def is_reached(self) -> bool:
        """Whether as many are kept as may be."""
        engine = self._engine
        room = engine.planner.room(engine.settings.recompile_limit)
        return self.count_kinds() >= room

    def note_wait(self, args: tuple, kwargs: dict[str, Any]) -> None:
        """So many specializations are made that the next one has to be paid for. Told once."""
        if self._waits:
            return
        self._waits = True
        self._note_many(
            f"{len(self._engine.compiled.specializations)} specializations are made, and calls meet none of them; "
            "a further one waits until such calls have taken in eager what one takes to make",
            args,
            kwargs,
        )

    def note_reached(self, args: tuple, kwargs: dict[str, Any]) -> bool:
        """So many specializations are kept, and the next call meets none of them. Whether that is new."""
        if self._reached:
            return False
        self._reached = True
        engine = self._engine
        self._note_many(
            f"the limit of {engine.settings.recompile_limit} specializations is reached (option recompile_limit); "
            "calls that meet none of them run in eager",
            args,
            kwargs,
            lasting=True,
        )
        return True

    def _note_many(
        self, text: str, args: tuple, kwargs: dict[str, Any], lasting: bool = False
    ) -> None:
        """A call meets none of many specializations: what differs most often is said, too, and modules that eager's
        answers call have few for free, for what varies there varies in them."""
        engine = self._engine
        if engine.modules:
            engine.modules.few = True
        engine.misses.add(engine, args, kwargs)
        if differs := engine.misses.most_frequent():
            text += f"; what differs most often: {differs}"
        engine.note(
            Reason(ReasonKind.SPECIALIZATION_LIMIT, text, engine.own_place()), lasting
        )
