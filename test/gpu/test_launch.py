# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiled calls with CUDA tensors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import launch_cases
import pyjit
import pytest
import torch
from launch_cases import CALLS

TOLERANCE = {
    torch.float32: {"rtol": 2e-4, "atol": 2e-5},
    torch.float16: {"rtol": 2e-2, "atol": 1e-2},
    torch.bfloat16: {"rtol": 5e-2, "atol": 5e-2},
}


def compiled(f: object) -> object:
    return pyjit.compile(f, options={"strict": True})


def check(fast: object, f: object, make: object, dtype: torch.dtype) -> None:
    launch_cases.check(fast, f, make, **TOLERANCE[dtype])
    stats = pyjit.stats(fast)
    assert not stats["reasons"], stats["reasons"]


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", launch_cases.CASES)
def test_cases(name: str, dtype: torch.dtype) -> None:
    f, make = launch_cases.CASES[name]("cuda", dtype)
    check(compiled(f), f, make, dtype)


def test_number_of_the_cpu() -> None:
    def f(x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        return (torch.softmax(x * s, -1) + s).sum(0)

    fast = compiled(f)
    for i in range(2 * CALLS):
        x = torch.randn(40, 50, device="cuda")
        s = torch.tensor(float(i))
        got = fast(x, s)
        s.fill_(1000)  # behind the launch: too late
        torch.testing.assert_close(got, f(x, torch.tensor(float(i))))
    assert pyjit.stats(fast)["hits"] == 2 * CALLS - 1


def test_tensor_of_the_cpu() -> None:
    def f(x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return (x * h.to("cuda")).relu().cumsum(0)

    fast = compiled(f)
    for _ in range(CALLS):
        x, h = torch.randn(30, device="cuda"), torch.randn(30)
        torch.testing.assert_close(fast(x, h), f(x, h))


def test_result_on_the_cpu() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.exp().sum(0)
        return y, y.cpu()

    fast = compiled(f)
    for _ in range(CALLS):
        x = torch.randn(30, 20, device="cuda")
        got, want = fast(x), f(x)
        torch.testing.assert_close(got, want)
        assert got[1].device.type == "cpu"


def test_random_numbers_follow_the_generator() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        a = torch.cumsum(x, 0).relu()
        return torch.cumsum(torch.nn.functional.dropout(a, 0.5), 0) + 1

    fast = compiled(f)
    for i in range(CALLS):
        x = torch.randn(16, 16, device="cuda")
        torch.manual_seed(i)
        want = f(x)
        after = torch.cuda.get_rng_state()
        torch.manual_seed(i)
        torch.testing.assert_close(fast(x), want)
        assert torch.equal(torch.cuda.get_rng_state(), after)


def test_parameters_that_move() -> None:
    f, make = launch_cases.mlp("cuda", torch.float32)
    fast = compiled(f)
    with torch.no_grad():
        for _ in range(CALLS):
            fast(*make())
        for _ in range(3):
            f[0].weight.data = torch.randn(64, 32, device="cuda")
            f[3].bias.add_(1)
            args = make()
            torch.testing.assert_close(fast(*args), f(*args), rtol=2e-4, atol=2e-5)


def test_unaligned_input() -> None:
    f, _ = launch_cases.pointwise("cuda", torch.float32)
    fast = compiled(f)
    base = torch.randn(200, device="cuda")
    for offset in (0, 4, 1, 3, 2):
        a, b = base[offset : offset + 64], base[offset + 70 : offset + 134]
        for _ in range(2):
            torch.testing.assert_close(fast(a, b), f(a, b))


def test_changing_pointers_and_held_outputs() -> None:
    f, _ = launch_cases.two_kernels("cuda", torch.float32)
    fast = compiled(f)
    inputs = [torch.randn(33, 70, device="cuda") for _ in range(7)]
    wanted = [f(x) for x in inputs]
    held: list = [None] * 13
    for i in range(100_000):
        held[i % 13] = (fast(inputs[i % 7]), i % 7)
        if i % 9973 == 0:
            for got, number in filter(None, held):
                torch.testing.assert_close(got, wanted[number])
    for got, number in held:
        torch.testing.assert_close(got, wanted[number])


def test_two_threads_on_two_streams() -> None:
    f, make = launch_cases.mlp("cuda", torch.float32)
    launch_cases.check_on_two_streams(compiled(f), f, make, rtol=2e-4, atol=2e-5)


def test_inside_the_users_own_graph() -> None:
    f, make = launch_cases.mlp("cuda", torch.float32)
    fast = compiled(f)
    with torch.no_grad():
        for _ in range(CALLS):
            fast(*make())
        (x,) = make()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = fast(x)
        for _ in range(3):
            x.copy_(make()[0])
            graph.replay()
            torch.testing.assert_close(y, f(x), rtol=2e-4, atol=2e-5)


def test_nothing_but_the_driver_is_needed() -> None:
    """nvcc, ptxas, gcc and Triton are hidden; no process is started."""
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("bare.py")],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "compiled and right" in done.stdout
