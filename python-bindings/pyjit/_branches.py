"""Branches on tensor data: one record answers for what came before a branch and what follows.

A branch cuts a call; what came before and each side are recorded as parts of their own, which
``refgraph-merge-branches`` makes one program of: nothing is run again for it. As long as calls
have taken one side only, the program expects that side, and its launch says when a call takes the
other; then that one is recorded, too, and the program has both. Where the parts cannot be one
program, each gets a record, and the cut goes on answering.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from pyjit import _C
from pyjit._C import PartKind
from pyjit._continuation import Key, instruction

if TYPE_CHECKING:
    from pyjit._engine import Engine

# How many sets of parts are tried in one function, and how many recordings of one side.
_MAX_TRIES = 256
_SIDES = 3
# How many branches one record expects to go one way: a loop whose end nobody has recorded would
# be unrolled for ever.
_MAX_EXPECTATIONS = 16
# How many records of one function, whose sizes differ between calls, expect different ways.
_MAX_WAYS = 4

_serials = itertools.count()


class Part:
    """A recording of a part of a call, and the record that was made of it.

    ``numbers``: instructions that leave numbers to Python where it cannot be compiled;
    ``lifted``: numbers and sizes that are its inputs; ``made_of``: the part that it goes on from.
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
        made_of: Part | None = None,
    ) -> None:
        self.trace = trace
        self.objects = objects
        self.nargs = nargs
        self.keywords = keywords
        self.graph_break = graph_break
        self.grad_mode = grad_mode
        self.dispatch_state = dispatch_state
        self.made_of = made_of
        self.record: Any = None
        self.numbers: dict[tuple[Any, int], str] = {}
        self.lifted: set[_C.AccessPath] = made_of.lifted if made_of else set()
        # What the run that it was recorded in went on with.
        self.took: Key | None = None
        self.branch_count = 0  # that are merged in it
        self._costly: bool | None = None
        # The sides that no call has taken where it goes one way, and the branches.
        self.expects: tuple[Key, ...] = ()
        self.expectations: tuple[str, ...] = ()
        self.serial = next(_serials)
        self.includes = {self.serial}

    @classmethod
    def of(cls, segment: _C.Segment, keywords: tuple[str, ...]) -> Part:
        part = cls(
            segment.trace,
            segment.objects,
            segment.nargs,
            keywords,
            segment.graph_break,
            segment.grad_mode,
            segment.dispatch_state,
        )
        part.numbers = dict.fromkeys(
            segment.scalar_sites, "a tensor's data as a Python number"
        )
        return part

    @property
    def frames(self) -> tuple[_C.Frame, ...]:
        return self.graph_break.frames if self.graph_break else ()

    @property
    def reason(self) -> str:
        """Why it ends where it does."""
        return self.graph_break.reason if self.graph_break else ""

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
        """Whether to ask the branch that it ends at, and those that it expects, is work that no
        call should do twice."""
        if self._costly is None:
            self._costly = self.branches and self.trace.is_costly(self._condition)
            if self.expects and self.made_of:
                self._costly |= self.made_of.is_costly
        return self._costly

    @property
    def recorded(self) -> Part:
        """The part that it begins with, without anything that is only expected."""
        part = self
        while part.expects and part.made_of:
            part = part.made_of
        return part

    def is_same(self, other: Part) -> bool:
        """Whether it is another recording of the same."""
        return (
            self.trace.equals(other.trace)
            and len(self.objects) == len(other.objects)
            and all(a is b for a, b in zip(self.objects, other.objects))
        )

    def ends_like(self, other: Part) -> bool:
        def places(part: Part) -> list[Key]:
            return [frame.key for frame in part.frames]

        return places(self) == places(other)


def _message(error: Exception) -> str:
    """What the compiler said, without locations of its own."""
    text = str(error).splitlines()[0].split("; see current operation")[0]
    return re.sub(r"^loc\(.*?\)+: (stays a cut: )?", "", text)


class _Step(NamedTuple):
    role: PartKind
    part: Part
    takes: tuple[int, ...]


class _MergePart(NamedTuple):
    """A part as ``_C.merge`` takes it (``PyjitPart`` of include/pyjit-c/Compiler.h)."""

    trace: _C.Trace
    role: PartKind
    condition: int
    tensor_class: int
    takes: tuple[int, ...]
    objects: tuple[int, ...]
    ends_at_cut: bool
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


def _callers(
    root: Engine, frames: tuple[_C.Frame, ...]
) -> tuple[list[_Step], int] | None:
    """What the frames below go on with when the innermost has returned, and how many of them are
    then left."""
    steps: list[_Step] = []
    left = len(frames) - 1
    while left and not (steps and steps[-1].part.graph_break):
        left -= 1
        key, *others = frames[left].exits
        engine = None if others else root.continuations.get(key)
        takes = _takes(frames[left], key)
        if not engine or not engine.parts or takes is None:
            return None
        steps.append(_Step(PartKind.REST, engine.parts[-1], takes))
    return steps, left


def _merge_part(step: _Step, table: list, condition: int) -> _MergePart:
    """A part with what its place in the call makes of it."""
    known = {id(entry): index for index, entry in enumerate(table)}
    return _MergePart(
        step.part.trace,
        step.role,
        condition,
        known.get(id(torch.Tensor), -1),
        step.takes,
        tuple(known[id(entry)] for entry in step.part.objects),
        step.part.graph_break is not None,
        -1 if step.part.grad_mode is None else step.part.grad_mode,
    )


def _merge(
    prefix: Part, sides: tuple[_Step, ...], rests: list[_Step], left: int
) -> Part:
    """One part of several. ``sides``: both, or the one that it expects. Raises BuildError."""
    steps = [_Step(PartKind.PREFIX, prefix, ()), *sides, *rests]
    table = list(prefix.objects)
    known = {id(entry) for entry in table}
    for step in steps:
        for entry in step.part.objects:
            if id(entry) not in known:
                known.add(id(entry))
                table.append(entry)
    end = steps[-1].part
    trace = _C.merge([_merge_part(s, table, prefix._condition) for s in steps])
    graph_break = None
    if end.graph_break:
        frames = (*prefix.frames[:left], *end.frames)
        graph_break = _C.GraphBreak((end.reason, frames))
    modes = [s.part.grad_mode for s in steps if s.part.grad_mode is not None]
    merged = Part(
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
    parts = [step.part for step in steps]
    merged.branch_count = len(sides) - 1 + sum(part.branch_count for part in parts)
    merged.expects = sum((part.expects for part in parts), ())
    merged.expectations = sum((part.expectations for part in parts), ())
    merged.includes = merged.includes.union(*(part.includes for part in parts))
    return merged


class Branches:
    """The branches of one function that the user compiled."""

    def __init__(self, root: Engine) -> None:
        self.root = root
        self.merged = 0
        # Why parts whose sides have both been seen end with a cut, by serial number.
        self.left: dict[int, str] = {}
        self._tried: set[tuple[int, ...]] = set()
        # Parts that records made just now answer for, by serial number.
        self._answered: set[int] = set()
        self._busy = False
        # Functions whose calls take so many ways that they are left to cuts.
        self._ways_spent: set[Engine] = set()

    def merge(self, new: list[tuple[Engine, Part]]) -> None:
        """Makes records of the ``new`` parts, alone or with those that are there."""
        if self._busy:
            # Another thread's call is at it.
            for engine, part in new:
                engine.make_record(part)
            return
        self._busy = True
        try:
            self._answered.clear()
            self._recognize(new)
            self._take_back()
            changed = self._merge_parts()
            if changed or new:
                self._compile()
            # What no call can reach from the beginning answers by itself.
            for engine, part in new:
                if part in engine.parts and part.serial not in self._answered:
                    self._install(engine, part)
        finally:
            self._busy = False

    def _recognize(self, new: list[tuple[Engine, Part]]) -> None:
        """What has been tried with a recording need not be tried with another one of the same."""
        for engine, part in new:
            for other in engine.parts:
                if other is not part and not other.expects and other.is_same(part):
                    part.serial = other.serial
                    part.includes = {part.serial}

    def _take_back(self) -> None:
        """Drops what expected a branch to go one way where a call has been recorded since that
        went the other."""
        for engine in self.root.engines():
            disproved = [
                part
                for part in engine.parts
                if any(
                    found.parts
                    for key in part.expects
                    if (found := self.root.continuations.get(key))
                )
            ]
            # Where sizes differ between calls, each way has a record, as long as they are few.
            if sum(part.varies for part in disproved) >= _MAX_WAYS:
                self._ways_spent.add(engine)
            if self._has_ways(engine):
                continue
            for part in disproved:
                if part.record:
                    engine.compiled.drop_record(part.record)
                base = part.recorded
                place = engine.parts.index(part)
                if any(p is not part and p.is_same(base) for p in engine.parts):
                    del engine.parts[place]
                else:
                    engine.parts[place] = base

    def _has_ways(self, engine: Engine) -> bool:
        """Whether each way that its calls take has a record."""
        return (
            engine not in self._ways_spent
            and any(p.varies for p in engine.parts)
            and not any(p.is_costly for p in engine.parts)
        )

    def _merge_parts(self) -> bool:
        found = False
        again = True
        while again:
            # What can have both sides shall not expect one.
            again = self._grow_all(one_way=False) or self._grow_all(one_way=True)
            found |= again
        return found

    def _grow_all(self, one_way: bool) -> bool:
        found = False
        for engine in self.root.engines():
            for number, part in enumerate(engine.parts):
                although = one_way and self._has_ways(engine)
                merged = self._grow(part, one_way, although)
                if merged:
                    engine.parts[number] = merged
                    found = True
        return found

    def _grow(self, part: Part, one_way: bool, although: bool) -> Part | None:
        """The part with both sides of the branch that it ends at, or with the one that calls have
        taken (``although`` others took the other)."""
        if not part.branches:
            return None
        frame = part.frames[-1]
        keys = frame.exits
        if instruction(frame.key.code, frame.key.offset)[0] == "POP_JUMP_IF_TRUE":
            keys = keys[::-1]
        engines = [self.root.continuations.get(key) for key in keys]
        takes = [_takes(frame, key) for key in keys]
        if None in takes:
            return None
        sides = [
            [_Step(role, p, taken) for p in reversed(engine.parts[-_SIDES:])]
            if engine
            else []
            for role, engine, taken in zip(
                (PartKind.TRUE, PartKind.FALSE), engines, takes
            )
        ]
        if all(sides) and not although:
            if one_way:
                return None
            for one, other in itertools.product(*sides):
                if (
                    one.part.ends_like(other.part)
                    and part not in (one.part, other.part)
                    and (merged := self._try(part, (one, other)))
                ):
                    return merged
        elif one_way and part.took in keys and len(part.expects) < _MAX_EXPECTATIONS:
            way = keys.index(part.took)
            for step in sides[way]:
                if step.part is not part and (merged := self._try(part, (step,))):
                    merged.expects = (*merged.expects, keys[1 - way])
                    merged.expectations = (*merged.expectations, part.reason)
                    return merged
        return None

    def _try(self, part: Part, sides: tuple[_Step, ...]) -> Part | None:
        """The part with these sides, where that has not been tried and can be."""
        rests: list[_Step] = []
        left = len(part.frames) - 1
        if not sides[0].part.graph_break:
            callers = _callers(self.root, part.frames)
            if callers is None:
                return None
            rests, left = callers
        tried = (part.serial, *(step.part.serial for step in (*sides, *rests)))
        if tried in self._tried:
            return None
        if len(self._tried) >= _MAX_TRIES:
            self.left.setdefault(
                part.serial,
                f"{_MAX_TRIES} sets of recordings were tried: {part.reason}",
            )
            return None
        self._tried.add(tried)
        states = {step.part.dispatch_state for step in (*sides, *rests)}
        if states != {part.dispatch_state}:
            self.left.setdefault(
                part.serial, f"Torch's state differs between parts: {part.reason}"
            )
            return None
        try:
            merged = _merge(part, sides, rests, left)
        except _C.BuildError as error:
            # What the newest recordings say counts.
            self.left.setdefault(part.serial, f"{_message(error)}: {part.reason}")
            return None
        self.left.pop(part.serial, None)
        return merged

    def _compile(self) -> None:
        """Makes records of the parts that a call can reach, outermost first: what one holds needs
        none of its own."""
        done: set[int] = set()
        work = [self.root]
        sites: set[tuple[Any, int]] = set()
        while work:
            engine = work.pop()
            if id(engine) in done:
                continue
            done.add(id(engine))
            for part in list(engine.parts):
                if part.record is None:
                    part = self._install(engine, part)
                if part is None:
                    continue
                if part.site:
                    sites.add(part.site)
                for frame in part.frames:
                    for key in frame.exits:
                        if found := self.root.continuations.get(key):
                            work.append(found)
            # The whole call is one record: nothing goes on from it.
            engine.parts = [
                p
                for p in engine.parts
                if p.graph_break or p.expects or engine is not self.root
            ]
        for site in [site for site in self.root.cut_sites if site not in sites]:
            del self.root.cut_sites[site]

    def _install(self, engine: Engine, part: Part) -> Part | None:
        """The part with its record, or the one that it was made of where it does not compile."""
        place = engine.parts.index(part)
        while part.record is None and part.made_of:
            base = part.made_of
            while base.record is None and base.made_of:
                base = base.made_of
            try:
                engine.install(part)
            except _C.BuildError as error:
                part = part.made_of
                # What the newest recordings say counts.
                self.left.setdefault(part.serial, f"{_message(error)}: {part.reason}")
                continue
            if base.record:
                self.merged += part.branch_count - base.branch_count
                # It answers where an expectation does not hold.
                if not part.expects:
                    engine.compiled.drop_record(base.record)
            else:
                self.merged += part.branch_count
        if part.record is None and not engine.make_record(part):
            del engine.parts[place]
            return None
        engine.parts[place] = part
        self._answered |= part.includes
        return part
