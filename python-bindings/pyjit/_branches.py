# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Branches on tensor data: one specialization answers for what came before a branch and what follows.

A branch breaks the graph of a call; what came before and each side are recorded as segments of their own, which
``refgraph-merge-branches`` makes one program of: nothing is run again for it. As long as calls
have taken one side only, the program speculates on that side, and its launch says when a call takes the
other; then that one is recorded, too, and the program has both. Where the segments cannot be one
program, each gets a specialization, and the graph break goes on answering.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from pyjit import _C
from pyjit._C import SegmentKind
from pyjit._call_segment import CallSegment
from pyjit._continuation import instruction
from pyjit._merging import (
    Step,
    arguments_of,
    latest_recorded,
    merge_segments,
    next_recorded,
    rests_of_callers,
)

if TYPE_CHECKING:
    from pyjit._engine import Engine

# How many sets of segments are tried in one function, and how many recordings of one side.
_MAX_TRIES = 256
_SIDES = 3
# How many branches one specialization speculates to go one way: a loop whose end nobody has recorded would
# be unrolled for ever.
_MAX_SPECULATIONS = 16
# How many specializations with one beginning, whose sizes differ between calls, speculate on different ways.
_MAX_WAYS = 4
# After so many runs in a row that went the same ways, recordings go through branches that are left graph breaks.
_MANY_RUNS_ALIKE = 4


def repeated_ways(segments: list[CallSegment]) -> int:
    """How many of the segments speculate that the same branches go other ways than another one does."""
    ways: defaultdict[tuple, Counter[tuple]] = defaultdict(Counter)
    for segment in segments:
        if segment.speculates:
            ways[segment.speculations][segment.speculates] += 1
    return sum(
        found.total() - max(*found.values(), -(-found.total() // _MAX_WAYS))
        for found in ways.values()
    )


def _message(error: Exception) -> str:
    """What the compiler said, without locations of its own."""
    text = str(error).splitlines()[0].split("; see current operation")[0]
    return re.sub(r"^loc\(.*?\)+: (stays a graph break: )?", "", text)


class Branches:
    """The branches of one function that the user compiled."""

    def __init__(self, root: Engine) -> None:
        self.root = root
        self.merged = 0
        # Why segments whose sides have both been seen end with a graph break, by serial number.
        self.left: dict[int, str] = {}
        # Branches that runs left with a graph break though calls take one way, and how many runs.
        self._left_one_way: Counter[tuple[Any, int]] = Counter()
        # What the last recorded run went past, and how many in a row have.
        self._last_path: tuple[Any, ...] = ()
        self._runs_alike = 0
        self._tried: set[tuple[int, ...]] = set()
        # Parts that specializations made just now answer for, by serial number; and those that one has held
        # which was dropped just now.
        self._answered: set[int] = set()
        self._released: set[int] = set()
        self._busy = False
        # What calls go on from in so many ways that they are left to graph breaks.
        self._ways_spent: list[CallSegment] = []

    def merge(self, new: list[tuple[Engine, CallSegment]]) -> None:
        """Makes specializations of the ``new`` segments, alone or with those that are there."""
        if self._busy:
            # Another thread's call is at it.
            for engine, segment in new:
                engine.make_specialization(segment)
            return
        self._busy = True
        try:
            self._answered.clear()
            self._released.clear()
            self._recognize(new)
            self._take_back()
            changed = self._merge_segments()
            self._drop_twins(new)
            if changed or new:
                self._compile(min((s.first for _, s in new), default=None))
            # What no call can reach from the beginning answers by itself.
            for engine, segment in new:
                if (
                    segment in engine.call_segments
                    and segment.serial not in self._answered
                ):
                    self._install(engine, segment)
        finally:
            self._busy = False

    def _recognize(self, new: list[tuple[Engine, CallSegment]]) -> None:
        """What has been tried with a recording need not be tried with another one of the same."""
        for engine, segment in new:
            for other in engine.call_segments:
                if (
                    other is not segment
                    and not other.speculates
                    and other.is_same(segment)
                ):
                    segment.serial = other.serial
                    segment.includes = {segment.serial}

    def _drop_twins(self, new: list[tuple[Engine, CallSegment]]) -> None:
        """What was recorded again for nothing but the branch in front of it needs no specialization if one
        of the same is there."""
        for engine, segment in new:
            joined = engine.planner.joined_in == self.root.captures
            if joined and self._has_twin(engine, segment):
                engine.call_segments = [
                    s for s in engine.call_segments if s is not segment
                ]

    @staticmethod
    def _has_twin(engine: Engine, segment: CallSegment) -> bool:
        """Whether a specialization of the same recording answers its calls."""
        return any(
            other.serial == segment.serial and other.answers_as(segment)
            for other in engine.call_segments
        )

    def _take_back(self) -> None:
        """Drops what expected a branch to go one way where a call has been recorded since that
        went the other."""
        for engine in self.root.engines():
            disproved = [
                segment
                for segment in engine.call_segments
                if any(
                    found.call_segments
                    for key in segment.speculates
                    if (found := self.root.continuations.get(key))
                )
            ]
            self._count_ways(disproved)
            for segment in disproved:
                if self._has_ways(engine, segment):
                    continue
                if segment.specialization:
                    engine.compiled.drop_specialization(segment.specialization)
                self._released |= segment.includes
                base = segment.recorded
                place = engine.call_segments.index(segment)
                if any(
                    p is not segment and p.is_same(base) for p in engine.call_segments
                ):
                    del engine.call_segments[place]
                else:
                    engine.call_segments[place] = base

    def left_one_way(
        self, new: list[tuple[Engine, CallSegment]]
    ) -> set[tuple[Any, int]]:
        """Branches that runs have left so twice, this one, which recorded ``new``, among them: calls take one way there,
        and what follows could not be joined with what is in front (it was recorded behind other values than that
        leaves, say)."""
        recorded = {segment.serial for _, segment in new}
        left = {
            segment.site
            for segment in self._segments_left_one_way()
            if not segment.includes.isdisjoint(recorded)
        }
        self._left_one_way.update(left)
        return {site for site in left if self._left_one_way[site] >= 2}

    def settled_one_way(self) -> set[tuple[Any, int]]:
        """Branches that specializations leave so, where no recording comes any more that would count them."""
        return {segment.site for segment in self._segments_left_one_way()}

    def _segments_left_one_way(self) -> list[CallSegment]:
        root = self.root
        return [
            segment
            for engine in root.engines()
            for segment in engine.call_segments
            if segment.site not in root.graph_break_points
            and self._leaves_one_way(segment)
        ]

    def left_again(self, path: tuple[Any, ...]) -> set[tuple[Any, int]]:
        """Branches that stayed graph breaks though one recorded run after the other goes the same ways past all of
        them: what is behind one is recorded anew each time, then."""
        root = self.root
        self._runs_alike = self._runs_alike + 1 if path == self._last_path else 1
        self._last_path = path
        if self._runs_alike < _MANY_RUNS_ALIKE:
            return set()
        return {
            segment.site
            for engine in root.engines()
            for segment in engine.call_segments
            if segment.branches
            and segment.serial in self.left
            and segment.site not in root.graph_break_points
        }

    def _leaves_one_way(self, segment: CallSegment) -> bool:
        if not segment.branches or segment.serial not in self.left:
            return False
        found = [self.root.continuations.get(key) for key in segment.frames[-1].exits]
        engines = [engine for engine in found if engine and engine.call_segments]
        # One in a loop on data is for the loop to be compiled.
        return len(engines) == 1 and not engines[0].loops.met

    def _count_ways(self, disproved: list[CallSegment]) -> None:
        """Where sizes differ between calls, each way has a specialization, as long as those that go on from
        one beginning are few: a prompt and a step of a generation have ways of their own."""
        varying = [segment for segment in disproved if segment.varies]
        while varying:
            begin = varying[0].recorded
            same = [s for s in varying if s.recorded.is_same(begin)]
            varying = [s for s in varying if s not in same]
            if len(same) >= _MAX_WAYS:
                self._ways_spent.append(begin)

    def _has_ways(self, engine: Engine, segment: CallSegment) -> bool:
        """Whether each way that calls take from where the segment begins has a specialization."""
        begin = segment.recorded
        return (
            any(p.varies for p in engine.call_segments)
            and not any(p.is_costly for p in engine.call_segments)
            and not any(spent.is_same(begin) for spent in self._ways_spent)
        )

    def _merge_segments(self) -> bool:
        found = False
        again = True
        while again:
            # What can have both sides shall not speculate on one.
            again = self._grow_all(one_way=False) or self._grow_all(one_way=True)
            found |= again
        return found

    def _grow_all(self, one_way: bool) -> bool:
        found = False
        for engine in self.root.engines():
            for number, segment in enumerate(engine.call_segments):
                ways = self._has_ways(engine, segment)
                merged = self._grow(segment, one_way, ways)
                if merged:
                    engine.call_segments[number] = merged
                    found = True
        return found

    def _grow(
        self, segment: CallSegment, one_way: bool, ways: bool
    ) -> CallSegment | None:
        """The segment with both sides of the branch that it ends at, or with the one that calls have
        taken; where there are ``ways``, although others took the other."""
        if not segment.branches:
            return None
        frame = segment.frames[-1]
        keys = frame.exits
        if instruction(frame.key.code, frame.key.offset)[0] == "POP_JUMP_IF_TRUE":
            keys = keys[::-1]
        engines = [self.root.continuations.get(key) for key in keys]
        takes = [arguments_of(frame, key) for key in keys]
        if None in takes:
            return None
        sides = [
            [Step(role, p, taken) for p in reversed(engine.call_segments[-_SIDES:])]
            if engine
            else []
            for role, engine, taken in zip(
                (SegmentKind.TRUE, SegmentKind.FALSE), engines, takes
            )
        ]
        if all(sides) and not (one_way and ways):
            if one_way:
                return None
            for one, other in itertools.product(*sides):
                if (
                    one.segment.ends_like(other.segment)
                    and segment not in (one.segment, other.segment)
                    # Both sides have their sizes fixed: each way will do.
                    and not (
                        ways
                        and any(p.varies for p in (segment, one.segment, other.segment))
                    )
                    and (merged := self._try(segment, (one, other)))
                ):
                    return merged
        elif (
            one_way
            and segment.took in keys
            and len(segment.speculates) < _MAX_SPECULATIONS
        ):
            way = keys.index(segment.took)
            for step in sides[way]:
                if step.segment is not segment and (
                    merged := self._try(segment, (step,))
                ):
                    merged.speculates = (*merged.speculates, keys[1 - way])
                    merged.speculations = (*merged.speculations, segment.reason)
                    return merged
        return None

    def _try(self, segment: CallSegment, sides: tuple[Step, ...]) -> CallSegment | None:
        """The segment with these sides, where that has not been tried and can be."""
        if sides[0].segment.graph_break:
            return self._try_with(segment, sides, [], len(segment.frames) - 1)
        for choose in (next_recorded, latest_recorded):
            callers = rests_of_callers(
                self.root, segment.frames, sides[0].segment, choose
            )
            if callers is None:
                return None
            if merged := self._try_with(segment, sides, *callers):
                return merged
        return None

    def _try_with(
        self,
        segment: CallSegment,
        sides: tuple[Step, ...],
        rests: list[Step],
        left: int,
    ) -> CallSegment | None:
        """Likewise, with what the callers go on with."""
        tried = (segment.serial, *(step.segment.serial for step in (*sides, *rests)))
        if tried in self._tried:
            return None
        if len(self._tried) >= _MAX_TRIES:
            self.left.setdefault(
                segment.serial,
                f"{_MAX_TRIES} sets of recordings were tried: {segment.reason}",
            )
            return None
        self._tried.add(tried)
        states = {step.segment.dispatch_state for step in (*sides, *rests)}
        if states != {segment.dispatch_state}:
            self.left.setdefault(
                segment.serial,
                f"Torch's state differs between segments: {segment.reason}",
            )
            return None
        try:
            merged = merge_segments(segment, sides, rests, left)
        except _C.BuildError as error:
            # What the newest recordings say counts.
            self.left.setdefault(segment.serial, f"{_message(error)}: {segment.reason}")
            return None
        self.left.pop(segment.serial, None)
        return merged

    def _compile(self, since: int | None) -> None:
        """Makes specializations of the segments that a call can reach, outermost first: what one holds needs
        none of its own. What was recorded before the present run, which began with ``since``, was part of one,
        and is to answer by itself where that was taken back; else a call that needs it records it anew."""
        done: set[int] = set()
        work = [self.root]
        sites: set[tuple[Any, int]] = set()
        while work:
            engine = work.pop()
            if id(engine) in done:
                continue
            done.add(id(engine))
            for segment in list(engine.call_segments):
                if segment.specialization is None:
                    older = (
                        since is not None and max(segment.first, segment.last) < since
                    )
                    if older and not segment.includes <= self._released:
                        continue
                    segment = self._install(engine, segment)
                if segment is None:
                    continue
                if segment.site:
                    sites.add(segment.site)
                for frame in segment.frames:
                    for key in frame.exits:
                        if found := self.root.continuations.get(key):
                            work.append(found)
            # The whole call is one specialization: nothing goes on from it.
            engine.call_segments = [
                p
                for p in engine.call_segments
                if p.graph_break or p.speculates or engine is not self.root
            ]
        for site in [site for site in self.root.graph_break_sites if site not in sites]:
            del self.root.graph_break_sites[site]

    def _install(self, engine: Engine, segment: CallSegment) -> CallSegment | None:
        """The segment with its specialization, or the one that it was made of where it does not compile."""
        place = engine.call_segments.index(segment)
        while segment.specialization is None and segment.made_of:
            base = segment.made_of
            while base.specialization is None and base.made_of:
                base = base.made_of
            try:
                engine.install(segment)
            except _C.BuildError as error:
                segment = segment.made_of
                # What the newest recordings say counts.
                self.left.setdefault(
                    segment.serial, f"{_message(error)}: {segment.reason}"
                )
                continue
            if base.specialization:
                self.merged += segment.branch_count - base.branch_count
                # It answers where a speculation does not hold.
                if not segment.speculates:
                    engine.compiled.drop_specialization(base.specialization)
            else:
                self.merged += segment.branch_count
        if segment.specialization is None and not engine.make_specialization(segment):
            del engine.call_segments[place]
            return None
        engine.call_segments[place] = segment
        self._answered |= segment.includes
        return segment
