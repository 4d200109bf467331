# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops that tensor data end: one program, whatever the number of iterations.

Each story is told by eager and by pyjit. Numbers of iterations change between calls; state that is
no tensor (counters, lists, iterators) must not be frozen, so such loops go round through graph breaks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import ANY, Compile, Steps, as_test, attempt, values
from torch import nn

Story = Callable[[Compile], Steps]


def at_scales(f: Any, x: torch.Tensor, *scales: float) -> Steps:
    """Calls with one tensor at several scales: each makes another number of iterations."""
    for scale in scales:
        yield f(x * scale)


def loop_scenario(
    story: Story | None = None, *, loops: int = 1, versions: bool = True
) -> Any:
    """A test of a story in which so many loops (0: none) become programs."""
    if story is None:
        return functools.partial(loop_scenario, loops=loops, versions=versions)

    def check(made: list[Any]) -> None:
        stats = [pyjit.stats(compiled) for compiled in made]
        found = sum(s["loops"] for s in stats)
        left = [why for s in stats for why in s["loops_left"]]
        assert found >= loops if loops else found == 0, (found, left)

    return as_test(
        story, captured="late", graph_breaks=ANY, check=check, versions=versions
    )


def tensor(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers)


def newton(x: torch.Tensor, a: torch.Tensor, tol: torch.Tensor) -> torch.Tensor:
    err = (x * x - a).abs().max()
    while err > tol:
        x = 0.5 * (x + a / x)
        err = (x * x - a).abs().max()
    return x


@loop_scenario
def test_the_number_of_iterations_changes(compile: Compile) -> Steps:
    f = compile(newton)
    a, tol = tensor(2, 3, 5), torch.tensor(1e-5)
    for start in (100.0, 1.5, 1e4, 3.0, 1e6):
        yield f(torch.full((3,), start), a, tol)


@loop_scenario
def test_no_iteration_at_all(compile: Compile) -> Steps:
    f = compile(newton)
    a, tol = tensor(2, 3, 5), torch.tensor(1e-5)
    yield f(torch.full((3,), 50.0), a, tol)
    root = a.sqrt()
    yield f(root, a, tol)
    same = f(root, a, tol)
    yield same is root
    root.zero_()
    yield same


@loop_scenario
def test_one_iteration_then_many(compile: Compile) -> Steps:
    f = compile(newton)
    a = tensor(2, 3, 5)
    yield f(a.sqrt() + 0.01, a, torch.tensor(1e-3))
    for start in (100.0, 3.0, 1e5):
        for _ in range(3):
            yield f(torch.full((3,), start), a, torch.tensor(1e-5))


@loop_scenario
def test_do_while(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        while True:
            x = x * 0.5
            if x.sum() < 1:
                break
        return x + 1

    yield from at_scales(compile(g), values(4, seed=1).abs(), 100.0, 1.0, 0.1, 3000.0)


@loop_scenario
def test_branch_with_work_behind_it(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        while True:
            x = x * 0.5
            if x.sum() < 1:
                break
            x = x - 0.01
        return x + 1

    yield from at_scales(compile(g), values(4, seed=1).abs(), 100.0, 1.0, 0.1, 3000.0)


@loop_scenario
def test_while_not(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        done = (x < 1).all()
        while not done:
            x = x / 3
            done = (x < 1).all()
        return x

    yield from at_scales(compile(g), values(4, seed=2).abs(), 1000.0, 0.5, 30.0)


@loop_scenario
def test_condition_that_is_a_float(compile: Compile) -> Steps:
    def g(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        while n:
            x = x * 2 + 1
            n = n - 1
        return x

    f = compile(g)
    for n in (6.0, 0.0, 1.0, 9.0):
        yield f(values(3), torch.tensor(n))
        yield f(values(3), torch.tensor([n]))


@loop_scenario(versions=False)
def test_an_input_is_written_in_place(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        while x.abs().max() > 1:
            x.mul_(0.5)
        return x * 1

    f = compile(g)
    for scale in (100.0, 0.01, 7.0, 5000.0):
        x = values(4, seed=3) * scale
        alias = x[1:]
        yield f(x)
        yield x, alias


@loop_scenario
def test_a_written_input_is_returned(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        while x.abs().max() > 1:
            x.mul_(0.5)
        return x

    f = compile(g)
    for scale in (100.0, 0.01, 7.0):
        x = values(4, seed=3) * scale
        y = f(x)
        yield y is x, y


@loop_scenario
def test_rows_of_a_buffer_are_written(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        buffer = torch.zeros(2, x.shape[0])
        while buffer[0].sum() < 100:
            buffer[0] += x.abs()
            buffer[1] = buffer[0] * 2
        return buffer

    yield from at_scales(compile(g), values(4, seed=4).abs() + 0.5, 1.0, 200.0, 30.0)


@loop_scenario(loops=0)
def test_a_carried_tensor_that_is_also_seen_by_a_view(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.clone()
        top = y[:1]
        while y.sum() > 1:
            y = y * 0.5
            y.sub_(0.01)
            top.add_(1)
            top = y[:1]
            top.mul_(0.9)
        return y, top

    yield from at_scales(compile(g), values(4, seed=5).abs() + 1, 100.0, 3.0, 900.0)


@loop_scenario
def test_a_counter_is_not_frozen(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        n = 0
        while x.sum() > 1:
            x = x * 0.5
            n += 1
        return x, n

    yield from at_scales(
        compile(g), values(4, seed=5).abs() + 1, 100.0, 3.0, 900.0, 0.1
    )


@loop_scenario(loops=0)
def test_a_list_that_grows(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> list[torch.Tensor]:
        out = []
        while x.sum() > 1:
            x = x * 0.5
            out.append(x)
        return out

    yield from at_scales(
        compile(g), values(4, seed=5).abs() + 1, 100.0, 3.0, 900.0, 0.1
    )


@loop_scenario
def test_a_list_of_tensors_is_carried(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> list[torch.Tensor]:
        state = [x, x + 1]
        while state[0].sum() > 1:
            state = [state[1] * 0.5, state[0] * 0.25]
        return state

    yield from at_scales(
        compile(g), values(4, seed=5).abs() + 1, 100.0, 3.0, 900.0, 0.1
    )


@loop_scenario(loops=0)
def test_a_list_is_changed_in_place(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> list[torch.Tensor]:
        state = [x + 0, x + 1]
        while state[0].sum() > 1:
            state[0] = state[0] * 0.5
            state[1] = state[0] + state[1]
        return state

    yield from at_scales(
        compile(g), values(4, seed=5).abs() + 1, 100.0, 3.0, 900.0, 0.1
    )


@loop_scenario(loops=0)
def test_an_attribute_is_written_in_each_iteration(compile: Compile) -> Steps:
    class Log:
        last: Any = None
        count = 0

    log = Log()

    def g(x: torch.Tensor) -> torch.Tensor:
        while x.sum() > 1:
            x = x * 0.5
            log.last = x
            log.count += 1
        return x

    f = compile(g)
    for scale in (100.0, 3.0, 900.0, 0.1):
        yield f((values(4, seed=5).abs() + 1) * scale)
        yield log.last, log.count


@loop_scenario(loops=0)
def test_an_effect_in_the_loop(compile: Compile) -> Steps:
    seen: list[int] = []

    def g(x: torch.Tensor) -> torch.Tensor:
        while x.sum() > 1:
            x = x * 0.5
            seen.append(len(seen))
        return x

    f = compile(g)
    for scale in (100.0, 3.0, 900.0, 0.1):
        yield f((values(4, seed=5).abs() + 1) * scale)
        yield list(seen)


@loop_scenario
def test_fresh_tensors_change_places(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = x * 1, x + 1
        while a.sum() < 100:
            a, b = b * 1, a + b
        return a, b

    yield from at_scales(compile(g), values(3, seed=6).abs(), 1.0, 0.01, 500.0, 30.0)


@loop_scenario(loops=0)
def test_variables_change_places(compile: Compile) -> Steps:
    def g(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        while a.sum() < 100:
            a, b = b, a + b
        return a, b

    f = compile(g)
    for scale in (1.0, 0.01, 500.0, 30.0):
        a, b = values(3, seed=6).abs() * scale, values(3, seed=7).abs() * scale
        x, y = f(a, b)
        yield x, y, x is a, y is b


@loop_scenario
def test_the_same_tensor_under_two_names(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, bool]:
        first = x
        while x.sum() > 1:
            x = x * 0.5 if x is first else x * 0.25
            first = x if x.shape[0] == 3 else first
        return x, x is first

    yield from at_scales(compile(g), values(4, seed=5).abs() + 1, 100.0, 0.01, 9.0)


@loop_scenario
def test_weights_change_between_calls(compile: Compile) -> Steps:
    class Relax(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.limit = 5.0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            while x.abs().sum() > self.limit:
                x = x * 0.5 + torch.tanh(self.layer(x)) * 0.01
            return x

    torch.manual_seed(1)
    model = Relax().requires_grad_(False)
    f = compile(model)
    yield f(values(2, 4) * 100)
    yield f(values(2, 4) * 100)
    model.layer.weight.mul_(0.9)
    yield f(values(2, 4) * 100)
    model.limit = 2.0
    yield f(values(2, 4) * 100)
    model.layer = nn.Linear(4, 4).requires_grad_(False)
    yield f(values(2, 4) * 100)


@loop_scenario
def test_nested_loops(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        while x.max() > 1:
            y = x
            while y.sum() > 3:
                y = y * 0.7
            x = x * 0.5 + y * 0.1
        return x

    yield from at_scales(
        compile(g), values(4, seed=8).abs() + 0.1, 100.0, 3.0, 0.2, 900.0
    )


@loop_scenario
def test_in_a_called_function(compile: Compile) -> Steps:
    def solve(x: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
        while x.sum() > limit:
            x = x * 0.5
        return x

    def g(x: torch.Tensor) -> torch.Tensor:
        return solve(x + 1, torch.tensor(1.0)) + solve(x, torch.tensor(2.0))

    yield from at_scales(compile(g), values(4, seed=8).abs() + 0.1, 100.0, 0.1, 900.0)


@loop_scenario
def test_after_a_print(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        print(end="")
        while x.sum() > 1:
            x = x * 0.5
        print(end="")
        return x + 1

    yield from at_scales(compile(g), values(4, seed=8).abs() + 0.1, 100.0, 0.1, 900.0)


@loop_scenario(loops=0)
def test_a_print_inside(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        while x.sum() > 1:
            x = x * 0.5
            print(end="")
        return x + 1

    yield from at_scales(compile(g), values(4, seed=8).abs() + 0.1, 100.0, 0.1, 900.0)


@loop_scenario
def test_bounded_by_a_range(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        i = -1
        for i in range(6):
            x = x * 0.5
            if x.sum() < 1:
                break
        return x, i

    yield from at_scales(
        compile(g), values(4, seed=8).abs() + 0.1, 100.0, 0.1, 1e6, 5.0
    )


@loop_scenario(loops=0)
def test_random_numbers_inside(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        while x.sum() > 1:
            x = x * torch.rand(4)
        return x

    f = compile(g)
    for scale in (100.0, 0.1, 1e6, 5.0):
        torch.manual_seed(3)
        yield f((values(4, seed=8).abs() + 0.1) * scale)


@loop_scenario
def test_the_type_changes_in_the_first_iteration(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        while x.sum() > 1:
            x = x * 0.5
        return x

    f = compile(g)
    yield f(torch.tensor([100, 200]))
    yield f(torch.tensor([1000, 200]))
    yield f(torch.tensor([0, 1]))
    yield f(tensor(100, 3))


@loop_scenario(loops=0)
def test_shapes_change_in_each_iteration(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        while x.sum() > 1:
            x = x[1:]
        return x

    f = compile(g)
    for n in (6, 6, 9, 1, 9):
        yield f(torch.ones(n))


@loop_scenario
def test_layouts_of_carried_tensors(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x.t()
        while y.sum() > 1:
            y = (y * 0.5).t().contiguous().t()
        return y

    f = compile(g)
    for scale in (100.0, 0.1, 1e4):
        y = f((values(3, 4, seed=8).abs() + 0.1) * scale)
        yield y, y.stride()


@loop_scenario
def test_exceptions_after_the_loop(compile: Compile) -> Steps:
    def g(x: torch.Tensor, key: str) -> torch.Tensor:
        while x.sum() > 1:
            x = x * 0.5
        return {"a": x}[key]

    f = compile(g)
    for scale in (100.0, 0.1, 1e4):
        yield attempt(f, (values(4).abs() + 0.1) * scale, "a")
        yield attempt(f, (values(4).abs() + 0.1) * scale, "b")


@loop_scenario(loops=0)
def test_exceptions_in_the_loop(compile: Compile) -> Steps:
    def g(x: torch.Tensor, table: list[int]) -> torch.Tensor:
        while x.sum() > 1:
            x = x * 0.5 + table.pop()
        return x

    f = compile(g)
    for scale in (100.0, 0.1, 1e4, 0.1):
        yield attempt(f, (values(4).abs() + 0.1) * scale, [0] * 5)


@loop_scenario
def test_results_of_several_calls_are_held(compile: Compile) -> Steps:
    f = compile(newton)
    a, tol = tensor(2, 3, 5), torch.tensor(1e-5)
    held = [f(torch.full((3,), s), a, tol) for s in (100.0, 7.0, 100.0, 1e3)]
    yield held
    held[0].zero_()
    yield held


@loop_scenario
def test_nan_ends_or_goes_on(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        while x.max() > 1:
            x = x * 0.5
        return x

    f = compile(g)
    yield f(tensor(100, 2))
    yield f(tensor(100, 2))
    yield f(tensor(float("nan"), 2))
    yield f(tensor(50, -3))


@loop_scenario
def test_constants_whose_data_python_reads(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        i = torch.tensor(0)
        while x.sum() > 1:
            x = x * (0.5 + (i // 3).item())
            x = x.clamp(max=50)
            i = (i + 1) % 5
        return x

    f = compile(g)
    for scale in (100.0, 0.1, 1e4):
        yield f((values(2).abs() + 0.1) * scale * 0.001 + 0.6)


@pytest.mark.parametrize("trips", [0, 1, 2, 3, 4, 7, 30])
def test_first_call_of_each_length(trips: int) -> None:
    def g(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        while n > 0:
            x = x * 0.9 + 1
            n = n - 1
        return x

    f = pyjit.compile(g)
    with torch.no_grad():
        for n in (trips, 5, 0, 1, 12, trips):
            x, count = values(5), torch.tensor(n)
            torch.testing.assert_close(f(x, count), g(x, count))


def test_explain_counts_loops() -> None:
    a, tol = tensor(2, 3, 5), torch.tensor(1e-5)
    with torch.no_grad():
        text = pyjit.explain(newton)(torch.full((3,), 100.0), a, tol)
    assert "loops that data end, in one program: 1" in text
    assert "goes round through graph breaks" not in text
