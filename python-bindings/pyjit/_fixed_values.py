# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Values that one recording after the other fixes: where that happens, the graph breaks.

A number that differs between calls is an input of a specialization, but where it is looked at (as a key, in
a text, by native code) the specialization holds for one value of it. So it does for what a comparison came
to, for the length of a list, for a text that the program keeps, and for what data said where it was asked
(a truth, or how many elements a mask lets through). Such a specialization answers one call
in many; a program that makes one in each call never settles. The recorder names the instructions that fix
something. Of one that has fixed another value in so many recordings, Python is to carry it out.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import Any

from pyjit._backoff import FREE_MADE
from pyjit._C import Fixes, Reason, ReasonKind

Site = tuple[Any, int]
"""An instruction: code and offset."""

_FEW = 4
"""So many numbers, texts, or lengths of a list that grows, make one that differs in each call;"""
_MOST = 8
"""so many outcomes of comparisons, or lengths that come and go."""
_MANY_SPECIALIZATIONS = FREE_MADE
"""From so many specializations on, each instruction whose value has differed at all: the next one would have to wait."""

# Why it breaks there.
CHANGES = Reason(
    (
        ReasonKind.CHANGING_VALUE,
        "a number, a length or a text that differs from call to call",
        (),
    )
)
SIZES_CHANGE = Reason(
    (
        ReasonKind.DATA_DEPENDENT_SHAPE,
        "the result's shape depends on data, and differs from call to call",
        (),
    )
)


def _limit(kind: Fixes, seen: list[tuple[int, ...]]) -> int:
    """How many recordings may differ in what one instruction fixed."""
    grows = all(before < after for before, after in itertools.pairwise(seen))
    few = kind in (Fixes.NUMBER, Fixes.TEXT) or (kind == Fixes.LENGTH and grows)
    return _FEW if few else _MOST


def _differ(asked: list[int], before: tuple[int, ...]) -> bool:
    """Whether the data of two recordings said otherwise, as far as both have asked."""
    return any(now != then for now, then in zip(asked, before))


class FixedValues:
    """What the instructions of one compiled function have fixed, in all its recordings."""

    def __init__(self) -> None:
        # The values of each, in the order of the recordings.
        self._seen: defaultdict[Hashable, dict[tuple[int, ...], None]] = defaultdict(
            dict
        )

    def take(
        self,
        found: Iterable[tuple[Any, int, int, int, int]],
        specializations: int,
    ) -> dict[Site, Reason]:
        """What a recording of the function, or of a continuation, has fixed. Returns those of its instructions
        at which the graph is to break, and why. ``specializations``: how many there are of what was recorded."""
        values: defaultdict[tuple[Any, int, int, int], list[int]] = defaultdict(list)
        for code, offset, kind, container, value in found:
            values[code, offset, kind, container].append(value)
        sites = {}
        for (code, offset, kind, container), sequence in values.items():
            seen = self._seen[code, offset, kind, container]
            if kind in (Fixes.TRUTH, Fixes.SIZE):
                if any(_differ(sequence, before) for before in seen):
                    why = CHANGES if kind == Fixes.TRUTH else SIZES_CHANGE
                    sites[code, offset] = why
                seen[tuple(sequence)] = None
                continue
            seen[tuple(sequence)] = None
            many = specializations >= _MANY_SPECIALIZATIONS
            if len(seen) >= (2 if many else _limit(Fixes(kind), list(seen))):
                sites[code, offset] = CHANGES
        return sites
