# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Branches on data that calls take one way, on the device: nothing runs behind a check that fails."""

from __future__ import annotations

import pyjit
import pytest
import torch


def checked(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    if torch.isnan(y).any():
        raise ValueError("not a number")
    return torch.relu(y) @ x


def two(x: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
    if not torch.isfinite(x).all():  # pytest rewrites an assert
        raise ValueError("infinite")
    y = torch.softmax(x @ x, -1)
    if y.max() > limit:
        raise ValueError("large")
    return torch.nn.functional.layer_norm(y + x, (x.shape[-1],))


def looked_up(table: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    if (i >= table.shape[0]).any():
        return torch.zeros(3, device=table.device)
    return table[i].sum(-1)


def test_one_graph_that_speculates() -> None:
    fast = pyjit.compile(checked)
    for seed in range(12):
        torch.manual_seed(seed)
        x = torch.randn(64, 64, device="cuda")
        torch.testing.assert_close(fast(x), checked(x))
    stats = pyjit.stats(fast)
    assert (
        stats["graphs"] == 1 and stats["hits"] == 11 and not stats["graph_break_sites"]
    )
    with pytest.raises(ValueError, match="not a number"):
        fast(torch.full((64, 64), float("nan"), device="cuda"))
    torch.testing.assert_close(fast(x), checked(x))
    assert pyjit.stats(fast)["graphs"] == 1


def test_two_speculations_are_asked_together() -> None:
    fast = pyjit.compile(two)
    limit = torch.tensor(2.0, device="cuda")
    for seed in range(12):
        torch.manual_seed(seed)
        x = torch.randn(64, 64, device="cuda")
        torch.testing.assert_close(fast(x, limit), two(x, limit))
    assert len(pyjit.stats(fast)["speculations"]) == 2
    with pytest.raises(ValueError, match="large"):
        fast(x, limit - 5)


def test_an_index_out_of_range_is_not_looked_up() -> None:
    """It would end the process' context."""
    fast = pyjit.compile(looked_up)
    table = torch.randn(5, 4, device="cuda")
    for last in (2, 4, 3, 2, 9, 1, 700, 4):
        i = torch.tensor([0, 1, last], device="cuda")
        torch.testing.assert_close(fast(table, i), looked_up(table, i))
    torch.cuda.synchronize()
