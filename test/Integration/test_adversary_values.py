# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attempts to get a wrong answer: state hidden where a capture may not look (Python values)."""

# The spellings that ruff would simplify are what is tested.
# ruff: noqa: RUF015

from __future__ import annotations

import collections
import dataclasses
import enum
import math
import sys
import types
from typing import Any, NamedTuple

import numpy
import pyjit
import torch
from Integration.harness import (
    Compile,
    Plain,
    Steps,
    attempt,
    module_of,
    scenario,
    values,
)
from torch import nn

# Values ----------------------------------------------------------------------------


@scenario
def test_enum_value_changed(compile: Compile) -> Steps:
    class Mode(enum.Enum):
        A = 1
        B = 2

    f = compile(lambda x, m: x * m.value)
    yield f(values(4), Mode.A)
    yield f(values(4), Mode.A)
    yield f(values(4), Mode.B)
    Mode.A._value_ = 9
    yield f(values(4), Mode.A)


@scenario(
    eager=(
        "native function int.__new__",
        "a value that may be another in each call (Bits)",
    )
)
def test_int_enum_and_flag(compile: Compile) -> Steps:
    class Bits(enum.IntFlag):
        A = 1
        B = 2

    f = compile(lambda x, m: x + 1 if m & Bits.B else x - 1)
    yield attempt(f, values(4), Bits.A)
    yield attempt(f, values(4), Bits.A)
    yield attempt(f, values(4), Bits.A | Bits.B)
    yield attempt(f, values(4), 3)


@scenario
def test_int_subclass(compile: Compile) -> Steps:
    class Loud(int):
        def __mul__(self, other: Any) -> Any:
            return other * 100

    f = compile(lambda x, n: n * x)
    yield f(values(4), 2)
    yield f(values(4), 2)
    yield f(values(4), Loud(2))
    yield f(values(4), True)


@scenario
def test_str_subclass(compile: Compile) -> Steps:
    class S(str):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = str.__hash__

    f = compile(lambda x, s: x + 1 if s == "a" else x - 1)
    yield f(values(4), "b")
    yield f(values(4), "b")
    yield f(values(4), S("b"))
    yield f(values(4), "a")


@scenario
def test_list_subclass(compile: Compile) -> Steps:
    class L(list):  # type: ignore[type-arg]
        def __getitem__(self, i: Any) -> Any:
            return 10.0

        def __len__(self) -> int:
            return 50

    f = compile(lambda x, xs: x * xs[0] + len(xs))
    yield f(values(4), [2.0])
    yield f(values(4), [2.0])
    yield f(values(4), L([2.0]))


@scenario
def test_tuple_lengths_and_nesting(compile: Compile) -> Steps:
    def total(t: Any) -> Any:
        return sum(total(e) if isinstance(e, tuple) else e for e in t)

    f = compile(lambda x, t: x * total(t))
    yield f(values(4), (1.0, (2.0, 3.0)))
    yield f(values(4), (1.0, (2.0, 3.0)))
    yield f(values(4), (1.0, (2.0, 4.0)))
    yield f(values(4), (1.0, (2.0, 3.0, 1.0)))
    yield f(values(4), ((1.0, 2.0), 3.0))


@scenario
def test_typed_namedtuple_and_dataclass_field(compile: Compile) -> Steps:
    class P(NamedTuple):
        a: float
        b: float = 1.0

    @dataclasses.dataclass(slots=True)
    class D:
        p: P
        scale: float = 2.0

    f = compile(lambda x, d: x * d.p.a + d.p.b * d.scale)
    yield f(values(4), D(P(2.0)))
    yield f(values(4), D(P(2.0)))
    yield f(values(4), D(P(2.0, 3.0)))
    yield f(values(4), D(P(2.0), 5.0))
    d = D(P(4.0))
    yield f(values(4), d)
    d.p = P(4.0, 7.0)
    yield f(values(4), d)


@scenario
def test_dict_view_order_after_reinsertion(compile: Compile) -> Steps:
    d = {"a": 1.0, "b": 2.0}
    f = compile(lambda x: x * list(d.values())[0] + len(list(d.keys())[0]))
    yield f(values(4))
    yield f(values(4))
    d["a"] = d.pop("a")
    yield f(values(4))


@scenario(captured="late")
def test_defaultdict_grows(compile: Compile) -> Steps:
    def g(x: torch.Tensor, d: Any) -> torch.Tensor:
        return x * (1 + d["k"])

    f = compile(g)
    d: Any = collections.defaultdict(float)
    yield [attempt(f, values(4), d), dict(d)]
    yield [attempt(f, values(4), d), dict(d)]
    yield [attempt(f, values(4), d), dict(d)]
    d = collections.defaultdict(lambda: 5.0)
    yield [attempt(f, values(4), d), dict(d)]


@scenario
def test_chainmap_and_counter(compile: Compile) -> Steps:
    outer = {"k": 2.0}
    c = collections.ChainMap({}, outer)
    f = compile(lambda x, c: x * c["k"])
    yield attempt(f, values(4), c)
    yield attempt(f, values(4), c)
    outer["k"] = 5.0
    yield attempt(f, values(4), c)
    c.maps[0]["k"] = 6.0
    yield attempt(f, values(4), c)


@scenario(graph_breaks="an item of a mappingproxy")
def test_mapping_proxy(compile: Compile) -> Steps:
    inner = {"k": 2.0}
    proxy = types.MappingProxyType(inner)
    f = compile(lambda x: x * proxy["k"])
    yield attempt(f, values(4))
    yield attempt(f, values(4))
    inner["k"] = 3.0
    yield attempt(f, values(4))


@scenario
def test_simple_namespace(compile: Compile) -> Steps:
    n = types.SimpleNamespace(k=2.0)
    f = compile(lambda x: x * n.k)
    yield attempt(f, values(4))
    yield attempt(f, values(4))
    n.k = 3.0
    yield attempt(f, values(4))


@scenario(graph_breaks="an item of a bytearray")
def test_bytearray_and_array(compile: Compile) -> Steps:
    data = bytearray(b"\x02\x03")
    f = compile(lambda x: x * data[0])
    yield attempt(f, values(4))
    yield attempt(f, values(4))
    data[0] = 9
    yield attempt(f, values(4))


@scenario(graph_breaks="an item of a numpy.ndarray")
def test_numpy_array_and_scalar(compile: Compile) -> Steps:
    a = numpy.array([2.0, 3.0])
    f = compile(lambda x: x * float(a[0]))
    yield attempt(f, values(4))
    yield attempt(f, values(4))
    a[0] = 9.0
    yield attempt(f, values(4))


@scenario
def test_numpy_scalar_argument(compile: Compile) -> Steps:
    f = compile(lambda x, n: x * n)
    for n in (numpy.float32(2), numpy.float32(2), numpy.float32(3), numpy.int64(3)):
        yield attempt(f, values(4), n)


@scenario
def test_set_contents_and_frozenset(compile: Compile) -> Steps:
    s = {1, 2}
    f = compile(lambda x, t: x * sum(s) + len(t) + (3 in t))
    yield attempt(f, values(4), frozenset((1,)))
    yield attempt(f, values(4), frozenset((1,)))
    s.add(5)
    yield attempt(f, values(4), frozenset((1,)))
    yield attempt(f, values(4), frozenset((3,)))


@scenario
def test_complex_scalar(compile: Compile) -> Steps:
    f = compile(lambda x, n: x * n.real + n.imag)
    for n in (1 + 2j, 1 + 2j, 1 - 2j, 1 + 0j, complex(1, -0.0)):
        yield attempt(f, values(4), n)


@scenario
def test_range_and_slice_arguments(compile: Compile) -> Steps:
    f = compile(lambda x, r: x * sum(r) + len(r))
    for r in (range(3), range(3), range(4), range(1, 3), range(0, 3, 2)):
        yield attempt(f, values(4), r)


@scenario
def test_string_methods(compile: Compile) -> Steps:
    f = compile(lambda x, s: x * len(s.split(",")) + s.startswith("a") + s.count("b"))
    for s in ("a,b", "a,b", "b,b", "a,b,c"):
        yield attempt(f, values(4), s)


@scenario
def test_math_on_attribute(compile: Compile) -> Steps:
    c = Plain(d=4)
    f = compile(lambda x: x / math.sqrt(c.d) + math.floor(c.d / 3) + math.exp(0))
    yield f(values(4))
    yield f(values(4))
    c.d = 9
    yield f(values(4))


@scenario
def test_math_function_replaced(compile: Compile) -> Steps:
    f = compile(lambda x: x * math.sqrt(4.0))
    yield f(values(4))
    yield f(values(4))
    original = math.sqrt
    math.sqrt = lambda v: 100.0  # type: ignore[assignment]
    try:
        out = f(values(4))
    finally:
        math.sqrt = original
    yield out


@scenario(eager="iterating over a generator from before the call")
def test_argument_is_generator(compile: Compile) -> Steps:
    f = compile(lambda xs: sum(xs))
    for k in (1, 1, 2):
        yield attempt(f, (values(4) * i * k for i in range(3)))


@scenario(graph_breaks="a list_iterator from before the call")
def test_argument_is_iterator(compile: Compile) -> Steps:
    f = compile(lambda x, it: x * next(it))
    it = iter([1.0, 2.0, 3.0])
    yield [attempt(f, values(4), it) for _ in range(4)]


@scenario(graph_breaks="iterating over a dict_values from before the call")
def test_argument_is_dict_view(compile: Compile) -> Steps:
    d = {"a": 1.0, "b": 2.0}
    f = compile(lambda x, v: x * sum(v))
    view = d.values()
    yield attempt(f, values(4), view)
    yield attempt(f, values(4), view)
    d["a"] = 9.0
    yield attempt(f, values(4), view)


@scenario
def test_sys_modules_entry_replaced(compile: Compile) -> Steps:
    sys.modules["scenario_pkg"] = module_of("K = 2.0\n")
    m = module_of("def g(x):\n    from scenario_pkg import K\n    return x * K\n")
    f = compile(m.g)
    try:
        yield attempt(f, values(4))
        yield attempt(f, values(4))
        sys.modules["scenario_pkg"].K = 3.0  # type: ignore[attr-defined]
        yield attempt(f, values(4))
        sys.modules["scenario_pkg"] = module_of("K = 8.0\n")
        yield attempt(f, values(4))
    finally:
        del sys.modules["scenario_pkg"]


@scenario
def test_locals_and_globals_calls(compile: Compile) -> Steps:
    m = module_of("K = 2.0\ndef g(x):\n    return x * globals()['K']\n")
    f = compile(m.g)
    yield attempt(f, values(4))
    yield attempt(f, values(4))
    m.K = 3.0
    yield attempt(f, values(4))


@scenario
def test_vars_of_object(compile: Compile) -> Steps:
    c = Plain(a=1.0, b=2.0)
    f = compile(lambda x: x * sum(vars(c).values()) + len(c.__dict__))
    yield attempt(f, values(4))
    yield attempt(f, values(4))
    c.b = 5.0
    yield attempt(f, values(4))
    c.z = 1.0
    yield attempt(f, values(4))


@scenario
def test_type_name_and_doc(compile: Compile) -> Steps:
    class C:
        pass

    f = compile(lambda x, c: x * len(type(c).__name__) + len(c.__class__.__qualname__))
    c = C()
    yield attempt(f, values(4), c)
    yield attempt(f, values(4), c)
    C.__name__ = "Longer"
    yield attempt(f, values(4), c)


@scenario(
    captured="late",
    graph_breaks=(
        "the result holds a builtin_function_or_method made by the call",
        "native function test_subclass_registered_later.<locals>.A.__subclasses__",
    ),
)
def test_subclass_registered_later(compile: Compile) -> Steps:
    class A:
        pass

    f = compile(lambda x: x + len(A.__subclasses__()))
    yield attempt(f, values(4))
    yield attempt(f, values(4))

    class B(A):
        pass

    yield attempt(f, values(4))
    yield B is not None


@scenario
def test_abc_registration(compile: Compile) -> Steps:
    class C:
        pass

    f = compile(
        lambda x, c: x + 1 if isinstance(c, collections.abc.Sequence) else x - 1
    )
    c = C()
    # The first answer would ask every class: it is asked before the recording, later ones come from the ABC's cache.
    for _ in range(4):
        yield attempt(f, values(4), c)
    collections.abc.Sequence.register(C)
    yield attempt(f, values(4), c)


@scenario
def test_exception_flow_depends_on_state(compile: Compile) -> Steps:
    c = Plain(limit=3)

    def check(n: int) -> int:
        if n > c.limit:
            raise ValueError(n)
        return n

    def g(x: torch.Tensor, n: int) -> torch.Tensor:
        try:
            return x * check(n)
        except ValueError as error:
            return x - error.args[0]

    f = compile(g)
    yield f(values(4), 2)
    yield f(values(4), 2)
    yield f(values(4), 5)
    c.limit = 1
    yield f(values(4), 2)


@scenario
def test_context_manager_with_state(compile: Compile) -> Steps:
    class Scale:
        factor = 2.0

        def __enter__(self) -> float:
            return self.factor

        def __exit__(self, *args: object) -> None:
            log.append(self.factor)

    log: list[float] = []

    def g(x: torch.Tensor) -> torch.Tensor:
        with Scale() as k:
            return x * k

    f = compile(g)
    yield [f(values(4)), list(log)]
    yield [f(values(4)), list(log)]
    Scale.factor = 3.0
    yield [f(values(4)), list(log)]


@scenario
def test_module_attribute_is_plain_list_of_layers(compile: Compile) -> Steps:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.extra = [nn.Linear(4, 4), nn.Linear(4, 4)]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.extra:
                x = layer(x)
            return x

    torch.manual_seed(0)
    m = Net()
    f = compile(m)
    yield f(values(2, 4))
    yield f(values(2, 4))
    m.extra[0].weight.mul_(2)
    yield f(values(2, 4))
    m.extra.reverse()
    yield f(values(2, 4))
    m.extra.pop()
    yield f(values(2, 4))
    m.extra[0] = nn.Tanh()  # type: ignore[call-overload]
    yield f(values(2, 4))


# What nothing uses may raise -------------------------------------------------------


@scenario(graph_breaks="an index is out of range")
def test_unused_read_out_of_range(compile: Compile) -> Steps:
    def g(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        x[index]
        return x * 2

    f = compile(g)
    for index in ([1, 2], [0, 3], [0, 4], [-5, 0], [1, 1]):
        yield attempt(f, values(4), torch.tensor(index))


@scenario(graph_breaks="ZeroDivisionError")
def test_unused_integer_division(compile: Compile) -> Steps:
    def g(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        unused = (x // by) + 1
        unused * 2
        return x - 1

    f = compile(g)
    for by in (1, 2, 0, 3):
        yield attempt(f, torch.arange(4), torch.tensor([by] * 4))


@scenario(graph_breaks="index 9 is out of bounds")
def test_unused_scatter(compile: Compile) -> Steps:
    def g(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        torch.zeros(4).scatter_(0, index, x)
        return x - 1

    f = compile(g)
    for index in ([0, 1, 2, 3], [3, 2, 1, 0], [0, 0, 0, 9], [1, 1, 1, 1]):
        yield attempt(f, values(4), torch.tensor(index))


# Order -----------------------------------------------------------------------------


@scenario
def test_deleted_and_set_again(compile: Compile) -> Steps:
    """The entry is the last one afterwards, wherever it stood before."""

    def g(x: torch.Tensor, d: dict[str, Any], o: Any) -> torch.Tensor:
        del d["a"]
        d["c"] = x
        d["a"] = x + 1
        del o.k
        o.k = 2.0
        return x * 3

    f = compile(g)
    for order in ("ab", "ab", "ba", "acb"):
        d, o = dict.fromkeys(order, 1), Plain(k=1.0, **dict.fromkeys(order, 1))
        yield f(values(4), d, o), d, vars(o)


@scenario
def test_ordered_dict_keeps_its_own_order(compile: Compile) -> Steps:
    """move_to_end changes an OrderedDict's order, but not that of the dict that it is."""

    def g(x: torch.Tensor, d: Any) -> Any:
        made = collections.OrderedDict(a=x, b=x + 1)
        made.move_to_end("a")
        return made, list(d), list(d.values()), next(iter(d))

    f = compile(g)
    d = collections.OrderedDict(a=1, b=2, c=3)
    yield f(values(4), d)
    yield f(values(4), d)
    d.move_to_end("a")
    yield f(values(4), d)
    d.move_to_end("c", last=False)
    yield f(values(4), d)


@scenario
def test_every_intermediate_is_empty(compile: Compile) -> Steps:
    """What a call keeps in its arena has no bytes, but a device."""
    f = compile(lambda x: (x * x).reshape(x.shape[::-1]))
    for _ in range(2):
        yield f(values(0, 4))
    yield f(values(3, 4))
    yield f(values(0, 4))


def test_objects_are_not_asked_for_their_class() -> None:
    """A lazy proxy is loaded by whoever reads its ``__class__``, and one that logs what is read would log it."""

    class Lazy:
        def __init__(self) -> None:
            object.__getattribute__(self, "__dict__")["read"] = []

        def __getattribute__(self, name: str) -> Any:
            object.__getattribute__(self, "__dict__")["read"].append(name)
            return 2.0

    def passed(x: torch.Tensor, lazy: Any) -> torch.Tensor:
        return x + 1

    def used(x: torch.Tensor, lazy: Any) -> torch.Tensor:
        return x * lazy.scale

    for f in (passed, used):
        logs = []
        for call in (f, pyjit.compile(f)):
            lazy = Lazy()
            for size in (2, 2, 3, 4, 4):
                call(torch.ones(size), lazy)
            logs.append(object.__getattribute__(lazy, "__dict__")["read"])
        assert logs[0] == logs[1]
