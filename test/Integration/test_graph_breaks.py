# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls with a graph break at something that is not modelled, and go on."""

from __future__ import annotations

import ctypes
import json
import os
import random
import time
import traceback
import warnings
from typing import Any

import pyjit
import pytest
import torch
from Integration.graph_breaks import graph_break_scenario, printed
from Integration.harness import Compile, Steps, attempt, values
from torch import nn

libc = ctypes.CDLL(None)


class Plain:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def break_once(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    a = torch.relu(x + y)
    print("so far", a.shape[0])
    return a * 2 + x


def test_both_parts_hit_on_the_second_call() -> None:
    f = pyjit.compile(break_once)
    for seed in range(3):
        x, y = values(8, seed=seed), values(8, seed=seed + 7)
        have, text = printed(f, x, y)
        assert text == "so far 8\n"
        torch.testing.assert_close(have, torch.relu(x + y) * 2 + x)
    stats = pyjit.stats(f)
    assert (stats["graphs"], stats["graph_breaks"]) == (2, 1)
    assert (stats["hits"], stats["continuation_hits"]) == (2, 2)
    assert stats["misses"] == 1
    assert stats["eager_calls"] == 0
    assert stats["reasons"] == stats["graph_break_sites"]


def test_explain_names_the_graph_break() -> None:
    text = printed(pyjit.explain(break_once), values(4), values(4))[0]
    line = break_once.__code__.co_firstlineno + 2
    assert f"graph break: print at {__file__}:{line}" in text


def test_fullgraph_raises_instead() -> None:
    """Behind the call that showed it: its result is not lost."""
    f = pyjit.compile(break_once, fullgraph=True)
    with pytest.warns(pyjit.PyjitWarning, match="the next such call raises"):
        result, text = printed(f, values(4), values(4))
    assert torch.equal(result, printed(break_once, values(4), values(4))[0])
    assert text == "so far 4\n"
    for _ in range(2):
        with pytest.raises(pyjit.CaptureError, match="print") as caught:
            assert not printed(f, values(4), values(4))
    text = str(caught.value)
    line = break_once.__code__.co_firstlineno + 2
    assert f"test_graph_breaks.py:{line}" in text and 'print("so far"' in text
    assert "what to do: " in text and "docs/GraphBreaks.md#print" in text


@graph_break_scenario
def test_print_shows_the_values_of_each_call(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        print(y)
        return y + 1

    f = compile(g)
    for seed in range(4):
        yield printed(f, values(3, seed=seed))


@graph_break_scenario
def test_side_effects_stay_in_order(compile: Compile) -> Steps:
    log: list[Any] = []
    state = Plain(n=None)

    class Watcher:
        def write(self, text: str) -> None:
            log.append((text, state.n, len(log)))

        def flush(self) -> None:
            pass

    watcher = Watcher()

    def g(x: torch.Tensor) -> torch.Tensor:
        state.n = "before"
        y = x + 1
        print("first", file=watcher)
        state.n = "between"
        log.append("appended")
        y = y * 3
        print("second", file=watcher)
        state.n = "after"
        return y

    f = compile(g)
    for _ in range(4):
        yield f(values(4))
        yield [list(log), state.n]


@graph_break_scenario
def test_time_is_asked_each_time(compile: Compile) -> Steps:
    times: list[float] = []

    def g(x: torch.Tensor) -> torch.Tensor:
        times.append(time.perf_counter())
        y = torch.relu(x) + 1
        times.append(time.perf_counter())
        return y * 2

    f = compile(g)
    for seed in range(6):
        yield f(values(4, seed=seed))
    yield [len(times), times == sorted(set(times))]


@graph_break_scenario
def test_random_numbers_of_python(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        k = random.random()
        return y * k + x.cos()

    f = compile(g)
    for _ in range(6):
        yield f(values(4))


@graph_break_scenario
def test_ctypes(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        n = libc.abs(-3)
        return y * n

    f = compile(g)
    for seed in range(4):
        yield f(values(4, seed=seed))


@graph_break_scenario
def test_file(compile: Compile) -> Steps:
    name = f"/tmp/pyjit-cut-{os.getpid()}.txt"

    def g(x: torch.Tensor, text: str) -> Any:
        y = x * 2
        with open(name, "a") as out:
            out.write(text)
            y = y + 1
        with open(name) as back:
            size = len(back.readlines())
        return y * 3, size

    f = compile(g)
    try:
        if os.path.exists(name):
            os.remove(name)
        for i in range(8):
            yield f(values(4, seed=i), "line\n")
    finally:
        os.remove(name)


@graph_break_scenario(hits=0)
def test_item(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> Any:
        y = x * 2
        k = y.sum().item()
        return (y * k).relu() + 1, k

    f = compile(g)
    for seed in range(6):
        yield f(values(4, seed=seed))


@graph_break_scenario
def test_tolist(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> Any:
        rows = (x > 0).tolist()
        return x * 2, rows

    f = compile(g)
    for seed in range(5):
        yield f(values(4, seed=seed))


@graph_break_scenario
def test_mask(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        z = y[y > 0]
        return z.sum() + y.mean()

    f = compile(g)
    for seed in range(5):
        yield f(values(4, seed=seed))
    yield f(torch.ones(4))


@graph_break_scenario
def test_operand_stack(compile: Compile) -> Steps:
    def twice(x: torch.Tensor, n: int, k: float = 1.0) -> torch.Tensor:
        return x * n * k

    def g(x: torch.Tensor) -> Any:
        return [x + 1, {"a": twice(x * 2, libc.abs(-2), k=libc.abs(3))}, (x - 1,)]

    f = compile(g)
    for seed in range(5):
        yield f(values(4, seed=seed))


@graph_break_scenario
def test_aliases_between_locals(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> Any:
        a = [x + 1]
        b = {"a": a, "t": a[0]}
        c = a[0]
        print(end="")
        a.append(c * 2)
        c.add_(1)
        return a, b, c, b["a"] is a, b["t"] is c, a[0] is c

    f = compile(g)
    for seed in range(4):
        yield f(values(4, seed=seed))


@graph_break_scenario
def test_views_still_share_memory(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> Any:
        base = x * 2
        row = base[1]
        print(end="")
        return base, row

    f = compile(g)
    for seed in range(4):
        base, row = f(values(3, 4, seed=seed))
        row.zero_()
        yield base, row


@graph_break_scenario
def test_argument_changed_by_the_call(compile: Compile) -> Steps:
    class Sink(list):
        def write(self, text: str) -> None:
            box.k = -box.k
            box.items[0] = box.k

        def flush(self) -> None:
            pass

    box = Plain(k=1, items=[5, 6])
    sink = Sink()

    def g(x: torch.Tensor) -> Any:
        y = x * box.items[1]
        print("go", end="", file=sink)
        return y + box.k, box.items[0]

    f = compile(g)
    for _ in range(4):
        yield [f(values(4)), box.k, box.items]


@graph_break_scenario
def test_input_mutated_before_and_after(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        print(x[0])
        x.add_(1)
        return x * 3

    f = compile(g)
    for seed in range(4):
        x = values(4, seed=seed)
        yield printed(f, x)
        yield x


@graph_break_scenario
def test_module_with_print(compile: Compile) -> Steps:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = torch.relu(self.first(x))
            print("hidden", tuple(h.shape))
            return self.second(h)

    net = Net().eval()
    f = compile(net)
    for seed in range(4):
        yield printed(f, values(2, 4, seed=seed))
    net.second.weight.mul_(2)
    yield printed(f, values(2, 4))
    net.second = nn.Linear(8, 3)
    yield printed(f, values(2, 4))
    yield printed(f, values(5, 4))


@graph_break_scenario
def test_other_shapes_get_other_parts(compile: Compile) -> Steps:
    def g(x: torch.Tensor, n: int) -> torch.Tensor:
        y = x + n
        print(end="")
        return y.sum(0) * n

    f = compile(g)
    for shape, n in [((2, 3), 1), ((4, 3), 1), ((2, 3), 2), ((2, 3), 1), ((4, 3), 1)]:
        yield f(values(*shape), n)


@graph_break_scenario
def test_exception_of_the_call(compile: Compile) -> Steps:
    def g(x: torch.Tensor, text: str) -> Any:
        y = x * 2
        k = json.loads(text)
        return y + k

    f = compile(g)
    for text in ("1", "2", "2", "{", "3"):
        yield attempt(f, values(4), text)


def test_traceback_names_the_users_lines() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        os.stat("/nowhere" if fail else "/")
        return y * 2

    def outer(x: torch.Tensor) -> torch.Tensor:
        z = x * 3
        return inner(z) + 1

    f = pyjit.compile(outer)
    fail = False
    for _ in range(3):
        f(values(4))
    fail = True
    with pytest.raises(FileNotFoundError) as caught:
        f(values(4))
    lines = [
        (entry.name, entry.lineno)
        for entry in traceback.extract_tb(caught.value.__traceback__)
        if entry.filename == __file__
    ][1:]
    assert lines == [
        ("outer", outer.__code__.co_firstlineno + 2),
        ("inner", inner.__code__.co_firstlineno + 2),
    ]


def test_warning_names_the_users_line() -> None:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        warnings.warn("careful", UserWarning, stacklevel=1)
        return y * 2

    f = pyjit.compile(g)
    for _ in range(4):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            f(values(4))
        assert [(w.filename, w.lineno) for w in caught] == [
            (__file__, g.__code__.co_firstlineno + 2)
        ]


@graph_break_scenario
def test_locals_are_all_there(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> Any:
        unused = 5
        y = x + unused
        names = sorted(locals())
        return y * 2, names

    f = compile(g)
    for seed in range(4):
        yield f(values(4, seed=seed))


@graph_break_scenario
def test_reentered_at_a_graph_break(compile: Compile) -> Steps:
    class Again:
        def write(self, text: str) -> None:
            if depth:
                depth.pop()
                seen.append(f(values(4), 2.0))

        def flush(self) -> None:
            pass

    seen: list[Any] = []
    depth: list[int] = []
    again = Again()

    def g(x: torch.Tensor, k: float) -> torch.Tensor:
        y = x * k
        print("x", end="", file=again)
        return y + 1

    f = compile(g)
    for _ in range(4):
        depth.append(1)
        yield f(values(4), 3.0)
        yield list(seen)


@graph_break_scenario
def test_starred_arguments_in_a_loop(compile: Compile) -> Steps:
    """The list that becomes the arguments' tuple may be from before a continuation."""

    def inner(values: list[torch.Tensor], _: str, number: int) -> torch.Tensor:
        print(end="")
        return values[-1] * 10 + number

    def g(x: torch.Tensor, lines: list[Any]) -> list[torch.Tensor]:
        values = [x]
        for line in lines:
            values.append(inner(values, *line))
        return values

    f = compile(g)
    for turn in range(12):
        yield f(values(4), [("a", 0), ("b", 1), ("c", 2 + turn // 6)])


def test_reset_forgets_continuations() -> None:
    f = pyjit.compile(break_once)
    for _ in range(2):
        printed(f, values(4), values(4))
    pyjit.reset()
    assert pyjit.stats(f)["specializations"] == 0
    assert pyjit.stats(f)["graph_breaks"] == 0
    for _ in range(2):
        printed(f, values(4), values(4))
    assert pyjit.stats(f)["continuation_hits"] == 1


def test_compiled_functions_die() -> None:
    import gc
    import weakref

    f = pyjit.compile(break_once)
    for _ in range(2):
        printed(f, values(4), values(4))
    gone = weakref.ref(f)
    del f
    gc.collect()
    assert gone() is None
