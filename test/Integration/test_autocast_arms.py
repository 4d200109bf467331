# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Branches on data whose arms cast other weights, in a region of autocast around the calls: of the arm that a call does
not take, autocast keeps no cast. Somebody who writes such a weight before it is used sees what it is then."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from Integration.autocasting import linear, region, taken, whole
from torch import nn

Step = Callable[[torch.Tensor], torch.Tensor]


class Arms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.front, self.a, self.b = (linear(4, 4, seed=2 * n) for n in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.a(x) if x.sum() > 0 else self.b(x)


class Behind(Arms):
    """The branch looks at what a weight gives, and is in a region of its own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with region():
            y = self.front(x)
            if y.sum() > 0:
                y = self.a(y)
            return self.b(y)


class Mask(Arms):
    """Both ways cast a weight; the first, one more in front of it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with region():
            if (x > 0).any():
                x = self.a(x)
            if (x > 3).all():
                x = self.front(x)
            return self.b(x)


class Raised(Arms):
    """An operator may raise in front of what casts."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.front(x)
        rows = torch.index_select(y, 0, x[0, :1].long().abs())
        return self.a(rows) + self.b(rows)


def story(m: Arms, f: Callable[[torch.Tensor], Any], seed: int) -> list[Any]:
    draw = random.Random(seed)
    seen: list[Any] = []
    for _ in range(60):
        with region():
            for _ in range(draw.randint(2, 5)):
                layer = draw.choice([m.front, m.a, m.b])
                x = whole(3, 4, seed=draw.randrange(100))
                if (event := draw.random()) < 0.25:
                    with torch.no_grad():
                        layer.weight.copy_(whole(4, 4, seed=draw.randrange(100)))
                elif event < 0.4:
                    seen.append(layer(x).detach())
                else:
                    try:
                        result = f(x)
                    except (IndexError, RuntimeError) as error:
                        seen.append(type(error))
                    else:
                        seen.append(taken(m, result))
    return seen


@pytest.mark.parametrize("grad", (True, False), ids=("grad", "no grad"))
@pytest.mark.parametrize("kind", (Arms, Behind, Mask, Raised), ids=lambda t: t.__name__)
def test_arms(kind: type[Arms], grad: bool) -> None:
    hits = 0
    for seed in range(4):
        told = []
        for compile in (lambda f: f, pyjit.compile):
            m = kind()
            f = compile(m)
            with torch.set_grad_enabled(grad):
                told.append(story(m, f, seed))
        torch.testing.assert_close(
            told[1], told[0], rtol=0, atol=0, msg=lambda m, s=seed: f"seed {s}: {m}"
        )
        hits += pyjit.stats(f).hits
    assert hits > 20
