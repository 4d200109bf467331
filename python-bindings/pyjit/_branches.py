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
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from pyjit import _C
from pyjit._C import ReasonKind, SegmentKind
from pyjit._continuation import Key, instruction

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

_serials = itertools.count()


class CallSegment:
    """A recording of a segment of a call, and the specialization that was made of it.

    ``numbers``: instructions that leave numbers to Python where it cannot be compiled;
    ``gradient_sites``: instructions whose operators gradients flow through;
    ``fixed_sites``: instructions that fixed something which may differ between calls;
    ``lifted``: numbers and sizes that are its inputs; ``made_of``: the segment that it goes on from.
    """

    def __init__(
        self,
        trace: _C.Trace,
        objects: list,
        nargs: int,
        keywords: tuple[str, ...],
        graph_break: _C.GraphBreak | None,
        grad_mode: bool | None,
        dispatch_state: _C.DispatchState,
        made_of: CallSegment | None = None,
    ) -> None:
        self.trace = trace
        self.objects = objects
        self.nargs = nargs
        self.keywords = keywords
        self.graph_break = graph_break
        self.grad_mode = grad_mode
        self.dispatch_state = dispatch_state
        self.made_of = made_of
        self.specialization: Any = None
        self.numbers: dict[tuple[Any, int], _C.Reason] = {}
        self.gradient_sites: tuple[tuple[Any, int], ...] = ()
        self.fixed_sites: frozenset[tuple[Any, int]] = (
            made_of.fixed_sites if made_of else frozenset()
        )
        self.lifted: set[_C.AccessPath] = made_of.lifted if made_of else set()
        # What the run that it was recorded in went on with.
        self.took: Key | None = None
        self.branch_count = 0  # that are merged in it
        self._costly: bool | None = None
        # The sides that no call has taken where it goes one way, and the branches.
        self.speculates: tuple[Key, ...] = ()
        self.speculations: tuple[str, ...] = ()
        self.serial = next(_serials)
        self.includes = {self.serial}
        # Of the recordings that it consists of, the first and the last.
        self.first: int = made_of.first if made_of else self.serial
        self.last: int = self.serial

    @classmethod
    def of(cls, found: _C.Segment, keywords: tuple[str, ...]) -> CallSegment:
        segment = cls(
            found.trace,
            found.objects,
            found.nargs,
            keywords,
            found.graph_break,
            found.grad_mode,
            found.dispatch_state,
        )
        segment.numbers = dict.fromkeys(
            found.scalar_sites,
            _C.Reason(
                (ReasonKind.DATA_IN_PYTHON, "a tensor's data as a Python number", ())
            ),
        )
        segment.gradient_sites = found.gradient_sites
        segment.fixed_sites = frozenset((code, at) for code, at, *_ in found.fixed)
        return segment

    @property
    def frames(self) -> tuple[_C.Frame, ...]:
        return self.graph_break.frames if self.graph_break else ()

    @property
    def reason(self) -> str:
        """Why it ends where it does."""
        return self.graph_break.reason.text if self.graph_break else ""

    @property
    def site(self) -> tuple[Any, int] | None:
        """The instruction that it ends at."""
        if not self.graph_break:
            return None
        key = self.frames[-1].key
        return key.code, key.offset

    @property
    def _condition(self) -> int:
        """Number of the value on top of the innermost operand stack."""
        return sum(self.frames[-1].key.stack) - 1

    @property
    def branches(self) -> bool:
        """Whether it ends at an instruction that asks for the truth of a value."""
        if not self.graph_break or self.trace.decides:
            return False
        frame = self.frames[-1]
        name, *_ = instruction(frame.key.code, frame.key.offset)
        return len(frame.exits) == 2 and name in (
            "POP_JUMP_IF_TRUE",
            "POP_JUMP_IF_FALSE",
        )

    @property
    def varies(self) -> bool:
        """Whether sizes differ between its calls: what has both sides of a branch has them fixed."""
        return self.trace.lifts_sizes

    @property
    def is_costly(self) -> bool:
        """Whether to ask the branch that it ends at, and those that it speculates on, is work that no
        call should do twice."""
        if self._costly is None:
            self._costly = self.branches and self.trace.is_costly(self._condition)
            if self.speculates and self.made_of:
                self._costly |= self.made_of.is_costly
        return self._costly

    @property
    def recorded(self) -> CallSegment:
        """The segment that it begins with, without anything that is only speculated."""
        segment = self
        while segment.speculates and segment.made_of:
            segment = segment.made_of
        return segment

    def is_same(self, other: CallSegment) -> bool:
        """Whether it is another recording of the same."""
        return (
            self.trace.equals(other.trace)
            and len(self.objects) == len(other.objects)
            and all(a is b for a, b in zip(self.objects, other.objects))
        )

    def answers_as(self, other: CallSegment) -> bool:
        """Whether its specialization answers the calls that one of ``other``, the same recording, would."""
        return (
            self.specialization is not None
            and not self.speculates
            and self.grad_mode == other.grad_mode
            and self.dispatch_state == other.dispatch_state
        )

    def ends_like(self, other: CallSegment) -> bool:
        def places(segment: CallSegment) -> list[Key]:
            return [frame.key for frame in segment.frames]

        return places(self) == places(other)


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


class _Step(NamedTuple):
    role: SegmentKind
    segment: CallSegment
    takes: tuple[int, ...]


class _MergeSegment(NamedTuple):
    """A segment as ``_C.merge`` takes it (``PyjitSegment`` of include/pyjit-c/Compiler.h)."""

    trace: _C.Trace
    role: SegmentKind
    condition: int
    tensor_class: int
    takes: tuple[int, ...]
    objects: tuple[int, ...]
    ends_at_graph_break: bool
    grad_mode: int


def _takes(frame: _C.Frame, key: Key) -> tuple[int, ...] | None:
    """Which values of a frame are the arguments of what goes on from it; -1 is the value that its
    instruction has put on the stack."""
    stack, slots = frame.key.stack, frame.key.slots
    numbers = []
    for index, present in enumerate(key.stack):
        if not present:
            continue
        if index >= len(stack):
            numbers.append(-1)
        elif stack[index]:
            numbers.append(sum(stack[:index]))
        else:
            return None
    for slot in key.slots:
        if slot not in slots:
            return None
        numbers.append(sum(stack) + slots.index(slot))
    return tuple(numbers)


def _latest(segments: list[CallSegment], after: CallSegment) -> CallSegment:
    return segments[-1]


def _next(segments: list[CallSegment], after: CallSegment) -> CallSegment:
    """The one that was recorded next behind ``after``: in the same call, if there is one of it. Callers that
    have the same code, as a decorator's wrappers do, share their continuations."""
    later = [segment for segment in segments if segment.first > after.last]
    return min(later, key=lambda segment: segment.first, default=segments[-1])


def _callers(
    root: Engine,
    frames: tuple[_C.Frame, ...],
    side: CallSegment,
    choose: Callable[[list[CallSegment], CallSegment], CallSegment],
) -> tuple[list[_Step], int] | None:
    """What the frames below go on with when the innermost has returned from ``side``, and how many of them are
    then left."""
    steps: list[_Step] = []
    left = len(frames) - 1
    last = side
    while left and not (steps and last.graph_break):
        left -= 1
        key, *others = frames[left].exits
        engine = None if others else root.continuations.get(key)
        takes = _takes(frames[left], key)
        if not engine or not engine.call_segments or takes is None:
            return None
        last = choose(engine.call_segments, last)
        steps.append(_Step(SegmentKind.REST, last, takes))
    return steps, left


def _merge_segment(step: _Step, table: list, condition: int) -> _MergeSegment:
    """A segment with what its place in the call makes of it."""
    known = {id(entry): index for index, entry in enumerate(table)}
    return _MergeSegment(
        step.segment.trace,
        step.role,
        condition,
        known.get(id(torch.Tensor), -1),
        step.takes,
        tuple(known[id(entry)] for entry in step.segment.objects),
        step.segment.graph_break is not None,
        -1 if step.segment.grad_mode is None else step.segment.grad_mode,
    )


def _merge(
    prefix: CallSegment, sides: tuple[_Step, ...], rests: list[_Step], left: int
) -> CallSegment:
    """One segment of several. ``sides``: both, or the one that it speculates on. Raises BuildError."""
    steps = [_Step(SegmentKind.PREFIX, prefix, ()), *sides, *rests]
    table = list(prefix.objects)
    known = {id(entry) for entry in table}
    for step in steps:
        for entry in step.segment.objects:
            if id(entry) not in known:
                known.add(id(entry))
                table.append(entry)
    end = steps[-1].segment
    trace = _C.merge([_merge_segment(s, table, prefix._condition) for s in steps])
    graph_break = None
    if end.graph_break:
        frames = (*prefix.frames[:left], *end.frames)
        graph_break = _C.GraphBreak((end.graph_break.reason, frames))
    modes = [s.segment.grad_mode for s in steps if s.segment.grad_mode is not None]
    merged = CallSegment(
        trace,
        table,
        prefix.nargs,
        prefix.keywords,
        graph_break,
        modes[-1] if modes else None,
        prefix.dispatch_state,
        made_of=prefix,
    )
    merged.took = end.took
    segments = [step.segment for step in steps]
    merged.last = end.last
    merged.branch_count = (
        len(sides) - 1 + sum(segment.branch_count for segment in segments)
    )
    merged.fixed_sites = frozenset().union(*(s.fixed_sites for s in segments))
    merged.speculates = sum((segment.speculates for segment in segments), ())
    merged.speculations = sum((segment.speculations for segment in segments), ())
    merged.includes = merged.includes.union(*(segment.includes for segment in segments))
    return merged


class Branches:
    """The branches of one function that the user compiled."""

    def __init__(self, root: Engine) -> None:
        self.root = root
        self.merged = 0
        # Why segments whose sides have both been seen end with a graph break, by serial number.
        self.left: dict[int, str] = {}
        # Branches that runs left with a graph break though calls take one way, and how many runs.
        self._left_one_way: Counter[tuple[Any, int]] = Counter()
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
        root = self.root
        recorded = {segment.serial for _, segment in new}
        left = {
            segment.site
            for engine in root.engines()
            for segment in engine.call_segments
            if not segment.includes.isdisjoint(recorded)
            and segment.site not in root.graph_break_points
            and self._leaves_one_way(segment)
        }
        self._left_one_way.update(left)
        return {site for site in left if self._left_one_way[site] >= 2}

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
        takes = [_takes(frame, key) for key in keys]
        if None in takes:
            return None
        sides = [
            [_Step(role, p, taken) for p in reversed(engine.call_segments[-_SIDES:])]
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

    def _try(
        self, segment: CallSegment, sides: tuple[_Step, ...]
    ) -> CallSegment | None:
        """The segment with these sides, where that has not been tried and can be."""
        if sides[0].segment.graph_break:
            return self._try_with(segment, sides, [], len(segment.frames) - 1)
        for choose in (_next, _latest):
            callers = _callers(self.root, segment.frames, sides[0].segment, choose)
            if callers is None:
                return None
            if merged := self._try_with(segment, sides, *callers):
                return merged
        return None

    def _try_with(
        self,
        segment: CallSegment,
        sides: tuple[_Step, ...],
        rests: list[_Step],
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
            merged = _merge(segment, sides, rests, left)
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
