# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Values that an operator may refuse, put into a good call: shapes and dtypes stay what they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from Operators.calls import Call


@dataclass
class Variant:
    """A good call, the same one with hostile values, and what eager says to it."""

    overload: str
    source: str  # of the arguments
    good: list[Any]  # the tensors, then the numbers
    bad: list[Any]
    what: str
    error: str  # the exception's type; empty: eager answers


NUMBERS = [0, -1, 2, 0.0, -0.5, 2.5, 1e30, torch.nan, torch.inf, -(2**63), 2**63 - 1]
FLOATS = [0.0, -1.0, 2.0, 0.5, -1e30, 1e30, torch.nan, torch.inf, -torch.inf]


def numbers(tensor: torch.Tensor, sizes: set[int]) -> list[Any]:
    """What the elements of a tensor may become, among tensors of such sizes."""
    if tensor.dtype == torch.bool:
        return [True, False]
    if tensor.dtype.is_floating_point:
        return FLOATS
    if tensor.dtype.is_complex:
        return [0.0, complex(torch.nan, 0), complex(torch.inf, 0)]
    info = torch.iinfo(tensor.dtype)
    near = {
        sign * size + step for size in sizes for sign in (1, -1) for step in (-1, 0, 1)
    }
    wanted = [0, 1, -1, 2, -100, *sorted(near), info.min, info.max]
    return [n for n in dict.fromkeys(wanted) if info.min <= n <= info.max]


def changed(call: Call, place: int, where: str, value: Any) -> Call | None:
    """The call with a value in its tensor number `place`; None where that changes nothing."""
    other = call.copy()
    tensor = other.tensors()[place]
    before = tensor.clone()
    if where == "all":
        tensor.fill_(value)
    else:
        tensor[(0 if where == "first" else -1,) * tensor.dim()] = value
    same = (tensor == before) | (tensor.isnan() & before.isnan())
    return None if same.all() else other


def hostile(call: Call) -> Iterator[tuple[str, Call]]:
    """Variants of a call, and what was changed in each."""
    tensors = call.tensors()
    sizes = {size for tensor in tensors for size in tensor.shape}
    for place, tensor in enumerate(tensors):
        if not tensor.numel():
            continue
        for value in numbers(tensor, sizes):
            for where in ("all", "first", "last"):
                other = changed(call, place, where, value)
                if other is not None:
                    yield f"tensor {place}: {where} {value}", other
    for place in call.number_places():
        for number in NUMBERS:
            # Of another type it is another program to the guards.
            if type(number) is type(call.args[place]) and number != call.args[place]:
                yield f"number {place}: {number}", call.with_number(place, number)
