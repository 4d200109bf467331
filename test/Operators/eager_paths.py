# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where eager PyTorch disagrees with itself, and which of its answers a test accepts.

Eager computes one function by several kernels: vectors for the body of a long tensor and scalars for
its last elements, oneDNN for some dtypes and sizes, other vectors on other CPUs. Where those differ by
more than rounding, the answer depends on the position of an element and on the machine, and no
compiler can give "eager's" answer. A test may then accept any of them: `answers`. `DIFFERENCES` says
for which operators they differ by more than rounding, and why; test_eager_paths.py finds them on the
machine that it runs on and fails where one is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

ALONE = 1000  # elements that may be asked for one by one
LONG = 64  # elements that one vector loop is sure to take

# Operator without overload -> why its paths differ.
DIFFERENCES = {
    "gelu": (
        "oneDNN computes more than one element of float32, bfloat16 and float16: 0.0 for large negative "
        "numbers, where ATen gives -0.0; with AVX-512 inf for the largest numbers and nan for inf"
    ),
    "hardshrink": "as softshrink",
    "softshrink": "vectors give 0.0 between -lambda and 0, scalars -0.0",
    "maximum": "of 0.0 and -0.0 vectors give the second, scalars the first",
    "minimum": "of 0.0 and -0.0 vectors give the second, scalars the first",
    "max": "as maximum",
    "min": "as minimum",
    "clamp": "as maximum and minimum",
    "clamp_max": "as minimum",
    "clamp_min": "as maximum",
    "remainder": "vectors compute a - b * trunc(a / b): nan where the quotient overflows",
    "fmod": "vectors compute a - b * trunc(a / b): nan where the quotient overflows",
    "mish": "vectors lose digits of denormal results",
    "softplus": "vectors lose digits of denormal results",
    "logaddexp": "vectors lose digits of denormal results",
}


def base_name(overload: str) -> str:
    """ "gelu" of "aten::gelu_", "aten::gelu" and "aten.gelu.default"."""
    name = overload.replace("aten::", "").replace("aten.", "").split(".")[0]
    return name if name.startswith("__") else name.rstrip("_")


def differ(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Where two answers differ by more than rounding: nan, inf, the sign of zero, many digits."""
    if not a.dtype.is_floating_point:
        return a != b
    unit = 64 * torch.finfo(a.dtype).eps
    smallest = torch.finfo(a.dtype).smallest_normal * torch.finfo(a.dtype).eps
    x, y = a.double(), b.double()
    kinds = (x.isnan() != y.isnan()) | (x.isinf() != y.isinf())
    zeros = (x == 0) & (y == 0) & (x.signbit() != y.signbit())
    far = ((x - y).abs() > unit * y.abs() + smallest) & y.isfinite()
    return kinds | zeros | (far & x.isfinite())


def answers(
    call: Callable[[list[Any]], torch.Tensor],
    operands: list[Any],
    shape: torch.Size,
    at: tuple[torch.Tensor, ...],
) -> list[torch.Tensor]:
    """What eager's vector loop, its scalar loop and a call of its own say of the elements at some places.

    call: the operator, of operands that broadcast to `shape`.
    """
    found = []
    for lay_out, read in ((repeated, lambda r: r[::LONG]), (spread, lambda r: r)):
        try:
            values = [picked(value, shape, at, lay_out) for value in operands]
            found.append(read(call(values)))
        except (RuntimeError, IndexError, TypeError):
            continue
    if len(at[0]) <= ALONE:
        try:
            places = range(len(at[0]))
            found.append(
                torch.cat([single(call, operands, shape, at, i) for i in places])
            )
        except (RuntimeError, IndexError, TypeError):
            pass
    return found


def single(
    call: Callable[[list[Any]], torch.Tensor],
    operands: list[Any],
    shape: torch.Size,
    at: tuple[torch.Tensor, ...],
    i: int,
) -> torch.Tensor:
    """What eager says of the i-th of some elements, given nothing else."""
    values = [
        value.expand(shape)[tuple(index[i] for index in at)].reshape(1)
        if isinstance(value, torch.Tensor) and value.dim()
        else value
        for value in operands
    ]
    return call(values).reshape(1)


def picked(
    value: Any, shape: torch.Size, at: tuple[torch.Tensor, ...], lay_out: Any
) -> Any:
    """An operand's elements at those places; one of a single element stays as it is, as loops see that."""
    if not isinstance(value, torch.Tensor) or (
        value.numel() == 1 and shape.numel() > 1
    ):
        return value
    return lay_out(value.expand(shape)[at])


def repeated(values: torch.Tensor) -> torch.Tensor:
    return values.repeat_interleave(LONG)


def spread(values: torch.Tensor) -> torch.Tensor:
    return torch.stack([values, values], dim=1)[:, 0]
