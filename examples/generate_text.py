# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Text from a model in a local folder, as `save_pretrained` of transformers writes it.

.venv/bin/python examples/generate_text.py FOLDER "Once upon a time" --tokens 64

Without a folder a tiny model with random weights is written into a temporary one first. Where the folder has no
tokenizer, bytes are tokens.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pyjit
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

Tokens = dict[str, torch.Tensor]


def write_tiny_model(folder: Path) -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    config = LlamaConfig(vocab_size=256, **sizes, **heads, initializer_range=0.5)
    LlamaForCausalLM(config).save_pretrained(folder)


def tokenizer_of(folder: Path) -> Any:
    """The folder's own, or None."""
    if not any(folder.glob("tokenizer*")):
        return None
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def encode(tokenizer: Any, text: str) -> Tokens:
    if tokenizer is not None:
        return dict(tokenizer(text, return_tensors="pt"))
    tokens = torch.tensor([list(text.encode())])
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}


def decode(tokenizer: Any, tokens: torch.Tensor) -> str:
    if tokenizer is not None:
        return tokenizer.decode(tokens, skip_special_tokens=True)
    return bytes(token % 256 for token in tokens.tolist()).decode(errors="replace")


def timed(model: Any, given: Tokens, count: int) -> tuple[torch.Tensor, float]:
    """The tokens of a prompt and its continuation, and how many new ones came in a second."""
    start = time.perf_counter()
    tokens = model.generate(**given, max_new_tokens=count, do_sample=False)[0]
    new = tokens.numel() - given["input_ids"].numel()
    return tokens, new / (time.perf_counter() - start)


def run(folder: Path, text: str, count: int) -> None:
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = tokenizer_of(folder)
    given = encode(tokenizer, text)
    fast = pyjit.compile(model)
    want, _ = timed(model, given, count)
    _, eager = timed(model, given, count)
    # The first two answers are recorded, compiled, and compiled for all lengths.
    for _ in range(3):
        have, compiled = timed(fast, given, count)
    print(decode(tokenizer, have))
    # Of two tokens that are equally likely within rounding, either may come.
    same = int((want[: have.numel()] == have[: want.numel()]).long().cumprod(0).sum())
    print(f"the first {same} of {want.numel()} tokens are eager's")
    print(f"tokens per second: eager {eager:.0f}, pyjit {compiled:.0f}")
    print(pyjit.explain(fast))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("text", nargs="?", default="Once upon a time")
    parser.add_argument("--tokens", type=int, default=32)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        if options.folder is None:
            write_tiny_model(folder)
        run(folder, options.text, options.tokens)


if __name__ == "__main__":
    main()
