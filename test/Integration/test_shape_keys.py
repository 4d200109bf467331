# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Caches by shape, as programs keep masks and positions: a `torch.Size` is a key, equal to a tuple, and stays one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import values

Tensor = torch.Tensor


def _memo(x: Tensor, memo: dict[Any, Any]) -> Any:
    if x.shape not in memo:
        memo[x.shape] = torch.arange(x.shape[0])
    return x * memo[x.shape]


def _with_type(x: Tensor, memo: dict[Any, Any]) -> Any:
    key = (x.shape, x.dtype, str(x.device))
    if key not in memo:
        memo[key] = torch.ones(x.shape[0])
    return x * memo[key]


def _counted(x: Tensor, memo: dict[Any, Any]) -> Any:
    memo[x.shape] = memo.get(x.shape, 0) + 1
    return x * memo[x.shape]


def _dropped(x: Tensor, memo: dict[Any, Any]) -> Any:
    return x * 2, memo.pop(x.size(), None) is None, memo.setdefault(tuple(x.shape), 3)


def _own(x: Tensor, memo: dict[Any, Any]) -> Any:
    own = {x.shape: 1, (9,): 2}
    return x * own[x.shape], own, x.shape in {torch.Size([3]), torch.Size([4])}


@pytest.mark.parametrize(
    "use",
    [_memo, _with_type, _counted, _dropped, _own],
    ids=lambda use: use.__name__.strip("_"),
)
def test_keys(use: Callable[..., Any]) -> None:
    fast = pyjit.compile(use)
    mine: dict[Any, Any] = {}
    theirs: dict[Any, Any] = {}
    for step in range(20):
        x = values(3 + step % 2)
        if step == 8:
            for memo in (mine, theirs):
                memo.clear()
        if step == 12:
            for memo in (mine, theirs):
                memo[3,] = torch.full((3,), 7.0) if use is _memo else 7
        have, want = fast(x, mine), use(x, theirs)
        torch.testing.assert_close(
            have if isinstance(have, Tensor) else have[0],
            want if isinstance(want, Tensor) else want[0],
        )
        if not isinstance(want, Tensor):
            assert repr(have[1:]) == repr(want[1:])
        assert [(type(k), k) for k in mine] == [(type(k), k) for k in theirs]
    stats = pyjit.stats(fast)
    # (A number behind such a key is a constant: each is a recording.)
    assert stats.hits > (5 if use is _counted else 8) and not stats.graph_breaks, (
        pyjit.explain(fast)
    )
