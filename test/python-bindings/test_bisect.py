# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``pyjit.bisect``: the answers at each depth, and the first one that is not eager's."""

from __future__ import annotations

from typing import Any

import pyjit
import pytest
import torch
from pyjit._settings import DEPTHS
from torch import nn


class Small(nn.Module):
    """Convolution, statistics, a branch of views, a softmax: something for each stage."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.norm.running_mean.uniform_(-0.3, 0.3)
        self.norm.running_var.uniform_(0.5, 2)
        self.head = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.conv(x)))
        return self.head(x.mean((2, 3))).softmax(-1)


def loop(x: torch.Tensor) -> torch.Tensor:
    while x.sum() < 100:
        x = x * 2
    return torch.cat([x, x.flip(0)])


def in_place(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[1:].mul_(y[1:])
    return x.t() @ y


def training(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    loss = model(x).logsumexp(-1).mean()
    loss.backward()
    return loss.detach()


def draws(x: torch.Tensor) -> torch.Tensor:
    return torch.dropout(x, 0.5, True) + torch.rand(3)


def sizes(x: torch.Tensor) -> list[torch.Tensor]:
    return list(x.split(x.shape[0] // 2)) + [x[: x.shape[0] - 1].cumsum(0)]


CASES: dict[str, Any] = {
    "model": lambda: (Small().eval(), torch.rand(2, 3, 8, 8)),
    "training mode": lambda: (Small(), torch.rand(2, 3, 8, 8)),
    "loop on data": lambda: (loop, torch.rand(3, 4) + 0.1),
    "in place": lambda: (in_place, torch.rand(4, 4), torch.rand(4, 4)),
    "backward": lambda: (training, Small().eval(), torch.rand(2, 3, 8, 8)),
    "random numbers": lambda: (draws, torch.rand(3)),
    "views": lambda: (sizes, torch.rand(6, 2)),
}


@pytest.mark.parametrize("name", CASES)
def test_each_depth_gives_eager_s_answer(name: str) -> None:
    torch.manual_seed(0)
    found = pyjit.bisect(*CASES[name](), tolerance=1e-5)
    assert found.depth is None, str(found)
    assert list(found.differences) == list(DEPTHS)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("name", CASES)
def test_depths_answer_themselves(name: str, depth: str) -> None:
    """Calls are hits at every depth; the first has no kernels."""
    torch.manual_seed(0)
    function, *args = CASES[name]()
    fast = pyjit.compile(
        function,
        options={"depth": depth, "strict": True, "compare_with_eager": False},
    )
    for _ in range(5):
        fast(*[a.clone() if isinstance(a, torch.Tensor) else a for a in args])
    stats = pyjit.stats(fast)
    assert stats["hits"], stats
    assert depth != "operators" or not stats["kernels"]


def curve(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x * 3).exp()


def test_names_the_first_depth_that_differs() -> None:
    """Without any tolerance: our functions round otherwise than eager's."""
    torch.manual_seed(0)
    found = pyjit.bisect(curve, torch.randn(4096), tolerance=0)
    assert found.depth == "kernels" and list(found.differences) == list(DEPTHS[:3])
    assert not found.differences["operators"] and not found.differences["library"]
    assert all(d.where == "result" for d in found.differences["kernels"])
    assert "stage x86" in str(found) and "off by" in str(found)
    assert pyjit.bisect(curve, torch.randn(4096)).depth is None


def test_exceptions_are_answers() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.view(7)

    assert pyjit.bisect(f, torch.rand(6)).depth is None


def test_what_a_function_writes_elsewhere_is_seen() -> None:
    calls: list[int] = []

    def f(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x + len(calls)

    found = pyjit.bisect(f, torch.rand(6))
    assert found.depth == "operators" and "frontend" in found.what


def test_arguments_stay_as_they_are() -> None:
    x, y = torch.rand(4, 4), torch.rand(4, 4)
    before, state = x.clone(), torch.get_rng_state()
    pyjit.bisect(in_place, x, y)
    pyjit.bisect(draws, torch.rand(3, generator=torch.Generator()))
    assert torch.equal(x, before) and torch.equal(torch.get_rng_state(), state)


def test_bad_input() -> None:
    with pytest.raises(TypeError, match="'int' object is not callable"):
        pyjit.bisect(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="sets the option 'depth' itself"):
        pyjit.bisect(curve, options={"depth": "kernels"})
    with pytest.raises(ValueError, match="'depth' is one of operators, library"):
        pyjit.compile(curve, options={"depth": "half"})
