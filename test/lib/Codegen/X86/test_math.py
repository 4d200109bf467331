# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The stated error bounds of lib/Codegen/README.md hold, specials included."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyjit
import pytest
import torch
from lib.Codegen.X86.kernels import LIBRARY, Kernels

INFINITY, NAN = float("inf"), float("nan")
BUILD = Path(os.environ.get("PYJIT_BUILD", Path(__file__).parents[4] / "build"))
pytestmark = pytest.mark.skipif(
    not (BUILD / LIBRARY).exists(), reason="pyjit_test_kernels is not built"
)

# Function, reference in double precision, bound in units in the last place.
BOUNDS: list[tuple[str, Callable[[torch.Tensor], torch.Tensor], float]] = [
    ("exp", torch.exp, 1.0),
    ("expm1", torch.expm1, 1.6),
    ("log", torch.log, 1.0),
    ("log2", torch.log2, 2.0),
    ("log1p", torch.log1p, 1.6),
    ("tanh", torch.tanh, 2.0),
    ("erf", torch.erf, 6.0),
    ("sin", torch.sin, 1.6),
    ("cos", torch.cos, 1.6),
    ("rsqrt", torch.rsqrt, 1.6),
    # The C library's, on vectors: glibc promises four units.
    ("acos", torch.acos, 4.0),
    ("acosh", torch.acosh, 4.0),
    ("asin", torch.asin, 4.0),
    ("asinh", torch.asinh, 4.0),
    ("atan", torch.atan, 4.0),
    ("atanh", torch.atanh, 4.0),
    ("cosh", torch.cosh, 4.0),
    ("erfc", torch.erfc, 4.0),
    ("exp2", torch.exp2, 4.0),
    ("log10", torch.log10, 4.0),
    ("sinh", torch.sinh, 4.0),
    ("tan", torch.tan, 4.0),
]

KERNEL = """
#id = affine_map<(d0) -> (d0)>
func.func @f(%x: tensor<{n}xf32>) -> tensor<{n}xf32> attributes {{pyjit.kernel}} {{
  %e = tensor.empty() : tensor<{n}xf32>
  %r = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel"]}}
      ins(%x : tensor<{n}xf32>) outs(%e : tensor<{n}xf32>) {{
  ^bb0(%a: f32, %o: f32):
    %y = math.{name} %a : f32
    linalg.yield %y : f32
  }} -> tensor<{n}xf32>
  return %r : tensor<{n}xf32>
}}
"""


def floats() -> torch.Tensor:
    """Every 251st float of all there are, and the special ones."""
    bits = torch.arange(-(2**31), 2**31, 251, dtype=torch.int64).to(torch.int32)
    inf = float("inf")
    special = [0.0, -0.0, inf, -inf, float("nan"), 1.0, -1.0, 1e-45, -1e-45]
    return torch.cat([bits.view(torch.float32), torch.tensor(special)])


@pytest.mark.parametrize(("name", "reference", "bound"), BOUNDS)
def test_error_bound(
    name: str, reference: Callable[[torch.Tensor], torch.Tensor], bound: float
) -> None:
    x = floats()
    got = torch.empty_like(x)
    kernels = Kernels(BUILD, KERNEL.format(n=x.numel(), name=name))
    kernels.run("f", [x], [got])
    exact = reference(x.double())
    nearest = exact.float()
    step = torch.nextafter(nearest.abs(), torch.tensor(float("inf"))) - nearest.abs()
    same = (got == nearest) | (got.isnan() & nearest.isnan())
    error = ((got.double() - exact) / step.double()).abs()
    error = torch.where(same, torch.zeros_like(error), error)
    error = torch.where(error.isnan(), torch.full_like(error, 1e9), error)
    worst = int(error.argmax())
    assert error[worst] <= bound, f"{name}({x[worst]}) = {got[worst]}"
    if name != "rsqrt":
        signs = (got.signbit() != nearest.signbit()) & ~nearest.isnan()
        assert not signs.any(), f"sign of {name}({x[signs][0]})"


def pairs() -> tuple[torch.Tensor, torch.Tensor]:
    """Any two floats, and those whose quotient is an integer or next to one, up to 2^30."""
    torch.manual_seed(0)
    count = 1 << 21
    any_x, any_y = (
        torch.randint(-(2**31), 2**31, (count,)).to(torch.int32).view(torch.float32)
        for _ in range(2)
    )
    y = torch.randn(count) * torch.randint(-120, 90, (count,)).float().exp2()
    times = (torch.rand(count) * 30).exp2().floor()
    x = (y.double() * times.double()).float()
    steps = torch.randint(-2, 3, (count,)).to(torch.int32)
    x = (x.view(torch.int32) + steps).view(torch.float32)
    special = torch.tensor(
        [0.0, -0.0, 1.0, -1.5, INFINITY, -INFINITY, NAN, 1e-45, 3e38]
    )
    grid = torch.cartesian_prod(special, special)
    return torch.cat([any_x, x, grid[:, 0]]), torch.cat([any_y, y, grid[:, 1]])


def test_remainder_is_exact() -> None:
    x, y = pairs()
    fast = pyjit.compile(
        lambda x, y: torch.fmod(x, y), options={"compare_with_eager": False}
    )
    for _ in range(3):
        got = fast(x, y)
    assert pyjit.stats(fast)["hits"]
    exact = torch.fmod(x.double(), y.double()).float()
    same = (got == exact) & (got.signbit() == exact.signbit())
    wrong = ~(same | (got.isnan() & exact.isnan()))
    assert not wrong.any(), (x[wrong][:3], y[wrong][:3], got[wrong][:3])
