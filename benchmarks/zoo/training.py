# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models as people write them for training: layers, losses and structures that differ in what autograd sees."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from zoo import Inputs, Program, generator

_programs: list[Program] = []


def model(*shapes: Any) -> Callable[[Callable[[], nn.Module]], Callable[[], nn.Module]]:
    """A program of a module; a shape is a tensor's, whose "n" differs, or a number of classes and one."""

    def add(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
        def build() -> tuple[Any, Inputs]:
            torch.manual_seed(0)
            module = make()

            def inputs(which: str) -> Any:
                numbers = generator(which)
                return tuple(draw(shape, which, numbers) for shape in shapes), {}

            return module, inputs

        name = f"train.{make.__name__}"
        _programs.append(Program(name, "training", build))
        return make

    return add


def draw(shape: Any, which: str, numbers: torch.Generator) -> torch.Tensor:
    classes = None
    if isinstance(shape[0], tuple):
        (classes,), *shape = shape
    size = tuple((7 if which == "shape" else 6) if s == "n" else s for s in shape)
    if classes is not None:
        return torch.randint(0, classes, size, generator=numbers)
    return torch.randn(size, generator=numbers)


class Of(nn.Module):
    """A module whose forward is a function of it and its arguments."""

    def __init__(self, forward: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.f = forward
        for name, part in parts.items():
            if isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, *args: Any) -> Any:
        return self.f(self, *args)


def mlp(*sizes: int, last: Any = None) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), nn.GELU()]
    return nn.Sequential(*layers[:-1], *([last] if last else []))


@model(("n", 8))
def perceptron() -> nn.Module:
    return mlp(8, 16, 16, 4)


@model(("n", 8), ((4,), "n"))
def loss_inside() -> nn.Module:
    return Of(lambda m, x, y: F.cross_entropy(m.net(x), y), net=mlp(8, 16, 4))


@model(("n", 8), ((4,), "n"))
def label_smoothing() -> nn.Module:
    return Of(
        lambda m, x, y: F.cross_entropy(m.net(x), y, label_smoothing=0.1),
        net=mlp(8, 16, 4),
    )


@model(("n", 8))
def dropout() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.3), nn.ReLU(), nn.Linear(16, 4))


@model(("n", 3, 8, 8))
def dropout2d() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.Dropout2d(0.3), nn.ReLU())


@model(("n", 8))
def alpha_dropout() -> nn.Module:
    return nn.Sequential(
        nn.Linear(8, 16), nn.SELU(), nn.AlphaDropout(0.3), nn.Linear(16, 4)
    )


@model(("n", 3, 12, 12))
def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3),
        nn.BatchNorm2d(8, momentum=None),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    )


@model(("n", 8))
def batch_norm_1d() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU())


@model(("n", 3, 8, 8))
def batch_norm_without_statistics() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, track_running_stats=False)
    )


@model(("n", 3, 8, 8))
def other_norms() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.GroupNorm(2, 8),
        nn.InstanceNorm2d(8, affine=True),
        nn.LocalResponseNorm(2),
        nn.PReLU(8),
    )


@model(("n", 3, 8, 8))
def separable() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, groups=3, padding=1),
        nn.Conv2d(6, 8, 1),
        nn.Hardswish(),
        nn.Conv2d(8, 8, 3, dilation=2, padding=2, stride=2),
        nn.AvgPool2d(2),
    )


@model(("n", 3, 16, 16))
def u_net() -> nn.Module:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        a = m.down1(x)
        b = m.down2(F.max_pool2d(a, 2))
        c = m.middle(F.max_pool2d(b, 2))
        b = m.up2(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        return m.up1(torch.cat([m.widen(b), a], 1))

    def block(a: int, b: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU()
        )

    return Of(
        forward,
        down1=block(3, 4),
        down2=block(4, 8),
        middle=block(8, 8),
        up2=block(16, 8),
        widen=nn.ConvTranspose2d(8, 4, 2, stride=2),
        up1=nn.Conv2d(8, 2, 1),
    )


@model(("n", 5, 8))
def lstm() -> nn.Module:
    return nn.LSTM(8, 16, batch_first=True)


@model(("n", 5, 8))
def gru() -> nn.Module:
    return nn.GRU(8, 16, num_layers=2, dropout=0.2, batch_first=True)


@model(("n", 5, 8))
def lstm_cell() -> nn.Module:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        h = c = x.new_zeros(x.size(0), 16)
        out = []
        for t in range(x.size(1)):
            h, c = m.cell(x[:, t], (h, c))
            out.append(h)
        return torch.stack(out, 1)

    return Of(forward, cell=nn.LSTMCell(8, 16))


@model(("n", 5, 8))
def lstm_by_hand() -> nn.Module:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        h = c = torch.zeros(x.shape[0], 16)
        for step in x.unbind(1):
            i, f, g, o = m.gates(torch.cat([step, h], 1)).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return h

    return Of(forward, gates=nn.Linear(24, 64))


@model(("n", 8))
def autoencoder() -> nn.Module:
    return Of(
        lambda m, x: F.mse_loss(m.decode(m.encode(x)), x),
        encode=mlp(8, 16, 3),
        decode=mlp(3, 16, 8, last=nn.Sigmoid()),
    )


@model(("n", 8))
def variational() -> nn.Module:
    def forward(m: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_variance = m.encode(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(-1)
        return m.decode(z), divergence.mean()

    return Of(forward, encode=mlp(8, 16, 8), decode=mlp(4, 16, 8))


@model(("n", 8))
def discriminator() -> nn.Module:
    def forward(m: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        fake = m.make(torch.randn(x.shape[0], 4))
        real = F.binary_cross_entropy_with_logits(m.judge(x), torch.ones(x.shape[0], 1))
        wrong = F.binary_cross_entropy_with_logits(
            m.judge(fake.detach()), torch.zeros(x.shape[0], 1)
        )
        return real + wrong, F.softplus(-m.judge(fake)).mean()

    return Of(forward, make=mlp(4, 16, 8), judge=mlp(8, 16, 1))


@model(("n", 6, 16))
def encoder_layer() -> nn.Module:
    return nn.TransformerEncoderLayer(16, 2, 32, 0.1, batch_first=True)


@model(("n", 6, 16))
def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(
        16, 2, 32, 0.0, batch_first=True, norm_first=True
    )
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


@model(("n", 6, 16), ("n", 4, 16))
def transformer() -> nn.Module:
    return nn.Transformer(16, 2, 1, 1, 32, 0.1, batch_first=True)


@model(("n", 6, 16))
def attention_by_hand() -> nn.Module:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        q, k, v = m.qkv(x).view(b, t, 3, 2, d // 2).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * (d // 2) ** -0.5
        scores = scores.masked_fill(m.mask[:t, :t], float("-inf"))
        weights = m.drop(scores.softmax(-1))
        return m.out((weights @ v).transpose(1, 2).reshape(b, t, d))

    return Of(
        forward,
        qkv=nn.Linear(16, 48),
        out=nn.Linear(16, 16),
        drop=nn.Dropout(0.1),
        mask=torch.ones(8, 8).triu(1).bool(),
    )


@model(("n", 6, 16))
def attention_with_dropout() -> nn.Module:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            p.unflatten(-1, (2, 8)).transpose(1, 2) for p in m.qkv(x).chunk(3, -1)
        )
        p = 0.2 if m.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)

    return Of(forward, qkv=nn.Linear(16, 48))


@model(((20,), "n", 6))
def language_model() -> nn.Module:
    def forward(m: Any, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = m.embed(ids[:, :-1]) + m.place.weight[: ids.size(1) - 1]
        logits = F.linear(m.mix(h), m.embed.weight)  # tied
        return logits, F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

    return Of(
        forward,
        embed=nn.Embedding(20, 16),
        place=nn.Embedding(8, 16),
        mix=mlp(16, 32, 16),
    )


@model(((20,), "n", 6))
def embedding_with_padding() -> nn.Module:
    return nn.Sequential(nn.Embedding(20, 8, padding_idx=0), nn.Linear(8, 4))


@model(((20,), "n", 6))
def embedding_bag() -> nn.Module:
    return nn.Sequential(nn.EmbeddingBag(20, 8, mode="mean"), nn.Linear(8, 4))


@model(("n", 8), ((4,), "n"), ("n",))
def q_learning() -> nn.Module:
    def forward(m: Any, x: torch.Tensor, action: Any, reward: Any) -> torch.Tensor:
        value = m.q(x).gather(1, action.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = m.target(x).max(1).values
        return F.smooth_l1_loss(value, reward + 0.9 * best)

    return Of(forward, q=mlp(8, 16, 4), target=mlp(8, 16, 4).requires_grad_(False))


@model((6, 8), ((6,), 2, 12))
def graph_network() -> nn.Module:
    def forward(m: Any, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        for layer in m.layers:
            messages = layer(x)[edges[0]]
            x = torch.zeros_like(x).index_add(0, edges[1], messages).relu() + x
        return x.mean(0)

    return Of(forward, layers=nn.ModuleList([nn.Linear(8, 8) for _ in range(2)]))


@model((6, 8), ((6,), 2, 12))
def graph_attention() -> nn.Module:
    def forward(m: Any, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        h = m.layer(x)
        scores = m.score(torch.cat([h[edges[0]], h[edges[1]]], -1)).squeeze(-1).exp()
        total = torch.zeros(6).scatter_add_(0, edges[1], scores)
        weights = (scores / total[edges[1]]).unsqueeze(-1)
        return torch.zeros_like(h).index_add_(0, edges[1], weights * h[edges[0]])

    return Of(forward, layer=nn.Linear(8, 8), score=nn.Linear(16, 1))


@model(("n", 8))
def adapter() -> nn.Module:
    """LoRA: a frozen layer and a small product beside it."""

    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        return m.head(m.frozen(x) + (x @ m.a.t() @ m.b.t()) * 2.0)

    return Of(
        forward,
        frozen=nn.Linear(8, 8).requires_grad_(False),
        a=nn.Parameter(torch.randn(2, 8)),
        b=nn.Parameter(torch.zeros(8, 2)),
        head=nn.Linear(8, 4),
    )


@model(("n", 3, 8, 8))
def frozen_backbone() -> nn.Module:
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(288, 4),
    )
    net[:2].requires_grad_(False)
    return net


@model(("n", 8))
def averaged() -> nn.Module:
    """A moving average of the weights, kept in the call."""

    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        if m.training:
            with torch.no_grad():
                m.average.lerp_(m.net[0].weight, 0.1)
        return m.net(x)

    return Of(forward, net=mlp(8, 16, 4), average=torch.zeros(16, 8))


@model(("n", 8))
def weight_norm() -> nn.Module:
    return nn.Sequential(
        parametrizations.weight_norm(nn.Linear(8, 16)), nn.Tanh(), nn.Linear(16, 4)
    )


@model(("n", 8))
def spectral_norm() -> nn.Module:
    return nn.Sequential(
        parametrizations.spectral_norm(nn.Linear(8, 16)), nn.Tanh(), nn.Linear(16, 4)
    )


@model(("n", 8))
def old_weight_norm() -> nn.Module:
    return nn.Sequential(nn.utils.weight_norm(nn.Linear(8, 16)), nn.Tanh())


@model(("n", 8), ("n", 8))
def contrastive() -> nn.Module:
    def forward(m: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a, b = F.normalize(m.net(a), dim=-1), F.normalize(m.net(b), dim=-1)
        logits = a @ b.t() * m.scale.exp()
        places = torch.arange(a.size(0))
        return (
            F.cross_entropy(logits, places) + F.cross_entropy(logits.t(), places)
        ) / 2

    return Of(forward, net=mlp(8, 16, 8), scale=nn.Parameter(torch.tensor(1.0)))


@model(("n", 8), ("n", 8), ("n", 8))
def triplet() -> nn.Module:
    def forward(m: Any, a: Any, p: Any, n: Any) -> torch.Tensor:
        return F.triplet_margin_loss(m.net(a), m.net(p), m.net(n))

    return Of(forward, net=mlp(8, 16, 4))


class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.clamp(-1, 1)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return gradient * (x.abs() < 2)


@model(("n", 8))
def autograd_function() -> nn.Module:
    return Of(
        lambda m, x: m.b(Clip.apply(m.a(x))), a=nn.Linear(8, 16), b=nn.Linear(16, 4)
    )


@model(("n", 8))
def checkpointed() -> nn.Module:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        return m.b(checkpoint(m.a, x, use_reentrant=False))

    return Of(forward, a=mlp(8, 16, 8, last=nn.Dropout(0.2)), b=nn.Linear(8, 4))


@model(("n", 8))
def checkpointed_reentrant() -> nn.Module:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        return m.b(checkpoint(m.a, m.first(x), use_reentrant=True))

    return Of(
        forward,
        first=nn.Linear(8, 8),
        a=mlp(8, 16, 8, last=nn.Dropout(0.2)),
        b=nn.Linear(8, 4),
    )


@model(("n", 8))
def experts() -> nn.Module:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        weights, places = m.gate(x).softmax(-1).topk(2, -1)
        out = torch.stack([e(x) for e in m.experts], 1)
        chosen = out.gather(1, places.unsqueeze(-1).expand(-1, -1, 4))
        return (chosen * weights.unsqueeze(-1)).sum(1)

    return Of(
        forward,
        gate=nn.Linear(8, 3),
        experts=nn.ModuleList(mlp(8, 8, 4) for _ in "abc"),
    )


@model(("n", 8))
def quantized_codes() -> nn.Module:
    """A codebook with straight-through gradients."""

    def forward(m: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = m.encode(x)
        code = m.book(torch.cdist(h, m.book.weight).argmin(-1))
        commitment = F.mse_loss(h, code.detach()) + F.mse_loss(code, h.detach())
        return m.decode(h + (code - h).detach()), commitment

    return Of(forward, encode=mlp(8, 16, 4), book=nn.Embedding(5, 4), decode=mlp(4, 8))


@model(("n", 6), ("n", 1))
def mixture_density() -> nn.Module:
    def forward(m: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        logits, mean, scale = m.net(x).chunk(3, -1)
        normal = torch.distributions.Normal(mean, F.softplus(scale) + 1e-3)
        return -torch.logsumexp(normal.log_prob(y) + logits.log_softmax(-1), -1).mean()

    return Of(forward, net=mlp(6, 16, 9))


@model(("n", 8))
def policy() -> nn.Module:
    def forward(m: Any, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        choice = torch.distributions.Categorical(logits=m.net(x))
        action = choice.sample()
        return choice.log_prob(action), choice.entropy(), action

    return Of(forward, net=mlp(8, 16, 4))


@model(("n", 8))
def gumbel() -> nn.Module:
    return Of(
        lambda m, x: m.b(F.gumbel_softmax(m.a(x), tau=0.5, hard=True)),
        a=nn.Linear(8, 5),
        b=nn.Linear(5, 4),
    )


@model(("n", 3, 8, 8))
def spatial_transformer() -> nn.Module:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        theta = m.where(x.flatten(1)).view(-1, 2, 3)
        grid = F.affine_grid(theta, list(x.shape), align_corners=False)
        return F.grid_sample(x, grid, align_corners=False)

    return Of(forward, where=nn.Linear(192, 6))


@model(("n", 3, 8, 8))
def upsampled() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.PixelShuffle(2),
        nn.ReflectionPad2d(1),
    )


@model((12, "n", 5), ((4,), "n", 3))
def speech() -> nn.Module:
    def forward(m: Any, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        logits = m.net(x).log_softmax(-1)
        sizes = torch.full((x.size(1),), x.size(0)), torch.full((x.size(1),), 3)
        return F.ctc_loss(logits, target + 1, *sizes)

    return Of(forward, net=nn.Linear(5, 6))


@model(("n", 8))
def stochastic_depth() -> nn.Module:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        for layer in m.layers:
            keep = torch.rand(x.size(0), 1) < 0.8 if m.training else 1.0
            x = x + layer(x) * keep
        return x

    return Of(forward, layers=nn.ModuleList(mlp(8, 8, 8) for _ in range(3)))


@model(("n", 8))
def auxiliary_heads() -> nn.Module:
    def forward(m: Any, x: torch.Tensor) -> dict[str, torch.Tensor]:
        h = m.body(x)
        out = {"main": m.main(h), "features": h.detach()}
        if m.training:
            out["extra"] = m.extra(h)
        return out

    return Of(
        forward, body=mlp(8, 16, 16), main=nn.Linear(16, 4), extra=nn.Linear(16, 2)
    )


@model(("n", 8))
def penalized() -> nn.Module:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        penalty = sum(p.square().sum() for p in m.net.parameters())
        return m.net(x).square().mean() + 1e-3 * penalty

    return Of(forward, net=mlp(8, 16, 4))


@model(("n", 8))
def gradient_inside() -> nn.Module:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        (g,) = torch.autograd.grad(m.net(x).sum(), x, create_graph=True)
        return (g.norm(dim=-1) - 1).square().mean()

    return Of(forward, net=mlp(8, 16, 1))


@model(("n", 6, 4))
def scan() -> nn.Module:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        decay = m.decay.sigmoid()
        h = torch.zeros(x.size(0), 4)
        out = torch.empty_like(x)
        for t in range(x.size(1)):
            h = decay * h + x[:, t]
            out[:, t] = h
        return m.out(out)

    return Of(forward, decay=nn.Parameter(torch.randn(4)), out=nn.Linear(4, 4))


@model(("n", 8))
def early_exit() -> nn.Module:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        for layer in m.layers:
            x = x + layer(x)
            if x.abs().mean() > 2:
                break
        return x

    return Of(forward, layers=nn.ModuleList(mlp(8, 8) for _ in range(3)))


@model(("n", 3, 8, 8))
def kept_loss() -> nn.Module:
    """Keeps what a hook would: features on the module."""

    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        m.seen = m.first(x)
        return m.second(m.seen.relu())

    return Of(forward, first=nn.Conv2d(3, 4, 3), second=nn.Conv2d(4, 4, 3), seen=None)


@functools.cache
def programs() -> list[Program]:
    return list(_programs)
