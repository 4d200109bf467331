"""Sizes that differ between calls on a device made of software; on a GPU: test/gpu/test_symbolic_gpu.py."""

from __future__ import annotations

import pyjit
import pytest
import symbolic_cases
import torch
from hypothesis import given, settings
from hypothesis import strategies as st


def compiled(f: object, **options: str) -> object:
    return pyjit.compile(
        f, options={"software_device": True, "max_records": 64, **options}
    )


@pytest.mark.parametrize("name", symbolic_cases.CASES)
def test_cases(name: str) -> None:
    f, make = symbolic_cases.CASES[name]("cpu", torch.float32)
    symbolic_cases.check(compiled(f), f, make, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("launch", ["copy", "table", "update"])
@pytest.mark.parametrize("name", symbolic_cases.CASES)
def test_every_way(name: str, launch: str) -> None:
    f, make = symbolic_cases.CASES[name]("cpu", torch.float32)
    fast = compiled(f, launch=launch)
    symbolic_cases.check(fast, f, make, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        for n in 3 * symbolic_cases.SIZES:
            args = make(n)
            torch.testing.assert_close(fast(*args), f(*args), rtol=1e-4, atol=1e-4)


def test_report_names_the_sizes() -> None:
    f, make = symbolic_cases.mlp("cpu", torch.float32)
    fast = compiled(f)
    with torch.no_grad():
        for n in [4] + 6 * [2, 17]:
            fast(*make(n))
        text = pyjit.explain(fast)(*make(17))
    for size in (2, 17):
        assert f"sizes {size}: launch: " in text, text


def test_more_sizes_than_are_kept() -> None:
    f, make = symbolic_cases.reductions("cpu", torch.float32)
    fast = compiled(f)
    for _ in range(2):
        for n in range(2, 40):
            args = make(n)
            torch.testing.assert_close(fast(*args), f(*args), rtol=1e-4, atol=1e-4)
    assert pyjit.stats(fast)["records"] == 2


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=2, max_size=8))
def test_any_sizes(sizes: list[int]) -> None:
    """0 and 1 are records of their own."""
    weight = torch.randn(8, 6, generator=torch.Generator().manual_seed(0))

    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        z = (x @ weight).relu() + y
        return z, z.sum(0), z.t().contiguous(), torch.cat([x, z], 1)[1:]

    fast = compiled(f)
    for n in sizes:
        args = torch.randn(n, 8), torch.randn(n, 6)
        torch.testing.assert_close(fast(*args), f(*args), rtol=1e-4, atol=1e-4)
