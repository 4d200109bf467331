# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attempts to get a wrong answer: tuples that C code hashes and compares, and keys that cannot be hashed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from Integration.harness import (
    ANY,
    Compile,
    Steps,
    attempt,
    module_of,
    scenario,
    tell,
    values,
)

_MODULE = """
import collections, functools, itertools, operator
def f(x, l):
    {}
"""

_WALKS = [
    "return x * len(set(l))",
    "return x * len(set().union(l))",
    "return x * {(1, 2), (3, 4)}.issuperset(l)",
    "return x * {(1, 2)}.isdisjoint(l)",
    "return x * len({(1, 2), (3, 4)}.symmetric_difference(l))",
    "s = set(); s.update(l); return x * len(s)",
    "s = {(1, 2)}; s.intersection_update(l); return x * len(s)",
    "s = {(1, 2), (3, 4)}; s.difference_update(l); return x * len(s)",
    "return x * len(dict.fromkeys(l))",
    "return x * len(dict([(l[0], 1), (l[1], 2)]))",
    "return x * len(dict(zip(l, l)))",
    "d = {}; d.update([(l[0], 1), (l[1], 2)]); return x * len(d)",
    "d = {}; d.update({l[0]: 1, l[1]: 2}); return x * len(d)",
    "return x * len(collections.OrderedDict([(l[0], 1), (l[1], 2)]))",
    "return x * collections.Counter(l)[(1, 2)]",
    "return x * len({*l})",
    "return x * len({v for v in l})",
    "return x * len({(1, 2): 0}.keys() & l)",
    "return x * len({(1, 2): 0}.keys() | l)",
    "return x * len({(1, 2): 0, (3, 4): 1}.keys() - l)",
    "return x * collections.deque(l).count((1, 2))",
    "return x * operator.countOf(l, (1, 2))",
    "return {(1, 2): x, (2, 2): x * 3}.get(l[1], x - 1)",
    "return x * ((3, 4) in l), sorted(l), max(l)",
    # Handed on by generators and iterators.
    "return x * len(set(v for v in l))",
    "return x * len(dict((v, 1) for v in l))",
    "return x * len(dict.fromkeys(v for v in l))",
    "s = set(); s.update(v for v in l); return x * len(s)",
    "return x, max(v for v in l), sorted(v for v in l)",
    "return x * ((1, 2) in (v for v in l))",
    "return x * len(set(map(lambda v: v, l)))",
    "return x * len(set(reversed(l)))",
    "return x * len(set(itertools.chain(l, l)))",
    "return x * len(set(itertools.islice(l, 2)))",
    "return x * len(set(filter(None, l)))",
    "return x * len(set({0: l[0], 1: l[1]}.values()))",
    "return x * len(dict(zip((v for v in l), l)))",
    "return x * len(dict(map(lambda v: (v, 1), l)))",
    "return x, max(iter(l)), max(map(lambda v: v, l))",
    "return x, list(map(max, l)), list(map(sum, l))",
    "return x, list(map(str, tuple(l)))",
]  # fmt: skip


@pytest.mark.parametrize("walk", _WALKS)
def test_tuples_that_c_code_hashes(walk: str) -> None:
    """Their contents are looked at, whoever walks over them; numbers in them are no inputs."""

    def story(compile: Compile) -> Steps:
        f = compile(module_of(_MODULE.format(walk)).f)
        for a, b in [
            ((1, 2), (3, 4)), ((1, 2), (3, 4)), ((1, 2), (1, 2)), ((3, 4), (1, 2)), ((5, 6), (3, 4)),
            ((1, (2, 3)), (1, (2, 3))), ((1, (2, 3)), (1, (2, 4))), ([1, 2], (3, 4)), (frozenset({1}), (1, 2)),
            *(((1, 2), (k, 2)) for k in (3, 4, 4, 5, 1, 1, 6, 2, 1)),
        ]:  # fmt: skip
            copies = [tuple(v) if isinstance(v, tuple) else v for v in (a, b)]
            yield attempt(f, values(4), copies)

    tell(story, captured="late", graph_breaks=ANY)


_KEYED = [
    "return x * collections.defaultdict(int)[k]",
    "return x * {}[k]",
    "return {}.pop(k, x)",
    "return {}.setdefault(k, x)",
    "return {}.get(k, x)",
    "d = {}; d[k] = x; return d",
    "d = collections.defaultdict(int); d[k] += 1; return x * d[k]",
    "s = {1}; s.add(k); return x * len(s)",
    "s = {1}; s.discard(k); return x * len(s)",
    "return x * (k in {1: 2})",
    "return x * (k in {1})",
    "return dict.fromkeys([k], x)",
    "return dict([(k, x)])",
    "return x * hash(k)",
]


@pytest.mark.parametrize("keyed", _KEYED)
def test_keys_that_cannot_be_hashed(keyed: str) -> None:
    """The call raises, as in eager, and nothing else: also where a recorder asks the container first."""

    def story(compile: Compile) -> Steps:
        f = compile(module_of(_MODULE.format(keyed).replace("l)", "k)", 1)).f)
        keys: list[Any] = [
            (1, 2),
            (1, 2),
            [1, 2],
            [1, 2],
            {1: 2},
            (1, [2]),
            7,
            {3},
            torch.ones(2).tolist(),
            (1, 2),
        ]
        for key in keys:
            yield attempt(f, values(4), key)

    tell(story, captured=False, graph_breaks=ANY)


@scenario(captured="late", graph_breaks=ANY)
def test_set_display_around_a_graph_break(compile: Compile) -> Steps:
    """A set that a graph break hands on, half made: its tensors are known by identity, and read by a path behind it."""
    ts = [values(2, seed=k) for k in range(3)]

    def asked(x: torch.Tensor) -> Any:
        s = {x, *ts}
        return any(x is t for t in ts), len(s)

    def computed(x: torch.Tensor) -> Any:
        s = {x, *ts}
        return ts[0] * 2 + x, len(s), sum(t for t in ts)

    def contained(x: torch.Tensor) -> Any:
        s = {x, *ts}
        return x in s, [t + 1 for t in ts if t in s]

    def emptied(x: torch.Tensor) -> Any:
        s = {ts[0]}
        s.update(ts)
        s.clear()
        return [t + 1 for t in ts], len(s), x * 2

    fast = [compile(f) for f in (asked, computed, contained, emptied)]
    for turn in range(16):
        if turn == 9:
            ts[1] = values(2, seed=9)
        if turn == 12:
            ts[0].data = ts[0].data.double()
        if turn == 14:
            ts[0].data = ts[0].data.float()
        x = ts[turn % 3] if turn % 3 else values(2, seed=turn)
        yield [f(x) for f in fast]
