# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random networks in training: each step's outputs, gradients, buffers and random state are eager's.

The networks of test_random_layers.py, in double, so that what differs is no rounding (but for angles, which are
in single precision). Some parameters are frozen, layers drop out, batches differ in size; steps accumulate,
clip, go backward twice, leave the network for an evaluation in between, write a parameter or a buffer between
forward and backward. Behind each step both networks get eager's parameters: an optimizer that divides by a
gradient's size makes a step of a rounding. What is not within a tolerance may be as far from eager's as
eager's own is where roundings move its operators' results (a norm of two numbers that are almost equal).

A third of PYJIT_EXAMPLES is the number of networks of each kind, 5 by default.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration.test_random_layers import EXAMPLES, Network, images, sequences
from Integration.tolerances import FACTOR, Noise, apart
from torch import nn

STEPS = 5
OPTIMIZERS: tuple[Callable[[Any], torch.optim.Optimizer], ...] = (
    lambda p: torch.optim.SGD(p, lr=0.01),
    lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True),
    lambda p: torch.optim.Adam(p, lr=0.01),
    lambda p: torch.optim.AdamW(p, lr=0.01, foreach=False),
    lambda p: torch.optim.RMSprop(p, lr=0.01),
    lambda p: torch.optim.Adagrad(p, lr=0.01),
)


class Trained(nn.Module):
    """A network with dropout at its ends, and maybe a loss."""

    def __init__(self, inner: Network, rng: random.Random) -> None:
        super().__init__()
        self.inner = inner
        self.first = nn.Dropout(rng.choice((0.0, 0.0, 0.3)))
        self.last = nn.Dropout(rng.choice((0.0, 0.5)))
        self.detached = rng.random() < 0.2

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out, kept = self.inner(self.first(x))
        return self.last(out), kept.detach() if self.detached else kept


class Run:
    """One of the two networks, with its optimizer."""

    def __init__(self, model: Trained, call: Any, optimizer: Any) -> None:
        self.model, self.call = model, call
        wanted = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = optimizer(wanted or [torch.zeros(1, requires_grad=True)])

    def losses(self, x: torch.Tensor, plan: dict[str, Any]) -> list[torch.Tensor]:
        out, kept = self.call(x)
        loss = (
            out.square().mean()
            if plan["square"]
            else -F.log_softmax(out.flatten(1), 1)[:, 0].mean()
        )
        if plan["both"] and kept.requires_grad:
            loss = loss + kept.sin().sum() * 0.1
        return [loss, out, kept]

    def write(self, which: float) -> None:
        """Between forward and backward, which minds where it has saved the tensor."""
        state = [*self.model.parameters(), *self.model.buffers()]
        floats = [t for t in state if t.is_floating_point()]
        if floats:
            floats[int(which * len(floats))].detach().mul_(1.25)

    def step(self, step: int, plan: dict[str, Any], batches: list[Any]) -> list[Any]:
        """What is seen of a step; the optimizer's own follows."""
        torch.manual_seed(step)
        self.model.train(plan["train"])
        seen: list[Any] = []
        self.optimizer.zero_grad(set_to_none=plan["none"])
        for batch in batches:
            x = batch.clone().requires_grad_(plan["input"])
            found = self.losses(x, plan)
            if plan["written"] is not None:
                self.write(plan["written"])
            if found[0].requires_grad:
                found[0].backward(retain_graph=plan["twice"])
                if plan["twice"]:
                    found[0].backward()
            seen += [t.detach() for t in found] + [x.grad]
        seen += [p.grad for p in self.model.parameters()]
        if plan["clip"]:
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        if plan["evaluate"]:
            with torch.no_grad():
                seen += list(self.model.eval() and self.call(batches[0]))
        return [*seen, *self.model.buffers(), torch.rand(2)]


Spread = Callable[[], list[torch.Tensor]]


def compare(want: list[Any], have: list[Any], what: str, noisy: Spread) -> None:
    """noisy: what is seen where roundings are others, asked for where it matters."""
    assert [w is None for w in want] == [h is None for h in have], what
    for number, (w, h) in enumerate(zip(want, have, strict=True)):
        if w is None:
            continue
        assert (w.shape, w.dtype) == (h.shape, h.dtype), f"{what}, {number}"
        w, h = w.detach().cpu(), h.detach().cpu()
        size = float(w.abs().max()) if w.numel() else 0.0
        bound = 1e-5 * w.double().abs() + 1e-6 * max(1.0, size)
        if not apart(w, h, bound).any():
            continue
        for other in noisy():
            far = (other[number].detach().cpu().double() - w.double()).abs()
            bound = torch.maximum(bound, FACTOR * far)
        where = apart(w, h, bound)
        assert not where.any(), f"{what}, value {number}: eager\n{w}\npyjit\n{h}"


def make(seed: int, kind: Callable[[random.Random], Network], device: str) -> Trained:
    """Made anew and not copied: a network's steps hold its layers."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    model = Trained(kind(rng), rng).double().to(device)
    for p in model.parameters():
        p.requires_grad_(rng.random() < rng.choice((1.0, 0.8)))
    return model


def again(
    seed: int, kind: Any, device: str, optimizer: Any, history: list[Any], noise: int
) -> list[Any]:
    """What eager shows in the last step, its operators' results moved by roundings."""
    model = make(seed, kind, device)
    run = Run(model, model, optimizer)
    with Noise(noise):
        for step, (plan, batches) in enumerate(history):
            if step:
                run.optimizer.step()
            seen = run.step(step, plan, batches)
    return seen


@pytest.mark.parametrize("seed", range(EXAMPLES // 3))
@pytest.mark.parametrize("kind", [images, sequences], ids=lambda f: f.__name__)
def test_random_training(kind: Callable[[random.Random], Network], seed: int) -> None:
    check(seed, kind)


def check(seed: int, kind: Callable[[random.Random], Network], device: str = "cpu") -> None:  # fmt: skip
    rng = random.Random(seed)
    model, other = (make(seed, kind, device) for _ in range(2))
    optimizer = rng.choice(OPTIMIZERS)
    fast = pyjit.compile(other)
    eager, ours = Run(model, model, optimizer), Run(other, fast, optimizer)
    text = "\n".join(model.inner.text)
    history: list[Any] = []
    for step in range(STEPS):
        plan: dict[str, Any] = {
            name: rng.random() < share
            for name, share in {
                "train": 0.7 if step else 0.5, "none": 0.7, "twice": 0.15, "clip": 0.3,
                "evaluate": 0.2, "input": 0.3, "both": 0.5, "square": 0.6,
            }.items()
        }  # fmt: skip
        plan["written"] = rng.random() if rng.random() < 0.2 else None
        generator = torch.Generator().manual_seed(step)
        shape = list(model.inner.shapes[0])
        shape[0] += rng.choice((0, 0, 1))
        batches = [
            torch.randn(shape, generator=generator, dtype=torch.float64).to(device)
            for _ in range(rng.choice((1, 1, 2)))
        ]
        try:
            want = eager.step(step, plan, batches)
        except (RuntimeError, ValueError):
            return  # one value for each channel, a size that the layers do not take
        have = ours.step(step, plan, batches)
        history.append((plan, batches))

        def noisy() -> list[Any]:
            return [again(seed, kind, device, optimizer, history, s) for s in range(4)]

        compare(want, have, f"{text}\nstep {step}, {plan}", noisy)
        eager.optimizer.step()
        ours.optimizer.step()
        with torch.no_grad():
            pairs = zip(model.parameters(), other.parameters(), strict=True)
            for a, b in pairs:
                b.copy_(a)
