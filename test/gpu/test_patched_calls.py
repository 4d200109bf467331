# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Vendor calls that read, and write, what moves where it is, on a GPU."""

from __future__ import annotations

import launch_cases
import patched_cases
import pyjit
import pytest
import torch
from patched_cases import patched

TOLERANCE = {
    torch.float32: {"rtol": 1e-3, "atol": 1e-3},
    torch.float16: {"rtol": 2e-2, "atol": 2e-2},
}


def compiled(f: object, launch: str) -> object:
    return pyjit.compile(f, options={"strict": True, "launch": launch})


@pytest.mark.parametrize("launch", ["plain", "copy", "table", "update"])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", patched_cases.CASES)
def test_cases(name: str, dtype: torch.dtype, launch: str) -> None:
    """Right answers, whether or not the words were found; the report says which, and why not."""
    f, make, _ = patched_cases.CASES[name]("cuda", dtype)
    fast = compiled(f, launch)
    patched_cases.check(fast, f, make, **TOLERANCE[dtype])
    text = patched_cases.report(fast, make())
    assert "not possible" not in text, text
    print(name, dtype, launch, text[text.find("launch:") :], sep="\n")


@pytest.mark.parametrize(
    "name", ["addmm", "bmm", "kernels_too", "output_read", "result", "results"]
)
def test_matmuls_are_patched(name: str) -> None:
    """Words of cuBLAS' nodes were found when this was planned; so they have to be."""
    f, make, operands = patched_cases.CASES[name]("cuda", torch.float16)
    fast = compiled(f, "update")
    patched_cases.check(fast, f, make, **TOLERANCE[torch.float16])
    text = patched_cases.report(fast, make())
    assert patched(text) == operands, text


def test_calls_that_read_less_than_they_are_given() -> None:
    """Of a convolution of which the weight's gradient alone is asked for nobody reads the weight: that is a copy, and
    what the call reads is not."""
    x, w = torch.randn(4, 8, 16, 16), torch.randn(16, 8, 3, 3)
    y, v = torch.randn(4, 16, 14, 14), torch.randn(16, 16, 3, 3)

    def f(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x, w, y, v, g, h = given
        backward = torch.ops.aten.convolution_backward
        about = (None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
        _, first, _ = backward(g, x, w, *about, [False, True, False])
        second, third, _ = backward(h, y, v, *about, [True, True, False])
        return first * 2, second * 2, third * 2

    fast = compiled(f, "update")
    shapes = (x, w, y, v, torch.empty(4, 16, 14, 14), torch.empty(4, 16, 12, 12))
    for _ in range(8):
        given = [
            torch.randn(t.shape, device="cuda")
            .half()
            .to(memory_format=torch.channels_last)
            for t in shapes
        ]
        torch.testing.assert_close(fast(*given), f(*given), rtol=2e-2, atol=2e-1)
    assert patched(patched_cases.report(fast, tuple(given))) == 5


def test_addresses_all_over_the_memory() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ w) + x

    fast = compiled(f, "update")
    inputs, apart = [], []
    for i in range(24):
        apart.append(torch.empty((1 + i % 5) << 28, dtype=torch.uint8, device="cuda"))
        inputs.append(
            tuple(torch.randn(256, 256, device="cuda").half() for _ in range(2))
        )
    wanted = [f(*args) for args in inputs]
    held: list = [None] * 7
    for i in range(20_000):
        number = (i * 7) % len(inputs)
        held[i % 7] = (fast(*inputs[number]), number)
        if i % 997 == 0:
            for got, which in filter(None, held):
                torch.testing.assert_close(got, wanted[which], rtol=2e-2, atol=2e-2)
    for got, which in held:
        torch.testing.assert_close(got, wanted[which], rtol=2e-2, atol=2e-2)
    print(patched_cases.report(fast, inputs[0]))


def test_two_threads_on_two_streams() -> None:
    f, make, _ = patched_cases.CASES["addmm"]("cuda", torch.float32)
    fast = compiled(f, "update")
    launch_cases.check_on_two_streams(fast, f, make, rtol=1e-3, atol=1e-3)


def test_libraries_set_themselves_up_anew() -> None:
    """Workspaces of cuBLAS are cleared and memory given back between replays."""
    f, make, _ = patched_cases.CASES["addmm"]("cuda", torch.float16)
    fast = compiled(f, "update")
    with torch.no_grad():
        for i in range(40):
            args = make()
            torch.testing.assert_close(fast(*args), f(*args), rtol=2e-2, atol=2e-2)
            if i % 5 == 4:
                torch._C._cuda_clearCublasWorkspaces()
                torch.cuda.empty_cache()
