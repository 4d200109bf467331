# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How an idiom is registered, and what makes its arguments."""

from __future__ import annotations

from typing import Any

import torch

from zoo import Inputs, Kwargs, Program, call_of, generator

__all__ = ["I", "Kwargs", "T", "idiom", "programs"]

programs: list[Program] = []


def T(g: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=g)


def I(g: torch.Generator, high: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, high, shape, generator=g)


def idiom(
    args: Any = lambda g, n: (T(g, n, 8),), raises: bool = False, **options: Any
) -> Any:
    """Registers a function; ``args(generator, n)`` makes its arguments, a final dict is kwargs."""

    def register(f: Any) -> Any:
        def make() -> tuple[Any, Inputs]:
            def inputs(which: str) -> Any:
                made = args(generator(which), 6 if which == "shape" else 4)
                return call_of(tuple(made))

            return (f() if options.get("factory") else f), inputs

        name = f.__name__.strip("_").replace("_", "-")
        programs.append(Program(f"idiom.{name}", "idioms", make, raises))
        return f

    return register
