# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batch norms whose momentum is a number that differs between calls: a cumulative average (`momentum=None`), or one
that the user sets. One program serves all numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from Integration.harness import Compile, Steps, values
from Integration.training import loss_of, settled, state, whole_step
from torch import nn

# What makes a model; the shape of what it is given, for a number of rows; its type; its layout.
Case = tuple[
    Callable[[], nn.Module],
    Callable[[int], tuple[int, ...]],
    torch.dtype,
    torch.memory_format,
]
FLAT, LAST = torch.contiguous_format, torch.channels_last


def rows(**options: object) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 8),
        nn.BatchNorm1d(8, momentum=None, **options),
        nn.ReLU(),
        nn.Linear(8, 3),
    )


def images() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8, momentum=None),
        nn.ReLU(),
        nn.Conv2d(8, 4, 3),
        nn.BatchNorm2d(4, momentum=None),
    )


def alone(channels: int) -> Callable[[], nn.Module]:
    """Of what no operator in front of it has made: in any layout."""
    return lambda: nn.BatchNorm2d(channels, momentum=None)


CASES: dict[str, Case] = {
    "rows": (rows, lambda n: (n, 4), torch.float32, FLAT),
    "rows without weights": (lambda: rows(affine=False), lambda n: (n, 4), torch.float32, FLAT),
    "rows in double precision": (lambda: rows().double(), lambda n: (n, 4), torch.float64, FLAT),
    "images": (images, lambda n: (n, 3, 8, 8), torch.float32, FLAT),
    "images, channels last": (images, lambda n: (n, 3, 8, 8), torch.float32, LAST),
    "norm": (alone(6), lambda n: (n, 6, 5, 5), torch.float32, FLAT),
    "norm, channels last": (alone(6), lambda n: (n, 6, 5, 5), torch.float32, LAST),
    "norm, bfloat16": (alone(6), lambda n: (n, 6, 5, 5), torch.bfloat16, FLAT),
    "norm, bfloat16, channels last": (alone(6), lambda n: (n, 6, 5, 5), torch.bfloat16, LAST),
    "norm of bfloat16": (lambda: alone(6)().bfloat16(), lambda n: (n, 6, 5, 5), torch.bfloat16, LAST),
    "norm, double precision": (lambda: alone(6)().double(), lambda n: (n, 6, 5, 5), torch.float64, LAST),
}  # fmt: skip


def draw(case: Case, seed: int, n: int = 6) -> torch.Tensor:
    _, shape, dtype, layout = case
    x = values(*shape(n), seed=seed).to(dtype)
    return x.contiguous(memory_format=layout) if x.dim() == 4 else x


@pytest.mark.parametrize("name", CASES)
def test_model_is_trained(name: str) -> None:
    case = CASES[name]

    @settled(hits=7, graphs=4)
    def story(compile: Compile) -> Steps:
        m = case[0]()
        f = compile(m, options={"compare_with_eager": False})
        for i in range(11):
            m.zero_grad()
            out = f(draw(case, i))
            loss_of(out).backward()
            # Gradients of half precision are summed up in another order, whatever the momentum.
            narrow = case[2] == torch.bfloat16
            yield [out, list(m.buffers()) if narrow else state(m)]

    story()


@pytest.mark.parametrize("name", ["rows", "images", "images, channels last"])
def test_whole_step(name: str) -> None:
    """Batches of two sizes."""
    case = CASES[name]

    @settled(hits=8, graphs=6)
    def story(compile: Compile) -> Steps:
        m = case[0]()
        chosen = torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9)
        target = m(draw(case, 99, 6)).detach() * 0.5
        f = compile(whole_step(m, chosen), options={"compare_with_eager": False})
        for i in range(16):
            n = 6 if i % 3 else 4
            yield [f(draw(case, i, n), target[:n]), state(m, chosen)]

    story()


def backward(f: Callable[..., Any], m: nn.Module, x: torch.Tensor) -> list[Any]:
    """Results, and the module with its gradients, of a call and a backward."""
    m.zero_grad()
    out = f(x)
    loss_of(out).backward()
    return [out, state(m)]


@settled(hits=7, graphs=5)
def test_momentum_is_set(compile: Compile) -> Steps:
    """Both ends included, at which one of the shares is 0."""
    m = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU())
    f = compile(m, options={"compare_with_eager": False})
    for i, momentum in enumerate(
        [0.3, 0.2, 0.1, 0.7, 0.25, 0.9, 1.0, 0.0, 0.5, 0.01, 1.5]
    ):
        m[1].momentum = momentum
        yield backward(f, m, values(6, 4, seed=i))


@settled(hits=7, graphs=6)
def test_statistics_are_reset(compile: Compile) -> Steps:
    """And huge ones, of which nothing is left where the momentum is 1."""
    m = images()
    f = compile(m, options={"compare_with_eager": False})
    for i in range(14):
        if i in (6, 9):
            m[1].reset_running_stats()
        if i == 9:
            m[1].running_mean.fill_(1e30)
        if i == 11:
            m[4].num_batches_tracked.fill_(1 << 40)
        yield backward(f, m, values(6, 3, 8, 8, seed=i))


@settled(hits=6, graphs=5)
def test_norm_is_called_twice(compile: Compile) -> Steps:
    """The second call's factor follows from what the first has counted."""
    m = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, momentum=None))

    def f(x: torch.Tensor) -> torch.Tensor:
        return m[1](m(x).relu())

    f = compile(f, options={"compare_with_eager": False})
    for i in range(10):
        yield backward(f, m, values(6, 4, seed=i))


@settled(hits=7, graphs=4)
def test_counter_as_a_number(compile: Compile) -> Steps:
    """`float()` of an int's tensor, `int()` of a float's."""
    count, share = torch.tensor(0), torch.tensor(0.0)

    def f(x: torch.Tensor) -> torch.Tensor:
        count.add_(1)
        share.add_(2.0)
        return x * (1.0 / float(count)) + int(share)

    f = compile(f, options={"compare_with_eager": False})
    for i in range(11):
        yield [f(values(6, 4, seed=i)), count, share]


@settled(hits=6, graphs=5)
def test_epsilon_of_the_same_value(compile: Compile) -> Steps:
    """The momentum is told by its place, not by its value."""
    m = nn.BatchNorm1d(4, momentum=0.1)
    f = compile(m, options={"compare_with_eager": False})
    for i, momentum in enumerate([0.5, 0.4, 0.3, 0.2, 0.1, 1e-5, 0.6, 0.7, 0.8, 1e-5]):
        m.momentum = momentum
        yield backward(f, m, values(6, 4, seed=i))
