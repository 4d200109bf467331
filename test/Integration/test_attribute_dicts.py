# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Dicts whose items are read, set and deleted as attributes, by dict's own methods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from Integration.harness import ANY, Compile, Steps, attempt, tell, values


class Item(dict[str, Any]):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__


class Get(dict[str, Any]):
    __getattr__ = dict.get
    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__


class Missing(Item):
    def __missing__(self, key: str) -> Any:
        return len(key)


class Checked(Get):
    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, ("checked", value))


class Fixed(Get):
    size = 3


KINDS = [Item, Get, Missing, Checked, Fixed]
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


@kinds
def test_settings(kind: type[Any]) -> None:
    """Of before the call: read, changed between calls, and asked for what they lack."""

    def story(compile: Compile) -> Steps:
        c = kind(scale=2.0, name="a", inner=kind(shift=1), items_=[1, 2])

        @compile
        def f(x: torch.Tensor) -> Any:
            y = x * c.scale + c.inner.shift + len(c.items_)
            return y, c.name, getattr(c, "size", None), hasattr(c, "scale")

        for i in range(8):
            yield attempt(f, values(3))
            c["scale"] = i / 2
            if i < 6:
                c.inner["shift"] = i / 4
            if i == 5:
                c["name"] = "b"
            if i == 6:
                del c["inner"]

    tell(story, captured=False, graph_breaks=ANY)


@kinds
def test_lacking(kind: type[Any]) -> None:
    def story(compile: Compile) -> Steps:
        c = kind(a=1)

        @compile
        def f(x: torch.Tensor) -> Any:
            return x + 1, c.b

        for _ in range(4):
            yield attempt(f, values(3))
        c["b"] = 4
        yield attempt(f, values(3))
        yield attempt(f, values(3))

    tell(story, captured=False, graph_breaks=ANY)


@kinds
def test_state(kind: type[Any]) -> None:
    """Written by the call, of before it and of its own."""

    def story(compile: Compile) -> Steps:
        c = kind(count=0, last=None)

        @compile
        def f(x: torch.Tensor, k: int) -> Any:
            own = kind(a=x)
            own.b = k
            c["count"] = c["count"] if isinstance(c["count"], tuple) else c["count"] + 1
            c.last = x * k
            c.extra = k
            if k % 2:
                del c.extra
            own.a = own.a + 1
            del own.b
            return own, len(c), c.last + own["a"]

        for k in range(8):
            yield attempt(f, values(3, seed=k), k)
            yield dict(c), sorted(c)

    tell(story, captured=False, graph_breaks=ANY)


def test_one_graph() -> None:
    def steps(compile: Compile) -> Iterator[Any]:
        c = Item(model=torch.nn.Linear(3, 2), weight=0.5)
        c.optimizer = torch.optim.SGD(c.model.parameters(), lr=0.1)

        @compile
        def f(x: torch.Tensor, k: int) -> torch.Tensor:
            loss = c.model(x).pow(2).mean() * c.weight
            c.optimizer.zero_grad()
            loss.backward()
            c.optimizer.step()
            c.loss = loss.detach()
            return c.loss

        for k in range(8):
            c.weight = 0.5 + k / 4
            yield f(values(4, 3, seed=k), k)
            yield c.loss, c.model.weight

    tell(steps, grad=True, captured="late", versions=False)
