# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is read of a sequence from before the call, by each kind of sequence and each way of reading it, is guarded."""

from __future__ import annotations

import array
import collections
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import pyjit
import pytest
import torch
from Integration.harness import attempt


class Pair(NamedTuple):
    a: Any
    b: Any
    c: Any


class Tuple(tuple): ...


class List(list): ...


class Own(list):
    def __getitem__(self, key: Any) -> Any:
        return list.__getitem__(self, key)


#: Sequences of three numbers, of which the middle one differs between calls.
KINDS: dict[str, Callable[[int], Any]] = {
    "size": lambda n: torch.ones(1, n, 3).size(),
    "stride": lambda n: torch.ones(2, 3, n).stride(),
    "tuple": lambda n: (1, n, 3),
    "list": lambda n: [1, n, 3],
    "named": lambda n: Pair(1, n, 3),
    "tuple-class": lambda n: Tuple((1, n, 3)),
    "list-class": lambda n: List([1, n, 3]),
    "own-items": lambda n: Own([1, n, 3]),
    "deque": lambda n: collections.deque([1, n, 3]),
    "array": lambda n: array.array("l", [1, n, 3]),
    "range": lambda n: range(1, 2 * n, n - 1),
    "bytes": lambda n: bytes([1, n, 3]),
    "bytearray": lambda n: bytearray([1, n, 3]),
    "tensors": lambda n: Pair(torch.ones(2), n, torch.zeros(1) + n),
}
USES: list[Callable[[Any], Any]] = [
    lambda s: s[1:], lambda s: s[:-1], lambda s: s[-2:], lambda s: s[::-1], lambda s: s[1:2], lambda s: s[:],
    lambda s: s[slice(1, None)], lambda s: (-1, *s[1:]), lambda s: [x for x in s[:2]], lambda s: s + s[:2],
    lambda s: s[1], lambda s: (*s, 1), lambda s: 5 in s, lambda s: s.index(5), lambda s: max(s), lambda s: sum(s),
    lambda s: list(reversed(s)), lambda s: list(zip(s, s)), lambda s: sorted(s), lambda s: s[:2] == (1, 5),
    lambda s: str(s), lambda s: s * 2, lambda s: [s[i] for i in range(len(s))],
]  # fmt: skip


def directly(use: Callable[[Any], Any], s: Any) -> Any:
    return use(s)


def before_a_break(use: Callable[[Any], Any], s: Any) -> Any:
    read = use(s)
    return 0 if time.time() < 0 else read


def behind_a_break(use: Callable[[Any], Any], s: Any) -> Any:
    return 0 if time.time() < 0 else use(s)


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, tuple | list):
        return type(value), [plain(v) for v in value]
    return repr(value)


@pytest.mark.parametrize("kind", KINDS)
def test_reads(kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pyjit.PyjitWarning)
        for number, use in enumerate(USES):
            # A function of its own for each use, by way of its default.
            for way in (directly, before_a_break, behind_a_break):
                f = pyjit.compile(lambda s, use=use, way=way: way(use, s))
                for n in (4, 5, 6, 4):
                    have, want = (
                        repr(attempt(lambda g=g, n=n: plain(g(KINDS[kind](n)))))
                        for g in (f, use)
                    )
                    assert have == want, (kind, number, way.__name__, n)


def test_reshape_behind_graph_breaks() -> None:
    """As GPT-2 does: a size that was asked for in front of graph breaks, for two lengths in one call."""

    def step(x: torch.Tensor) -> Any:
        shape = x.size()
        if time.time() < 0:
            return x
        output = (-1,) + shape[1:] + (2,)
        if time.time() < 0:
            return x
        return torch.cat([x, x], -1).view(output), output

    def g(x: torch.Tensor) -> Any:
        return step(x[:, :-1]), step(x)

    f = pyjit.compile(g)
    for n in (4, 5, 6, 4, 7, 3):
        x = torch.arange(2.0 * n * 3).view(2, n, 3)
        for (a, have), (b, want) in zip(f(x), g(x), strict=True):
            assert torch.equal(a, b) and have == want
