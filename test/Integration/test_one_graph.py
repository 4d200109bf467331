# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One captured graph for calls of many sizes, on a simulated device."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import pyjit
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from Integration import generating
from Integration.harness import in_threads
from torch.nn import functional

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def compiled(f: Any, **options: str) -> Any:
    return pyjit.compile(f, options={"simulated_device": True, **options})


def report(fast: Any, args: tuple) -> str:
    """Of the specialization for all sizes, the last that is asked."""
    return str(pyjit.explain(fast, detail="launch")(*args)).split("\n  graph ")[-1]


def counts(text: str) -> list[tuple[int, int]]:
    """Graphs captured, and calls launched plainly, of each specialization for all sizes."""
    found = re.findall(r"for all sizes: (\d+) graphs captured, (\d+) calls", text)
    return [(int(graphs), int(plain)) for graphs, plain in found]


def check(
    f: Callable, make: Callable[[int], tuple], sizes: Iterable[int], **options: str
) -> str:
    """Every call gives eager's results, which no later call writes; what is reported of the last one."""
    fast = compiled(f, **options)
    held = []
    with torch.no_grad():
        for size in sizes:
            args = make(size)
            held.append((fast(*args), f(*args)))
            torch.testing.assert_close(*held[-1], **CLOSE)
        for have, want in held:
            torch.testing.assert_close(have, want, **CLOSE)
        return report(fast, args)


WEIGHT = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, new: torch.Tensor) -> Any:
    """A step with a cache that grows, and a vendor call of a fixed size."""
    k, v = torch.cat([k, new], dim=-2), torch.cat([v, -new], dim=-2)
    y = functional.scaled_dot_product_attention(q @ WEIGHT[:16, :16], k, v)
    return y.transpose(1, 2).reshape(2, 64) @ WEIGHT, k, v


def step(length: int) -> tuple:
    generator = torch.Generator().manual_seed(length)
    shapes = [(2, 4, n, 16) for n in (1, length, length, 1)]
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


RENEWED = {"update": "graph with updated nodes", "table": "graph with a table"}


def renewed(text: str) -> list[int]:
    """How many nodes the last replay of each graph has renewed."""
    return [int(n) for n in re.findall(r"change, (\d+) in the last call", text)]


@pytest.mark.parametrize("launch", RENEWED)
def test_lengths_that_grow(launch: str) -> None:
    text = check(attend, step, range(5, 50), launch=launch)
    assert counts(text) == [(1, 1)], text
    assert f"sizes up to 64: launch: {RENEWED[launch]}" in text, text
    assert "patched in place: 2" in text, text
    # Of a table: the node that writes it and the two vendor calls.
    assert renewed(text) <= [3] if launch == "table" else renewed(text) >= [5], text
    # A size that has no room makes room for more, and what it replaces goes.
    text = check(attend, step, range(5, 140), launch=launch)
    assert counts(text) == [(3, 1)], text
    assert text.count("launch: ") == 1, text


def test_lengths_that_are_measured() -> None:
    """Which way is fastest is found once, from calls of all lengths."""
    text = check(attend, step, [*range(5, 60), *range(5, 60)])
    ((graphs, plain),) = counts(text)
    assert graphs <= 2 and plain < 110, text


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(2, 150), min_size=3, max_size=12),
    st.sampled_from([None, *RENEWED]),
)
def test_any_lengths(lengths: list[int], launch: str | None) -> None:
    check(attend, step, lengths, **({"launch": launch} if launch else {}))


def many_kinds(x: torch.Tensor, y: torch.Tensor) -> Any:
    """Views that begin elsewhere, kernels and copies of nothing, results that are returned twice, rows and columns."""
    z = (x * 2 + y).relu()
    tail, last = z[2:], torch.exp(z[-1])
    return z, tail * 3, tail.sum(1), z.t().contiguous(), last, z[:-2], z.sum(0), z + 1


def rows(length: int) -> tuple:
    generator = torch.Generator().manual_seed(length)
    return tuple(torch.randn(length, 64, generator=generator) for _ in range(2))


@pytest.mark.parametrize("launch", ["plain", *RENEWED])
def test_many_kinds(launch: str) -> None:
    lengths = [7, 5, 2, 3, 2, 9, 2, 4, 30, 70, 2, 69, 64, 5]
    text = check(many_kinds, rows, lengths, launch=launch)
    assert counts(text), text


@pytest.mark.parametrize("launch", RENEWED)
def test_two_sizes(launch: str) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.cat([x, y], 0).softmax(0), x.sum(1)[:, None] * y.sum(1) + 1

    def make(number: int) -> tuple:
        return torch.randn(2 + number % 37, 8), torch.randn(2 + number % 11, 8)

    text = check(f, make, range(2, 120), launch=launch)
    assert counts(text) == [(1, 1)], text


@pytest.mark.parametrize("launch", RENEWED)
def test_sizes_that_are_differences(launch: str) -> None:
    """A smaller size may ask for more: what is left of a fixed one."""

    def f(x: torch.Tensor, n: torch.Tensor) -> Any:
        left = x[n.shape[0] :]
        return left * 2 + 1, left.sum(1), left.exp().t().contiguous()

    x = torch.randn(300, 8)
    lengths = [250, 251, 290, 60, 3, 2, 140, 297, 5]
    check(f, lambda n: (x, torch.empty(n)), lengths, launch=launch)


@pytest.mark.parametrize("launch", RENEWED)
def test_inputs_that_are_written(launch: str) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2).add_(y)
        return x.sum(0)

    fast, kept = compiled(f, launch=launch), []
    with torch.no_grad():
        for length in [3, *range(2, 30), 9, 4]:
            x, y = rows(length)
            own = x.clone()
            torch.testing.assert_close(fast(x, y), f(own, y), **CLOSE)
            kept.append((x, own))
        for x, own in kept:
            torch.testing.assert_close(x, own, **CLOSE)
        assert counts(report(fast, rows(9))), report(fast, rows(9))


def test_a_library_call_that_differs() -> None:
    """Each size has graphs of its own then, as before, and the report says why."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return (x @ WEIGHT).relu()

    text = check(f, lambda n: rows(n)[:1], [4, 5, 6, 5, 6, 5, 6], launch="update")
    assert not counts(text), text
    assert "no graph is for several sizes: aten::" in text, text


def test_another_way_of_launching() -> None:
    text = check(attend, step, 3 * [5, 6, 7, 8], launch="copy")
    assert not counts(text), text


@pytest.mark.parametrize("launch", RENEWED)
def test_threads(launch: str) -> None:
    fast = compiled(attend, launch=launch)
    with torch.no_grad():
        for length in (5, 6):
            fast(*step(length))
    wrong: list[str] = []

    def work(first: int) -> None:
        with torch.no_grad():
            for length in 2 * list(range(first, first + 40, 3)):
                try:
                    args = step(length)
                    torch.testing.assert_close(fast(*args), attend(*args), **CLOSE)
                except Exception as error:
                    wrong.append(repr(error))

    in_threads(work, ((4 + 25 * k,) for k in range(3)))
    assert not wrong, wrong[0]


@pytest.mark.parametrize("launch", RENEWED)
@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen2", "qwen3"])
def test_generation(name: str, launch: str) -> None:
    """transformers' generate with the dynamic cache: a length a token."""
    model = generating.build(name)
    fast = compiled(model, launch=launch)
    options = {"min_new_tokens": 44, "max_new_tokens": 44, "do_sample": False}
    prompt = generating.prompt(model, batch=1)
    with torch.no_grad():
        for _ in range(3):
            assert fast.generate(**prompt, **options).equal(
                model.generate(**prompt, **options)
            )
    text = str(pyjit.explain(fast, detail="launch"))
    launches = [
        part
        for part in text.split("\n  graph ")
        if "sizes up to" in part and RENEWED[launch] in part
    ]
    assert launches, text
    for found in launches:
        ((graphs, plain),) = counts(found)
        assert 1 <= graphs <= 2 and plain <= 2, found


class Looked(torch.nn.Module):
    """Saves values of the batch's size; what is left of each gradient has none."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.norm = torch.nn.Embedding(7, 24), torch.nn.LayerNorm(24)
        self.register_buffer("places", torch.randint(7, (7,)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x + self.table(self.places)
        return torch.nn.functional.silu(self.norm(h)) + 0.1 * h.sin()


@pytest.mark.parametrize("launch", ["update", "plain", ""])
def test_training_of_batches_that_differ(launch: str) -> None:
    """What is saved for the backward lies in a block whose size differs with the batch: no one graph is for all."""
    model = Looked().double()
    options = {"launch": launch} if launch else {}
    fast = pyjit.compile(model, options={"simulated_device": True, **options})
    for seed, rows in enumerate([3, 3, 2, 3, 2, 3, 3, 2, 4, 3, 5, 4, 4, 2, 5, 9]):
        torch.manual_seed(seed)
        x = torch.randn(rows, 7, 24, dtype=torch.float64)
        found = []
        for f in (model, fast):
            model.zero_grad()
            f(x).square().mean().backward()
            found.append([p.grad for p in model.parameters()])
        torch.testing.assert_close(found[1], found[0])
    text = str(pyjit.explain(fast, detail="launch"))
    assert "no graph is for several sizes: it leaves values for a backward" in text, (
        text
    )
