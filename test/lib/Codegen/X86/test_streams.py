# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions whose rows are streamed (Schedule::streamedRows): rests of rows and of columns, every combiner, and what
follows from the sums, against eager in double precision."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch

# Rows that no eight divide, columns that no four vectors and no block divide, several matrices.
SHAPES = [
    (2048, 520),
    (1001, 1032),
    (515, 3080),
    (3, 700, 512),
    (300_000, 8),
    (9, 65_536),
]
FUNCTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "sum": lambda x: x.sum(-2),
    "mean and what follows": lambda x: (x.mean(-2) * 3 - 1).relu(),
    "amax": lambda x: x.amax(-2),
    "squares": lambda x: (x * x + 1).sum(-2, keepdim=True).sqrt(),
    "columns weighted": lambda x: (x * torch.arange(x.shape[-1])).sum(-2),
    "rows weighted": lambda x: (x * torch.arange(x.shape[-2])[:, None]).sum(-2),
    "any": lambda x: (x > 3).any(-2),
    "two sums": lambda x: (x.sum(-2), x.square().sum(-2)),
    "a row from its end": lambda x: x.flip(-1).sum(-2),
    "every other row": lambda x: x[..., ::2, :].sum(-2),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_reduction(name: str, shape: tuple[int, ...]) -> None:
    function = FUNCTIONS[name]
    fast = pyjit.compile(function)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(shape)
        with torch.no_grad():
            want, have = function(x.double()), fast(x)
        for w, h in zip(*((r if isinstance(r, tuple) else (r,)) for r in (want, have))):
            if w.dtype == torch.bool:
                assert torch.equal(w, h)
                continue
            size = w.abs().amax() + shape[-2] ** 0.5
            assert (w - h).abs().amax() <= 3e-6 * size
    assert pyjit.stats(fast)["hits"] >= 1


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int8], ids=str
)  # fmt: skip
def test_other_types(dtype: torch.dtype) -> None:
    fast = pyjit.compile(lambda x: (x.sum(0), x.amax(0)))
    for seed in range(3):
        torch.manual_seed(seed)
        x = (torch.randn(1003, 2056) * 4).to(dtype)
        sums, largest = fast(x)
        torch.testing.assert_close(sums, x.sum(0))
        assert torch.equal(largest, x.amax(0))


@pytest.mark.parametrize("sizes", [(768, 3072), (3072, 768), (1001, 1032)], ids=str)
def test_product_of_one_row(sizes: tuple[int, int]) -> None:
    """With a weight that lies along its results, as transformers' Conv1D has it."""
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(sizes))
    bias = torch.nn.Parameter(torch.randn(sizes[1]))

    class Product(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.bias = weight, bias

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.addmm(self.bias, x, self.weight).tanh()

    fast = pyjit.compile(Product())
    with torch.no_grad():
        for seed in range(3):
            torch.manual_seed(seed)
            x = torch.randn(1, sizes[0]) / 8
            want = torch.addmm(bias.double(), x.double(), weight.double()).tanh()
            assert (fast(x) - want).abs().amax() < 2e-5


def test_special_values() -> None:
    """A part without one, and a part of nothing else, tell what eager tells of the whole."""
    fast = pyjit.compile(lambda x: (x.sum(0), x.amax(0), x.amin(0), x.prod(0)))
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.rand(1536, 1024) * 0.02 + 0.99
        for value in (float("nan"), float("inf"), -float("inf"), 0.0, -1.0):
            rows, columns = torch.randint(1536, (64,)), torch.randint(1024, (64,))
            x[rows, columns] = value
        x[:96, :8], x[96:192, 8:16] = float("inf"), -float("inf")
        for want, have in zip(
            (x.sum(0), x.amax(0), x.amin(0), x.double().prod(0).float()), fast(x)
        ):
            torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-6, equal_nan=True)


def test_products_and_what_follows() -> None:
    """Blocks of GPT-2, whose products of one row are made of parts that a second kernel joins."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(n_layer=2, n_embd=512, n_head=4, vocab_size=600)
    ).eval()
    exact, fast = copy.deepcopy(model).double(), pyjit.compile(model)
    with torch.no_grad():
        for seed in range(4):
            tokens = torch.full((1, 1), seed)
            want, have = exact(tokens).logits, fast(tokens).logits
            torch.testing.assert_close(have.double(), want, rtol=1e-4, atol=1e-5)
    assert pyjit.stats(fast)["hits"] >= 1
