# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls of one compiled function on several threads, and within one another."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from Integration.harness import values
from torch import nn

pyjit = pytest.importorskip("pyjit", exc_type=ImportError)

THREADS = 4


@pytest.fixture(autouse=True)
def no_grad() -> Any:
    with torch.no_grad():
        yield


def together(work: Callable[[int], Any], threads: int = THREADS) -> list[Any]:
    """What `work(i)` returns on each thread, all started at once."""
    barrier = threading.Barrier(threads)

    def run(i: int) -> Any:
        barrier.wait()
        with torch.no_grad():
            return work(i)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, range(threads)))


def meanwhile(change: Callable[[], None], call: Callable[[], Any]) -> None:
    """One thread carries ``change`` out; until it is done, the others repeat ``call``."""
    done = threading.Event()

    def work(i: int) -> None:
        if i:
            while not done.is_set():
                call()
            return
        try:
            change()
        finally:
            done.set()

    together(work)


class Network(nn.Module):
    """Kernels, vendor calls, packed weights and an arena."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.first = nn.Linear(width, 4 * width)
        self.norm = nn.LayerNorm(4 * width)
        self.second = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.gelu(self.first(x))
        return torch.softmax(self.second(self.norm(y) + 1), -1) + x


@pytest.mark.parametrize("rows", [1, 64])
def test_every_thread_hits(rows: int) -> None:
    module = Network().eval()
    compiled = pyjit.compile(module)
    inputs = [values(rows, 128, seed=i) for i in range(THREADS)]
    want = [module(x) for x in inputs]
    compiled(inputs[0])
    compiled(inputs[0])
    before = pyjit.stats(compiled)
    calls = 100

    def work(i: int) -> None:
        for _ in range(calls):
            torch.testing.assert_close(
                compiled(inputs[i]), want[i], rtol=1e-4, atol=1e-4
            )

    together(work)
    after = pyjit.stats(compiled)
    assert after["hits"] - before["hits"] == THREADS * calls
    assert after["misses"] == before["misses"]
    assert after["eager_calls"] == before["eager_calls"]
    assert not after["reasons"]


def test_small_functions() -> None:
    """They run without letting go of Python's lock."""
    compiled = pyjit.compile(lambda x, y: torch.relu(x + y) * 2)
    x = values(64)
    compiled(x, values(64))

    def work(i: int) -> None:
        y = values(64, seed=i)
        want = torch.relu(x + y) * 2
        for _ in range(2000):
            assert torch.equal(compiled(x, y), want)

    together(work)
    assert pyjit.stats(compiled)["hits"] == THREADS * 2000


def test_weights_change_meanwhile() -> None:
    """A call sees the old weights or the new ones, later calls the new ones."""
    module = Network().eval()
    compiled = pyjit.compile(module)
    x = values(16, 128)
    compiled(x)

    def change() -> None:
        for i in range(60):
            module.second.weight.data.view(-1)[i * 31] += 1.0
            torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-4)

    meanwhile(change, lambda: compiled(x))
    torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-4)


def test_attributes_change_meanwhile() -> None:
    """Watched guards run again on one thread while others are in the middle of a call."""
    module = Network().eval()
    module.scale = 1.0

    def forward(x: torch.Tensor) -> torch.Tensor:
        return module(x) * module.scale

    compiled = pyjit.compile(forward)
    x = values(16, 128)
    compiled(x)
    module.scale = 2.0
    compiled(x)
    want = {scale: module(x) * scale for scale in (1.0, 2.0)}

    def change() -> None:
        for i in range(200):
            module.scale = 1.0 + i % 2
            torch.testing.assert_close(
                compiled(x), want[module.scale], rtol=1e-4, atol=1e-4
            )

    def call() -> None:
        have = compiled(x)
        assert any(torch.allclose(have, w, atol=1e-4) for w in want.values())

    meanwhile(change, call)
    assert pyjit.stats(compiled)["specializations"] == 2


@pytest.mark.parametrize("width", [128, 129])
def test_parameters_replaced_meanwhile(width: int) -> None:
    """What a call in flight reads stays alive, also while a vendor call (129
    columns are no kernel's) counts one more owner of it."""
    module = Network(width).eval()
    compiled = pyjit.compile(module)
    x = values(16, width)
    compiled(x)

    def change() -> None:
        for seed in range(100):
            module.norm.weight = nn.Parameter(values(4 * width, seed=seed))
            module.second.bias = nn.Parameter(values(width, seed=seed))
            torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-4)

    meanwhile(change, lambda: compiled(x))


def drop_entry(module: nn.Module) -> None:
    del module.late


def drop_all(module: nn.Module) -> None:
    module._buffers.clear()


def drop_dict(module: nn.Module) -> None:
    module._buffers = {"late": torch.zeros(1)}


def drop_attributes(module: nn.Module) -> None:
    module.__dict__ = dict(nn.Module().__dict__)


def drop_class(module: nn.Module) -> None:
    module.__class__ = nn.Module
    module._buffers.pop("late")


@pytest.mark.parametrize(
    "drop", [drop_entry, drop_all, drop_dict, drop_attributes, drop_class]
)
def test_a_call_in_flight_keeps_what_it_borrowed(drop: Callable[[Any], None]) -> None:
    """Parameters are not counted for each call: whoever removes one makes the call own it."""

    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("late", values(256, 256, seed=3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(60):
                x = torch.tanh(x @ x / 256)
            return x + self.late

    module = Late()
    x = values(256, 256)
    want = module(x)
    compiled = pyjit.compile(module)
    for _ in range(2):
        compiled(x)
    started = threading.Event()

    def call() -> torch.Tensor:
        with torch.no_grad():
            started.set()
            return compiled(x)

    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(call)
        started.wait()
        drop(module)
        rubbish = [torch.full((256, 256), float("nan")) for _ in range(4)]
        torch.testing.assert_close(result.result(), want, rtol=1e-3, atol=1e-3)
    del rubbish


def test_call_within_a_call() -> None:
    """A hit's own effects may run Python code that calls the same function."""
    depth = []

    class Loud:
        def __del__(self) -> None:
            if len(depth) < 3:
                depth.append(None)
                seen.append(compiled(holder, x))

    class Holder:
        pass

    def f(holder: Holder, x: torch.Tensor) -> torch.Tensor:
        holder.last = x * 2
        return x + 1

    holder, x, seen = Holder(), values(8), []
    holder.last = None
    compiled = pyjit.compile(f)
    compiled(holder, x)
    compiled(holder, x)
    holder.last = Loud()
    assert torch.equal(compiled(holder, x), x + 1)
    assert len(seen) == 1
    assert torch.equal(seen[0], x + 1)
    assert torch.equal(holder.last, x * 2)


def test_compiling_on_several_threads() -> None:
    """Captures take turns; whoever waits answers from eager."""

    def work(i: int) -> None:
        compiled = pyjit.compile(lambda x: torch.relu(x * (i + 1)) + i)
        for seed in range(20):
            x = values(32, seed=seed)
            torch.testing.assert_close(compiled(x), torch.relu(x * (i + 1)) + i)

    together(work)


def test_recording_graph_breaks_on_several_threads() -> None:
    """To compile one thread's segments gives way to another, which would merge its own with the same ones."""

    def f(x: torch.Tensor, rounds: int) -> torch.Tensor:
        counts = dict.fromkeys(range(3), 0)
        for _ in range(rounds):
            key = max(counts, key=lambda k: math.sqrt(k + 1) / (1 + counts[k]))
            counts[key] += 1
            if float(torch.tanh(x * key)[0]) > 0.2:
                x = x * 0.5
        return x * counts[0]

    inputs = [values(2, seed=seed) for seed in range(30)]
    want = [f(x, 4 + 2 * (i % 2)) for i, x in enumerate(inputs)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(2e-4)
    try:
        for _ in range(6):
            compiled = pyjit.compile(f)

            def work(thread: int, compiled: Any = compiled) -> None:
                for number in range(60):
                    i = (number * 7 + thread * 11) % 30
                    assert torch.equal(compiled(inputs[i], 4 + 2 * (i % 2)), want[i])

            together(work, threads=2)
    finally:
        sys.setswitchinterval(before)
