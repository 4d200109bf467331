# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Vendor calls that use what moves, the same for a simulated device and for a GPU.

Each case is a function of a device and a dtype that gives a callable, a function that makes its
arguments anew, and how many operands the calls read in place, and results they write there, once their nodes are
known.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyjit
import torch
from launch_cases import by_name, tensors
from torch.nn import functional as F

Made = tuple[Callable, Callable[[], tuple], int]


def report(fast: Callable, args: tuple) -> str:
    with torch.no_grad():
        return str(pyjit.explain(fast, detail="all")(*args))


def patched(text: str) -> int:
    """How many operands and results the report says are patched."""
    found = re.findall(
        r"operands and results of vendor calls patched in place: (\d+)", text
    )
    return sum(map(int, found))


def shifted(x: torch.Tensor) -> torch.Tensor:
    """The same values, one element further than an allocator would put them."""
    base = torch.empty(x.numel() + 1, dtype=x.dtype, device=x.device)
    base[1:].copy_(x.reshape(-1))
    return base[1:].view(x.shape)


def check(fast: Callable, f: Callable, make: Callable, **tolerance: float) -> None:
    """All calls agree with ``f``, wherever their arguments are, and none writes what another gave."""
    with torch.no_grad():
        held = []
        for i in range(12):
            args = make()
            # Some where they were, some elsewhere, some where nothing is aligned.
            if held and i % 3 == 1:
                args = (held[-1][0][0], *args[1:])
            # (On such operands eager itself faults in float32 attention on a GPU.)
            if i % 4 == 3 and (
                args[0].device.type == "cpu" or "attention" not in f.__qualname__
            ):
                args = tuple(shifted(a) for a in args)
            want = f(*args)
            held.append((args, [a.clone() for a in args], fast(*args), want))
            torch.testing.assert_close(held[-1][2], want, **tolerance)
        for args, copies, got, want in held:
            torch.testing.assert_close(got, want, **tolerance)
            torch.testing.assert_close(list(args), copies)


def addmm(device: str, dtype: torch.dtype) -> Made:
    def f(b: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.addmm(b, x, y) * 2)

    return f, tensors(device, dtype, (24,), (8, 16), (16, 24)), 3


def bmm(device: str, dtype: torch.dtype) -> Made:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.tanh(torch.bmm(x, y))

    return f, tensors(device, dtype, (3, 8, 16), (3, 16, 8)), 2


def attention(device: str, dtype: torch.dtype) -> Made:
    def f(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v) * 2 + 1

    return f, tensors(device, dtype, *3 * [(2, 4, 16, 32)]), 3


def convolution(device: str, dtype: torch.dtype) -> Made:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x, w, padding=1).sigmoid() * 3

    return f, tensors(device, dtype, (2, 8, 12, 12), (16, 8, 3, 3)), 2


def kernels_too(device: str, dtype: torch.dtype) -> Made:
    """What a library reads, kernels of our own read as well."""

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * (x @ w) - w.sum(0)

    return f, tensors(device, dtype, (8, 16), (16, 16)), 2


def output_read(device: str, dtype: torch.dtype) -> Made:
    """A library reads what a kernel wrote for the caller."""

    def f(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.tanh(x)
        return y, torch.relu(y @ w)

    return f, tensors(device, dtype, (8, 16), (16, 16)), 2


def parts(device: str, dtype: torch.dtype) -> Made:
    """Two views of one operand, and one operand twice."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x[8:16] @ x[:8].t()) + torch.relu(x[3:11] @ x[16:24].t())

    return f, tensors(device, dtype, (24, 16)), 1


def cumulated(device: str, dtype: torch.dtype) -> Made:
    """Results of calls that other calls read, and a call that launches several kernels."""

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a = torch.cumsum(x.float() @ y.float(), 0)
        return torch.cumsum(a * 2, 1) + torch.sort(y.float(), 0).values[0]

    return f, tensors(device, dtype, (8, 16), (16, 8)), -1


def result(device: str, dtype: torch.dtype) -> Made:
    """The caller gets what a library writes; kernels, and a library, read it."""

    def f(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.mm(x, w)
        return y.view(2, 4, 16), torch.relu(torch.mm(y, w)) + y

    return f, tensors(device, dtype, (8, 16), (16, 16)), 3


def results(device: str, dtype: torch.dtype) -> Made:
    """Of several forms, one of them twice, and a part of one."""

    def f(
        b: torch.Tensor, x: torch.Tensor, w: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        y = torch.addmm(b, x, w)
        z = torch.bmm(y.view(2, 4, 16), w.expand(2, 16, 16))
        return y, y.view(4, 32), z, torch.mm(w, w)[2:], z.sigmoid()

    return f, tensors(device, dtype, (16,), (8, 16), (16, 16)), 5


def linear(device: str, dtype: torch.dtype) -> Made:
    """Of matrices, with a bias and without."""

    def f(
        x: torch.Tensor, w: torch.Tensor, b: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        y, z = F.linear(x, w), F.linear(x.tanh(), w, b)
        return y, z, y.relu() + z

    return f, tensors(device, dtype, (8, 16), (24, 16), (24,)), 5


CASES: dict[str, Callable[[str, torch.dtype], Made]] = by_name(
    addmm,
    bmm,
    attention,
    convolution,
    kernels_too,
    output_read,
    parts,
    cumulated,
    result,
    results,
    linear,
)


def dear(device: str, dtype: torch.dtype) -> Made:
    """Many calls read one operand: one copy costs less than as many new addresses."""

    def f(x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(4, 8, 8, device=device, dtype=dtype)
        for other in others:
            total = torch.tanh(torch.bmm(x, other) + total)
        return total

    return f, tensors(device, dtype, (4, 8, 16), *7 * [(4, 16, 8)]), 7
