# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether a specialization answers its calls sooner than eager would.

A few of the program's own calls are timed, some answered by the specialization and some by eager. No call is
made twice, so effects do not matter. Medians (the lower of two) decide; the specialization stays unless it is
slower by more than a margin, twice as many calls agreeing. Later the question is asked again: machines, sizes and
neighbours change. The distance grows fourfold each time, and is so long that the calls answered by the slower side
take a small share of the time in between.

Where a backward may follow a call, its time belongs to the comparison, and only the program knows when it comes:
steps, from the beginning of a call to that of the next one, are compared as well. A specialization whose forward is
slower, since it keeps more, stays where its steps are faster; one whose steps are all slower goes.
"""

from __future__ import annotations

import math
import statistics

MARGIN = 0.05
"""By how much slower than eager a specialization may be."""
FIRST_LOOK = 3
"""Calls that a specialization answers before it is compared: the first ones fill caches."""
_SHARE = 0.01
"""What the slower side's calls may cost, as a share of the time between two looks."""
_SAMPLES = 4
"""Of each side; twice as many before eager is preferred."""
_FEW = 2
"""Of each side where the specialization is faster by far."""
_FAR = 1.5
_FREE = 1
"""Calls of a specialization that may end in a recording, before their time is what it takes."""
_FREE_IN_EAGER = 8
"""Likewise of eager's calls, where modules are recorded."""
_RECORDING_SHARE = 0.03
"""As _SHARE, of a specialization that goes on recording."""
_FIRST_DISTANCE = 256
_LONGEST_DISTANCE = 1 << 30


class Comparison:
    """What is known of one specialization."""

    def __init__(self) -> None:
        self.looks = 0
        self.prefers_eager = False
        self.compiled_seconds: float | None = None
        self.eager_seconds: float | None = None
        # Of steps, the specialization's and eager's; None: no backward may follow.
        self.step_seconds: tuple[float, float] | None = None
        # Eager is preferred because of it.
        self.goes_on_recording = False
        self.begin()

    def begin(self) -> None:
        """A look begins: what was timed before is another time's."""
        self._compiled: list[float] = []
        self._eager: list[float] = []
        # From the beginning of a call, by who answered it, to that of the next one.
        self._steps: dict[bool, list[float]] = {False: [], True: []}
        self._eager_last: bool | None = None
        # Calls in which something was recorded.
        self._recording = self._recording_in_eager = 0

    @property
    def eager_next(self) -> bool:
        """Who answers the next call that is timed: drift favours neither side. Where the specialization goes on
        recording, eager's time is found out first."""
        if self._recording:
            return len(self._eager) < max(len(self._compiled), _FEW)
        timed = len(self._compiled) + len(self._eager)
        return timed % 4 in (1, 2)

    def add_step(self, seconds: float) -> None:
        """The time from the latest call that was added to the one that is added next."""
        if self._eager_last is not None:
            self._steps[self._eager_last].append(seconds)

    def _step_medians(self) -> tuple[float, float] | None:
        if not all(self._steps.values()):
            return None
        compiled, eager = map(statistics.median_low, self._steps.values())
        return compiled, eager

    def _is_slower(self, compiled: float, eager: float) -> bool:
        """Given the calls' medians: steps have the last word where they are known."""
        slower = compiled > (1 + MARGIN) * eager
        medians = self._step_medians()
        if medians is None:
            return slower
        if slower:
            return medians[0] > medians[1]
        # What else a step does varies: each has to be slower than each of eager's.
        steps, eager_steps = self._steps.values()
        return (
            min(len(steps), len(eager_steps)) >= _SAMPLES - 1
            and min(steps) > max(eager_steps)
            and medians[0] > (1 + MARGIN) * medians[1]
        )

    def add_recording(self, seconds: float) -> bool:
        """As ``add``, of a call in which something was recorded. The first of each side are not counted; where the
        specialization goes on so, recording is a part of its price."""
        self._eager_last = None
        if self.eager_next:
            self._recording_in_eager += 1
            return self._recording_in_eager > _FREE_IN_EAGER and self.add(seconds)
        self._recording += 1
        return self._recording > _FREE and self.add(seconds)

    def add(self, seconds: float) -> bool:
        """The time of the call that ``eager_next`` was asked for. True: that was the last one,
        and ``prefers_eager`` is decided."""
        self._eager_last = self.eager_next
        (self._eager if self.eager_next else self._compiled).append(seconds)
        number = len(self._compiled)
        if number != len(self._eager) or number < _FEW:
            return False
        compiled = statistics.median_low(self._compiled)
        eager = statistics.median_low(self._eager)
        slower = self._is_slower(compiled, eager)
        steps = self._step_medians()
        far = max(self._compiled) * _FAR < min(self._eager)
        far &= steps is None or steps[0] <= steps[1]
        self.goes_on_recording = self._recording > _FREE and min(self._compiled) > (
            _FAR * max(self._eager)
        )
        far |= self.goes_on_recording
        if not far and number < (2 * _SAMPLES if slower else _SAMPLES):
            return False
        self.compiled_seconds, self.eager_seconds = compiled, eager
        self.step_seconds = steps
        self.prefers_eager = slower
        self.looks += 1
        self.begin()
        return True

    def distance(self) -> int:
        """How many calls to answer until the next look."""
        if self.compiled_seconds is None or self.eager_seconds is None:
            return _FIRST_DISTANCE
        slow, fast = self.eager_seconds, self.compiled_seconds
        if self.prefers_eager:
            slow, fast = fast, slow
        samples, share = 2 * _SAMPLES, _SHARE
        if self.goes_on_recording:
            samples, share = _FREE + _FEW, _RECORDING_SHARE
        loss = samples * (slow / fast - 1) if fast > 0 else 0.0
        calls = _FIRST_DISTANCE * 4.0 ** min(self.looks - 1, 20)
        return min(math.ceil(max(calls, loss / share)), _LONGEST_DISTANCE)

    def describe(self) -> str:
        """Both figures, for readers."""
        if self.compiled_seconds is None or self.eager_seconds is None:
            return "not compared with eager yet"
        recording = ", with what it goes on recording" if self.goes_on_recording else ""
        calls = (
            f"{1e6 * self.compiled_seconds:.1f} us compiled{recording}, "
            f"{1e6 * self.eager_seconds:.1f} us in eager"
        )
        slower = self.compiled_seconds > (1 + MARGIN) * self.eager_seconds
        if self.step_seconds is None or slower == self.prefers_eager:
            return calls
        compiled, eager = (1e6 * seconds for seconds in self.step_seconds)
        return f"{calls}; with all up to the next call {compiled:.1f} and {eager:.1f}"
