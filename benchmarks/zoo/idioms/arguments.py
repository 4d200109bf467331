# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arguments and results: what goes into a call and what comes out."""

from __future__ import annotations

import collections
import dataclasses
import enum
import typing

import torch

from zoo.idioms.registry import Kwargs, T, idiom


@idiom(lambda g, n: (T(g, n, 8), Kwargs(scale=2.0, bias=T(g, 8))))
def keyword_arguments(x, *, scale=1.0, bias=None, **rest):
    y = x * scale
    return y if bias is None else y + bias


@idiom(lambda g, n: (T(g, n, 8), T(g, n, 8), T(g, n, 8)))
def varargs(*xs):
    return sum(xs) / len(xs)


@idiom(lambda g, n: (T(g, n, 8), Kwargs(a=T(g, n, 8), b=T(g, n, 8))))
def double_star(x, **named):
    return {k: v + x for k, v in sorted(named.items())}


@idiom(lambda g, n: ({"x": T(g, n, 8), "y": [T(g, n, 8), T(g, n, 8)]},))
def nested_input(batch):
    a, (b, c) = batch["x"], batch["y"]
    return {"sum": a + b, "rest": [c, (a, b * 2)], "n": len(batch["y"])}


@dataclasses.dataclass
class Point:
    x: torch.Tensor
    y: torch.Tensor
    scale: float = 1.0

    def norm(self) -> torch.Tensor:
        return (self.x**2 + self.y**2).sqrt() * self.scale


@idiom(lambda g, n: (Point(T(g, n), T(g, n), 2.0),))
def dataclass_in_and_out(p):
    return Point(p.x * 2, p.norm()), dataclasses.replace(p, scale=3.0).norm()


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    x: torch.Tensor
    n: int = 3


@idiom()
def dataclass_frozen_slots(x):
    f = Frozen(x * 2)
    return f.x + f.n, Frozen(f.x, 5)


class Pair(typing.NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


@idiom()
def named_tuple(x):
    p = Pair(x.sin(), second=x.cos())
    return p, p._replace(first=p.second), p._asdict()["first"]


@idiom()
def ordered_and_default_dicts(x):
    d = collections.OrderedDict(a=x, b=x + 1)
    d.move_to_end("a")
    e = collections.defaultdict(list)
    for i in range(4):
        e[i % 2].append(x * i)
    return list(d.values()), {k: torch.stack(v) for k, v in e.items()}


@idiom()
def deque_and_counter(x):
    q = collections.deque([x], maxlen=3)
    for i in range(5):
        q.append(q[-1] * 0.5 + i)
    return list(q)


class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"


@idiom(lambda g, n: (T(g, n, 8), Mode.SLOW))
def enumeration(x, mode):
    if mode is Mode.FAST:
        return x
    return x * 2 if mode.value == "slow" and mode == Mode.SLOW else x * 3
