# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Transformers of x-transformers with their options, other attentions, state spaces, language models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from zoo import Kwargs
from zoo.packages.registry import Calls, floats, model, named, register, tokens

WRAPPED = {"emb_dropout", "num_memory_tokens", "use_abs_pos_emb", "tie_embedding"}
"""Options of the model; the others are those of its layers."""


def _transformer(kind: str = "Decoder", **options: Any) -> Callable[[], Any]:
    def make() -> Any:
        own = {key: value for key, value in options.items() if key in WRAPPED}
        rest = {key: value for key, value in options.items() if key not in WRAPPED}
        layers = named(f"x_transformers:{kind}")(dim=32, depth=2, heads=2, attn_dim_head=16, **rest)  # fmt: skip
        return named("x_transformers:TransformerWrapper")(num_tokens=64, max_seq_len=32, attn_layers=layers, **own)  # fmt: skip

    return make


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "encoder": {"kind": "Encoder"},
    "rotary": {"rotary_pos_emb": True, "use_abs_pos_emb": False},
    "xpos": {"rotary_pos_emb": True, "rotary_xpos": True},
    "alibi": {"alibi_pos_bias": True},
    "t5": {"rel_pos_bias": True},
    "dynamic bias": {"dynamic_pos_bias": True},
    "rms norm, swiglu": {"use_rmsnorm": True, "ff_glu": True, "ff_swish": True},
    "flash": {"attn_flash": True},
    "qk norm": {"attn_qk_norm": True},
    "talking heads": {"attn_pre_talking_heads": True},
    "one head of keys": {"attn_one_kv_head": True},
    "grouped heads": {"attn_kv_heads": 1},
    "sandwich": {"sandwich_norm": True},
    "dropout": {"attn_dropout": 0.1, "ff_dropout": 0.1, "emb_dropout": 0.1},
    "memory": {"num_memory_tokens": 4},
    "residual attention": {"residual_attn": True},
    "gated residual": {"gate_residual": True},
    "shifted tokens": {"shift_tokens": 1},
    "macaron": {"macaron": True},
    "top k": {"attn_sparse_topk": 4},
    "layer dropout": {"layer_dropout": 0.3},
}
for _name, _options in OPTIONS.items():
    register(f"x_transformers.{_name}", _transformer(**_options), tokens(16))


def _padded(g: torch.Generator, n: int) -> tuple[Any, ...]:
    ids = torch.randint(0, 64, (n, 16), generator=g)
    kept = torch.arange(16) < torch.randint(4, 17, (n, 1), generator=g)
    return ids, Kwargs(mask=kept)


register("x_transformers.mask", _transformer("Encoder"), _padded)
register("x_transformers.loss", lambda: named("x_transformers:AutoregressiveWrapper")(_transformer()()), tokens(16))  # fmt: skip
model("x_transformers:XTransformer", lambda g, n: (torch.randint(0, 64, (n, 16), generator=g), torch.randint(0, 64, (n, 12), generator=g)), dim=32, enc_num_tokens=64, enc_depth=1, enc_heads=2, enc_max_seq_len=32, dec_num_tokens=64, dec_depth=1, dec_heads=2, dec_max_seq_len=32)  # fmt: skip

model("performer_pytorch:PerformerLM", tokens(32), num_tokens=64, max_seq_len=64, dim=32, depth=1, heads=2)  # fmt: skip
model("reformer_pytorch:ReformerLM", tokens(64), num_tokens=64, dim=32, depth=1, max_seq_len=64, heads=2, bucket_size=8, n_hashes=2, causal=True)  # fmt: skip
model("linformer:LinformerLM", tokens(32), num_tokens=64, dim=32, seq_len=32, depth=1, heads=2, k=8)  # fmt: skip
model("conformer:ConformerBlock", floats(16, 32), dim=32, dim_head=16, heads=2)
model("local_attention:LocalTransformer", tokens(32), num_tokens=64, dim=32, depth=1, max_seq_len=64, local_attn_window_size=8, causal=True, heads=2, dim_head=16)  # fmt: skip
model("perceiver_pytorch:Perceiver", floats(16, 16, 3), input_channels=3, input_axis=2, num_freq_bands=4, max_freq=10.0, depth=2, num_latents=8, latent_dim=32, cross_heads=1, latent_heads=2, cross_dim_head=16, latent_dim_head=16, num_classes=10)  # fmt: skip
model("perceiver_pytorch:PerceiverIO", lambda g, n: (torch.randn(n, 16, 32, generator=g), Kwargs(queries=torch.randn(10, 32, generator=g))), dim=32, queries_dim=32, logits_dim=10, depth=1, num_latents=8, latent_dim=32, cross_heads=1, latent_heads=2, cross_dim_head=16, latent_dim_head=16)  # fmt: skip
model("mlp_mixer_pytorch:MLPMixer", floats(3, 32, 32), image_size=32, channels=3, patch_size=8, dim=32, depth=2, num_classes=10)  # fmt: skip
model("g_mlp_pytorch:gMLP", tokens(16), num_tokens=64, dim=32, depth=2, seq_len=16)


def _rotated() -> Any:
    rotary = named("rotary_embedding_torch:RotaryEmbedding")(dim=16)

    def attend(r: nn.Module, layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        q = r.rotate_queries_or_keys(layer(x))
        return q @ q.transpose(-1, -2)

    return Calls(attend, rotary, nn.Linear(16, 16))


register("rotary_embedding_torch.attention", _rotated, floats(2, 8, 16))


def _litgpt(name: str, **options: Any) -> Callable[[], Any]:
    def make() -> Any:
        sizes = {"n_layer": 2, "n_embd": 32, "n_head": 4, "n_query_groups": 2}
        sizes |= {"padded_vocab_size": 64, "block_size": 32, "intermediate_size": 48}
        config = named("litgpt:Config").from_name(name, **(sizes | options))
        return named("litgpt:GPT")(config)

    return make


for _name in ("pythia-14m", "Llama-3.2-1B", "phi-2", "Gemma-2-2b", "Qwen3-0.6B", "Mixtral-8x7B-v0.1"):  # fmt: skip
    register(f"litgpt.{_name}", _litgpt(_name, head_size=8), tokens(16))


def _sentences() -> Any:
    from transformers import BertConfig, BertModel

    bert = BertModel(BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48))  # fmt: skip
    pool = named("sentence_transformers.models:Pooling")(32, pooling_mode="mean")

    def embed(b: Any, p: Any, ids: torch.Tensor, mask: torch.Tensor) -> Any:
        seen = b(ids, mask).last_hidden_state
        features = {"token_embeddings": seen, "attention_mask": mask}
        found = p(features)["sentence_embedding"]
        return nn.functional.normalize(found, dim=-1)

    return Calls(embed, bert, pool)


def _sentence(g: torch.Generator, n: int) -> tuple[Any, ...]:
    ids = torch.randint(0, 64, (n, 16), generator=g)
    return ids, (torch.arange(16) < torch.randint(4, 17, (n, 1), generator=g)).long()


register("sentence_transformers.pooled", _sentences, _sentence)


def _chronos() -> Any:
    from transformers import T5Config

    config = T5Config(vocab_size=64, d_model=32, d_ff=48, d_kv=16, num_layers=1, num_heads=2, decoder_start_token_id=0, is_gated_act=False)  # fmt: skip
    config.chronos_config = {"context_length": 32, "prediction_length": 8, "input_patch_size": 8, "input_patch_stride": 8, "quantiles": [0.1, 0.5, 0.9], "use_reg_token": True}  # fmt: skip
    return named("chronos.chronos_bolt:ChronosBoltModelForForecasting")(config)


register("chronos.bolt", _chronos, lambda g, n: (torch.randn(n, 32, generator=g),))


def _patches() -> Any:
    made = named("gluonts.torch.model.patch_tst.module:PatchTSTModel")
    distribution = named("gluonts.torch.distributions:StudentTOutput")()
    return made(prediction_length=4, context_length=16, num_feat_dynamic_real=0, patch_len=4, stride=4, d_model=16, nhead=2, dim_feedforward=16, dropout=0.1, activation="relu", norm_first=False, num_encoder_layers=1, scaling="std", distr_output=distribution, padding_patch="end")  # fmt: skip


register("gluonts.patches", _patches, lambda g, n: (torch.randn(n, 16, generator=g), torch.ones(n, 16)))  # fmt: skip
