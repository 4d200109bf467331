# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Vendor calls that read what moves where it is, on a simulated device.

Its vendor calls are kernels whose parameters are the addresses of what they read and write, chosen
by how these are aligned. The same cases run on a real device in test/gpu.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import subprocess
import sys

import patched_cases
import pyjit
import pytest
import torch
from patched_cases import patched


def compiled(f: object, launch: str) -> object:
    return pyjit.compile(
        f, options={"simulated_device": True, "strict": True, "launch": launch}
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

    fast = pyjit.compile(f, options={"simulated_device": True, "launch": "update"})
    good = torch.randint(0, 10, (6,))
    torch.testing.assert_close(fast(good, table), f(good, table))
    torch.testing.assert_close(fast(good, table), f(good, table))
    for _ in range(3):
        with pytest.raises(IndexError):
            fast(torch.full((6,), 99), table)
        torch.testing.assert_close(fast(good, table), f(good, table))


def at_address(address: int, bytes: int) -> None:
    """Takes these addresses, which nobody has."""
    mmap = ctypes.CDLL(None).mmap
    mmap.restype = ctypes.c_uint64
    mmap.argtypes = [
        ctypes.c_uint64,
        ctypes.c_uint64,
        *3 * [ctypes.c_int],
        ctypes.c_uint64,
    ]
    read_write, anonymous_there = 3, 0x2 | 0x20 | 0x100000
    assert mmap(address, bytes, read_write, anonymous_there, -1, 0) == address


def placed(x: torch.Tensor, address: int) -> torch.Tensor:
    buffer = (ctypes.c_float * x.numel()).from_address(address)
    return torch.frombuffer(buffer, dtype=x.dtype).view(x.shape).copy_(x)


def test_an_operand_that_the_proof_does_not_speak_of() -> None:
    """The places that are asked for first are taken, so one bit of the addresses cannot be
    varied; an operand that differs in it is copied from then on. What later graphs hold of that
    graph's results is renewed, too."""
    near, far, size = 0x280000000000, 0x282000000000, 4 << 20
    x = torch.randn(8, 16)
    flipped = sum(1 << bit for bit in range(47) if bit % 3 == 1)
    wishes = [
        (near ^ flipped ^ (a << 38 | b << 41 | c << 44)) & -(32 << 20)
        for a, b, c in itertools.product((0, 1), repeat=3)
    ]
    for address in (near, far, *wishes):
        at_address(address, size)

    def f(x: torch.Tensor, p: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a = torch.cumsum(torch.cumsum(x, 0), 1)
        b = torch.bernoulli(p)
        return torch.cumsum(a, 0).relu() * 2, b + 1

    fast = compiled(f, "update")
    half = torch.full((4,), 0.5)
    notes = []
    for i, address in enumerate([near] * 5 + [far, near, far, far, near]):
        x = placed(torch.randn(8, 16), address)
        torch.manual_seed(i)
        want = f(x, half)
        torch.manual_seed(i)
        torch.testing.assert_close(fast(x, half), want)
        notes.append(patched_cases.report(fast, (x, half)) if i in (4, 9) else "")
    assert patched(notes[4]) == 1 and "read copies" not in notes[4], notes[4]
    assert patched(notes[9]) == 0, notes[9]
    assert f"an operand at {far:#x} differs from" in notes[9], notes[9]


NO_ADDRESSES = """
import resource, sys
import patched_cases, pyjit, torch

def f(x, v):
    return torch.relu(torch.mv(x, v)) + 1

fast = pyjit.compile(f, options={"simulated_device": True, "strict": True, "launch": "update"})
x, v = torch.randn(3000, 4000), torch.randn(4000)
for i in range(6):
    if i == 2:
        pages = int(open("/proc/self/statm").read().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, ((pages << 12) + (100 << 20),) * 2)
    torch.testing.assert_close(fast(x, v), f(x, v), rtol=1e-3, atol=1e-3)
print(patched_cases.report(fast, (x, v)))
"""


def test_no_addresses_are_left() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NO_ADDRESSES],
        env={"PYTHONPATH": ":".join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (
        "read copies: CUDA driver: addresses for an operand: out of memory"
        in done.stdout
    ), done.stdout


@pytest.mark.parametrize("value", ["fast", ""])
def test_unknown_ways_to_launch(value: str) -> None:
    with pytest.raises(ValueError, match="option 'launch' is one of plain, copy"):
        pyjit.compile(torch.relu, options={"launch": value})
    with pytest.raises(TypeError):
        pyjit.compile(torch.relu, options={"launch": 1})
