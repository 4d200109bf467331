# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One trace of several segments: a segment that ends at a branch, the sides, and what the callers go on with.

Which segments that may be is for ``_branches`` to say. Here they become what ``_C.merge`` takes, and its trace a
segment like those that were recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch

from pyjit import _C
from pyjit._C import SegmentKind
from pyjit._call_segment import CallSegment
from pyjit._continuation import Key

if TYPE_CHECKING:
    from pyjit._engine import Engine


class Step(NamedTuple):
    """A segment that is to follow the first one: as what, and which values of the frame that goes on there are its
    arguments (``arguments_of``)."""

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


def arguments_of(frame: _C.Frame, key: Key) -> tuple[int, ...] | None:
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


def latest_recorded(segments: list[CallSegment], after: CallSegment) -> CallSegment:
    return segments[-1]


def next_recorded(segments: list[CallSegment], after: CallSegment) -> CallSegment:
    """The one that was recorded next behind ``after``: in the same call, if there is one of it. Callers that
    have the same code, as a decorator's wrappers do, share their continuations."""
    later = [segment for segment in segments if segment.first > after.last]
    return min(later, key=lambda segment: segment.first, default=segments[-1])


def rests_of_callers(
    root: Engine,
    frames: tuple[_C.Frame, ...],
    side: CallSegment,
    choose: Callable[[list[CallSegment], CallSegment], CallSegment],
) -> tuple[list[Step], int] | None:
    """What the frames below go on with when the innermost has returned from ``side``, and how many of them are
    then left."""
    steps: list[Step] = []
    left = len(frames) - 1
    last = side
    while left and not (steps and last.graph_break):
        left -= 1
        key, *others = frames[left].exits
        engine = None if others else root.continuations.get(key)
        takes = arguments_of(frames[left], key)
        if not engine or not engine.call_segments or takes is None:
            return None
        last = choose(engine.call_segments, last)
        steps.append(Step(SegmentKind.REST, last, takes))
    return steps, left


def _merge_segment(step: Step, table: list, condition: int) -> _MergeSegment:
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


def merge_segments(
    prefix: CallSegment, sides: tuple[Step, ...], rests: list[Step], left: int
) -> CallSegment:
    """One segment of several. ``sides``: both, or the one that it speculates on. Raises BuildError."""
    steps = [Step(SegmentKind.PREFIX, prefix, ()), *sides, *rests]
    table = list(prefix.objects)
    known = {id(entry) for entry in table}
    for step in steps:
        for entry in step.segment.objects:
            if id(entry) not in known:
                known.add(id(entry))
                table.append(entry)
    end = steps[-1].segment
    trace = _C.merge([_merge_segment(s, table, prefix.condition) for s in steps])
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
