# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators whose answer, or whose path, is decided by what an operand *holds*: lengths, places, sizes, offsets.

Some composites read such an operand in C++, past the dispatcher, and their parts have its numbers as constants. Two
sets of values take turns here, of one size and type: what a specialization has kept of one answers for the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration.harness import attempt, difference, snapshot
from torch import nn
from torch.nn.utils import rnn

T = torch.tensor
X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
LOGITS = torch.randn(5, 2, 3, generator=torch.Generator().manual_seed(1)).log_softmax(-1)  # fmt: skip
SEQUENCES = X.view(2, 3, 4)
HALF = T([True, False, True, False])
OTHER = T([False, True, True, False])

Values = tuple[torch.Tensor, ...]
CASES: dict[str, tuple[Callable[..., Any], Values, Values]] = {
    "tensor_split": (lambda i: torch.tensor_split(X, i), (T([1, 3]),), (T([2, 3]),)),
    "tensor_split sections": (lambda i: torch.tensor_split(X, i), (T(2),), (T(3),)),
    "pad_packed_sequence": (
        lambda n: rnn.pad_packed_sequence(rnn.PackedSequence(X, n))[0],
        (T([3, 2, 1]),), (T([2, 2, 2]),),
    ),
    "pack_padded_sequence": (
        lambda n: rnn.pack_padded_sequence(SEQUENCES, n, True)[:2],
        (T([3, 1]),), (T([2, 2]),),
    ),
    "unpad_sequence": (lambda n: rnn.unpad_sequence(SEQUENCES, n, True), (T([3, 1]),), (T([2, 2]),)),
    "ctc_loss": (
        lambda i, t: F.ctc_loss(LOGITS, torch.ones(2, 2, dtype=torch.long), i, t, reduction="none"),
        (T([5, 4]), T([2, 1])), (T([4, 5]), T([1, 2])),
    ),
    "ctc_loss joined": (
        lambda i, t: F.ctc_loss(LOGITS, torch.ones(3, dtype=torch.long), i, t),
        (T([5, 4]), T([2, 1])), (T([4, 5]), T([1, 2])),
    ),
    "repeat_interleave": (
        lambda r: X.repeat_interleave(r, 0), (T([1, 2, 1, 0, 1, 1]),), (T([2, 1, 1, 0, 1, 1]),),
    ),
    "repeat_interleave of a size": (
        lambda r: X.repeat_interleave(r, 0, output_size=6),
        (T([1, 2, 1, 0, 1, 1]),), (T([2, 1, 1, 0, 1, 1]),),
    ),
    "segment_reduce": (lambda n: torch.segment_reduce(X[:, 0], "sum", lengths=n), (T([2, 4]),), (T([3, 3]),)),
    "embedding_bag": (lambda o: F.embedding_bag(T([0, 1, 2, 3]), X, o), (T([0, 2]),), (T([0, 3]),)),
    "embedding_bag last": (
        lambda o: F.embedding_bag(T([0, 1, 2, 3]), X, o, include_last_offset=True),
        (T([0, 2, 4]),), (T([0, 3, 4]),),
    ),
    "arange": (lambda n: torch.arange(n), (T(3),), (T(4),)),
    "linspace": (lambda a, b: torch.linspace(a, b, 4), (T(0.0), T(1.0)), (T(1.0), T(3.0))),
    "full": (lambda v: torch.full((2,), v), (T(1.5),), (T(2.5),)),
    "narrow": (lambda s: X.narrow(0, s, 2), (T(1),), (T(3),)),
    "select": (lambda s: X[s], (T(1),), (T(3),)),
    "slice": (lambda a, b: X[a:b], (T(1), T(3)), (T(2), T(4))),
    "view": (lambda n: X.view(n, -1), (T(3),), (T(4),)),
    "repeat": (lambda n: X.repeat(n, 1), (T(2),), (T(3),)),
    "roll": (lambda n: X.roll(n, 0), (T(2),), (T(3),)),
    "one_hot": (lambda i: F.one_hot(i), (T([0, 1, 2]),), (T([0, 1, 3]),)),
    "bincount": (lambda i: torch.bincount(i), (T([0, 1, 2]),), (T([0, 1, 3]),)),
    "add's alpha": (lambda a: torch.add(X, X, alpha=a), (T(2.0),), (T(3.0),)),
    "addcmul's value": (lambda a: torch.addcmul(X, X, X, value=a), (T(2.0),), (T(3.0),)),
    "pad's value": (lambda v: F.pad(X, (1, 1), value=v), (T(2.0),), (T(3.0),)),
    "pad": (lambda n: F.pad(X, (n, n)), (T(1),), (T(2),)),
    "clamp": (lambda a, b: X.clamp(a, b), (T(-0.5), T(0.5)), (T(0.0), T(1.0))),
    "matrix_rank": (lambda t: torch.linalg.matrix_rank(X, tol=t), (T(1.0),), (T(3.0),)),
    "pinv": (lambda t: torch.linalg.pinv(X, rtol=t), (T(0.1),), (T(0.9),)),
    "quantile": (lambda q: torch.quantile(X, q), (T([0.1, 0.5]),), (T([0.2, 0.9]),)),
    "fake_quantize": (
        lambda s, z: torch.fake_quantize_per_tensor_affine(X, s, z, -8, 7), (T(0.1), T(0)), (T(0.3), T(2)),
    ),
    "fake_quantize of channels": (
        lambda s, z: torch.fake_quantize_per_channel_affine(X, s, z, 1, -8, 7),
        (T([0.1] * 4), torch.zeros(4, dtype=torch.int32)), (T([0.3] * 4), torch.full((4,), 2, dtype=torch.int32)),
    ),
    "gradient": (
        lambda s: torch.gradient(X, spacing=(s,), dim=0), (T([0.0, 1, 2, 3, 4, 5]),), (T([0.0, 1, 3, 4, 5, 9]),),
    ),
    "equal": (lambda a: torch.equal(a, X[0]), (X[0].clone(),), (X[1].clone(),)),
    "allclose": (lambda a: torch.allclose(a, X[0]), (X[0].clone(),), (X[1].clone(),)),
    "unique": (lambda a: torch.unique(a), (T([1, 1, 2]),), (T([1, 2, 3]),)),
    "combinations": (lambda a: torch.combinations(a), (T([1, 1, 2]),), (T([1, 2, 3]),)),
    "multinomial": (lambda p: torch.multinomial(p, 2), (T([0.0, 1, 1]),), (T([1.0, 0, 1]),)),
    "poisson": (lambda p: torch.poisson(p), (T([0.0, 0]),), (T([5.0, 5]),)),
    "normal": (lambda m: torch.normal(m, T([0.0, 0])), (T([0.0, 0]),), (T([5.0, 5]),)),
    "bernoulli": (lambda p: torch.bernoulli(p), (T([0.0, 0]),), (T([1.0, 1]),)),
    "binomial": (lambda n: torch.binomial(n, T([1.0, 1])), (T([1.0, 1]),), (T([3.0, 3]),)),
    "histogram": (lambda b: torch.histogram(X, b).hist, (T([-1.0, 0, 1]),), (T([-2.0, 0, 2]),)),
    "histc": (lambda a: torch.histc(a, 4), (T([0.0, 1, 2]),), (T([0.0, 1, 5]),)),
    "topk": (lambda k: X.topk(k)[0], (T(1),), (T(2),)),
    "kthvalue": (lambda k: X.kthvalue(k)[0], (T(1),), (T(2),)),
    "chunk": (lambda k: X.chunk(k), (T(2),), (T(3),)),
    "unflatten": (lambda k: X.unflatten(0, (k, -1)), (T(2),), (T(3),)),
    "diagonal": (lambda k: X.diagonal(k), (T(0),), (T(1),)),
    "tril": (lambda k: X.tril(k), (T(0),), (T(1),)),
    "sum's dim": (lambda k: X.sum(k), (T(0),), (T(1),)),
    "cat's dim": (lambda k: torch.cat([X, X], k), (T(0),), (T(1),)),
    "masked_select": (lambda m: X[0].masked_select(m), (HALF,), (OTHER,)),
    "index_put by a mask": (lambda m: X[0].clone().index_put((m,), T(9.0)), (HALF,), (OTHER,)),
    "nonzero": (lambda m: m.nonzero(), (HALF,), (OTHER,)),
    "nonzero_static": (lambda m: torch.nonzero_static(m, size=3), (HALF,), (OTHER,)),
    "adaptive_avg_pool1d": (lambda n: F.adaptive_avg_pool1d(X[None], n), (T(2),), (T(3),)),
    "conv's stride": (lambda n: F.conv1d(X[None], X[None, :, :2], stride=n), (T(1),), (T(2),)),
    "matrix_power": (lambda n: torch.linalg.matrix_power(X @ X.T, n), (T(1),), (T(2),)),
    "cholesky_ex": (lambda a: torch.linalg.cholesky_ex(a)[1], (torch.eye(2),), (-torch.eye(2),)),
    "embedding's max_norm": (lambda i: F.embedding(i, X.clone(), max_norm=0.5), (T([0, 2]),), (T([1, 3]),)),
    "indices of a sparse tensor": (
        lambda i: torch.sparse_coo_tensor(i, torch.ones(2), (4, 4)).to_dense(),
        (T([[0, 1], [1, 2]]),), (T([[3, 1], [1, 2]]),),
    ),
}  # fmt: skip


def seen(f: Callable[..., Any], values: Values, number: int) -> Any:
    torch.manual_seed(number)
    result = attempt(f, *(value.clone() for value in values))
    return snapshot(result), torch.get_rng_state()


@pytest.mark.parametrize("first", (0, 1))
@pytest.mark.parametrize("name", CASES)
def test_values_take_turns(name: str, first: int) -> None:
    f, *both = CASES[name]
    fast = pyjit.compile(lambda *values: f(*values))
    for number in range(9):
        # Three calls with the same values: the last one hits where there is something to hit.
        values = both[(first + max(0, number - 2)) % 2]
        want, have = (seen(g, values, number) for g in (f, fast))
        assert not (found := difference(want, have)), f"call {number}: {found}"


@pytest.mark.parametrize("grad", (False, True))
@pytest.mark.parametrize("kind", (nn.RNN, nn.GRU, nn.LSTM))
def test_packed_sequences(kind: type[nn.RNNBase], grad: bool) -> None:
    """The same rows in all, the same longest: other lengths."""
    torch.manual_seed(0)
    layer: Any = kind(2, 3, batch_first=True, bidirectional=True)

    def run(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)  # fmt: skip
        return rnn.pad_packed_sequence(layer(packed)[0], batch_first=True)[0]

    fast = pyjit.compile(run)
    with torch.set_grad_enabled(grad):
        for number in range(8):
            lengths = (T([4, 2, 3]), T([1, 4, 4]))[number % 2]
            x = torch.randn(3, 4, 2)
            torch.testing.assert_close(fast(x, lengths), run(x, lengths))


@pytest.mark.parametrize("grad", (False, True))
def test_packed_sequences_of_other_lengths(grad: bool) -> None:
    """Rows in all differ, which the type of no operand tells: a graph break, no graph that raises."""
    torch.manual_seed(0)
    layer = nn.GRU(2, 3, batch_first=True)

    def run(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)  # fmt: skip
        return packed.data @ layer.weight_ih_l0.T

    fast = pyjit.compile(run)
    with torch.set_grad_enabled(grad):
        for number in range(12):
            lengths = torch.randint(1, 5, (3,))
            x = torch.randn(3, 4, 2)
            torch.testing.assert_close(fast(x, lengths), run(x, lengths))
    stats = pyjit.stats(fast)
    assert not any("raises" in str(reason) for reason in stats.reasons)
    assert stats.hits > 4
