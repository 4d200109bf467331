# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""When a continuation is recorded, and what its specialization may depend on."""

from __future__ import annotations

from pyjit._C import Plan, PlanAction
from pyjit._dynamic import Arguments, DynamicNumbers

# How often one monitored run records the same continuation.
REPEATS = 3
# How often a continuation is recorded once more for the branch that it stands behind.
_MAX_JOINS = 16


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

    def plan(
        self,
        run: int,
        arguments: Arguments,
        specializations: int,
        limit: int,
        may_observe: bool,
        expects_loop: bool,
        lifted: tuple[set, tuple] | None,
        behind_branch: bool,
    ) -> Plan:
        """``run``: the number of the monitored run; ``specializations``: how many there are, of at most
        ``limit``; ``lifted``: what is lifted of the call that is observed, and its arguments;
        ``behind_branch``: this run has recorded all that came before, back to a branch on data."""
        first = self._run != run
        if first:
            self._run = run
            self._repeats = 0
        # What has a specialization that is likely to hit gets another when it has missed.
        missed = first and self.missed
        self.missed = False
        self.numbers.learn(arguments, missed, specializations)
        if lifted:
            paths, given = lifted
            self.numbers.take_over(paths, given, arguments.values)
        unseen, inputs = self.numbers.choose(arguments)
        signature = self.numbers.signature(arguments, unseen, inputs)
        # A recording that is part of something larger has no specialization of its own.
        recorded_in = self._recorded_in.get(signature)
        answers = specializations or recorded_in == self._run
        likely = recorded_in is not None and not missed and answers
        # What is in front of the branch is new, and can only be joined with what goes on from it.
        joins = likely and recorded_in != self._run and behind_branch
        joins &= self._joins < _MAX_JOINS
        if (
            (likely and not joins)
            or not may_observe
            or self._repeats >= REPEATS
            or specializations + self._repeats >= limit
        ):
            return Plan((PlanAction.RECORDED, (), (), False, False))
        self._recorded_in[signature] = self._run
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
