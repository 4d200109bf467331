# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Complex tensors that are still to be conjugated or negated (`z.conj()`, `z.conj().imag`), and views of complex
numbers as real ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch

Tensor = torch.Tensor


def power(z: Tensor) -> Tensor:
    return (z * z.conj()).real


def correlation(z: Tensor) -> Tensor:
    spectrum = torch.fft.fft(z)
    return torch.fft.ifft(spectrum * spectrum.roll(1, 0).conj()).abs()


def gram(z: Tensor) -> Tensor:
    return (z @ z.mH).imag


def negated(z: Tensor) -> Tensor:
    return z.conj().imag * 2 + z.conj().real


def resolved(z: Tensor) -> Tensor:
    return torch.view_as_real(z.conj().resolve_conj().mT.contiguous())


def twice(z: Tensor) -> Tensor:
    return z.conj().conj().exp().abs()


def parts(z: Tensor) -> Tensor:
    return z.conj()[1:].t().reshape(-1).abs().sum() + z.conj().sum().real


def spectrogram(z: Tensor) -> Tensor:
    signal = z.real.repeat(1, 8)
    window = torch.ones(8, dtype=signal.dtype)
    return (
        torch.view_as_real(torch.stft(signal, 8, 4, window=window, return_complex=True))
        .square()
        .sum(-1)
    )


def written_before(z: Tensor) -> Tensor:
    out = torch.zeros_like(z)
    out[:2] = z[:2] * 1j
    out[2:] += 3
    return torch.view_as_real(out) * 2


ONE_GRAPH = [
    power,
    correlation,
    gram,
    negated,
    resolved,
    twice,
    parts,
    spectrogram,
    written_before,
]


@pytest.mark.parametrize("program", ONE_GRAPH, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_one_graph(program: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    fast = pyjit.compile(program)
    for _ in range(4):
        z = torch.randn(4, 5, dtype=dtype)
        torch.testing.assert_close(fast(z), program(z))
    stats = pyjit.stats(fast)
    assert stats["hits"] == 3 and not stats["graph_breaks"], pyjit.explain(fast)


def returned(z: Tensor) -> Tensor:
    return (z * 2).conj()


def returned_part(z: Tensor) -> list[Tensor]:
    w = (z + 1).conj()
    return [w[0], w.abs(), w.imag]


def written_after(z: Tensor) -> Tensor:
    w = z + 1
    turned = w.conj()
    w.mul_(2)
    return turned * 1


def written_through(z: Tensor) -> tuple[Tensor, Tensor]:
    w = z + 1
    w.conj().add_(1j)
    torch.view_as_real(w)[0] = 7
    return w, w.abs()


def asked(z: Tensor) -> tuple[Any, ...]:
    w = z.conj()
    return w.is_conj(), w.imag.is_neg(), w.resolve_conj().is_conj(), w.is_contiguous()


def kept(z: Tensor) -> Tensor:
    w = z.conj()
    print(end="")
    return w + z


@pytest.mark.parametrize(
    "program",
    [returned, returned_part, written_after, written_through, asked, kept],
    ids=lambda f: f.__name__,
)
def test_as_eager_s(program: Callable[[Tensor], Any]) -> None:
    """Whether a tensor is conjugated later can be seen, and so can what is written meanwhile."""
    fast = pyjit.compile(program)
    for _ in range(5):
        z = torch.randn(4, 5, dtype=torch.complex64)
        want, have = program(z.clone()), fast(z.clone())
        for a, b in zip(
            want if isinstance(want, (tuple, list)) else [want],
            have if isinstance(have, (tuple, list)) else [have],
            strict=True,
        ):
            if not isinstance(a, Tensor):
                assert a == b
                continue
            assert (a.is_conj(), a.is_neg()) == (b.is_conj(), b.is_neg())
            torch.testing.assert_close(b, a)
