# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is known to differ from eager, or not to be compiled, each with its reason.

A test fails for whatever is not listed here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from Operators.cases import Case, copied, extent, run
from Operators.compare import ulps
from Operators.eager_paths import answers
from Operators.grid import INTEGERS
from Operators.schemas import arguments, table

HALVES = (torch.float16, torch.bfloat16)
MOST = 100_000  # elements that differ; more are no exception

# Units in the last place of float32 and float64 by which results may differ; in half precision, computed in float32 and
# rounded once, these are at most one of its own. Eager's functions (SLEEF, MKL, the C library) are within 1 or 2 units
# of the truth; ours: lib/Codegen/README.md.
FUNCTIONS = {
    "acos": 4, "acosh": 4, "asin": 4, "asinh": 4, "atan": 4, "atan2": 4, "atanh": 4, "cos": 4, "cosh": 4, "erf": 8,
    "erfc": 8, "exp": 4, "exp2": 4, "expm1": 4, "log": 4, "log10": 4, "log1p": 4, "log2": 4, "pow": 8, "rsqrt": 4,
    "sigmoid": 4, "sin": 4, "sinh": 4, "tan": 4, "tanh": 4, "xlogy": 4,
    "sqrt": 1,  # MKL's is not rounded correctly
}  # fmt: skip
# Several roundings or functions in one expression, or two association orders.
EXPRESSIONS = {
    "celu": 8, "elu": 8, "selu": 8, "silu": 8, "softplus": 8, "mish": 16, "hardswish": 2, "log_sigmoid": 8,
    "softmax": 16, "_softmax": 16, "batch_norm": 16,
}  # fmt: skip
# Sums of other orders, and results that cancel: units of what the result is made of, see `magnitude`.
SUMS = {
    "log_softmax": 8, "_log_softmax": 8, "logsumexp": 8, "sum": 16, "mean": 16, "var": 16, "std": 16, "norm": 16,
    "linalg_vector_norm": 16, "prod": 64, "layer_norm": 64, "rms_norm": 64, "group_norm": 64, "mse_loss": 16,
    "l1_loss": 16, "gelu": 16, "erf": 8, "erfc": 8,
}  # fmt: skip


def base_name(case: Case) -> str:
    name = case.row.overload.removeprefix("aten::").partition(".")[0]
    return name.rstrip("_") if not name.startswith("_") else name


def bound_of(case: Case, result_dtype: torch.dtype) -> int:
    """Units in the last place within which results of a call are the same."""
    name = base_name(case)
    units = FUNCTIONS.get(name, EXPRESSIONS.get(name, SUMS.get(name, 0)))
    return min(units, 1) if result_dtype in HALVES else units


def slack_of(case: Case, want: torch.Tensor) -> torch.Tensor | None:
    """By how much each element of a result may differ where it is a sum of what may cancel."""
    units = SUMS.get(base_name(case))
    if units is None or not want.dtype.is_floating_point:
        return None
    kinds = [v.dtype for v in tensors(case) if v.dtype.is_floating_point]
    double = want.dtype == torch.float64 and all(d == torch.float64 for d in kinds)
    scale = magnitude(case, want)
    if scale is None:
        return None
    half = torch.finfo(want.dtype).eps * scale if want.dtype in HALVES else 0.0
    return units * (2.0**-52 if double else 2.0**-23) * scale + half


def magnitude(case: Case, want: torch.Tensor) -> torch.Tensor | None:
    """The size of what each element of a result is a sum of, in double."""
    name, values = base_name(case), case.arguments
    first = values[0].double().nan_to_num(0, 0, 0).abs()
    if name in ("gelu",):
        return first
    if name in ("erf", "erfc"):
        return torch.ones_like(first)
    if name.endswith("log_softmax"):
        shift = (values[0].double() - want.double()).nan_to_num(0, 0, 0).abs()
        return first + shift + 1
    if name in ("var", "std"):
        largest = first.amax() if first.numel() else torch.zeros(())
        small = 2.0**-23 * largest**2 if name == "var" else largest
        return want.double().nan_to_num(0, 0, 0).abs() + small
    if name == "logsumexp":
        return want.double().nan_to_num(0, 0, 0).abs() + 1
    if name.endswith("norm") and "vector" not in name and name != "norm":
        return want.double().nan_to_num(0, 0, 0).abs() + 1
    sizes = [
        v.double().nan_to_num(0, 0, 0).abs() if isinstance(v, torch.Tensor) else v
        for v in values
    ]
    sizes = [torch.float64 if isinstance(v, torch.dtype) else v for v in sizes]
    try:
        result = run(case.row, sizes)
    except RuntimeError:
        return None
    return result.double().nan_to_num(0, 0, 0).abs()


def given(case: Case) -> dict[str, Any]:
    return {
        a.name: v for a, v in zip(arguments(case.row.op), case.arguments, strict=True)
    }


def tensors(case: Case) -> list[torch.Tensor]:
    flat = []
    for value in case.arguments:
        items = value if isinstance(value, list) else [value]
        flat += [item for item in items if isinstance(item, torch.Tensor)]
    return flat


def is_chain_of_places(case: Case) -> bool:
    """Whether a pool is a kernel's (lib/Conversion/TSSAToLinalg/Windows.cpp)."""
    self, told = case.arguments[0], given(case)
    result = result_of(case)
    if "backward" in case.row.overload:  # windows side by side
        rank = len(told["kernel_size"])
        covered = [
            n * k for n, k in zip(self.shape[-rank:], told["kernel_size"], strict=True)
        ]
        return (not self.is_cuda and not any(told["padding"]) and covered == list(result.shape[-rank:])
                and told["stride"] in ([], told["kernel_size"]) and self.dtype == result.dtype)  # fmt: skip
    size, stride = told["kernel_size"], told["stride"] or told["kernel_size"]
    padding, dilation = told["padding"], told.get("dilation", [1] * len(size))
    if self.is_cuda or not self.dtype.is_floating_point or math.prod(size) > 32:
        return False
    counts, extents = result.shape[-len(size) :], self.shape[-len(size) :]
    last = [
        (n - 1) * s + (k - 1) * d
        for n, s, k, d in zip(counts, stride, size, dilation, strict=True)
    ]
    behind = [at + 1 - n - p for at, n, p in zip(last, extents, padding, strict=True)]
    padded = any(padding) or max(behind) > 0
    if "avg" in case.row.overload:
        if told.get("divisor_override") is not None:
            return True
        uniform = all(b <= p for b, p in zip(behind, padding, strict=True))
        return uniform and (told["count_include_pad"] or not padded)
    places = "with_indices" in case.row.overload
    return not (places and padded and max(dilation) > 1)


@dataclass(frozen=True)
class Rule:
    """Calls that stay vendor calls: `overloads` is matched with the name behind `aten::`."""

    reason: str
    overloads: str
    applies: Callable[[Case], bool]


def always(case: Case) -> bool:
    return True


def is_empty(case: Case) -> bool:
    return any(t.numel() == 0 for t in tensors(case))


def in_place(case: Case) -> bool:
    return case.row.lowering == "in-place form"


def changes_type(case: Case) -> bool:
    """An in-place form whose functional form has another element type."""
    if not in_place(case):
        return False
    functional = Case(table()[case.row.functional], case.kind, case.arguments)
    torch.set_default_dtype(case.default_dtype)
    try:
        return run(functional.row, case.arguments).dtype != case.arguments[0].dtype
    except RuntimeError:
        return True
    finally:
        torch.set_default_dtype(torch.float32)


def has_gaps(case: Case) -> bool:
    """An in-place form whose target is not dense."""
    return in_place(case) and not is_dense(case.arguments[0])


def is_dense(value: torch.Tensor) -> bool:
    return value.numel() < 2 or extent(value) == value.numel()


def computes_in(*dtypes: torch.dtype) -> Callable[[Case], bool]:
    """Whether the call's (common) type is one of these."""

    def applies(case: Case) -> bool:
        operands = [
            v for v in case.arguments if isinstance(v, (torch.Tensor, int, float))
        ]
        torch.set_default_dtype(case.default_dtype)
        try:
            kind = (
                operands[0].dtype
                if len(operands) < 2
                else torch.result_type(*operands[:2])
            )
        finally:
            torch.set_default_dtype(torch.float32)
        return kind in dtypes

    return applies


def rounds(case: Case) -> bool:
    return given(case).get("rounding_mode", "floor") is not None


def integral_division(case: Case) -> bool:
    """Of integers, by what is not known to be other than zero."""
    other = given(case)["other"]
    known = not isinstance(other, torch.Tensor) and other != 0
    return rounds(case) and computes_in(*INTEGERS, torch.bool)(case) and not known


def result_of(case: Case) -> torch.Tensor:
    result = run(case.row, copied(case.arguments))
    return result if isinstance(result, torch.Tensor) else result[0]


def shortest_part(case: Case) -> int:
    """How many bytes of a part are next to each other in the result."""
    parts, dim = case.arguments
    return min(math.prod(t.shape[dim % t.dim() :]) * t.element_size() for t in parts)


LIBRARY = (
    Rule("an in-place form whose functional form has another element type", r".*", changes_type),
    Rule("a write to a target that is not dense", r".*", has_gaps),
    Rule("a result that is not dense", r"copy", lambda c: not is_dense(result_of(c))),
    Rule("a floored quotient by a number on a device", r"(div|divide|floor_divide)_?(\..*|$)",
         lambda c: rounds(c) and c.arguments[0].is_cuda and not isinstance(given(c)["other"], torch.Tensor)),
    Rule("a product in half precision on the CPU", r"prod(\..*|$)",
         lambda c: result_of(c).dtype in HALVES and not result_of(c).is_cuda),
    Rule("losses of integers", r"(mse_loss|l1_loss)", lambda c: not result_of(c).dtype.is_floating_point),
    Rule("a mean or variance of no elements", r"(mean|var|std|mse_loss|l1_loss|rms_norm|layer_norm)(\..*|$)", is_empty),
    Rule("a truncated quotient in half precision", r"(div|divide|floor_divide)_?(\..*|$)",
         lambda c: rounds(c) and computes_in(*HALVES)(c)),
    Rule("an integer division that eager checks for zero", r"(div|divide|floor_divide|fmod|remainder)_?(\..*|$)",
         integral_division),
    Rule("bools have no division", r"(div|divide|floor_divide|fmod|remainder)_?(\..*|$)",
         lambda c: rounds(c) and computes_in(torch.bool)(c)),
    Rule("an integer power", r"pow.*",
         lambda c: computes_in(*INTEGERS, torch.bool)(c) and given(c)["exponent"] not in ((1, 2, 3) if "Tensor_Scalar" in c.row.overload else ())),
    Rule("a quotient of integers in the form with a rounding mode", r"(div|divide)_?\..*_mode",
         lambda c: not rounds(c) and computes_in(*INTEGERS, torch.bool)(c)),
    Rule("an indexed read of a scalar", r"(gather|index_select)", lambda c: c.arguments[0].dim() == 0),
    Rule("several rows, or a scalar", r"index_copy_?",
         lambda c: c.arguments[2].numel() != 1 or c.arguments[0].dim() == 0 or c.arguments[3].dim() != c.arguments[0].dim()),
    Rule("parts that are shorter than a vector of a device", r"(cat|concat|stack)",
         lambda c: result_of(c).is_cuda and ("stack" in c.row.overload or shortest_part(c) < 64)),
    Rule("no kernel", r"hypot_?", always),
    Rule("the number is the first factor", r"(mul|multiply)_\.Scalar", always),
    Rule("a reduction of unsigned numbers", r"(amax|amin|max|min|sum|prod)(\..*|$)",
         lambda c: result_of(c).dtype == torch.uint8),
    Rule("a range of floats", r"arange.*", always),
    Rule("positions: float32, float64 and signed integers along one dimension", r"(argmax|argmin|max\.dim|min\.dim)",
         lambda c: c.arguments[0].dtype in (*HALVES, torch.uint8, torch.bool) or c.arguments[1] is None
         or c.arguments[0].dim() == 0 or is_empty(c)),
    Rule("no elements", r"(cat|concat|stack|repeat|gather|index_select|index_copy_?|index\..*|embedding|group_norm|batch_norm|layer_norm)", 
         lambda c: is_empty(c) or result_of(c).numel() == 0),
    Rule("operands of several element types", r"(cat|concat|stack)", lambda c: len({t.dtype for t in tensors(c)}) > 1),
    Rule("other norms than of order 1 and 2", r"(linalg_vector_norm|norm\..*)", 
         lambda c: c.arguments[1] not in (1, 2) or isinstance(c.arguments[1], bool)),
    Rule("composite: what it is made of has no kernel", r"(log_sigmoid|prelu|square_)", always),
    Rule("no meaning on bools", r"(sign|signbit|fmax|fmin)_?", computes_in(torch.bool)),
    Rule("integers", r"(batch_norm|group_norm|_?log_softmax|_?softmax).*", 
         lambda c: not result_of(c).dtype.is_floating_point),
    Rule("pools: of floats, with at most 32 places in a window, divided by one number", r"(max|avg)_pool.*",
         lambda c: not is_chain_of_places(c)),
    Rule("a filler of integers that is not zero", r"constant_pad_nd",
         lambda c: not c.arguments[0].dtype.is_floating_point
         and (c.arguments[0].dtype == torch.uint8 or isinstance(c.arguments[2], float) or c.arguments[2] != 0)),
    Rule("a device", r"(pixel_shuffle|pixel_unshuffle|flip|roll|constant_pad_nd)", lambda c: c.arguments[0].is_cuda),
    Rule("nothing to read", r"(pixel_shuffle|pixel_unshuffle|flip|roll|constant_pad_nd|(max|avg)_pool.*)",
         lambda c: is_empty(c) or c.arguments[0].dim() == 0 or result_of(c).numel() == 0),
    Rule("half precision", r"group_norm", lambda c: c.arguments[0].dtype in HALVES),
)  # fmt: skip


def why_vendor_call(case: Case) -> str:
    """Why no kernel of ours computes this call; empty: one has to."""
    name = case.row.overload.removeprefix("aten::")
    for rule in LIBRARY:
        if re.fullmatch(rule.overloads, name) and rule.applies(case):
            return rule.reason
    return ""


@dataclass(frozen=True)
class Excuse:
    """Why results may differ from eager's; `holds` says at which elements."""

    reason: str
    names: str
    holds: Callable[[Case, torch.Tensor, torch.Tensor], Any]


def both_zero(case: Case, have: torch.Tensor, want: torch.Tensor) -> Any:
    return (have == 0) & (want == 0)


def tiny(case: Case, have: torch.Tensor, want: torch.Tensor) -> Any:
    small = (have.double().abs() < 2e-36) & (want.double().abs() < 2e-36)
    return small & want.is_cuda


def squares_overflow(case: Case, have: torch.Tensor, want: torch.Tensor) -> bool:
    size = case.arguments[0].double().nan_to_num(0, 0, 0).abs().amax()
    return bool(size > (1e153 if want.dtype == torch.float64 else 1e18))


def sums_overflow(case: Case, have: torch.Tensor, want: torch.Tensor) -> bool:
    size = case.arguments[0].double().nan_to_num(0, 0, 0).abs().sum()
    return bool(want.dtype.is_floating_point and size > torch.finfo(want.dtype).max / 2)


def products_overflow(case: Case, have: torch.Tensor, want: torch.Tensor) -> bool:
    factors = case.arguments[0].double().nan_to_num(1, 1, 1).abs()
    logs = factors.clamp(min=1e-320).log2().abs().sum()
    return bool(logs > (1000 if want.dtype == torch.float64 else 120))


def writes_twice(case: Case, have: torch.Tensor, want: torch.Tensor) -> bool:
    target = case.arguments[0]
    return target.is_cuda and in_place(case) and extent(target) < target.numel()


EXCUSES = (
    Excuse("a device writes the elements of a target that overlaps itself in no order", r".*", writes_twice),
    Excuse("an index that comes twice: which of them is the last is left open", r"index_copy_?",
           lambda c, h, w: c.arguments[2].unique().numel() < c.arguments[2].numel()),
    Excuse("C leaves open which of two zeros it answers", r"fmax|fmin", both_zero),
    Excuse("which of several zeros is an extreme depends on the order", r"amax|amin|max|min", both_zero),
    Excuse("a row of one element: eager does not square it", r".*norm",
           lambda c, h, w: w.numel() == c.arguments[0].numel()),
    Excuse("exponentials of half precision flush results below 2^-119 (lib/Codegen/PTX)", r"_?softmax|mish|softplus|exp", tiny),
    Excuse("squares overflow: in another order or precision they do elsewhere", r"var|std", squares_overflow),
    Excuse("which zero: a product that is fused or not", r"lerp", both_zero),
    Excuse("integers and alpha under a default dtype of half precision: eager rounds the product", r"(r?sub|subtract|add)",
           lambda c, h, w: c.default_dtype in HALVES and not c.arguments[0].dtype.is_floating_point),
    Excuse("partial sums overflow: in another order they do elsewhere", r"sum|mean", sums_overflow),
    Excuse("the sign of a nan", r"signbit", lambda c, h, w: c.arguments[0].isnan()),
    Excuse("partial products overflow: in another order they do elsewhere", r"prod", products_overflow),
)  # fmt: skip


def explained(
    case: Case,
    have: torch.Tensor,
    want: torch.Tensor,
    bound: int,
    slack: torch.Tensor | None,
) -> bool:
    """Whether each element that differs is what eager's other loop answers to the same numbers."""
    if have.shape != want.shape or have.dtype != want.dtype:
        return False
    if have.dim() == 0:
        have, want = have.reshape(1), want.reshape(1)
    apart = differing(have, want, bound)
    if slack is not None:
        apart &= ~((have.double() - want.double()).abs() <= slack)
    differ = apart.nonzero(as_tuple=True)
    count = len(differ[0])
    if count == 0 or count > MOST:
        return False
    mine = have[differ]
    right = torch.zeros(count, dtype=torch.bool, device=have.device)
    others = answers(
        lambda values: run(case.row, values), case.arguments, want.shape, differ
    )
    for answer in others:
        if answer.shape == mine.shape and answer.dtype == mine.dtype:
            right |= ~differing(mine, answer, bound)
    return bool(right.all())


def differing(a: torch.Tensor, b: torch.Tensor, bound: int) -> torch.Tensor:
    if not a.dtype.is_floating_point:
        return a != b
    return ulps(a.contiguous(), b.contiguous()) > bound


def excused(case: Case, have: Any, want: Any) -> str:
    """Why eager's answer is not ours here; empty where there is no reason."""
    if not isinstance(want, torch.Tensor) or have.shape != want.shape:
        return ""
    bound = bound_of(case, want.dtype)
    for excuse in EXCUSES:
        if re.fullmatch(excuse.names, base_name(case)):
            same = ~differing(have, want, bound)
            if bool((same | excuse.holds(case, have, want)).all()):
                return excuse.reason
    if explained(case, have, want, bound, slack_of(case, want)):
        return "eager's loops for vectors and for single elements differ, ours is one of them"
    return ""
