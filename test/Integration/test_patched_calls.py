"""Library calls that read what moves where it is, on a device made of software.

Its library calls are kernels whose parameters are the addresses of what they read and write, chosen
by how these are aligned. The same cases run on a real device in test/gpu.
"""

from __future__ import annotations

import gc

import patched_cases
import pyjit
import pytest
import torch
from patched_cases import patched


def compiled(f: object, launch: str) -> object:
    return pyjit.compile(
        f, options={"software_device": True, "strict": True, "launch": launch}
    )


@pytest.mark.parametrize("launch", ["plain", "copy", "table", "update"])
@pytest.mark.parametrize("name", patched_cases.CASES)
def test_cases(name: str, launch: str) -> None:
    f, make, operands = patched_cases.CASES[name]("cpu", torch.float32)
    fast = compiled(f, launch)
    patched_cases.check(fast, f, make)
    text = patched_cases.report(fast, make())
    assert "not possible" not in text, text
    if launch in ("plain", "copy"):
        assert patched(text) == 0, text
    elif operands >= 0:
        assert patched(text) == operands, text
        assert "read copies" not in text, text


def test_one_tensor_as_two_operands() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ y) + 1

    fast = compiled(f, "update")
    for i in range(9):
        x, y = torch.randn(8, 8), torch.randn(8, 8)
        args = (x, x) if i % 2 else (x, y)
        torch.testing.assert_close(fast(*args), f(*args))


def test_a_copy_that_costs_less_stays() -> None:
    f, make, operands = patched_cases.dear("cpu", torch.float32)
    fast = compiled(f, "update")
    patched_cases.check(fast, f, make)
    text = patched_cases.report(fast, make())
    assert patched(text) == operands, text
    assert "read copies: one costs less than new addresses in 7 nodes" in text, text


def test_in_front_of_a_loop_on_data() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = torch.cumsum(x @ w, 0)
        while y.abs().max() > 1:
            y = y * 0.5
        return y

    fast = compiled(f, "update")
    with torch.no_grad():
        for _ in range(12):
            x, w = torch.randn(8, 8) * 9, torch.randn(8, 8)
            torch.testing.assert_close(fast(x, w), f(x, w))
    assert patched(patched_cases.report(fast, (x, w))) == 2


def test_parameters_move_between_calls() -> None:
    """The graph is made anew, and proved anew, when a parameter is elsewhere."""
    linear = torch.nn.Linear(16, 16)

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(linear(x) @ y) * 2

    fast = compiled(f, "update")
    with torch.no_grad():
        for i in range(12):
            if i % 4 == 3:
                linear.weight.data = torch.randn(16, 16)
            x, y = torch.randn(8, 16), torch.randn(16, 16)
            torch.testing.assert_close(fast(x, y), f(x, y))
        text = patched_cases.report(fast, (x, y))
    assert patched(text) == 2, text


def test_memory_that_is_gone() -> None:
    """Nothing reads where an earlier call's operands were."""

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.tanh(torch.bmm(x, y)).sum(0)

    fast = compiled(f, "update")
    for n in range(20):
        x, y = torch.randn(2, 128, 256), torch.randn(2, 256, 64)
        torch.testing.assert_close(fast(x, y), f(x, y))
        x.fill_(float("nan"))
        y.fill_(float("nan"))
        del x, y
        gc.collect()


def test_a_failing_call_while_words_are_looked_for() -> None:
    """The capture fails, nothing stays captured, and the next call is answered."""
    table = torch.randn(10, 4)

    def f(tokens: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(torch.nn.functional.embedding(tokens, w).sin(), 0)

    fast = pyjit.compile(f, options={"software_device": True, "launch": "update"})
    good = torch.randint(0, 10, (6,))
    torch.testing.assert_close(fast(good, table), f(good, table))
    torch.testing.assert_close(fast(good, table), f(good, table))
    for _ in range(3):
        with pytest.raises(IndexError):
            fast(torch.full((6,), 99), table)
        torch.testing.assert_close(fast(good, table), f(good, table))


@pytest.mark.parametrize("value", ["fast", ""])
def test_unknown_ways_to_launch(value: str) -> None:
    with pytest.raises(ValueError, match="option 'launch' is one of plain, copy"):
        pyjit.compile(torch.relu, options={"launch": value})
    with pytest.raises(TypeError):
        pyjit.compile(torch.relu, options={"launch": 1})
