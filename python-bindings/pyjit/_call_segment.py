# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A recorded segment of a call: what was recorded, where it ends, and what answers for it."""

from __future__ import annotations

import itertools
from typing import Any

from pyjit import _C
from pyjit._C import ReasonKind
from pyjit._continuation import Key, instruction

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
    def condition(self) -> int:
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
            self._costly = self.branches and self.trace.is_costly(self.condition)
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
