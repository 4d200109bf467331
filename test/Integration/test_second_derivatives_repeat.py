# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`create_graph=True` outside of a compiled model that branches on data, checks them, writes into `out`, or whose
results are as long as data say: gradients of gradients compute the call again."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from torch import nn

Tensor = torch.Tensor


class Model(nn.Module):
    def __init__(self, work: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.work = work
        self.lin = nn.Linear(3, 3).double()
        self.register_buffer("kept", torch.zeros(4, 3).double())
        self.register_buffer("mask", torch.tensor([True, False, True, True]))

    def forward(self, x: Tensor) -> Tensor:
        return self.work(self, x)


def _branch(m: Any, x: Tensor) -> Tensor:
    if x.sum() > 0:
        return m.lin(x) ** 2
    return m.lin(x) ** 3


def _check(m: Any, x: Tensor) -> Tensor:
    if not torch.isfinite(x).all():
        raise ValueError("x")
    assert (x.abs() < 100).all()
    return m.lin(x).tanh()


def _out(m: Any, x: Tensor) -> Tensor:
    torch.add(x.detach(), 1, out=m.kept)
    torch.mul(m.kept, 2, out=m.kept)
    return m.lin(x) ** 2 * m.kept.clone()


def _out_of_before(m: Any, x: Tensor) -> Tensor:
    """What the buffer held in front of the call is needed, and gone by then."""
    torch.add(m.kept * 0.5, x.detach(), out=m.kept)
    return m.lin(x) ** 2 * m.kept.clone()


def _masked(m: Any, x: Tensor) -> Tensor:
    h = m.lin(x)[m.mask]
    i, j = m.mask.unsqueeze(0).expand(2, 4).nonzero(as_tuple=True)
    return (h * x[m.mask]).sum() + (x[j] - x[i]).pow(3).sum()


def _distribution(m: Any, x: Tensor) -> Tensor:
    h = m.lin(x)
    return torch.distributions.Normal(h, F.softplus(h)).log_prob(x.detach())


def _drawn(m: Any, x: Tensor) -> Tensor:
    """The numbers that are drawn are those of the call, whatever is drawn beside them."""
    if not torch.isfinite(x).all():
        return x
    return (m.lin(x) * torch.rand_like(x)).sin() + torch.randn(3).detach()


def _looped(m: Any, x: Tensor) -> Tensor:
    while x.abs().sum() > 4:
        x = m.lin(x).sin() * 0.5
    return x**2


WORK = (_branch, _check, _out, _out_of_before, _masked, _distribution, _drawn, _looped)


def _steps(model: nn.Module, call: Callable[[Tensor], Tensor]) -> list[Any]:
    torch.manual_seed(1)
    seen: list[Any] = []
    for step in range(8):
        x = torch.randn(4, 3).double().requires_grad_()
        (g,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
        loss = g.pow(2).sum()
        model.zero_grad()
        loss.backward()
        seen.append((loss.detach(), x.grad, *(p.grad for p in model.parameters())))
        seen.append([b.clone() for b in model.buffers()])
        if step % 3 == 2:
            with torch.no_grad():
                seen.append(call(x))
    seen.append(torch.rand(2))
    return seen


@pytest.mark.parametrize("work", WORK, ids=lambda work: work.__name__.strip("_"))
def test_penalty(work: Callable[[Any, Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    mine = Model(work)
    theirs = copy.deepcopy(mine)
    have, want = _steps(mine, pyjit.compile(mine)), _steps(theirs, theirs)
    torch.testing.assert_close(have, want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    "norm",
    [nn.utils.spectral_norm, nn.utils.parametrizations.spectral_norm],
    ids=("old", "new"),
)
def test_spectral_norm(norm: Callable[[nn.Module], nn.Module]) -> None:
    """Its vectors are written into `out`."""
    torch.manual_seed(0)
    mine = nn.Sequential(
        norm(nn.Linear(3, 4)), nn.LeakyReLU(0.2), norm(nn.Linear(4, 1))
    ).double()
    theirs = copy.deepcopy(mine)
    have, want = _steps(mine, pyjit.compile(mine)), _steps(theirs, theirs)
    torch.testing.assert_close(have, want, rtol=1e-9, atol=1e-11)
    hessians = [
        torch.autograd.functional.hessian(
            lambda z, f=f: f(z).sum(), torch.ones(2, 3).double()
        )
        for f in (pyjit.compile(mine.eval()), theirs.eval())
    ]
    torch.testing.assert_close(*hessians, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    "norm",
    [nn.utils.weight_norm, nn.utils.parametrizations.weight_norm],
    ids=("old", "new"),
)
@pytest.mark.parametrize("dim", [0, 1])
def test_weight_norm(norm: Callable[..., nn.Module], dim: int) -> None:
    """Eager's gradient of a gradient takes the norm for a constant; so do we."""

    def make() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(
            norm(nn.Linear(3, 4), dim=dim), nn.Tanh(), norm(nn.Linear(4, 2))
        ).double()

    def of_weights(model: nn.Module, call: Callable[[Tensor], Tensor]) -> list[Any]:
        seen: list[Any] = []
        for step in range(4):
            x = torch.full((2, 3), 0.3 * step).double()
            first = torch.autograd.grad(
                call(x).pow(2).sum(), list(model.parameters()), create_graph=True
            )
            model.zero_grad()
            sum(g.pow(2).sum() for g in first).backward()  # type: ignore[union-attr]
            seen.append([*first, *(p.grad for p in model.parameters())])
        return seen

    mine, theirs = make(), make()
    fast = pyjit.compile(mine)
    for told in (_steps, of_weights):
        have, want = told(mine, fast), told(theirs, theirs)
        torch.testing.assert_close(have, want, rtol=1e-9, atol=1e-11)
