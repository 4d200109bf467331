# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attempts to get a wrong answer out of classes whose bases are exchanged: no class's own attributes
change, only which classes are asked."""

from __future__ import annotations

from typing import Any

from Integration.harness import Compile, Steps, scenario, values


class Plus:
    def f(self, x: Any) -> Any:
        return x + 1


class Times:
    def f(self, x: Any) -> Any:
        return x * 5


def _class(base: type) -> Any:
    class Made(base):  # type: ignore[misc]
        def f(self, x: Any) -> Any:
            return super().f(x) * 2

        @classmethod
        def g(cls, x: Any) -> Any:
            return super().f(cls, x)

    return Made


@scenario
def test_super(compile: Compile) -> Steps:
    made = _class(Plus)
    a = made()
    f = compile(lambda x: (a.f(x), made.g(x)))
    yield f(values(3))
    yield f(values(3))
    made.__bases__ = (Times,)
    yield f(values(3))
    made.__bases__ = (Times, Plus)
    yield f(values(3))
    made.__bases__ = (Plus,)
    yield f(values(3))


@scenario
def test_super_above_the_instance(compile: Compile) -> Steps:
    """The class that is asked for its bases is not the instance's own."""
    made = _class(Plus)
    lower: Any = type("Lower", (made,), {})
    a = lower()
    f = compile(lambda x: a.f(x))
    yield f(values(3))
    yield f(values(3))
    made.__bases__ = (Times,)
    yield f(values(3))


@scenario
def test_isinstance_and_issubclass(compile: Compile) -> Steps:
    made = _class(Plus)
    a = made()
    f = compile(lambda x: x + isinstance(a, Times) + issubclass(made, Times) * 5)
    yield f(values(3))
    yield f(values(3))
    made.__bases__ = (Times,)
    yield f(values(3))
    made.__bases__ = (Plus,)
    yield f(values(3))


@scenario
def test_except(compile: Compile) -> Steps:
    first: Any = type("First", (Exception,), {})
    second: Any = type("Second", (Exception,), {})
    raised: Any = type("Raised", (first,), {})

    def g(x: Any) -> Any:
        try:
            raise raised
        except first:
            return x + 1
        except second:
            return x + 2

    f = compile(g)
    yield f(values(3))
    yield f(values(3))
    raised.__bases__ = (second,)
    yield f(values(3))
