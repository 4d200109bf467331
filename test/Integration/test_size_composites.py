# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators that Torch makes of others, and vendor calls, with sizes that differ between
calls: a specialization for the first size, one for all others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

BATCHES = [(2, 8), (3, 8), (5, 8), (17, 8), (4, 8), (2, 8)]
LENGTHS = [(3, 5), (3, 9), (3, 16), (3, 7)]
R = torch.randn
Make = Callable[[int, int], tuple[Any, ...]]


def module(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return make().eval()


def encoder(**options: Any) -> Callable[[], nn.Module]:
    return lambda: nn.TransformerEncoder(
        nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, **options), 2
    )


def attention() -> Callable[[torch.Tensor], Any]:
    made = module(lambda: nn.MultiheadAttention(16, 2, batch_first=True))
    return lambda x: made(x, x, x)


def rows(b: int, n: int) -> tuple[Any, ...]:
    return (R(b, 16),)


def pairs(b: int, n: int) -> tuple[Any, ...]:
    return (R(b, 16), R(b, 16))


def sequences(b: int, n: int) -> tuple[Any, ...]:
    return (R(b, n, 16),)


def classes(b: int, n: int) -> tuple[Any, ...]:
    return (R(b, 10), torch.randint(0, 10, (b,)))


def images(b: int, n: int) -> tuple[Any, ...]:
    return (R(b, 4, 8, 8),)


# Functions of a batch.
BATCHED: dict[str, tuple[Any, Make]] = {
    "lstm cell": (module(lambda: nn.LSTMCell(16, 8)), rows),
    "gru cell": (module(lambda: nn.GRUCell(16, 8)), rows),
    "gru": (module(lambda: nn.GRU(16, 8, 2, batch_first=True)), sequences),
    "rnn both ways": (
        module(lambda: nn.RNN(16, 8, bidirectional=True, batch_first=True)),
        sequences,
    ),
    "mse": (F.mse_loss, pairs),
    "broadcast": (
        lambda x, y: [t * 2 for t in torch.broadcast_tensors(x[:, None], y)],
        pairs,
    ),
    "cosine of one": (lambda x, y: F.cosine_similarity(x, y[:1]), pairs),
    "widened": (lambda x, y: F.cosine_similarity(x[:, None], y[None], dim=-1), pairs),
    "l1": (F.l1_loss, pairs),
    "cross entropy": (F.cross_entropy, classes),
    "cross entropy, none": (
        lambda x, y: F.cross_entropy(x, y, reduction="none"),
        classes,
    ),
    "smoothed": (lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), classes),
    "probabilities": (lambda x, y: F.cross_entropy(x, y.softmax(-1)), pairs),
    "probabilities, sum": (
        lambda x, y: F.cross_entropy(x, y.softmax(-1), reduction="sum"),
        pairs,
    ),
    "triplet": (lambda x, y: F.triplet_margin_loss(x, y, y * 2), pairs),
    "cosine similarity": (F.cosine_similarity, pairs),
    "pairwise distance": (F.pairwise_distance, pairs),
    "multi margin": (F.multi_margin_loss, classes),
    "contrast": (
        lambda x, y: F.cross_entropy(x @ y.t(), torch.arange(x.shape[0])),
        pairs,
    ),
    "diff": (lambda x: torch.diff(x, dim=0), rows),
    "tile": (lambda x: torch.tile(x, (2, 3)), rows),
    "repeat_interleave": (lambda x: x.repeat_interleave(3, dim=0), rows),
    "of all": (lambda x: x[:, 0].repeat_interleave(2), rows),
    "expanded heads": (
        lambda x: x.view(-1, 2, 8).repeat_interleave(2, dim=1) * 2,
        rows,
    ),
    "outer": (lambda x, y: torch.outer(x[:, 0], y[0]), pairs),
    "meshgrid": (
        lambda x, y: torch.stack(torch.meshgrid(x[:, 0], y[0], indexing="xy")),
        pairs,
    ),
    "tensordot": (lambda x: torch.tensordot(x, x, dims=([1], [1])), rows),
    "median": (lambda x: x.median(0), rows),
    "cummax": (lambda x: x.cummax(0), rows),
    "kthvalue": (lambda x: x.kthvalue(2, dim=0).values, rows),
    "rot90": (lambda x: torch.rot90(x) * 2, rows),
    "glu": (F.glu, rows),
    "linspace": (lambda x: torch.linspace(0, 1, x.shape[0])[:, None] * x, rows),
    "eye": (lambda x: torch.eye(x.shape[0]) @ x, rows),
    "rfft": (lambda x: torch.fft.rfft(x).abs(), rows),
    "determinant": (torch.linalg.det, images),
    "instance norm": (module(lambda: nn.InstanceNorm2d(4)), images),
    "affine instance norm": (
        module(lambda: nn.InstanceNorm2d(4, affine=True)),
        images,
    ),
    "circular": (lambda x: F.pad(x, (1, 2, 1, 1), mode="circular"), images),
    "reflected": (lambda x: F.pad(x, (1, 2, 1, 1), mode="reflect"), images),
    "upsampled": (lambda x: F.interpolate(x, scale_factor=2.0, mode="bicubic"), images),
    "shuffled": (module(lambda: nn.PixelShuffle(2)), images),
    "pooled": (lambda x: F.adaptive_max_pool2d(x, 2), images),
    "grid": (
        lambda x: F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1), align_corners=False),
        images,
    ),
    "picked by a list": (lambda x: x[:, [-1, 0]] + 1, rows),
}

# Functions of a batch of sequences.
LONG: dict[str, tuple[Any, Make]] = {
    "lstm": (module(lambda: nn.LSTM(16, 8, 2, batch_first=True)), sequences),
    "lstm both ways": (
        module(lambda: nn.LSTM(16, 8, bidirectional=True, batch_first=True)),
        sequences,
    ),
    "encoder": (module(encoder()), sequences),
    "encoder, norm first": (module(encoder(norm_first=True)), sequences),
    "attention": (attention(), sequences),
    "bags": (
        module(lambda: nn.EmbeddingBag(50, 8, mode="mean")),
        lambda b, n: (torch.randint(0, 50, (b, n)),),
    ),
    "einsum": (
        lambda x: torch.einsum("bqhd,bkhd->bhqk", x, x),
        lambda b, n: (R(b, n, 2, 8),),
    ),
    "einsum, implicit": (
        lambda x, y: torch.einsum("...ij,jk", x, y),
        lambda b, n: (R(b, n, 8), R(8, 3)),
    ),
    "rotary": (
        lambda x: torch.einsum("i,j->ij", torch.arange(x.shape[1]) * 1.0, x[0, 0]),
        sequences,
    ),
    "distances": (torch.cdist, lambda b, n: (R(b, 8), R(n, 8))),
    "tokens": (
        lambda x, y: F.cross_entropy(x.view(-1, 10), y.view(-1)),
        lambda b, n: (R(b, n, 10), torch.randint(0, 10, (b, n))),
    ),
    "padded to 32": (lambda x: F.pad(x, (0, 0, 0, 32 - x.shape[1])), sequences),
    "relative": (
        lambda x: x @ x.mT + torch.diff(torch.arange(x.shape[1] + 1)),
        sequences,
    ),
}


def check(name: str, f: Any, make: Make, sizes: list[tuple[int, int]]) -> dict:
    import pyjit

    fast = pyjit.compile(f)
    with torch.no_grad():
        for size in sizes:
            torch.manual_seed(size[0] * 100 + size[1])
            arguments = make(*size)
            torch.testing.assert_close(
                fast(*arguments),
                f(*arguments),
                equal_nan=True,
                msg=lambda text, size=size: f"{name} {size}: {text}",
            )
    stats = pyjit.stats(fast)
    assert not stats["eager_calls"] and not stats["reasons"], stats
    return stats


@pytest.mark.parametrize("name", BATCHED)
def test_batches(name: str) -> None:
    stats = check(name, *BATCHED[name], BATCHES)
    assert stats["misses"] == 2, stats


@pytest.mark.parametrize("name", LONG)
def test_batches_and_lengths(name: str) -> None:
    stats = check(name, *LONG[name], BATCHES + LENGTHS)
    assert stats["misses"] == 3, stats


# What depends on numbers that Torch computes, and is not followed, keeps its sizes.
PINNED: dict[str, tuple[Any, Make]] = {
    "quantile": (lambda x: torch.quantile(x, 0.5, dim=0), rows),
    "covariance": (lambda x: torch.cov(x.T), rows),
    "cross entropy of sequences": (
        F.cross_entropy,
        lambda b, n: (R(b, 10, n), torch.randint(0, 10, (b, n))),
    ),
    "splits": (lambda x: [part.sum() for part in x.split(2)], rows),
}


@pytest.mark.parametrize("name", PINNED)
def test_numbers_of_torch(name: str) -> None:
    check(name, *PINNED[name], BATCHES + LENGTHS)


def masked(kind: str | None, x: torch.Tensor) -> torch.Tensor | None:
    n = x.shape[1]
    if kind == "bool":
        return torch.ones(n, n, dtype=torch.bool).tril()
    return torch.randn(n, n) if kind == "float" else None


@pytest.mark.parametrize("mask", [None, "bool", "float", "causal"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_attention_that_is_trained(mask: str | None, dropout: float) -> None:
    """Batches padded to their longest sequence: one specialization for all of them, with eager's random numbers."""
    import pyjit

    def attend(x: torch.Tensor, m: torch.Tensor | None) -> torch.Tensor:
        q = x.view(x.shape[0], x.shape[1], 2, 8).transpose(1, 2)
        causal = mask == "causal"
        return F.scaled_dot_product_attention(q, q, q * 2, m, dropout, causal)

    fast = pyjit.compile(attend)
    for b, n in BATCHES + LENGTHS + [(2, 33), (1, 4), (2, 1)]:
        torch.manual_seed(b * 100 + n)
        x = R(b, n, 16)
        m, results = masked(mask, x), []
        for call in (fast, attend):
            torch.manual_seed(n)
            leaf = x.clone().requires_grad_()
            y = call(leaf, m)
            y.square().sum().backward()
            results.append((y.detach(), leaf.grad, torch.rand(1)))
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
    stats = pyjit.stats(fast)
    assert not stats["eager_calls"] and not stats["reasons"], stats
    # For the first size, for other batches, for other lengths; one row and one sequence by themselves.
    assert stats["misses"] <= 5, stats


@pytest.mark.parametrize("mask", [None, "bool", "float", "causal"])
@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("shared", ["head", "batch", "both"])
def test_attention_of_shared_keys(mask: str | None, trained: bool, shared: str) -> None:
    """One head of keys and values for all heads of queries (multi-query attention), or one batch for all."""
    import pyjit

    def attend(
        x: torch.Tensor, k: torch.Tensor, m: torch.Tensor | None
    ) -> torch.Tensor:
        q = x.view(x.shape[0], x.shape[1], 2, 8).transpose(1, 2)
        return F.scaled_dot_product_attention(q, k, k * 2, m, 0.0, mask == "causal")

    fast = pyjit.compile(attend)
    for b, n in BATCHES + LENGTHS + [(2, 33), (3, 4), (2, 5)]:
        x, results = R(b, n, 16), []
        keys = R(b if shared == "head" else 1, 2 if shared == "batch" else 1, n, 8)
        m = masked(mask, x)
        for call in (fast, attend):
            leaf, other = (t.clone().requires_grad_(trained) for t in (x, keys))
            y = call(leaf, other, m)
            if trained:
                y.square().sum().backward()
            results.append((y.detach(), leaf.grad, other.grad))
        for have, want in zip(*results, strict=True):
            torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-5)
            assert have is None or have.stride() == want.stride()
    stats = pyjit.stats(fast)
    assert not stats["eager_calls"] and not stats["reasons"], stats
    assert stats["misses"] <= 5, stats
