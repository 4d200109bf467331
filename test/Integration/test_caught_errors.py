# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Errors of operators on tensors that the program itself catches: whether they come depends on
data, which no guard sees, or on sizes that a specialization leaves open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration.harness import difference, snapshot

OF_SIZES: dict[str, Callable[[torch.Tensor], Any]] = {
    "view": lambda x: x.view(-1, 4),
    "item": lambda x: x[6],
    "add": lambda x: x + torch.ones(3),
    "linear": lambda x: F.linear(x, torch.ones(2, 3)),
    "cat": lambda x: torch.cat([x, torch.ones(2, 3)]),
    "index": lambda x: x[torch.tensor([0, 6])],
    "composite": lambda x: torch.einsum("ij,j->i", x, torch.ones(3)),
}
OF_DATA: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "index": lambda x, i: x[i],
    "gather": lambda x, i: x.gather(0, i),
    "division": lambda x, i: 7 // i,
    "cholesky": lambda x, i: torch.linalg.cholesky(torch.diag(i.float())),
    "loss": lambda x, i: F.cross_entropy(x.expand(2, 4), i),
}


def guarded(g: Callable[..., Any]) -> Callable[..., Any]:
    def f(x: torch.Tensor, *rest: torch.Tensor) -> Any:
        x = x * 2
        try:
            y = g(x, *rest)
        except (RuntimeError, IndexError) as error:
            y = -x.sum(), type(error).__name__
        x.add_(1)
        return y, x

    return f


def compare(f: Callable[..., Any], calls: list[tuple[torch.Tensor, ...]]) -> None:
    fast = pyjit.compile(f)
    with torch.no_grad():
        for args in calls:
            found = difference(snapshot(f(*args)), snapshot(fast(*args)))
            assert not found, (args, found)


@pytest.mark.parametrize("name", OF_SIZES)
def test_sizes(name: str) -> None:
    sizes = [(5, 3), (5, 3), (7, 3), (4, 4), (8, 2), (6, 3), (3, 5), (2, 2), (8, 4)]
    compare(guarded(OF_SIZES[name]), [(torch.randn(n, m),) for n, m in sizes])


@pytest.mark.parametrize("name", OF_DATA)
def test_data(name: str) -> None:
    """The first call raises."""
    indices = ([0, 9], [1, 2], [3, 3], [0, -7], [1, 1], [2, 0])
    compare(
        guarded(OF_DATA[name]), [(torch.randn(4), torch.tensor(i)) for i in indices]
    )


def test_with_and_finally() -> None:
    """Handlers that are not `except`, around a call of a function."""

    class Swallows:
        def __init__(self, log: list[str]) -> None:
            self.log = log

        def __enter__(self) -> None:
            self.log.append("in")

        def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
            self.log.append(kind.__name__ if kind else "out")
            return True

    def pick(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x[i] * 2

    def f(x: torch.Tensor, i: torch.Tensor) -> Any:
        log: list[str] = []
        y = x
        with Swallows(log):
            try:
                y = pick(x, i)
            finally:
                log.append("finally")
        return y + 1, log

    compare(f, [(torch.randn(4), torch.tensor([i])) for i in (9, 1, 2, -9, 0, 3)])
