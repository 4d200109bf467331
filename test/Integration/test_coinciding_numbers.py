# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers from {0, 1, 2} everywhere: what an instruction loads is the very object of a number that it only looks at.

CPython has one object for each small int. A recorder that tells numbers apart by identity takes the number in a key for
what lies behind it, and nobody sees it until both differ.
"""

from __future__ import annotations

import collections
import copy
import functools
import itertools
import operator
import random
from collections.abc import Callable
from typing import Any

import pyjit
import pytest

Draw = random.Random
Pair = tuple[int, int]


def small(r: Draw) -> int:
    return r.randrange(3)


def several(r: Draw) -> list[int]:
    return [small(r) for _ in range(r.choice([2, 3, 3]))]


def pair(r: Draw) -> Pair:
    return small(r), small(r)


def table(r: Draw) -> dict[Pair, int]:
    return {key: small(r) for key in itertools.product(range(3), repeat=2)}


FIXED = {(i, j): (i * 3 + j * 2) % 3 for i in range(3) for j in range(3)}


class Holder:
    n = 1


def holder(r: Draw) -> Holder:
    made = Holder()
    Holder.n = small(r)
    if r.random() < 0.7:
        made.n = small(r)
    made.m = small(r)  # type: ignore[attr-defined]
    return made


def in_base_five(numbers: Any) -> int:
    total = 0
    for number in numbers:
        total = total * 5 + number
    return total


def counted(numbers: list[int], n: int) -> Any:
    found: dict[Any, int] = {}
    for number in numbers:
        found[(number,)] = found.get((number,), 0) + 1
    return found


def counted_with(numbers: list[int], n: int) -> Any:
    found: dict[Any, int] = {}
    for number in numbers:
        found[number, n] = found.get((number, n), n) + number
    return found


def with_counter(numbers: list[int], n: int) -> Any:
    found: collections.Counter[Any] = collections.Counter()
    for number in numbers:
        found[(number,)] += n
    return dict(found)


def with_defaults(numbers: list[int], n: int) -> Any:
    found: dict[Any, int] = collections.defaultdict(int)
    for number in numbers:
        found[number, n] += number
    return dict(found)


def walked(numbers: list[int], n: int) -> Any:
    x, y, total = n, n, 0
    for number in numbers:
        total = total * 3 + FIXED[x, y]
        x, y = (x + number) % 3, (y + FIXED[(x, y)]) % 3
    return total, x, y


def path_counts(numbers: list[int], n: int) -> Any:
    known: dict[Pair, int] = {}

    def count(i: int, j: int) -> int:
        if (i, j) in known:
            return known[i, j]
        known[i, j] = 1 if i == 0 or j == 0 else count(i - 1, j) + count(i, j - 1)
        return known[i, j]

    return [count(number, n) for number in numbers]


# What is called with a list of numbers and a number.
OF_LISTS: dict[str, Callable[[list[int], int], Any]] = {
    "counted": counted,
    "counted with another": counted_with,
    "Counter": with_counter,
    "defaultdict": with_defaults,
    "walked": walked,
    "path counts": path_counts,
    "fixed table": lambda l, n: [FIXED[number, n] * 7 for number in l],
    "fixed table by get": lambda l, n: [FIXED.get((n, number), n) * 7 for number in l],
    "accumulate": lambda l, n: in_base_five(itertools.accumulate(l)),
    "accumulate from": lambda l, n: in_base_five(itertools.accumulate(l, initial=n)),
    "accumulate max": lambda l, n: in_base_five(itertools.accumulate(l, max)),
    "map max": lambda l, n: in_base_five(map(max, l, reversed(l))),
    "map add": lambda l, n: in_base_five(map(operator.add, l, l)),
    "map get": lambda l, n: in_base_five(map({0: 1, 1: 2, 2: 0}.get, l)),
    "map itemgetter": lambda l, n: in_base_five(map(operator.itemgetter(0), [l, l])),
    "index of an index": lambda l, n: l[l[n % 2] % 2] * 7,
    "max and min": lambda l, n: max(l) * 7 + min(l),
    "reduce": lambda l, n: functools.reduce(lambda a, b: a * 3 + b, l),
    "reduce max": lambda l, n: functools.reduce(max, l) * 7,
    "pop": lambda l, n: (l.pop(n % 2) * 7, l),
    "index": lambda l, n: l.index(n) * 7 if n in l else -1,
    "count": lambda l, n: l.count(n) * 7,
    "next": lambda l, n: next((v for v in l if v > n), n) * 7,
    "divmod": lambda l, n: divmod(l[0], n + 1),
    "getitem": lambda l, n: operator.getitem(l, n % 2) * 7,
}

# What is called with a dict and a pair.
OF_TABLES: dict[str, Callable[[dict[Pair, int], Pair], Any]] = {
    "subscript": lambda d, k: d[k] * 7,
    "subscript of parts": lambda d, k: d[k[1], k[0]] * 7,
    "get": lambda d, k: d.get(k, 1) * 7,
    "pop": lambda d, k: (d.pop(k) * 7, len(d)),
    "setdefault": lambda d, k: d.setdefault(k, 2) * 7,
    "getitem": lambda d, k: operator.getitem(d, k) * 7,
    "method": lambda d, k: d.__getitem__(k) * 7,
    "twice": lambda d, k: d[d[k], k[0]] * 7,
    "in": lambda d, k: (k in d) * 7 + (k[0] in k),
    "stored": lambda d, k: d.__setitem__(k, k[0]) or d[k] * 7 + d[k[1], k[0]],
    "added": lambda d, k: operator.setitem(d, k, d[k] + 1) or d[k] * 7,
}

# What is called with an object and a number.
OF_HOLDERS: dict[str, Callable[[Any, int], Any]] = {
    "attributes": lambda o, n: o.n * 7 + o.m,
    "getattr": lambda o, n: getattr(o, "n", n) * 7 + getattr(o, "k", n),
    "vars": lambda o, n: vars(o).get("n", n) * 7 + o.m,
    "setdefault": lambda o, n: o.__dict__.setdefault("n", o.m) * 7,
    "key of attributes": lambda o, n: FIXED[o.n, o.m] * 7 + FIXED.get((o.m, n), o.n),
}

CASES: dict[str, tuple[Callable[..., Any], Callable[[Draw], tuple[Any, ...]]]] = {
    **{f"list-{k}": (f, lambda r: (several(r), small(r))) for k, f in OF_LISTS.items()},
    **{f"dict-{k}": (f, lambda r: (table(r), pair(r))) for k, f in OF_TABLES.items()},
    **{
        f"object-{k}": (f, lambda r: (holder(r), small(r)))
        for k, f in OF_HOLDERS.items()
    },
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("case", CASES)
def test_coinciding_numbers(case: str, seed: int) -> None:
    function, draw = CASES[case]
    fast = pyjit.compile(function, options={"compare_with_eager": False})
    source = random.Random(seed)
    for _ in range(50):
        have = draw(source)
        want = copy.deepcopy(have)
        result = function(*want)
        assert fast(*have) == result
        for ours, eagers in zip(have, want):
            assert getattr(ours, "__dict__", ours) == getattr(
                eagers, "__dict__", eagers
            )
    if case != "list-path counts":  # a cache in a closure that the call makes
        assert pyjit.stats(fast).hits > 0, pyjit.explain(fast)
