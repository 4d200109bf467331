# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Guards of containers that grow in the call, of keys that are compared with numbers, and of what leaves in dicts."""

from __future__ import annotations

import bisect
import collections
from typing import Any

import torch
from Integration.harness import (
    ANY,
    Compile,
    Steps,
    attempt,
    module_of,
    scenario,
    values,
)


class Box:
    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


@scenario(captured="late")
def test_keys_behind_a_write(compile: Compile) -> Steps:
    """They are those from before the call, and behind them what it has added."""
    d: dict[str, Any] = {"a": 1}

    def g(x: torch.Tensor, key: str) -> Any:
        d[key] = x.sum()
        count, keys = len(d), list(d.keys())
        for value in d.values():
            x = x + value
        d["last"] = 1.0
        return x, count, keys, list(d)

    f = compile(g)
    for step, key in enumerate(["b", "b", "b", "b", "a", "a", "c", "c", "last"]):
        if step == 3:
            d["other"] = 2
        if step == 6:
            del d["a"]
        yield [f(values(3, seed=step), key), dict(d)]


@scenario(captured="late")
def test_key_that_is_there_in_later_calls(compile: Compile) -> Steps:
    box = Box(d={})

    def g(x: torch.Tensor) -> Any:
        box.d["new"] = x + 1
        return sum(box.d.values()), list(box.d)

    f = compile(g)
    for step in range(9):
        if step not in (4, 5):
            box.d = {"new": 0.0, "old": values(3)} if step == 7 else {"old": values(3)}
        yield [f(values(3, seed=step)), dict(box.d)]


@scenario(captured="late", graph_breaks=ANY)
def test_keys_behind_a_deletion(compile: Compile) -> Steps:
    d: dict[str, Any] = {}

    def g(x: torch.Tensor) -> Any:
        del d["a"]
        d["b"] = x * 2
        d["a"] = 1
        return list(d), x + len(d)

    f = compile(g)
    for step in range(5):
        d.clear()
        d.update({"a": 1, "c": step // 3} if step % 2 else {"c": 2, "a": 1})
        yield [f(values(3, seed=step)), dict(d)]


@scenario(captured="late")
def test_defaultdicts_that_leave(compile: Compile) -> Steps:
    box, log = Box(), collections.defaultdict(list)

    def g(x: torch.Tensor) -> Any:
        log["sum"].append(x.sum().item())
        counts: Any = collections.defaultdict(lambda: 0)
        counts["a"] += 1
        box.counts = counts
        box.lists = collections.defaultdict(list, {1: [x]})
        box.plain = collections.defaultdict(None, a=2)
        return collections.defaultdict(int, {"k": x + 1})

    f = compile(g)
    for step in range(6):
        made = f(values(3, seed=step))
        made["new"] += 1
        box.lists[7].append(1)
        yield [type(made).__name__, made.default_factory, dict(made), dict(log)]
        yield [box.counts["b"], dict(box.counts), dict(box.lists)]
        yield [attempt(lambda: box.plain["b"]), box.plain.default_factory]


@scenario(captured="late")
def test_defaultdict_from_before(compile: Compile) -> Steps:
    """One that another call has made is known by what it holds."""
    m = module_of("def zero():\n    return 0\n")
    box = Box(d=collections.defaultdict(m.zero))

    def g(x: torch.Tensor) -> Any:
        y = x * box.d["scale"] + box.d["shift"]
        return y, sorted(box.d)

    f = compile(g)
    for step in range(12):
        if step in (2, 3, 4):
            box.d = collections.defaultdict(m.zero)
        if step == 5:
            box.d = collections.defaultdict(m.zero, scale=2, shift=1)
        if step == 7:
            box.d = collections.defaultdict(lambda: 3)
        if step == 9:
            box.d = collections.defaultdict(None, scale=1)
        yield [attempt(f, values(3, seed=step)), dict(box.d)]


@scenario(captured="late")
def test_numbers_among_keys(compile: Compile) -> Steps:
    """A counter is compared with the keys: what differs is whether it is one of them, and which."""
    milestones: Any = collections.Counter({3: 1, 9: 2})
    box = Box(n=0)

    def g(x: torch.Tensor) -> torch.Tensor:
        box.n += 1
        if box.n in milestones:
            x = x * 10 ** milestones[box.n]
        return x + 1 if box.n not in {2.5: 1, 8.0: 2} else x

    f = compile(g)
    for step in range(18):
        if step == 12:
            milestones[14] = 3
        if step == 15:
            box.n = 2
        yield [f(values(3, seed=step)), box.n]


@scenario(captured="late")
def test_places_in_sorted_lists(compile: Compile) -> Steps:
    ends, box = [3, 6.5, 9], Box(n=0)

    def g(x: torch.Tensor) -> Any:
        box.n += 1
        at = bisect.bisect_right(ends, box.n)
        return x * (at + 1), at, bisect.bisect_left(ends, box.n), bisect.bisect(ends, 4)

    f = compile(g, options={"recompile_limit": 24})
    for step in range(30):
        if step == 16:
            ends.append(20)
        if step == 24:
            ends[0] = 23
            box.n = 1
        yield f(values(3, seed=step))


@scenario(captured="late")
def test_slices_of_tuples(compile: Compile) -> Steps:
    """The elements beside a slice are no part of it."""
    box = Box(pair=(0.5, 0.25, "x"))

    def g(x: torch.Tensor) -> Any:
        box.pair = (box.pair[0] * 0.9, *box.pair[1:])
        return x * box.pair[0] + box.pair[1], box.pair[:1], box.pair[-1:]

    f = compile(lambda x: g(x)[0])
    whole = compile(g)
    for step in range(14):
        if step == 6:
            box.pair = (box.pair[0], 0.75, "x")
        if step == 9:
            box.pair = (box.pair[0], 0.75, "x", "y")
        yield [f(values(3, seed=step)), box.pair]
    for step in range(4):
        yield [whole(values(3, seed=step)), box.pair]


@scenario(captured="late")
def test_devices_as_keys(compile: Compile) -> Steps:
    box = Box(found={})

    def put(x: torch.Tensor) -> None:
        box.found = {x.device: x.sum(), torch.device("cpu", 0): x}

    def get(x: torch.Tensor) -> Any:
        return box.found[x.device] * 2, [d.type for d in box.found]

    f, g = compile(put), compile(get)
    for step in range(5):
        f(values(3, seed=step))
        yield [g(values(3)), [str(d) for d in box.found], list(box.found.values())]
        box.found = {torch.device("cpu"): values(3, seed=9)}
        yield g(values(3))
