# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A user's object, class or lookup path changes between two calls."""

from __future__ import annotations

import math
import os
import random
import time
from typing import Any

import pytest
import torch
from Integration.harness import (
    ANY,
    Compile,
    Plain,
    Steps,
    attempt,
    module_of,
    scenario,
    tell,
    values,
)


@scenario
def test_instance_attribute(compile: Compile) -> Steps:
    c = Plain(k=2.0, w=values(4, seed=1))
    f = compile(lambda x, c: x * c.k + c.w)
    yield f(values(4), c)
    yield f(values(4), c)
    c.k = 3.0
    yield f(values(4), c)
    c.w = values(4, seed=2)
    yield f(values(4), c)
    c.w = values(1, seed=2)
    yield f(values(4), c)
    del c.k
    yield attempt(f, values(4), c)


@scenario
def test_attribute_added(compile: Compile) -> Steps:
    c = Plain()
    f = compile(lambda x, c: x * getattr(c, "k", 2.0))
    yield f(values(4), c)
    yield f(values(4), c)
    c.k = 5.0
    yield f(values(4), c)


@scenario
def test_hasattr(compile: Compile) -> Steps:
    c = Plain()
    f = compile(lambda x, c: x + 1 if hasattr(c, "flag") else x - 1)
    yield f(values(4), c)
    yield f(values(4), c)
    c.flag = None
    yield f(values(4), c)
    del c.flag
    yield f(values(4), c)


@scenario
def test_class_attribute(compile: Compile) -> Steps:
    class C:
        k = 2.0

    c = C()
    f = compile(lambda x, c: x * c.k)
    yield f(values(4), c)
    yield f(values(4), c)
    C.k = 3.0
    yield f(values(4), c)
    C.k = 4.0
    yield f(values(4), c)
    c.k = 9.0
    yield f(values(4), c)


@scenario
def test_base_class_attribute(compile: Compile) -> Steps:
    class A:
        k = 2.0

    class B(A):
        pass

    class C(B):
        pass

    c = C()
    f = compile(lambda x, c: x * c.k)
    yield f(values(4), c)
    yield f(values(4), c)
    A.k = 3.0
    yield f(values(4), c)
    B.k = 4.0  # type: ignore[misc]
    yield f(values(4), c)
    C.k = 5.0  # type: ignore[misc]
    yield f(values(4), c)
    del C.k
    yield f(values(4), c)


@scenario
def test_bases_changed(compile: Compile) -> Steps:
    class A:
        k = 2.0

    class B:
        k = 7.0

    class C(A):
        pass

    c = C()
    f = compile(lambda x, c: x * c.k)
    yield f(values(4), c)
    yield f(values(4), c)
    C.__bases__ = (B,)
    yield f(values(4), c)


@scenario
def test_class_attribute_read_on_class(compile: Compile) -> Steps:
    class C:
        k = 2.0

    f = compile(lambda x: x * C.k)
    yield f(values(4))
    yield f(values(4))
    C.k = 3.0
    yield f(values(4))


@scenario
def test_method_replaced(compile: Compile) -> Steps:
    class C:
        def h(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    c = C()
    f = compile(lambda x, c: c.h(x) * 2)
    yield f(values(4), c)
    yield f(values(4), c)
    C.h = lambda self, x: x - 1  # type: ignore[method-assign]
    yield f(values(4), c)
    c.h = lambda x: x * 50  # type: ignore[method-assign]
    yield f(values(4), c)


@scenario
def test_other_class_same_attributes(compile: Compile) -> Steps:
    class A:
        k = 2.0

        def h(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.k

    class B:
        k = 2.0

        def h(self, x: torch.Tensor) -> torch.Tensor:
            return x - self.k

    f = compile(lambda x, c: c.h(x))
    yield f(values(4), A())
    yield f(values(4), A())
    yield f(values(4), B())
    yield f(values(4), A())


@scenario
def test_class_assigned(compile: Compile) -> Steps:
    class A:
        def h(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    class B:
        def h(self, x: torch.Tensor) -> torch.Tensor:
            return x - 1

    c = A()
    f = compile(lambda x, c: c.h(x))
    yield f(values(4), c)
    yield f(values(4), c)
    c.__class__ = B  # type: ignore[assignment]
    yield f(values(4), c)


@scenario
def test_property(compile: Compile) -> Steps:
    class C:
        def __init__(self) -> None:
            self._k = 2.0

        @property
        def k(self) -> float:
            return self._k * 2

    c = C()
    f = compile(lambda x, c: x * c.k)
    yield f(values(4), c)
    yield f(values(4), c)
    c._k = 5.0
    yield f(values(4), c)
    C.k = property(lambda self: 1.5)  # type: ignore[assignment, method-assign]
    yield f(values(4), c)


@scenario
def test_property_shadows_instance_dict(compile: Compile) -> Steps:
    class C:
        pass

    c = C()
    c.__dict__["k"] = 2.0
    f = compile(lambda x, c: x * c.k)
    yield f(values(4), c)
    yield f(values(4), c)
    C.k = property(lambda self: 9.0)  # type: ignore[attr-defined]
    yield f(values(4), c)


@scenario
def test_getattr_hook(compile: Compile) -> Steps:
    class C:
        def __init__(self) -> None:
            self.table = {"k": 2.0}

        def __getattr__(self, name: str) -> float:
            return self.table[name]

    c = C()
    f = compile(lambda x, c: x * c.k)
    yield f(values(4), c)
    yield f(values(4), c)
    c.table["k"] = 4.0
    yield f(values(4), c)
    c.k = 6.0
    yield f(values(4), c)


@scenario
def test_getattribute_added(compile: Compile) -> Steps:
    class C:
        k = 2.0

    c = C()
    f = compile(lambda x, c: x * c.k)
    yield f(values(4), c)
    yield f(values(4), c)
    C.__getattribute__ = lambda self, name: 8.0  # type: ignore[method-assign, assignment]
    yield f(values(4), c)


@scenario
def test_slots(compile: Compile) -> Steps:
    class C:
        __slots__ = ("k", "w")

    c = C()
    c.k, c.w = 2.0, values(4, seed=1)
    f = compile(lambda x, c: x * c.k + c.w)
    yield f(values(4), c)
    yield f(values(4), c)
    c.k = 3.0
    yield f(values(4), c)
    c.w = values(4, seed=2)
    yield f(values(4), c)
    del c.k
    yield attempt(f, values(4), c)


@scenario
def test_descriptor(compile: Compile) -> Steps:
    class D:
        factor = 2.0

        def __get__(self, instance: object, owner: type) -> float:
            return self.factor

    class C:
        k = D()

    c = C()
    f = compile(lambda x, c: x * c.k)
    yield f(values(4), c)
    yield f(values(4), c)
    D.factor = 3.0
    yield f(values(4), c)


@scenario
def test_static_and_class_methods(compile: Compile) -> Steps:
    class C:
        k = 2.0

        @staticmethod
        def s(x: torch.Tensor) -> torch.Tensor:
            return x + 1

        @classmethod
        def c(cls, x: torch.Tensor) -> torch.Tensor:
            return x * cls.k

    f = compile(lambda x: C.c(C.s(x)))
    yield f(values(4))
    yield f(values(4))
    C.k = 3.0
    yield f(values(4))
    C.s = staticmethod(lambda x: x - 1)  # type: ignore[method-assign]
    yield f(values(4))


@scenario
def test_operator_methods(compile: Compile) -> Steps:
    class Scaled:
        def __init__(self, k: float) -> None:
            self.k = k

        def __mul__(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.k

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.k

        def __getitem__(self, n: int) -> float:
            return self.k * n

        def __len__(self) -> int:
            return int(self.k)

        def __bool__(self) -> bool:
            return self.k > 2.5

        def __contains__(self, n: float) -> bool:
            return n < self.k

        def __eq__(self, other: object) -> bool:
            return self.k == other

    def g(x: torch.Tensor, s: Scaled) -> torch.Tensor:
        y = (s * x) + s(x) + s[3] + len(s)
        y = y + 10 if s else y - 10
        y = y + 20 if 2.2 in s else y - 20
        return y + 30 if s == 3.0 else y - 30

    f = compile(g)
    s = Scaled(2.0)
    yield f(values(4), s)
    yield f(values(4), s)
    s.k = 3.0
    yield f(values(4), s)
    Scaled.__mul__ = lambda self, x: x * 0  # type: ignore[method-assign]
    yield f(values(4), s)
    Scaled.__bool__ = lambda self: False  # type: ignore[method-assign]
    yield f(values(4), s)


@scenario
def test_isinstance_decides(compile: Compile) -> Steps:
    class A:
        pass

    class B(A):
        pass

    f = compile(lambda x, c: x + 1 if isinstance(c, B) else x - 1)
    yield f(values(4), A())
    yield f(values(4), A())
    yield f(values(4), B())
    yield f(values(4), 3)


@scenario
def test_type_as_value(compile: Compile) -> Steps:
    f = compile(lambda x, t: x + 1 if t is int else x - 1)
    yield f(values(4), int)
    yield f(values(4), int)
    yield f(values(4), float)


@scenario
def test_attribute_of_argument_list_element(compile: Compile) -> Steps:
    items = [Plain(k=1.0), Plain(k=2.0)]
    f = compile(lambda x, cs: x * sum(c.k for c in cs))
    yield f(values(4), items)
    yield f(values(4), items)
    items[1].k = 5.0
    yield f(values(4), items)
    items[0] = Plain(k=9.0)
    yield f(values(4), items)


@scenario
def test_state_in_default_of_lambda_attribute(compile: Compile) -> Steps:
    c = Plain(act=lambda x, k=2.0: x * k)
    f = compile(lambda x, c: c.act(x))
    yield f(values(4), c)
    yield f(values(4), c)
    c.act.__defaults__ = (3.0,)
    yield f(values(4), c)
    c.act = torch.relu
    yield f(values(4), c)


@scenario
def test_inherited_method_calls_super(compile: Compile) -> Steps:
    class A:
        def h(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    class B(A):
        def h(self, x: torch.Tensor) -> torch.Tensor:
            return super().h(x) * 2

    b = B()
    f = compile(lambda x, b: b.h(x))
    yield f(values(4), b)
    yield f(values(4), b)
    A.h = lambda self, x: x + 100  # type: ignore[method-assign]
    yield f(values(4), b)


@scenario
def test_global_object_attribute_in_deep_callee(compile: Compile) -> Steps:
    m = module_of(
        "class C:\n    k = 2.0\nc = C()\n"
        "def a(x):\n    return x * c.k\n"
        "def b(x):\n    return a(x) + 1\n"
        "def g(x):\n    return b(b(x))\n"
    )
    f = compile(m.g)
    yield f(values(4))
    yield f(values(4))
    m.c.k = 3.0
    yield f(values(4))
    del m.c.k
    yield f(values(4))
    m.c = Plain(k=4.0)
    yield f(values(4))


@scenario
def test_recursion_depth(compile: Compile) -> Steps:
    m = module_of("def g(x, n):\n    return x if n == 0 else g(x * 2 + n, n - 1)\n")
    f = compile(m.g)
    for n in (3, 3, 4, 0, 3):
        yield f(values(4), n)


@scenario
def test_generator_inside(compile: Compile) -> Steps:
    k = [1.0, 2.0]

    def parts(x: torch.Tensor):  # type: ignore[no-untyped-def]
        for v in k:
            yield x * v

    f = compile(lambda x: sum(parts(x)))
    yield f(values(4))
    yield f(values(4))
    k.append(5.0)
    yield f(values(4))
    k[0] = 7.0
    yield f(values(4))


@scenario
def test_while_loop_count(compile: Compile) -> Steps:
    def g(x: torch.Tensor, n: int) -> torch.Tensor:
        i = 0
        while i < n:
            x = x * 2 + i
            i += 1
        return x

    f = compile(g)
    for n in (2, 2, 3, 0, 2):
        yield f(values(4), n)


@scenario
def test_comprehensions(compile: Compile) -> Steps:
    f = compile(
        lambda xs, ks: (
            [x * k for x, k in zip(xs, ks, strict=False)],
            {k: x + k for x, k in zip(xs, ks, strict=False)},
            sum(k for k in ks if k > 1),
        )
    )
    xs = [values(2), values(2, seed=1)]
    yield f(xs, [1, 2])
    yield f(xs, [1, 2])
    yield f(xs, [2, 1])
    yield f(xs, [1])


@scenario
def test_string_formatting_keys(compile: Compile) -> Steps:
    f = compile(lambda x, d, i: x * d[f"k_{i}"])
    d = {"k_0": 2.0, "k_1": 3.0}
    yield f(values(4), d, 0)
    yield f(values(4), d, 0)
    yield f(values(4), d, 1)


@scenario
def test_math_on_changing_scalar(compile: Compile) -> Steps:
    f = compile(lambda x, d: x / math.sqrt(d) + math.pi * int(d // 3))
    for d in (4, 4, 9, 4.0):
        yield f(values(4), d)


@scenario
def test_try_except_inside(compile: Compile) -> Steps:
    def g(x: torch.Tensor, d: dict[str, float]) -> torch.Tensor:
        try:
            k = d["k"]
        except KeyError:
            k = -1.0
        return x * k

    f = compile(g)
    d: dict[str, float] = {}
    yield f(values(4), d)
    yield f(values(4), d)
    d["k"] = 2.0
    yield f(values(4), d)
    yield f(values(4), d)


# What must never be frozen -----------------------------------------------------


@scenario(graph_breaks="native function Random.random")
def test_python_random(compile: Compile) -> Steps:
    f = compile(lambda x: x * random.random())
    yield [f(values(4)) for _ in range(4)]
    random.seed(1)
    yield f(values(4))
    yield random.random()


@scenario(graph_breaks="native function time.perf_counter_ns")
def test_time_moves_on(compile: Compile) -> Steps:
    f = compile(lambda: (torch.ones(1) * 1, time.perf_counter_ns()))
    stamps = [f()[1] for _ in range(4)]
    yield stamps == sorted(set(stamps))


@scenario
def test_environment(compile: Compile) -> Steps:
    f = compile(lambda x: x * float(os.environ.get("PYJIT_SCENARIO", "1")))
    yield f(values(4))
    yield f(values(4))
    os.environ["PYJIT_SCENARIO"] = "3"
    try:
        yield f(values(4))
    finally:
        del os.environ["PYJIT_SCENARIO"]
    yield f(values(4))


@scenario(
    graph_breaks=(
        "native function _io.text_encoding",
        "native function _io.open",
        "a with statement over a native _io.TextIOWrapper",
        "native function TextIOWrapper.read",
        "native function TextIOWrapper.__exit__",
        "a value that may be another in each call (_io.TextIOWrapper)",
        "a value that may be another in each call (str)",
    )
)
def test_file_content(compile: Compile) -> Steps:
    import pathlib
    import tempfile

    path = pathlib.Path(tempfile.mkstemp()[1])
    f = compile(lambda x: x * float(path.read_text()))
    try:
        for text in ("2", "2", "3"):
            path.write_text(text)
            yield f(values(4))
    finally:
        path.unlink()


@scenario(graph_breaks="a range_iterator from before the call")
def test_external_iterator(compile: Compile) -> Steps:
    numbers = iter(range(100))
    f = compile(lambda x: x * next(numbers))
    yield [f(values(4)) for _ in range(5)]
    yield next(numbers)


@scenario(graph_breaks="a generator from before the call")
def test_external_generator(compile: Compile) -> Steps:
    def count():  # type: ignore[no-untyped-def]
        n = 0
        while True:
            n += 1
            yield n

    g = count()
    f = compile(lambda x: x * next(g))
    yield [f(values(4)) for _ in range(5)]
    yield next(g)


@scenario
def test_identity_number(compile: Compile) -> Steps:
    f = compile(lambda x, o: (x + 1, id(o)))
    a, b = object(), object()
    yield [f(values(4), o)[1] == id(o) for o in (a, a, b)]


def _kinds(name: str) -> list[str]:
    """Ways in which a class attribute is met."""
    return {
        "load": ["return x * holder.k"],
        "store": ["holder.k = 5.0", "return x * holder.__dict__.get('k', 1.0)"],
        "class": ["return x * Holder.k"],
        "super": ["return x * holder.inherited()"],
    }[name]


DESCRIPTORS = """
class Value:
    def __float__(self):
        return 2.0
    def __mul__(self, other):
        return other * 2.0
    __rmul__ = __mul__

class Base:
    k = Value()

class Holder(Base):
    def inherited(self):
        return super().k

holder = Holder()
seen = []
"""


@pytest.mark.parametrize("way", ["load", "store", "class", "super"])
@pytest.mark.parametrize("instance", [False, True])
@pytest.mark.parametrize(
    "added", ["__get__", "__get__ __set__", "__get__ __delete__", "__set__"]
)
def test_descriptor_methods_added(way: str, instance: bool, added: str) -> None:
    """A class becomes one of descriptors after the capture: the look-up goes another way."""

    def story(compile: Compile) -> Steps:
        body = "".join(f"    {line}\n" for line in _kinds(way))
        module = module_of(f"{DESCRIPTORS}\ndef g(x):\n{body}")
        if instance and way == "load":
            module.holder.k = 3.0
        f = compile(module.g)
        for seed in range(3):
            yield f(values(4, seed=seed))
        methods = {
            "__get__": lambda self, instance, owner=None: 7.0,
            "__set__": lambda self, instance, value: module.seen.append(value),
            "__delete__": lambda self, instance: None,
        }
        for name in added.split():
            setattr(module.Value, name, methods[name])
        for seed in range(3):
            yield attempt(f, values(4, seed=seed)), list(module.seen)
        for name in added.split():
            delattr(module.Value, name)
        yield attempt(f, values(4)), list(module.seen)

    tell(story, captured="late", graph_breaks=ANY)


SHARED = """
class Pool:
    def __init__(self, pairs=((1, 2), (2, 1))):
        self.size = (2, 3)
        self.pairs = pairs

def f(x, pool):
    y = x.reshape((2, 3)) + 1
    a, b = ((1, 2), (2, 1))
    rows, columns = pool.size
    own = (2, 3)
    same = pool.size is own
    return y.reshape(pool.size) * rows + columns, same, pool.pairs, a, pool.size

def g(x, pool):
    return x * len((2, 3)) + pool.size[0], pool.size
"""


@scenario
def test_constant_that_an_object_holds(compile: Compile) -> Steps:
    """CPython shares equal constants among the functions of a module."""
    m = module_of(SHARED)
    pool = m.Pool()
    assert any(pool.size is constant for constant in m.f.__code__.co_consts)
    f, g = compile(m.f), compile(m.g)

    def both() -> Any:
        value = values(6)
        (first, same, pairs, a, size), (second, other) = f(value, pool), g(value, pool)
        own = pool.size
        return first, same, pairs, a, size, second, other, size is own, other is own

    yield both()
    yield both()
    pool.size = tuple(reversed((2, 3)))
    yield both()
    pool.size = tuple(reversed((3, 2)))  # equal, and not the same
    yield both()
    pool.pairs = None
    yield both()
    yield both()
