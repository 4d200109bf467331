# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`isinstance` and `issubclass` of abstract classes that are asked for the first time within a call: what the
interpreter runs once in Python to remember the answer breaks no graph, and a program's own hooks run as often as in
eager."""

from __future__ import annotations

import abc
import collections.abc as cabc
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import values

Tensor = torch.Tensor


def _asks(x: Tensor, o: Any) -> Any:
    y = x * 2
    if isinstance(o, cabc.Mapping):
        y = y + 1
    if isinstance(o, cabc.Sized) and issubclass(type(o), cabc.Iterable):
        y = y + 2
    return (
        y,
        isinstance(o, (cabc.Sequence, cabc.Set)),
        issubclass(type(o), cabc.Hashable),
    )


def _kinds() -> list[Any]:
    """Of classes that nobody has asked about."""

    class Dict(dict[Any, Any]):
        pass

    class Sized:
        def __len__(self) -> int:
            return 1

    class Row(cabc.Sequence[int]):
        def __getitem__(self, i: Any) -> Any:
            return [1, 2][i]

        def __len__(self) -> int:
            return 2

    class Nothing:
        pass

    return [Dict(a=1), Sized(), Row(), Nothing()]


@pytest.mark.parametrize("kind", range(4))
def test_first_time(kind: int) -> None:
    o = _kinds()[kind]
    want = _asks(values(3), _kinds()[kind])
    fast = pyjit.compile(_asks)
    for _ in range(6):
        have = fast(values(3), o)
        assert torch.equal(have[0], want[0]) and have[1:] == want[1:]
    assert not pyjit.stats(fast).graph_breaks, pyjit.explain(fast)


def test_registered_later() -> None:
    class Late:
        pass

    fast = pyjit.compile(lambda x, o: x * 2 if isinstance(o, cabc.Mapping) else x * 3)
    for step in range(10):
        if step == 5:
            cabc.Mapping.register(Late)
        assert torch.equal(fast(values(3), Late()), values(3) * (2 if step >= 5 else 3))


def test_hooks_of_ones_own() -> None:
    def run(compiled: bool) -> list[Any]:
        asked: list[str] = []

        class Own(abc.ABC):
            @classmethod
            def __subclasshook__(cls, other: type) -> Any:
                asked.append(other.__name__)
                return hasattr(other, "mark") or NotImplemented

        class Marked:
            mark = 1

        class Bare:
            pass

        def f(x: Tensor, o: Any) -> Any:
            return x * 2 if isinstance(o, Own) else x * 3

        g = pyjit.compile(f) if compiled else f
        return [
            [g(values(3), o).tolist() for o in (Marked(), Bare(), Marked(), Bare())],
            asked,
        ]

    assert run(True) == run(False)
