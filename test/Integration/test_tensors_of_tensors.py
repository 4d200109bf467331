# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors made of tensors: `torch.as_tensor`, `torch.tensor` and `new_tensor`, which warn once at each place, and
slices that end at a tensor."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import attempt, difference, snapshot


def _as_tensor(x: torch.Tensor) -> Any:
    same = torch.as_tensor(x)
    return same is x, same * 2, torch.as_tensor(x, dtype=torch.float64) + 1


def _written(x: torch.Tensor) -> Any:
    y = torch.as_tensor(x * 1)
    y.add_(1)
    torch.as_tensor(y, dtype=torch.float64).add_(1)
    return y


def _tensor(x: torch.Tensor) -> Any:
    y = torch.tensor(x)
    y.add_(1)
    return y, torch.tensor(x, dtype=torch.float64), torch.tensor(data=x) * x


def _new_tensor(x: torch.Tensor) -> Any:
    return x.new_tensor(x * 2) + 1, x.double().new_tensor(x)


def _leaf(x: torch.Tensor) -> Any:
    """A leaf of the call's own, and the numbers of a tensor."""
    y = torch.tensor(x, requires_grad=True)
    return y, (y * 2).sum(), torch.scalar_tensor(3.0) * x


def _bounded(x: torch.Tensor) -> Any:
    """As torchaudio's resampling."""
    length = torch.ceil(torch.as_tensor(2 * x.shape[-1] / 3)).long()
    return x[..., :length], x[length:], x[: torch.tensor(2)] * 2


@pytest.mark.parametrize("grad", [False, True], ids=["plain", "grad"])
@pytest.mark.parametrize(
    "f", [_as_tensor, _written, _tensor, _new_tensor, _leaf, _bounded]
)
def test_function(f: Callable[..., Any], grad: bool) -> None:
    fast = pyjit.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        for n in range(6):
            seen = []
            for call in (f, fast):
                x = torch.rand(5, generator=torch.Generator().manual_seed(n))
                x.requires_grad_(grad)
                result = call(x)
                last = result[-1] if isinstance(result, tuple) else result
                if f is _leaf:
                    result[1].backward()
                    result = [*result, result[0].grad]
                if last.requires_grad:
                    last.sum().backward()
                seen.append(snapshot([result, x.grad]))
            assert not (found := difference(*seen)), f"call {n}: {found}"
    stats = pyjit.stats(fast)
    # A leaf that leaves the call with its history is a graph break.
    assert stats["hits"] >= 2 and (not stats["graph_breaks"] or f is _leaf)


def test_warnings() -> None:
    """As often as in eager: each time where filters say so, and raised where they say that."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.tensor(x) * 2

    for action in ("default", "always", "error", "ignore", "once"):
        told = []
        for call in (f, pyjit.compile(f)):
            f.__globals__.pop("__warningregistry__", None)
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter(action)
                results = [attempt(call, torch.ones(2)) for _ in range(5)]
            told.append((len(seen), [str(w.message) for w in seen], snapshot(results)))
        assert told[0][:2] == told[1][:2], action
        assert not difference(told[0][2], told[1][2])
