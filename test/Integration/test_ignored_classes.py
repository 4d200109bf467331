# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Losses whose `ignore_index` is a size, or an int that differs between calls, as models that answer questions have
it: eager's values, gradients and errors, from one specialization for all lengths."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from torch import nn

SIZES = [(3, 5), (4, 8), (3, 11), (2, 6), (5, 9), (8, 8), (3, 5), (6, 12), (2, 7)]
OPTIONS = {"compare_with_eager": False}


def outcome(
    f: Callable[..., torch.Tensor], x: torch.Tensor, *rest: Any
) -> list[torch.Tensor]:
    x = x.clone().requires_grad_()
    loss = f(x, *rest)
    loss.sum().backward()
    return [loss.detach(), x.grad]


def labelled(batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Classes are positions; one is the length, and so are those beyond."""
    labels = torch.randint(length + 3, (batch,))
    labels[0], labels[1] = length, 0
    return torch.randn(batch, length), labels


def reordered(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    n = x.shape[-1]
    return F.nll_loss(
        ignore_index=n, input=x.log_softmax(-1), target=y.clamp(max=n), reduction="sum"
    )


LOSSES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "cross_entropy": lambda x, y: F.cross_entropy(
        x, y.clamp(0, x.size(1)), ignore_index=x.size(1)
    ),
    "a module": lambda x, y: nn.CrossEntropyLoss(ignore_index=x.size(1))(
        x, y.clamp(0, x.size(1))
    ),
    "nll_loss": reordered,
    "each row": lambda x, y: F.cross_entropy(
        x, y.clamp(0, x.size(1)), ignore_index=x.size(1), reduction="none"
    ),
    "one beyond": lambda x, y: F.cross_entropy(
        F.pad(x, (1, 0)), y.clamp(0, x.size(1) + 1), ignore_index=x.size(1) + 1
    ),
    "the last class": lambda x, y: F.cross_entropy(
        x, y.clamp(0, x.size(1) - 1), ignore_index=x.size(1) - 1
    ),
    "sequences": lambda x, y: F.cross_entropy(
        x[..., None] * torch.arange(3.0),
        y.clamp(0, x.size(1))[:, None].expand(-1, 3),
        ignore_index=x.size(1),
    ),
    "images": lambda x, y: F.cross_entropy(
        x[..., None, None] * torch.arange(3.0),
        y.clamp(0, x.size(1))[:, None, None].expand(-1, 1, 3),
        ignore_index=x.size(1),
    ),
    "under autocast": lambda x, y: cast(x, y),
}


def cast(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        n = x.size(1)
        return F.cross_entropy(x @ torch.eye(n), y.clamp(0, n), ignore_index=n)


@pytest.mark.parametrize("name", LOSSES)
def test_a_size_is_ignored(name: str) -> None:
    f = LOSSES[name]
    fast = pyjit.compile(f, options=OPTIONS)
    for i, sizes in enumerate(SIZES):
        torch.manual_seed(i)
        x, y = labelled(*sizes)
        torch.testing.assert_close(outcome(fast, x, y), outcome(f, x, y))
    stats = pyjit.stats(fast)
    assert not stats["specialized_sizes"] and not stats["fixed_sizes"], stats
    assert stats["misses"] <= 3 and stats["graph_breaks"] == 0, stats


def test_a_number_that_is_a_size_by_chance_stays() -> None:
    """At the recording that lifts the length, eight is the length."""

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x, y.clamp(0, x.size(1) - 1), ignore_index=8)

    def g(x: torch.Tensor, y: torch.Tensor, n: int) -> torch.Tensor:
        m = x.size(1)
        return F.cross_entropy(x, y.clamp(0, m - 1) % 8, ignore_index=n) + m

    fast, faster = pyjit.compile(f, options=OPTIONS), pyjit.compile(g, options=OPTIONS)
    for length in (5, 8, 12, 8, 13, 10, 9, 5):
        x, y = torch.randn(12, length), torch.arange(12)
        torch.testing.assert_close(outcome(fast, x, y), outcome(f, x, y))
        have, want = outcome(faster, x, y, 8), outcome(g, x, y, 8)
        torch.testing.assert_close(have, want)
    assert pyjit.stats(fast)["misses"] <= 3
    assert pyjit.stats(faster)["misses"] <= 3


def test_a_number_that_differs() -> None:
    """Beside lengths that do; negative ones, and those of no class, too."""

    def f(x: torch.Tensor, y: torch.Tensor, n: int) -> torch.Tensor:
        return F.cross_entropy(x, y, ignore_index=n)

    fast = pyjit.compile(f, options=OPTIONS)
    for i, n in enumerate((2, 3, 4, 2, 40, 3, -100, -1, 0, 1, 5, 6, 7)):
        x, y = torch.randn(6, 5 + i), torch.arange(6) % 5
        y = torch.where(y == 4, n, y) if n < 0 else y
        torch.testing.assert_close(outcome(fast, x, y, n), outcome(f, x, y, n))
    assert pyjit.stats(fast)["misses"] <= 8


def test_smoothed_labels() -> None:
    """These compare the labels with it: a specialization each."""

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        n = x.size(1)
        return F.cross_entropy(
            x, y.clamp(0, n), ignore_index=n, label_smoothing=0.1
        ) + F.cross_entropy(x, y.clamp(0, n), ignore_index=n)

    fast = pyjit.compile(f, options=OPTIONS)
    for sizes in SIZES:
        x, y = labelled(*sizes)
        torch.testing.assert_close(outcome(fast, x, y), outcome(f, x, y))


def test_padding_that_is_ignored_stays() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x.flatten(0, 1), y.flatten(), ignore_index=-100)

    fast = pyjit.compile(f, options=OPTIONS)
    for batch, length in SIZES:
        x, y = torch.randn(batch, length, 7), torch.randint(7, (batch, length))
        y[:, -1] = -100
        torch.testing.assert_close(outcome(fast, x, y), outcome(f, x, y))
    assert pyjit.stats(fast)["misses"] <= 3


def test_classes_that_are_none_raise() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x, y, ignore_index=x.size(1))

    fast = pyjit.compile(f, options=OPTIONS)
    for batch, length in SIZES:
        x, y = labelled(batch, length)
        y = y.clamp(0, length)
        torch.testing.assert_close(outcome(fast, x, y), outcome(f, x, y))
        for wrong in (length + 1, -1):
            y[1] = wrong
            with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds"):
                fast(x, y)


def test_probabilities_raise() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x, y, ignore_index=x.size(1))

    fast = pyjit.compile(f, options=OPTIONS)
    for batch, length in SIZES:
        x = torch.randn(batch, length)
        with pytest.raises(RuntimeError, match="not supported for floating point"):
            fast(x, x.softmax(-1))


# --- Models that answer questions


def answering(kind: str) -> nn.Module:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    if kind == "bert":
        return transformers.BertForQuestionAnswering(
            transformers.BertConfig(
                vocab_size=50,
                hidden_size=16,
                num_hidden_layers=1,
                num_attention_heads=2,
                intermediate_size=32,
            )
        )
    return transformers.DistilBertForQuestionAnswering(
        transformers.DistilBertConfig(
            vocab_size=50, dim=16, n_layers=1, n_heads=2, hidden_dim=32
        )
    )


def question(batch: int, length: int) -> dict[str, torch.Tensor]:
    return {
        "input_ids": torch.randint(50, (batch, length)),
        "start_positions": torch.randint(length + 3, (batch,)),
        "end_positions": torch.randint(length + 3, (batch,)),
    }


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("kind", ["bert", "distilbert"])
def test_answers_to_questions(kind: str, whole: bool) -> None:
    plain = answering(kind)
    other = copy.deepcopy(plain)

    def make(model: nn.Module) -> Callable[..., torch.Tensor]:
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def step(**batch: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    want, have = make(plain), make(other)
    if whole:
        have = fast = pyjit.compile(have, options=OPTIONS)
    else:
        other.forward = fast = pyjit.compile(other.forward, options=OPTIONS)
    for i, sizes in enumerate(SIZES):
        batch = question(*sizes)
        losses = []
        for step in (want, have):
            torch.manual_seed(i)
            losses.append(step(**batch))
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        list(other.parameters()), list(plain.parameters()), rtol=1e-4, atol=1e-5
    )
    stats = pyjit.stats(fast)
    assert not stats["specialized_sizes"] and not stats["fixed_sizes"], stats
    assert stats["misses"] <= 4 and stats["graph_breaks"] == 0, stats
