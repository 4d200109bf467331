# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fine-tuning on padded batches, whose rows and lengths differ: gradients are eager's, and it becomes one graph.

Transformers asks in each call whether a batch has padding, behind a cache that the call makes: calls take one way
there, and what follows cannot be joined with what is in front.
"""

from __future__ import annotations

import pyjit
import pytest
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

SIZES = {"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 1}


def bert() -> torch.nn.Module:
    return BertForSequenceClassification(
        BertConfig(
            **SIZES,
            num_attention_heads=2,
            intermediate_size=24,
            num_labels=3,
            problem_type="single_label_classification",
        )
    )


def gpt2() -> torch.nn.Module:
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=60,
            n_embd=16,
            n_layer=1,
            n_head=2,
            bos_token_id=1,
            eos_token_id=2,
        )
    )


def llama() -> torch.nn.Module:
    return LlamaForCausalLM(
        LlamaConfig(
            **SIZES,
            intermediate_size=24,
            num_attention_heads=2,
            num_key_value_heads=1,
        )
    )


def batch(number: int, classes: bool) -> dict[str, torch.Tensor]:
    """Padded behind; the first batch of each ten has fewer rows."""
    g = torch.Generator().manual_seed(number)
    rows = 5 if number % 10 == 0 else 8
    length = int(torch.randint(6, 30, (1,), generator=g))
    lengths = torch.randint(2, length, (rows,), generator=g)
    lengths[0] = length
    mask = (torch.arange(length) < lengths[:, None]).long()
    ids = torch.randint(3, 60, (rows, length), generator=g) * mask
    labels = ids.masked_fill(mask == 0, -100)
    if classes:
        labels = torch.randint(0, 3, (rows,), generator=g)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


@pytest.mark.alone
@pytest.mark.parametrize("make", [bert, gpt2, llama])
def test_becomes_one_graph(make: type) -> None:
    torch.manual_seed(0)
    model = make().train()
    fast = pyjit.compile(model, options={"compare_with_eager": True})
    for number in range(40):
        given = batch(number, classes=make is bert)
        found = []
        for function in (model, fast):
            torch.manual_seed(number)  # dropout
            model.zero_grad()
            loss = function(**given).loss
            loss.backward()
            found.append([loss.detach(), *(p.grad for p in model.parameters())])
        torch.testing.assert_close(found[1], found[0], msg=f"batch {number}")
    stats = pyjit.stats(fast)
    assert stats["graph_breaks"] == 0, pyjit.explain(fast)
    assert stats["hits"] + stats["eager_calls"] > 20, pyjit.explain(fast)
