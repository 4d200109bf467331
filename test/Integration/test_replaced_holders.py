# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Namespaces and tuples with names of C code that each call brings anew are looked into, as users' objects are."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from types import SimpleNamespace as Namespace
from typing import Any

import pyjit
import pytest
import torch

X = torch.linspace(-1, 1, 20).reshape(4, 5)


class Base:
    pass


class Derived(Base):
    pass


class Other:
    pass


def drawn(i: int) -> torch.Tensor:
    return torch.randn(4, 5, generator=torch.Generator().manual_seed(i))


def writes(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.a, m.b = m.a + 1, x
    return x * m.a


def deletes(m: Any, x: torch.Tensor) -> torch.Tensor:
    m.__dict__["k"] = 3
    del m.a
    return x + m.k


def copies(m: Any, x: torch.Tensor) -> torch.Tensor:
    other = copy.copy(m)
    other.a = 4
    return x + m.a + other.a


def makes(m: Any, x: torch.Tensor) -> Any:
    made = Namespace(**vars(m))
    made.a = x * 2
    return made, x + made.b


def aliased(m: Any, n: Any, x: torch.Tensor) -> torch.Tensor:
    m.a = 5
    return x + n.a


def same_or_new(i: int) -> tuple[Any, ...]:
    held = Namespace(a=2)
    return held, held if i % 2 else Namespace(a=1), X


#: The function, its arguments for call i, and how many of ten calls are hits at least.
STORIES: dict[str, tuple[Callable, Callable[[int], tuple], int]] = {
    "tensor": (lambda m, x: x + m.a, lambda i: (Namespace(a=drawn(i)), X), 6),
    "number": (lambda m, x: x + m.a, lambda i: (Namespace(a=i % 3), X), 6),
    "write": (writes, lambda i: (Namespace(a=i), X), 0),
    "delete": (deletes, lambda i: (Namespace(a=i, c=2), X), 5),
    "equal": (
        lambda m, n, x: x + 1 if m == n else x - 1,
        lambda i: (Namespace(a=i % 2), Namespace(a=1), X),
        5,
    ),
    "printed": (lambda m, x: x + len(repr(m)), lambda i: (Namespace(a=10**i), X), 0),
    "order": (
        lambda m, x: (list(vars(m)), x + 1),
        lambda i: (Namespace(a=1, b=2) if i % 2 else Namespace(b=2, a=1), X),
        7,
    ),
    "copy": (copies, lambda i: (Namespace(a=i), X), 0),
    "made": (makes, lambda i: (Namespace(a=1, b=2), X), 6),
    "absent": (
        lambda m, x: x + 1 if hasattr(m, "a") else x - 1,
        lambda i: (Namespace(a=1) if i % 3 else Namespace(), X),
        6,
    ),
    "itself": (lambda m, x: (m, x + 1), lambda i: (Namespace(a=i), X), 6),
    "nested": (
        lambda m, x: x * m.inner.k + m.inner.l[0],
        lambda i: (Namespace(inner=Namespace(k=i, l=[i])), X),
        5,
    ),
    "alias": (aliased, same_or_new, 7),
    "kinds": (
        lambda m, x: x + m.a,
        lambda i: (Namespace(a=2) if i % 2 else type("Own", (), {"a": 3})(), X),
        0,
    ),
    "names": (
        lambda m, x: x + m.values.unsqueeze(1) + m[1].sum(),
        lambda i: (drawn(i).max(1), X),
        6,
    ),
    "sizes": (
        lambda m, x: x + m.values.amax(),
        lambda i: (drawn(i)[:, i % 3 :].max(1), X),
        5,
    ),
    "returned": (lambda m, x: (m, x + 1), lambda i: (drawn(i).max(1), X), 6),
    "as tuple": (lambda m, x: (*m, x, len(m)), lambda i: (drawn(i).max(1), X), 6),
    "beside own": (
        lambda m, x: (m.values, torch.max(x * m.values.unsqueeze(1), 1)),
        lambda i: (drawn(i).max(1), X),
        6,
    ),
    "two names": (
        lambda m, x: x + m[0].amax(),
        lambda i: (drawn(i).max(1) if i % 2 else drawn(i).sort(1), X),
        6,
    ),
    "time": (
        lambda m, x: x + m.tm_hour + m[3],
        lambda i: (time.gmtime(3600 * i), X),
        5,
    ),
    "order of bases": (
        lambda m, x: x + type(m).__mro__.index(object) + len(type(m).__bases__),
        lambda i: ((Derived, Other)[i % 2](), X),
        2,
    ),
}


def same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    if isinstance(a, torch.Tensor):
        torch.testing.assert_close(a, b)
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for p, q in zip(a, b, strict=True):
            same(p, q)
    elif hasattr(a, "__dict__"):
        same(list(vars(a).items()), list(vars(b).items()))
    else:
        assert a == b


@pytest.mark.parametrize("name", STORIES)
def test_story(name: str) -> None:
    function, given, hits = STORIES[name]
    fast = pyjit.compile(function)
    with torch.no_grad():
        for i in range(10):
            mine, theirs = given(i), given(i)
            if name == "kinds" and i % 2 == 0:  # a class of its own each time
                mine = theirs
            got, want = fast(*mine), function(*theirs)
            same(got, want)
            same(list(mine), list(theirs))
            if name in ("itself", "returned"):
                assert got[0] is mine[0]
    assert pyjit.stats(fast)["hits"] >= hits


def test_bases_that_are_set() -> None:
    class Held(Derived):
        pass

    def function(x: torch.Tensor) -> torch.Tensor:
        for cls in Held.__mro__:
            if cls is Base:
                return x + 1
        return x - 1

    fast, held = pyjit.compile(function), Held
    for _ in range(3):
        assert torch.equal(fast(X), X + 1)
    assert pyjit.stats(fast)["graph_breaks"] == 0
    held.__bases__ = (Other, Derived)
    assert torch.equal(fast(X), X + 1)
    held.__bases__ = (Other,)
    for _ in range(3):
        assert torch.equal(fast(X), X - 1)
    held.__bases__ = (Derived,)
    assert torch.equal(fast(X), X + 1)


def test_transforms_of_torchvision_are_one_graph() -> None:
    functional = pytest.importorskip("torchvision.transforms.v2.functional")
    fast = pyjit.compile(
        lambda x: functional.vertical_flip(functional.horizontal_flip(x))
    )
    for _ in range(3):
        assert torch.equal(fast(X), X.flip(0, 1))
    assert pyjit.stats(fast)["graph_breaks"] == 0
