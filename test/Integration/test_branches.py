# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Branches on tensor data: both sides in one program once both have been seen.

Each story is told by eager and by pyjit. A story's calls go either way again and again; unless
it names the graph break that stays, there is none at its end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import Compile, Steps, as_test, attempt, values
from torch import nn

Story = Callable[[Compile], Steps]


def branch_scenario(
    story: Story | None = None,
    *,
    branches: int = 1,
    graph_breaks: str | Iterable[str] | None = (),
    left: str = "",
    captured: bool | str = "late",
) -> Any:
    """A test of a story in which at least so many branches (0: none) become parts of programs.

    graph breaks: as for ``scenario``; left: a part of the reason that is given for a branch that stays.
    """
    if story is None:
        return functools.partial(
            branch_scenario,
            branches=branches,
            graph_breaks=graph_breaks,
            left=left,
            captured=captured,
        )

    def check(made: list[Any]) -> None:
        stats = [pyjit.stats(compiled) for compiled in made]
        found = sum(s["branches"] for s in stats)
        reasons = [why for s in stats for why in s["branches_left"]]
        assert found >= branches if branches else found == 0, (found, reasons)
        assert any(left in why for why in reasons) if left else not reasons, reasons

    return as_test(story, captured=captured, graph_breaks=graph_breaks, check=check)


BRANCH = "a branch on a tensor's data"


def inputs(*signs: int, shape: tuple[int, ...] = (3, 4)) -> list[torch.Tensor]:
    """Tensors whose sum has the given signs."""
    return [
        sign * values(*shape, seed=seed).abs() - sign * 0.1
        for seed, sign in enumerate(signs)
    ]


EITHER = (1, -1, 1, 1, -1, -1, 1)


def either_way(f: Any) -> Steps:
    """Calls that take one side or the other."""
    for x in inputs(*EITHER):
        yield f(x)


@branch_scenario
def test_either_side(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if y.sum() > 0:
            y = y + 1
        else:
            y = y - 1
        return torch.relu(y) + x

    f = compile(g)
    held = []
    for x in inputs(*EITHER):
        held.append(f(x))
        yield held


@branch_scenario
def test_inputs_are_changed_by_the_caller(compile: Compile) -> Steps:
    def g(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = x @ w
        if y.mean() > 0:
            y = torch.tanh(y)
        else:
            y = y * w.sum()
        return y * 3

    f = compile(g)
    w = values(4, 4, seed=9)
    for x in inputs(*EITHER):
        y = f(x, w)
        yield y
        x.neg_()
        w.mul_(-0.7)
        yield f(x, w), y


@branch_scenario
def test_a_rare_side(compile: Compile) -> Steps:
    """The side that is taken once is recorded when it is."""

    def g(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        y = y * 2 if y.max() < 100 else y.clamp(max=100.0)
        return y - 3

    f = compile(g)
    for scale in (1, 1, 1, 1, 500, 1, 1, 1, 700, 1, 2):
        yield f(values(5, seed=3).abs() * scale)


@branch_scenario
def test_no_else(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 3
        if (y < 0).any():
            y = y.abs()
        return y

    f = compile(g)
    for x in inputs(*EITHER):
        x = x if x.sum() < 0 else x.abs()
        y = f(x)
        yield y, y is x
        y.add_(1)
        yield y, x


@branch_scenario
def test_early_return(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.exp()
        if x.sum() > 0:
            return y * 2, y + x
        z = y / 3
        return z, z - x

    yield from either_way(compile(g))


@branch_scenario
def test_conditional_expression(compile: Compile) -> Steps:
    def g(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        a, b = x.sin(), x.cos()
        y = a if t else b
        return y * y

    f = compile(g)
    x = values(6)
    for t in (1.0, 0.0, 2.0, -1.0, 0.0):
        yield f(x, torch.tensor(t))
        yield f(x, torch.tensor([t]))
        yield f(x, torch.tensor(t) != 0)
        yield f(x, torch.tensor(int(t)))


@branch_scenario
def test_not(compile: Compile) -> Steps:
    def g(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if not t:
            y = y - 1
        return y / 4

    f = compile(g)
    for t in (True, False, False, True, False):
        yield f(values(6), torch.tensor(t))


@branch_scenario(branches=2)
def test_and_or(compile: Compile) -> Steps:
    def g(x: torch.Tensor, s: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if s and t:
            y = y - 1
        else:
            y = y.abs()
        return y / 4

    f = compile(g)
    for _ in range(3):
        for s in (True, False):
            for t in (True, False):
                yield f(values(6), torch.tensor(s), torch.tensor(t))


@branch_scenario(branches=3)
def test_several_in_a_row(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        if x[0] > 0:
            x = x * 2
        else:
            x = x - 1
        if x[1] > 0:
            x = x.tanh()
        else:
            x = x.roll(1)
        y = x.cumsum(0)
        if y[2] > 0:
            y = y + x
        return y * 2

    f = compile(g)
    for seed in range(24):
        yield f(values(4, seed=seed))


@branch_scenario(branches=3)
def test_nested(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x + 0.5
        if x[0] > 0:
            if x[1] > 0:
                y = y * 2
            else:
                y = y - 2
        else:
            y = y.abs() if x[2] > 0 else y.exp()
        return y + x

    f = compile(g)
    for seed in range(24):
        yield f(values(4, seed=seed))


@branch_scenario
def test_in_a_called_function(compile: Compile) -> Steps:
    def scale(x: torch.Tensor) -> torch.Tensor:
        if x.abs().max() > 1:
            return x / x.abs().max()
        return x * 1

    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 0.5
        return scale(y) + y

    f = compile(g)
    for size in (0.1, 9.0, 0.2, 7.0, 0.3):
        yield f(values(8, seed=2) * size)


@branch_scenario(branches=2)
def test_called_twice(compile: Compile) -> Steps:
    def scale(x: torch.Tensor) -> dict[str, torch.Tensor]:
        if x.abs().max() > 1:
            x = x / x.abs().max()
        else:
            x = x * 1
        return {"scaled": x}

    def g(x: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        a = scale(x * 0.5)
        b = scale(a["scaled"] + x)
        return a, b["scaled"]

    f = compile(g)
    for size in (0.1, 9.0, 0.2, 7.0, 0.3, 1.0, 0.9, 2.0):
        yield f(values(8, seed=2) * size)


@branch_scenario
def test_a_module(compile: Compile) -> Steps:
    class Gate(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.small = nn.Linear(4, 4)
            self.large = nn.Linear(4, 4)
            self.limit = 0.0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = torch.relu(x)
            if x.sum() > self.limit:
                h = self.large(h)
            else:
                h = self.small(h)
            return torch.softmax(h, -1)

    torch.manual_seed(1)
    model = Gate().requires_grad_(False)
    f = compile(model)
    for x in inputs(*EITHER):
        yield f(x)
    model.large.weight.mul_(0.5)
    model.small.bias.add_(1)
    for x in inputs(*EITHER):
        yield f(x)
    model.small = nn.Linear(4, 4).requires_grad_(False)
    for x in inputs(*EITHER):
        yield f(x)


@branch_scenario
def test_a_limit_that_changes(compile: Compile) -> Steps:
    class Config:
        limit = 0.0

    config = Config()

    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 2 if x.sum() > config.limit else x - 1
        return y + 1

    f = compile(g)
    for limit in (0.0, 2.0, -3.0, 0.5):
        config.limit = limit
        for x in inputs(*EITHER):
            yield f(x)


@branch_scenario
def test_state_of_one_side_is_guarded(compile: Compile) -> Steps:
    class Config:
        scale = 2.0
        shift = 1.0

    config = Config()

    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if x.sum() > 0:
            y = y * config.scale
        else:
            y = y + config.shift
        return y

    f = compile(g)
    for x in inputs(*EITHER):
        yield f(x)
    config.scale = 5.0
    for x in inputs(*EITHER):
        yield f(x)
    config.shift = 7.0
    for x in inputs(*EITHER):
        yield f(x)


@branch_scenario
def test_a_tensor_of_the_call_is_written(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x * 2
        if x.sum() > 0:
            y.add_(1)
            y[1].mul_(3)
        else:
            y[:, 0].zero_()
            y.sub_(1)
        row = y[0]
        row.neg_()
        return y, row

    f = compile(g)
    for x in inputs(*EITHER):
        y, row = f(x)
        yield y, row
        row.fill_(8)
        yield y, row


@branch_scenario(branches=0, graph_breaks=BRANCH, left="version counter")
def test_a_tensor_of_the_call_is_written_differently_often(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if x.sum() > 0:
            y.add_(1)
        return y

    yield from either_way(compile(g))


@branch_scenario
def test_what_is_written_differently_often_stays_inside(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if x.sum() > 0:
            y.add_(1).mul_(3)
        else:
            y.sub_(1)
        return y * 2

    yield from either_way(compile(g))


@branch_scenario(branches=0, graph_breaks=(BRANCH, "shares memory"))
def test_two_views_of_what_is_written(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x * 2
        row = y[0]
        if x.sum() > 0:
            y.add_(1)
            row.mul_(3)
        else:
            row.zero_()
        return y, row

    f = compile(g)
    for x in inputs(*EITHER):
        y, row = f(x)
        yield y, row
        row.fill_(8)
        yield y, row


@branch_scenario
def test_an_input_is_written(compile: Compile) -> Steps:
    def g(x: torch.Tensor, log: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            log[0] += 1
            y = x + log
        else:
            log[1] -= 1
            y = x - log
        log.mul_(2)
        return y * 2

    f = compile(g)
    log = torch.ones(4)
    alias = log[1:]
    for x in inputs(*EITHER):
        yield f(x, log), log, alias


@branch_scenario(branches=0, graph_breaks=BRANCH, left="version counter")
def test_an_input_is_written_on_one_side(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        if x.sum() < 0:
            x.neg_()
        return x

    f = compile(g)
    for x in inputs(*EITHER):
        y = f(x)
        yield y is x, x


@branch_scenario
def test_an_attribute_is_written_after_it(compile: Compile) -> Steps:
    class Log:
        last: Any = None

    log = Log()

    def g(x: torch.Tensor) -> torch.Tensor:
        y = x.abs() if x.sum() > 0 else x - 1
        log.last = y
        return y + 1

    f = compile(g)
    for x in inputs(*EITHER):
        y = f(x)
        yield y, log.last, y is log.last


@branch_scenario(branches=0, graph_breaks=BRANCH, left="version counter")
def test_an_attribute_is_written_before_it(compile: Compile) -> Steps:
    class Log:
        last: Any = None

    log = Log()

    def g(x: torch.Tensor) -> torch.Tensor:
        y = x + 2
        log.last = y
        if x.sum() > 0:
            y.add_(1)
        return y * 2

    f = compile(g)
    for x in inputs(*EITHER):
        yield f(x), log.last


@branch_scenario
def test_a_list_of_results(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> list[torch.Tensor]:
        out = [x + 1]
        y = x * 2
        if x.sum() > 0:
            y = y + 1
        out.append(y)
        out.append(y * 2)
        return out

    yield from either_way(compile(g))


@branch_scenario
def test_other_shapes_come_later(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y = y + 1 if y.sum() > 0 else y - 1
        return y.relu()

    f = compile(g)
    for x in inputs(*EITHER):
        yield f(x)
    for x in inputs(*EITHER):
        yield f(x.to(torch.float64))
    for x in inputs(*EITHER):
        yield f(x)


@branch_scenario
def test_inside_no_grad(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x * 2
            if y.sum() > 0:
                y = y + 1
        return y

    f = compile(g)
    for x in inputs(*EITHER):
        yield f(x), torch.is_grad_enabled()


@branch_scenario
def test_random_numbers_behind_it(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 2 if x.sum() > 0 else x - 1
        return y + torch.rand(4)

    torch.manual_seed(5)
    yield from either_way(compile(g))


@branch_scenario
def test_sizes_behind_a_branch(compile: Compile) -> Steps:
    def side(p: torch.Tensor, q: int) -> torch.Tensor:
        if p[0, 0] > 0:
            return p * 2
        return p - q

    def g(x: torch.Tensor, k: int) -> tuple[torch.Tensor, int]:
        n, m = x.shape
        if 0 in x:
            x = x * n
        else:
            x = side(x, m)
            x = x + x.mean() * x.shape[0]
        return x, k

    f = compile(g)
    for k, x in enumerate(inputs(1, 1, 1, 1, 1, 1, -1, -1, 1, 1, 1, -1)):
        yield f(x, k)


@branch_scenario(branches=0, graph_breaks=BRANCH, left="an arm leaves")
def test_two_names_of_one_tensor_on_one_side(compile: Compile) -> Steps:
    def g(
        a: torch.Tensor, b: torch.Tensor, c: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        if b.sum() > 0:
            c = torch.tanh(c) - b * 0.25
            a = c
        else:
            b = b + 2
            c.mul_(0.5)
        if not (b[0, 1] > 0):
            b = torch.tanh(b) - a * 0.25
            a = a * 3
        else:
            a = c * 3
        return a, b, c

    f = compile(g)
    for number in range(16):
        yield f(*(values(3, 4, seed=3 * number + i) for i in range(3)))


# What stays a graph break.


@branch_scenario(branches=0, graph_breaks=BRANCH, left="aten::rand")
def test_random_numbers_on_one_side(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if x.sum() > 0:
            y = y + torch.rand(4)
        return y * 2

    torch.manual_seed(5)
    yield from either_way(compile(g))


@branch_scenario(branches=0, graph_breaks=BRANCH, left="the arms leave")
def test_shapes_differ(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if x.sum() > 0:
            y = y[1:]
        return y + 1

    yield from either_way(compile(g))


@branch_scenario(branches=0, graph_breaks=BRANCH, left="the arms write")
def test_an_attribute_is_written_on_one_side(compile: Compile) -> Steps:
    class Log:
        last: Any = None

    log = Log()

    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if x.sum() > 0:
            log.last = y
        return y + 1

    f = compile(g)
    for x in inputs(*EITHER):
        yield f(x), log.last


@branch_scenario(branches=0, graph_breaks=BRANCH, left="outside of the call")
def test_one_side_returns_its_input(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x
        return x * -1

    f = compile(g)
    for x in inputs(*EITHER):
        y = f(x)
        yield y is x, y
        y.add_(1)
        yield x, y


@branch_scenario(branches=0, graph_breaks=BRANCH, left="outside of the call")
def test_one_side_returns_a_view_of_its_input(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x.view(4, 3) if x.sum() > 0 else (x * 2).view(4, 3)
        return y

    f = compile(g)
    for x in inputs(*EITHER):
        y = f(x)
        y.add_(1)
        yield x, y


@branch_scenario(branches=0, graph_breaks=BRANCH, left="one in one arm and two")
def test_two_names_for_one_tensor_on_one_side(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a = x + 1
        b = a if x.sum() > 0 else a * 1
        return a, b

    f = compile(g)
    for x in inputs(*EITHER):
        a, b = f(x)
        b.mul_(2)
        yield a, b, a is b


@branch_scenario(branches=0, graph_breaks=BRANCH, left="the arms leave")
def test_other_objects_on_each_side(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> Any:
        y = x * 2
        if x.sum() > 0:
            return y, "up"
        return [y, "down"]

    yield from either_way(compile(g))


@branch_scenario(branches=0)
def test_one_side_raises(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if x.sum() < 0:
            raise ValueError(f"a negative sum of {x.numel()} numbers")
        return y + 1

    f = compile(g)
    for x in inputs(*EITHER):
        yield attempt(f, x)


@branch_scenario(graph_breaks="an index is out of range")
def test_an_operator_raises_on_one_side(compile: Compile) -> Steps:
    def g(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if x.sum() > 0:
            y = y.index_select(0, index)
        else:
            y = y - 1
        return y + 1

    f = compile(g)
    fine, beyond = torch.tensor([2, 0, 1]), torch.tensor([2, 0, 7])
    for x in inputs(*EITHER):
        yield attempt(f, x, fine)
    for x in inputs(-1, -1):
        yield attempt(f, x, beyond)
    with pytest.raises((IndexError, RuntimeError)):
        f(inputs(1)[0], beyond)
    yield attempt(f, inputs(1)[0], fine)


@branch_scenario(branches=0, graph_breaks=(BRANCH, "print"))
def test_an_unknown_call_on_one_side(compile: Compile) -> Steps:
    seen: list[float] = []

    def note(x: torch.Tensor) -> None:
        seen.append(float(x.sum()))

    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if x.sum() > 0:
            print(end="")
            y = y + 1
        return y * 2

    yield from either_way(compile(g))


def test_explain_names_the_branch() -> None:
    def g(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = x + 1
        else:
            x = x - 1
        return x * 2

    with torch.no_grad():
        f = pyjit.compile(g)
        for x in inputs(1, -1):
            f(x)
        text = pyjit.explain(f)(inputs(1)[0])
    assert "branches on data, both sides in one program: 1" in text
    assert "0 graph break(s)" in text
