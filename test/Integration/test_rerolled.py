# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Python loops with a fixed number of iterations: one loop in the program, as eager would have it.

Each story is told by eager and by pyjit. A loop is worth it where it leaves out some hundred
operators, so iterations are many; a matmul in each keeps kernels from joining iterations.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, as_test, values
from torch import nn

Story = Callable[[Compile], Steps]
STEPS = 80


def loops_of(compiled: Any) -> list[int]:
    """How many loops the program of each specialization has, after fusion."""
    from pyjit._api import engine_of

    return [
        specialization.text("fusion").count("scf.for")
        for part in engine_of(compiled, "test").engines()
        for specialization in part.compiled.specializations
    ]


def rerolled(
    story: Story | None = None,
    *,
    loops: int = 1,
    graph_breaks: Any = (),
    every: bool = False,
) -> Any:
    """A test of a story in which some specialization (`every`: each) has so many loops."""
    if story is None:
        return functools.partial(
            rerolled, loops=loops, graph_breaks=graph_breaks, every=every
        )

    def check(made: list[Any]) -> None:
        found = [n for compiled in made for n in loops_of(compiled)]
        assert found, "nothing was compiled"
        assert max(found) == loops, found
        assert not every or min(found) == loops, found

    return as_test(story, captured="late", graph_breaks=graph_breaks, check=check)


def twice(f: Any, *shapes: tuple[int, ...]) -> Steps:
    """Calls with two sets of values: the second one hits."""
    for seed in range(3):
        yield f(*(values(*shape, seed=seed + k) for k, shape in enumerate(shapes)))


W = values(8, 8, seed=90) * 0.3
U = values(8, 8, seed=91) * 0.3


@rerolled
def test_rnn(compile: Compile) -> Steps:
    """The state is carried, x[t] is a view at the loop's index."""

    def f(x, h):
        for t in range(STEPS):
            h = torch.tanh(F.linear(x[t], W) + F.linear(h, U))
        return h

    yield from twice(compile(f), (STEPS, 2, 8), (2, 8))


@rerolled
def test_unbind(compile: Compile) -> Steps:
    """The same, over the list that unbind gives."""

    def f(x, h):
        for part in x.unbind(1):
            h = torch.tanh(F.linear(part, W) + F.linear(h, U))
        return h

    yield from twice(compile(f), (2, STEPS, 8), (2, 8))


@rerolled
def test_split(compile: Compile) -> Steps:
    """Pieces of two rows each."""

    def f(x, h):
        for part in x.split(2):
            h = torch.tanh(F.linear(part, W) + F.linear(h, U))
        return h

    yield from twice(compile(f), (2 * STEPS, 8), (2, 8))


@rerolled
def test_reversed(compile: Compile) -> Steps:
    """An index that falls."""

    def f(x, h):
        for t in reversed(range(STEPS)):
            h = torch.tanh(F.linear(x[t], W) + F.linear(h, U))
        return h

    yield from twice(compile(f), (STEPS, 2, 8), (2, 8))


class Cell(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.a = nn.Linear(width, 4 * width)
        self.b = nn.Linear(width, 4 * width)

    def forward(self, x, h, c):
        i, f, g, o = (self.a(x) + self.b(h)).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class LSTM(nn.Module):
    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.width = width
        self.cells = nn.ModuleList(Cell(width) for _ in range(layers))

    def forward(self, x):
        states = [(x.new_zeros(x.shape[1], self.width),) * 2 for _ in self.cells]
        for t in range(x.shape[0]):
            value = x[t]
            for k, cell in enumerate(self.cells):
                states[k] = cell(value, *states[k])
                value = states[k][0]
        return value, states


@rerolled
def test_lstm_with_lists_of_states(compile: Compile) -> Steps:
    """Lists of tensors whose entries each iteration replaces; layers inside of steps."""
    torch.manual_seed(3)
    model = LSTM(8, 3).eval()
    f = compile(model)
    for seed in range(3):
        yield f(values(20, 2, 8, seed=seed))
    model.cells[1].b.weight.data.mul_(0.5)
    yield f(values(20, 2, 8, seed=5))


@rerolled
def test_layers_with_weights_of_their_own(compile: Compile) -> Steps:
    """A list of modules: each iteration picks its weights."""
    torch.manual_seed(4)
    layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(STEPS * 2)).eval()

    def f(x):
        for layer in layers:
            x = F.relu(layer(x)) + 0.1 * x
        return x

    f = compile(f)
    yield from twice(f, (3, 8))
    with torch.no_grad():
        layers[7].weight.mul_(2)
    yield f(values(3, 8))
    layers[9].weight = nn.Parameter(torch.eye(8))
    yield f(values(3, 8))


@rerolled
def test_layers_with_packed_weights(compile: Compile) -> Steps:
    """Enough rows for weights to be packed, which are picked as they are."""
    torch.manual_seed(5)
    layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(STEPS * 2)).eval()

    def f(x):
        for layer in layers:
            x = torch.tanh(layer(x)) + x * 0.25
        return x

    f = compile(f)
    yield from twice(f, (64, 64))
    with torch.no_grad():
        layers[3].weight.mul_(2)
    yield f(values(64, 64))


@rerolled
def test_layers_inside_of_layers(compile: Compile) -> Steps:
    """Weights that come again in each step are the same, not picked."""
    torch.manual_seed(6)
    layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(5)).eval()

    def f(x):
        for _ in range(40):
            for layer in layers:
                x = torch.tanh(layer(x))
        return x

    yield from twice(compile(f), (3, 8))


@rerolled(loops=0)
def test_a_counter_used_as_a_number(compile: Compile) -> Steps:
    """t * 0.1 is another operator in each iteration: nothing repeats."""

    def f(x, h):
        for t in range(STEPS):
            h = torch.tanh(F.linear(h, U)) + x * (t * 0.1)
        return h

    yield from twice(compile(f), (2, 8), (2, 8))


@rerolled
def test_the_last_iteration_differs(compile: Compile) -> Steps:
    def f(x, h):
        for t in range(STEPS):
            h = torch.tanh(F.linear(x[t], W) + F.linear(h, U))
            if t == STEPS - 1:
                h = h * 2 + x[0]
        return h

    yield from twice(compile(f), (STEPS, 2, 8), (2, 8))


@rerolled
def test_the_first_iteration_differs(compile: Compile) -> Steps:
    def f(x):
        h = None
        for t in range(STEPS):
            new = F.linear(x[t], W)
            if h is not None:
                new = new + F.linear(h, U)
            h = torch.tanh(new)
        return h

    yield from twice(compile(f), (STEPS, 2, 8))


@rerolled
def test_outputs_stacked(compile: Compile) -> Steps:
    """The list of all iterations' results is one tensor, along any dimension."""

    def f(x, h):
        first, second = [], []
        for t in range(STEPS):
            h = torch.tanh(F.linear(x[t], W) + F.linear(h, U))
            first.append(h)
            second.append(h.sum(-1))
        return torch.stack(first), torch.stack(second, -1) * 2, h

    yield from twice(compile(f), (STEPS, 2, 8), (2, 8))


@rerolled
def test_outputs_joined(compile: Compile) -> Steps:
    """torch.cat, with something else at both ends."""

    def f(x, h):
        out = [h[:1]]
        for t in range(STEPS):
            h = torch.tanh(F.linear(x[t], W) + F.linear(h, U))
            out.append(h)
        out.append(x[0] + 1)
        return torch.cat(out, 0), h

    yield from twice(compile(f), (STEPS, 2, 8), (2, 8))


@rerolled
def test_outputs_as_a_list(compile: Compile) -> Steps:
    """Each iteration's result leaves the call; they share no memory."""

    def f(x, h):
        out = []
        for t in range(STEPS):
            h = torch.tanh(F.linear(x[t], W) + F.linear(h, U))
            out.append(h)
        return out

    f = compile(f)
    for seed in range(3):
        out = f(values(STEPS, 2, 8, seed=seed), values(2, 8))
        out[3].add_(1)
        yield out


@rerolled
def test_outputs_written_to_rows(compile: Compile) -> Steps:
    def f(x, h):
        out = x.new_zeros(STEPS, 2, 8)
        for t in range(STEPS):
            h = torch.tanh(F.linear(x[t], W) + F.linear(h, U))
            out[t] = h
        return out

    yield from twice(compile(f), (STEPS, 2, 8), (2, 8))


@rerolled
def test_in_place_accumulation(compile: Compile) -> Steps:
    """What is written in place is carried, an input too."""

    def f(x, h, total):
        for t in range(STEPS):
            h = torch.tanh(F.linear(x[t], W) + F.linear(h, U))
            total.add_(h)
            total[0].mul_(0.5)
        return h

    f = compile(f)
    total = torch.zeros(2, 8)
    for seed in range(3):
        yield f(values(STEPS, 2, 8, seed=seed), values(2, 8), total)
        yield total


@rerolled(loops=2)
def test_two_loops(compile: Compile) -> Steps:
    """An encoder, then a decoder of the same shapes that goes on from its state."""

    def f(x, h):
        for t in range(STEPS):
            h = torch.tanh(F.linear(x[t], W) + F.linear(h, U))
        seen = h.sum()
        for t in range(STEPS):
            h = torch.tanh(F.linear(x[t], U) - F.linear(h, W) * seen)
        return h

    yield from twice(compile(f), (STEPS, 2, 8), (2, 8))


@rerolled
def test_two_iterations_back(compile: Compile) -> Steps:
    def f(x, a, b):
        for t in range(STEPS):
            a, b = b, torch.tanh(F.linear(a, W) + F.linear(b, U) + x[t])
        return a, b

    yield from twice(compile(f), (STEPS, 2, 8), (2, 8), (2, 8))


@rerolled
def test_states_that_change_places(compile: Compile) -> Steps:
    """Carried values that wait for one another."""

    def f(x, a, b):
        for t in range(STEPS):
            a, b = b, F.linear(torch.sin(a), W) + F.linear(x[t], U)
            a, b = F.linear(b, W), a
        return a - b

    yield from twice(compile(f), (STEPS, 2, 8), (2, 8), (2, 8))


@rerolled(every=True)
def test_another_number_of_iterations(compile: Compile) -> Steps:
    """Another specialization, each with its loop."""

    def f(x, h):
        for t in range(x.shape[0]):
            h = torch.tanh(F.linear(x[t], W) + F.linear(h, U))
        return h

    f = compile(f)
    for steps in (80, 80, 100, 100, 80, 100):
        yield f(values(steps, 2, 8), values(2, 8))


@rerolled
def test_weights_in_a_list(compile: Compile) -> Steps:
    """Plain tensors from a list, one replaced between calls."""
    weights = [values(8, 8, seed=k) * 0.3 for k in range(STEPS * 2)]

    def f(x):
        for w in weights:
            x = torch.tanh(F.linear(x, w)) + x * 0.25
        return x

    f = compile(f)
    yield from twice(f, (3, 8))
    weights[4] = values(8, 8, seed=999)
    yield f(values(3, 8))
    weights[5].zero_()
    yield f(values(3, 8))


@rerolled
def test_random_numbers_keep_their_order(compile: Compile) -> Steps:
    def f(x, h):
        for t in range(STEPS):
            h = torch.tanh(F.linear(x[t], W) + F.linear(h, U))
            h = F.dropout(h, 0.3, True)
        return h

    torch.manual_seed(7)
    yield from twice(compile(f), (STEPS, 2, 8), (2, 8))


@rerolled
def test_symbolic_batch(compile: Compile) -> Steps:
    """A size that differs between calls, of the loop-carried state."""

    def f(h):
        for _ in range(STEPS * 2):
            h = torch.tanh(F.linear(h, U)) + h * 0.5
        return h

    f = compile(f)
    for batch in (3, 3, 5, 7, 2, 9):
        yield f(values(batch, 8, seed=batch))


@rerolled(loops=0)
def test_pointwise_iterations_stay(compile: Compile) -> Steps:
    """Kernels reach over many iterations: a loop would be slower."""

    def f(x):
        for _ in range(300):
            x = torch.sin(x) + 1
        return x

    yield from twice(compile(f), (2, 8))


@rerolled(loops=0)
def test_slices_that_grow_stay(compile: Compile) -> Steps:
    """Attention over a cache: each iteration has other types."""

    def f(x):
        cache = torch.zeros(40, 8)
        out = []
        for t in range(40):
            cache[t] = F.linear(x[t], W)
            weights = torch.softmax(cache[: t + 1] @ x[t], 0)
            out.append(weights @ cache[: t + 1])
        return torch.stack(out)

    yield from twice(compile(f), (40, 8))


@rerolled(graph_breaks=ANY)
def test_a_graph_break_in_the_middle(compile: Compile) -> Steps:
    """The loop before a graph break is one of the prefix's."""

    def f(x, h):
        for t in range(STEPS):
            h = torch.tanh(F.linear(x[t], W) + F.linear(h, U))
        print(end="")
        return h + 1

    yield from twice(compile(f), (STEPS, 2, 8), (2, 8))


@rerolled
def test_a_value_of_the_first_iteration_used_later(compile: Compile) -> Steps:
    def f(x, h):
        kept = None
        for t in range(STEPS):
            h = torch.tanh(F.linear(x[t], W) + F.linear(h, U))
            if t == 0:
                kept = h
            h = h + kept
        return h, kept

    yield from twice(compile(f), (STEPS, 2, 8), (2, 8))


@rerolled
def test_the_same_in_each_iteration(compile: Compile) -> Steps:
    """What does not depend on the iteration is computed once."""

    def f(x, h, w):
        for t in range(2 * STEPS):
            h = torch.tanh(F.linear(h, torch.sigmoid(w).t())) + x[t]
        return h

    yield from twice(compile(f), (2 * STEPS, 2, 8), (2, 8), (8, 8))


@rerolled(graph_breaks="an index is out of range")
def test_raising_index(compile: Compile) -> Steps:
    """An index out of range raises out of the loop, as in eager."""
    from Integration.harness import attempt

    def f(table, rows, h):
        for t in range(STEPS):
            h = torch.tanh(F.linear(h, U) + F.embedding(rows[t], table))
        return h

    f = compile(f)
    rows = torch.arange(STEPS) % 10
    for _ in range(3):
        yield f(values(10, 8), rows, values(2, 8))
    rows[40] = 11
    result = attempt(f, values(10, 8), rows, values(2, 8))
    yield type(getattr(result, "type", result)).__name__
