# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A graph break in front of each instruction of a program, one after the other: what stands on the operand stack and
in variables is handed on, wherever that is."""

from __future__ import annotations

import dataclasses
import dis
import types
from collections.abc import Callable, Iterator
from typing import Any

import pyjit
import pytest
import torch
from pyjit import _C
from pyjit._api import engine_of
from pyjit._reasons import ReasonKind

KNOWN = _C.Reason((ReasonKind.UNUSUAL_OBJECT, "known to the test", ()))


@dataclasses.dataclass
class State:
    count: int = 0
    total: float = 0.0
    log: list[Any] = dataclasses.field(default_factory=list)

    def add(self, value: float) -> int:
        self.count += 1
        self.total += value
        self.log.append(value)
        return self.count


def numbers(x: torch.Tensor, k: int, s: State) -> Any:
    a = k + 1
    b = a * 2.5
    c = f"{k}-{a}"
    y = x * a + b
    if k % 3 == 0:
        y = y - k
    return y, c, a // 2, -b


def data(x: torch.Tensor, k: int, s: State) -> Any:
    n = int(x.sum())
    m = x[0].item()
    t = (x > 1).any()
    y = x * n + m
    if n > k:
        y = y + 1
    if t:
        y = y * 2
    return y, n, m > 1, bool(t)


def containers(x: torch.Tensor, k: int, s: State) -> Any:
    d = {"a": x, "k": k}
    rows = [x, x + 1]
    rows.append(d["a"] * k)
    d["b"] = rows[-1]
    a, *rest = (k, *rows)
    st = {k, 3}
    squares = {i: v * 2 for i, v in enumerate(rows)}
    return d, rows, a, len(rest), sorted(st), k in st, squares


def state(x: torch.Tensor, k: int, s: State) -> Any:
    i = s.add(k)
    y = x * i
    s.total = s.total + float(k)
    s.log[0] = k
    y += s.total
    return y, s.count, list(s.log)


def loops(x: torch.Tensor, k: int, s: State) -> Any:
    out = []
    for i in range(k % 4 + 1):
        if i == 2:
            continue
        x = x + i
        out.append(x.sum())
    x = x * 2
    while len(out) < 3:
        out.append(x[0])
    return torch.stack(out), i


def exceptions(x: torch.Tensor, k: int, s: State) -> Any:
    r = 0
    try:
        r = k
        if k % 2:
            raise ValueError(k)
        y = x + 1
    except ValueError as e:
        y = x - e.args[0]
    finally:
        r += 1
    return y, r


def contexts(x: torch.Tensor, k: int, s: State) -> Any:
    with torch.no_grad():
        y = x * k
        z = y + 1
    return z * 2, y


def closures(x: torch.Tensor, k: int, s: State) -> Any:
    c = k

    def inner(v: torch.Tensor, *, scale: int = 2, **kw: int) -> torch.Tensor:
        nonlocal c
        c += 1
        return v * scale + c + kw.get("b", 0)

    y = inner(x) + inner(x, scale=k, b=1)

    def last(q: torch.Tensor) -> torch.Tensor:
        return q + c

    return y, c, last(x)


def defaults(x: torch.Tensor, k: int, s: State) -> Any:
    a = k * 2

    def inner(v: torch.Tensor, b: int = a, *, c: int = k + 1) -> torch.Tensor:
        return v * b + c + a

    return (
        inner(x),
        inner(x, 1, c=k),
        [f(x) for f in (lambda q, i=i: q + i for i in (k, a))],
    )


def generators(x: torch.Tensor, k: int, s: State) -> Any:
    def g(n: int) -> Iterator[Any]:
        for i in range(n):
            got = yield x * i
            if got:
                yield got

    it = g(3)
    a = next(it)
    b = next(it)
    return a + b, sum(v.sum() for v in it), list(g(2))


def writes(x: torch.Tensor, k: int, s: State) -> Any:
    x[0] = k
    x.mul_(2)
    v = x[1:]
    v += 1
    return x.clone(), v


def gradients(x: torch.Tensor, k: int, s: State) -> Any:
    w = torch.ones(3, requires_grad=True)
    y = (w * x * k).sum()
    y.backward()
    return w.grad + 1, y.detach()


def matches(x: torch.Tensor, k: int, s: State) -> Any:
    match k % 4:
        case 0:
            y = x
        case 1 | 2:
            y = x + k
        case n if n > 2:
            y = x - n
        case _:
            y = x * 0
    return y, (a := k) + a


def walrus(x: torch.Tensor, k: int, s: State) -> Any:
    y = x + (z := k * 2)
    n = len(x)
    return y if n > k else y - n, z, n, x is y, k is not None, k != 3


def unpacking(x: torch.Tensor, k: int, s: State) -> Any:
    (a, b), c = (x, k), s.count
    a, b = b, a
    d = [*range(k % 3), *[b]]
    e = {"p": b} | {"q": a}
    return e, d[-1] + a, c


def texts(x: torch.Tensor, k: int, s: State) -> Any:
    t = "{} {}".format(k, "z")
    u = f"{k!r:>4}{x.shape[0]}"
    v = "-".join((*[t, u], t))
    return x * len(v), t, u, v[1:3], v.upper(), str(k).zfill(3)


def draws(x: torch.Tensor, k: int, s: State) -> Any:
    a = torch.rand(3)
    b = torch.dropout(x, 0.5, True)
    return a + b * k, torch.randint(0, 5, (2,))


def deletions(x: torch.Tensor, k: int, s: Any) -> Any:
    d = {"a": 1, "b": k}
    del d["a"]
    d["a"] = x
    s.extra = k
    del s.extra
    rows = [1, 2, 3]
    rows[1:2] = [x, x]
    del rows[0]
    return d, rows, hasattr(s, "extra")


def chains(x: torch.Tensor, k: int, s: State) -> Any:
    y = (x + 1).mul(k).sum(0, keepdim=True).expand(3)
    return (0 < k < 5 and y) or x, not k, k if k > 2 else None, (x, y)[k > 2]


def classes(x: torch.Tensor, k: int, s: State) -> Any:
    class A:
        def f(self, v: torch.Tensor) -> torch.Tensor:
            return v + 1

    class B(A):
        def f(self, v: torch.Tensor) -> torch.Tensor:
            return super().f(v) * k

    return B().f(x)


def comprehensions(x: torch.Tensor, k: int, s: State) -> Any:
    return (
        [x * i for i in range(3) if i != k],
        {i: x + i for i in (1, 2)},
        sum((x * i).sum() for i in range(2)),
        any(i == k for i in range(4)),
        max(k, 2),
        min([3, k]),
        list(map(k.__add__, [1, 2])),
        list(zip([1, 2], [k, k], strict=True)),
    )


PROGRAMS: list[Callable[[torch.Tensor, int, Any], Any]] = [
    *(numbers, data, containers, state, loops, exceptions, contexts, closures),
    *(defaults, generators, writes, gradients, matches, walrus, unpacking),
    *(texts, draws, deletions, chains, classes, comprehensions),
]
#: Each program's instructions are the work of so many tests.
PARTS = 4
CALLS = [
    (1.0, 1),
    (2.0, 2),
    (-1.0, 3),
    (3.0, 4),
    (0.5, 1),
    (4.0, 5),
    (1.5, 0),
    (2.0, 7),
]
#: Of the interpreter's own business, in front of a frame's first instruction.
UNSEEN = {
    *("RESUME", "CACHE", "EXTENDED_ARG", "COPY_FREE_VARS", "MAKE_CELL"),
    "RETURN_GENERATOR",
}


def plain(value: Any) -> Any:
    """What is compared of a result, as it is now."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.detach().clone().tolist(), value.requires_grad
    if isinstance(value, dict):
        return [(plain(k), plain(v)) for k, v in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [plain(v) for v in value]
    if isinstance(value, State):
        return plain(vars(value))
    return type(value), repr(value)


def outcomes(function: Callable[..., Any]) -> list[Any]:
    torch.manual_seed(0)
    s = State(log=[0])
    found = []
    for value, k in CALLS:
        x = torch.tensor([value, 0.25, 0.5])
        try:
            result = function(x, k, s)
        except Exception as error:
            result = (type(error).__name__, str(error))
        found.append(plain((result, x, s)))
    return found


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_graph_break(program: Callable[..., Any], part: int) -> None:
    want = outcomes(program)
    sites = [
        (code, instruction)
        for code in codes(program.__code__)
        for instruction in dis.get_instructions(code)
        if instruction.opname not in UNSEEN
    ]
    assert len(sites) > PARTS
    options = {"fallback": "ignore", "compare_with_eager": False}
    for code, instruction in sites[part::PARTS]:
        fast = pyjit.compile(program, options=options)
        points = engine_of(fast, "test").root.graph_break_points
        points[code, instruction.offset] = KNOWN
        assert outcomes(fast) == want, (code.co_name, instruction)
