# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators that the compiler refuses to differentiate: a graph break stands in front of each.

The recorder knows which operators have derivatives; some of these have none for the arguments of a call, which
the compiler says first. The next call that is recorded breaks there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from types import CodeType

_PLACE = re.compile(r'"([^"\n]*)":(\d+):(\d+)')
_REFUSAL = re.compile(r"(cannot be differentiated): ([^;\n]*)")
_OPERATOR = re.compile(r'overload = "([^"]*)"')


def refused_site(
    error: str, sites: Iterable[tuple[CodeType, int]]
) -> tuple[tuple[CodeType, int], str] | None:
    """The instruction among ``sites`` whose operator the compiler's error is about, and the reason for a graph break."""
    refusal = _REFUSAL.search(error)
    place = _PLACE.search(error)
    if not refusal or not place or place.start() > refusal.start():
        return None
    file, line, column = place.group(1), int(place.group(2)), int(place.group(3))
    operator = _OPERATOR.search(error, refusal.end())
    what = f"{operator.group(1)} ({refusal.group(2)})" if operator else refusal.group(2)
    for code, offset in sites:
        if code.co_filename == file and _location(code, offset) == (line, column):
            return (code, offset), f"{refusal.group(1)}: {what}"
    return None


def _location(code: CodeType, offset: int) -> tuple[int, int]:
    """As the recorder's locations have it: the column counts from one, zero is unknown."""
    positions = list(code.co_positions())
    line, _, column, _ = positions[offset // 2]
    return line or 0, 0 if column is None else column + 1
