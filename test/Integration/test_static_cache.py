# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes into part of a tensor at a place that differs between calls: caches of decoders,
histories, windows."""

from __future__ import annotations

from collections.abc import Callable

import pyjit
import pytest
import torch
from torch import nn


def row(buf: torch.Tensor, x: torch.Tensor, pos: int) -> torch.Tensor:
    buf[:, pos] = x[:, 0]
    return buf.sum(1)


def rows(buf: torch.Tensor, x: torch.Tensor, pos: int) -> torch.Tensor:
    buf[:, pos : pos + 3] = x
    return buf * 2


def row_then_read(buf: torch.Tensor, x: torch.Tensor, pos: int) -> torch.Tensor:
    buf[:, pos] = x[:, 1]
    return buf[:, : pos + 1].mean(1)


def beginning(buf: torch.Tensor, x: torch.Tensor, pos: int) -> torch.Tensor:
    buf[0, :pos] = buf[1, :pos] * x[0, 0]
    buf[:, pos] += 1
    return buf + 1


def attention(buf: torch.Tensor, x: torch.Tensor, pos: int) -> torch.Tensor:
    buf[:, pos] = x[:, 0]
    known = buf[:, : pos + 1]
    weights = (x[:, :1] @ known.transpose(1, 2)).softmax(-1)
    return (weights @ known).squeeze(1)


def last_of_new(buf: torch.Tensor, x: torch.Tensor, pos: int) -> torch.Tensor:
    out = torch.zeros_like(buf)
    out[:, pos] = x[:, 2]
    out[:, pos + 1] = buf[:, pos]
    return out


def slice_of_one_row(buf: torch.Tensor, x: torch.Tensor, pos: int) -> torch.Tensor:
    buf[:, pos : pos + 1] = x[:, :1]
    known = buf[:, : pos + 1]
    return (x[:, :1] @ known.mT).softmax(-1)


def row_before_a_row(buf: torch.Tensor, x: torch.Tensor, pos: int) -> torch.Tensor:
    return buf[:, : pos + 2].sum(1) + buf[:, pos + 1 : pos + 2].sum(1) * x[:, 0]


def beginning_scaled(buf: torch.Tensor, x: torch.Tensor, pos: int) -> torch.Tensor:
    buf[:, :pos] *= -1
    return buf.sum(1)


def beginning_widened(buf: torch.Tensor, x: torch.Tensor, pos: int) -> torch.Tensor:
    buf[:, :pos] = x[:, :1] * 2
    return buf + 1


def beginning_of_all_rows(buf: torch.Tensor, x: torch.Tensor, pos: int) -> torch.Tensor:
    buf[:, :pos] = x[:1, :1]
    return buf[:, :pos].sum(1)


CASES = (
    row,
    rows,
    row_then_read,
    beginning,
    attention,
    last_of_new,
    slice_of_one_row,
    row_before_a_row,
)
POSITIONS = (4, 5, 6, 9, 2, 13, 16, 0, 1, 17, 3, 12, 30, 8)


# Parts with symbolic strides: kernels of the CPU read and write them, on a device
# they are a specialization for each position.
CASES_OF_THE_CPU = (
    *CASES,
    beginning_scaled,
    beginning_widened,
    beginning_of_all_rows,
)


@pytest.mark.parametrize(
    ("f", "device"),
    [(f, "cpu") for f in CASES_OF_THE_CPU] + [(f, "simulated") for f in CASES],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_positions(f: Callable, device: str) -> None:
    """Eager's contents and answers at each position, its error past the end, and few specializations."""
    fast = pyjit.compile(f, options={"simulated_device": device == "simulated"})
    torch.manual_seed(0)
    buffers = torch.randn(3, 20, 8), torch.empty(3, 20, 8)
    buffers[1].copy_(buffers[0])
    with torch.no_grad():
        for pos in POSITIONS:
            x = torch.randn(3, 3, 8)
            try:
                want = f(buffers[0], x, pos)
            except (IndexError, RuntimeError) as error:
                with pytest.raises(type(error)) as caught:
                    fast(buffers[1], x, pos)
                assert str(caught.value) == str(error)
            else:
                torch.testing.assert_close(fast(buffers[1], x, pos), want)
            torch.testing.assert_close(buffers[1], buffers[0])
    stats = pyjit.stats(fast)
    assert not stats["graph_breaks"] and not stats["fixed_sizes"], stats
    # The first value, the lifted one, 0 and 1, and where a part is all or nothing.
    assert stats["hits"] >= 6, stats


@pytest.mark.parametrize("device", ["cpu", "simulated"])
def test_no_rows(device: str) -> None:
    def f(buf: torch.Tensor, x: torch.Tensor, pos: int) -> torch.Tensor:
        buf[:, pos : pos + x.shape[1]] = x
        return buf * 2

    fast = pyjit.compile(f, options={"simulated_device": device == "simulated"})
    with torch.no_grad():
        for pos in (4, 5, 6, 9, 19, 20):
            buf = torch.randn(3, 20, 8)
            want = buf * 2
            torch.testing.assert_close(fast(buf, torch.empty(3, 0, 8), pos), want)
            torch.testing.assert_close(buf * 2, want)


class Decoder(nn.Module):
    """A decoder's attention over what it has seen, kept by itself or by its caller."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8)
        self.cache, self.seen = torch.zeros(1, 20, 8), 0

    def kept(self, x: torch.Tensor) -> torch.Tensor:
        new = x.shape[1]
        self.cache[:, self.seen : self.seen + new] = x
        self.seen += new
        return (x @ self.cache[:, : self.seen].mT).softmax(-1)

    def forward(
        self, x: torch.Tensor, past: tuple[torch.Tensor, torch.Tensor] | None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        k, v = self.k(x), self.v(x)
        if past is not None:
            k, v = torch.cat([past[0], k], 1), torch.cat([past[1], v], 1)
        return (x @ k.mT).softmax(-1) @ v, (k, v)


def test_a_cache_that_the_module_counts() -> None:
    models = Decoder(), Decoder()
    fast = pyjit.compile(models[1].kept)
    with torch.no_grad():
        for length in (3, *[1] * 12):
            x = torch.randn(1, length, 8)
            torch.testing.assert_close(fast(x), models[0].kept(x))
            torch.testing.assert_close(models[1].cache, models[0].cache)
            assert models[1].seen == models[0].seen
    stats = pyjit.stats(fast)
    assert stats["hits"] >= 8 and not stats["fixed_sizes"], stats


@pytest.mark.parametrize("transposed", [False, True])
def test_a_growing_cache_with_gradients(transposed: bool) -> None:
    """No gradient has the size of what the call was given, which one is cut to all the same."""
    models = Decoder(), Decoder()
    fast = pyjit.compile(models[1])
    for step in range(10):
        x = torch.randn(2, 1, 8)
        past = [torch.randn(2, 3 + step, 8) for _ in range(2)]
        if transposed:
            past = [t.mT.contiguous().mT for t in past]
        grads = []
        for f, m in ((models[0], models[0]), (fast, models[1])):
            given = [t.clone().requires_grad_() for t in past]
            y, _ = f(x, tuple(given))
            grads.append(
                torch.autograd.grad(y.square().sum(), [*given, *m.parameters()])
            )
        torch.testing.assert_close(grads[1], grads[0])
    stats = pyjit.stats(fast)
    assert stats["hits"] >= 7 and not stats["fixed_sizes"], stats
