# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Answers that were once not eager's, one program each; test/Operators finds their kind by itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from Integration.harness import Compile, Steps, scenario
from Operators.compare import difference

INF, NAN = math.inf, math.nan
Program = Callable[..., Any]


def same_on_hits(program: Program, *given: torch.Tensor) -> None:
    """Two calls, the second of them compiled, against eager: the sign of zero and nan included."""
    import pyjit

    fast = pyjit.compile(program, options={"strict": True})
    with torch.no_grad():
        want = program(*(x.clone() for x in given))
        for _ in range(2):
            have = fast(*(x.clone() for x in given))
    assert pyjit.stats(fast)["hits"] == 1
    assert not difference(have, want, bound=0), (have, want)


ints = torch.tensor([257, 16777217, 3])
half = torch.tensor([256.0, 1.0, -0.0], dtype=torch.bfloat16)
single = torch.tensor([-0.0, 0.0, 3e38, -3e38, INF, -INF, NAN, 1.5] * 8)

PROGRAMS: dict[str, tuple[Program, tuple[torch.Tensor, ...]]] = {
    "sum in half": (lambda x: x.sum(dtype=torch.float16), (torch.tensor([7e4, -7e4]),)),
    "prod in half": (lambda x: x.prod(0, dtype=torch.float16), (torch.tensor([7e4, 0.0]),)),
    "softmax in half": (lambda x: x.softmax(0, dtype=torch.float16), (torch.tensor([7e4, 7e4 + 64]),)),
    "int meets bfloat16, eq": (lambda i, h: torch.eq(i, h), (ints, half)),
    "int meets bfloat16, remainder": (lambda i, h: torch.remainder(i, h + 3), (ints, half)),
    "int meets bfloat16, atan2": (lambda i, h: torch.atan2(i, h), (ints, half)),
    "int meets bfloat16, add": (lambda i, h: i + h, (ints, half)),
    "int meets bfloat16, div": (lambda i, h: i / (h + 1), (ints, half)),
    "0-dim float meets bfloat16": (lambda f, h: torch.remainder(h, f), (torch.tensor(257.0), half)),
    "addcmul by 0 of an overflow": (
        lambda x: torch.addcmul(x[:8], x[2:3], torch.full((8,), 10.0), value=0), (single,)),
    "addcdiv by 0": (lambda x: torch.addcdiv(x, x, x * 1e-9, value=0), (torch.tensor([3e38, 1.0]),)),
    "relu of -0": (torch.relu, (single,)),
    "relu6 of -0": (torch.nn.functional.relu6, (single,)),
    "hardtanh at 0": (lambda x: torch.nn.functional.hardtanh(x, 0, 1), (single,)),
    "clamp at 0": (lambda x: x.clamp(0, 2), (single,)),
    "clamp by nan": (lambda x: (x.clamp(min=NAN), x.clamp(0, NAN), x.clamp_max(NAN)), (single,)),
    "layer norm of inf and 3e38": (
        lambda x: torch.nn.functional.layer_norm(x, (8,))[2:], (single.reshape(8, 8).mT.contiguous(),)),
    "max of zeros": (lambda x: torch.max(x, 0), (torch.tensor([[-0.0, 0.0], [0.0, -0.0]]),)),
    "tril far right": (lambda x: (x.tril(2**63 - 1), x.triu(2**63 - 1)), (torch.ones(3, 4),)),
    "inf to int64": (lambda x: torch.full((8,), INF).to(torch.int64) + x, (torch.zeros(8, dtype=torch.int64),)),
    "1e20 to int32": (lambda x: torch.full((8,), 1e20).to(torch.int32) + x, (torch.zeros(8, dtype=torch.int32),)),
    "nan to integers": (
        lambda x: [x.to(t) for t in (torch.int64, torch.int32, torch.int16, torch.int8)], (single,)),
    "half ** 0.5": (lambda x: x**0.5, (single.half(),)),
    "sub with alpha 0": (lambda x: torch.sub(x, x, alpha=0), (single[:2].repeat(8),)),
    "sub of an int, alpha the least": (lambda x: x.sub(1, alpha=-(2**63)), (torch.ones(3),)),
    "sin of nothing": (lambda x: torch.sin(x).sum(), (torch.zeros(0),)),
    "std near 1e30": (lambda x: x.std(0), (torch.tensor([1e30, -1e30, 3e30]),)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_value(name: str) -> None:
    program, given = PROGRAMS[name]
    same_on_hits(program, *given)


def test_group_norm_by_infinite_weights() -> None:
    """The mean is multiplied by the weight before it is subtracted: inf less inf."""
    import pyjit

    norm = pyjit.compile(lambda x, w, b: torch.nn.functional.group_norm(x, 2, w, b))
    x = torch.tensor([-1.0, 2.0, 3.0] * 8).reshape(2, 4, 3)
    weights = torch.tensor([INF, 1.0, -INF, 0.5])
    for _ in range(2):
        have = norm(x, weights, torch.ones(4))
    want = torch.nn.functional.group_norm(x, 2, weights, torch.ones(4))
    assert pyjit.stats(norm)["hits"] == 1 and not pyjit.stats(norm)["vendor_calls"]
    assert want.isnan().any() and want.isinf().any()
    torch.testing.assert_close(have, want, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_sum_of_exponentials_beyond_half_precision(dtype: torch.dtype) -> None:
    """Eager keeps it, and its logarithm, in the result's type along the last dimension only."""
    rows, columns = (
        torch.ones(2, 65_600, dtype=dtype),
        torch.ones(65_600, 2, dtype=dtype),
    )
    same_on_hits(lambda x, y: (x.log_softmax(-1), y.log_softmax(0)), rows, columns)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_roots_in_half_precision(dtype: torch.dtype) -> None:
    """float16 has pow's ends, bfloat16 the root's."""
    x = torch.tensor([-0.0, 0.0, -INF, INF, 4.0, NAN] * 8, dtype=dtype)
    same_on_hits(lambda x: (x**0.5, x**-0.5), x)


def test_power_of_two() -> None:
    """LLVM would make exp2(24 * x) of it, and round the product."""
    import pyjit

    power = pyjit.compile(lambda x: 16777216**x)
    x = torch.tensor([-0.9, 0.3, 0.7])
    for _ in range(2):
        torch.testing.assert_close(power(x), 16777216**x, rtol=5e-7, atol=0)


@pytest.mark.parametrize("default", [torch.float64, torch.bfloat16, torch.float16])
def test_comparison_in_the_default_dtype(default: torch.dtype) -> None:
    torch.set_default_dtype(default)
    try:
        same_on_hits(lambda i: (i > 16777216.5, i > 256.5, i / 3, i * 0.1), ints)
    finally:
        torch.set_default_dtype(torch.float32)


@scenario(captured="late")
def test_lifted_exponent(compile: Compile) -> Steps:
    """Whichever exponent comes, its special case is eager's."""
    x = single.clone()
    power = compile(lambda x, e: x**e)
    for exponent in (0.3, 0.7, 0.9, 0.5, 2.0, 3.0, -0.5, -1.0, -2.0, 1.0, 0.0):
        result = power(x, exponent)
        yield result, torch.signbit(result[:2])


@scenario(captured="late")
def test_lifted_bounds_and_alpha(compile: Compile) -> Steps:
    x = single.half()
    both = compile(
        lambda x, n: (x.clamp(n, 7.0), x.clamp(min=n), x > n, torch.add(x, x, alpha=n))
    )
    for number in (0.3, 0.7, 0.1, 2049.0, 1e-40, -0.0, NAN):
        yield both(x, number)
