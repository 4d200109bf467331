# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models whose batch and sequence length change between calls: two specializations, then hits."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn


def leaves(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    if hasattr(result, "to_tuple"):
        result = result.to_tuple()
    parts = result.values() if isinstance(result, dict) else result
    if not isinstance(result, (dict, tuple, list)):
        return []
    return [tensor for part in parts for tensor in leaves(part)]


def bert() -> nn.Module:
    from transformers import BertConfig, BertModel

    return BertModel(
        BertConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            vocab_size=100,
            max_position_embeddings=64,
        )
    )


def gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2Model

    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    return GPT2Model(GPT2Config(vocab_size=100, **sizes, **ends))


def llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaModel

    return LlamaModel(
        LlamaConfig(
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            vocab_size=100,
        )
    )


def t5() -> nn.Module:
    from transformers import T5Config, T5EncoderModel

    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    return T5EncoderModel(T5Config(vocab_size=100, **sizes))


def resnet18() -> nn.Module:
    from torchvision.models import resnet18

    return resnet18(num_classes=10)


def mobilenet() -> nn.Module:
    from torchvision.models import mobilenet_v2

    return mobilenet_v2(num_classes=10)


def tiny_vit() -> nn.Module:
    import timm

    return timm.create_model(
        "vit_tiny_patch16_224", num_classes=10, img_size=32, depth=2
    )


def tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(0, 100, (batch, length))


def images(batch: int, _: int) -> torch.Tensor:
    return torch.randn(batch, 3, 32, 32)


def check(
    model: nn.Module,
    make: Callable[[int, int], torch.Tensor],
    sizes: list[tuple[int, int]],
    **options: Any,
) -> None:
    import pyjit

    model.eval()
    fast = pyjit.compile(model, options=options)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for size in sizes:
            argument = make(*size)
            want, have = leaves(model(argument)), leaves(fast(argument))
            assert len(want) == len(have)
            for a, b in zip(want, have):
                torch.testing.assert_close(b, a, rtol=1e-3, atol=1e-3)
                assert a.stride() == b.stride()
    stats = pyjit.stats(fast)
    assert not stats["specialized_sizes"] and not stats["fixed_sizes"], stats
    assert stats["misses"] == 2 and stats["hits"] == len(sizes) - 2, stats
    assert not stats["eager_calls"] and not stats["reasons"], stats


BATCHES = [(n, 7) for n in (2, 3, 5, 17, 3)]
LENGTHS = [(3, n) for n in (7, 9, 12, 33, 8)]
BOTH = [(2, 7), (3, 9), (5, 12), (17, 33), (6, 8)]


@pytest.mark.parametrize("sizes", [BATCHES, LENGTHS, BOTH], ids=["batch", "len", "all"])
@pytest.mark.parametrize("make", [bert, gpt2, llama, t5])
def test_language_models(
    make: Callable[[], nn.Module], sizes: list[tuple[int, int]]
) -> None:
    pytest.importorskip("transformers")
    torch.manual_seed(0)
    check(make(), tokens, sizes)


@pytest.mark.parametrize("make", [resnet18, mobilenet, tiny_vit])
def test_image_models(make: Callable[[], nn.Module]) -> None:
    pytest.importorskip("timm" if make is tiny_vit else "torchvision")
    torch.manual_seed(0)
    check(make(), images, BATCHES)


def test_the_specialization_of_a_size_answers_it_for_good() -> None:
    """Also after calls of other sizes, which one for all sizes answers: it knows less, and is slower."""
    import pyjit

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
    fast = pyjit.compile(model, options={"strict": True})
    with torch.no_grad():
        for n in (4, 6, 9, 4, 12, 4, 4):
            x = torch.randn(n, 16)
            torch.testing.assert_close(fast(x), model(x))
    counts = [(s["symbols"], s["hits"]) for s in pyjit.specializations(fast)]
    # Each but the call that made it.
    assert counts == [(0, 3), (1, 2)], counts


def test_matmuls_of_any_number_of_rows() -> None:
    """Rests of a tile's rows, blocks of rows, and rows of several dimensions."""
    import pyjit

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(96, 64), nn.GELU(), nn.Linear(64, 32, bias=False))
    fast = pyjit.compile(model, options={"strict": True})
    with torch.no_grad():
        for n in [*range(2, 48), 63, 64, 65, 257, 1000]:
            x = torch.randn(3, n, 96)
            torch.testing.assert_close(fast(x), model(x), rtol=1e-5, atol=1e-5)
    assert pyjit.stats(fast).specializations == 2


@pytest.mark.parametrize("times", [2, 4, 6, 14, 16, 29])
def test_matmuls_of_a_multiple_of_rows(times: int) -> None:
    """Rows that divide into fours, or into tiles, leave other rests than these numbers say."""
    import pyjit

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(24, 16, bias=False), nn.Linear(16, 96))
    fast = pyjit.compile(model, options={"strict": True})
    with torch.no_grad():
        for n in range(2, 34):
            x = torch.randn(n, times, 24)
            torch.testing.assert_close(fast(x), model(x), rtol=1e-5, atol=1e-5)
    assert pyjit.stats(fast).specializations == 2


@pytest.mark.parametrize("make", [bert, gpt2])
def test_language_models_on_a_simulated_device(make: Callable[[], nn.Module]) -> None:
    pytest.importorskip("transformers")
    torch.manual_seed(0)
    check(make(), tokens, BOTH, simulated_device=True)


def test_images_on_a_simulated_device() -> None:
    pytest.importorskip("torchvision")
    torch.manual_seed(0)
    check(resnet18(), images, BATCHES, simulated_device=True)
