# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Context variables that are set in one part of a call and reset in another; devices by value."""

from __future__ import annotations

import contextvars
from contextvars import ContextVar
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import values

SCALE: ContextVar[Any] = ContextVar("scale", default=1.0)
OTHER: ContextVar[Any] = ContextVar("other")


def stats(f: Any) -> dict[str, Any]:
    return dict(pyjit.stats(f))


def check(program: Any, *, graph_breaks: int | None = None, eager: int = 0) -> Any:
    """Equal to eager in eight calls, the variables as before after each of them."""
    fast = pyjit.compile(program)
    for seed in range(8):
        x = values(4, seed=seed)
        try:
            expected: Any = program(x)
        except ValueError as error:
            expected = str(error)
        before = (SCALE.get(), OTHER.get(None))
        try:
            got: Any = fast(x)
        except ValueError as error:
            got = str(error)
        assert (SCALE.get(), OTHER.get(None)) == before
        if isinstance(expected, torch.Tensor):
            torch.testing.assert_close(got, expected)
        else:
            assert got == expected
    if graph_breaks is not None:
        assert stats(fast)["graph_breaks"] == graph_breaks, stats(fast)[
            "graph_break_sites"
        ]
        assert stats(fast)["eager_calls"] == eager
        assert stats(fast)["hits"] >= 3
    return fast


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * SCALE.get()


def around(x: torch.Tensor) -> torch.Tensor:
    token = SCALE.set(3.0)
    try:
        y = scaled(x)
        if y.sum() > 0:
            y = y + 1
        return scaled(y)
    finally:
        SCALE.reset(token)


def test_a_graph_break_between_set_and_reset() -> None:
    check(around)
    with_one = pyjit.compile(around)
    x = values(4).abs()
    for _ in range(4):
        torch.testing.assert_close(with_one(x), around(x))
    # One side alone was ever taken: that is expected.
    assert stats(with_one)["graph_breaks"] == 0
    assert stats(with_one)["hits"] == 3


def test_what_was_set_before_is_set_again() -> None:
    fast = pyjit.compile(around)
    x = values(4).abs()
    for outer in (1.0, 5.0, 5.0, "text", None):
        token = SCALE.set(outer)
        torch.testing.assert_close(fast(x), around(x))
        assert SCALE.get() == outer
        SCALE.reset(token)
    assert SCALE.get() == 1.0


def test_in_a_called_function_and_a_method() -> None:
    class Holder:
        def __init__(self) -> None:
            self.variable = OTHER

        def set(self, value: Any) -> Any:
            return self.variable.set(value)

        def reset(self, token: Any) -> None:
            self.variable.reset(token)

    holder = Holder()

    def run(x: torch.Tensor) -> torch.Tensor:
        found: dict[str, torch.Tensor] = {}
        token = holder.set(found)
        try:
            OTHER.get()["a"] = x * 2
            k = float(x.sum())
            found["b"] = x * k
            return OTHER.get()["a"] + OTHER.get()["b"]
        finally:
            holder.reset(token)

    check(run)


def test_the_interpreter_sees_it_at_the_graph_break() -> None:
    seen: list[Any] = []

    def run(x: torch.Tensor) -> torch.Tensor:
        token = SCALE.set(2.0)
        y = scaled(x)
        print(end=SCALE.get() and "")
        seen.append(SCALE.get())
        SCALE.reset(token)
        return scaled(y)

    check(run)
    assert set(seen) == {2.0}


def test_two_variables_and_two_graph_breaks() -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        first = SCALE.set(2.0)
        x = scaled(x)
        if x.sum() > 100:
            return x
        second = OTHER.set(4.0)
        x = x * OTHER.get()
        print(end="")
        OTHER.reset(second)
        x = scaled(x)
        SCALE.reset(first)
        return scaled(x)

    with pytest.raises(LookupError):
        OTHER.get()
    # The early return leaves the variable set, as in eager.
    check(run)


def test_an_exception_between() -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        token = SCALE.set(3.0)
        try:
            y = scaled(x)
            if y.sum() > 0:
                raise ValueError("positive")
            return scaled(y)
        finally:
            SCALE.reset(token)

    check(run)


def test_set_twice() -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        first = SCALE.set(2.0)
        second = SCALE.set(3.0)
        x = scaled(x)
        print(end="")
        x = scaled(x)
        SCALE.reset(second)
        x = scaled(x)
        print(end="")
        SCALE.reset(first)
        return scaled(x)

    check(run)


def test_set_again_behind_a_reset() -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        token = SCALE.set(2.0)
        print(end="")
        SCALE.reset(token)
        x = scaled(x)
        token = SCALE.set(5.0)
        x = scaled(x)
        print(end="")
        x = scaled(x)
        SCALE.reset(token)
        return scaled(x)

    check(run)


def test_balanced_and_then_set_over_a_graph_break() -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        token = SCALE.set(2.0)
        x = scaled(x)
        SCALE.reset(token)
        token = SCALE.set(3.0)
        x = scaled(x)
        print(end="")
        SCALE.reset(token)
        return scaled(x)

    check(run)


def test_a_token_that_is_returned() -> None:
    fast = pyjit.compile(lambda x, v: (SCALE.set(v), x * 2))
    x = values(4)
    for value in (2.0, 2.0, 3.0, 3.0):
        token, y = fast(x, value)
        torch.testing.assert_close(y, x * 2)
        assert isinstance(token, contextvars.Token)
        assert (token.var, SCALE.get()) == (SCALE, value)
        SCALE.reset(token)
    assert SCALE.get() == 1.0


def test_a_token_that_is_dropped() -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        SCALE.set(7.0)
        return scaled(x)

    fast = pyjit.compile(run)
    for seed in range(4):
        x = values(4, seed=seed)
        context = contextvars.copy_context()
        torch.testing.assert_close(context.run(fast, x), x * 7)
        assert context[SCALE] == 7.0
        assert SCALE.get() == 1.0


def test_a_token_that_the_caller_made() -> None:
    def run(x: torch.Tensor, token: Any) -> torch.Tensor:
        SCALE.reset(token)
        return x * 2

    fast = pyjit.compile(run)
    x = values(4)
    for _ in range(4):
        token = SCALE.set(9.0)
        torch.testing.assert_close(fast(x, token), x * 2)
        assert SCALE.get() == 1.0
    with pytest.raises(RuntimeError, match="already been used"):
        fast(x, token)
    other = OTHER.set(1.0)
    with pytest.raises(ValueError, match="different ContextVar"):
        fast(x, other)
    OTHER.reset(other)


def test_in_other_contexts() -> None:
    fast = pyjit.compile(around)
    x = values(4).abs()
    for outer in (1.0, 4.0, 4.0):
        context = contextvars.copy_context()
        context.run(SCALE.set, outer)
        torch.testing.assert_close(context.run(fast, x), around(x))
        assert context[SCALE] == outer


def within(f: Any, outer: Any, x: torch.Tensor, *given: Any) -> Any:
    """What a call answers, and leaves, where the variable was set before."""
    context = contextvars.copy_context()
    context.run(SCALE.set, outer)
    try:
        result: Any = context.run(f, x, *given)
    except (ValueError, RuntimeError) as error:
        result = type(error)
    if isinstance(result, tuple):
        result = [v for v in result if not isinstance(v, contextvars.Token)]
    return result, context[SCALE]


def crosswise(x: torch.Tensor) -> Any:
    first = SCALE.set(2.0)
    second = SCALE.set(3.0)
    SCALE.reset(first)
    return scaled(x), second


def crosswise_over_a_break(x: torch.Tensor) -> Any:
    first = SCALE.set(2.0)
    second = SCALE.set(3.0)
    SCALE.reset(first)
    print(end="")
    y = scaled(x)
    SCALE.reset(second)
    return y * SCALE.get()


def one_way(x: torch.Tensor) -> torch.Tensor:
    token = SCALE.set(3.0)
    if x.sum() > 0:
        SCALE.reset(token)
    return x + 1


def one_way_read(x: torch.Tensor) -> torch.Tensor:
    token = SCALE.set(3.0)
    if x.sum() > 0:
        SCALE.reset(token)
    y = x + 1
    print(end="")
    return y * SCALE.get()


def nested(x: torch.Tensor) -> torch.Tensor:
    first = SCALE.set(3.0)
    second = SCALE.set(5.0)
    y = scaled(x)
    SCALE.reset(second)
    y = scaled(y)
    SCALE.reset(first)
    return scaled(y)


def twice(x: torch.Tensor) -> torch.Tensor:
    token = SCALE.set(3.0)
    if x.sum() > 0:
        SCALE.reset(token)
    y = scaled(x)
    if x[0] > 0:
        SCALE.reset(token)
    return scaled(y)


@pytest.mark.parametrize(
    "program", [crosswise, crosswise_over_a_break, one_way, one_way_read, nested, twice]
)
@pytest.mark.parametrize("signs", ["--++-+-", "++--+-+", "-------"])
def test_what_is_left_set(program: Any, signs: str) -> None:
    """Resets out of order, or in some calls only: the variable is what eager leaves."""
    fast = pyjit.compile(program)
    for outer, sign in zip((5.0, 5.0, 6.0, 6.0, 7.0, 1.0, 5.0), signs, strict=True):
        x = values(4).abs() * float(f"{sign}1")
        want, have = (within(f, outer, x) for f in (program, fast))
        assert have[1] == want[1]
        if isinstance(want[0], type):
            assert have[0] is want[0]
        else:
            torch.testing.assert_close(have[0], want[0])


def test_a_token_that_can_not_be_used() -> None:
    """The program catches what the reset raises."""

    def run(x: torch.Tensor, token: Any) -> torch.Tensor:
        try:
            SCALE.reset(token)
        except (RuntimeError, ValueError):
            return x * 3
        return x * 2

    fast = pyjit.compile(run)
    x = values(4)
    elsewhere = contextvars.copy_context().run(SCALE.set, 2.0)
    used = SCALE.set(2.0)
    SCALE.reset(used)
    for kind in [
        "fresh",
        "fresh",
        "used",
        "fresh",
        "elsewhere",
        "used",
        "elsewhere",
        "fresh",
    ]:
        token = {"used": used, "elsewhere": elsewhere}.get(kind) or SCALE.set(9.0)
        torch.testing.assert_close(fast(x, token), x * (2 if kind == "fresh" else 3))
        assert SCALE.get() == 1.0


def test_devices_are_told_apart_by_value() -> None:
    def run(x: torch.Tensor, device: torch.device | None) -> Any:
        return torch.ones(4, device=device).to(x.dtype) * 2, str(device)

    fast = pyjit.compile(run)
    x = values(4)
    for name in ("cpu", "cpu", "meta", "cpu", "cpu:0", "cpu:0", "meta"):
        device = torch.device(name)
        got, text = fast(x, device)
        expected, _ = run(x, device)
        assert (got.device, text) == (expected.device, str(device))
        if name != "meta":
            torch.testing.assert_close(got, expected)
    assert stats(fast)["hits"] >= 2


def test_one_device_in_two_places() -> None:
    def run(x: torch.Tensor, a: torch.device, b: torch.device) -> torch.Tensor:
        return x * (2 if a == b else 3) + torch.ones(4, device=b)

    fast = pyjit.compile(run)
    x, cpu = values(4), torch.device("cpu")
    for a, b in (
        (cpu, cpu),
        (torch.device("cpu"), cpu),
        (cpu, cpu),
        (cpu, torch.device("cpu", 0)),
    ):
        torch.testing.assert_close(fast(x, a, b), run(x, a, b))
    assert stats(fast)["hits"] >= 2
