# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attempts to get a wrong number: infinities, saturation, half precision beside Python numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from Integration.harness import Compile, Steps, attempt, scenario

_EDGES = [0.0, -0.0, 1.0, -1.0, 3.5, -20.0, 1e3, -1e3, 1e30, -1e30]
_INFINITE = [float("inf"), -float("inf"), float("nan")]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gelu_of_what_saturates(dtype: torch.dtype) -> None:
    """What is left of 1 - erf far from zero is multiplied by x. Of infinity PyTorch's
    kernels make infinity or, with 512-bit vectors, not a number."""

    @scenario
    def story(compile: Compile) -> Steps:
        f = compile(F.gelu)
        x = torch.tensor((_EDGES + _INFINITE[1:]) * 3, dtype=dtype)
        for _ in range(3):
            yield f(x)

    story()


_BESIDE: dict[str, Callable[[Any, float], Any]] = {
    "eq": lambda x, s: x == s,
    "gt": lambda x, s: x > s,
    "ge": lambda x, s: x >= s,
    "add": lambda x, s: x + s,
    "sub": lambda x, s: x - s,
    "rsub": lambda x, s: s - x,
    "mul": lambda x, s: x * s,
    "div": lambda x, s: x / s,
    "remainder": lambda x, s: x % s,
    "floor_divide": lambda x, s: x // s,
    "fmod": torch.fmod,
    "pow": lambda x, s: x**s,
    "rpow": lambda x, s: s**x,
    "xlogy": torch.xlogy,
    "in place": lambda x, s: x.clone().add_(s),
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    list(itertools.product(_BESIDE, [torch.float16, torch.bfloat16])),
)
def test_numbers_beside_half_precision(name: str, dtype: torch.dtype) -> None:
    """Eager rounds most numbers to half precision first: what compares, cancels or
    leaves a remainder shows it."""

    @scenario
    def story(compile: Compile) -> Steps:
        x = torch.tensor([0.1, 1e-4, -1.0, 0.0, -20.0, -float("inf")], dtype=dtype)
        for number in (0.1, 0.3, 1e-9, 20000.0 if name == "pow" else 70000.0):
            f = compile(lambda x, s=number: _BESIDE[name](x, s))
            for _ in range(3):
                yield f(x)

    story()


_CONVERTED: dict[str, Callable[[Any, float], Any]] = {
    "full": lambda x, s: torch.full_like(x, s),
    "clamp": lambda x, s: x.clamp(min=s),
    "masked_fill": lambda x, s: x.masked_fill(x > 0, s),
    "fill_": lambda x, s: x.clone().fill_(s),
    "alpha": lambda x, s: torch.add(x, x, alpha=s),
    "fmod": torch.fmod,
    "remainder": lambda x, s: x % s,
    "gt": lambda x, s: x > s,
}


@pytest.mark.parametrize("name", _CONVERTED)
def test_numbers_that_differ_beside_half_precision(name: str) -> None:
    """What eager refuses to convert is refused when the number is an input, too."""

    @scenario(captured="late")
    def story(compile: Compile) -> Steps:
        x = torch.tensor([0.1, -1.5, 2.0, 0.0], dtype=torch.float16)
        f = compile(_CONVERTED[name])
        for number in (2.5, 1.5, 3.5, 3.5, 0.1, 1e-9, 70000.0, -70000.0, 1e300, 4.5):
            yield attempt(f, x, number)

    story()
