# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batches of any size on a GPU: one recompilation, one PTX module, graphs for each size."""

from __future__ import annotations

from collections.abc import Iterator

import pyjit
import pytest
import symbolic_cases
import torch

TOLERANCE = {
    torch.float32: {"rtol": 1e-3, "atol": 1e-4},
    torch.float16: {"rtol": 2e-2, "atol": 2e-2},
    torch.bfloat16: {"rtol": 6e-2, "atol": 6e-2},
}


@pytest.fixture(autouse=True)
def no_tf32() -> Iterator[None]:
    # PyTorch's own test helpers, once imported, let cuDNN's flags be set by the context only.
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield
    torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", symbolic_cases.CASES)
def test_cases(name: str, dtype: torch.dtype) -> None:
    f, make = symbolic_cases.CASES[name]("cuda", dtype)
    fast = pyjit.compile(f)
    symbolic_cases.check(fast, f, make, **TOLERANCE[dtype])


def test_sizes_alternate_and_results_stay() -> None:
    """Each size replays a graph of its own; nothing that a call returned is written again."""
    f, make = symbolic_cases.mlp("cuda", torch.float32)
    fast = pyjit.compile(f)
    held = []
    with torch.no_grad():
        for i in range(60):
            args = make([2, 3, 5, 17, 64][i % 5])
            held.append((fast(*args), f(*args)))
        for have, want in held:
            torch.testing.assert_close(have, want, rtol=1e-3, atol=1e-4)
    assert pyjit.stats(fast)["specializations"] == 2


def test_many_sizes() -> None:
    """More sizes than executors are kept for."""
    f, make = symbolic_cases.reductions("cuda", torch.float32)
    fast = pyjit.compile(f)
    with torch.no_grad():
        for _ in range(2):
            for n in range(2, 50):
                args = make(n)
                torch.testing.assert_close(fast(*args), f(*args), rtol=1e-3, atol=1e-4)
    assert pyjit.stats(fast)["specializations"] == 2


def test_streams() -> None:
    f, make = symbolic_cases.mlp("cuda", torch.float32)
    fast = pyjit.compile(f)
    streams = [torch.cuda.Stream() for _ in range(3)]
    with torch.no_grad():
        for i in range(30):
            args = make([2, 3, 5, 17][i % 4])
            torch.cuda.synchronize()
            with torch.cuda.stream(streams[i % 3]):
                have = fast(*args)
            torch.cuda.synchronize()
            torch.testing.assert_close(have, f(*args), rtol=1e-3, atol=1e-4)


def test_unaligned_input() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).relu() + 1

    fast = pyjit.compile(f)
    base = torch.randn(5000, device="cuda")
    for n in [4, 8, 12, 16, 1024, 4096, 7, 1023]:
        for start in (0, 1, 3):
            x = base[start : start + n]
            torch.testing.assert_close(fast(x), f(x))
