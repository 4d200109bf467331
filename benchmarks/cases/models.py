# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole networks from torchvision, timm and transformers, with random weights."""

from __future__ import annotations

import logging
import os
import warnings
from typing import Any

import torch
from torch import nn

from .registry import case, floats, tokens


def _quiet_transformers() -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    logging.getLogger("transformers").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="transformers")


def settle_batch_norms(model: nn.Module) -> nn.Module:
    """Gives batch norms statistics and weights that a trained network could have.

    With weights of 1, the residual sums of a deep network overflow float16.
    """
    generator = torch.Generator().manual_seed(7)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            shape = module.running_mean.shape
            module.running_mean.copy_(torch.randn(shape, generator=generator) * 0.1)
            module.running_var.copy_(torch.rand(shape, generator=generator) + 0.5)
            with torch.no_grad():
                module.weight.copy_(torch.rand(shape, generator=generator) * 0.5 + 0.2)
    return model


@case("bert-base", "transformers BertModel, base size, 256 tokens")
def _bert() -> Any:
    _quiet_transformers()
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    return BertModel(BertConfig()).eval(), tokens(30000, 256)


@case("gpt2", "transformers GPT2Model, 12 layers, use_cache=False, 128 tokens")
def _gpt2() -> Any:
    _quiet_transformers()
    from transformers import GPT2Config, GPT2Model

    torch.manual_seed(0)
    return GPT2Model(GPT2Config(use_cache=False)).eval(), tokens(50000, 128)


@case("deberta", "transformers DebertaModel, base size, 256 tokens")
def _deberta() -> Any:
    _quiet_transformers()
    from transformers import DebertaConfig, DebertaModel

    torch.manual_seed(0)
    return DebertaModel(DebertaConfig()).eval(), tokens(50000, 256)


def _torchvision(name: str) -> Any:
    import torchvision.models

    torch.manual_seed(0)
    model = getattr(torchvision.models, name)(weights=None)
    return settle_batch_norms(model).eval(), floats((1, 3, 224, 224))


@case("resnet50", "torchvision resnet50, 224 x 224")
def _resnet() -> Any:
    return _torchvision("resnet50")


@case("resnet18", "torchvision resnet18, 224 x 224")
def _resnet18() -> Any:
    return _torchvision("resnet18")


@case("resnet101", "torchvision resnet101, 224 x 224")
def _resnet101() -> Any:
    return _torchvision("resnet101")


@case("mobilenetv3", "torchvision mobilenet_v3_large, 224 x 224")
def _mobilenet() -> Any:
    return _torchvision("mobilenet_v3_large")


@case("lcnet", "timm lcnet_050, 224 x 224")
def _lcnet() -> Any:
    import timm

    torch.manual_seed(0)
    model = timm.create_model("lcnet_050", pretrained=False)
    return settle_batch_norms(model).eval(), floats((1, 3, 224, 224))
