# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random networks of layers in evaluation mode, of images and of sequences: what lib/Library joins, folds and packs,
and matmuls with their epilogues, against eager.

Sizes are small, and ones and rests behind whole vectors are frequent: special cases are there.
PYJIT_EXAMPLES sets the number of networks of each kind, 15 by default.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration.tolerances import apart, bounds
from torch import nn

EXAMPLES = int(os.environ.get("PYJIT_EXAMPLES", "15"))
CALLS = 3
GROWTH = (0, 0, 1, 3, 0, 2)  # of the first size, where sizes differ between calls
SIZES = (1, 1, 2, 3, 5, 7, 16)
CHANNELS = (1, 2, 3, 8, 16, 24)
ACTIVATIONS = (
    nn.ReLU(), nn.GELU(), nn.GELU(approximate="tanh"), nn.SiLU(), nn.Sigmoid(), nn.Tanh(),
    nn.Hardswish(), nn.LeakyReLU(0.1), nn.ReLU6(), nn.ELU(),
)  # fmt: skip

Shape = tuple[int, ...]
Step = Callable[[list[torch.Tensor]], torch.Tensor]


class Network(nn.Module):
    """Steps, each on the values so far; answers the last value and one of all."""

    def __init__(self, rng: random.Random, shape: Shape) -> None:
        super().__init__()
        self.rng = rng
        self.layers = nn.ModuleList()
        self.steps: list[Step] = []
        self.shapes = [shape]
        self.text = [str(shape)]
        kinds = self.kinds()
        for _ in range(rng.randint(2, 7)):
            rng.choice(kinds)()
            if rng.random() < 0.4:
                self.layer(rng.choice(ACTIVATIONS), self.shapes[-1])
        self.kept = rng.randrange(len(self.shapes))

    def kinds(self) -> tuple[Callable[[], None], ...]:
        raise NotImplementedError

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values = [x]
        for step in self.steps:
            values.append(step(values))
        return values[-1], values[self.kept]

    def step(self, what: Step, shape: Shape, text: str) -> None:
        self.steps.append(what)
        self.shapes.append(shape)
        self.text.append(f"{text} -> {shape}")

    def layer(self, layer: nn.Module, shape: Shape) -> None:
        self.layers.append(layer)
        self.step(lambda values: layer(values[-1]), shape, str(layer))

    def own(self, layer: nn.Module) -> nn.Module:
        self.layers.append(layer)
        return layer

    def addition(self) -> None:
        """Of the last value and an earlier one, which may be the same."""
        fits = [
            i for i, shape in enumerate(self.shapes)
            if len(shape) == len(self.shapes[-1])
            and all(a in (1, b) for a, b in zip(shape, self.shapes[-1], strict=True))
        ]  # fmt: skip
        at, swapped = self.rng.choice(fits), self.rng.random() < 0.5
        kind = self.rng.choice((torch.add, torch.add, torch.mul))
        self.step(
            lambda v: kind(v[at], v[-1]) if swapped else kind(v[-1], v[at]),
            self.shapes[-1],
            f"{kind.__name__} of {at} and the last",
        )


class Images(Network):
    def kinds(self) -> tuple[Callable[[], None], ...]:
        often = (self.convolution,) * 4 + (self.addition,) * 3
        return (*often, self.norm, self.linear, self.pool, self.join)

    def convolution(self) -> None:
        rng, (n, c, h, w) = self.rng, self.shapes[-1]
        kernel = rng.choice([k for k in (1, 1, 3, 5) if k <= 2 * min(h, w) + 1])
        stride = rng.choice((1, 1, 1, 2))
        groups = rng.choice([g for g in (1, 1, c) if c % g == 0])
        out = c * rng.choice((1, 1, 2)) if groups > 1 else rng.choice((c, *CHANNELS))
        layer = nn.Conv2d(c, out, kernel, stride, kernel // 2, groups=groups, bias=rng.random() < 0.6)  # fmt: skip
        self.layer(layer, (n, out, -(-h // stride), -(-w // stride)))
        if rng.random() < 0.5:
            self.norm()

    def norm(self) -> None:
        shape = self.shapes[-1]
        layer = nn.BatchNorm2d(shape[1], affine=self.rng.random() < 0.8)
        for buffer in (layer.running_mean, layer.running_var):
            buffer.uniform_(0.5, 1.5)
        self.layer(layer, shape)

    def linear(self) -> None:
        """Over the channels, as vision transformers have it."""
        n, c, h, w = self.shapes[-1]
        layer = self.own(nn.Linear(c, self.rng.choice(CHANNELS)))
        self.step(
            lambda values: layer(values[-1].permute(0, 2, 3, 1)).permute(0, 3, 1, 2),
            (n, layer.out_features, h, w),
            f"permuted {layer}",
        )

    def pool(self) -> None:
        n, c, h, w = self.shapes[-1]
        if self.rng.random() < 0.5:
            self.layer(nn.AdaptiveAvgPool2d(1), (n, c, 1, 1))
        elif min(h, w) > 1:
            kind = self.rng.choice((nn.MaxPool2d, nn.AvgPool2d))
            self.layer(kind(2), (n, c, h // 2, w // 2))

    def join(self) -> None:
        n, c, h, w = self.shapes[-1]
        fits = [i for i, s in enumerate(self.shapes) if (s[0], *s[2:]) == (n, h, w)]
        at = self.rng.choice(fits)
        self.step(
            lambda v: torch.cat([v[at], v[-1]], 1),
            (n, c + self.shapes[at][1], h, w),
            f"cat of {at} and the last",
        )


class Sequences(Network):
    def kinds(self) -> tuple[Callable[[], None], ...]:
        often = (
            (self.linear,) * 3 + (self.norm, self.addition) * 2 + (self.attention,) * 2
        )
        rare = (self.convolution, self.gate, self.softmax, self.left, self.end)
        return (*often, *rare, self.masked, self.rotary, self.recurrent, self.mixture, self.lookup)  # fmt: skip

    def linear(self) -> None:
        *outer, width = self.shapes[-1]
        layer = nn.Linear(width, self.rng.choice((width, *CHANNELS)), bias=self.rng.random() < 0.7)  # fmt: skip
        self.layer(layer, (*outer, layer.out_features))

    def norm(self) -> None:
        width = self.shapes[-1][-1]
        kind = self.rng.choice((nn.LayerNorm, nn.LayerNorm, nn.RMSNorm))
        self.layer(
            kind(width, elementwise_affine=self.rng.random() < 0.8), self.shapes[-1]
        )

    def attention(self) -> None:
        width = self.shapes[-1][-1]
        heads = self.rng.choice([h for h in (1, 2, 4) if width % h == 0])
        joined = self.own(nn.Linear(width, 3 * width))
        causal, plain = self.rng.random() < 0.5, self.rng.random() < 0.3

        def attend(values: list[torch.Tensor]) -> torch.Tensor:
            n, t, _ = values[-1].shape
            parts = joined(values[-1]).view(n, t, 3, heads, width // heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4)
            if plain:
                scores = q @ k.transpose(-2, -1) * (width // heads) ** -0.5
                mixed = torch.softmax(scores, -1) @ v
            else:
                mixed = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            return mixed.transpose(1, 2).reshape(n, t, width)

        text = f"attention, {heads} heads, causal: {causal}, plain: {plain}"
        self.step(attend, self.shapes[-1], text)

    def masked(self) -> None:
        """Grouped heads, and a mask that each call computes."""
        *_, width = self.shapes[-1]
        heads = self.rng.choice([h for h in (1, 2, 4) if width % h == 0])
        shared = self.rng.choice([h for h in (1, 2, 4) if heads % h == 0])
        size = width // heads
        query, pair = self.own(nn.Linear(width, width)), self.own(nn.Linear(width, 2 * shared * size))  # fmt: skip
        way = self.rng.choice(("padding", "window", "bias"))

        def attend(values: list[torch.Tensor]) -> torch.Tensor:
            x = values[-1]
            n, t, _ = x.shape
            q = query(x).view(n, t, heads, size).transpose(1, 2)
            k, v = pair(x).view(n, t, 2, shared, size).permute(2, 0, 3, 1, 4)
            k, v = (p.repeat_interleave(heads // shared, 1) for p in (k, v))
            place = torch.arange(t, device=x.device)
            if way == "padding":
                lengths = (x[:, :, 0] > 0).sum(1).clamp(min=1)
                mask = (place[None] < lengths[:, None])[:, None, None]
            elif way == "window":
                mask = (place[:, None] - place).abs() < 3
            else:
                mask = -(place[:, None] - place).abs().to(x.dtype) * 0.5
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            return mixed.transpose(1, 2).flatten(2)

        self.step(
            attend, self.shapes[-1], f"{way} attention, {heads} heads of {shared}"
        )

    def rotary(self) -> None:
        *_, width = self.shapes[-1]
        if width % 2:
            return

        def rotate(values: list[torch.Tensor]) -> torch.Tensor:
            x = values[-1]
            places = torch.arange(x.shape[1], device=x.device, dtype=torch.float32)
            speeds = 100.0 ** (-torch.arange(0, width, 2, device=x.device) / width)
            angles = torch.cat([torch.outer(places, speeds)] * 2, -1)
            half = torch.cat([-x[..., width // 2 :], x[..., : width // 2]], -1)
            return x * angles.cos() + half * angles.sin()

        self.step(rotate, self.shapes[-1], "rotary")

    def recurrent(self) -> None:
        n, t, width = self.shapes[-1]
        kind = self.rng.choice((nn.GRU, nn.LSTM, nn.RNN))
        layer = self.own(kind(width, self.rng.choice(CHANNELS), batch_first=True))
        self.step(lambda v: layer(v[-1])[0], (n, t, layer.hidden_size), str(layer))

    def mixture(self) -> None:
        n, t, width = self.shapes[-1]
        gate = self.own(nn.Linear(width, 3))
        experts = [self.own(nn.Linear(width, width)) for _ in range(3)]

        def mix(values: list[torch.Tensor]) -> torch.Tensor:
            shares = torch.softmax(gate(values[-1]), -1)
            parts = torch.stack([expert(values[-1]) for expert in experts], -1)
            return (parts * shares[..., None, :]).sum(-1)

        self.step(mix, (n, t, width), "mixture")

    def lookup(self) -> None:
        """What no rounding turns: a place decides."""
        n, t, width = self.shapes[-1]
        table = self.own(nn.Embedding(7, width))

        def look(values: list[torch.Tensor]) -> torch.Tensor:
            x = values[-1]
            places = torch.arange(x.shape[1], device=x.device) * 3 % 7
            return x + table(places)

        self.step(look, (n, t, width), "lookup")

    def convolution(self) -> None:
        n, t, width = self.shapes[-1]
        groups = self.rng.choice((1, width))
        layer = self.own(nn.Conv1d(width, width, 3, padding=1, groups=groups))
        self.step(
            lambda values: layer(values[-1].transpose(1, 2)).transpose(1, 2),
            (n, t, width),
            f"transposed {layer}",
        )

    def gate(self) -> None:
        width = self.shapes[-1][-1]
        layer = self.own(nn.Linear(width, 2 * width))

        def gated(values: list[torch.Tensor]) -> torch.Tensor:
            a, b = layer(values[-1]).chunk(2, -1)
            return F.silu(a) * b

        self.step(gated, self.shapes[-1], "gated")

    def softmax(self) -> None:
        dim = self.rng.choice((1, 2, -1))
        kind = self.rng.choice((torch.softmax, torch.log_softmax))
        self.step(lambda v: kind(v[-1], dim), self.shapes[-1], f"{kind.__name__} {dim}")

    def left(self) -> None:
        """A matmul from the left, and what is added by its rows."""
        n, t, width = self.shapes[-1]
        layer = self.own(nn.Linear(t, self.rng.choice(CHANNELS)))
        self.step(
            lambda v: layer.weight @ v[-1] + layer.bias[:, None],
            (n, layer.out_features, width),
            f"from the left {layer}",
        )

    def end(self) -> None:
        n, _, width = self.shapes[-1]
        whole = self.rng.random() < 0.5
        self.step(
            lambda v: v[-1].mean(1, keepdim=True) if whole else v[-1][:, -1:],
            (n, 1, width),
            "mean over time" if whole else "last of time",
        )


def images(rng: random.Random) -> Network:
    pick = rng.choice
    return Images(rng, (pick((1, 2, 3)), pick(CHANNELS), pick(SIZES), pick(SIZES)))


def sequences(rng: random.Random) -> Network:
    pick = rng.choice
    return Sequences(rng, (pick((1, 2, 3)), pick((*SIZES, 19)), pick((*CHANNELS, 32))))


@pytest.mark.parametrize("seed", range(EXAMPLES))
@pytest.mark.parametrize("vary", [False, True], ids=["fixed", "varying"])
@pytest.mark.parametrize("kind", [images, sequences], ids=lambda f: f.__name__)
def test_random_layers(kind: Callable[[random.Random], Network], vary: bool, seed: int) -> None:  # fmt: skip
    check(seed, kind, vary=vary)


def check(
    seed: int,
    kind: Callable[[random.Random], Network],
    device: str = "cpu",
    vary: bool = False,
) -> None:
    """vary: the batch differs between calls, and the time of sequences."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    model = kind(rng).eval().to(device)
    last = kind is images and rng.random() < 0.3
    fast = pyjit.compile(model, options={"strict": True})
    text = "\n".join([f"channels last: {last}", *model.text])

    def make(call: int) -> torch.Tensor:
        n, *rest = model.shapes[0]
        if vary:
            n += GROWTH[call]
            if kind is sequences:
                rest[0] += GROWTH[-call]
        x = torch.randn(n, *rest, generator=torch.Generator().manual_seed(call))
        form = torch.channels_last if last else torch.contiguous_format
        return x.to(device).contiguous(memory_format=form)

    calls = len(GROWTH) if vary else CALLS
    with torch.no_grad(), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        for call in range(calls):
            x = make(call)
            try:
                want = model(x)
            except RuntimeError:
                return  # layers that take one size alone
            have = fast(x)
            allowed = bounds(
                lambda x=x: list(model(x)), list(want), runs=12, have=list(have)
            )
            for w, h, bound in zip(want, have, allowed, strict=True):
                assert (h.shape, h.stride()) == (w.shape, w.stride()), text
                far = apart(w, h, bound)
                worst = ((h - w).abs().cpu() / bound)[far]
                assert not far.any(), (
                    f"{text}\ncall {call}: {len(worst)} beyond, {worst.max()} times"
                )
            # Weights that change are seen: what was packed or folded is made anew.
            for parameter in model.parameters() if call == 1 else ():
                parameter.mul_(1.25)
    stats = pyjit.stats(fast)
    # cuDNN's recurrent layers take a storage as their weights: a graph break.
    whole = device == "cpu" or not any("batch_first" in line for line in model.text)
    assert stats["hits"] == calls - 1 or vary or not whole, (text, stats["hits"])
    assert not whole or not stats["reasons"], (text, stats["reasons"])
