# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""transformers: small random configurations of many architectures."""

from __future__ import annotations

import functools
import logging
import os
import warnings
from typing import Any

import torch

from zoo import Inputs, Program, generator

V, N, H = 96, 2, 32  # vocabulary, layers, width
BASE = {
    "vocab_size": V,
    "hidden_size": H,
    "num_hidden_layers": N,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LLAMA = {**BASE, "num_key_value_heads": 2, "head_dim": 8}
ENCDEC = {
    "vocab_size": V,
    "d_model": H,
    "encoder_layers": N,
    "decoder_layers": N,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
T5 = {
    "vocab_size": V,
    "d_model": H,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": N,
    "num_heads": 4,
}
T5 |= {"decoder_start_token_id": 0}
VIT = {
    "hidden_size": H,
    "num_hidden_layers": N,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}
WAV = {
    **BASE,
    "conv_dim": (16, 16),
    "conv_stride": (5, 4),
    "conv_kernel": (10, 8),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
}

RESNET: dict[str, Any] = {
    "model_type": "resnet",
    "embedding_size": 8,
    "hidden_sizes": [8, 8, 16, 16],
    "depths": [1, 1, 1, 1],
    "out_features": ["stage4"],
}

ENCODERS: dict[str, dict[str, Any]] = {
    "BertModel": BASE,
    "BertForMaskedLM": BASE,
    "BertForSequenceClassification": BASE,
    "RobertaModel": BASE,
    "XLMRobertaModel": BASE,
    "CamembertForTokenClassification": BASE,
    "AlbertModel": {**BASE, "embedding_size": 16},
    "DistilBertModel": {"vocab_size": V, "dim": H, "n_layers": N, "n_heads": 4}
    | {"hidden_dim": 64, "max_position_embeddings": 64},
    "ElectraModel": {**BASE, "embedding_size": 16},
    "DebertaModel": {
        **BASE,
        "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"],
    },
    "DebertaV2Model": {
        **BASE,
        "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"],
    }
    | {"position_buckets": 8, "share_att_key": True, "norm_rel_ebd": "layer_norm"},
    "MPNetModel": BASE,
    "MobileBertModel": {**BASE, "embedding_size": 16, "intra_bottleneck_size": 16}
    | {"num_feedforward_networks": 2, "true_hidden_size": 16},
    "SqueezeBertModel": {**BASE, "embedding_size": H},
    "ConvBertModel": {**BASE, "embedding_size": H},
    "FNetModel": BASE,
    "RoFormerModel": {**BASE, "embedding_size": H},
    "LongformerModel": {
        **BASE,
        "attention_window": [4, 4],
        "max_position_embeddings": 80,
    },
    "BigBirdModel": {**BASE, "attention_type": "original_full"},
    "FunnelModel": {"vocab_size": V, "block_sizes": [1, 1], "d_model": H, "n_head": 4}
    | {"d_head": 8, "d_inner": 64},
    "XLNetModel": {
        "vocab_size": V,
        "d_model": H,
        "n_layer": N,
        "n_head": 4,
        "d_inner": 64,
    },
    "ModernBertModel": {**BASE, "local_attention": 8},
    "EsmModel": {**BASE, "position_embedding_type": "rotary", "mask_token_id": 3},
    "CanineModel": {
        **BASE,
        "max_position_embeddings": 64,
        "local_transformer_stride": 8,
    },
    "RemBertModel": {**BASE, "input_embedding_size": 16, "output_embedding_size": 16},
    "ErnieModel": BASE,
    "DPRQuestionEncoder": BASE,
    "T5EncoderModel": T5,
}
# Padding in an attention mask, which transformers looks at in Python.
MASKED = (
    "BertModel",
    "RobertaModel",
    "DistilBertModel",
    "AlbertModel",
    "DebertaV2Model",
)
MASKED += ("ModernBertModel", "XLNetModel", "T5EncoderModel")
DECODERS: dict[str, dict[str, Any]] = {
    "GPT2LMHeadModel": {"vocab_size": V, "n_embd": H, "n_layer": N, "n_head": 4}
    | {"n_positions": 64, "bos_token_id": 1, "eos_token_id": 2},
    "GPTNeoForCausalLM": {**BASE, "num_layers": N, "num_heads": 4}
    | {"attention_types": [[["global", "local"], 1]]},
    "GPTJForCausalLM": {"vocab_size": V, "n_embd": H, "n_layer": N, "n_head": 4}
    | {"rotary_dim": 4, "n_positions": 64},
    "GPTNeoXForCausalLM": BASE,
    "GPTBigCodeForCausalLM": {"vocab_size": V, "n_embd": H, "n_layer": N, "n_head": 4},
    "OPTForCausalLM": {**BASE, "ffn_dim": 64, "word_embed_proj_dim": H},
    "BloomForCausalLM": {"vocab_size": V, "hidden_size": H, "n_layer": N, "n_head": 4},
    "LlamaForCausalLM": LLAMA,
    "MistralForCausalLM": {**LLAMA, "sliding_window": 8},
    "Qwen2ForCausalLM": LLAMA,
    "Qwen3ForCausalLM": LLAMA,
    "GemmaForCausalLM": LLAMA,
    "Gemma2ForCausalLM": {**LLAMA, "sliding_window": 8, "query_pre_attn_scalar": 8},
    "Gemma3ForCausalLM": {**LLAMA, "sliding_window": 8, "query_pre_attn_scalar": 8},
    "PhiForCausalLM": {**LLAMA, "num_key_value_heads": 4},
    "Phi3ForCausalLM": {**LLAMA, "original_max_position_embeddings": 64},
    "FalconForCausalLM": {**BASE, "multi_query": True},
    "StableLmForCausalLM": {**LLAMA, "num_key_value_heads": 4},
    "CohereForCausalLM": LLAMA,
    "OlmoForCausalLM": LLAMA,
    "GraniteForCausalLM": LLAMA,
    "Starcoder2ForCausalLM": LLAMA,
    "MptForCausalLM": {"vocab_size": V, "d_model": H, "n_layers": N, "n_heads": 4},
    "CodeGenForCausalLM": {"vocab_size": V, "n_embd": H, "n_layer": N, "n_head": 4}
    | {"rotary_dim": 4, "n_positions": 64},
    "BioGptForCausalLM": BASE,
    "MixtralForCausalLM": {**LLAMA, "num_local_experts": 4},
    "Qwen2MoeForCausalLM": {**LLAMA, "num_experts": 4, "moe_intermediate_size": 32}
    | {"shared_expert_intermediate_size": 32},
    "MambaForCausalLM": {"vocab_size": V, "hidden_size": H, "num_hidden_layers": N}
    | {"state_size": 4},
    "RwkvForCausalLM": {"vocab_size": V, "hidden_size": H, "num_hidden_layers": N},
}
ENCODER_DECODERS: dict[str, dict[str, Any]] = {
    "T5ForConditionalGeneration": T5,
    "MT5Model": T5,
    "LongT5Model": {**T5, "local_radius": 4},
    "BartForConditionalGeneration": ENCDEC,
    "MBartModel": ENCDEC,
    "PegasusModel": ENCDEC,
    "MarianMTModel": ENCDEC,
    "M2M100Model": ENCDEC,
    "BlenderbotSmallModel": ENCDEC,
    "LEDModel": {
        **ENCDEC,
        "attention_window": 4,
        "max_encoder_position_embeddings": 64,
    },
    "ProphetNetModel": {"vocab_size": V, "hidden_size": H, "num_encoder_layers": N}
    | {"num_decoder_layers": N, "num_encoder_attention_heads": 4, "encoder_ffn_dim": 64}
    | {"num_decoder_attention_heads": 4, "decoder_ffn_dim": 64},
}
VISION: dict[str, dict[str, Any]] = {
    "ViTForImageClassification": VIT,
    "DeiTModel": VIT,
    "BeitModel": VIT,
    "Dinov2Model": VIT,
    "ViTMAEModel": VIT,
    "SiglipVisionModel": VIT,
    "CLIPVisionModel": VIT,
    "YolosModel": {**VIT, "image_size": [32, 32], "num_detection_tokens": 4},
    "SwinModel": {"image_size": 32, "patch_size": 2, "embed_dim": 8, "depths": [1, 1]}
    | {"num_heads": [2, 2], "window_size": 4},
    "Swinv2Model": {"image_size": 32, "patch_size": 2, "embed_dim": 8, "depths": [1, 1]}
    | {"num_heads": [2, 2], "window_size": 4},
    "ConvNextModel": {"hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1]},
    "ResNetModel": {"embedding_size": 8, "hidden_sizes": [8, 8, 16, 16]}
    | {"depths": [1, 1, 1, 1]},
    "SegformerForSemanticSegmentation": {"hidden_sizes": [8, 8, 16, 16]}
    | {
        "depths": [1, 1, 1, 1],
        "num_attention_heads": [1, 2, 2, 4],
        "decoder_hidden_size": 16,
    },
    "MobileViTModel": {"hidden_sizes": [8, 16, 16], "neck_hidden_sizes": [4] * 7}
    | {"num_attention_heads": 2, "image_size": 64},
    "PoolFormerModel": {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]},
    "PvtV2Model": {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]}
    | {"num_attention_heads": [1, 2, 2, 4]},
    "DPTForDepthEstimation": {
        **VIT,
        "backbone_out_indices": [0, 1, 2, 3],
        "num_hidden_layers": 4,
    }
    | {"neck_hidden_sizes": [8, 8, 8, 8], "fusion_hidden_size": 8, "is_hybrid": False},
    "DetrModel": {"use_timm_backbone": False, "use_pretrained_backbone": False}
    | {"backbone_config": RESNET, "d_model": H}
    | {"encoder_layers": 1, "decoder_layers": 1}
    | {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_queries": 5},
}
AUDIO: dict[str, dict[str, Any]] = {
    "Wav2Vec2Model": WAV,
    "HubertModel": WAV,
    "WavLMModel": WAV,
    "SEWModel": {**WAV, "squeeze_factor": 2},
    "UniSpeechModel": WAV,
    "ASTModel": {**VIT, "max_length": 64, "num_mel_bins": 16, "patch_size": 8},
}


def _quiet() -> Any:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    logging.getLogger("transformers").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    import transformers

    return transformers


def build(name: str, config: dict[str, Any]) -> torch.nn.Module:
    transformers = _quiet()
    torch.manual_seed(0)
    cls = getattr(transformers, name)
    return cls(cls.config_class(**config)).eval()


def tokens(which: str, batch: int = 2) -> torch.Tensor:
    length = 24 if which == "shape" else 16
    return torch.randint(3, V, (batch, length), generator=generator(which))


def _encoder(name: str, config: Any, masked: bool) -> tuple[Any, Inputs]:
    model = build(name, config)

    def inputs(which: str) -> Any:
        ids = tokens(which)
        if not masked:
            return (ids,), {}
        mask = torch.ones_like(ids)
        mask[1, -4:] = 0
        return (), {"input_ids": ids, "attention_mask": mask}

    return model, inputs


def _decoder(name: str, config: Any, cache: bool) -> tuple[Any, Inputs]:
    model = build(name, config)
    return model, lambda which: ((tokens(which),), {"use_cache": cache})


def _encoder_decoder(name: str, config: Any, cache: bool) -> tuple[Any, Inputs]:
    model = build(name, config)

    def inputs(which: str) -> Any:
        ids = tokens(which)
        return (), {
            "input_ids": ids,
            "decoder_input_ids": ids[:, :6],
            "use_cache": cache,
        }

    return model, inputs


def _image(name: str, config: Any) -> tuple[Any, Inputs]:
    model = build(name, config)
    size = config.get("image_size", 64)
    size = size[0] if isinstance(size, list) else size

    def inputs(which: str) -> Any:
        batch = 3 if which == "shape" else 2
        shape = (batch, 3, size, size)
        if name == "ViTMAEModel":
            noise = torch.rand(batch, 16, generator=generator("first"))
            return (torch.randn(shape, generator=generator(which)),), {"noise": noise}
        return (torch.randn(shape, generator=generator(which)),), {}

    return model, inputs


def _audio(name: str, config: Any) -> tuple[Any, Inputs]:
    model = build(name, config)

    def inputs(which: str) -> Any:
        batch = 3 if which == "shape" else 2
        shape = (batch, 64, 16) if name == "ASTModel" else (batch, 1600)
        return (torch.randn(shape, generator=generator(which)),), {}

    return model, inputs


def _whisper(cache: bool) -> tuple[Any, Inputs]:
    config = {**ENCDEC, "num_mel_bins": 16, "max_source_positions": 30}
    config |= {"max_target_positions": 32}
    model = build("WhisperForConditionalGeneration", config)

    def inputs(which: str) -> Any:
        features = torch.randn(2, 16, 60, generator=generator(which))
        ids = tokens(which)[:, : 8 if which == "shape" else 6]
        return (features, None, ids), {"use_cache": cache}

    return model, inputs


def _clip() -> tuple[Any, Inputs]:
    config = {"text_config": BASE, "vision_config": VIT, "projection_dim": 16}
    model = build("CLIPModel", config)

    def inputs(which: str) -> Any:
        pixels = torch.randn(2, 3, 32, 32, generator=generator(which))
        return (tokens(which), pixels), {}

    return model, inputs


def _decode_step(name: str, config: Any) -> tuple[Any, Inputs]:
    """One step with a cache from before the call, which the step extends."""
    model = build(name, config)

    def inputs(which: str) -> Any:
        ids = tokens(which)
        cache = model(ids, use_cache=True).past_key_values
        return (ids[:, -1:],), {"past_key_values": cache, "use_cache": True}

    return model, inputs


def _prefill_and_step(name: str, config: Any) -> tuple[Any, Inputs]:
    model = build(name, config)

    def run(ids: torch.Tensor) -> Any:
        out = model(ids, use_cache=True)
        token = out.logits[:, -1:].argmax(-1)
        again = model(token, past_key_values=out.past_key_values, use_cache=True)
        return token, again.logits

    return run, lambda which: ((tokens(which),), {})


def _generate(name: str, config: Any) -> tuple[Any, Inputs]:
    model = build(name, config)

    def run(ids: torch.Tensor) -> Any:
        return model.generate(ids, max_new_tokens=3, do_sample=False)

    return run, lambda which: ((tokens(which),), {})


def programs() -> list[Program]:
    out: list[Program] = []

    def add(name: str, make: Any, *args: Any) -> None:
        out.append(
            Program(f"hf.{name}", "transformers", functools.partial(make, *args))
        )

    for name, config in ENCODERS.items():
        add(name, _encoder, name, config, False)
    for name in MASKED:
        add(f"{name}-mask", _encoder, name, ENCODERS[name], True)
    for name, config in DECODERS.items():
        add(name, _decoder, name, config, False)
        add(f"{name}-cache", _decoder, name, config, True)
    for name, config in ENCODER_DECODERS.items():
        add(name, _encoder_decoder, name, config, False)
    for name in ("T5ForConditionalGeneration", "BartForConditionalGeneration"):
        add(f"{name}-cache", _encoder_decoder, name, ENCODER_DECODERS[name], True)
    for name, config in VISION.items():
        add(name, _image, name, config)
    for name, config in AUDIO.items():
        add(name, _audio, name, config)
    add("Whisper", _whisper, False)
    add("Whisper-cache", _whisper, True)
    add("CLIPModel", _clip)
    for name in ("GPT2LMHeadModel", "LlamaForCausalLM"):
        add(f"{name}-step", _decode_step, name, DECODERS[name])
        add(f"{name}-prefill-and-step", _prefill_and_step, name, DECODERS[name])
        add(f"{name}-generate", _generate, name, DECODERS[name])
    return out
