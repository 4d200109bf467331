# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Equal launches that become one, on a simulated device: steps that train are those of eager."""

from __future__ import annotations

import copy
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from torch import nn

WAYS = ["plain", "copy", "table", "update"]


def residual(layers: int, width: int) -> nn.Module:
    """Many parameters of few sizes, and running statistics."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.fc = nn.BatchNorm1d(width), nn.Linear(width, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.relu(self.fc(self.norm(x)))

    torch.manual_seed(0)
    return nn.Sequential(*(Block() for _ in range(layers)), nn.Linear(width, 3))


def step_of(model: nn.Module, optimizer: Any, clip: bool) -> Any:
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss.detach()

    return step


OPTIMIZERS: dict[str, Any] = {
    "AdamW": lambda p: torch.optim.AdamW(p, lr=1e-2, eps=1e-3),
    "foreach SGD": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, foreach=True),
}


def train(launch: str, optimizer: str, clip: bool, shared: bool = False) -> Any:
    """Trains one model in eager and one compiled; returns the compiled step."""
    model = residual(6, 8)
    if shared:
        model[3].fc.weight = model[1].fc.weight
    other = copy.deepcopy(model)
    plain = step_of(model, OPTIMIZERS[optimizer](model.parameters()), clip)
    fast = pyjit.compile(
        step_of(other, OPTIMIZERS[optimizer](other.parameters()), clip),
        options={"simulated_device": True, "strict": True, "launch": launch},
    )
    for seed in range(6):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(5, 8, generator=generator)
        y = torch.randint(0, 3, (5,), generator=generator)
        torch.testing.assert_close(fast(x, y), plain(x, y))
    for ours, theirs in (
        (list(other.parameters()), list(model.parameters())),
        (list(other.buffers()), list(model.buffers())),
        ([p.grad for p in other.parameters()], [p.grad for p in model.parameters()]),
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert pyjit.stats(fast)["hits"] > 0
    return fast


def fused(fast: Any) -> list[str]:
    """The launches that stand for several, of the specialization that answered last."""
    text = fast.specializations[0].text("cudagraph")
    return [
        line
        for line in text.splitlines()
        if "cudagraph.kernel" in line and "_x" in line
    ]


@pytest.mark.parametrize("launch", WAYS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_updates(launch: str, optimizer: str) -> None:
    fast = train(launch, optimizer, clip=False)
    # Weights, and biases with what norms have, at least.
    assert len(fused(fast)) >= 2


def test_updates_behind_clipped_gradients() -> None:
    assert fused(train("update", "AdamW", clip=True))


def test_tied_weights() -> None:
    assert fused(train("update", "AdamW", clip=False, shared=True))


@pytest.mark.parametrize("launch", WAYS)
def test_copies_of_what_lies_anywhere(launch: str) -> None:
    """A copy asks for no alignment: nor does the kernel that several of them become."""
    given = [torch.arange(40.0)[1 + i : 9 + i] + 0 for i in range(4)]
    places = [torch.zeros(40)[1 + 2 * i :][:8] for i in range(4)]

    def rotate(a: Any, b: Any, c: Any, d: Any) -> torch.Tensor:
        first = a.clone()
        a.copy_(b)
        b.copy_(c)
        c.copy_(d)
        d.copy_(first)
        return first + 1

    fast = pyjit.compile(rotate, options={"simulated_device": True, "launch": launch})
    for _ in range(5):
        for place, value in zip(places, given, strict=True):
            place.copy_(value)
        expected = [t.clone() for t in given]
        wanted = rotate(*expected)
        assert torch.equal(fast(*places), wanted)
        for place, value in zip(places, expected, strict=True):
            assert torch.equal(place, value)


def test_not_where_operators_stay_apart() -> None:
    """`depth` leaves fusion out, by which a wrong answer is looked for."""

    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(x) + 1, torch.relu(y) + 1

    for depth, joined in (("fusion", True), ("kernels", False)):
        fast = pyjit.compile(f, options={"simulated_device": True, "depth": depth})
        x, y = torch.randn(5), torch.randn(5)
        for _ in range(3):
            assert torch.equal(fast(x, y)[1], f(x, y)[1])
        assert bool(fused(fast)) == joined, depth
