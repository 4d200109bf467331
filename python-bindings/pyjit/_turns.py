"""Who answers the calls that a record's guards accept: the record, or eager after all."""

from __future__ import annotations

from typing import Any

from pyjit._comparison import FIRST_LOOK, Comparison

_ON_DEVICE = 512
"""Calls on a device before a record is compared: the way to launch is chosen first."""
_LATER = 64
"""Calls until a record is looked at whose turn it is not."""


class Turns:
    """Leaves records to eager that are slower than it, or that raise where it does not.

    The compiled function calls the engine when a record is due, times the calls, and carries out
    what is decided here (``CompiledFunction.cpp``).
    """

    def __init__(self, compiled: Any, compares: bool) -> None:
        self.compiled = compiled
        self.compares = compares
        self.clear()

    def clear(self) -> None:
        self.comparisons: dict[Any, Comparison] = {}
        self.given_up: dict[Any, str] = {}

    def begin(self, record: Any) -> None:
        """A new record answers calls from now on."""
        if self.compares:
            record.look_after(_ON_DEVICE if record.on_device else FIRST_LOOK)

    def look(self, record: Any) -> None:
        """It is time to compare ``record`` with eager."""
        if record in self.given_up:
            return
        if self.compiled.compared is not None:
            record.look_after(_LATER)
            return
        comparison = self.comparisons.setdefault(record, Comparison())
        comparison.begin()
        record.answer_again()
        self.compiled.compare(record, comparison.eager_next)

    def compared(self, record: Any, seconds: float | None) -> None:
        """A call took so long; None: no further call could be timed."""
        comparison = self.comparisons[record]
        if seconds is not None and not comparison.add(seconds):
            self.compiled.compare(record, comparison.eager_next)
            return
        distance = comparison.distance()
        if seconds is not None and comparison.prefers_eager:
            # Where other records answer, the guards have to say whose call it is.
            alone = all(
                other is record or other.left_to_eager
                for other in self.compiled.records
            )
            if self.compiled.leave_to_eager(record, distance if alone else 0):
                distance = 1
        self.compiled.compare()
        record.look_after(distance)

    def give_up(self, record: Any, why: str) -> None:
        """Eager answers the record's calls for good."""
        self.given_up[record] = why
        if self.compiled.compared is record:
            self.compiled.compare()
        record.give_up()

    def describe(self, record: Any) -> str:
        """A line on who answers the record's calls and what was measured; empty: nothing was."""
        if record in self.given_up:
            return f"given up: {self.given_up[record]}"
        comparison = self.comparisons.get(record)
        if comparison is None or not comparison.looks:
            return ""
        figures = comparison.describe()
        return f"{figures}: eager answers" if record.left_to_eager else figures

    def reasons(self) -> list[str]:
        """Why eager answers calls that records could."""
        left = [r for r in self.compiled.records if r.left_to_eager]
        return [
            self.given_up[record]
            if record in self.given_up
            else "eager is faster than the record: "
            + self.comparisons[record].describe()
            for record in left
        ]
