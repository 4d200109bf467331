# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Circumstances that change between calls, and small functions as people write them to be called in them.

Each program is made anew by its factory: a function of two matrices, an int, a float and a flag, the modules
that it uses, and the state that it keeps.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

LAYOUTS = (
    *["plain"] * 6,
    *("transposed", "strided", "offset", "expanded", "parameter", "computed"),
)
DTYPES = (
    *[torch.float32] * 3,
    *(torch.float64, torch.bfloat16, torch.int64, torch.bool),
)
MODES: dict[str, Callable[[], Any]] = {
    "none": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "device": lambda: torch.device("cpu"),
}


@dataclasses.dataclass(frozen=True)
class Circumstances:
    rows: int = 3
    columns: int = 4
    layouts: tuple[str, str] = ("plain", "plain")
    gradients: tuple[bool, bool] = (False, False)
    dtype: torch.dtype = torch.float32
    mode: str = "none"
    shared: str = "no"  # how y shares x's memory
    training: bool = True
    k: int = 2
    s: float = 0.5
    flag: bool = False


CHOICES: dict[str, Callable[[random.Random], Any]] = {
    "rows": lambda r: r.choice((0, 1, 2, 3, 5, 7)),
    "columns": lambda r: r.choice((1, 2, 3, 4, 6, 17)),
    "layouts": lambda r: (r.choice(LAYOUTS), r.choice(LAYOUTS)),
    "gradients": lambda r: (r.random() < 0.5, r.random() < 0.5),
    "dtype": lambda r: r.choice(DTYPES),
    "mode": lambda r: r.choice(tuple(MODES)),
    "shared": lambda r: r.choice(("no", "no", "same", "view", "overlap", "detached")),
    "training": lambda r: r.random() < 0.5,
    "k": lambda r: r.choice((-1, 0, 1, 2, 3, 4)),
    "s": lambda r: r.choice((0.5, 1.0, 0.0, -2.0, 3)),
    "flag": lambda r: r.random() < 0.5,
}


def draw_circumstances(r: random.Random, calls: int) -> list[tuple[Circumstances, int]]:
    """Of each call, and the seed of its arguments; most are those of the call before."""
    drawn, now = [], Circumstances()
    how_often = r.random()
    for _ in range(calls):
        if r.random() < how_often:
            changed = r.sample(tuple(CHOICES), r.choice((1, 1, 2, 3)))
            now = dataclasses.replace(now, **{c: CHOICES[c](r) for c in changed})
        drawn.append((now, r.randrange(10**6)))
    return drawn


def _matrix(c: Circumstances, number: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + number)

    def make(*shape: int) -> torch.Tensor:
        drawn = torch.randn(shape, generator=generator)
        if c.dtype == torch.bool:
            return drawn > 0
        return (
            drawn.to(c.dtype) if c.dtype.is_floating_point else (3 * drawn).to(c.dtype)
        )

    rows, columns, layout = c.rows, c.columns, c.layouts[number]
    if layout == "transposed":
        t = make(columns, rows).t()
    elif layout == "strided":
        t = make(rows, 2 * columns)[:, ::2]
    elif layout == "offset":
        t = make(rows + 2, columns)[1:-1]
    elif layout == "expanded":
        t = make(1, columns).expand(rows, columns)
    else:
        t = make(rows, columns)
    if not c.dtype.is_floating_point:
        return t
    if layout == "parameter":
        return nn.Parameter(t)
    t.requires_grad_(c.gradients[number])
    return t * 1 if layout == "computed" else t


def arguments(c: Circumstances, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = _matrix(c, 0, seed)
    if c.shared == "same":
        return x, x
    if c.shared == "view":
        return x, x[:, :]
    if c.shared == "detached":
        return x, x.detach()
    if c.shared == "overlap":
        one_more = dataclasses.replace(
            c, rows=c.rows + 1, layouts=("plain",) * 2, gradients=(False,) * 2
        )
        both = _matrix(one_more, 0, seed)
        return both[1:], both[:-1]
    return x, _matrix(c, 1, seed)


class Program(NamedTuple):
    function: Callable[..., Any]
    modules: tuple[nn.Module, ...] = ()
    state: Mapping[str, Any] = MappingProxyType({})


def in_place() -> Program:
    def f(x: Any, y: Any, k: int, s: float, flag: bool) -> Any:
        x += y
        if flag:
            y.mul_(k)
        return x * s

    return Program(f)


def in_place_through_a_view() -> Program:
    def f(x: Any, y: Any, k: int, s: float, flag: bool) -> Any:
        part = x[:, 1:]
        part *= 2
        if flag:
            x[0] = y[0]
        return x.sum(0), part

    return Program(f)


def aliases() -> Program:
    def f(x: Any, y: Any, k: int, s: float, flag: bool) -> Any:
        flat = x.view(-1) if x.is_contiguous() else None
        shown = x.unsqueeze(k) if -3 <= k < 3 else None
        return x, x.t(), x[1:], flat, x.detach(), y.reshape(-1), x if flag else y, shown

    return Program(f)


def data() -> Program:
    def f(x: Any, y: Any, k: int, s: float, flag: bool) -> Any:
        z = x * 1.0
        if flag:
            z.data.mul_(2)
        d = z.data
        return z, d, x.data + 1, (d.sum(), z[1:])

    return Program(f)


def detached_writes() -> Program:
    def f(x: Any, y: Any, k: int, s: float, flag: bool) -> Any:
        d = x.detach()
        d.add_(1)
        if flag:
            with torch.no_grad():
                x.mul_(2)
        return x * 2, d

    return Program(f)


def parts() -> Program:
    def f(x: Any, y: Any, k: int, s: float, flag: bool) -> Any:
        a, b = x[:, :k], y[:, k:]
        return torch.cat([a, b] if flag else [b, a], 1), a, x[..., None, :k]

    return Program(f)


def padded() -> Program:
    def f(x: Any, y: Any, k: int, s: float, flag: bool) -> Any:
        rows, columns = x.shape
        z = x.new_zeros(rows, columns + abs(k))
        z[:, :columns] = x
        z[-1:] += 1
        return z, torch.full((columns,), s) + columns, torch.eye(columns)[:, :rows]

    return Program(f)


def attention() -> Program:
    def f(x: Any, y: Any, k: int, s: float, flag: bool) -> Any:
        a = (x @ y.t()) * s
        if flag:
            a = a.masked_fill(torch.ones_like(a, dtype=torch.bool).triu(k), -1e4)
        return a.softmax(-1) @ x

    return Program(f)


def network() -> Program:
    model = nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Dropout(0.2), nn.Linear(8, 4)
    )

    def f(x: Any, y: Any, k: int, s: float, flag: bool) -> Any:
        return model(x) + y if flag else model(x) * s

    return Program(f, (model,))


def counters() -> Program:
    state: dict[str, Any] = {"calls": 0, "seen": [], "mean": None}

    def f(x: Any, y: Any, k: int, s: float, flag: bool) -> Any:
        state["calls"] += 1
        state["seen"].append(state["calls"] * k)
        if len(state["seen"]) > 3:
            state["seen"].pop(0)
        mean = x.detach().float().mean() if x.numel() else None
        before = state["mean"]
        state["mean"] = (
            mean if before is None or mean is None else before * 0.9 + mean * 0.1
        )
        return x * state["calls"] + sum(state["seen"])

    return Program(f, (), state)


def statistics() -> Program:
    class Running(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros((), dtype=torch.long))
            self.register_buffer("mean", torch.zeros(4))
            self.weight, self.calls = nn.Parameter(torch.ones(4)), 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.training:
                self.count += 1
                self.mean.lerp_(x.detach().float().mean(0), 0.1)
                self.calls += 1
            return (x - self.mean) * self.weight * self.calls + self.count

    model = Running()

    def f(x: Any, y: Any, k: int, s: float, flag: bool) -> Any:
        return model(x), model(y) if flag else None

    return Program(f, (model,))


def ring() -> Program:
    state: dict[str, Any] = {"kept": torch.zeros(8, 4), "at": 0}

    def f(x: Any, y: Any, k: int, s: float, flag: bool) -> Any:
        n, at = x.shape[0], state["at"]
        at = 0 if at + n > 8 else at
        state["kept"][at : at + n] = x.detach()
        state["at"] = at + n
        return state["kept"][: at + n].sum(0) + x.mean(0) if flag else state["kept"] * 1

    return Program(f, (), state)


def branches() -> Program:
    def f(x: Any, y: Any, k: int, s: float, flag: bool) -> Any:
        r = x * 2 if x.sum() > 0 else x - 1
        return r + y if flag and y.max() > 0.5 else r

    return Program(f)


def loops() -> Program:
    def f(x: Any, y: Any, k: int, s: float, flag: bool) -> Any:
        for i in range(k):
            x = torch.tanh(x + y * i)
        n = 0
        while flag and x.abs().sum() > 1 and n < 6:
            x, n = x * 0.5, n + 1
        return x, n

    return Program(f)


def caught() -> Program:
    def f(x: Any, y: Any, k: int, s: float, flag: bool) -> Any:
        x.add_(1)
        try:
            r = x.view(k, -1)
        except RuntimeError:
            r = x.reshape(-1)
        finally:
            y = y + 1
        if flag and k > 2:
            raise ValueError(f"k is {k} of {tuple(x.shape)}")
        return r, y[k]

    return Program(f)


def modes_inside() -> Program:
    layer = nn.Linear(4, 4)

    def f(x: Any, y: Any, k: int, s: float, flag: bool) -> Any:
        with torch.no_grad():
            t = layer(x)
            t += 1
        with torch.set_grad_enabled(flag), torch.autocast("cpu", enabled=not flag):
            u = layer(y)
        return t, u, (t.detach() * u).sum()

    return Program(f, (layer,))


def dtypes() -> Program:
    def f(x: Any, y: Any, k: int, s: float, flag: bool) -> Any:
        whole = x.dtype == torch.bool
        return (
            *(x + k, x * s, x / 2, x == y, x > s, (x > 0) & (y > 0), x.float() + y),
            *(x.to(torch.int32), torch.tensor(s) * x, torch.tensor([k]) + y),
            ~x if whole else -x // 2,
        )

    return Program(f)


def reductions() -> Program:
    def f(x: Any, y: Any, k: int, s: float, flag: bool) -> Any:
        return x.sum(), x.amax(-1), x.argmax(1), (x > y).any(0), x.cumsum(k % 2)

    return Program(f)


def losses() -> Program:
    def f(x: Any, y: Any, k: int, s: float, flag: bool) -> Any:
        target = y.argmax(1)
        smoothing = 0.1 if flag else 0.0
        return (
            F.cross_entropy(x, target, label_smoothing=smoothing),
            F.smooth_l1_loss(x, y, beta=abs(s) + 0.1),
            F.cosine_similarity(x, y),
        )

    return Program(f)


def indices() -> Program:
    def f(x: Any, y: Any, k: int, s: float, flag: bool) -> Any:
        z = x[torch.arange(x.shape[0] - 1, -1, -1)]
        if flag:
            z[range(len(z)), 0] = 1
        i = (y.float().abs() * 3).long() % max(x.shape[1], 1)
        return z, x[:, [0, -1]], torch.where(x > 0, x, y), x.clone().scatter_(1, i, s)

    return Program(f)


def draws() -> Program:
    def f(x: Any, y: Any, k: int, s: float, flag: bool) -> Any:
        return F.dropout(x, 0.3, training=flag), torch.randn(x.shape), torch.randperm(4)

    return Program(f)


def containers() -> Program:
    def f(x: Any, y: Any, k: int, s: float, flag: bool) -> Any:
        d: dict[Any, Any] = {"x": x, "y": y, k: s}
        for name, value in list(d.items()):
            if isinstance(value, torch.Tensor):
                d[f"{name}2"] = value * s
        if flag:
            d.pop("x")
        rows = [row * i for i, row in enumerate(x)]
        pairs = [p + q for p, q in zip(x.unbind(1), y.unbind(1), strict=True)]
        return d, rows, pairs, x.chunk(2, 1)

    return Program(f)


def texts() -> Program:
    def f(x: Any, y: Any, k: int, s: float, flag: bool) -> Any:
        if flag:
            print(f"{x.shape} {k:3d} {s:.3f} {x.dtype} {x.requires_grad}")
        shape = f"{k}-{s}-{tuple(y.shape)}"
        return x + y, shape, x.stride(), x.is_leaf, x._version, x is y, y.is_inference()

    return Program(f)


PROGRAMS: dict[str, Callable[[], Program]] = {
    f.__name__: f
    for f in (
        *(in_place, in_place_through_a_view, aliases, data, detached_writes, parts),
        *(padded, attention, network, counters, statistics, ring, branches, loops),
        *(caught, modes_inside, dtypes, reductions, losses, indices, draws),
        *(containers, texts),
    )
}
