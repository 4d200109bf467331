# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attempts to get a wrong answer: what Python does with a number that differs between calls, wherever it is from."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from Integration.harness import ANY, Compile, Steps, attempt, module_of, tell, values

#: How a program gets the number, and what it is given.
_SOURCES: dict[str, tuple[str, Callable[[int], Any]]] = {
    "data": ("t.item()", torch.tensor),
    "argument": ("t", lambda n: n),
    "size": ("t.shape[0]", lambda n: torch.zeros(n, 2)),
    "attribute": ("t.n", lambda n: types.SimpleNamespace(n=n)),
    "arithmetic": ("t * 2 - t", lambda n: n),
    "length": ("len(t)", lambda n: [0.0] * n),
}

_MODULE = """
import bisect, collections, copy, functools, heapq, itertools, math, operator, types
import torch
P = collections.namedtuple("P", "a b")
def g(x, n):
    {body}
def f(x, t):
    return g(x, {source})
"""

# fmt: off
_USES = [
    "dict(zip([n, 1], [x, x*2]))",
    "dict.fromkeys([n, 1], x)",
    "{n: x} | {1: x*2}",
    "[a for a, _ in sorted([(n, 5), (2, 6)])]",
    "min([(n, x), (2, x*2)], key=operator.itemgetter(0))",
    "[n, 2, 1].count(2) * x",
    "x if n not in [1, 2] else x * 2",
    "list(itertools.repeat(x, n))",
    "[x * i for i in range(n)]",
    "[x, x*2, x*3, x*4][:n]",
    "[x, x*2, x*3, x*4][slice(n)]",
    "(x,) * n",
    "'abcdefgh'[n]",
    "chr(n + 60)",
    "x * n.bit_length()",
    "n and x",
    "x * (not n)",
    "P(n, x)._asdict()",
    "getattr(x, ['sum', 'mean'][n % 2])()",
    "operator.contains({1: x}, n) * x",
    "x * ({n} <= {1, 2})",
    "x * math.gcd(n, 6)",
    "copy.copy(n)",
    "x * sum([n, 1])",
    "x * min([3, n], key=lambda v: -v)",
    "list(itertools.combinations([x, x*2, x*3], n))[:2]",
    "x * all([n > 1, n < 3])",
    "next(iter([x, x*2][n - 1:]), x * 9)",
    "x * {n: 1}.get(2, 5)",
    "x * len({n, 2})",
    "x * [[0, 1], [2, 3], [4, 5], [6, 7]][n][1]",
    "x * divmod(n, 2)[1]",
    "x * (1 << n)",
    "x * ~n",
    "x * n ** n",
    "x * float(n).is_integer()",
    "x.roll(n)",
    "x[n:]",
    "torch.zeros(n)",
    "torch.cat([x] * n)",
    "x.split([n, 6 - n])",
    "x.unfold(0, n, 1)",
    "torch.tensor([[n], [2]]) * 1.5",
    "torch.where(torch.arange(6) < n, x, n)",
    "x.sum().item() * n",
    "x * (lambda v, k=n: k)(0)",
    "x * (lambda *a: len(a))(*([1] * n))",
    "x * isinstance(n, (bool, float))",
    "repr((n,))",
    "x * (n != 2)",
    "sorted([3, n, 1], reverse=True)",
    "len(range(n))",
    "list(range(0, 6, n))",
    "repr(range(0, n, 2))",
    "str([range(n, 9, 3), range(9, n, -4)])",
    "range(1, n, 3).stop",
    "range(0, n, 2), list(range(0, n, 2))",
    "x * next(itertools.count(n))",
    "{i: x for i in range(n)}",
    "x * len(str(n * 5))",
    "collections.deque([x, x*2, x*3], maxlen=n)",
    "x * sum(1 for _ in range(n))",
    "x * (n := n + 1)",
]

_STATEMENTS = [
    "d = {1: x}; d[n] = x * 2; d[2] = x * 3; return d",
    "d = {1: x, 2: x*2}; del d[n]; return d",
    "l = [x, x*2, x*3]; del l[n]; return l",
    "l = [x, x*2, x*3]; return l.pop(n), l",
    "l = [1, 2, 3]; l.remove(n); return l, x",
    "s = {1, 2}; s.discard(n); return sorted(s), x",
    "l = [1, 3]; bisect.insort(l, n); return l, x",
    "l = [3, n, 1]; l.sort(); return l, x * l[0]",
    "c = collections.Counter(); c[n] += 1; c[2] += 1; return c, x",
    "d = collections.OrderedDict(a=x); d[n] = x; d.move_to_end(n); return d",
    "a, *b = [x] * n; return a, b",
    "assert n == 2; return x",
    "for i in range(n): x = x * i + 1; return x",
    "r = range(0, n, 2); return [x * i for i in r], repr(r)",
    "x.k = n; return x * x.k, x",
    "p = P(n, x); return p._replace(a=2) == p._replace(b=2), p.a * p.b",
    "y = x.clone(); y[n] = 5; return y",
    "y = x.clone(); y[:n] *= 2; return y",
    "return x * n, n",
    "b = bytearray(3); b[n] = 1; return x * sum(b), bytes(b)",
]
# fmt: on


@pytest.mark.parametrize("body", [f"return {use}" for use in _USES] + _STATEMENTS)
def test_the_number_decides(body: str) -> None:
    def story(compile: Compile) -> Steps:
        for source, make in _SOURCES.values():
            f = compile(module_of(_MODULE.format(body=body, source=source)).f)
            for n in (2, 2, 1, 3, 3, 0, 4, 1):
                x = values(6)
                yield attempt(f, x, make(n)), x

    tell(story, captured=False, graph_breaks=ANY)
