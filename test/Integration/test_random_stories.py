# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random stories around the backward of a compiled call, step by step against eager.

A function of random operators, modes and graph breaks returns several tensors, some of which it has computed
from others. Between its calls and their backwards the program writes tensors, by way of autograd and past it,
changes modes, calls again, hangs hooks on results, and takes gradients of parts in any order, with and without
`retain_graph`. All is in double precision. Where eager raises, a compiled call may have saved something else:
the story ends there.

A fifth of PYJIT_EXAMPLES is the number of stories.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration.harness import Raised, attempt
from torch import nn

EXAMPLES = int(os.environ.get("PYJIT_EXAMPLES", "100"))
SHAPE = (3, 4)
Tensor = torch.Tensor

UNARY: tuple[Callable[[Tensor], Tensor], ...] = (
    torch.sin, torch.tanh, torch.sigmoid, torch.relu, torch.square,
    lambda x: x.sin().exp(), lambda x: x * 2 + 1, lambda x: x.softmax(1), lambda x: x.cumsum(0),
    lambda x: F.layer_norm(x, SHAPE[1:]), lambda x: x.mean(1, keepdim=True) * x, lambda x: x - x.mean(),
    lambda x: torch.cat([x[:, 2:].cos(), x[:, :2]], 1), lambda x: x.t().reshape(SHAPE) * 1.5, lambda x: x.detach() * x,
    lambda x: F.gelu(x) + x, lambda x: x.clamp(-0.5, 0.5), lambda x: x.norm(dim=1, keepdim=True) + x,
)  # fmt: skip
BINARY: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    torch.add, torch.mul, torch.sub, lambda x, y: x / (y.square() + 1), torch.maximum,
    lambda x, y: torch.where(x > 0, x, y), lambda x, y: x * y.detach(), lambda x, y: (x @ y.t()) @ x,
)  # fmt: skip


class Model(nn.Module):
    """Lines of a program over numbered values; the first ones are arguments."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.randn(4, 4) for _ in range(2))
        self.weights[1].requires_grad_(rng.random() < 0.8)
        self.norm, self.dropout = nn.BatchNorm1d(4), nn.Dropout(0.3)
        self.lines: list[tuple[Any, ...]] = []
        for count in range(2, rng.randint(5, 12)):
            one, other = (max(rng.randrange(count), rng.randrange(count)) for _ in "ab")
            kinds = ("unary",) * 6 + ("binary",) * 4 + ("linear",) * 3 + ("norm", "dropout", "break", "written")  # fmt: skip
            self.lines.append((rng.choice(kinds), one, other, rng.getrandbits(16)))
        whole = range(2, 2 + len(self.lines))
        self.shown = [whole[-1], *rng.sample(whole, min(len(whole), rng.randint(0, 3)))]

    def forward(self, a: Tensor, b: Tensor) -> list[Tensor]:
        values = [a, b]
        for line in self.lines:
            values.append(self.run(values, *line))
        return [values[i] for i in dict.fromkeys(self.shown)]

    def run(
        self, values: list[Tensor], kind: str, one: int, other: int, which: int
    ) -> Tensor:
        x = values[one]
        if kind == "unary":
            return UNARY[which % len(UNARY)](x)
        if kind == "binary":
            return BINARY[which % len(BINARY)](x, values[other])
        if kind == "linear":
            return F.linear(x, self.weights[which % 2]) * 0.5
        if kind == "norm":
            return self.norm(x)
        if kind == "dropout":
            return self.dropout(x)
        if kind == "written":
            y = x * 1.5
            y[:, which % 4] = 0.25
            return y
        print(end="")
        return x + 1


class Story:
    def __init__(self, seed: int, compile: Callable[[Model], Any]) -> None:
        torch.manual_seed(seed)
        self.rng = random.Random(seed)
        self.model = Model(self.rng).double()
        self.call = compile(self.model)
        self.inputs = [
            torch.randn(SHAPE, dtype=torch.float64, requires_grad=self.rng.random() < 0.8)
            for _ in range(2)
        ]  # fmt: skip
        self.seen: list[Any] = []

    def tell(self) -> list[Any]:
        scenes = [self.rng.getrandbits(32) for _ in range(3)]
        for turn in range(4):  # what has been seen before is what hits
            for scene in scenes:
                self.rng.seed(scene)
                torch.manual_seed(scene)
                self.results, self.watches = list(self.call(*self.inputs)), False
                self.show(f"turn {turn}", *self.results)
                for _ in range(self.rng.randint(1, 6)):
                    if not self.act():
                        return self.seen
                for leaf in self.leaves():
                    leaf.grad = None
        return self.seen

    def leaves(self) -> list[Tensor]:
        return [*self.inputs, *self.model.parameters()]

    def show(self, what: str, *tensors: Tensor | None) -> None:
        self.seen.append((what, [None if t is None else t.detach().clone() for t in tensors]))  # fmt: skip

    def act(self) -> bool:
        """Whether the story goes on."""
        rng = self.rng
        kind = rng.choice(("backward",) * 4 + ("grad",) * 4 + ("unseen",) * 3 + ("write", "mode", "call", "keep", "hook", "hook"))  # fmt: skip
        results = [r for r in self.results if r.requires_grad]
        if kind == "mode":
            self.model.train(not self.model.training)
        elif kind == "call":
            self.results += self.call(*self.inputs)
            self.show(kind, *self.results)
        elif kind in ("write", "unseen"):
            tensors = [*self.leaves(), *self.results]
            number = rng.randrange(len(tensors))
            t = tensors[number]
            (t.detach() if kind == "write" else t.data).mul_(rng.choice((0.75, 1.25)))
            self.show(f"{kind} {number}", t)
        elif not results:
            return True
        elif kind == "keep":
            self.watches = True
            rng.choice(results).retain_grad()
        elif kind == "hook":
            self.watches = True
            number = rng.randrange(len(results))
            factor = rng.choice((None, 0.5))
            results[number].register_hook(lambda g: self.hear(number, factor, g))
        else:
            return self.go_back(kind, results)
        return True

    def hear(self, number: int, factor: float | None, g: Tensor) -> Tensor | None:
        self.show(f"hook {number}", g)
        return None if factor is None else g * factor

    def go_back(self, kind: str, results: list[Tensor]) -> bool:
        rng = self.rng
        some = rng.sample(range(len(results)), rng.randint(1, min(2, len(results))))
        loss = torch.stack([(results[i] * (i + 1)).sum() for i in some]).sum()
        keeps = rng.random() < 0.5
        # The engine comes to a result's node, and its hooks, on the way to any input of its group.
        if kind == "backward" or self.watches:
            done = attempt(loss.backward, retain_graph=keeps)
        else:
            wanted = [t for t in (*self.leaves(), *results) if t.requires_grad]
            wanted = rng.sample(wanted, rng.randint(1, min(3, len(wanted))))
            done = attempt(torch.autograd.grad, loss, wanted, retain_graph=keeps, allow_unused=True)  # fmt: skip
        if isinstance(done, Raised):
            self.seen.append(done)
            return False
        self.show(f"{kind} of {some}, keeps {keeps}", *(done or ()))
        kept = [r.grad if r.retains_grad else None for r in self.results]
        self.show("gradients", *kept, *(leaf.grad for leaf in self.leaves()))
        return True


def check(seed: int) -> int:
    """The number of hits."""
    compiled: list[Any] = []

    def compile(model: Model) -> Any:
        compiled.append(pyjit.compile(model))
        return compiled[-1]

    want = Story(seed, lambda m: m).tell()
    have = Story(seed, compile).tell()
    for number, (w, h) in enumerate(zip(want, have, strict=False)):
        if isinstance(w, Raised):
            break
        where = f"story {seed}, {number}: {w[0]}"
        assert not isinstance(h, Raised), f"{where}: {h}"
        assert w[0] == h[0], f"{where}, pyjit {h[0]}"
        for index, (a, b) in enumerate(zip(w[1], h[1], strict=True)):
            assert (a is None) == (b is None), f"{where}[{index}]: {a}, {b}"
            if a is not None:
                torch.testing.assert_close(
                    b, a, rtol=1e-7, atol=1e-9, equal_nan=True,
                    msg=lambda m, at=f"{where}[{index}]": f"{at}: {m}",
                )  # fmt: skip
    return sum(pyjit.stats(f)["hits"] for f in compiled)


@pytest.mark.parametrize("seed", range(EXAMPLES // 5))
def test_random_stories(seed: int) -> None:
    check(seed)


def test_stories_hit() -> None:
    assert sum(check(seed) for seed in range(10)) > 20
