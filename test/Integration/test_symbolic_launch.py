# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sizes that differ between calls on a simulated device; on a GPU: test/gpu/test_symbolic_gpu.py."""

from __future__ import annotations

import pyjit
import pytest
import symbolic_cases
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from Integration.harness import in_threads


def compiled(f: object, **options: str) -> object:
    return pyjit.compile(
        f, options={"simulated_device": True, "max_records": 64, **options}
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
        text = str(pyjit.explain(fast, detail="all")(*make(17)))
    for size in (2, 17):
        assert f"sizes {size}: launch: " in text, text


def test_more_sizes_than_are_kept() -> None:
    f, make = symbolic_cases.reductions("cpu", torch.float32)
    fast = compiled(f)
    for _ in range(2):
        for n in range(2, 40):
            args = make(n)
            torch.testing.assert_close(fast(*args), f(*args), rtol=1e-4, atol=1e-4)
    assert pyjit.stats(fast)["specializations"] == 2


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=2, max_size=8))
def test_any_sizes(sizes: list[int]) -> None:
    """0 and 1 are specializations of their own."""
    weight = torch.randn(8, 6, generator=torch.Generator().manual_seed(0))

    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        z = (x @ weight).relu() + y
        return z, z.sum(0), z.t().contiguous(), torch.cat([x, z], 1)[1:]

    fast = compiled(f)
    for n in sizes:
        args = torch.randn(n, 8), torch.randn(n, 6)
        torch.testing.assert_close(fast(*args), f(*args), rtol=1e-4, atol=1e-4)


def sizes_with_graphs(fast: object, args: tuple) -> int:
    """Of those that the report names, by the specialization for all sizes: the last that is asked."""
    report = str(pyjit.explain(fast, detail="all")(*args))
    launches = report.split("\n  graph ")[-1].split("sizes ")[1:]
    return sum("graph of" in launch for launch in launches)


def test_graphs_are_for_sizes_that_come_back() -> None:
    f, make = symbolic_cases.mlp("cpu", torch.float32)
    fast = compiled(f, launch="update")
    with torch.no_grad():
        for _ in range(2):
            for n in range(2, 30):
                args = make(n)
                torch.testing.assert_close(fast(*args), f(*args))
        assert sizes_with_graphs(fast, make(40)) == 0
        for n in (5, 9):
            args = make(n)
            torch.testing.assert_close(fast(*args), f(*args))
        assert sizes_with_graphs(fast, make(40)) == 2


def test_graphs_are_as_many_as_there_is_room_for() -> None:
    """And those that had to go come back."""
    f, make = symbolic_cases.mlp("cpu", torch.float32)
    fast = compiled(f, launch="update")
    held = []
    with torch.no_grad():
        for _ in range(4):
            for n in range(2, 46):
                args = make(n)
                want, got = f(*args), fast(*args)
                torch.testing.assert_close(got, want)
                held.append((got, want))
        for got, want in held:
            torch.testing.assert_close(got, want)
        assert 20 < sizes_with_graphs(fast, make(45)) <= 32


def test_what_one_size_chose_is_tried_first_by_others() -> None:
    f, make = symbolic_cases.mlp("cpu", torch.float32)
    fast = compiled(f)
    with torch.no_grad():
        fast(*make(3))
        for _ in range(1200):
            fast(*make(4))
        for _ in range(3):
            fast(*make(7))
        report = {
            text.split(":")[0]: text
            for text in str(pyjit.explain(fast, detail="all")(*make(7))).split(
                "sizes "
            )[1:]
        }
    assert "us" in report["4"] and "as far as" not in report["4"], report["4"]
    chosen = report["4"].splitlines()[0].split("launch: ")[1]
    assert report["7"].splitlines()[0].endswith(chosen), report["7"]


def test_threads_with_sizes_of_their_own() -> None:
    """Plain launches of several sizes borrow one memory."""
    f, make = symbolic_cases.reductions("cpu", torch.float32)
    fast = compiled(f)
    for n in (2, 3, 4):
        fast(*make(n))
    wrong = []

    def work(first: int) -> None:
        for n in 3 * list(range(first, first + 15)):
            args = make(n)
            try:
                torch.testing.assert_close(fast(*args), f(*args), rtol=1e-4, atol=1e-4)
            except AssertionError as error:
                wrong.append(str(error))

    in_threads(work, ((5 + 15 * k,) for k in range(3)))
    assert not wrong, wrong[0]
