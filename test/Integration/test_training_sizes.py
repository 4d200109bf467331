# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parts of models as people train them, with batches and lengths that differ from step to step: equal to
eager, and a graph or two for all sizes. What needs a specialization for each size is listed with its cause."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from torch import nn

# Batch and length.
SIZES = ((3, 5), (3, 8), (3, 11), (2, 6), (4, 9), (3, 5), (5, 12), (3, 13), (2, 14))
MOST_GRAPHS = 3
"""One for the first size, one for all, one more where only one of two sizes has differed at first."""


class Parts(nn.Module):
    """What the programs have weights of."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 10)
        self.back = nn.Linear(10, 8)
        self.words = nn.Embedding(30, 8)
        self.places = nn.Embedding(64, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, 0.1, batch_first=True)
        self.conv = nn.Conv1d(8, 8, 3)


def tokens(batch: int, length: int) -> tuple[torch.Tensor, ...]:
    return (torch.randint(30, (batch, length)),)


def features(batch: int, length: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(batch, length, 8),)


def classified(batch: int, length: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(batch, length, 8), torch.randint(10, (batch, length))


def windows(batch: int, length: int) -> tuple[torch.Tensor, ...]:
    """The batches of a language model: two parts of one tensor."""
    both = torch.randint(30, (batch, length + 1))
    return both[:, :-1], both[:, 1:] % 10


def shifted(ids: torch.Tensor) -> torch.Tensor:
    """As encoder-decoder models make their decoder's inputs."""
    moved = ids.new_zeros(ids.shape)
    moved[:, 1:] = ids[:, :-1].clone()
    moved[:, 0] = 2
    return moved


def causal(scores: torch.Tensor) -> torch.Tensor:
    length = scores.shape[-1]
    mask = torch.tril(torch.ones(length, length)) == 0
    return scores.masked_fill(mask, float("-inf")).softmax(-1)


def next_token(m: Parts, i: torch.Tensor) -> torch.Tensor:
    logits = m.head(m.words(i))
    return F.cross_entropy(logits[:, :-1].reshape(-1, 10), i[:, 1:].reshape(-1) % 10)


def next_token_inside(m: Parts, i: torch.Tensor) -> torch.Tensor:
    logits = m.head(m.words(i[:, :-1]))
    return F.cross_entropy(logits.transpose(1, 2), i[:, 1:] % 10)


def heads(m: Parts, x: torch.Tensor) -> torch.Tensor:
    """A projection of all but the last position, split into heads."""
    y = m.head(x[:, :-1])
    return y.view(y.size(0), y.size(1), 2, 5).transpose(1, 2)


def padded_labels(m: Parts, i: torch.Tensor) -> torch.Tensor:
    labels = F.pad(i % 10, (0, 1), value=-100)[..., 1:].contiguous()
    return F.cross_entropy(m.head(m.words(i)).view(-1, 10), labels.view(-1))


def handwritten_attention(m: Parts, x: torch.Tensor) -> torch.Tensor:
    y = m.head(x)
    return causal(y @ y.transpose(1, 2)) @ y


def everywhere(mask: torch.Tensor) -> bool:
    """As transformers asks whether a mask leaves anything out: one question behind another."""
    if mask.all():
        return True
    return bool(mask[:, : mask.size(1)].all())


def shape_behind_branches(
    m: Parts, i: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    shape = i.size()
    hidden = m.head(m.words(i.view(-1, shape[-1])))
    bias = 0.0 if everywhere(mask) else mask[..., None] * 1.0
    return (hidden + bias).view((-1, *shape[1:], 10))


def contrasted(m: Parts, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    a, b = m.head(torch.cat([x, y])).chunk(2)
    return F.cross_entropy(a @ b.t(), torch.arange(len(a)))


PROGRAMS: dict[str, tuple[Callable[..., torch.Tensor], Callable[..., tuple]]] = {
    "two parts of one batch": (
        lambda m, i, t: F.cross_entropy(m.head(m.words(i)).view(-1, 10), t.reshape(-1)),
        windows,
    ),
    "next token": (next_token, tokens),
    "next token inside": (next_token_inside, tokens),
    "next of given tokens": (
        lambda m, x, y: F.cross_entropy(
            m.head(x)[:, :-1].reshape(-1, 10), y[:, 1:].reshape(-1)
        ),
        classified,
    ),
    "shifted labels": (padded_labels, tokens),
    "shifted ids": (lambda m, i: m.words(shifted(i)), tokens),
    "positions": (lambda m, i: m.words(i) + m.places(torch.arange(i.size(1))), tokens),
    "slice objects": (
        lambda m, i: m.words(i) + m.places.weight[(slice(None, i.size(1)),)],
        tokens,
    ),
    "heads": (heads, features),
    "differences": (lambda m, x: m.head(x)[:, 1:] - m.head(x)[:, :-1], features),
    "time shift": (
        lambda m, x: torch.cat([torch.zeros_like(x[:, :1]), m.head(x)[:, :-1, :8]], 1),
        features,
    ),
    "crop": (lambda m, x: m.head(x)[:, 1:-1], features),
    "last states": (lambda m, x: m.head(x[:, -1]), features),
    "a part of them": (
        lambda m, x, y: m.head(x)[:, : y.size(1)].reshape(-1, 10),
        lambda b, n: (torch.randn(b, n, 8), torch.randint(10, (b, n - 2))),
    ),
    "causal attention": (handwritten_attention, features),
    "attention": (lambda m, x: m.attention(x, x, x)[0], features),
    "padding mask": (
        lambda m, x: m.attention(x, x, x, key_padding_mask=x[..., 0] > 2)[0],
        features,
    ),
    "encoder layer": (lambda m, x: m.layer(x), features),
    "weighted losses": (
        lambda m, x, y: (
            (
                F.cross_entropy(m.head(x).transpose(1, 2), y, reduction="none")
                * (y > 0)
            ).sum()
            / (y > 0).sum().clamp(min=1)
        ),
        classified,
    ),
    "a masked mean": (
        lambda m, x, y: (
            (m.head(x) * (y > 4)[..., None]).sum(1)
            / (y > 4).sum(1, keepdim=True).clamp(min=1)
        ),
        classified,
    ),
    "causal convolution": (
        lambda m, x: m.conv(F.pad(x.transpose(1, 2), (2, 0))),
        features,
    ),
    "picked": (lambda m, x, y: m.head(x).gather(2, y[..., None]), classified),
    "one-hot": (lambda m, x, y: (m.head(x) * F.one_hot(y, 10)).sum(-1), classified),
    "minibatch": (
        lambda m, x, i: m.head(x[i]),
        lambda b, n: (torch.randn(20, 8), torch.randperm(20)[:n]),
    ),
    "two batches": (
        lambda m, x, y: m.head(torch.cat([x, y]))[: len(x)],
        lambda b, n: (torch.randn(n, 8), torch.randn(b, 8)),
    ),
    "pairs of batches": (
        contrasted,
        lambda b, n: (torch.randn(n, 8), torch.randn(n, 8)),
    ),
    "chunks": (lambda m, x: torch.cat(m.head(x).chunk(2, 1)[::-1], 1), features),
    "padded to a multiple": (
        lambda m, x: F.pad(m.head(x), (0, 0, 0, -x.size(1) % 4)),
        features,
    ),
    "padded to the most": (
        lambda m, x: F.pad(m.head(x), (0, 0, 0, 16 - x.size(1))),
        features,
    ),
    "rotated halves": (
        lambda m, x: torch.cat((-m.head(x)[..., 5:], m.head(x)[..., :5]), -1),
        features,
    ),
    "relative places": (
        lambda m, x: (
            m.places.weight[
                (
                    torch.arange(x.size(1))[:, None] - torch.arange(x.size(1))[None]
                ).clamp(-8, 8)
                + 8
            ].sum(-1)
            + m.head(x) @ m.head(x).transpose(1, 2)
        ),
        features,
    ),
}


def outcome(
    f: Callable[..., torch.Tensor], m: Parts, *args: torch.Tensor
) -> list[torch.Tensor]:
    """A result, and the gradients of all weights."""
    m.zero_grad()
    torch.manual_seed(0)
    result = f(*args)
    (result * torch.linspace(-1, 1, result.numel()).view_as(result)).sum().backward()
    return [result.detach(), *(p.grad for p in m.parameters() if p.grad is not None)]


def settles(
    program: Callable[..., torch.Tensor], make: Callable[..., tuple]
) -> dict[str, Any]:
    """Calls it with all sizes, beside eager."""
    torch.manual_seed(1)
    m = Parts()
    plain = lambda *args: program(m, *args)
    fast = pyjit.compile(plain, options={"compare_with_eager": False})
    for sizes in SIZES:
        args = make(*sizes)
        want, have = outcome(plain, m, *args), outcome(fast, m, *args)
        torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-5)
    return pyjit.stats(fast)


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_for_all_sizes(name: str) -> None:
    stats = settles(*PROGRAMS[name])
    why = (stats["specialized_sizes"], stats["fixed_sizes"])
    assert stats["graphs"] <= MOST_GRAPHS, why
    assert stats["graph_breaks"] == 0


def padded_tokens(batch: int, length: int) -> tuple[torch.Tensor, ...]:
    rows = torch.arange(length, length - batch, -1)[:, None]
    return torch.randint(30, (batch, length)), torch.arange(length)[None] < rows


def test_a_shape_that_branches_on_data_leave_unread() -> None:
    """It is followed through segments that only pass it on."""
    stats = settles(shape_behind_branches, padded_tokens)
    assert stats["misses"] <= 4, stats["specialized_sizes"]


LAYOUTS: dict[str, Callable[[int, int], torch.Tensor]] = {
    "all but the last": lambda b, n: torch.randn(b, n + 1)[:, :-1],
    "all but the first": lambda b, n: torch.randn(b, n + 1)[:, 1:],
    "one position": lambda b, n: torch.randn(b, n, 4)[:, 0],
    "the last position": lambda b, n: torch.randn(b, n, 4)[:, -1],
    "half of the columns": lambda b, n: torch.randn(b, 2 * n).chunk(2, 1)[1],
    "inner columns": lambda b, n: torch.randn(b, 3, n + 1)[:, :, :-1],
    "a crop": lambda b, n: torch.randn(b, 3, n + 2, n + 2)[:, :, 1:-1, 1:-1],
    "a crop, transposed": lambda b, n: torch.randn(b, n + 2, 6)[:, 1:-1, 1:].mT,
    "channels last": lambda b, n: torch.randn(b, 4, n, n).to(
        memory_format=torch.channels_last
    )[..., 1:],
    "a part of a buffer": lambda b, n: torch.zeros(8, 64)[:b, :n],
    "expanded rows": lambda b, n: torch.randn(n + 1)[1:].expand(b, n),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_of_arguments(name: str, grad: bool) -> None:
    """Strides that no sizes say are symbols, too; eager's choices of layouts are kept."""

    def f(x: torch.Tensor) -> tuple[Any, ...]:
        y = x * 2
        return y, y.reshape(-1), x.sum(-1), x + 0, x.is_contiguous(), x.flatten()

    fast = pyjit.compile(f, options={"compare_with_eager": False})
    for sizes in SIZES:
        x = LAYOUTS[name](*sizes)
        x = x.requires_grad_() if grad and x._base is None else x
        with torch.set_grad_enabled(grad):
            have, want = fast(x), f(x)
        for a, b in zip(have, want, strict=True):
            if not isinstance(b, torch.Tensor):
                assert a == b
                continue
            torch.testing.assert_close(a, b)
            assert a.stride() == b.stride()
    stats = pyjit.stats(fast)
    assert stats["graphs"] <= MOST_GRAPHS, stats["fixed_sizes"]


def test_a_stride_that_becomes_another_layout() -> None:
    """Rows that lie apart, packed, and overlapping ones, all of equal sizes."""

    def f(x: torch.Tensor) -> tuple[Any, ...]:
        return x * 2, x.is_contiguous(), x.clone().stride(), (x + x).stride()

    fast = pyjit.compile(f)
    memory = torch.randn(200)
    for stride in (9, 12, 6, 17, 5, 3, 2, 8, 12, 5, 1, 9):
        x = memory.as_strided((4, 5), (stride, 1))
        have, want = fast(x), f(x)
        torch.testing.assert_close(have[0], want[0])
        assert have[1:] == want[1:], stride
