# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a case is, and makers of its inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch


class Inputs(Protocol):
    """Makes a call's arguments, float32 on the CPU.

    The same seed gives the same values; with `other_shape` they have another shape
    that the program accepts as well.
    """

    def __call__(self, seed: int, *, other_shape: bool = False) -> tuple[Any, ...]: ...


@dataclass(frozen=True)
class Case:
    """A program: `make()` gives the callable and a maker of its inputs."""

    name: str
    about: str
    make: Callable[[], tuple[Callable[..., Any], Inputs]]
    #: Of the largest difference from eager in float32, relative where values exceed 1.
    tolerance: float = 2e-4
    #: Numbers of the inputs that stay on the CPU when the case runs on another device.
    on_cpu: tuple[int, ...] = ()


CASES: dict[str, Case] = {}


def case(name: str, about: str, **further: Any) -> Callable[[Any], Any]:
    def register(make: Any) -> Any:
        CASES[name] = Case(name, about, make, **further)
        return make

    return register


def tokens(vocabulary: int, length: int) -> Inputs:
    def make(seed: int, *, other_shape: bool = False) -> tuple[Any, ...]:
        generator = torch.Generator().manual_seed(seed)
        shape = (1, length // 2 if other_shape else length)
        return (torch.randint(0, vocabulary, shape, generator=generator),)

    return make


def floats(*shapes: tuple[int, ...]) -> Inputs:
    """Normally distributed tensors; the other shape has one more along the first axis."""

    def make(seed: int, *, other_shape: bool = False) -> tuple[Any, ...]:
        generator = torch.Generator().manual_seed(seed)
        return tuple(
            torch.randn(
                (shape[0] + 1, *shape[1:]) if other_shape and shape else shape,
                generator=generator,
            )
            for shape in shapes
        )

    return make
