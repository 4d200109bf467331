# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training under autocast, in a region that lies within the call (around it: test_autocast_training.py).

Half precision rounds in other places than eager: both are compared with the same network in double.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyjit
import torch
import torch.nn.functional as F
from Integration.harness import Compile, Steps, scenario, values
from torch import nn


def network(dropout: float = 0.0) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Dropout(dropout), nn.Linear(16, 4)
    )  # fmt: skip


def forward(m: nn.Module, autocast: bool = True) -> Callable[..., torch.Tensor]:
    def run(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            return m(x)

    return run


def found(f: Any, m: nn.Module, seed: int, dtype: torch.dtype = torch.float32) -> list[Any]:  # fmt: skip
    """Output, gradients, and what a draw behind the call gives."""
    m.zero_grad()
    torch.manual_seed(seed)
    out = f(values(6, 8, seed=seed).to(dtype))
    target = torch.tensor([0, 1, 2, 3, 0, 1])
    F.cross_entropy(out.to(dtype), target).backward()
    return [out.detach(), *(p.grad for p in m.parameters()), torch.rand(2)]


def compare(dropout: float) -> None:
    m, exact = network(dropout), network(dropout).double()
    f = pyjit.compile(forward(m), options={"strict": True})
    for seed in range(4):
        want = found(forward(m), m, seed)
        have = found(f, m, seed)
        assert torch.equal(have.pop(), want.pop()), "random numbers"
        true = found(forward(exact, autocast=False), exact, seed, torch.float64)
        for number, (w, h) in enumerate(zip(want, have, strict=True)):
            assert (w.dtype, w.shape, w.stride()) == (h.dtype, h.shape, h.stride())
            if dropout:  # in double eager draws other masks
                torch.testing.assert_close(h, w, rtol=0.1, atol=2e-3)
                continue
            far = [float((t.double() - true[number]).norm()) for t in (w, h)]
            assert far[1] <= 1.5 * far[0] + 1e-3, (seed, number, far)
    assert pyjit.stats(f)["hits"] == 3


def test_region_within() -> None:
    compare(0.0)


def test_dropout() -> None:
    compare(0.3)


@scenario(grad=True, versions=False)
def test_one_weight_twice(compile: Compile) -> Steps:
    """Its cast is kept in the region: its gradient is summed in half precision."""
    w = values(8, 8).requires_grad_()

    def twice(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return torch.tanh(x @ w) @ w

    f = compile(twice)
    for seed in range(3):
        w.grad = None
        out = f(values(6, 8, seed=seed))
        out.float().sum().backward()
        yield [out, w.grad]


def test_recurrent() -> None:
    """oneDNN's gradients are in single precision, whatever the layer's inputs are."""
    torch.manual_seed(0)
    first, second = nn.Linear(8, 8), nn.LSTM(8, 8, num_layers=2, dropout=0.2)
    parameters = [*first.parameters(), *second.parameters()]

    def gradients(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.autocast("cpu", torch.bfloat16):
            out = second(first(x))[0]
        return torch.autograd.grad(out.float().square().mean(), parameters)

    f = pyjit.compile(gradients, options={"strict": True})
    for seed in range(4):
        found = []
        for call in (gradients, f):
            torch.manual_seed(seed)
            found.append(call(values(6, 2, 8, seed=seed)))
        for want, have in zip(*found, strict=True):
            torch.testing.assert_close(have, want, rtol=0.02, atol=1e-4)
    assert pyjit.stats(f)["hits"] == 3
