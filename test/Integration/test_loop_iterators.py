# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graph breaks within loops: what follows takes over the loop's iterator, and who else could see it move does."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from Integration.graph_breaks import graph_break_scenario
from Integration.harness import Compile, Steps, attempt, values
from torch import nn

Tensor = torch.Tensor
paper = io.StringIO()


class Model(nn.Module):
    def __init__(self, count: int = 4) -> None:
        super().__init__()
        torch.manual_seed(count)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(count))
        self.blocks = nn.Sequential(*(nn.Linear(4, 4) for _ in range(count)))
        self.plain = list(self.layers)
        self.fixed = tuple(self.blocks)
        self.table = {f"k{i}": nn.Linear(4, 4) for i in range(count)}
        self.names = nn.ModuleDict({f"n{i}": nn.Linear(4, 4) for i in range(count)})
        self.scales = [0.5 + i for i in range(count)]
        self.held: Any = None


def counted(model: Model, x: Tensor) -> Tensor:
    for i, layer in enumerate(model.layers):
        x = layer(x)
        paper.write(str(i))
        x = torch.relu(x) * (i + 2)
    return x


def started(model: Model, x: Tensor) -> Tensor:
    for i, layer in enumerate(model.plain, 3):
        paper.write(str(i))
        x = layer(x) * i
    return x


def listed(model: Model, x: Tensor) -> Tensor:
    for layer in model.plain:
        paper.write(".")
        x = layer(x).tanh()
    return x


def sequential(model: Model, x: Tensor) -> Tensor:
    for layer in model.blocks:
        x = layer(x)
        paper.write(".")
        x = x * 2
    return x


def from_tuple(model: Model, x: Tensor) -> Tensor:
    for layer in model.fixed:
        paper.write(".")
        x = layer(x)
    return x


def items(model: Model, x: Tensor) -> Tensor:
    for name, layer in model.table.items():
        paper.write(name)
        x = layer(x) + len(name)
    return x


def keys(model: Model, x: Tensor) -> Tensor:
    for name in model.names:
        paper.write(name)
        x = model.names[name](x)
    return x


def dict_values(model: Model, x: Tensor) -> Tensor:
    for layer in model.table.values():
        paper.write(".")
        x = layer(x)
    return x


def zipped(model: Model, x: Tensor) -> Tensor:
    for layer, scale, i in zip(model.layers, model.scales, range(2, 9)):
        x = layer(x) * i
        paper.write(".")
        x = x * scale
    return x


def in_step(model: Model, x: Tensor) -> Tensor:
    for i, (layer, (name, other)) in enumerate(
        zip(model.layers, model.table.items(), strict=True)
    ):
        x = layer(x) + i
        paper.write(name)
        x = other(x)
    return x


def backwards(model: Model, x: Tensor) -> Tensor:
    for layer in reversed(model.plain):
        paper.write(".")
        x = layer(x)
    for layer in reversed(model.layers):
        x = layer(x)
        paper.write(".")
    for layer in reversed(model.fixed):
        paper.write(".")
        x = layer(x)
    return x


def letters(model: Model, x: Tensor) -> Tensor:
    for letter in "aβc":
        x = x * 2
        paper.write(letter)
        x = x + ord(letter)
    return x


def nested(model: Model, x: Tensor) -> Tensor:
    for layer in model.layers:
        for name in ("a", "bc"):
            x = layer(x)
            paper.write(name)
            x = x * len(name)
        x = x + 1
    return x


def show(x: Tensor, text: str) -> Tensor:
    y = x * 2
    paper.write(text)
    return y + 1


def in_another_frame(model: Model, x: Tensor) -> Tensor:
    """The frame with the loop waits for the one with the graph break."""
    for name, layer in model.table.items():
        x = layer(show(x, name))
    return x


TAKEN_OVER = (
    counted,
    started,
    listed,
    sequential,
    from_tuple,
    items,
    keys,
    dict_values,
    zipped,
    in_step,
    backwards,
    letters,
    nested,
    in_another_frame,
)


def compare(f: Callable[..., Any], options: dict[str, Any], count: int = 4) -> Any:
    model = Model(count)
    fast = pyjit.compile(f, options=options)
    with torch.no_grad():
        for seed in range(6):
            x = values(2, 4, seed=seed)
            paper.seek(paper.truncate(0))
            want, text = f(model, x), paper.getvalue()
            paper.seek(paper.truncate(0))
            torch.testing.assert_close(fast(model, x), want)
            assert paper.getvalue() == text
    return pyjit.stats(fast)


@pytest.mark.parametrize("f", TAKEN_OVER, ids=lambda f: f.__name__)
def test_taken_over(f: Callable[..., Any]) -> None:
    """The call that shows the loop is recorded, with all of its iterations; the others hit throughout."""
    stats = compare(f, {"compare_with_eager": False})
    assert (stats["misses"], stats["eager_calls"]) == (1, 0), stats["reasons"]
    assert all("TextIO" in why or "StringIO" in why for why in stats["reasons"]), stats


def test_too_many_places() -> None:
    """A loop of more places than there may be specializations: the iterator is passed on unseen."""
    stats = compare(listed, {"compare_with_eager": False}, count=13)
    assert "list_iterator" in str(stats["reasons"])
    assert stats["specializations"] < 13


def test_limit_is_for_each_place() -> None:
    """Further kinds of calls: another grad mode, other sizes."""
    model = Model(6)
    fast = pyjit.compile(counted, options={"compare_with_eager": False})
    for _ in range(2):
        for grad in (False, True):
            for size in (2, 3, 5):
                x = values(size, 4, seed=size)
                with torch.set_grad_enabled(grad):
                    torch.testing.assert_close(fast(model, x), counted(model, x))
    stats = pyjit.stats(fast)
    assert "specialization" not in str(stats["reasons"])
    hits = stats["continuation_hits"]
    with torch.no_grad():
        fast(model, values(7, 4))
    assert pyjit.stats(fast)["continuation_hits"] == hits + 6


# ---- What changes between calls and within them --------------------------------------------------------


def run(f: Any, model: Model, calls: int = 3) -> Steps:
    for seed in range(calls):
        paper.seek(paper.truncate(0))
        yield attempt(f, model, values(2, 4, seed=seed))
        yield paper.getvalue()


@graph_break_scenario
def test_container_changes_between_calls(compile: Compile) -> Steps:
    model, f = Model(2), compile(counted_list)
    yield from run(f, model)
    model.plain.append(nn.Linear(4, 4, device="meta").to_empty(device="cpu"))
    nn.init.constant_(model.plain[-1].weight, 0.5)
    nn.init.zeros_(model.plain[-1].bias)
    yield from run(f, model)
    model.plain.reverse()
    yield from run(f, model)
    model.plain = model.plain[1:]
    yield from run(f, model)
    model.plain.clear()
    yield from run(f, model)


def counted_list(model: Model, x: Tensor) -> Tensor:
    for i, layer in enumerate(model.plain):
        paper.write(str(i))
        x = layer(x) + i
    return x


@graph_break_scenario
def test_list_that_the_loop_changes(compile: Compile) -> Steps:
    def grow(model: Model, x: Tensor) -> Tensor:
        for layer in model.plain:
            paper.write(".")
            x = layer(x)
            if len(model.plain) < 5:
                model.plain.append(model.plain[0])
            else:
                model.plain.pop()
        return x

    model, f = Model(3), compile(grow)
    for step in run(f, model, 4):
        yield step
        yield len(model.plain)


@graph_break_scenario
def test_dict_that_changes(compile: Compile) -> Steps:
    """Another size, or as many keys of which one is another: eager raises at the next step, or stops early."""

    def walk(model: Model, x: Tensor, change: Callable[[Any], object]) -> Tensor:
        for name, layer in model.table.items():
            paper.write(name)
            x = layer(x)
            if name == "k1":
                change(model.table)
        return x

    def add(table: dict[str, Any]) -> None:
        table["new"] = table["k0"]

    def remove(table: dict[str, Any]) -> None:
        del table["k0"]

    def exchange(table: dict[str, Any]) -> None:
        table["new"] = table.pop("k0")

    def store(table: dict[str, Any]) -> None:
        table["k2"] = table["k0"]

    f, model = compile(walk), Model(3)
    table = dict(model.table)
    for change in (
        len,
        len,
        store,
        store,
        add,
        add,
        remove,
        remove,
        exchange,
        exchange,
    ):
        model.table.clear()
        model.table.update(table)
        yield attempt(f, model, values(2, 4), change)
        yield list(model.table)


@graph_break_scenario
def test_eager_part_changes_the_dict(compile: Compile) -> Steps:
    """At the graph break itself."""

    def walk(model: Model, x: Tensor, change: Any) -> Tensor:
        for name in model.table:
            x = x * 2
            change(name)
            x = model.table[name](x)
        return x

    @pyjit.disable
    def change(name: str) -> None:
        if name == wanted[0]:
            model.table.pop("k2")

    f, model, wanted = compile(walk), Model(3), [""]
    last = model.table["k2"]
    for at in ("", "", "k0", "k1", "k0", ""):
        wanted[0] = at
        model.table["k2"] = last
        yield attempt(f, model, values(2, 4), change)


@graph_break_scenario
def test_iterator_that_the_program_keeps(compile: Compile) -> Steps:
    """In an attribute, in a second variable, in an argument: all of them move."""

    def keep(model: Model, x: Tensor) -> Tensor:
        model.held = iter(model.plain)
        for layer in model.held:
            paper.write(".")
            x = layer(x)
            if x.sum() > 1e9:
                break
        return x

    def twice(model: Model, x: Tensor) -> Tensor:
        steps = iter(model.plain)
        for layer in steps:
            paper.write(".")
            x = layer(x)
            other = next(steps, None)
            if other is not None:
                x = other(x) * 2
        return x + len(list(steps))

    model = Model(3)
    for f in (compile(keep), compile(twice)):
        for step in run(f, model, 4):
            yield step
            yield None if model.held is None else list(model.held)

    def given(model: Model, x: Tensor, steps: Any) -> Tensor:
        for layer in steps:
            x = layer(x)
            paper.write(".")
            x = x * 2
            if layer is model.plain[1]:
                break
        return x

    f = compile(given)
    for _ in range(4):
        steps = iter(model.plain)
        yield f(model, values(2, 4), steps)
        yield len(list(steps))


@graph_break_scenario
def test_one_iterator_in_two_places_of_a_zip(compile: Compile) -> Steps:
    def pairs(model: Model, x: Tensor) -> Tensor:
        steps = iter(model.plain)
        for first, second in zip(steps, steps):
            x = first(x)
            paper.write(".")
            x = second(x) - first(x)
        return x + len(list(steps))

    yield from run(compile(pairs), Model(5), 4)


@graph_break_scenario
def test_zip_of_differing_lengths(compile: Compile) -> Steps:
    def both(model: Model, x: Tensor, strict: bool) -> Tensor:
        for layer, name in zip(model.plain, model.table, strict=strict):
            x = layer(x)
            paper.write(name)
            x = x * 2
        return x

    f, model = compile(both), Model(3)
    layers = model.plain
    for strict in (False, True):
        for short in (0, 0, 1, 1, 0):
            model.plain = layers[short:]
            yield attempt(f, model, values(2, 4), strict)


@graph_break_scenario
def test_begun_in_part(compile: Compile) -> Steps:
    def rest(model: Model, x: Tensor, begun: int) -> Tensor:
        steps = iter(model.table.items())
        for _ in range(begun):
            next(steps, None)
        for name, layer in steps:
            x = layer(x)
            paper.write(name)
            x = x + len(name)
        x = x - 1
        return x

    f, model = compile(rest), Model(3)
    for begun in (0, 0, 1, 1, 2, 3, 4, 1):
        yield f(model, values(2, 4), begun)


@graph_break_scenario
def test_iterators_that_leave(compile: Compile) -> Steps:
    """What the call returns goes on over what it walks over."""

    def begin(model: Model, x: Tensor) -> Any:
        steps, pairs, names = (
            iter(model.plain),
            enumerate(model.scales, 2),
            iter(model.table),
        )
        first = next(steps)(x)
        next(names)
        paper.write(".")
        return first * 2, steps, next(pairs), pairs, zip(model.table, [x]), names

    model, f = Model(3), compile(begin)
    for _ in range(3):
        first, steps, pair, pairs, both, names = f(model, values(2, 4))
        yield first, pair, list(both)
        model.plain.append(model.plain[0])
        yield len(list(steps))
        model.plain.pop()
        model.scales.append(7.0)
        yield list(pairs)
        model.scales.pop()
        yield list(names)


@graph_break_scenario
def test_dict_that_grows_behind_the_call(compile: Compile) -> Steps:
    def begin(model: Model, x: Tensor) -> Any:
        names = iter(model.table)
        paper.write(next(names))
        return x * 2, names

    model, f = Model(2), compile(begin)
    for i in range(3):
        y, names = f(model, values(2, 4))
        yield y
        model.table["new"] = model.plain[0]
        yield attempt(next, names)
        if i < 2:
            del model.table["new"]


@graph_break_scenario
def test_lists_that_the_call_makes(compile: Compile) -> Steps:
    def made(model: Model, x: Tensor) -> Tensor:
        chosen = [layer for layer in model.layers if layer is not model.layers[1]]
        for layer in chosen:
            x = layer(x)
            paper.write(".")
            if len(chosen) < 5:
                chosen.append(model.layers[0])
        return x * len(chosen)

    yield from run(compile(made), Model(3), 4)


@graph_break_scenario(grad=True)
def test_training(compile: Compile) -> Steps:
    model = Model(3)
    f = compile(counted)
    for seed in range(3):
        model.zero_grad()
        loss = f(model, values(2, 4, seed=seed)).pow(2).mean()
        loss.backward()
        yield loss
        yield [layer.weight.grad for layer in model.plain]
