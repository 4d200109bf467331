# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Who answers the calls that a specialization's guards accept: the specialization, or eager after all."""

from __future__ import annotations

from typing import Any

from pyjit._C import ReasonKind
from pyjit._comparison import FIRST_LOOK, Comparison
from pyjit._reasons import Reason

_ON_DEVICE = 512
"""Calls on a device before a specialization is compared: the way to launch is chosen first."""
_WITH_BREAKS = 1
"""Likewise of one that ends at a graph break: eager's side, where modules run compiled, may need no more recordings."""
_LATER = 16
"""Calls until a specialization is looked at whose turn it is not."""
_RARE = 2
"""Where fewer calls than that were timed in the meantime, the specialization that is compared makes way for it."""


class Turns:
    """Leaves specializations to eager that are slower than it, or that raise where it does not.

    The compiled function calls the engine when a specialization is due, times the calls, and carries out
    what is decided here (``CompiledFunction.cpp``).
    """

    def __init__(self, compiled: Any, compares: bool) -> None:
        self.compiled = compiled
        self.compares = compares
        self.clear()

    def clear(self) -> None:
        self.comparisons: dict[Any, Comparison] = {}
        self.given_up: dict[Any, str] = {}
        # Calls that were timed, those among them that eager answered; how many they were when a specialization was
        # last told to wait.
        self.timed = self.timed_in_eager = 0
        self._waiting: dict[Any, int] = {}

    def begin(self, specialization: Any, has_breaks: bool = False) -> None:
        """A new specialization answers calls from now on."""
        if not self.compares:
            return
        if has_breaks and self.compiled.modules is not None:
            specialization.look_after(_WITH_BREAKS)
        else:
            specialization.look_after(
                _ON_DEVICE if specialization.on_device else FIRST_LOOK
            )

    def look(self, specialization: Any) -> None:
        """It is time to compare ``specialization`` with eager."""
        if specialization in self.given_up:
            return
        if self.compiled.compared is not None and not self._makes_way(specialization):
            specialization.look_after(_LATER)
            return
        comparison = self.comparisons.setdefault(specialization, Comparison())
        comparison.begin()
        specialization.answer_again()
        self.compiled.compare(specialization, comparison.eager_next)

    def _makes_way(self, specialization: Any) -> bool:
        """Whether the specialization that is compared is asked so seldom that another one, which has answered _LATER
        calls since it was last told to wait, would wait for its sake: the step of a generation for its prompt."""
        since = self._waiting.get(specialization)
        self._waiting[specialization] = self.timed
        if since is None or self.timed - since >= _RARE:
            return False
        self.compiled.compared.look_after(_LATER)
        return True

    def recorded(self, specialization: Any, seconds: float, step: float | None) -> bool:
        """A call took so long, in which something was recorded: it counts where eager's side has modules that run
        compiled, for those are recorded less often than what has graph breaks around them."""
        modules = self.compiled.modules
        if modules is None or not modules.compiled:
            return False
        return self.compared(specialization, seconds, step, recorded=True)

    def compared(
        self,
        specialization: Any,
        seconds: float | None,
        step: float | None,
        recorded: bool = False,
    ) -> bool:
        """A call took so long; None: no further call could be timed. ``step``: how long it was from the call in front
        of it, if that was timed and a backward may have followed it. Whether it is decided now who answers."""
        comparison = self.comparisons[specialization]
        if step is not None:
            comparison.add_step(step)
        self.timed += seconds is not None
        self.timed_in_eager += seconds is not None and comparison.eager_next
        add = comparison.add_recording if recorded else comparison.add
        if seconds is not None and not add(seconds):
            self.compiled.compare(specialization, comparison.eager_next)
            return False
        distance = comparison.distance()
        if seconds is not None and comparison.prefers_eager:
            # Where other specializations answer, the guards have to say whose call it is.
            alone = all(
                other is specialization or other.left_to_eager
                for other in self.compiled.specializations
            )
            if self.compiled.leave_to_eager(specialization, distance if alone else 0):
                distance = 1
        self.compiled.compare()
        specialization.look_after(distance)
        return seconds is not None

    def give_up(self, specialization: Any, why: str) -> None:
        """Eager answers the specialization's calls for good."""
        self.given_up[specialization] = why
        if self.compiled.compared is specialization:
            self.compiled.compare()
        specialization.give_up()

    def describe(self, specialization: Any) -> str:
        """A line on who answers the specialization's calls and what was measured; empty: nothing was."""
        if specialization in self.given_up:
            return f"given up: {self.given_up[specialization]}"
        comparison = self.comparisons.get(specialization)
        if comparison is None or not comparison.looks:
            return ""
        figures = comparison.describe()
        return f"{figures}: eager answers" if specialization.left_to_eager else figures

    def reasons(self) -> list[Reason]:
        """Why eager answers calls that specializations could."""
        left = [r for r in self.compiled.specializations if r.left_to_eager]
        return [
            Reason(ReasonKind.GRAPH_RAISED, self.given_up[specialization])
            if specialization in self.given_up
            else Reason(
                ReasonKind.EAGER_FASTER,
                "eager is faster than the specialization: "
                + self.comparisons[specialization].describe(),
            )
            for specialization in left
        ]
