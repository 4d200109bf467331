# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`isinstance` and `issubclass` of abstract base classes, which ask Python where they do not remember."""

from __future__ import annotations

import abc
from collections.abc import Sized
from typing import Any

import pyjit
import torch


def classes() -> tuple[type, type, type]:
    """Made anew, so that nothing is remembered of them."""

    class Layer(abc.ABC):
        @abc.abstractmethod
        def size(self) -> int: ...

    class Full(Layer):
        def size(self) -> int:
            return 2

    class Other:
        def size(self) -> int:
            return 3

    return Layer, Full, Other


def test_first_question_of_a_class() -> None:
    Layer, Full, Other = classes()

    def f(x: torch.Tensor, layer: Any) -> torch.Tensor:
        if isinstance(layer, Layer):
            x = x * layer.size()
        return torch.relu(x) + (1 if issubclass(Other, Layer) else 2)

    x = torch.randn(5)
    # Not the reference: it would be remembered before it is recorded.
    fast = pyjit.compile(f)
    with torch.no_grad():
        found = [fast(x, layer) for layer in (Full(), Other(), Full(), Other())]
        for have, layer in zip(found, [Full(), Other()] * 2, strict=True):
            torch.testing.assert_close(have, f(x, layer))
    stats = pyjit.stats(fast)
    assert not stats["graph_break_sites"] and not stats["eager_calls"], stats
    assert stats["specializations"] == 2, stats


def test_a_class_that_is_registered_later() -> None:
    Layer, _, Other = classes()

    def f(x: torch.Tensor, layer: Any) -> torch.Tensor:
        return x + 1 if isinstance(layer, Layer) else x - 1

    fast, x, other = pyjit.compile(f), torch.randn(5), Other()
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(fast(x, other), x - 1)
        Layer.register(Other)
        for _ in range(3):
            torch.testing.assert_close(fast(x, other), x + 1)


def test_a_hook_of_python() -> None:
    """What it answers, and how often it is asked, is eager's."""
    asked = []

    class Sizes(abc.ABC):
        @classmethod
        def __subclasshook__(cls, other: type) -> Any:
            asked.append(other)
            return hasattr(other, "size")

    _, _, Other = classes()

    def f(x: torch.Tensor, layer: Any) -> torch.Tensor:
        return x + 1 if isinstance(layer, Sizes) else x - 1

    fast, x = pyjit.compile(f), torch.randn(5)
    with torch.no_grad():
        for layer in (Other(), 3, Other(), 3):
            wanted = x + 1 if hasattr(layer, "size") else x - 1
            torch.testing.assert_close(fast(x, layer), wanted)
    assert asked == [Other, int]


def test_of_the_library() -> None:
    def f(x: torch.Tensor, given: Any) -> torch.Tensor:
        return x * len(given) if isinstance(given, Sized) else x

    fast, x = pyjit.compile(f), torch.randn(3)
    with torch.no_grad():
        for given in ([1, 2], [3, 4, 5], 7, 7, (1,), [1, 2]):
            torch.testing.assert_close(fast(x, given), f(x, given))
