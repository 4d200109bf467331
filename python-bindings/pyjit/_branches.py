"""Branches on tensor data: once both sides have been recorded, one record answers for both.

A branch cuts a call; what came before and each side are records of their own. Their recordings
are parts of one program, which ``refgraph-merge-branches`` makes of them: nothing is run again
for it. Where the parts cannot be one program, the cut goes on answering.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from pyjit import _C
from pyjit._continuation import Key, instruction

if TYPE_CHECKING:
    from pyjit._engine import Engine

# How many sets of parts are tried in one function, and how many recordings of one side.
_MAX_TRIES = 256
_SIDES = 3

_serials = itertools.count()


class Part:
    """A recording of a part of a call, and the record that was made of it."""

    def __init__(
        self,
        trace: str,
        objects: list,
        nargs: int,
        keywords: tuple[str, ...],
        cut: tuple | None,
        grad_mode: int,
        footing: tuple[int, int, int],
        record: Any = None,
        replaces: Part | None = None,
    ) -> None:
        self.trace = trace
        self.objects = objects
        self.nargs = nargs
        self.keywords = keywords
        self.cut = cut
        self.grad_mode = grad_mode
        # The dispatcher's keys where it begins; whether it makes its results in inference mode.
        self.footing = footing
        self.record = record
        self.replaces = replaces
        self.branch_count = 0  # that are merged in it
        self.serial = next(_serials)

    @property
    def frames(self) -> tuple:
        return self.cut[1] if self.cut else ()

    @property
    def site(self) -> tuple[Any, int] | None:
        """The instruction that it ends at."""
        return self.frames[-1][1:3] if self.cut else None

    @property
    def branches(self) -> bool:
        """Whether it ends at an instruction that asks for the truth of a value."""
        if not self.cut or "refgraph.decide" in self.trace:
            return False
        _, code, offset, *_, exits = self.frames[-1]
        return len(exits) == 2 and instruction(code, offset)[0] in (
            "POP_JUMP_IF_TRUE",
            "POP_JUMP_IF_FALSE",
        )

    def ends_like(self, other: Part) -> bool:
        def places(part: Part) -> list:
            return [frame[:5] for frame in part.frames]

        return bool(self.cut) == bool(other.cut) and places(self) == places(other)


def _message(error: Exception) -> str:
    """What the compiler said, without locations of its own."""
    text = str(error).splitlines()[0].split("; see current operation")[0]
    return re.sub(r"^loc\(.*?\)+: (stays a cut: )?", "", text)


class _Step(NamedTuple):
    role: str
    part: Part
    takes: tuple[int, ...]


def _takes(frame: tuple, key: Key) -> tuple[int, ...] | None:
    """Which values of a frame are the arguments of what goes on from it; -1 is the value that its
    instruction has put on the stack."""
    _, _, _, stack, slots, _ = frame
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


def _callers(root: Engine, frames: tuple) -> tuple[list[_Step], int] | None:
    """What the frames below go on with when the innermost has returned, and how many of them are
    then left."""
    steps: list[_Step] = []
    left = len(frames) - 1
    while left and not (steps and steps[-1].part.cut):
        left -= 1
        exits = frames[left][-1]
        engine = root.continuations.get(Key(*exits[0])) if len(exits) == 1 else None
        takes = _takes(frames[left], Key(*exits[0]))
        if not engine or not engine.parts or takes is None:
            return None
        steps.append(_Step("rest", engine.parts[-1], takes))
    return steps, left


def _attributes(step: _Step, table: list, condition: int, last: bool) -> str:
    """What ``refgraph-merge-branches`` has to know of a part."""
    entries = [f'refgraph.part = "{step.role}"']
    if step.role == "prefix":
        entries.append(f"refgraph.condition = {condition} : i64")
        index = next((i for i, o in enumerate(table) if o is torch.Tensor), -1)
        entries.append(f"refgraph.tensor_class = {index} : i64")
    else:
        known = {id(entry): index for index, entry in enumerate(table)}
        numbers = [known[id(entry)] for entry in step.part.objects]
        for name, values in (("takes", step.takes), ("objects", numbers)):
            text = ": " + ", ".join(map(str, values)) if values else ""
            entries.append(f"refgraph.{name} = array<i64{text}>")
        if last and step.part.cut:
            entries.append("refgraph.cut")
    if step.part.grad_mode >= 0:
        mode = "true" if step.part.grad_mode else "false"
        entries.append(f"refgraph.leaves_grad_mode = {mode}")
    return "{" + ", ".join(entries) + "}"


def _merge(
    prefix: Part, sides: tuple[_Step, _Step], rests: list[_Step], left: int
) -> Part:
    """One part of several. Raises BuildError."""
    steps = [_Step("prefix", prefix, ()), *sides, *rests]
    table = list(prefix.objects)
    known = {id(entry) for entry in table}
    for step in steps:
        for entry in step.part.objects:
            if id(entry) not in known:
                known.add(id(entry))
                table.append(entry)
    end = steps[-1].part
    condition = sum(prefix.frames[-1][3]) - 1
    trace = _C.merge(
        [
            (
                step.part.trace,
                _attributes(step, table, condition, step.part.cut is not None),
            )
            for step in steps
        ]
    )
    cut = (end.cut[0], (*prefix.frames[:left], *end.frames)) if end.cut else None
    modes = [step.part.grad_mode for step in steps if step.part.grad_mode >= 0]
    merged = Part(
        trace,
        table,
        prefix.nargs,
        prefix.keywords,
        cut,
        modes[-1] if modes else -1,
        prefix.footing,
        replaces=prefix,
    )
    merged.branch_count = 1 + sum(step.part.branch_count for step in steps)
    return merged


class Branches:
    """The branches of one function that the user compiled."""

    def __init__(self, root: Engine) -> None:
        self.root = root
        self.merged = 0
        # Why parts whose sides have both been seen end with a cut, by serial number.
        self.left: dict[int, str] = {}
        self._tried: set[tuple[int, ...]] = set()
        self._busy = False

    def merge(self) -> None:
        """Looks at the parts that are there now."""
        if self._busy:
            return
        self._busy = True
        try:
            if self._merge_parts():
                self._compile()
        finally:
            self._busy = False

    def _merge_parts(self) -> bool:
        found = False
        again = True
        while again:
            again = False
            for engine in self.root.engines():
                for number, part in enumerate(engine.parts):
                    merged = self._grow(part)
                    if merged:
                        engine.parts[number] = merged
                        found = again = True
        return found

    def _grow(self, part: Part) -> Part | None:
        """The part with both sides of the branch that it ends at."""
        if not part.branches:
            return None
        frames = part.frames
        *_, code, offset, _, _, exits = frames[-1]
        if instruction(code, offset)[0] == "POP_JUMP_IF_TRUE":
            exits = exits[::-1]
        keys = [Key(*key) for key in exits]
        engines = [self.root.continuations.get(key) for key in keys]
        takes = [_takes(frames[-1], key) for key in keys]
        if None in takes or not all(engine and engine.parts for engine in engines):
            return None
        candidates = [reversed(engine.parts[-_SIDES:]) for engine in engines]
        for one, other in itertools.product(*map(list, candidates)):
            if not one.ends_like(other) or one is part or other is part:
                continue
            rests: list[_Step] = []
            left = len(frames) - 1
            if not one.cut:
                callers = _callers(self.root, frames)
                if callers is None:
                    continue
                rests, left = callers
            tried = (
                part.serial,
                one.serial,
                other.serial,
                *(s.part.serial for s in rests),
            )
            if tried in self._tried:
                continue
            if len(self._tried) >= _MAX_TRIES:
                self.left.setdefault(
                    part.serial,
                    f"{_MAX_TRIES} sets of recordings were tried: {part.cut[0]}",
                )
                return None
            self._tried.add(tried)
            joined = (one, other, *(step.part for step in rests))
            if any(p.footing != part.footing for p in joined):
                self.left.setdefault(
                    part.serial, f"Torch's state differs between parts: {part.cut[0]}"
                )
                continue
            sides = (_Step("true", one, takes[0]), _Step("false", other, takes[1]))
            try:
                merged = _merge(part, sides, rests, left)
            except _C.BuildError as error:
                # What the newest recordings say counts.
                self.left.setdefault(part.serial, f"{_message(error)}: {part.cut[0]}")
                continue
            self.left.pop(part.serial, None)
            return merged
        return None

    def _compile(self) -> None:
        """Makes records of what was merged, outermost first: what it holds needs none."""
        done: set[int] = set()
        work = [self.root]
        sites: set[tuple[Any, int]] = set()
        while work:
            engine = work.pop()
            if id(engine) in done:
                continue
            done.add(id(engine))
            for number, part in enumerate(engine.parts):
                if part.record is None:
                    part = engine.parts[number] = self._install(engine, part)
                if part.cut:
                    sites.add(part.site)
                for frame in part.frames:
                    for key in frame[-1]:
                        if found := self.root.continuations.get(Key(*key)):
                            work.append(found)
            # The whole call is one record: nothing goes on from it.
            engine.parts = [p for p in engine.parts if p.cut or engine is not self.root]
        for site in [site for site in self.root.cut_sites if site not in sites]:
            del self.root.cut_sites[site]

    def _install(self, engine: Engine, part: Part) -> Part:
        """The merged part with its record, or the one before it where it does not compile."""
        while part.record is None:
            base = part.replaces
            while base.record is None:
                base = base.replaces
            try:
                engine.install(part)
            except _C.BuildError as error:
                part = part.replaces
                # What the newest recordings say counts.
                self.left.setdefault(part.serial, f"{_message(error)}: {part.cut[0]}")
                continue
            self.merged += part.branch_count - base.branch_count
            engine.compiled.drop_record(base.record)
            part.replaces = None
        return part
