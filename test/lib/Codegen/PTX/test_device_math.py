# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The error bounds of lib/Codegen/PTX/README.md hold for the GPU's functions.

The C file is compiled for the host under other names; mpmath is the truth.
"""

from __future__ import annotations

import ctypes
import math
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

mpmath = pytest.importorskip("mpmath")

BUILD = Path(os.environ.get("PYJIT_BUILD", Path(__file__).parents[4] / "build"))
LIBRARY = BUILD / "test-libs" / "pyjit_test_device_math.so"
pytestmark = pytest.mark.skipif(
    not LIBRARY.exists(), reason="pyjit_test_device_math is not built"
)

Draw = Callable[[random.Random], float]


def uniform(low: float, high: float) -> Draw:
    return lambda r: r.uniform(low, high)


def exponents(low: float, high: float, *, positive: bool = False) -> Draw:
    """Numbers whose exponents are spread evenly."""
    return lambda r: (
        (1 if positive else r.choice((-1, 1))) * 2.0 ** r.uniform(low, high)
    )


def root(x: object) -> object:
    return mpmath.sign(x) * mpmath.cbrt(abs(x))


# Function, truth, bound in units in the last place of f64, arguments.
BOUNDS: list[tuple[str, Callable[..., object], float, list[Draw]]] = [
    ("exp", mpmath.exp, 0.8, [uniform(-745, 709), uniform(-1, 1)]),
    ("exp2", lambda x: mpmath.mpf(2) ** x, 0.9, [uniform(-1074, 1023), uniform(-1, 1)]),
    ("expm1", mpmath.expm1, 1.4, [uniform(-40, 709), uniform(-1, 1)]),
    ("log", mpmath.log, 0.6, [exponents(-1073, 1023, positive=True), uniform(0.5, 2)]),
    (
        "log2",
        lambda x: mpmath.log(x, 2),
        0.6,
        [exponents(-1073, 1023, positive=True), uniform(0.5, 2)],
    ),
    (
        "log10",
        mpmath.log10,
        0.6,
        [exponents(-1073, 1023, positive=True), uniform(0.5, 2)],
    ),
    (
        "log1p",
        mpmath.log1p,
        1.0,
        [exponents(-60, 1023, positive=True), uniform(-0.99, 1)],
    ),
    (
        "sin",
        mpmath.sin,
        0.8,
        [uniform(-10, 10), uniform(-2e6, 2e6), exponents(-30, 1023)],
    ),
    (
        "cos",
        mpmath.cos,
        0.8,
        [uniform(-10, 10), uniform(-2e6, 2e6), exponents(-30, 1023)],
    ),
    ("tan", mpmath.tan, 2.0, [uniform(-10, 10), exponents(-30, 1023)]),
    ("asin", mpmath.asin, 1.0, [uniform(-1, 1), exponents(-30, 0)]),
    ("acos", mpmath.acos, 1.0, [uniform(-1, 1), exponents(-30, 0)]),
    ("atan", mpmath.atan, 1.0, [uniform(-3, 3), exponents(-60, 60)]),
    ("sinh", mpmath.sinh, 2.0, [uniform(-709, 709), uniform(-2, 2)]),
    ("cosh", mpmath.cosh, 2.0, [uniform(-709, 709), uniform(-2, 2)]),
    ("tanh", mpmath.tanh, 2.5, [uniform(-22, 22), uniform(-1, 1)]),
    ("asinh", mpmath.asinh, 2.0, [uniform(-10, 10), exponents(-40, 1000)]),
    ("acosh", mpmath.acosh, 2.5, [uniform(1, 3), exponents(1, 1000, positive=True)]),
    ("atanh", mpmath.atanh, 2.0, [uniform(-1, 1), exponents(-40, 0)]),
    ("erf", mpmath.erf, 2.5, [uniform(-6, 6), exponents(-40, 0)]),
    ("erfc", mpmath.erfc, 6.0, [uniform(-6, 26.5), uniform(0, 1.2)]),
    ("cbrt", root, 0.6, [exponents(-1070, 1023), uniform(-8, 8)]),
]


def function(name: str, arguments: int = 1) -> Callable[..., float]:
    found = getattr(ctypes.CDLL(str(LIBRARY)), f"pyjit_{name}")
    found.restype = ctypes.c_double
    found.argtypes = [ctypes.c_double] * arguments
    return found


def units(got: float, exact: object) -> float:
    """The error in units in the last place; 0 where f64 has no such number."""
    if abs(exact) > 1.7976e308 or abs(exact) < mpmath.mpf(2) ** -1022:
        return 0.0
    if not math.isfinite(got):
        return math.inf
    _, exponent = mpmath.frexp(exact)
    return float(abs(mpmath.mpf(got) - exact) / mpmath.mpf(2) ** (exponent - 53))


@pytest.mark.parametrize(("name", "truth", "bound", "draws"), BOUNDS)
def test_bound(
    name: str, truth: Callable[..., object], bound: float, draws: list[Draw]
) -> None:
    f, chance = function(name), random.Random(7)
    with mpmath.workprec(160):
        for draw in draws:
            for _ in range(400):
                x = draw(chance)
                got = f(x)
                assert units(got, truth(mpmath.mpf(x))) <= bound, (
                    f"{name}({x!r}) = {got!r}"
                )


def test_two_arguments() -> None:
    chance = random.Random(8)
    power, angle, remainder = (
        function("pow", 2),
        function("atan2", 2),
        function("fmod", 2),
    )
    with mpmath.workprec(160):
        for _ in range(400):
            for x in (chance.uniform(0, 4), 2.0 ** chance.uniform(-1000, 1000)):
                # Results over the whole range: the largest exponents multiply errors the most.
                y = chance.uniform(-709, 709) / (math.log(x) or 1.0)
                exact = mpmath.mpf(x) ** mpmath.mpf(y)
                assert units(power(x, y), exact) <= 0.9, (x, y)
            x, y = exponents(-500, 500)(chance), exponents(-500, 500)(chance)
            assert units(angle(y, x), mpmath.atan2(y, x)) <= 1, (y, x)
            assert remainder(x, y) == math.fmod(x, y)


SPECIAL = [
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    1.0,
    -1.0,
    0.5,
    2.0,
    -2.0,
    3.0,
    1e300,
    5e-324,
]


def same(a: float, b: float) -> bool:
    if math.isnan(b):
        return math.isnan(a)
    if math.isinf(b) or b == 0:
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    return math.isclose(a, b, rel_tol=1e-15, abs_tol=0)


@pytest.mark.parametrize("name", [row[0] for row in BOUNDS])
def test_special_values(name: str) -> None:
    libm = ctypes.CDLL("libm.so.6")
    wanted = getattr(libm, name)
    wanted.restype, wanted.argtypes = ctypes.c_double, [ctypes.c_double]
    f = function(name)
    for x in SPECIAL:
        assert same(f(x), wanted(x)), x


@pytest.mark.parametrize("name", ["pow", "atan2", "fmod"])
def test_special_pairs(name: str) -> None:
    libm = ctypes.CDLL("libm.so.6")
    wanted = getattr(libm, name)
    wanted.restype, wanted.argtypes = ctypes.c_double, [ctypes.c_double] * 2
    f = function(name, 2)
    for x in SPECIAL:
        for y in SPECIAL:
            assert same(f(x, y), wanted(x, y)), (x, y)
