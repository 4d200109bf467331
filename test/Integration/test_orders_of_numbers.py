# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What compares, orders or searches numbers that differ between calls: builtins, methods of containers and operators,
times where the container comes from, times kinds of numbers. Results and containers are beside eager's."""

from __future__ import annotations

import bisect
import collections
import heapq
import os
import random
import zlib
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import Raised, attempt

CALLS = 11
# Every other expression for a source, the others for the next one; all of them where more examples are asked for.
EVERY = 1 if int(os.environ.get("PYJIT_EXAMPLES", "200")) > 200 else 2

# Of a container `c`, a number `v` that it may hold and another one, `u`.
_SEQUENCE = """
max(c); min(c); max(*c); min(*c); max(c, default=9); max([z * 2 for z in c]); min(tuple(c)); max(z for z in c)
max(c, key=lambda z: -z); max(c[0], v); max(c) - min(c); str(max(c)); max([*c, v]); max(c, key=abs)
sorted(c); sorted(c, reverse=True); sorted(c)[0]; sorted(c, key=lambda z: -z); sum(c); any(c); all(c)
v in c; v not in c; u in c; c.index(v); c.count(v); c.count(u); c.index(max(c)); c == c[:]; c == [v, u, v]
c[0] < c[1]; c[0] == c[1]; c[0] is c[1]; c[0] is v; v is not u; c[1] is not v; c[0] <= v < u; c < c[::-1]; not c[0]
c[: int(v)]; c[int(v) :]; c[int(v) % 3]; x[: int(max(c))]; set(c); len(set(c)); set(c) & {v}; {v, u} | set(c); v in set(c)
{v: 1, u: 2}.get(c[0]); {z: n for n, z in enumerate(c)}; dict.fromkeys(c); heapq.nlargest(2, c); heapq.nsmallest(1, c)
bisect.bisect(sorted(c), v); bisect.bisect_left([0, 1, 2], c[0]); list(filter(None, c)); [z for z in c if z > v]
max(enumerate(c), key=lambda p: p[1]); sorted(zip(c, "abc")); max(zip(c, "abc")); list(reversed(c)); divmod(int(c[0]), 3)
str(c[0]) < str(v); "abcdef".find("abcdef"[int(v)]); "%s" % v; f"{c[0]}"; "ab" * int(v); hash(c[0]) == hash(v)
"""
_LIST = """
c.sort(); c.sort(reverse=True); c.sort(key=lambda z: -z); c.sort(key=abs); (c.sort(), c[0], x * c[0]); c.remove(v)
c.remove(max(c)); (c.remove(v), c.sort()); c.reverse(); c.insert(int(v) % 3, u); c.append(v); (c.append(v), c.sort())
(c.append(v), max(c)); (c.append(v), c.remove(v)); (c.append(u), c.index(u)); (c.append(u), v in c); (c.append(u), min(c))
c.pop(int(v) % 3); c.pop(c.index(v)); c.extend([v, u]); (c.extend([u]), sorted(c)); (c.extend([u]), c.count(u))
c.__setitem__(0, v); (c.__setitem__(0, v), max(c)); (c.sort(), c.remove(v)); (c.sort(), max(c)); (c.reverse(), c.sort())
c.__delitem__(int(v) % 3); (c.append(v), c == [v, u, v, v]); (c.append(v), c.sort(key=lambda z: -z)); (c.clear(), c.append(v))
heapq.heapify(c); heapq.heappush(c, v); heapq.heappop(c); heapq.heappushpop(c, v); bisect.insort(c, v)
(c.sort(), bisect.insort(c, v)); (c.sort(), bisect.bisect(c, v)); (c.append(v), c[-1] is v); (c.sort(), c.index(v))
(c.append(v), sum(c)); (c.append(v), c.count(v)); (c.append(v), any(c)); (c.append(v), set(c)); (c.sort(), c.reverse(), c[0])
"""
_SET = """
max(c); min(c); sorted(c); sum(c); v in c; u not in c; c | {v}; c & {v, u}; c - {v}; c ^ {u}; c == {v, u}; c < {v, u, 7}
c.add(v); c.discard(v); c.remove(v); c.union([v]); c.isdisjoint({u}); c.update([v, u]); len(c); any(c); c.issubset({0, 1, v})
"""
_DICT = """
max(c); min(c.values()); max(c.values()); sorted(c); sorted(c.values()); sum(c.values()); v in c; u in c; v in c.values()
c.get(v); c.get(u, -1); c.pop(v, None); c.setdefault(v, 5); c == {v: u}; max(c, key=c.get); c.update({v: u}); list(c)
max(c.items(), key=lambda p: p[1]); min(c, key=lambda z: -z); [c[z] for z in sorted(c)]; c.keys() & {v}; (c.pop(v, 0), max(c))
"""
_DEQUE = """
max(c); min(c); sorted(c); sum(c); v in c; u not in c; c.index(v); c.count(u); c.remove(v); c[0] < c[1]; c[0] is v
c.append(v); c.appendleft(u); (c.append(v), max(c)); c.reverse(); c.rotate(int(v)); c.pop(); list(c); any(c)
"""
_KINDS: dict[str, tuple[str, Callable[[list[Any]], Any]]] = {
    "list": (_SEQUENCE + _LIST, list),
    "tuple": (_SEQUENCE, tuple),
    "set": (_SET, set),
    "dict": (_DICT, lambda numbers: {z: numbers[n - 1] for n, z in enumerate(numbers)}),
    "deque": (_DEQUE, collections.deque),
}

_SOURCES = {
    "argument": "c = given",
    "attribute": "c = held.c",
    "closure": "c = cell[0]",
    "global": "c = GLOBAL",
    "made": "c = copied(given)",
    "comprehension": "c = KIND(z for z in given)",
    "break": 'c = copied(given); print(end="")',
    "second break": 'd = KIND(given); print(end=""); c = copied(d); print(end="")',
}

_NUMBERS: dict[str, Callable[[random.Random], Any]] = {
    "ints": lambda r: r.randint(0, 4),
    "floats": lambda r: r.choice([0.0, 0.5, 1.0, 2.0, 2.5, 4.0]),
    "mixed": lambda r: r.choice([0, 1, 1.0, 2, 2.5, True, False, 3]),
}

_PROGRAM = """
def program(cell):
    def f(x, given, held, v, u):
        {source}
        result = {expression}
        return x * 2, result{shown}
    return f
"""


class _Held:
    def __init__(self, c: Any) -> None:
        self.c = c


def _story(
    compile: Callable[..., Any], kind: str, source: str, expression: str, numbers: str
) -> tuple[list[str], Any]:
    """What each of the calls gives and leaves, as text, and the function that was called."""
    make = _KINDS[kind][1]
    world: dict[str, Any] = {
        "heapq": heapq,
        "bisect": bisect,
        "copied": lambda c: c.copy() if hasattr(c, "copy") else c[:],
        "KIND": {"deque": collections.deque, "dict": dict}.get(kind, make),
        "GLOBAL": None,
    }
    cell: list[Any] = [None]
    own = source not in ("argument", "attribute", "closure", "global")
    line = _SOURCES[source]
    if kind == "dict":
        line = line.replace("KIND(z for z in given)", "{z: given[z] for z in given}")
    text = _PROGRAM.format(
        source=line, expression=expression, shown=", c" if own else ""
    )
    exec(text, world)
    f = compile(world["program"](cell))
    seed = zlib.crc32(f"{kind} {source} {expression} {numbers}".encode())
    r, x, seen = random.Random(seed), torch.ones(5), []
    for _ in range(CALLS):
        drawn = [_NUMBERS[numbers](r) for _ in range(3)]
        v, u = (
            r.choice([*drawn, _NUMBERS[numbers](r)]),
            _NUMBERS[numbers](r),
        )
        c = cell[0] = world["GLOBAL"] = make(drawn)
        result = attempt(f, x, c, _Held(c), v, u)
        shown = type(result.text if isinstance(result, Raised) else result)
        text = repr(result) if not isinstance(result, Raised) else repr(result.type)
        seen.append(f"{drawn} {v} {u}: {text} {shown} {c!r}")
    return seen, f


def _expressions(kind: str) -> list[str]:
    return [
        part.strip()
        for line in _KINDS[kind][0].splitlines()
        for part in line.split("; ")
        if part.strip()
    ]


@pytest.mark.parametrize("source", _SOURCES)
@pytest.mark.parametrize("kind", _KINDS)
def test_order_of_numbers(kind: str, source: str) -> None:
    """Each call has other numbers in another order, with other ties. What an expression is given from one source are
    ints, from the next one floats."""
    wrong, hits, asked = [], 0, 0
    for n, expression in enumerate(_expressions(kind), list(_SOURCES).index(source)):
        if n % EVERY:
            continue
        asked += 1
        numbers = list(_NUMBERS)[n % len(_NUMBERS)]
        eager, _ = _story(lambda f: f, kind, source, expression, numbers)
        seen, f = _story(pyjit.compile, kind, source, expression, numbers)
        hits += pyjit.stats(f)["hits"]
        first = [(a, b) for a, b in zip(eager, seen, strict=True) if a != b][:1]
        wrong += [f"{expression}: {b}, eager {a}" for a, b in first]
    assert not wrong, "\n".join(wrong)
    # Sets that are walked over are known by their elements: each call here has others.
    assert hits > (0 if kind == "set" else asked) or kind == "deque"
