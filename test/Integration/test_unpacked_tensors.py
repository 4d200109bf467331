# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors where Python takes a sequence apart (`f(*t)`, `[*t]`, `list(t)`), and `tensor.new`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import values

Tensor = torch.Tensor


def _product(a: Tensor, b: Tensor, c: float = 2.0) -> Tensor:
    return a * b * c


def _first(*rows: Tensor, **named: Any) -> Any:
    return rows[0] + len(rows), named


def _extended(t: Tensor) -> Any:
    rows = [t.sum(0)]
    rows.extend(t)
    return torch.stack(rows)


def _starred(t: Tensor) -> Any:
    head, *rest = t
    return head, rest


def _filled(t: Tensor) -> Any:
    a = t.new(t.shape).fill_(2)
    b = t.new(3, 2).zero_()
    return a + t, b, t.new(0), t.new(t.size(0)).uniform_(-1, 1)


USES: dict[str, Callable[[Tensor], Any]] = {
    "arguments": lambda t: _product(*t),
    "more": lambda t: _first(t[0], *t, *t[:1], k=2),
    "module": lambda t: torch.nn.Bilinear(2, 2, 1)(*t) * 0,
    "list": lambda t: [torch.stack([*t, *t]), list(t), tuple(t), (*t, 1)],
    "edges": lambda t: torch.zeros(40).index_add(
        0, *(t.abs() * 3).long()[:1], torch.ones(2)
    ),
    "extended": _extended,
    "starred": _starred,
    "zipped": lambda t: [a * b for a, b in zip([*t], reversed(list(t)))],
    "filled": _filled,
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("use", USES)
def test_uses(use: str, grad: bool) -> None:
    fast = pyjit.compile(USES[use])
    for step in range(8):
        t, u = (values(2, 2, seed=step).requires_grad_(grad) for _ in range(2))
        torch.manual_seed(step)
        have = fast(t)
        torch.manual_seed(step)
        want = USES[use](u)
        if use == "more":
            assert have[1] == want[1]
            have, want = have[0], want[0]
        torch.testing.assert_close(have, want)
        if grad and use == "arguments":
            have.sum().backward()
            want.sum().backward()
            torch.testing.assert_close(t.grad, u.grad)
    stats = pyjit.stats(fast)
    assert stats.hits > 3 and (not stats.graph_breaks or use == "module"), (
        pyjit.explain(fast)
    )
