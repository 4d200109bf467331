# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small random models of transformers that generate text, and what a user can see of a generation."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable
from typing import Any

import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

V, N, H = 96, 2, 32  # vocabulary, layers, width
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
BASE = {
    "vocab_size": V, "hidden_size": H, "num_hidden_layers": N, "num_attention_heads": 4,
    "intermediate_size": 64, "max_position_embeddings": 128, "initializer_range": 0.5, **TOKENS,
}  # fmt: skip
LLAMA = {**BASE, "num_key_value_heads": 2, "head_dim": 8}
SLIDING = {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]}
ENCODER_DECODER = {
    "vocab_size": V, "d_model": H, "encoder_layers": N, "decoder_layers": N, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 128,
    "decoder_start_token_id": 1, "init_std": 0.5, "forced_eos_token_id": None, **TOKENS,
}  # fmt: skip
MOE = {**LLAMA, "num_experts_per_tok": 2}

#: By name: the class of the model and what its configuration is given.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", {"vocab_size": V, "n_embd": H, "n_layer": N, "n_head": 4, "n_positions": 128,
                                 "initializer_range": 0.5, **TOKENS}),
    "llama": ("LlamaForCausalLM", LLAMA),
    "qwen2": ("Qwen2ForCausalLM", LLAMA),
    "qwen3": ("Qwen3ForCausalLM", LLAMA),
    "mistral": ("MistralForCausalLM", {**LLAMA, "sliding_window": 8}),
    "gemma": ("GemmaForCausalLM", LLAMA),
    "gemma2": ("Gemma2ForCausalLM", {**LLAMA, **SLIDING}),
    "gemma3": ("Gemma3ForCausalLM", {**LLAMA, **SLIDING}),
    "mixtral": ("MixtralForCausalLM", {**MOE, "num_local_experts": 4, "sliding_window": None}),
    "qwen2-moe": ("Qwen2MoeForCausalLM", {**MOE, "num_experts": 4, "moe_intermediate_size": 16,
                                          "shared_expert_intermediate_size": 16}),
    "qwen3-moe": ("Qwen3MoeForCausalLM", {**MOE, "num_experts": 4, "moe_intermediate_size": 16}),
    "mamba": ("MambaForCausalLM", {"vocab_size": V, "hidden_size": H, "num_hidden_layers": N, "state_size": 8,
                                   "initializer_range": 0.5, **TOKENS}),
    "t5": ("T5ForConditionalGeneration", {"vocab_size": V, "d_model": H, "d_kv": 8, "d_ff": 64, "num_layers": N,
                                          "num_heads": 4, "decoder_start_token_id": 0, "initializer_factor": 4.0}),
    "bart": ("BartForConditionalGeneration", ENCODER_DECODER),
    "whisper": ("WhisperForConditionalGeneration", {**ENCODER_DECODER, "max_source_positions": 32,
                                                    "max_target_positions": 128, "num_mel_bins": 8,
                                                    "suppress_tokens": None, "begin_suppress_tokens": None}),
    "opt": ("OPTForCausalLM", {"vocab_size": V, "hidden_size": H, "num_hidden_layers": N, "num_attention_heads": 4,
                               "ffn_dim": 64, "word_embed_proj_dim": H, "max_position_embeddings": 128,
                               "init_std": 0.5, **TOKENS}),
    "bloom": ("BloomForCausalLM", {"vocab_size": V, "hidden_size": H, "n_layer": N, "n_head": 4,
                                   "initializer_range": 0.5, **TOKENS}),
    "phi": ("PhiForCausalLM", LLAMA),
    "gpt-oss": ("GptOssForCausalLM", {**MOE, **SLIDING, "num_local_experts": 4}),
    "falcon": ("FalconForCausalLM", {**BASE, "new_decoder_architecture": False}),
    "gpt-neox": ("GPTNeoXForCausalLM", BASE),
}  # fmt: skip


def build(name: str, seed: int = 0, **config: Any) -> Any:
    """A model with random weights; large ones, so that logits are far from tied."""
    import transformers

    logging.getLogger("transformers").setLevel(logging.ERROR)
    kind, settings = MODELS[name]
    model_class = getattr(transformers, kind)
    torch.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model_class(model_class.config_class(**{**settings, **config}))
    return model.eval()


def prompt(
    model: Any, batch: int = 2, length: int = 5, seed: int = 0
) -> dict[str, Any]:
    """What `generate` is given, tokens from 3 on."""
    generator = torch.Generator().manual_seed(seed)
    if model.config.model_type == "whisper":
        return {"input_features": torch.randn(batch, 8, 64, generator=generator)}
    tokens = torch.randint(3, V, (batch, length), generator=generator)
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}


def cache_tensors(cache: Any) -> list[Any]:
    """What a cache holds: tensors and numbers of each layer, in order."""
    if cache is None:
        return []
    halves = ("self_attention_cache", "cross_attention_cache")
    if hasattr(cache, halves[0]):
        return [t for half in halves for t in cache_tensors(getattr(cache, half))]
    return [
        (name, _plain(value))
        for layer in cache.layers
        for name, value in sorted(vars(layer).items())
        if isinstance(value, (torch.Tensor, int, list, dict))
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return [(key, _plain(v)) for key, v in value.items()]
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value


def visible(result: Any) -> list[Any]:
    """Tokens, logits and scores of a generation, caches, and the state of the random stream."""
    if isinstance(result, torch.Tensor):
        seen: list[Any] = [result.clone()]
    else:
        fields = ("sequences", "sequences_scores", "logits", "scores", "beam_indices")
        seen = [_plain(getattr(result, name, None)) for name in fields]
        seen.append(cache_tensors(getattr(result, "past_key_values", None)))
    return [*seen, torch.get_rng_state()]


def attempt(call: Callable[[], Any]) -> list[Any]:
    """What a call shows, or the error that it raises."""
    try:
        return visible(call())
    except Exception as error:
        return [type(error).__name__, str(error)]


def alike(have: Any, want: Any, where: str = "") -> None:
    """Tokens, numbers and errors are equal; floats agree as those of different orders of additions do."""
    if isinstance(want, torch.Tensor):
        assert isinstance(have, torch.Tensor), (where, have)
        if want.is_floating_point():
            torch.testing.assert_close(
                have, want, rtol=1e-3, atol=1e-3, msg=lambda m: f"{where}: {m}"
            )
        else:
            assert have.dtype == want.dtype and torch.equal(have, want), (
                where,
                have,
                want,
            )
        assert have.stride() == want.stride() or not want.numel(), (
            where,
            have.stride(),
            want.stride(),
        )
    elif isinstance(want, (list, tuple)):
        assert type(have) is type(want) and len(have) == len(want), (where, have, want)
        for index, pair in enumerate(zip(have, want, strict=True)):
            alike(*pair, where=f"{where}[{index}]")
    else:
        assert have == want, (where, have, want)
