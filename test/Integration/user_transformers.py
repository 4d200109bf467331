# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Transformers, experts and scans, as people publish them, for `test_user_programs.py`."""

# The spellings are those of the programs.
# ruff: noqa: C408, RUF059

from __future__ import annotations

import copy
import dataclasses
import math
from typing import Any

import torch
import torch.nn.functional as F
from Integration.user_driver import User, user, user_of_parts
from torch import nn

# A GPT by hand, with a cache of keys and values -------------------------------------


@dataclasses.dataclass
class GPTConfig:
    vocab: int = 17
    width: int = 8
    heads: int = 2
    layers: int = 2
    block: int = 32
    dropout: float = 0.0
    bias: bool = True


@dataclasses.dataclass
class LayerCache:
    k: torch.Tensor | None = None
    v: torch.Tensor | None = None

    def update(
        self, k: torch.Tensor, v: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if self.k is not None:
            k = torch.cat([self.k, k], dim=2)
            v = torch.cat([self.v, v], dim=2)
        self.k, self.v = k, v
        return k, v

    @property
    def length(self) -> int:
        return 0 if self.k is None else self.k.size(2)


class CausalSelfAttention(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        assert config.width % config.heads == 0
        self.c_attn = nn.Linear(config.width, 3 * config.width, bias=config.bias)
        self.c_proj = nn.Linear(config.width, config.width, bias=config.bias)
        self.heads, self.width = config.heads, config.width
        self.register_buffer(
            "mask",
            torch.tril(torch.ones(config.block, config.block)).view(
                1, 1, config.block, config.block
            ),
            persistent=False,
        )

    def forward(self, x: torch.Tensor, cache: LayerCache | None = None) -> torch.Tensor:
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.width, dim=2)
        q, k, v = (
            t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in (q, k, v)
        )
        past = cache.length if cache is not None else 0
        if cache is not None:
            k, v = cache.update(k, v)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(
            self.mask[:, :, past : past + T, : past + T] == 0, float("-inf")
        )
        att = F.softmax(att, dim=-1)
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)


class Block(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.attn = CausalSelfAttention(config)
        self.mlp = nn.ModuleDict(
            dict(
                c_fc=nn.Linear(config.width, 4 * config.width),
                act=nn.GELU(approximate="tanh"),
                c_proj=nn.Linear(4 * config.width, config.width),
                dropout=nn.Dropout(config.dropout),
            )
        )
        m = self.mlp
        self.mlpf = lambda x: m.dropout(m.c_proj(m.act(m.c_fc(x))))

    def forward(self, x: torch.Tensor, cache: LayerCache | None = None) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x), cache)
        return x + self.mlpf(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.transformer = nn.ModuleDict(
            dict(
                wte=nn.Embedding(config.vocab, config.width),
                wpe=nn.Embedding(config.block, config.width),
                h=nn.ModuleList([Block(config) for _ in range(config.layers)]),
                ln_f=nn.LayerNorm(config.width),
            )
        )
        self.lm_head = nn.Linear(config.width, config.vocab, bias=False)
        self.transformer.wte.weight = self.lm_head.weight

    def forward(
        self,
        idx: torch.Tensor,
        targets: torch.Tensor | None = None,
        caches: list[LayerCache] | None = None,
    ) -> Any:
        device = idx.device
        b, t = idx.size()
        past = caches[0].length if caches else 0
        assert past + t <= self.config.block, (
            f"Cannot forward sequence of length {past + t}"
        )
        pos = torch.arange(past, past + t, dtype=torch.long, device=device)
        x = self.transformer.wte(idx) + self.transformer.wpe(pos)
        for i, block in enumerate(self.transformer.h):
            x = block(x, caches[i] if caches else None)
        x = self.transformer.ln_f(x)
        if targets is not None:
            logits = self.lm_head(x)
            loss = F.cross_entropy(
                logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1
            )
            return logits, loss
        return self.lm_head(x[:, [-1], :]), None

    @torch.no_grad()
    def generate(
        self,
        idx: torch.Tensor,
        new: int,
        temperature: float = 1.0,
        top_k: int | None = None,
    ) -> torch.Tensor:
        caches = [LayerCache() for _ in range(self.config.layers)]
        feed = idx
        for _ in range(new):
            logits, _ = self(feed, caches=caches)
            logits = logits[:, -1, :] / temperature
            if top_k is not None:
                v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
                logits[logits < v[:, [-1]]] = -float("Inf")
            feed = torch.argmax(F.softmax(logits, dim=-1), dim=-1, keepdim=True)
            idx = torch.cat((idx, feed), dim=1)
        return idx


@user
def gpt_loss() -> User:
    model = GPT(GPTConfig())
    return User(
        model,
        lambda d: (d.ints(17, 2, d.n), d.ints(17, 2, d.n)),
        None,
        (
            lambda: setattr(model.config, "block", 6),
            lambda: model.transformer.h.append(Block(model.config)),
            lambda: model.transformer.h.__delitem__(0),
        ),
        modules=(model,),
    )


@user
def gpt_generate() -> User:
    model = GPT(GPTConfig())
    return User(
        lambda x: model.generate(x, 5, 0.8, 3),
        lambda d: (d.ints(17, 2, d.n),),
        modules=(model,),
    )


@user
def gpt_step_with_cache() -> User:
    model = GPT(GPTConfig())
    caches = [LayerCache() for _ in range(2)]

    def reset() -> None:
        for c in caches:
            c.k = c.v = None

    def step(idx: torch.Tensor) -> torch.Tensor:
        if caches[0].length + idx.size(1) > 16:
            for c in caches:
                c.k = c.v = None
        with torch.no_grad():
            logits, _ = model(idx, caches=caches)
        return logits.argmax(-1)

    return User(
        step,
        lambda d: (d.ints(17, 1, 1 if d.n == 4 else d.n),),
        caches,
        (reset, reset),
        modules=(model,),
    )


# Mixture of experts ------------------------------------------------------------------------


class MoE(nn.Module):
    def __init__(self, d: int = 6, n: int = 3, k: int = 2) -> None:
        super().__init__()
        self.gate, self.k = nn.Linear(d, n, bias=False), k
        self.experts = nn.ModuleList(
            [
                nn.Sequential(nn.Linear(d, 8), nn.SiLU(), nn.Linear(8, d))
                for _ in range(n)
            ]
        )
        self.register_buffer("load", torch.zeros(n))
        self.aux: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        probs = self.gate(x).softmax(-1, dtype=torch.float)
        w, idx = probs.topk(self.k, dim=-1)
        w = (w / w.sum(-1, keepdim=True)).to(x.dtype)
        out = torch.zeros_like(x)
        mask = F.one_hot(idx, num_classes=len(self.experts)).permute(2, 1, 0)
        for i, expert in enumerate(self.experts):
            slot, token = torch.where(mask[i])
            if token.numel() == 0:
                continue
            out.index_add_(0, token, expert(x[token]) * w[token, slot, None])
        if self.training:
            self.load += mask.sum((1, 2)).float()
            self.aux = (probs.mean(0) * mask.float().mean((1, 2))).sum()
        return out.view(shape)


@user_of_parts
def moe() -> User:
    model = MoE()
    return User(
        model,
        lambda d: (d.floats(2, d.n, 6),),
        None,
        (
            lambda: setattr(model, "k", 1),
            lambda: model.experts.append(copy.deepcopy(model.experts[0])),
        ),
        modules=(model,),
    )


@user
def moe_dense() -> User:
    model = MoE()

    def f(x: torch.Tensor) -> Any:
        logits = model.gate(x)
        top, idx = logits.topk(model.k, -1)
        gates = torch.full_like(logits, float("-inf")).scatter(-1, idx, top).softmax(-1)
        outs = torch.stack([e(x) for e in model.experts], dim=-2)
        return torch.einsum("...e,...ed->...d", gates, outs), idx

    return User(
        f,
        lambda d: (d.floats(d.n, 6),),
        None,
        (lambda: setattr(model, "k", 1),),
        modules=(model,),
    )


# Rotary embeddings, ALiBi, sliding windows ------------------------------------------


class Rotary(nn.Module):
    def __init__(self, dim: int, base: int = 10000) -> None:
        super().__init__()
        self.register_buffer(
            "inv_freq", 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
        )
        self.seq_len_cached: int | None = None
        self.cos_cached: torch.Tensor | None = None
        self.sin_cached: torch.Tensor | None = None

    def forward(
        self, x: torch.Tensor, seq_dim: int = -2
    ) -> tuple[torch.Tensor, torch.Tensor]:
        n = x.shape[seq_dim]
        if n != self.seq_len_cached:
            self.seq_len_cached = n
            t = torch.arange(n, device=x.device).type_as(self.inv_freq)
            freqs = torch.einsum("i,j->ij", t, self.inv_freq)
            emb = torch.cat((freqs, freqs), dim=-1)
            self.cos_cached, self.sin_cached = emb.cos(), emb.sin()
        assert self.cos_cached is not None and self.sin_cached is not None
        return self.cos_cached, self.sin_cached


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


@user
def rotary_cached() -> User:
    rot = Rotary(4)

    def f(q: torch.Tensor, k: torch.Tensor) -> Any:
        cos, sin = rot(q)
        return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin

    return User(f, lambda d: (d.floats(2, d.n, 4), d.floats(2, d.n, 4)), modules=(rot,))


@user_of_parts
def rotary_complex() -> User:
    def precompute(dim: int, end: int, theta: float = 10000.0) -> torch.Tensor:
        freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
        return torch.polar(
            torch.ones(end, dim // 2), torch.outer(torch.arange(end).float(), freqs)
        )

    table = precompute(4, 16)

    def f(q: torch.Tensor, start: int) -> torch.Tensor:
        freqs = table[start : start + q.shape[1]]
        q_ = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
        shape = [d if i == 1 or i == q_.ndim - 1 else 1 for i, d in enumerate(q_.shape)]
        return torch.view_as_real(q_ * freqs.view(*shape)).flatten(3).type_as(q)

    return User(f, lambda d: (d.floats(1, d.n, 2, 4), d.random.choice([0, 1, 5])))


@user
def alibi_window_attention() -> User:
    def slopes(n: int) -> list[float]:
        def power_of_2(n: int) -> list[float]:
            start = 2 ** (-(2 ** -(math.log2(n) - 3)))
            return [start * start**i for i in range(n)]

        if math.log2(n).is_integer():
            return power_of_2(n)
        closest = 2 ** math.floor(math.log2(n))
        return power_of_2(closest) + slopes(2 * closest)[0::2][: n - closest]

    def f(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: int
    ) -> torch.Tensor:
        h, t, d = q.shape
        bias = torch.arange(t)[None] - torch.arange(t)[:, None]
        alibi = torch.tensor(slopes(h)).view(h, 1, 1) * bias.abs().neg()
        allowed = (bias <= 0) & (bias > -window)
        a = q @ k.transpose(-1, -2) / d**0.5 + alibi.to(q.dtype)
        a = a.masked_fill(~allowed, torch.finfo(a.dtype).min)
        return a.softmax(-1, dtype=torch.float32).to(v.dtype) @ v

    return User(
        f,
        lambda d: (
            d.floats(3, d.n, 4),
            d.floats(3, d.n, 4),
            d.floats(3, d.n, 4),
            d.random.choice([2, 2, 3]),
        ),
    )


# A state-space scan, flows, hypernetworks ---------------------------------------------


@user
def selective_scan() -> User:
    A = nn.Parameter(-torch.rand(4, 3))
    D = nn.Parameter(torch.ones(4))
    proj = nn.Linear(4, 7)

    def f(u: torch.Tensor) -> torch.Tensor:
        b, l, d = u.shape
        delta, B, C = proj(u).split([1, 3, 3], dim=-1)
        delta = F.softplus(delta)
        dA = torch.exp(torch.einsum("bld,dn->bldn", delta.expand(b, l, d), A))
        dBu = torch.einsum("bld,bln,bld->bldn", delta.expand(b, l, d), B, u)
        x = torch.zeros((b, d, 3), device=u.device, dtype=dA.dtype)
        ys = []
        for i in range(l):
            x = dA[:, i] * x + dBu[:, i]
            ys.append(torch.einsum("bdn,bn->bd", x, C[:, i, :]))
        if not ys:
            return u * D
        return torch.stack(ys, dim=1) + u * D

    return User(f, lambda d: (d.floats(2, d.n, 4),), (A, D), modules=(proj,))
