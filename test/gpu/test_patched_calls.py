# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Vendor calls that read what moves where it is, on a GPU."""

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


@pytest.mark.parametrize("name", ["addmm", "bmm", "kernels_too", "output_read"])
def test_matmuls_are_patched(name: str) -> None:
    """Words of cuBLAS' nodes were found when this was planned; so they have to be."""
    f, make, operands = patched_cases.CASES[name]("cuda", torch.float16)
    fast = compiled(f, "update")
    patched_cases.check(fast, f, make, **TOLERANCE[torch.float16])
    text = patched_cases.report(fast, make())
    assert patched(text) == operands, text


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
