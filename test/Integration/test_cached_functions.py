# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls of functions that `functools` caches, with arguments as libraries give them: texts, tuples of them, shapes, devices,
objects that are hashed by their address. einops is such a library: it keeps what it has made of a pattern and a shape."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import values

Tensor = torch.Tensor
Make = Callable[[], tuple[Callable[..., Any], Any]]


class Recipe:
    def __init__(self, axes: list[int]) -> None:
        self.axes = axes


def rearranges() -> tuple[Callable[..., Any], Any]:
    """As einops does: a recipe of a pattern, and what to do for a shape."""

    @functools.lru_cache(256)
    def prepare(pattern: str, names: tuple[str, ...], ndim: int) -> Recipe:
        return Recipe([pattern.index(c) for c in "bca"[:ndim]])

    @functools.lru_cache(1024)
    def reconstruct(
        recipe: Recipe, shape: torch.Size, axes: tuple[tuple[str, int], ...]
    ) -> Any:
        sizes = [shape[axis] for axis in recipe.axes]
        return sizes, recipe.axes, dict(axes)

    def f(x: Tensor, **axes: int) -> Tensor:
        recipe = prepare("abc", names=tuple(axes), ndim=x.dim())
        sizes, order, lengths = reconstruct(recipe, x.shape, tuple(axes.items()))
        return x.permute(order).reshape(sizes[0], -1) * lengths.get("h", 1)

    return f, (prepare, reconstruct)


def shapes() -> tuple[Callable[..., Any], Any]:
    """Of a shape, a tuple that equals it, and a size alone."""

    @functools.cache
    def total(shape: Any) -> int:
        return sum(shape) if isinstance(shape, tuple) else shape

    def f(x: Tensor, **_: int) -> Tensor:
        return (
            x * total(x.shape)
            + total(tuple(x.shape))
            + total(x.shape[:1])
            - total(x.shape[0])
        )

    return f, (total,)


def devices() -> tuple[Callable[..., Any], Any]:
    @functools.lru_cache(8)
    def grid(
        n: int, device: torch.device, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        return torch.arange(n, device=device, dtype=dtype)

    def f(x: Tensor, **_: int) -> Tensor:
        return x + grid(x.shape[-1], x.device) * grid(
            x.shape[-1], device=torch.device("cpu"), dtype=x.dtype
        )

    return f, (grid,)


def small() -> tuple[Callable[..., Any], Any]:
    """One entry: each call of two that take turns throws the other's away."""

    @functools.lru_cache(1)
    def half(shape: tuple[int, ...]) -> list[int]:
        return [n // 2 for n in shape]

    def f(x: Tensor, **_: int) -> Tensor:
        return x[: half(tuple(x.shape))[0]] + half(tuple(x.shape[1:]))[0]

    return f, (half,)


def typed() -> tuple[Callable[..., Any], Any]:
    @functools.lru_cache(typed=True)
    def kind(pair: tuple[Any, ...], n: Any) -> str:
        return f"{type(pair[0]).__name__} {type(n).__name__}"

    def f(x: Tensor, **_: int) -> Any:
        return (
            x * 2,
            kind((1,), 1),
            kind((1.0,), 1),
            kind((1,), True),
            kind((1,), 1.0),
            kind((True,), n=1),
        )

    return f, (kind,)


def alike() -> tuple[Callable[..., Any], Any]:
    """A key that is a tuple, and an argument that is one."""

    @functools.cache
    def name(value: Any) -> str:
        return repr(value)

    def f(x: Tensor, **_: int) -> Any:
        return (
            x * 2,
            name(2.5),
            name((2.5,)),
            name(((2.5,),)),
            name("a"),
            name(("a",)),
            name(3),
            name((3,)),
            name(None),
        )

    return f, (name,)


def changed() -> tuple[Callable[..., Any], Any]:
    """What is kept is a list, which somebody changes."""

    @functools.cache
    def factors(shape: tuple[int, ...]) -> list[float]:
        return [float(n) for n in shape]

    def f(x: Tensor, **_: int) -> Tensor:
        return x * sum(factors(tuple(x.shape)))

    def change() -> None:
        factors((4, 3, 2)).append(0.5)

    f.change = change  # type: ignore[attr-defined]
    return f, (factors,)


def methods() -> tuple[Callable[..., Any], Any]:
    """Bound to its object, which has an `__eq__` in one of two cases."""

    class Model:
        def __init__(self, factor: int) -> None:
            self.factor = factor

        @functools.cache  # noqa: B019
        def scale(self, shape: torch.Size) -> int:
            return self.factor * len(shape)

    class Equal(Model):
        __hash__ = Model.__hash__

        def __eq__(self, other: object) -> bool:
            return self is other

    both = Model(2), Equal(3)

    def f(x: Tensor, **_: int) -> Tensor:
        return x * both[0].scale(x.shape) + both[1].scale(x.shape)

    return f, (Model.scale,)


PROGRAMS: tuple[Make, ...] = (
    rearranges,
    shapes,
    devices,
    small,
    typed,
    alike,
    changed,
    methods,
)


def story(
    f: Callable[..., Any], caches: tuple[Any, ...], run: Callable[..., Any]
) -> list[Any]:
    seen: list[Any] = []
    for call in range(30):
        sizes = [(4, 3, 2), (4, 3, 2), (6, 3, 2), (4, 3, 2), (2, 5, 2)][call // 3 % 5]
        if call == 12:
            caches[0].cache_clear()
        if call == 20 and hasattr(f, "change"):
            f.change()
        seen.append(
            run(values(*sizes), **({"h": 2, "w": call % 2} if call % 4 else {}))
        )
        seen.extend(tuple(cache.cache_info()) for cache in caches)
    return seen


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_cached_function(make: Make) -> None:
    told = []
    for compile in (lambda f: f, pyjit.compile):
        f, caches = make()
        run = compile(f)
        told.append(story(f, caches, run))
    for want, have in zip(*told, strict=True):
        (want, *rest), (have, *others) = (
            r if isinstance(r, tuple) else (r,) for r in (want, have)
        )
        assert rest == others
        torch.testing.assert_close(have, want, rtol=0, atol=0)
    stats = pyjit.stats(run)
    # An `__eq__` of the program's is asked by each call.
    assert stats.hits >= 12 or make is methods, stats
