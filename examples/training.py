# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training: forward, gradients, clipping, update and schedule as one program.

.venv/bin/python examples/training.py
"""

import copy
from collections.abc import Callable

import pyjit
import torch
from torch import nn

STEPS = 30


def losses(
    model: nn.Module, compile_step: Callable[[Callable], Callable]
) -> list[float]:
    """Trains a model to tell whether points lie in a circle."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)

    @compile_step
    def step(points: torch.Tensor, inside: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(
            model(points).squeeze(1), inside
        )
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    source, found = torch.Generator().manual_seed(1), []
    for _ in range(STEPS):
        points = torch.randn(128, 2, generator=source)
        inside = (points.norm(dim=1) < 1).float()
        found.append(step(points, inside).item())
        schedule.step()
    if compile_step is pyjit.compile:
        print(pyjit.explain(step))
        assert pyjit.stats(step).hits > STEPS // 2
    return found


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1)
    )
    eager = losses(copy.deepcopy(model), lambda step: step)
    compiled = losses(model, pyjit.compile)
    print(f"loss {compiled[0]:.3f} to {compiled[-1]:.3f}; eager {eager[-1]:.3f}")
    torch.testing.assert_close(compiled, eager, rtol=1e-3, atol=1e-4)


if __name__ == "__main__":
    main()
