# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Idioms of plain Python that stay in one graph, and what each of them has to notice."""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
import operator
import os
import re
import sys
import types
import typing
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration.harness import values
from Integration.idioms import graphs, hits, same
from torch import nn


@dataclasses.dataclass(slots=True)
class Slots:
    h: torch.Tensor
    k: int = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    h: torch.Tensor
    rest: tuple[int, ...] = ()


class More(Frozen):
    __slots__ = ("extra",)


class Half:
    __slots__ = ("a", "b")


class Level(enum.IntEnum):
    LOW = 2
    HIGH = 3


@functools.total_ordering
class Ordered:
    def __init__(self, v: int) -> None:
        self.v = v

    def __lt__(self, other: Any) -> Any:
        return self.v < other.v if isinstance(other, Ordered) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ordered) and self.v == other.v

    def __hash__(self) -> int:
        return hash(self.v)


class Base:
    scale = 2

    def run(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


def class_statement(x: torch.Tensor) -> torch.Tensor:
    class Local(Base):
        """Of the call's own."""

        offset: int = 3

        def __init__(self, times: int) -> None:
            self.times = times

        @property
        def twice(self) -> int:
            return self.times * 2

        @staticmethod
        def shift(t: torch.Tensor) -> torch.Tensor:
            return t + 1

        @classmethod
        def make(cls, n: int) -> Any:
            return cls(n)

        def run(self, x: torch.Tensor) -> torch.Tensor:
            return super().run(x) * self.twice + self.offset

    local = Local.make(3)
    return local.shift(local.run(x)) if isinstance(local, Base) else x


def own_exception(x: torch.Tensor) -> torch.Tensor:
    class Stop(Exception):
        pass

    try:
        for i in range(5):
            x = x * 2
            if i == 2:
                raise Stop(i)
    except Stop as stop:
        return x * len(stop.args)
    return x


def half_filled(x: torch.Tensor) -> Half:
    out = Half()
    out.a = x * 2
    return out


def more(x: torch.Tensor) -> More:
    out = More(x + 1, (1, 2))
    object.__setattr__(out, "extra", x)
    return out


def sorting(x: torch.Tensor) -> Any:
    pairs = [(2, x), (1, x * 2), (3, x + 1)]
    names = {"b": 1, "a": 2}
    pairs.sort(key=lambda p: p[0])
    return (
        [t for _, t in pairs],
        sorted(pairs, key=operator.itemgetter(0), reverse=True)[0][1],  # noqa: FURB192
        sorted(names.items(), key=lambda item: item[1]),
        sorted(names.items(), key=operator.itemgetter(1)),
        max(names, key=names.get),
        min(["ccc", "a"], key=len),
        max(names.items(), key=lambda item: item[1])[0],
        sorted(["B", "a"], key=str.lower),
        sorted([Ordered(3), Ordered(1)])[0].v,  # noqa: FURB192
        Ordered(1) <= Ordered(2),
        max(range(3), key=lambda i: -i),
        sorted({3, 1, 2}),
    )


def getters(x: torch.Tensor) -> Any:
    box = types.SimpleNamespace(t=x, inner=types.SimpleNamespace(k=3))
    return (
        operator.itemgetter(0)([x, 1]),
        operator.itemgetter("a", "b")({"a": x, "b": 2}),
        operator.attrgetter("inner.k")(box),
        operator.attrgetter("t")(box),
        operator.methodcaller("sum", -1)(x),
    )


def iterators(x: torch.Tensor) -> Any:
    rows = x.unbind(0)
    return (
        list(itertools.takewhile(lambda i: i < 3, [1, 2, 3, 1])),
        list(itertools.dropwhile(lambda i: i < 3, [1, 2, 3, 1])),
        list(itertools.filterfalse(lambda i: i < 3, [1, 2, 3, 1])),
        list(itertools.compress(rows, [1, 0, 1, 0])),
        [torch.stack(b) for b in itertools.batched(rows, 2)],
        list(itertools.starmap(torch.mul, [(x, 2), (x, x)])),
        list(itertools.accumulate(rows)),
        list(map(functools.partial(torch.mul, x), [1, 2])),
        list(map(lambda pair: pair[0] * pair[1], zip(rows, [1, 2, 3, 4]))),  # noqa: C417
        list(filter(None, [0, 1, 2])),
    )


def plain(x: torch.Tensor) -> Any:
    found = re.match(r"(\w+)\.(\d+)", "layer.3")
    space = types.SimpleNamespace(a=2)
    space.b = x
    return (
        x * int(found.group(2)) * len(found.groups()),
        "abc".translate(str.maketrans("a", "b")),
        re.sub(r"\d", "n", "a1"),
        space.b * space.a,
        space,
        bytes(3),
        weakref.ref(LAYERS)() is LAYERS,
        globals()["LAYERS"] is LAYERS,
        torch.cuda.is_available(),
        x.type(torch.float64),
        x.type(),
    )


def numbers(x: torch.Tensor) -> Any:
    return (
        x / np.sqrt(x.shape[-1]),
        x * np.float32(2.0) + np.log(4),
        x * float(1 / np.sqrt(64)),
        x * Level.HIGH + Level(2),
        Level.LOW * x,
        np.sqrt(16.0),
        int(np.ceil(2.5)),
    )


def typed(x: torch.Tensor) -> torch.Tensor:
    out = torch.jit.annotate(typing.List[torch.Tensor], [])  # noqa: UP006
    kind = typing.Optional[torch.Tensor]  # noqa: UP045
    out.append(x * 2)
    return out[0] if kind is not None else x


def marked(x: torch.Tensor) -> torch.Tensor:
    with torch.profiler.record_function("forward"):
        return x * 2


LAYERS = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)]).eval()


RRELU = nn.RReLU(0.2, 0.4).eval()


def backwards(x: torch.Tensor) -> torch.Tensor:
    for layer in reversed(LAYERS):
        x = layer(x)
    return x


PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "slots": lambda x: Slots(x * 2),
    "frozen slots": lambda x: (Frozen(x * 2, (1,)), Frozen(x)),
    "slots of two classes": more,
    "an empty slot": half_filled,
    "class": class_statement,
    "own exception": own_exception,
    "sorting": sorting,
    "getters": getters,
    "iterators": iterators,
    "plain": plain,
    "numbers": numbers,
    "typing": typed,
    "marks": marked,
    "reversed modules": backwards,
    "map of modules": lambda x: list(map(LAYERS[0], [x, x * 2])),
    "rrelu": lambda x: F.rrelu(x) + RRELU(x),
    "rrelu in place": lambda x: F.rrelu_(x * 2),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    program = PROGRAMS[name]
    with torch.no_grad():
        program(values(4, 8))  # fills caches of torch's and Python's
        fast = pyjit.compile(program)
        for seed in range(3):
            x = values(4, 8, seed=seed)
            expected, got = program(x), fast(x.clone())
            if isinstance(expected, Half):
                same(expected.a, got.a)
                assert type(got) is Half
                assert not hasattr(got, "b")
            else:
                same(expected, got)
        stats = pyjit.stats(fast)
        assert (stats["reasons"], stats["graph_break_sites"]) == ([], [])
        assert (graphs(fast), hits(fast)) == (1, 2)


def test_instances_with_slots_are_new_each_time() -> None:
    f = pyjit.compile(lambda x: Slots(x * 2))
    x = values(4)
    f(x)
    one, two = f(x), f(x)
    assert one is not two
    one.k = 7
    assert f(x).k == 2
    more_of = pyjit.compile(more)
    more_of(x)
    assert (more_of(x).rest, more_of(x).extra is x) == ((1, 2), True)


def follows(
    program: Callable[..., Any], change: Callable[[int], None], *args: Any
) -> None:
    """The compiled function answers as the program does after each change, and hits between. What an instruction
    looks at is fixed by a specialization for the first three values; the fourth makes it a graph break
    (`test_settling.py`)."""
    fast = pyjit.compile(program)
    for step in range(4):
        change(step)
        for _ in range(2):
            same(program(*args), fast(*args))
        if step < 3:
            assert pyjit.stats(fast)["graph_break_sites"] == []
    assert hits(fast) >= 1


def test_what_a_key_looks_at_is_guarded() -> None:
    weights = {"a": 1, "b": 2, "c": 3}
    order = [["b"], ["a"], ["c"]]

    def change(step: int) -> None:
        weights.update(a=3 - step, b=step)
        order[0][0] = "bdea"[step]

    x = values(4)
    follows(lambda t: (sorted("abc", key=lambda n: weights[n]), t * 2), change, x)
    follows(lambda t: (max("abc", key=weights.get), t * 2), change, x)
    follows(lambda t: (sorted(order, key=lambda n: n), t * 2), change, x)
    follows(lambda t: (sorted(order, key=operator.itemgetter(0)), t * 2), change, x)
    follows(lambda t: (min(order), t * 2), change, x)


def test_what_a_predicate_returns_is_guarded() -> None:
    flags: dict[str, list[int]] = {"a": [], "b": [1]}

    def change(step: int) -> None:
        flags["a"][:] = [1] * (step % 2)

    x = values(4)
    follows(
        lambda t: ([t * len(n) for n in filter(lambda k: flags[k], "ab")],), change, x
    )
    follows(
        lambda t: (list(itertools.takewhile(lambda k: flags[k], ["b", "a"])), t * 2),
        change,
        x,
    )
    follows(
        lambda t: (list(filter(None, [flags["a"], flags["b"]])) != [], t), change, x
    )


def test_members_read_by_getters_are_guarded() -> None:
    box = types.SimpleNamespace(k=1, inner=types.SimpleNamespace(j=2))
    pick = operator.attrgetter("k")
    deep = operator.attrgetter("inner.j")
    items = [1, 2]
    first = operator.itemgetter(0)

    def change(step: int) -> None:
        box.k = step
        box.inner = types.SimpleNamespace(j=step * 2)
        items[0] = step

    follows(lambda t: t * pick(box) + deep(box) + first(items), change, values(4))


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 1 / np.sqrt(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


def test_numbers_of_numpys_are_guarded() -> None:
    module = Scaled().eval()

    def change(step: int) -> None:
        module.scale = np.float64(step + 0.5) if step < 3 else np.float32(2)

    follows(lambda x: module(x), change, values(4))


def test_bases_of_own_classes_are_guarded() -> None:
    class Parent:
        k = 1

        def go(self) -> int:
            return self.k

    def run(x: torch.Tensor) -> torch.Tensor:
        class Child(Parent):
            pass

        return x * Child().go()

    def change(step: int) -> None:
        Parent.k = step
        if step == 2:
            Parent.go = lambda self: 10 * self.k  # type: ignore[method-assign]
        if step == 3:
            Parent.__init__ = lambda self: setattr(self, "k", 5)  # type: ignore[method-assign]

    follows(run, change, values(4))


def test_class_bodies_read_variables_around_them() -> None:
    factor = 1

    def run(x: torch.Tensor) -> torch.Tensor:
        own = factor + 1

        class Scale:
            helper = own
            by = helper * own
            del helper

            def go(self, y: torch.Tensor) -> torch.Tensor:
                return y * self.by + hasattr(self, "helper")

        return Scale().go(x)

    def change(step: int) -> None:
        nonlocal factor
        factor = step

    follows(run, change, values(4))


def test_names_of_paths_are_guarded() -> None:
    folder = "a"

    def run(x: torch.Tensor) -> torch.Tensor:
        return x * len(os.path.join(folder, "b"))

    def change(step: int) -> None:
        nonlocal folder
        folder = "ab" * step

    follows(run, change, values(4))


def test_reversed_modules_are_guarded() -> None:
    layers = nn.ModuleList([nn.Linear(4, 4), nn.ReLU()]).eval()

    def run(x: torch.Tensor) -> torch.Tensor:
        for layer in reversed(layers):
            x = layer(x)
        return x

    def change(step: int) -> None:
        if step == 1:
            layers.append(nn.Linear(4, 4))
        if step == 2:
            layers[0] = nn.Tanh()

    with torch.no_grad():
        follows(run, change, values(4))


def _contract_path(
    equation: str, *operands: torch.Tensor, optimize: object = None
) -> Any:
    """As opt_einsum's: Python over sets, which says in which order operands are multiplied."""
    left, _, right = equation.partition("->")
    sets = [frozenset(part) for part in left.split(",")]
    sizes = {
        name: size
        for part, operand in zip(left.split(","), operands, strict=True)
        for name, size in zip(part, operand.shape, strict=True)
    }
    path = []
    while len(sets) > 1:
        pairs = [(i, j) for i in range(len(sets)) for j in range(i)]
        i, j = min(pairs, key=lambda p: sum(sizes[n] for n in sets[p[0]] | sets[p[1]]))
        path.append((j, i))
        sets = [s for k, s in enumerate(sets) if k not in (i, j)] + [sets[i] | sets[j]]
    return path, frozenset(right)


def test_the_path_of_einsum_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where opt_einsum is installed: one graph for each set of shapes."""
    package = types.ModuleType("opt_einsum")
    contract = types.ModuleType("opt_einsum.contract")
    try:
        from opt_einsum.contract import contract_path
    except ImportError:
        contract_path = _contract_path
    for module in (package, contract):
        monkeypatch.setattr(module, "contract_path", contract_path, raising=False)
    monkeypatch.setitem(sys.modules, "opt_einsum", package)
    monkeypatch.setitem(sys.modules, "opt_einsum.contract", contract)
    monkeypatch.setattr(torch.backends.opt_einsum, "_opt_einsum", package)

    def run(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return torch.einsum("ij,jk,kl->il", a, b, c) * 2

    fast = pyjit.compile(run)
    for n, m in [(2, 9)] * 3 + [(8, 3)] * 3 + [(2, 9)]:
        given = values(n, 3), values(3, m), values(m, 4)
        same(run(*given), fast(*given))
    assert pyjit.stats(fast)["graph_break_sites"] == []
    assert hits(fast) >= 4


@functools.lru_cache(typed=True)
def table(n: float, dtype: torch.dtype, *, kind: type = int) -> tuple[float, str]:
    return n * 2, f"{dtype} {kind.__name__}"


def test_a_typed_cache() -> None:
    def run(x: torch.Tensor, n: float) -> Any:
        return x * 2, table(n, x.dtype), table(n, x.dtype, kind=str)

    fast = pyjit.compile(run)
    for x in (values(4), values(4).double()):
        for n in (1, 1.0, 2):
            run(x, n)
            for _ in range(3):
                same(run(x, n), fast(x, n))
    table.cache_clear()
    for _ in range(3):
        same(run(values(4), 1), fast(values(4), 1))
    assert hits(fast) >= 6


def test_a_string_that_is_matched_is_guarded() -> None:
    pattern = re.compile(r"(\d+)")

    def run(x: torch.Tensor, name: str) -> torch.Tensor:
        found = pattern.search(name)
        return x * int(found.group(1)) if found else x

    fast = pyjit.compile(run)
    x = values(4)
    for name in ("a1", "a1", "b2", "none", "a1", "none"):
        same(run(x, name), fast(x, name))
    assert pyjit.stats(fast)["graph_break_sites"] == []


def test_a_version_that_is_matched() -> None:
    """`torch.__version__` is a text of a class of its own."""

    class Name(str):
        __slots__ = ()

    pattern, known = re.compile(r"(\d+)\.(\d+)"), {"version": torch.__version__}

    def run(x: torch.Tensor, k: int) -> torch.Tensor:
        found = pattern.match(known["version"])
        return x * int(found.group(2)) + int(found[k]) if found else x

    fast = pyjit.compile(run)
    x, name = values(4), Name("3.4")
    for version in (None, None, name, None, name, Name("x"), None):
        known["version"] = torch.__version__ if version is None else version
        for k in (1, 2, 1):
            same(run(x, k), fast(x, k))
    assert pyjit.stats(fast)["graph_break_sites"] == []


def test_rrelu_in_training_draws() -> None:
    x = values(64)
    fast = pyjit.compile(lambda t: F.rrelu(t, training=True))
    for seed in range(3):
        torch.manual_seed(seed)
        expected = F.rrelu(x, training=True)
        torch.manual_seed(seed)
        same(expected, fast(x))
