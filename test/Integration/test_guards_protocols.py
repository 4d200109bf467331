# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A class is changed between calls: whatever an operation of Python's asks of it is noticed.

Each story is an expression over an object, and a special method that its class (or a base, or its
metaclass) is given, loses or is given anew after the expression was captured. The result, or the
exception, of every call has to be eager's. The stories are all pairs of both lists.

PYJIT_EXAMPLES: how many of the pairs (60 by default, seeded; 0: all of them).
"""

from __future__ import annotations

import itertools
import os
import random
import re
from typing import Any

import pytest
from Integration.harness import (
    ANY,
    Compile,
    Raised,
    Steps,
    attempt,
    module_of,
    tell,
    values,
)

EXAMPLES = int(os.environ.get("PYJIT_EXAMPLES", "60"))

# `o` has the class C(B, metaclass=M), `p` the class D(C); both have entries in their __dict__.
EXPRESSIONS = [
    "bool(o)",
    "not o",
    "1 if o else 2",
    "o and 3",
    "len(o)",
    "o == 1",
    "o != 1",
    "o == p",
    "o < 1",
    "p >= o",
    "1 in o",
    "list(o)",
    "[*o]",
    "tuple(v for v in o)",
    "max(o)",
    "o[0]",
    "o['k']",
    "o.k",
    "o.missing",
    "o.method()",
    "p.method()",
    "o.property",
    "C.k",
    "C.method(o)",
    "o + 1",
    "1 + o",
    "o + p",
    "p - o",
    "o * 2.0",
    "o % 2",
    "o // 2",
    "-o",
    "abs(o)",
    "o(1)",
    "C()",
    "C().k",
    "isinstance(o, C)",
    "isinstance(p, C)",
    "issubclass(D, C)",
    "hash(o) == hash(o)",
    "{o: 1}[o]",
    "o in [o]",
    "o in (p, 1)",
    "str(o)",
    "f'{o}'",
    "repr([o])",
    "int(o)",
    "float(o)",
    "range(3)[o]",
    "[1, 2, 3][o]",
    "o.__class__.__name__",
    "getattr(o, 'k', 0)",
    "getattr(o, 'missing', 0)",
    "hasattr(o, 'missing')",
    "vars(o)['k']",
    "next(o)",
    "sorted([o, o], key=lambda v: v.k)[0].k",
    "sum([o, o], o)",
    "store(o)",
    "delete(o)",
    "put(o)",
    "enter(o)",
    "augment(o)",
    "unpack(o)",
    "x * o.k",
    "x + o",
    "(x * 2, o is p)",
]

SOURCE = """
import torch

class M(type):
    pass

class B:
    def method(self):
        return 4

class C(B, metaclass=M):
    k = 1
    @property
    def property(self):
        return 5

class D(C):
    pass

o, p = C(), D()
o.k, p.k = 2, 3

def store(o):
    o.k = 6
    return o.__dict__.get("k")

def delete(o):
    o.extra = 1
    del o.extra
    return o.__dict__.get("extra")

def put(o):
    o[0] = 1
    return o

def enter(o):
    with o as entered:
        return entered

def augment(o):
    o += 1
    return o

def unpack(o):
    a, b = o
    return a

def f(x):
    return x + 1, {expression}
"""

METHODS: dict[str, Any] = {
    "__bool__": lambda self: False,
    "__len__": lambda self: 0,
    "__eq__": lambda self, other: True,
    "__ne__": lambda self, other: False,
    "__lt__": lambda self, other: True,
    "__le__": lambda self, other: True,
    "__gt__": lambda self, other: False,
    "__ge__": lambda self, other: False,
    "__hash__": lambda self: 7,
    "__contains__": lambda self, item: True,
    "__iter__": lambda self: iter((8, 9)),
    "__next__": lambda self: 10,
    "__getitem__": lambda self, key: [11, 12][key],
    "__setitem__": lambda self, key, value: None,
    "__getattr__": lambda self, name: 13,
    "__getattribute__": lambda self, name: (
        object.__getattribute__(self, name) if name.startswith("__") else 14
    ),
    "__setattr__": lambda self, name, value: None,
    "__delattr__": lambda self, name: None,
    "__add__": lambda self, other: 15,
    "__radd__": lambda self, other: 16,
    "__iadd__": lambda self, other: 17,
    "__sub__": lambda self, other: 18,
    "__rsub__": lambda self, other: 19,
    "__mul__": lambda self, other: 20,
    "__rmul__": lambda self, other: 21,
    "__mod__": lambda self, other: 22,
    "__floordiv__": lambda self, other: 23,
    "__neg__": lambda self: 24,
    "__abs__": lambda self: 25,
    "__call__": lambda self, *args: 26,
    "__str__": lambda self: "str",
    "__repr__": lambda self: "repr",
    "__format__": lambda self, spec: "format",
    "__int__": lambda self: 27,
    "__float__": lambda self: 28.0,
    "__index__": lambda self: 1,
    "__enter__": lambda self: 29,
    "__exit__": lambda self, *rest: False,
    "__instancecheck__": lambda cls, instance: False,
    "__subclasscheck__": lambda cls, sub: False,
    "__init__": lambda self, *args: self.__dict__.update(k=30),
    "__new__": lambda cls, *args: object.__new__(cls),
    "__torch_function__": classmethod(
        lambda cls, func, types, args=(), kwargs=None: 31
    ),
    "method": lambda self: 32,
    "k": 33,
    "missing": 34,
    "property": 35,
}
PAIRS = list(itertools.product(EXPRESSIONS, METHODS))


def seen(f: Any, x: Any) -> Any:
    """The outcome of a call, without the addresses and module names that differ between tellings."""
    outcome = attempt(f, x)
    if isinstance(outcome, Raised):
        return outcome.type, _plain(outcome.text)
    return outcome[0], _plain(outcome[1])


def _plain(value: Any) -> Any:
    return (
        re.sub(r"scenario_source_\d+|0x[0-9a-f]+", "", value)
        if isinstance(value, str)
        else value
    )


def chosen() -> list[tuple[str, str]]:
    if not EXAMPLES:
        return PAIRS
    return random.Random(EXAMPLES).sample(PAIRS, min(EXAMPLES, len(PAIRS)))


def fresh_of(method: Any, other: int) -> Any:
    """The same method with another answer: a class that has it already changes, too."""
    if not callable(method) and not isinstance(method, classmethod):
        return method + other
    return (
        method
        if other == 0
        else lambda *args, **kwargs: _shift(method(*args, **kwargs))
    )


def _shift(answer: Any) -> Any:
    if isinstance(answer, bool):
        return not answer
    return answer + 1 if isinstance(answer, int | float) else answer


@pytest.mark.parametrize(("expression", "method"), chosen())
def test_method_is_added(expression: str, method: str) -> None:
    def story(compile: Compile) -> Steps:
        module = module_of(SOURCE.replace("{expression}", expression))
        f = compile(module.f)
        x = values(3)
        for _ in range(3):
            yield seen(f, x)
        for owner in ("C", "B", "D", "M"):
            cls = getattr(module, owner)
            had = method in cls.__dict__
            old = cls.__dict__.get(method)
            for other in (0, 1):
                if method in ("__torch_function__", "__new__") and other:
                    continue
                setattr(cls, method, fresh_of(METHODS[method], other))
                yield seen(f, x)
                yield seen(f, x)
            if had:
                setattr(cls, method, old)
            else:
                delattr(cls, method)
            yield seen(f, x)

    # Some break, or raise from the start: whatever answers, the answer is eager's.
    tell(story, captured=False, graph_breaks=ANY)
