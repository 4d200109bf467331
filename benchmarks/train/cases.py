# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The models that are trained, each in three sizes: `full`, `small` for a CPU, `tiny` for tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from cases.models import _quiet_transformers
from cases.recurrent import LSTM
from torch import nn
from torch.nn import functional as F

Tensor = torch.Tensor
Batch = tuple[Tensor, ...]


@dataclass(frozen=True)
class Work:
    """A model, the loss of one batch, and a maker of batches on the CPU."""

    model: nn.Module
    loss: Callable[[Any, Batch], Tensor]
    batch: Callable[[torch.Generator], Batch]
    channels_last: bool = False


@dataclass(frozen=True)
class Case:
    name: str
    #: By size.
    about: dict[str, str]
    make: Callable[[str], Work]
    #: On a GPU: bf16 autocast around forward and loss.
    autocast: bool = True
    #: Draws random numbers: another kernel may draw others.
    random: bool = False


CASES: dict[str, Case] = {}


def case(name: str, about: dict[str, str], **further: Any) -> Callable[[Any], Any]:
    def register(make: Any) -> Any:
        CASES[name] = Case(name, about, make, **further)
        return make

    return register


def token_batch(vocabulary: int, rows: int, columns: int) -> Any:
    return lambda generator: (
        torch.randint(0, vocabulary, (rows, columns), generator=generator),
    )


#: Sizes of BERT and GPT-2: vocabulary, width, layers, heads; then the batch.
TRANSFORMERS = {
    "bert": {"full": (30522, 768, 12, 12, 16, 128), "small": (2000, 256, 4, 4, 8, 64), "tiny": (100, 32, 1, 2, 2, 8)},
    "gpt2": {"full": (50257, 768, 12, 12, 4, 512), "small": (2000, 256, 4, 4, 2, 128), "tiny": (100, 32, 1, 2, 2, 8)},
}  # fmt: skip


def _masked_lm(size: str, dropout: float) -> Work:
    _quiet_transformers()
    from transformers import BertConfig, BertForMaskedLM

    vocabulary, width, layers, heads, rows, columns = TRANSFORMERS["bert"][size]
    config = BertConfig(
        vocab_size=vocabulary, hidden_size=width, num_hidden_layers=layers,
        num_attention_heads=heads, intermediate_size=4 * width,
        hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
    )  # fmt: skip

    def batch(generator: torch.Generator) -> Batch:
        (tokens,) = token_batch(vocabulary, rows, columns)(generator)
        masked = torch.rand(tokens.shape, generator=generator) < 0.15
        labels = torch.where(masked, tokens, torch.full_like(tokens, -100))
        return torch.where(masked, torch.full_like(tokens, 3), tokens), labels

    return Work(
        BertForMaskedLM(config),
        lambda model, given: model(input_ids=given[0], labels=given[1]).loss,
        batch,
    )


def _about(kind: str, text: str) -> dict[str, str]:
    return {
        size: f"{text}, {layers} layers of {width}, batch {rows} x {columns}"
        for size, (_, width, layers, _, rows, columns) in TRANSFORMERS[kind].items()
    }


@case("bert", _about("bert", "transformers BertForMaskedLM without dropout"))
def _bert(size: str) -> Work:
    return _masked_lm(size, 0.0)


@case("bert-dropout", _about("bert", "BertForMaskedLM, dropout 0.1"), random=True)
def _bert_dropout(size: str) -> Work:
    return _masked_lm(size, 0.1)


@case("gpt2", _about("gpt2", "transformers GPT2LMHeadModel without dropout"))
def _gpt2(size: str) -> Work:
    _quiet_transformers()
    from transformers import GPT2Config, GPT2LMHeadModel

    vocabulary, width, layers, heads, rows, columns = TRANSFORMERS["gpt2"][size]
    config = GPT2Config(
        vocab_size=vocabulary, n_embd=width, n_layer=layers, n_head=heads,
        n_positions=columns, use_cache=False,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    return Work(
        GPT2LMHeadModel(config),
        lambda model, given: model(input_ids=given[0], labels=given[0]).loss,
        token_batch(vocabulary, rows, columns),
    )


def image_batch(rows: int, size: int, classes: int) -> Any:
    return lambda generator: (
        torch.randn(rows, 3, size, size, generator=generator),
        torch.randint(0, classes, (rows,), generator=generator),
    )


def classification(model: Any, given: Batch) -> Tensor:
    return F.cross_entropy(model(given[0]), given[1])


@case(
    "resnet50",
    {
        "full": "torchvision resnet50, batch 32 x 224 x 224, channels last",
        "small": "torchvision resnet50 with one block a stage, batch 4 x 64 x 64, channels last",
        "tiny": "torchvision ResNet with one block a stage, batch 2 x 32 x 32, channels last",
    },
)
def _resnet(size: str) -> Work:
    from torchvision.models.resnet import Bottleneck, ResNet

    layers = [3, 4, 6, 3] if size == "full" else [1, 1, 1, 1]
    shape = {"full": (32, 224, 1000), "small": (4, 64, 100), "tiny": (2, 32, 10)}[size]
    model = ResNet(Bottleneck, layers, num_classes=shape[2])
    return Work(model, classification, image_batch(*shape), channels_last=True)


@case(
    "vit",
    {
        "full": "timm vit_base_patch16_224, batch 32 x 224 x 224",
        "small": "timm VisionTransformer, 6 layers of 192, patches of 8, batch 8 x 64 x 64",
        "tiny": "timm VisionTransformer, 1 layer of 48, patches of 8, batch 2 x 16 x 16",
    },
)
def _vit(size: str) -> Work:
    from timm.models.vision_transformer import VisionTransformer

    pixels, patch, width, depth, heads, rows, classes = {
        "full": (224, 16, 768, 12, 12, 32, 1000),
        "small": (64, 8, 192, 6, 3, 8, 100),
        "tiny": (16, 8, 48, 1, 3, 2, 10),
    }[size]
    model = VisionTransformer(
        img_size=pixels, patch_size=patch, embed_dim=width, depth=depth,
        num_heads=heads, num_classes=classes,
    )  # fmt: skip
    return Work(model, classification, image_batch(rows, pixels, classes))


def regression(model: Any, given: Batch) -> Tensor:
    return F.mse_loss(model(given[0]), given[1])


def float_batch(*shapes: tuple[int, ...]) -> Any:
    return lambda generator: tuple(
        torch.randn(shape, generator=generator) for shape in shapes
    )


@case(
    "lstm",
    {
        "full": "LSTM in Python loops: 40 steps, 2 layers of 128, batch 32",
        "small": "LSTM in Python loops: 40 steps, 2 layers of 128, batch 32",
        "tiny": "LSTM in Python loops: 3 steps, 2 layers of 8, batch 2",
    },
    autocast=False,
)
def _lstm(size: str) -> Work:
    steps, width, rows = (3, 8, 2) if size == "tiny" else (40, 128, 32)
    batch = float_batch((steps, rows, width), (rows, width))
    return Work(LSTM(width, 2), regression, batch)


@case(
    "mlp",
    {
        "full": "8 linear layers of 256 with ReLU, batch 64",
        "small": "8 linear layers of 512 with ReLU, batch 256",
        "tiny": "2 linear layers of 8 with ReLU, batch 4",
    },
    autocast=False,
)
def _mlp(size: str) -> Work:
    layers, width, rows = {
        "full": (8, 256, 64), "small": (8, 512, 256), "tiny": (2, 8, 4),
    }[size]  # fmt: skip
    parts = [p for _ in range(layers) for p in (nn.Linear(width, width), nn.ReLU())]
    batch = float_batch((rows, width), (rows, width))
    return Work(nn.Sequential(*parts), regression, batch)
