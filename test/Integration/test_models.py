# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole models in small sizes: one graph, right values, hits, other shapes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from cases.models import settle_batch_norms
from cases.recurrent import GRUCell
from compare import largest_difference

os.environ.setdefault("HF_HUB_OFFLINE", "1")

Made = tuple[Any, Callable[[int, int], tuple[Any, ...]]]


def _tokens(n: int, seed: int, vocabulary: int = 90) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, vocabulary, (1, n), generator=generator)


def _floats(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def bert() -> Made:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    return BertModel(config).eval(), lambda n, seed: (_tokens(8 * n, seed),)


def gpt2() -> Made:
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(
        vocab_size=100, n_embd=32, n_layer=2, n_head=4, n_positions=64, use_cache=False
    )
    return GPT2Model(config).eval(), lambda n, seed: (_tokens(8 * n, seed),)


def resnet18() -> Made:
    from torchvision.models import resnet18

    model = settle_batch_norms(resnet18(weights=None, num_classes=10)).eval()
    return model, lambda n, seed: (_floats((1, 3, 32 * n, 32), seed),)


def mobilenet() -> Made:
    from torchvision.models import mobilenet_v3_small

    model = mobilenet_v3_small(weights=None, num_classes=10)
    model = settle_batch_norms(model).eval()
    return model, lambda n, seed: (_floats((1, 3, 32 * n, 32), seed),)


def gru() -> Made:
    def inputs(n: int, seed: int) -> tuple[Any, ...]:
        return _floats((2 * n, 16), seed), _floats((2 * n, 8), seed + 50)

    return GRUCell(16, 8).eval(), inputs


MODELS = [bert, gpt2, resnet18, mobilenet, gru]


@pytest.fixture(params=MODELS, ids=lambda make: make.__name__)
def made(request: pytest.FixtureRequest) -> Made:
    torch.manual_seed(0)
    with torch.no_grad():
        return request.param()


def test_model(made: Made) -> None:
    import pyjit

    model, inputs = made
    with torch.no_grad():
        fast = pyjit.compile(model)
        for seed in range(3):
            args = inputs(1, seed)
            gap = largest_difference(model(*args), fast(*args))
            assert gap <= 1e-4, f"call {seed}"
        stats = pyjit.stats(fast)
        assert stats["hits"] == 2, stats["reasons"]
        assert stats["graphs"] == 1
        assert stats["graph_breaks"] == 0
        # Another shape, and back.
        for n, seed in ((2, 5), (2, 6), (1, 7)):
            args = inputs(n, seed)
            assert largest_difference(model(*args), fast(*args)) <= 1e-4


def test_weights_change(made: Made) -> None:
    """Folded or packed weights must follow the real ones."""
    import pyjit

    model, inputs = made
    with torch.no_grad():
        fast = pyjit.compile(model)
        args = inputs(1, 0)
        for _ in range(3):
            fast(*args)
        for number, parameter in enumerate(model.parameters()):
            if number % 3 == 0:
                parameter.mul_(1.01)
            elif number % 3 == 1:
                parameter.data = parameter.data * 0.99
            else:
                parameter.data.add_(0.001)
        assert largest_difference(model(*args), fast(*args)) <= 1e-4
        state = {
            k: v * 1.02 if v.is_floating_point() else v
            for k, v in model.state_dict().items()
        }
        model.load_state_dict(state)
        assert largest_difference(model(*args), fast(*args)) <= 1e-4


def test_training_mode_and_grad(made: Made) -> None:
    import pyjit

    model, inputs = made
    args = inputs(1, 0)
    fast = pyjit.compile(model)
    with torch.no_grad():
        fast(*args)
        fast(*args)
    model.zero_grad()
    out = fast(*args)
    out = out if isinstance(out, torch.Tensor) else out[0]
    out.sum().backward()
    have = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    out = model(*args)
    out = out if isinstance(out, torch.Tensor) else out[0]
    out.sum().backward()
    want = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    assert have
    assert largest_difference(want, have) <= 1e-3


def test_bert_with_mask_and_keywords() -> None:
    import pyjit

    torch.manual_seed(0)
    model, _ = bert()
    fast = pyjit.compile(model)
    with torch.no_grad():
        for seed in range(3):
            tokens = _tokens(8, seed)
            mask = torch.ones_like(tokens)
            mask[:, 6 - seed :] = 0
            want = model(input_ids=tokens, attention_mask=mask)
            have = fast(input_ids=tokens, attention_mask=mask)
            assert type(want) is type(have)
            assert list(want.keys()) == list(have.keys())
            assert largest_difference(want, have) <= 1e-4
        want = model(tokens, output_hidden_states=True)
        have = fast(tokens, output_hidden_states=True)
        assert largest_difference(want, have) <= 1e-4
