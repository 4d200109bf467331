"""Places of numbers, by the names that the recorder gives them (capture/Scalars.h).

A number behind a cut is read by another name than in front of it: the argument that leads to it
there is a local of the frame here.
"""

from __future__ import annotations

import re
import types
from typing import Any

_STEP = re.compile(r"([.:\[^])([^.:\[^$]*)")
_NOTHING = object()


def _follow(holder: Any, kind: str, name: str) -> Any:
    """What an object holds at a place; runs none of the user's code."""
    try:
        if kind == ".":
            return object.__getattribute__(holder, "__dict__").get(name, _NOTHING)
        if kind == "^":
            if isinstance(holder, types.FunctionType):
                return holder.__closure__[int(name)]
            return holder.cell_contents
        if isinstance(holder, dict):
            return dict.get(holder, name if kind == ":" else int(name), _NOTHING)
        if isinstance(holder, list | tuple) and kind == "[":
            kind_of = list if isinstance(holder, list) else tuple
            return kind_of.__getitem__(holder, int(name))
    except (AttributeError, IndexError, TypeError, ValueError):
        pass
    return _NOTHING


def places_in(place: str, given: tuple, values: tuple) -> set[str]:
    """The names of ``place``, which is one of the arguments ``given``, among ``values``."""
    if place.startswith("@"):
        found = {place}
        root = re.match(r"@0x[0-9a-f]+", place)
        if root:
            address = int(root[0][1:], 16)
            rest = place[root.end() :]
            found |= {f"#{i}{rest}" for i, v in enumerate(values) if id(v) == address}
        return found
    match = re.match(r"#(\d+)", place)
    if not match or int(match[1]) >= len(given):
        return set()
    at, holder, found = match.end(), given[int(match[1])], set()
    while at < len(place):
        # The number itself is no object to be known by.
        found |= {f"#{i}{place[at:]}" for i, v in enumerate(values) if v is holder}
        step = _STEP.match(place, at)
        if not step:
            break
        holder = _follow(holder, *step.groups())
        if holder is _NOTHING:
            break
        at = step.end()
    return found
