# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`for i in range(n)` that tensor data may end: one program, whatever the number of iterations.

What a loop's iterator stands at is no constant of a specialization. Who else holds the iterator, and what
else looks at it, has to see it move as in eager.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pyjit
import torch
from Integration.harness import ANY, Compile, Steps, as_test, values
from torch import nn

Story = Callable[[Compile], Steps]
SCALES = (100.0, 0.1, 3.0, 1e9, 0.3, 40.0, 1e9, 2.0, 1e5)


def counted(
    story: Story | None = None, *, loops: int = 1, specializations: int = 8
) -> Any:
    """A test of a story in which so many loops become programs, of so many specializations at most."""
    if story is None:
        return functools.partial(counted, loops=loops, specializations=specializations)

    def check(made: list[Any]) -> None:
        stats = [pyjit.stats(compiled) for compiled in made]
        found = sum(s["loops"] for s in stats)
        left = [why for s in stats for why in s["loops_left"]]
        assert found >= loops if loops else found == 0, (found, left)
        assert sum(s["specializations"] for s in stats) <= specializations, stats

    return as_test(story, captured="late", graph_breaks=ANY, check=check)


def start(scale: float) -> torch.Tensor:
    return (values(4, seed=8).abs() + 0.1) * scale


def over(f: Any) -> Steps:
    """Trips: some, none behind the first, few, all of them, ..."""
    for scale in SCALES:
        yield f(start(scale))


@counted
def test_unused(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        for _ in range(12):
            x = x * 0.5
            if x.sum() < 1:
                break
        return x + 1

    yield from over(compile(g))


@counted
def test_the_index_is_returned(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        i = -1
        for i in range(12):
            x = x * 0.5
            if x.sum() < 1:
                break
        return x, i

    yield from over(compile(g))


@counted
def test_the_index_is_a_number_in_the_body(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        for i in range(3, 40, 3):
            x = x / (i + 1) + i * 0.001
            if x.sum() < 1:
                break
        return x * 2

    yield from over(compile(g))


@counted
def test_downwards(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        for i in range(20, -4, -2):
            x = x * 0.5 + i * 0.01
            if x.sum() < 1:
                break
        return x, i

    yield from over(compile(g))


@counted
def test_else(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, str]:
        for _ in range(9):
            x = x * 0.5
            if x.sum() < 1:
                how = "small"
                break
        else:
            x = x - 1
            how = "all"
        return x, how

    yield from over(compile(g))


@counted
def test_work_behind_the_test(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        for i in range(10):
            if x.sum() < 1:
                break
            x = x * 0.5 - i * 1e-3
        return x + 1

    yield from over(compile(g))


@counted(specializations=14)
def test_the_number_of_iterations_is_an_argument(compile: Compile) -> Steps:
    def g(x: torch.Tensor, n: int) -> tuple[torch.Tensor, int]:
        i = -1
        for i in range(n):
            x = x * 0.5
            if x.sum() < 1:
                break
        return x, i

    f = compile(g)
    for n in (9, 5, 0, 1, 2, 30, 7, 12, 4, 11):
        for scale in (100.0, 0.1, 1e9):
            yield f(start(scale), n)


@counted
def test_few_iterations_first(compile: Compile) -> Steps:
    def g(x: torch.Tensor, n: int) -> torch.Tensor:
        for _ in range(n):
            x = x * 0.5
            if x.sum() < 1:
                break
        return x + 1

    f = compile(g)
    yield f(start(1e9), 2)
    for n in (25, 26, 27, 25, 3):
        yield f(start(1e9), n)


@counted(specializations=12)
def test_in_a_module(compile: Compile) -> Steps:
    class Solve(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.steps = 20
            self.tol = 1e-3

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            z = torch.zeros_like(x)
            for _ in range(self.steps):
                new = torch.tanh(self.layer(z) * 0.5 + x)
                far = (new - z).abs().max()
                z = new
                if far < self.tol:
                    break
            return z

    torch.manual_seed(1)
    model = Solve().requires_grad_(False)
    f = compile(model)
    for seed in range(5):
        yield f(values(2, 4, seed=seed))
    model.tol = 1e-6
    for seed in range(3):
        yield f(values(2, 4, seed=seed))
    model.steps = 4
    for seed in range(3):
        yield f(values(2, 4, seed=seed))


@counted(specializations=16)
def test_in_a_called_function(compile: Compile) -> Steps:
    def solve(x: torch.Tensor, limit: float) -> torch.Tensor:
        for _ in range(15):
            x = x * 0.5
            if x.sum() < limit:
                break
        return x

    def g(x: torch.Tensor) -> torch.Tensor:
        return solve(x + 1, 1.0) - solve(x, 2.0)

    yield from over(compile(g))


@counted(specializations=20)
def test_around_a_called_function(compile: Compile) -> Steps:
    def halve(x: torch.Tensor) -> torch.Tensor:
        while x.sum() > 50:
            x = x * 0.5
        return x

    def g(x: torch.Tensor) -> torch.Tensor:
        for i in range(4):
            x = halve(x) * (2 + i)
        return x

    yield from over(compile(g))


@counted(loops=0, specializations=12)
def test_a_growing_list(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> list[torch.Tensor]:
        out = []
        for _ in range(6):
            x = x * 0.5
            out.append(x)
            if x.sum() < 1:
                break
        return out

    yield from over(compile(g))


@counted(loops=0, specializations=12)
def test_decoding(compile: Compile) -> Steps:
    table = values(5, 5, seed=3)

    def g(token: torch.Tensor, n: int) -> torch.Tensor:
        out = token.reshape(1)
        for _ in range(n):
            token = (table[token] + token).argmax()
            out = torch.cat([out, token.reshape(1)])
            if token == 2:
                break
        return out

    f = compile(g)
    for first in (0, 1, 2, 3, 4, 0, 3):
        yield f(torch.tensor(first), 6)


@counted(loops=0, specializations=40)
def test_two_hold_the_iterator(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, list[int]]:
        numbers = iter(range(12))
        for _ in numbers:
            x = x * 0.5
            if x.sum() < 1:
                break
        return x, list(numbers)

    yield from over(compile(g))


def test_a_list_holds_the_iterator() -> None:
    def g(x: torch.Tensor, box: list[Any]) -> torch.Tensor:
        for _ in box[0]:
            x = x * 0.5
            if x.sum() < 1:
                break
        return x

    f = pyjit.compile(g)
    with torch.no_grad():
        for scale in SCALES:
            want, have = [iter(range(9))], [iter(range(9))]
            x = start(scale)
            torch.testing.assert_close(f(x, have), g(x, want))
            assert list(have[0]) == list(want[0])


@counted(loops=0, specializations=40)
def test_the_iterator_is_read_on(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, int, list[int]]:
        numbers = iter(range(12))
        first = next(numbers)
        if x.sum() < 1:
            x = x * 2
        second = next(numbers)
        if x.sum() < 2:
            return x, second, list(numbers)
        a, b, *rest = numbers
        return x * first, a + b, rest

    yield from over(compile(g))


@counted(loops=0, specializations=24)
def test_a_list_is_read_at_the_index(compile: Compile) -> Steps:
    weights = [0.5, 0.4, 0.3, 0.6, 0.2, 0.9]

    def g(x: torch.Tensor) -> torch.Tensor:
        for i in range(6):
            x = x * weights[i]
            if x.sum() < 1:
                break
        return x

    yield from over(compile(g))


@counted(loops=0, specializations=24)
def test_a_print_inside(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        for i in range(6):
            x = x * 0.5 + i
            print(end="")
        return x + 1

    yield from over(compile(g))


@counted(specializations=12)
def test_nested(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        total = 0
        for i in range(3):
            for j in range(30):
                x = x * 0.5
                if x.sum() < 1:
                    break
            total += j
            x = x * 50 + i
        return x, total

    yield from over(compile(g))


@counted
def test_two_tests(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, str]:
        for _ in range(20):
            x = x * 0.5
            if x.sum() < 1:
                return x, "small"
            if x.max() > 1e7:
                return x, "large"
        return x, "end"

    yield from over(compile(g))


@counted(loops=0)
def test_a_very_long_range(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        for i in range(2**62, 2**62 + 20):
            x = x * 0.5
            if x.sum() < 1:
                break
        return x, i

    yield from over(compile(g))
