# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""str.format looks up attributes and items where no instruction is seen: of what the call made, of arguments, of what
Python code computes. Texts are eager's while numbers differ; so is what asks for the frames of its callers."""

from __future__ import annotations

import collections
import inspect
import math
import sys
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import attempt


class Plain:
    def __init__(self, a: Any) -> None:
        self.a = a

    def __repr__(self) -> str:
        return f"Plain {self.a!r}"


class Slots:
    __slots__ = ("a",)

    def __init__(self, a: Any) -> None:
        self.a = a


class Computed:
    def __init__(self, a: Any) -> None:
        self.b = a

    @property
    def a(self) -> Any:
        return self.b * 2


class Found(dict):
    def __missing__(self, key: str) -> str:
        return key


# Of a number `v`, an object from before the call `o`, and a class `K` of objects with an attribute `a`.
TEXTS = """
"{0.a!r}".format(K(v + 1)); "{.a} {.a}".format(K(v + 1), K(v)); "{k.a:.2f}".format(k=K(v * 2.0)); str(Plain(K(v).a))
"{0.a[0]}".format(K([v + 1])); "{0.a[k]}".format(K({"k": v + 1})); "{0[0].a}".format([K(v + 1)]); "{}".format(Plain(v))
"{0.a:{1}}".format(K(v), int(v) + 8); "{0.a:{w.a}}".format(K(1.5), w=K(int(v) + 4)); "{0.a} {{}} {1}".format(K(v), v)
"{a.a}".format_map({"a": K(v + 1)}); "{a}{b}".format_map({"a": v, "b": 2}); "{a} {z}".format_map(Found(a=v + 1))
"{0.a} {1}".format(o, v); "{o.a!r}".format(o=o); "{0.a.a}".format(K(o)); "{0.a[1]}".format(K((1, v))); "{!r}".format([v])
"{0.b}".format(K(v)); "{1}".format(K(v)); "{0.a".format(K(v)); "{0.a[9]}".format(K([v])); "{0.a:d}".format(K(v + 0.5))
"{0.a.__class__.__name__}".format(K(v)); "{0.__class__.__name__}".format(K(v)); "{0[k].a}".format({"k": K(v)})
"""


@pytest.mark.parametrize("of", [Plain, Slots, Computed])
@pytest.mark.parametrize(
    "text", [t for line in TEXTS.split("\n") for t in line.split("; ") if t]
)
def test_fields(text: str, of: Any) -> None:
    world = {"K": of, "Plain": Plain, "Found": Found}
    exec(f"def f(x, v, o):\n    return x * v, {text}", world)
    f: Any = world["f"]
    fast = pyjit.compile(f)
    x = torch.ones(2)
    for v in (1.0, 2.5, 1.0, 3.5, 2.5, 4.0, 1.0, 7.5):
        o = of(v + 2)
        want, have = attempt(f, x, v, o), attempt(fast, x, v, o)
        assert repr(have) == repr(want)


def _who() -> str:
    return sys._getframe(1).f_code.co_name


def _through() -> str:
    print(end="")
    return _who() + inspect.currentframe().f_code.co_name  # type: ignore[union-attr]


@pytest.mark.parametrize("v", [2.5, 4])
def test_callers(v: float) -> None:
    """What looks at its callers' frames finds those of eager."""

    def f(x: torch.Tensor, v: float) -> Any:
        made = collections.namedtuple("made", "a b")
        return x * v, made.__module__, made(v, 1).a, _who(), _through()

    fast = pyjit.compile(f)
    for n in range(8):
        want, have = (g(torch.ones(2), v * (n % 3))[1:] for g in (f, fast))
        assert have == want


@pytest.mark.parametrize(
    "text",
    [
        "v in [0.5, v, u]",
        "u in (v, 2.0)",
        "[v, u].index(u)",
        "[v, u].count(v)",
        "{v: 1, u: 2}[u]",
        "len({v, u, w})",
        "{v, u} == {u, v}",
        "v in {v: 2, 3.0: 1}",
        "[v, u] == [v, u]",
        "d == [v]",
        "v in d",
        "d.index(v)",
        "held.get(v)",
        "v in held",
    ],
)
def test_nan_is_found_by_identity(text: str) -> None:
    """Python's searches compare identities first: a nan is found where it is the same object."""
    world: dict[str, Any] = {}
    exec(f"def f(x, v, u, w, d, held):\n    return x * v + u, {text}", world)
    f: Any = world["f"]
    fast = pyjit.compile(f)
    nan = math.nan
    for v, u, w in (
        (1.0, 2.0, 1.0),
        (nan, 2.0, 3.0),
        (2.0, nan, 1.0),
        (3.0, 1.0, nan),
        (nan, nan, float("nan")),
        (4.0, 1.0, 2.0),
        (nan, 3.0, nan),
        (nan, 5.0, 2.0),
    ):
        given = (torch.ones(2), v, u, w, [v], {v: 1})
        want, have = attempt(f, *given), attempt(fast, *given)
        assert repr(have) == repr(want)


@pytest.mark.parametrize(
    "text",
    [
        "range(5, v)",
        "[range(v)]",
        "range(v, 5)",
        "range(v, v + 3)",
        "list[v:3]",
        "dict[str, v]",
        "list[c]",
        "slice(v, 2)",
    ],
)
def test_texts_of_what_keeps_numbers(text: str) -> None:
    """Objects of C that show the numbers they were made of."""
    world: dict[str, Any] = {}
    exec(
        f"def f(x, v, c):\n    made = {text}\n    return x * v, repr(made), '%s' % (made,)",
        world,
    )
    f: Any = world["f"]
    fast = pyjit.compile(f)
    for v in (1, -2, 3, 7, -2, 1, 6, 9, 4, -3):
        given = torch.ones(2), v, [v, 2]
        assert fast(*given)[1:] == f(*given)[1:]
