"""Where eager PyTorch disagrees with itself, and which of its answers a test accepts.

Eager computes one function by several kernels: vectors for the body of a long tensor and scalars for
its last elements, oneDNN for some dtypes and sizes, other vectors on other CPUs. Where those differ by
more than rounding, the answer depends on the position of an element and on the machine, and no
compiler can give "eager's" answer. A test may then accept what eager gives for the element alone:
`alone`. `DIFFERENCES` says for which operators, and why; test_eager_paths.py finds them on
the machine that it runs on and fails where one is missing.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

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


def alone(
    call: Callable[..., torch.Tensor],
    operands: list[torch.Tensor],
    expected: torch.Tensor,
    where: torch.Tensor,
) -> torch.Tensor:
    """`expected` with eager's answer for one element at a time at the elements of `where`.

    call: the operator, of operands that broadcast to the shape of `expected`.
    """
    spread = [operand.expand(expected.shape) for operand in operands]
    answer = expected.clone()
    for index in where.nonzero().tolist():
        place = tuple(index)
        answer[place] = call(*(operand[place].reshape(1) for operand in spread))[0]
    return answer
