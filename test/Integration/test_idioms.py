# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `benchmarks/breadth.py` met in models: one small story for each."""

from __future__ import annotations

import collections
import enum
import functools
import itertools
import math
import operator
import weakref
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration.harness import values
from Integration.idioms import graphs, hits, same
from torch import nn


def double(t: torch.Tensor) -> torch.Tensor:
    return t * 2


@functools.cache
def scale_of(n: int) -> float:
    return SETTINGS["scale"] * n


SETTINGS = {"scale": 2.0}


class Kind(enum.Enum):
    A = 1
    B = 2


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * g


def _scripted(x: torch.Tensor, k: int) -> torch.Tensor:
    if k > 1:
        x = x.relu()
    return x * k


scripted = torch.jit.script(_scripted)


def sliced(x: torch.Tensor) -> torch.Tensor:
    y = x.clone().view(-1)
    y[1:3] = 9.0
    y[4:] = x.view(-1)[4:] * 2
    return y


def match_on(x: torch.Tensor) -> torch.Tensor:
    match x.shape:
        case (n, 8):
            y = x * n
        case _:
            y = x
    match {"kind": "relu", "times": 2}:
        case {"kind": "relu", "times": k}:
            return y.relu() * k
        case _:
            return y


def caught(x: torch.Tensor) -> torch.Tensor:
    try:
        {}["missing"]
    except KeyError as error:
        x = x + len(str(error))
    try:
        raise ValueError("no")
    except (ValueError, TypeError):
        return x


def decorated(x: torch.Tensor) -> Any:
    def twice(f: Any) -> Any:
        @functools.wraps(f)
        def wrapper(t: torch.Tensor) -> torch.Tensor:
            return f(f(t))

        return wrapper

    @twice
    def step(t: torch.Tensor) -> torch.Tensor:
        return t + 1

    return step(x), step.__name__


def imports(x: torch.Tensor) -> torch.Tensor:
    from torch.nn import functional

    return functional.relu(x)


def defaults(x: torch.Tensor) -> Any:
    table = collections.defaultdict(list)
    for i in range(4):
        table[i % 2].append(x * i)
    return {k: torch.stack(v) for k, v in table.items()}


def queue(x: torch.Tensor) -> Any:
    q = collections.deque([x], maxlen=2)
    for i in range(3):
        q.append(q[-1] * 0.5 + i)
    q.appendleft(x)
    return list(q), len(q)


def in_place_shapes(x: torch.Tensor) -> Any:
    y = x.clone()
    z = y[:, :4]
    y.unsqueeze_(0).transpose_(1, 2)
    y += 1
    y.squeeze_(0)
    return y, z


def autocast_inside(x: torch.Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.T
    with torch.autocast("cpu", enabled=False):
        z = x @ x.T
    return y, z


class Memo(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * sum(p.numel() for p in self.parameters())


class Boxed:
    def __init__(self, t: torch.Tensor) -> None:
        self.t = t

    def __add__(self, other: Any) -> Boxed:
        return Boxed(self.t + other.t)


def ranges_written(x: torch.Tensor) -> torch.Tensor:
    hot = torch.zeros_like(x)
    hot[range(len(x)), [3, 1, 2, 0]] = 1.0
    return hot * x


PROGRAMS = {
    "list index": lambda x: (
        x[[0, 2]],
        x[:, [1, 3]],
        x[[[0, 1], [1, 2]]],
        x[..., [-1], None],
    ),
    "slice of a number": sliced,
    "match": match_on,
    "exceptions": caught,
    "wraps": decorated,
    "from import": imports,
    "defaultdict": defaults,
    "deque": queue,
    "shapes in place": in_place_shapes,
    "autocast": autocast_inside,
    "struct sequences": lambda x: (x.max(-1), x.topk(3), torch.frexp(x)),
    "named results": lambda x: torch.max(x, dim=1).values + x.sort(-1).indices[:, 0],
    "a device": lambda x: (x + 1, torch.device("cpu"), {"device": x.device}),
    "itertools": lambda x: [
        x[a] * b + c
        for a, (b, c) in zip(
            itertools.cycle([0, 1]), itertools.product(range(2), range(2)), strict=False
        )
    ],
    "repeat": lambda x: x.new_zeros(tuple(itertools.repeat(2, 3))),
    "accumulate": lambda x: [x * k for k in itertools.accumulate([1, 2, 3])],
    "pairwise": lambda x: [b - a for a, b in itertools.pairwise(x.unbind(0))],
    "reduce": lambda x: functools.reduce(operator.add, x.unbind(0)),
    "operator": lambda x: operator.mul(x, 3) + operator.matmul(x, x.T).sum(),
    "map of a native": lambda x: list(map(torch.exp, x.unbind(0))),
    "math": lambda x: x * (math.comb(5, 2) + math.isqrt(17) + math.hypot(3, 4)),
    "sum of objects": lambda x: sum([Boxed(x), Boxed(x * 2)], start=Boxed(x)).t,
    "sum of lists": lambda x: x.view(sum([[2, 2], [8]], [])),  # noqa: RUF017
    "all of values": lambda x: x * 2 if all({"a": 1, "b": x.shape}.values()) else x,
    "sorted dict": lambda x: sorted({"b": x, "a": x * 2}),
    "ordered dict": lambda x: [
        d.move_to_end("a") or list(d) for d in [collections.OrderedDict(a=x, b=x)]
    ],
    "stars": lambda x: x.reshape(*x.size()[:1], *(n // 2 for n in x.shape[1:]), 2),
    "extended items": lambda x: [v * k for k, v in (*{1: x}.items(), *{2: x}.items())],
    "autograd function": lambda x: Square.apply(x) + 1,
    "script": lambda x: scripted(x, 2) + scripted(x, 1),
    "new tensor": lambda x: x + x.new_tensor([1.0] * 8),
    "one hot": lambda x: F.one_hot(x.argmax(-1), 8),
    "out": lambda x: (
        torch.exp(torch.add(x, 1, out=torch.empty_like(x)), out=torch.empty(x.shape))
        * 2
    ),
    "out, part of a buffer": lambda x: torch.cat(
        [x, x], out=torch.zeros(2 * x.size(0), x.size(1) + 1)[:, 1:]
    ),
    "empty": lambda x: (torch.zeros(0), torch.empty(2, 0), x[1:1]),
    "empty at the end": lambda x: (
        x[:, x.size(1) :] * x[:, :0],
        x[x.size(0) :].sum(0),
        x[1:1].exp(),
    ),
    "max pool 1d": lambda x: F.max_pool1d(x[None], 2),
    "average pool 3d": lambda x: F.adaptive_avg_pool3d(x.view(1, 1, 2, 2, 8), 1),
    "inverse": lambda x: torch.linalg.inv(x @ x.T + 9 * torch.eye(4)),
    "instance norm": lambda x: F.instance_norm(x.view(1, 4, 8)),
    "complex parts": lambda x: torch.fft.fft(x).real + torch.fft.fft(x).imag,
    "gru cell": lambda x: torch.gru_cell(x, x, x.new_ones(24, 8), x.new_ones(24, 8)),
    "operator by name": lambda x: (
        torch.ops.aten.relu.default(x) + torch.ops.aten.mul(x, 2)
    ),
    "an enumeration": lambda x: x * Kind.B.value if Kind.A is not Kind.B else x,
    "a tensor of a list": lambda x: x * torch.Tensor([2, 3])[0] + torch.Tensor((1,)),
    "einsum of three": lambda x: torch.einsum("ab,ab,cb->ac", x, x, x),
    "a range of rows": lambda x: x[range(len(x)), range(0, 8, 2)],
    "a range of places": ranges_written,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    program = PROGRAMS[name]
    with torch.no_grad():
        fast = pyjit.compile(program)
        for seed in range(3):
            x = values(4, 8, seed=seed)
            same(program(x), fast(x.clone()))
        assert pyjit.stats(fast)["eager_reasons"] == []
        # What TorchScript's profiling executor dispatches depends on what ran before.
        if name != "script":
            assert (graphs(fast), hits(fast)) == (1, 2)
        x = values(4, 8, seed=5).double()
        same(program(x), fast(x.clone()))


def test_a_list_of_indices_is_guarded() -> None:
    f = pyjit.compile(lambda x, at: x[at])
    x = values(4, 8)
    for at in ([0, 1], [1, 2], [0, 1], [0, 1, 2], [True, False, True, False]):
        same(x[at], f(x, list(at)))


def test_read_after_append() -> None:
    def run(log: list[Any], x: torch.Tensor) -> Any:
        log.append(x * 2)
        log.append(x * 3)
        total = torch.stack(log).sum(0)
        log.append(total)
        return total, len(log), log[0]

    f = pyjit.compile(run)
    mine: list[Any] = []
    theirs: list[Any] = []
    for seed in range(4):
        x = values(4, seed=seed)
        same(run(mine, x), f(theirs, x))
        same(mine, theirs)
        if seed == 1:
            mine.clear()
            theirs.clear()
    mine, theirs = [values(4)], [values(4)]
    same(run(mine, x), f(theirs, x))
    assert graphs(f) >= 2
    assert hits(f) >= 1


def test_tied_parameters_are_told_apart() -> None:
    with torch.no_grad():
        model = Memo().eval()
        f = pyjit.compile(model)
        x = values(2, 8)
        same(x * 144, f(x))
        same(x * 144, f(x))
        assert hits(f) == 1
        model.b.weight = model.a.weight
        same(x * 80, f(x))
        model.b.weight = nn.Parameter(values(8, 8))
        same(x * 144, f(x))


def test_weak_references() -> None:
    a, b = values(4), values(4, seed=1)
    box = [weakref.ref(a)]

    def run(x: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
        return x * 2 if box[0]() is known else x * 3

    f = pyjit.compile(run)
    for known in (a, a, b, a):
        same(run(a, known), f(a, known))
    box[0] = weakref.ref(b)
    for known in (a, b):
        same(run(a, known), f(a, known))
    assert pyjit.stats(f)["eager_reasons"] == []


def test_a_cached_function() -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        return x * scale_of(3)

    scale_of.cache_clear()
    SETTINGS["scale"] = 2.0
    f = pyjit.compile(run)
    x = values(4)
    for _ in range(4):
        same(x * 6.0, f(x))
    before = hits(f)  # the first call, which fills the cache, is a graph break
    same(x * 6.0, f(x))
    assert hits(f) > before
    # The cache still answers what it computed with the old setting.
    SETTINGS["scale"] = 5.0
    same(x * 6.0, f(x))
    scale_of(4)
    same(x * 6.0, f(x))
    scale_of.cache_clear()
    for _ in range(4):
        same(x * 15.0, f(x))


@functools.lru_cache(maxsize=1)
def mask_of(n: int, *, value: float = 1.0) -> torch.Tensor:
    return torch.full((n,), value)


def test_a_bounded_cache_of_tensors() -> None:
    def run(x: torch.Tensor, value: float) -> torch.Tensor:
        return x * mask_of(4, value=value)

    mask_of.cache_clear()
    f = pyjit.compile(run)
    x = values(4)
    for _ in range(4):
        same(x * 2.0, f(x, 2.0))
    before = hits(f)
    assert before
    mask_of(4, value=2.0).mul_(3)
    same(x * 6.0, f(x, 2.0))
    assert hits(f) > before
    for _ in range(3):
        same(x * 3.0, f(x, 3.0))  # throws the other one out
    same(x * 2.0, f(x, 2.0))


def test_no_kernel_waits_for_itself() -> None:
    """Layer norms around linears of a flattened sum: transformers' OPT."""
    a, b = nn.Linear(32, 64), nn.Linear(64, 32)
    first, second = nn.LayerNorm(32), nn.LayerNorm(32)

    def run(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h = x + y
        flat = h.reshape(-1, 32)
        return second((flat + b(a(first(flat)).relu())).view(h.shape))

    with torch.no_grad():
        f = pyjit.compile(run)
        for seed in range(3):
            x, y = values(2, 16, 32, seed=seed), values(2, 16, 32, seed=seed + 9)
            same(run(x, y), f(x, y))
        assert hits(f) == 2


def test_autocast_off_inside_of_on() -> None:
    layer = nn.Linear(8, 8)

    def run(x: torch.Tensor) -> Any:
        with torch.autocast("cpu", enabled=False):
            y = layer(x)
        return y, layer(x)

    f = pyjit.compile(run)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        for seed in range(3):
            x = values(4, 8, seed=seed)
            same(run(x), f(x))
