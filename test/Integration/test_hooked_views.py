# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Hooks on what a layer gives, which is then written in place, against eager.

What `linear` of three dimensions gives is a view of a tensor that nobody sees. A write in place gives the base another history, and a hook that was there before it is lost; on a tensor
that is no view it stays, and is given the gradient of what stood there before the write. So eager says which one a
compiled layer has to give.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from torch import nn

Tensor = torch.Tensor
CALLS = 4


def _pooled(x: Tensor, layer: nn.Module) -> Tensor:
    return F.max_pool1d(layer(x), 2)


_LAYERS: dict[str, tuple[Callable[[], nn.Module], Callable[..., Tensor]]] = {
    "linear": (lambda: nn.Linear(8, 4), lambda x, m: m(x)),
    "linear of rows": (lambda: nn.Linear(8, 4), lambda x, m: m(x[0])),
    "linear of four": (lambda: nn.Linear(8, 4), lambda x, m: m(x[None])),
    "without bias": (lambda: nn.Linear(8, 4, bias=False), lambda x, m: m(x)),
    "linear's view": (lambda: nn.Linear(8, 4), lambda x, m: m(x).transpose(0, 1)),
    "GRU": (lambda: nn.GRU(8, 4), lambda x, m: m(x)[0]),
    "LSTM, batch first": (
        lambda: nn.LSTM(8, 4, batch_first=True),
        lambda x, m: m(x)[0],
    ),
    "RNN": (lambda: nn.RNN(8, 4), lambda x, m: m(x)[0]),
    # Its result is transposed in place: no view.
    "GRU, batch first": (
        lambda: nn.GRU(8, 4, batch_first=True),
        lambda x, m: m(x)[0],
    ),
    "transposed in place": (
        lambda: nn.Linear(8, 8),
        lambda x, m: m(x).exp().transpose_(0, 2).transpose_(0, 1),
    ),
    "squeezed in place": (
        lambda: nn.Linear(8, 4),
        lambda x, m: m(x).tanh().unsqueeze_(0),
    ),
    "max_pool1d": (lambda: nn.Linear(8, 4), _pooled),
    "conv1d": (lambda: nn.Conv1d(3, 4, 3), lambda x, m: m(x)),
    "normalised": (lambda: nn.LayerNorm(8), lambda x, m: m(x)),
}

_WRITES: dict[str, Callable[[Tensor], Tensor]] = {
    "mul_": lambda h: h.mul_(3),
    "relu": lambda h: F.relu(h, inplace=True),
    "part": lambda h: (h[:, 1:].mul_(3), h)[1],
    "none": lambda h: h * 3,
}


def _hook(h: Tensor) -> None:
    h.register_hook(lambda gradient: gradient * 0.5)


def _behind(h: Tensor, write: Callable[[Tensor], Tensor]) -> Tensor:
    """Twice written, with a hook in front of each and behind them."""
    _hook(h)
    result = write(h)
    _hook(result)
    result = write(result)
    _hook(result)
    return result


def _gradients(compile: Callable[..., Any], layer: str, write: str, how: str) -> Any:
    torch.manual_seed(0)
    make, apply = _LAYERS[layer]
    module = make().double()

    def given(x: Tensor) -> Tensor:
        return apply(x, module)

    def step(x: Tensor) -> Tensor:
        h = given(x)
        if how == "views":
            h = _behind(h, _WRITES[write])
        else:
            _hook(h)
            h = _WRITES[write](h)
        loss = h.square().sum()
        loss.backward()
        return loss.detach()

    if how == "whole step":
        step = compile(step)
    else:
        given = compile(given)
    generator, seen = torch.Generator().manual_seed(1), []
    for _ in range(CALLS):
        x = torch.randn(2, 3, 8, generator=generator, dtype=torch.float64)
        seen.append(step(x))
        seen += [p.grad for p in module.parameters()]
        module.zero_grad()
    return seen, step if how == "whole step" else given


# A second hook on a view whose base was written as another view crashes eager.
_CASES = [
    (write, how)
    for write in _WRITES
    for how in ("model", "whole step", "views")
    if (write, how) != ("part", "views")
]


@pytest.mark.parametrize(("write", "how"), _CASES)
@pytest.mark.parametrize("layer", _LAYERS)
def test_hooks_on_what_is_written(layer: str, write: str, how: str) -> None:
    """Gradients are eager's, whether the layer alone or the whole step is compiled."""
    try:
        eager, _ = _gradients(lambda f: f, layer, write, how)
    except RuntimeError as error:
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            _gradients(pyjit.compile, layer, write, how)
        assert "modified by an inplace operation" in str(error)
        return
    seen, f = _gradients(pyjit.compile, layer, write, how)
    torch.testing.assert_close(seen, eager, rtol=1e-9, atol=1e-12)
    if how != "whole step":
        assert pyjit.stats(f)["hits"]


@pytest.mark.parametrize("layer", _LAYERS)
def test_views_to_autograd(layer: str) -> None:
    """Who asks is told the same by a result of compiled code as by eager's."""
    torch.manual_seed(0)
    make, apply = _LAYERS[layer]
    module = make()
    f = pyjit.compile(lambda x: apply(x, module))
    for n in range(CALLS):
        x = torch.randn(2, 3, 8)
        eager, seen = apply(x, module), f(x)
        assert seen._is_view() == eager._is_view(), n
        assert seen._version == eager._version
        with torch.no_grad():
            assert not f(x).requires_grad
    assert pyjit.stats(f)["hits"]
