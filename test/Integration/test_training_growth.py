# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What many steps and many modes leave behind: nothing that grows, no specialization made twice."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import pyjit
import pytest
import torch
from torch import nn
from torch.nn import functional as F

pytestmark = pytest.mark.usefixtures("one_thread")


class Net(nn.Module):
    """Convolution, batch norm, dropout: statistics, random numbers, saved values."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
        self.out = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.norm(self.conv(x))).mean((2, 3))
        return self.out(F.dropout(x, 0.2, self.training))


def resident() -> float:
    """Megabytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise AssertionError


def tensors() -> int:
    gc.collect()
    return sum(issubclass(type(o), torch.Tensor) for o in gc.get_objects())


def objects() -> int:
    gc.collect()
    return len(gc.get_objects())


def training_step(whole: bool) -> Callable[[], object]:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    call = model if whole else pyjit.compile(model)
    x, target = torch.rand(8, 3, 12, 12), torch.randint(0, 5, (8,))

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(call(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return pyjit.compile(step) if whole else step


@pytest.mark.alone
@pytest.mark.parametrize("whole", [False, True], ids=["model", "step"])
def test_steps_leave_nothing_behind(whole: bool) -> None:
    """Memory, tensors and Python objects after 1,100 steps are those after a hundred."""
    step = training_step(whole)
    for _ in range(100):
        step()
    before = tensors(), objects(), resident()
    for _ in range(1000):
        step()
    after = tensors(), objects(), resident()
    assert after[0] <= before[0], "tensors"
    assert after[1] <= before[1] + 50, "objects"  # the engine notes what it timed
    assert after[2] < before[2] + 4, "megabytes"


def test_forward_passes_that_nobody_goes_back() -> None:
    """Each keeps what a backward would need, until its result dies."""
    f = pyjit.compile(Net())
    x = torch.rand(64, 3, 32, 32)
    for _ in range(20):
        f(x)
    before = tensors(), resident()
    for _ in range(200):
        f(x)
    assert tensors() <= before[0]
    assert resident() < before[1] + 4


def test_modes_in_turns() -> None:
    """Grad mode, `no_grad`, `eval` and `train` have a specialization each, and keep it."""
    model = Net()
    f = pyjit.compile(model, options={"strict": True})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.rand(8, 3, 12, 12)

    def round_of_modes() -> None:
        for train in (True, False):
            model.train(train)
            for grad in (True, False):
                with torch.set_grad_enabled(grad):
                    out = f(x)
                if grad:
                    optimizer.zero_grad()
                    out.sum().backward()
                    optimizer.step()

    for _ in range(4):
        round_of_modes()
    settled = pyjit.stats(f)
    for _ in range(25):
        round_of_modes()
    after = pyjit.stats(f)
    for what in ("specializations", "graphs", "misses", "eager_calls", "graph_breaks"):
        assert after[what] == settled[what], what
    assert after["hits"] == settled["hits"] + 100
    assert after["specializations"] <= 4
