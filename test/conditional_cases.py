# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops that data end and branches on data, for a simulated device and for a GPU.

Each case is a function of a device that gives a callable and a list of arguments, one tuple for
each call: numbers of rounds change between calls.
"""

from __future__ import annotations

from collections.abc import Callable

import pyjit
import torch
from launch_cases import agree
from torch import nn

Made = tuple[Callable, list[tuple]]


def newton(device: str) -> Made:
    def f(x: torch.Tensor, a: torch.Tensor, tol: torch.Tensor) -> torch.Tensor:
        err = (x * x - a).abs().max()
        while err > tol:
            x = 0.5 * (x + a / x)
            err = (x * x - a).abs().max()
        return x

    a = torch.tensor([2.0, 3, 5], device=device)
    tol = torch.tensor(1e-4, device=device)
    starts = (100.0, 1.5, 1e4, 3.0, 1e6, 2.0, 50.0, 1e5)
    calls = [(torch.full((3,), start, device=device), a, tol) for start in starts]
    return f, [*calls, (a.sqrt(), a, tol), *calls, (a.sqrt(), a, tol)]


def halve(device: str) -> Made:
    """A value that is read behind the loop, and a reduction over many rows."""

    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = torch.zeros_like(x)
        while x.abs().sum() > 1:
            total = total + x
            x = x * 0.5
        return x, torch.softmax(total, -1)

    return f, [
        (torch.randn(40, 70, device=device) * scale,)
        for scale in (3.0, 100.0, 1e-6, 30.0, 1e4, 1.0, 10.0, 0.0, 300.0, 3.0)
    ]


def power(device: str) -> Made:
    """A matmul of the vendor library in each round."""

    def f(m: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        change = v.abs().sum()
        while change > 1e-3:
            w = torch.mv(m, v)
            w = w / w.norm()
            change = (w - v).abs().sum()
            v = w
        return v

    def matrix(seed: int) -> torch.Tensor:
        m = torch.rand(32, 32, generator=torch.Generator().manual_seed(seed))
        return (m @ m.t() + 0.3).to(device)

    return f, [(matrix(i % 4), torch.ones(32, device=device)) for i in range(12)]


def layer(device: str) -> Made:
    """Parameters inside the loop."""
    step = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 16)).to(device)
    step.requires_grad_(requires_grad=False)

    def f(x: torch.Tensor) -> torch.Tensor:
        while x.abs().max() > 0.3:
            x = 0.5 * x + 0.1 * step(x)
        return x + 1

    return f, [
        (torch.randn(8, 16, device=device) * scale,)
        for scale in (10.0, 1.0, 1e-3, 100.0, 5.0, 20.0, 1e3, 2.0)
    ]


def swap(device: str) -> Made:
    """Two loop-carried values that need one another, and one that nothing changes."""

    def f(a: torch.Tensor, b: torch.Tensor, s: torch.Tensor) -> tuple:
        while a.sum() < s:
            a, b = a + b, a * 0.5
        return a, b, s + 1

    return f, [
        (
            torch.ones(5, device=device),
            torch.full((5,), 0.5, device=device),
            torch.tensor(float(limit), device=device),
        )
        for limit in (50, 3, 1e4, 7, 1e6, 100, 20, 1e5)
    ]


def many_rounds(device: str) -> Made:
    def f(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        while n > 0:
            x = x + 0.5
            n = n - 1
        return x

    return f, [
        (torch.zeros(4, device=device), torch.tensor(float(n), device=device))
        for n in (20, 300, 0, 3000, 10, 1, 2000)
    ]


def either(device: str) -> Made:
    """A matmul of the vendor library on one side, a kernel on the other."""

    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x * 2
        if y.sum() > 0:
            y = torch.mm(y, y.t()).relu()
        else:
            y = y.cos()
        return y + x, torch.softmax(y, -1)

    base = torch.rand(12, 12, generator=torch.Generator().manual_seed(3)).to(device)
    return f, [(base * sign,) for sign in (1, -1, 1, -1, -1, -2, 0.5, 1, -1, 2, 2, -3)]


def nested(device: str) -> Made:
    """A branch in a branch."""

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            if y.sum() > 0:
                z = x + y
            else:
                z = x - 2 * y
        else:
            z = (x * y).exp()
        return z * 3

    pairs = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
    return f, [
        (
            torch.full((7,), 0.5 * a, device=device),
            torch.full((7,), 1.5 * b, device=device),
        )
        for a, b in [*pairs, *pairs, *reversed(pairs), *pairs]
    ]


CASES = {f.__name__: f for f in (newton, halve, power, layer, swap, many_rounds)}
BRANCHES = {f.__name__: f for f in (either, nested)}


def check(fast: Callable, f: Callable, calls: list[tuple], rounds: int = 4) -> None:
    """All answers agree with ``f``; one program holds the loop or branch."""
    agree(fast, f, calls * rounds, rtol=1e-4, atol=1e-4)
    stats = pyjit.stats(fast)
    assert stats["loops"] + stats["branches"] >= 1, stats
    assert not stats["eager_reasons"], stats["eager_reasons"]


def report(fast: Callable, args: tuple) -> str:
    return str(pyjit.explain(fast, detail="all")(*args))
