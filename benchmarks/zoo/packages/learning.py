# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is around a model: losses, metrics, adapters, quantized codes, tables, policies, attributions."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn

from zoo import Kwargs
from zoo.packages.registry import Calls, Given, floats, model, named, register

LABELS: Given = lambda g, n: (
    torch.randn(4 * n, 4, generator=g).softmax(-1),
    torch.randint(0, 4, (4 * n,), generator=g),
)


def _metric(name: str, **options: Any) -> Any:
    return Calls(lambda m, p, t: m(p, t), named(f"torchmetrics:{name}")(**options))


for _name in ("Accuracy", "F1Score", "Precision", "ConfusionMatrix", "AUROC", "MatthewsCorrCoef"):  # fmt: skip
    register(f"torchmetrics.{_name}", functools.partial(_metric, _name, task="multiclass", num_classes=4), LABELS)  # fmt: skip
for _name in ("MeanSquaredError", "MeanAbsoluteError", "R2Score", "PearsonCorrCoef", "CosineSimilarity"):  # fmt: skip
    register(f"torchmetrics.{_name}", functools.partial(_metric, _name), lambda g, n: (torch.randn(4 * n, generator=g), torch.randn(4 * n, generator=g)))  # fmt: skip


def _metric_loss(name: str) -> Any:
    loss = named(f"pytorch_metric_learning.losses:{name}")()
    return Calls(lambda l, m, x, y: m(l(x), y), nn.Linear(8, 6), loss)


for _name in ("TripletMarginLoss", "ContrastiveLoss", "NTXentLoss", "MultiSimilarityLoss", "CircleLoss", "SupConLoss"):  # fmt: skip
    register(f"pytorch_metric_learning.{_name}", functools.partial(_metric_loss, _name), lambda g, n: (torch.randn(4 * n, 8, generator=g), torch.arange(4 * n) // 2))  # fmt: skip

PAIR: Given = lambda g, n: (
    torch.randn(n + 4, 16, generator=g),
    torch.randn(n + 4, 16, generator=g),
)
for _name in ("NTXentLoss", "NegativeCosineSimilarity", "BarlowTwinsLoss", "VICRegLoss", "DCLLoss", "TiCoLoss"):  # fmt: skip
    model(f"lightly.loss:{_name}", PAIR)
model("lightly.models.modules:SimCLRProjectionHead", floats(16), 16, 16, 8)
model("lightly.models.modules:BYOLPredictionHead", floats(16), 16, 16, 8)

IMAGES: Given = lambda g, n: (
    torch.rand(n, 3, 48, 48, generator=g),
    torch.rand(n, 3, 48, 48, generator=g),
)
model("pytorch_msssim:SSIM", IMAGES, data_range=1.0)
for _name in ("SSIMLoss", "GMSDLoss", "MDSILoss", "VSILoss", "HaarPSILoss", "FSIMLoss", "SRSIMLoss"):  # fmt: skip
    model(f"piq:{_name}", IMAGES)
register("piq.psnr", lambda: Calls(named("piq:psnr")), IMAGES)
register("piq.total_variation", lambda: Calls(lambda x, y: named("piq:total_variation")(x)), IMAGES)  # fmt: skip
model("lpips:LPIPS", IMAGES, pretrained=False, pnet_rand=True, net="squeeze", verbose=False)  # fmt: skip


def _adapted(kind: str) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    base = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=64, n_positions=32))  # fmt: skip
    options: dict[str, dict[str, Any]] = {
        "LoraConfig": {"r": 4, "lora_dropout": 0.1, "target_modules": ["c_attn"]},
        "IA3Config": {"target_modules": ["c_attn"], "feedforward_modules": []},
        "PrefixTuningConfig": {"num_virtual_tokens": 3},
        "PromptTuningConfig": {"num_virtual_tokens": 3},
        "AdaLoraConfig": {"total_step": 10, "target_modules": ["c_attn"]},
        "VeraConfig": {"r": 4, "target_modules": ["c_attn"]},
    }
    config = named(f"peft:{kind}")(task_type="CAUSAL_LM", **options[kind])
    return named("peft:get_peft_model")(base, config)


for _name in ("LoraConfig", "IA3Config", "PrefixTuningConfig", "PromptTuningConfig", "AdaLoraConfig", "VeraConfig"):  # fmt: skip
    register(f"peft.{_name}", functools.partial(_adapted, _name), lambda g, n: ((t := torch.randint(0, 64, (n, 12), generator=g)), Kwargs(labels=t)))  # fmt: skip


def _dora() -> Any:
    lora = named("peft:LoraConfig")(r=4, use_dora=True, target_modules=["0", "2"])
    base = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    return named("peft:get_peft_model")(base, lora)


register("peft.DoRA", _dora, floats(8))

_CODES = "vector_quantize_pytorch"
model(f"{_CODES}:VectorQuantize", floats(16, 32), dim=32, codebook_size=32, decay=0.8)
model(f"{_CODES}:VectorQuantize", floats(16, 32), dim=32, codebook_size=32, use_cosine_sim=True, name="cosine")  # fmt: skip
model(f"{_CODES}:ResidualVQ", floats(16, 32), dim=32, num_quantizers=3, codebook_size=32)  # fmt: skip
model(f"{_CODES}:FSQ", floats(16, 4), levels=[8, 5, 5, 5])
model(f"{_CODES}:LFQ", floats(16, 4), codebook_size=16, dim=4)

COLUMNS: Given = lambda g, n: (
    torch.randn(n, 5, generator=g),
    torch.randint(0, 3, (n, 2), generator=g),
)
_TABLES = "rtdl_revisiting_models"
model(f"{_TABLES}:FTTransformer", COLUMNS, n_cont_features=5, cat_cardinalities=[3, 3], d_out=2, n_blocks=2, d_block=16, attention_n_heads=2, attention_dropout=0.1, ffn_d_hidden=None, ffn_d_hidden_multiplier=1.33, ffn_dropout=0.1, residual_dropout=0.0)  # fmt: skip
model(f"{_TABLES}:ResNet", floats(6), d_in=6, d_out=2, n_blocks=2, d_block=16, d_hidden=None, d_hidden_multiplier=2.0, dropout1=0.1, dropout2=0.0)  # fmt: skip
model("rtdl_num_embeddings:PeriodicEmbeddings", floats(5), 5, 8, lite=False)
model("rtdl_num_embeddings:LinearReLUEmbeddings", floats(5), 5, 8)
model("tab_transformer_pytorch:TabTransformer", lambda g, n: (torch.randint(0, 3, (n, 2), generator=g), torch.randn(n, 4, generator=g)), categories=(3, 3), num_continuous=4, dim=16, dim_out=1, depth=1, heads=2)  # fmt: skip
model("pytorch_tabnet.tab_network:TabNet", lambda g, n: (torch.randn(8 * n, 6, generator=g),), 6, 3, group_attention_matrix=torch.eye(6))  # fmt: skip


def _policy(kind: str) -> Any:
    import numpy

    box = named("gymnasium.spaces:Box")(-1, 1, (4,), numpy.float32)
    actions = named("gymnasium.spaces:Discrete")(3) if kind == "discrete" else box
    policy = named("stable_baselines3.common.policies:ActorCriticPolicy")(box, actions, lambda _: 1e-3)  # fmt: skip

    def call(p: Any, x: torch.Tensor) -> Any:
        taken, value, log = p(x)
        return taken, value, log, p.evaluate_actions(x, taken)

    return Calls(call, policy)


register("stable_baselines3.discrete", lambda: _policy("discrete"), floats(4))
register("stable_baselines3.box", lambda: _policy("box"), floats(4))


def _attribution(kind: str) -> Any:
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    method = named(f"captum.attr:{kind}")(net)

    def call(_: nn.Module, x: torch.Tensor) -> Any:
        with torch.enable_grad():
            return method.attribute(x.detach().requires_grad_(), target=1).detach()

    return Calls(call, net)


for _name in ("Saliency", "IntegratedGradients", "InputXGradient", "FeatureAblation"):
    register(f"captum.{_name}", functools.partial(_attribution, _name), floats(6))
model("torchrl.modules:NoisyLinear", floats(4), 4, 3)
model("torchrl.modules:MLP", floats(4), 4, 3, depth=2, num_cells=8)
model("torchrl.modules:DuelingMlpDQNet", floats(4), 3)
