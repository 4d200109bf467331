"""Writes into part of a tensor at a place that differs between calls: caches of decoders,
histories, windows."""

from __future__ import annotations

from collections.abc import Callable

import pyjit
import pytest
import torch


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


CASES = (row, rows, row_then_read, beginning, attention, last_of_new)
POSITIONS = (4, 5, 6, 9, 2, 13, 16, 0, 1, 17, 3, 12, 30, 8)


@pytest.mark.parametrize("device", ["cpu", "simulated"])
@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
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
