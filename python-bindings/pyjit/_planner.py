# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""When a continuation is recorded, and what its specialization may depend on."""

from __future__ import annotations

from typing import NamedTuple

from pyjit._C import AccessPath, Plan, PlanAction
from pyjit._dynamic import MAX_OUTCOMES, Arguments, DynamicNumbers, Lifted

# How often one monitored run records the same continuation.
REPEATS = 3
# How often a continuation is recorded once more for the branch that it stands behind.
_MAX_JOINS = 16
# So many times the limit of specializations is for a loop that hands out modules.
_MAX_SHARES = 4
# A loop with a graph break in it has a specialization for each of so many places.
_MAX_PLACES = 12


def _most_places(limit: int) -> int:
    return min(max(limit - MAX_OUTCOMES, 0), _MAX_PLACES)


class _Choice(NamedTuple):
    """How the next specialization is made."""

    unseen: tuple[int, ...]
    inputs: set[AccessPath]
    signature: tuple
    recorded_in: int | None
    """The run that has recorded one like it."""
    likely: bool
    """One like it is likely to answer."""


class Planner:
    """Of one continuation: whether the run that comes by shall record it."""

    def __init__(self, numbers: DynamicNumbers) -> None:
        self.numbers = numbers
        # The monitored run that looked here last, and how often it has recorded.
        self._run = self._repeats = 0
        # A call of it has met no specialization since.
        self.missed = False
        # The run that has recorded arguments of these kinds last.
        self._recorded_in: dict[tuple, int] = {}
        # How often it was recorded for a branch, though a specialization was likely to hit; and the run that
        # has recorded it for nothing else.
        self._joins = 0
        self.joined_in = 0
        # The places in a loop for which it was recorded.
        self._places: set[tuple] = set()
        # How often one that was recorded for a place did not answer there.
        self._in_vain = 0

    def room(self, limit: int) -> int:
        """How many specializations there may be: for a loop of several places, ``limit`` is for each of them,
        within bounds."""
        return limit * min(len(self._places) or 1, _MAX_SHARES)

    def _has_room(self, place: tuple, made: int, limit: int) -> bool:
        """Whether there may be one more for this place in a loop. The last ones are for all places."""
        if place not in self._places and len(self._places) >= _most_places(limit):
            return False
        return made < self.room(limit) - MAX_OUTCOMES

    def _choose(
        self, arguments: Arguments, missed: bool, specializations: int
    ) -> _Choice:
        unseen, inputs = self.numbers.choose(arguments)
        signature = self.numbers.signature(arguments, unseen, inputs)
        # A recording that is part of something larger has no specialization of its own.
        recorded_in = self._recorded_in.get(signature)
        answers = specializations or recorded_in == self._run
        likely = recorded_in is not None and not missed and bool(answers)
        return _Choice(unseen, inputs, signature, recorded_in, likely)

    def plan(
        self,
        run: int,
        arguments: Arguments,
        specializations: int,
        limit: int,
        may_observe: bool,
        expects_loop: bool,
        lifted: Lifted | None,
        behind_branch: bool,
    ) -> Plan:
        """``run``: the number of the monitored run; ``specializations``: how many there are, of at most
        ``limit``; ``lifted``: what is lifted of the call that is observed;
        ``behind_branch``: this run has recorded all that came before, back to a branch on data."""
        first = self._run != run
        if first:
            self._run = run
            self._repeats = 0
        # What has a specialization that is likely to hit gets another when it has missed.
        missed = first and self.missed
        self.missed = False
        positions = _most_places(limit)
        kinds = -(-specializations // (len(self._places) or 1))
        self.numbers.learn(arguments, missed, kinds, positions)
        if lifted:
            self.numbers.take_over(lifted, arguments.values)
        choice = self._choose(arguments, missed, specializations)
        place = self.numbers.place(arguments)
        made = specializations + self._repeats
        if place and missed and choice.recorded_in is not None:
            self._in_vain += 1  # somebody else may hold the iterator
        crowded = not choice.likely and not self._has_room(place, made, limit)
        if place and (crowded or self._in_vain >= MAX_OUTCOMES):
            self.numbers.pass_on(place)
            place = ()
            choice = self._choose(arguments, missed, specializations)
        unseen, inputs, signature, recorded_in, likely = choice
        # What is in front of the branch is new, and can only be joined with what goes on from it.
        joins = likely and recorded_in != self._run and behind_branch
        joins &= self._joins < _MAX_JOINS
        # A loop with a graph break in it comes by once in each iteration.
        repeats = max(positions, REPEATS) if place else REPEATS
        if (
            (likely and not joins)
            or not may_observe
            or self._repeats >= repeats
            or made >= self.room(limit)
        ):
            return Plan((PlanAction.RECORDED, (), (), False, False))
        self._recorded_in[signature] = self._run
        if place:
            self._places.add(place)
        self._repeats += 1
        self._joins += joins
        if self._repeats == 1 or not joins:
            self.joined_in = run if joins else 0
        self.numbers.tried |= inputs
        return Plan(
            (
                PlanAction.RECORD,
                unseen,
                tuple(inputs),
                self.numbers.follows_sizes,
                expects_loop,
            )
        )
