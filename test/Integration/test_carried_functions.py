# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions that a segment of a call makes and hands on over a graph break, or to the caller."""

from __future__ import annotations

from typing import Any

import pyjit
import torch
from Integration.harness import values


def stats(f: Any) -> dict[str, Any]:
    return dict(pyjit.stats(f))


def check(program: Any, calls: int = 6, hits: int = 3) -> Any:
    fast = pyjit.compile(program)
    for seed in range(calls):
        x = values(4, seed=seed)
        torch.testing.assert_close(fast(x), program(x))
    assert stats(fast)["hits"] >= hits, stats(fast)
    assert not stats(fast)["eager_reasons"], stats(fast)["eager_reasons"]
    return fast


def test_a_closure_called_behind_the_graph_break() -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        k = 3.0

        def scaled(
            t: torch.Tensor, n: float = 2.0, *, more: float = 1.0
        ) -> torch.Tensor:
            """Of the call's own."""
            return t * k * n + more

        print(end="")
        return scaled(x) + scaled(x, 4.0, more=2.0)

    check(run)


def test_functions_that_hold_functions() -> None:
    def both(*functions: Any) -> Any:
        def run(t: torch.Tensor) -> torch.Tensor:
            for f in functions:
                t = f(t)
            return t

        return run

    def adding(n: float) -> Any:
        return lambda t: t + n

    def run(x: torch.Tensor) -> torch.Tensor:
        f = both(adding(1.0), adding(2.0), torch.relu)
        print(end="")
        return f(x)

    check(run)


def test_variables_are_shared_with_the_frame() -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        n = 1

        def step(t: torch.Tensor) -> torch.Tensor:
            nonlocal n
            n += 1
            return t * n

        x = step(x)
        print(end="")
        n += 10
        x = step(x)
        return x * n

    check(run)


def test_other_variables_are_a_miss() -> None:
    def run(x: torch.Tensor, n: float, flag: bool) -> torch.Tensor:
        def one(t: torch.Tensor) -> torch.Tensor:
            return t * n

        def other(t: torch.Tensor) -> torch.Tensor:
            return t + n

        f = one if flag else other
        print(end="")
        return f(x)

    fast = pyjit.compile(run)
    x = values(4)
    for n, flag in (
        (1.0, True),
        (1.0, True),
        (2.0, True),
        (2.0, False),
        (1.0, False),
        (3.0, True),
    ) * 2:
        torch.testing.assert_close(fast(x, n, flag), run(x, n, flag))


def test_other_defaults_are_a_miss() -> None:
    def run(x: torch.Tensor, n: float) -> torch.Tensor:
        def f(t: torch.Tensor, k: float = n, *, more: float = n + 1) -> torch.Tensor:
            return t * k + more

        print(end="")
        return f(x)

    fast = pyjit.compile(run)
    x = values(4)
    for n in (1.0, 1.0, 2.0, 2.0, 1.0, 5.0):
        torch.testing.assert_close(fast(x, n), run(x, n))


def test_a_graph_break_inside_of_it() -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        def inner(t: torch.Tensor) -> torch.Tensor:
            t = t * 2
            print(end="")
            return t + 1

        return inner(x) * 3

    fast = pyjit.compile(run)
    for seed in range(6):
        x = values(4, seed=seed)
        torch.testing.assert_close(fast(x), run(x))


def test_returned_functions_are_new_and_their_own() -> None:
    def run(x: torch.Tensor, n: int) -> Any:
        count = n

        def tick(step: int = 1) -> int:
            nonlocal count
            count += step
            return count

        def peek() -> int:
            return count

        return tick, peek, x * 2

    fast = pyjit.compile(run)
    x = values(4)
    made = [fast(x, 5) for _ in range(3)]
    for tick, peek, y in made:
        assert (tick(), tick(2), peek()) == (6, 8, 8)
        torch.testing.assert_close(y, x * 2)
    eager = run(x, 5)
    for got, wanted in zip(made[2][:2], eager[:2], strict=True):
        for name in (
            "__name__",
            "__qualname__",
            "__module__",
            "__doc__",
            "__defaults__",
            "__annotations__",
        ):
            assert getattr(got, name) == getattr(wanted, name)
        assert got.__code__ is wanted.__code__
    assert made[1][0] is not made[2][0]
    assert stats(fast)["hits"] == 2


def test_what_was_set_on_a_function_is_not_lost() -> None:
    def run(x: torch.Tensor) -> Any:
        def f() -> int:
            return 1

        f.extra = 3  # type: ignore[attr-defined]
        return f, x * 2

    fast = pyjit.compile(run)
    for _ in range(3):
        f, _ = fast(values(4))
        assert f.extra == 3


def test_in_a_loop_with_graph_breaks() -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        for k in (1.0, 2.0, 3.0):

            def step(t: torch.Tensor, k: float = k) -> torch.Tensor:
                return t * k + 1

            if x.sum() > 1e6:
                break
            x = step(x)
        return x

    check(run, calls=8, hits=2)


def test_as_keys_and_compared() -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        def one(t: torch.Tensor) -> torch.Tensor:
            return t * 2

        def other(t: torch.Tensor) -> torch.Tensor:
            return t * 3

        table = {"a": one, "b": other}
        same = one
        print(end="")
        names = {one: 1.0, other: 2.0}
        return (
            table["a"](x) * names[same]
            + (x if same is table["a"] else 0)
            + (x if one is other else 0)
        )

    fast = pyjit.compile(run)
    for seed in range(6):
        x = values(4, seed=seed)
        torch.testing.assert_close(fast(x), run(x))


def test_defaults_of_functions_that_are_made_behind_a_graph_break() -> None:
    """The break stands between their tuple, or dict, and the function: what is in it is no earlier call's."""
    kinds = [torch.tanh, torch.relu, lambda t: t * 0.5]

    def positional(x: torch.Tensor, y: torch.Tensor, c: float) -> torch.Tensor:
        m = kinds[int((x > 0).sum()) % 3](y)
        scale = lambda t, q=c: t * q
        return scale(m)

    def keyword(x: torch.Tensor, y: torch.Tensor, c: float) -> torch.Tensor:
        m = kinds[int((x > 0).sum()) % 3](y)
        scale = lambda t, *, q=c, r=c + 1: t * q + r
        return scale(m)

    def text(x: torch.Tensor, y: torch.Tensor, c: float) -> torch.Tensor:
        s = str(10 ** (int((x > 0).sum()) % 3))
        scale = lambda t, q=c, w=s: t * q + len(w)
        return scale(y)

    for program in (positional, keyword, text):
        fast = pyjit.compile(program)
        order = [(0, 0.5), (0, 0.5), (8, 0.5), (3, 0.5), (3, 1.5), (4, 0.5), (1, 1.5)]
        for count, c in order * 3:
            x = torch.zeros(9)
            x[:count] = 1
            y = torch.ones(3)
            torch.testing.assert_close(fast(x, y, c), program(x, y, c))
