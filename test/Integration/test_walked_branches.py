# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Branches on data in loops over Python's objects: assertions about each of several tensors, steps of a solver.

What a graph break there would hand on is another object in each call (the loop's iterator, a module that the call has
made), so the recording goes through, and the program checks that each branch goes the way that it went.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import attempt, difference, snapshot
from torch import nn


def _checked(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for t in [x, y]:
        if t.min() < 0:
            raise ValueError("negative")
        if t.max() > 1:
            raise OverflowError("too large")
    return ((x - y) ** 2).mean()


def _named(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for name, t in {"x": x, "y": y}.items():
        if not torch.isfinite(t).all():
            raise ValueError(f"{name} is not finite")
    return x * y


def _numbered(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    total = x.new_zeros(())
    for i, (a, b) in enumerate(zip(x, y)):
        if a.sum() > 100:
            continue
        total = total + (a * b).sum() * i
    return total


class _Wrapped(nn.Module):
    def __init__(self, inner: Callable[..., Any]) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, t: torch.Tensor, x: torch.Tensor) -> Any:
        return self.inner(t, x)


TIMES = torch.linspace(0, 1, 4)


def _solved(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """As torchdiffeq's fixed grids: a module made by the call, cells, times asked for in a loop."""
    slope = _Wrapped(lambda t, s: (s * y).tanh() + t)

    def check(t: torch.Tensor) -> None:
        assert (t[1:] > t[:-1]).all() or (t[1:] < t[:-1]).all()

    check(TIMES)
    grid = torch.linspace(0, 1, 7)
    out, j, state = [x], 1, x
    for t0, t1 in zip(grid[:-1], grid[1:]):  # noqa: RUF007
        after = state + slope(t0, state) * (t1 - t0)
        while j < len(TIMES) and t1 >= TIMES[j]:
            out.append(state + (after - state) * (TIMES[j] - t0) / (t1 - t0))
            j += 1
        state = after
    return torch.stack(out)


def compare(
    f: Callable[..., Any],
    calls: int,
    make: Callable[[int], tuple[torch.Tensor, torch.Tensor]],
    *,
    grad: bool,
    mode: bool = True,
) -> dict[str, Any]:
    """What calls give and raise, and gradients of the first argument, which requires grad; ``mode``: with grad mode
    on."""
    fast = pyjit.compile(f)
    for n in range(calls):
        seen = []
        for call in (f, fast):
            torch.manual_seed(n)
            x, y = make(n)
            x.requires_grad_(grad)
            with torch.set_grad_enabled(mode):
                result = attempt(call, x, y)
            if mode and isinstance(result, torch.Tensor) and result.requires_grad:
                result.square().sum().backward()
            # How often a gradient was written differs (docs/Status.md).
            seen.append(snapshot([result, None if x.grad is None else x.grad.clone()]))
        assert not (found := difference(*seen)), f"call {n}: {found}"
    return pyjit.stats(fast)


@pytest.mark.parametrize("grad", [False, True], ids=["plain", "grad"])
@pytest.mark.parametrize("f", [_checked, _named, _numbered, _solved])
def test_one_graph(f: Callable[..., Any], grad: bool) -> None:
    stats = compare(f, 8, lambda n: (torch.rand(3, 4), torch.rand(3, 4)), grad=grad)
    assert stats["hits"] >= 4 and not stats["graph_breaks"]


@pytest.mark.parametrize("grad", [False, True], ids=["plain", "grad"])
@pytest.mark.parametrize("f", [_checked, _named, _numbered])
def test_both_ways(f: Callable[..., Any], grad: bool) -> None:
    """Calls that raise, and that skip some rows, among the others."""

    def make(n: int) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = torch.rand(3, 4), torch.rand(3, 4)
        if n % 5 == 3:
            y[n % 3, 1] = float("inf") if n % 2 else 200.0
        if n % 7 == 4:
            x[n % 3, 0] = 500.0
        return x, y

    compare(f, 40, make, grad=grad)


def _larger(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return max(x.sum(), y.sum()) * 2


def _bounded(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return min(x.sum() * 0.1, 1.0) + y


def _hinge(x: torch.Tensor, y: torch.Tensor) -> Any:
    return max(0, (1 - x * y).mean() * y.sign().mean())


def _of_three(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return max(x[0, 0], y[0, 0], (x + y).mean())


def _steps(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    t = torch.zeros(())
    for _ in range(3):
        t = min(t + x.mean(), y.max())
    return t


class _Loud(torch.Tensor):
    def __gt__(self, other: Any) -> bool:  # type: ignore[override]
        return False


def _of_subclass(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return max(x.sum().as_subclass(_Loud), y.sum().as_subclass(_Loud)) * 2


MAXIMA = [_larger, _bounded, _hinge, _of_three, _steps, _of_subclass]


@pytest.mark.parametrize("grad", [False, True], ids=["plain", "grad"])
@pytest.mark.parametrize("f", MAXIMA)
def test_maxima(f: Callable[..., Any], grad: bool) -> None:
    """Python's `max` and `min` of tensors: whichever is larger, nans and ties, too."""

    def make(n: int) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = torch.rand(3, 4) * (1 if n < 6 or n % 2 else -1), torch.rand(3, 4)
        if n == 9:
            x[0, 0] = float("nan")
        return (y.clone() if n == 11 else x), y

    stats = compare(f, 14, make, grad=grad)
    assert stats["hits"] >= 4 or f is _of_subclass


def _reshaped(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """What is handed on is a view of an input."""
    shape = x.size()
    x = x.reshape([-1, *shape[-1:]])
    if y.sum() >= 1e9:
        raise ValueError
    return (x * 2).reshape(shape) * y


def _unbound(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    rows, kept = x.unbind(0), x.detach().view(-1)
    if y.sum() >= 1e9:
        raise ValueError
    return rows[0] * 2 + rows[1] * kept[:4]


def _without_grad(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        made = x.reshape(-1)
    if y.sum() >= 1e9:
        raise ValueError
    return made * 2 + x.reshape(-1)


@pytest.mark.parametrize("mode", ["plain", "grad", "no grad"])
@pytest.mark.parametrize("f", [_reshaped, _unbound, _without_grad])
def test_views_over_branches(f: Callable[..., Any], mode: str) -> None:
    stats = compare(
        f,
        6,
        lambda n: (torch.randn(3, 4), torch.randn(3, 4)),
        grad=mode != "plain",
        mode=mode != "no grad",
    )
    assert stats["hits"] >= 3
    assert not stats["graph_breaks"] or mode == "no grad" or f is _without_grad
