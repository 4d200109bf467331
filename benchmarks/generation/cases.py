# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The models that generate, each in two sizes: `full`, and `tiny` for tests. Weights are random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from cases.models import _quiet_transformers

#: No token ends a generation: each has the length that was asked for.
ENDLESS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}


@dataclass(frozen=True)
class Case:
    about: str
    model: str  # a class of transformers
    full: dict[str, Any]
    tiny: dict[str, Any]
    #: A CPU's memory feeds it a few times a second: few tokens are generated there.
    large: bool = False
    #: A token reads all weights but the embedding: neither experts nor an encoder.
    dense: bool = True


def decoder(
    vocabulary: int, width: int, inner: int, layers: int, heads: int, groups: int
) -> dict[str, Any]:
    return {
        "vocab_size": vocabulary, "hidden_size": width, "intermediate_size": inner, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": groups, "max_position_embeddings": 2048,
    }  # fmt: skip


def encoder_decoder(
    vocabulary: int, width: int, layers: int, heads: int
) -> dict[str, Any]:
    sides = {
        f"{side}_{what}": value
        for side in ("encoder", "decoder")
        for what, value in (("layers", layers), ("attention_heads", heads), ("ffn_dim", 4 * width))
    }  # fmt: skip
    return {"vocab_size": vocabulary, "d_model": width, **sides, "decoder_start_token_id": 1, "forced_eos_token_id": None}  # fmt: skip


TINY = decoder(96, 32, 64, 2, 4, 2)
TINY_MOE = {**TINY, "num_experts_per_tok": 2}

CASES = {
    "gpt2": Case(
        "GPT-2, 124M", "GPT2LMHeadModel", {},
        {"vocab_size": 96, "n_embd": 32, "n_layer": 2, "n_head": 4},
    ),
    "llama-160m": Case("Llama, 162M", "LlamaForCausalLM", decoder(32000, 768, 3072, 12, 12, 12), TINY),
    "llama-1b": Case("Llama 3.2's sizes, 1.2B", "LlamaForCausalLM",
                     {**decoder(128256, 2048, 8192, 16, 32, 8), "tie_word_embeddings": True}, TINY, large=True),
    "qwen3": Case("Qwen3's sizes, 0.6B", "Qwen3ForCausalLM",
                  {**decoder(151936, 1024, 3072, 28, 16, 8), "head_dim": 128, "tie_word_embeddings": True},
                  {**TINY, "head_dim": 8}, large=True),
    "gemma3": Case("Gemma 3's layers, sliding windows of 512, 8 of 640", "Gemma3ForCausalLM",
                   {**decoder(32000, 640, 2048, 8, 4, 1), "head_dim": 256, "sliding_window": 512},
                   {**TINY, "head_dim": 8, "sliding_window": 8}),
    "mixtral": Case("Mixtral, 6 layers of 512, 8 experts, 2 of them a token", "MixtralForCausalLM",
                    {**decoder(32000, 512, 1024, 6, 8, 4), "num_local_experts": 8, "num_experts_per_tok": 2},
                    {**TINY_MOE, "num_local_experts": 4}, dense=False),
    "qwen2-moe": Case("Qwen2-MoE, 6 layers of 512, 8 experts and a shared one", "Qwen2MoeForCausalLM",
                      {**decoder(32000, 512, 1024, 6, 8, 4), "num_experts": 8, "num_experts_per_tok": 2,
                       "moe_intermediate_size": 512, "shared_expert_intermediate_size": 1024},
                      {**TINY_MOE, "num_experts": 4, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16}, dense=False),
    "mamba": Case("Mamba, 12 layers of 768", "MambaForCausalLM",
                  {"vocab_size": 32000, "hidden_size": 768, "num_hidden_layers": 12, "state_size": 16},
                  {"vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}),
    "t5": Case("T5 base's layers, 6 of 768 on each side", "T5ForConditionalGeneration",
               {"vocab_size": 32128, "d_model": 768, "d_kv": 64, "d_ff": 3072, "num_layers": 6, "num_heads": 12,
                "decoder_start_token_id": 0},
               {"vocab_size": 96, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4,
                "decoder_start_token_id": 0}, dense=False),
    "bart": Case("BART base, 139M", "BartForConditionalGeneration", encoder_decoder(50265, 768, 6, 12),
                 encoder_decoder(96, 32, 2, 4), dense=False),
    "opt": Case("OPT, 125M", "OPTForCausalLM", {},
                {"vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 64,
                 "word_embed_proj_dim": 32}),
    "bloom": Case("Bloom, 12 layers of 768", "BloomForCausalLM",
                  {"vocab_size": 32000, "hidden_size": 768, "n_layer": 12, "n_head": 12},
                  {"vocab_size": 96, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
}  # fmt: skip


def make(name: str, size: str) -> torch.nn.Module:
    _quiet_transformers()
    import transformers

    case = CASES[name]
    kind = getattr(transformers, case.model)
    torch.manual_seed(0)
    settings = case.full if size == "full" else case.tiny
    model = kind(kind.config_class(**{**ENDLESS, **settings})).eval()
    model.generation_config.eos_token_id = None
    return model


def prompt(
    model: torch.nn.Module, batch: int, length: int, seed: int
) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(3, model.config.vocab_size, (batch, length), generator=generator)  # fmt: skip
    tokens = tokens.to(model.device)
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
