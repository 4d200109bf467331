# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Derivatives of calls of complex numbers, against eager's autograd.

PyTorch's own samples in complex128 for every operator that eager differentiates there, and those of
`torch.fft` in float64 as well: outputs, gradients, gradients of gradients. What is not differentiated is left to
eager; whose derivatives are stated (the fact ComplexGradient), has to be.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyjit
import pytest
import torch
from Operators import test_gradients as derivatives
from Operators.differentiating import assert_equal, run

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db


OPERATORS = sorted(
    (
        op
        for op in op_db
        if op.supports_autograd
        and torch.complex128 in op.supported_backward_dtypes("cpu")
        and not op.name.startswith(("_refs", "masked.", "sparse."))
    ),
    key=lambda op: op.full_name,
)
TRANSFORMS = [
    op for op in op_db if op.name.startswith("fft.") and torch.float64 in op.dtypes
]


# Operators of the first test: a sample of it covers less.
ran: set[str] = set()


def stated(root: Path) -> set[str]:
    """Overloads of the fact ComplexGradient."""
    text = (root / "build/lib/Operators/OperatorFacts.inc").read_text()
    return set(
        re.findall(r'\{"aten::([^"]+)", \{-?\d+, ComplexGradient::[A-MO-Z]', text)
    )


def check_samples(op: Any, dtype: torch.dtype, twice: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls = derivatives.samples(op, dtype)
        for index, call in enumerate(calls[:1] if twice else calls):
            what = f"{op.full_name}, {dtype}, {index}" + " twice" * twice
            derivatives.check(op.full_name, op.op, call, what, twice)


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.full_name)
def test_gradients(op: Any) -> None:
    ran.add(op.full_name)
    check_samples(op, torch.complex128, twice=False)


@pytest.mark.parametrize("op", TRANSFORMS, ids=lambda op: op.full_name)
def test_transforms(op: Any) -> None:
    check_samples(op, torch.float64, twice=False)
    check_samples(op, torch.float64, twice=True)


@pytest.mark.parametrize(
    "op", [op for op in OPERATORS if op.supports_gradgrad], ids=lambda op: op.full_name
)
def test_second_gradients(op: Any) -> None:
    check_samples(op, torch.complex128, twice=True)


def numbers(*shape: int, dtype: torch.dtype = torch.complex128) -> torch.Tensor:
    return torch.randn(
        shape, dtype=dtype, generator=torch.Generator().manual_seed(len(shape))
    )


def recurrence(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    state, states = torch.zeros_like(a), []
    for i in range(4):
        state = a * state + x[i]
        states.append(state)
    return torch.stack(states).real


REAL = torch.float64
PROGRAMS: dict[str, tuple[Callable[..., Any], list[torch.Tensor]]] = {
    "rotary embedding": (
        lambda x, f: torch.view_as_real(
            torch.view_as_complex(x.reshape(2, 5, 4, 2))
            * torch.polar(torch.ones_like(f), f)
        ).flatten(2),
        [numbers(2, 5, 8, dtype=REAL), numbers(5, 4, dtype=REAL)],
    ),
    "spectrogram": (
        lambda x: (
            torch.stft(
                x,
                16,
                4,
                window=torch.hann_window(16, dtype=x.dtype, device=x.device),
                return_complex=True,
            )
            .abs()
            .clamp(min=1e-3)
            .log()
        ),
        [numbers(2, 64, dtype=REAL)],
    ),
    "power": (
        lambda x: (torch.fft.rfft(x).abs() ** 2).mean(-1),
        [numbers(3, 32, dtype=REAL)],
    ),
    "parts": (
        lambda x: torch.fft.rfft2(x).real.square() + torch.fft.rfft2(x).imag * 2,
        [numbers(2, 6, 7, dtype=REAL)],
    ),
    "spectral convolution": (
        lambda x, w: torch.fft.irfft2(
            torch.einsum("bixy,ioxy->boxy", torch.fft.rfft2(x), w), s=x.shape[-2:]
        ),
        [numbers(2, 3, 6, 6, dtype=REAL), numbers(3, 2, 6, 4)],
    ),
    "filter": (
        lambda x, h: torch.fft.irfft(
            torch.fft.rfft(x, n=24) * torch.fft.rfft(h, n=24), n=24
        ),
        [numbers(2, 17, dtype=REAL), numbers(8, dtype=REAL)],
    ),
    "phases": (
        lambda x, y: torch.angle(torch.complex(x, y)) * torch.complex(y, x).abs(),
        [numbers(4, 5, dtype=REAL), numbers(5, dtype=REAL)],
    ),
    "mixing of real and complex": (
        lambda x, z: (x * z + z / (x + 3) - x).abs().sum(),
        [numbers(4, 5, dtype=REAL), numbers(5)],
    ),
    "recurrence": (
        recurrence,
        [numbers(5), numbers(4, 5)],
    ),
    "Hermitian form": (
        lambda z, m: (z.conj() @ m @ z).real,
        [numbers(5), numbers(5, 5)],
    ),
    "imaginary factor": (
        lambda x: torch.exp(1j * x).imag * 2,
        [numbers(7, dtype=REAL)],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("single", [False, True], ids=["double", "single"])
def test_programs(name: str, single: bool) -> None:
    """One graph, and eager's numbers."""
    program, given = PROGRAMS[name]
    if single:
        given = [
            t.to(torch.complex64 if t.is_complex() else torch.float32) for t in given
        ]
    call = ([t.clone().requires_grad_() for t in given], {})
    fast = pyjit.compile(program)
    want, gradients, _ = run(program, call)
    for turn in range(3):
        have, ours, nodes = run(fast, call)
        assert_equal(want, have, f"{name}, call {turn}, outputs")
        assert_equal(gradients, ours, f"{name}, call {turn}, gradients")
    stats = pyjit.stats(fast)
    assert stats["hits"] >= 1 and not stats["graph_breaks"], pyjit.explain(fast)
    # Of a view that leaves, autograd shows the view.
    assert all("PyjitBackward" in n or "AsStrided" in n for n in nodes)


# The dispatcher comes by other overloads, or nobody above writes them so.
ALIASES = {
    "absolute", "addbmm", "concat", "contiguous", "copy", "fill", "index_fill", "masked_fill", "norm", "polar",
    "scatter", "select_copy", "select_scatter", "slice_copy", "slice_scatter", "square", "to", "type_as", "where",
    "div", "divide", "mul", "multiply", "negative", "rsub", "sub", "subtract", "true_divide", "add", "index",
    "index_put", "view_as_complex", "view_as_real",
}  # fmt: skip


def test_coverage(root: Path) -> None:
    """What the facts say is differentiated was, by somebody above."""
    if len(ran) < len({op.full_name for op in OPERATORS}):
        pytest.skip("a part of the operators ran")
    missing = stated(root) - set(derivatives.covered)
    assert {name.split(".")[0] for name in missing} <= ALIASES


class FourierLayer(torch.nn.Module):
    """A layer of Fourier neural operators: low frequencies are mixed, and written to a part of a spectrum."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = torch.nn.Parameter(torch.rand(3, 3, 4, dtype=torch.complex64) / 3)
        self.skip = torch.nn.Conv1d(3, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spectrum = torch.fft.rfft(x)
        mixed = torch.zeros_like(spectrum)
        mixed[:, :, :4] = torch.einsum("bix,iox->box", spectrum[:, :, :4], self.mix)
        return torch.fft.irfft(mixed, n=x.shape[-1]) + self.skip(x)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_a_fourier_operator_trains(optimizer: Any) -> None:
    """Complex parameters, and optimizers of eager that see them as real ones."""
    found = []
    for compiled in (False, True):
        torch.manual_seed(0)
        net = FourierLayer()
        fast = pyjit.compile(net) if compiled else net
        update = optimizer(net.parameters(), lr=0.05)
        losses = []
        for _ in range(6):
            update.zero_grad()
            loss = (fast(torch.randn(2, 3, 16)) - 1).square().mean()
            loss.backward()
            update.step()
            losses.append(loss.detach())
        found.append([*losses, *net.parameters()])
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)
    stats = pyjit.stats(fast)
    assert stats["hits"] >= 3 and not stats["graph_breaks"], pyjit.explain(fast)
