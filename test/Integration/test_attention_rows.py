# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of few queries to keys whose number differs between calls, on a simulated device."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from pyjit._C import Trace
from torch.nn import functional

LENGTHS = (5, 6, 7, 11, 64, 131)
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
TOLERANCE = {
    torch.float32: {"rtol": 1e-4, "atol": 1e-5},
    torch.float16: {"rtol": 2e-3, "atol": 2e-3},
    torch.bfloat16: {"rtol": 2e-2, "atol": 2e-2},
}


def compiled(f: Callable) -> Any:
    return pyjit.compile(f, options={"simulated_device": True})


def operands(length: int, dtype: torch.dtype = torch.float32, **sizes: int) -> tuple:
    """A query as a projection lays it out, keys and values as a cache does."""
    of = {"batch": 2, "heads": 4, "kv_heads": 4, "queries": 1, "width": 16, **sizes}
    generator = torch.Generator().manual_seed(length)

    def make(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(dtype)

    query = make(of["batch"], of["queries"], of["heads"], of["width"]).transpose(1, 2)
    shape = of["batch"], of["kv_heads"], length, of["width"]
    return query, make(*shape), make(*shape)


def for_all_sizes(fast: Any, args: tuple) -> str:
    """What is reported of the specialization for all lengths, the last that is asked."""
    return str(pyjit.explain(fast, detail="launch")(*args)).split("\n  graph ")[-1]


def check(f: Callable, make: Callable[[int], tuple], tolerance: dict) -> str:
    """Every length gives eager's result, and what is reported of the last call is returned."""
    fast = compiled(f)
    with torch.no_grad():
        for length in LENGTHS:
            args = make(length)
            want, have = f(*args), fast(*args)
            torch.testing.assert_close(have, want, **tolerance)
            assert have.stride() == want.stride()
        assert pyjit.stats(fast)["specializations"] == 2
        return for_all_sizes(fast, make(LENGTHS[-1]))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("queries", [1, 3])
def test_plain(queries: int, dtype: torch.dtype) -> None:
    def f(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k, v)

    text = check(f, lambda n: operands(n, dtype, queries=queries), TOLERANCE[dtype])
    assert "scaled_dot_product_attention" not in text, text


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kv_heads", [1, 2])
def test_heads_share_keys(kv_heads: int, dtype: torch.dtype) -> None:
    def f(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(
            q, k, v, scale=0.3, enable_gqa=True
        )

    text = check(f, lambda n: operands(n, dtype, kv_heads=kv_heads), TOLERANCE[dtype])
    assert "scaled_dot_product_attention" not in text, text


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("queries", [1, 3])
def test_biases_of_heads(queries: int, dtype: torch.dtype) -> None:
    """Of a table, laid out as T5's are: heads beside each other. Some keys are hidden."""
    table = torch.randn(256, 4, generator=torch.Generator().manual_seed(3)).to(dtype)

    def f(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        places = torch.arange(k.shape[2]) - torch.arange(q.shape[2])[:, None]
        bias = table[places + 8].permute(2, 0, 1)[None]
        bias = bias.masked_fill(places % 3 == 1, -math.inf)
        bias = bias.masked_fill(places + 1 == k.shape[2], -math.inf)
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)

    text = check(f, lambda n: operands(n, dtype, queries=queries), TOLERANCE[dtype])
    assert "scaled_dot_product_attention" not in text, text


def test_masks() -> None:
    """Of numbers and of bools; a query that sees no key gets zeros."""

    def f(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        return functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask[:, None, None, : k.shape[2]]
        )

    def bools(length: int) -> tuple:
        mask = torch.arange(length) >= torch.tensor([[2], [0]])
        if length == 11:
            mask[1] = False
        return *operands(length), mask

    def numbers(length: int) -> tuple:
        *rest, mask = bools(length)
        return *rest, torch.where(mask, 0.5, -math.inf)

    for make in (bools, numbers):
        check(f, make, TOLERANCE[torch.float32])


def test_cache_that_grows() -> None:
    """Keys and values are joined to what was kept, which the call returns."""

    def f(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, new: torch.Tensor) -> Any:
        k, v = torch.cat([k, new], dim=-2), torch.cat([v, -new], dim=-2)
        return functional.scaled_dot_product_attention(q, k, v), k, v

    fast = compiled(f)
    q, k, v = operands(5)
    want_k, want_v = k, v
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for _ in range(12):
            new = torch.randn(2, 4, 1, 16, generator=generator)
            want, want_k, want_v = f(q, want_k, want_v, new)
            have, k, v = fast(q, k, v, new)
            torch.testing.assert_close(have, want, **TOLERANCE[torch.float32])
            assert torch.equal(k, want_k) and torch.equal(v, want_v)
        text = for_all_sizes(fast, (q, k, v, new))
    assert "aten::cat" not in text, text


@pytest.mark.parametrize(
    ("dims", "dim"), [((2, 3, 0, 4), 2), ((0, 6), 0), ((4, 0), 1), ((2, 0, 1), 1)]
)
@pytest.mark.parametrize("sizes", ["one", "two", "many"])
def test_joins(dims: tuple[int, ...], dim: int, sizes: str) -> None:
    """Along a dimension whose size differs between calls: in front, behind, and between."""
    of = {"one": [1], "two": [3, 1], "many": [1, 2, 4]}[sizes]

    def shape(length: int) -> list[int]:
        return [length if d == dim else size for d, size in enumerate(dims)]

    def f(x: torch.Tensor, *more: torch.Tensor) -> Any:
        return torch.cat([more[0], x, *more[1:], x], dim) * 2, torch.cat([x, x], dim)

    fast = compiled(f)
    for length in (2, 5, 9, 33):
        args = [torch.randn(shape(n)) for n in (length, *of)]
        torch.testing.assert_close(fast(*args), f(*args), rtol=0, atol=0)


def test_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """No vendor call of the launch program depends on a symbol."""
    build, traces = pyjit._C.build, []

    def noting(trace: Trace, *rest: Any, **options: Any) -> object:
        traces.append(str(trace))
        return build(trace, *rest, **options)

    monkeypatch.setattr(pyjit._C, "build", noting)

    def f(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, new: torch.Tensor) -> Any:
        k, v = torch.cat([k, new], dim=-2), torch.cat([v, new], dim=-2)
        return functional.scaled_dot_product_attention(q, k, v, enable_gqa=True), k, v

    fast = pyjit.compile(f)
    with torch.no_grad():
        for length in LENGTHS[:3]:
            new = torch.randn(2, 2, 1, 16).half()
            fast(*operands(length, torch.float16, kv_heads=2), new)
    trace = traces[-1].replace('"cpu"', '"cuda:0"')
    launch, _ = pyjit._C.cross_compile(Trace.parse(trace), 90, False, False)
    assert re.search(r"\[2, 2, -1, 16\]", launch), launch
    assert "call aten::" not in launch, launch
