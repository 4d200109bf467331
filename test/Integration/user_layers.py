# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers, wrappers and generative models, as people publish them, for `test_user_programs.py`."""

# The spellings are those of the programs.
# ruff: noqa: PYI034, RUF007

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from Integration.user_driver import User, user, user_of_parts
from torch import nn

# Diffusion ---------------------------------------------------------------------------


class SinusoidalPositionEmbeddings(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, time: torch.Tensor) -> torch.Tensor:
        half = self.dim // 2
        e = math.log(10000) / (half - 1)
        e = torch.exp(torch.arange(half, device=time.device) * -e)
        e = time[:, None] * e[None, :]
        return torch.cat((e.sin(), e.cos()), dim=-1)


class ResnetBlock(nn.Module):
    def __init__(
        self, dim: int, out: int, *, emb: int | None = None, groups: int = 2
    ) -> None:
        super().__init__()
        self.mlp = (
            nn.Sequential(nn.SiLU(), nn.Linear(emb, out * 2))
            if emb is not None
            else None
        )
        self.conv1, self.norm1 = (
            nn.Conv2d(dim, out, 3, padding=1),
            nn.GroupNorm(groups, out),
        )
        self.conv2, self.norm2 = (
            nn.Conv2d(out, out, 3, padding=1),
            nn.GroupNorm(groups, out),
        )
        self.res = nn.Conv2d(dim, out, 1) if dim != out else nn.Identity()

    def forward(self, x: torch.Tensor, t: torch.Tensor | None = None) -> torch.Tensor:
        scale_shift = None
        if self.mlp is not None and t is not None:
            scale_shift = self.mlp(t)[..., None, None].chunk(2, dim=1)
        h = self.norm1(self.conv1(x))
        if scale_shift is not None:
            scale, shift = scale_shift
            h = h * (scale + 1) + shift
        h = F.silu(h)
        h = F.silu(self.norm2(self.conv2(h)))
        return h + self.res(x)


class UNet(nn.Module):
    def __init__(self, dim: int = 4, mults: tuple[int, ...] = (1, 2)) -> None:
        super().__init__()
        dims = [dim, *(dim * m for m in mults)]
        in_out = list(zip(dims[:-1], dims[1:]))
        self.init = nn.Conv2d(1, dim, 3, padding=1)
        self.time = nn.Sequential(
            SinusoidalPositionEmbeddings(dim),
            nn.Linear(dim, dim * 4),
            nn.GELU(),
            nn.Linear(dim * 4, dim * 4),
        )
        self.downs, self.ups = nn.ModuleList([]), nn.ModuleList([])
        for i, (a, b) in enumerate(in_out):
            last = i >= len(in_out) - 1
            self.downs.append(
                nn.ModuleList(
                    [
                        ResnetBlock(a, b, emb=dim * 4),
                        nn.Conv2d(b, b, 4, 2, 1) if not last else nn.Identity(),
                    ]
                )
            )
        for i, (a, b) in enumerate(reversed(in_out)):
            last = i >= len(in_out) - 1
            self.ups.append(
                nn.ModuleList(
                    [
                        ResnetBlock(b * 2, a, emb=dim * 4),
                        nn.Upsample(scale_factor=2, mode="nearest")
                        if not last
                        else nn.Identity(),
                    ]
                )
            )
        self.final = nn.Conv2d(dim, 1, 1)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        x, t, h = self.init(x), self.time(t), []
        for block, down in self.downs:
            x = block(x, t)
            h.append(x)
            x = down(x)
        for block, up in self.ups:
            skip = h.pop()
            if x.shape[-2:] != skip.shape[-2:]:
                x = F.interpolate(x, size=skip.shape[-2:])
            x = up(block(torch.cat((x, skip), dim=1), t))
        return self.final(x)


class Scheduler:
    def __init__(self, steps: int = 10) -> None:
        self.steps = steps
        self.betas = torch.linspace(1e-4, 0.02, steps)
        self.alphas = 1.0 - self.betas
        self.cum = torch.cumprod(self.alphas, 0)
        self.prev = F.pad(self.cum[:-1], (1, 0), value=1.0)
        self.timesteps: list[int] = list(range(steps))[::-1]
        self.order = 1

    def extract(
        self, a: torch.Tensor, t: torch.Tensor, shape: torch.Size
    ) -> torch.Tensor:
        return a.gather(-1, t).reshape(t.shape[0], *((1,) * (len(shape) - 1)))

    def add_noise(
        self, x: torch.Tensor, noise: torch.Tensor, t: torch.Tensor
    ) -> torch.Tensor:
        return (
            self.extract(self.cum.sqrt(), t, x.shape) * x
            + self.extract((1 - self.cum).sqrt(), t, x.shape) * noise
        )

    def step(self, eps: torch.Tensor, t: int, x: torch.Tensor) -> torch.Tensor:
        a, c, p = self.alphas[t], self.cum[t], self.prev[t]
        mean = (x - (1 - a) / (1 - c).sqrt() * eps) / a.sqrt()
        if t == 0:
            return mean
        var = (1 - p) / (1 - c) * self.betas[t]
        return mean + var.clamp(min=1e-20).sqrt() * torch.randn_like(x)


@user
def diffusion_loss() -> User:
    model, sched = UNet(), Scheduler()

    def loss(x: torch.Tensor, kind: str = "huber") -> torch.Tensor:
        t = torch.randint(0, sched.steps, (x.shape[0],)).long()
        noise = torch.randn_like(x)
        predicted = model(sched.add_noise(x, noise, t), t)
        match kind:
            case "l1":
                return F.l1_loss(noise, predicted)
            case "huber":
                return F.smooth_l1_loss(noise, predicted)
            case _:
                raise NotImplementedError(kind)

    return User(
        loss,
        lambda d: (
            d.floats(d.n, 1, 8, 8),
            d.random.choice(["huber", "huber", "l1", "bad"]),
        ),
        None,
        (lambda: setattr(sched, "steps", 5),),
        modules=(model,),
    )


@user_of_parts
def diffusion_sample() -> User:
    model, sched = UNet(), Scheduler(3)

    @torch.no_grad()
    def sample(shape: tuple[int, ...]) -> Any:
        img = torch.randn(shape)
        imgs = []
        for i in reversed(range(sched.steps)):
            t = torch.full((shape[0],), i, dtype=torch.long)
            img = sched.step(model(img, t), i, img)
            imgs.append(img.clamp(-1, 1))
        return imgs

    return User(
        sample,
        lambda d: ((d.n, 1, 8, d.n + 4),),
        sched.__dict__,
        (lambda: sched.__init__(2),),
        modules=(model,),
    )


# VAE -----------------------------------------------------------------------------------


class VAEOutput(NamedTuple):
    recon: torch.Tensor
    mu: torch.Tensor
    logvar: torch.Tensor
    loss: dict[str, torch.Tensor] | None = None


class VAE(nn.Module):
    def __init__(self, d: int = 6, z: int = 3, hidden: list[int] | None = None) -> None:
        super().__init__()
        hidden = hidden or [8, 5]
        layers: list[nn.Module] = []
        last = d
        for h in hidden:
            layers.append(
                nn.Sequential(nn.Linear(last, h), nn.BatchNorm1d(h), nn.LeakyReLU())
            )
            last = h
        self.encoder = nn.Sequential(*layers)
        self.fc = nn.Linear(last, z * 2)
        self.decoder = nn.Sequential(
            OrderedDict(a=nn.Linear(z, last), act=nn.Tanh(), b=nn.Linear(last, d))
        )
        self.beta, self.iterations = 0.5, 0

    def reparameterize(self, mu: torch.Tensor, logvar: torch.Tensor) -> torch.Tensor:
        if self.training:
            std = torch.exp(0.5 * logvar)
            return mu + torch.randn_like(std) * std
        return mu

    def forward(self, x: torch.Tensor, **kwargs: Any) -> VAEOutput:
        mu, logvar = self.fc(self.encoder(x)).chunk(2, -1)
        recon = self.decoder(self.reparameterize(mu, logvar))
        if not kwargs.get("loss", True):
            return VAEOutput(recon, mu, logvar)
        self.iterations += 1
        rec = F.mse_loss(recon, x)
        kld = torch.mean(
            -0.5 * torch.sum(1 + logvar - mu**2 - logvar.exp(), dim=1), dim=0
        )
        beta = self.beta * min(1.0, self.iterations / 10)
        return VAEOutput(
            recon,
            mu,
            logvar,
            {"loss": rec + beta * kld, "rec": rec.detach(), "kld": -kld.detach()},
        )


@user
def vae() -> User:
    model = VAE()
    return User(
        model,
        lambda d: (d.floats(d.n, 6),),
        None,
        (
            lambda: setattr(model, "beta", 2.0),
            lambda: setattr(model, "reparameterize", lambda mu, lv: mu + lv),
            lambda: setattr(model.decoder, "act", nn.ReLU()),
        ),
        modules=(model,),
    )


# LoRA --------------------------------------------------------------------------------


class LoRALinear(nn.Module):
    def __init__(
        self, base: nn.Linear, r: int = 2, alpha: float = 4.0, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.base, self.r, self.alpha = base, r, alpha
        for p in base.parameters():
            p.requires_grad_(False)
        self.lora_A = nn.Parameter(torch.randn(r, base.in_features) * 0.1)
        self.lora_B = nn.Parameter(torch.randn(base.out_features, r) * 0.1)
        self.drop = nn.Dropout(dropout) if dropout > 0 else nn.Identity()
        self.merged = False

    @property
    def scaling(self) -> float:
        return self.alpha / self.r

    @property
    def weight(self) -> torch.Tensor:
        return self.base.weight

    def merge(self) -> None:
        if not self.merged:
            self.base.weight.data += (self.lora_B @ self.lora_A) * self.scaling
            self.merged = True

    def unmerge(self) -> None:
        if self.merged:
            self.base.weight.data -= (self.lora_B @ self.lora_A) * self.scaling
            self.merged = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.base(x)
        if not self.merged and self.r > 0:
            y = y + self.drop(x) @ self.lora_A.T @ self.lora_B.T * self.scaling
        return y

    def train(self, mode: bool = True) -> Any:
        super().train(mode)
        self.unmerge() if mode else self.merge()
        return self


def inject(model: nn.Module, names: tuple[str, ...], **kw: Any) -> None:
    for name, child in list(model.named_children()):
        if isinstance(child, nn.Linear) and name in names:
            setattr(model, name, LoRALinear(child, **kw))
        else:
            inject(child, names, **kw)


@user
def lora() -> User:
    model = nn.Sequential(
        OrderedDict(
            q=nn.Linear(6, 6),
            act=nn.ReLU(),
            inner=nn.Sequential(OrderedDict(q=nn.Linear(6, 6), o=nn.Linear(6, 2))),
        )
    )
    inject(model, ("q",), dropout=0.1)
    return User(
        model,
        lambda d: (d.floats(d.n, 6),),
        None,
        (
            lambda: setattr(model.q, "alpha", 8.0),
            lambda: inject(model, ("o",), r=1),
            lambda: model.inner.q.merge(),
        ),
        modules=(model,),
    )


class EMA:
    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model, self.decay, self.updates = model, decay, 0
        self.shadow = {
            n: p.detach().clone()
            for n, p in model.named_parameters()
            if p.requires_grad
        }
        self.backup: dict[str, torch.Tensor] = {}

    @torch.no_grad()
    def update(self) -> None:
        self.updates += 1
        d = min(self.decay, (1 + self.updates) / (10 + self.updates))
        for n, p in self.model.named_parameters():
            if p.requires_grad:
                assert n in self.shadow
                self.shadow[n].mul_(d).add_(p.detach(), alpha=1 - d)

    def __enter__(self) -> EMA:
        self.backup = {n: p.data for n, p in self.model.named_parameters()}
        for n, p in self.model.named_parameters():
            p.data = self.shadow[n]
        return self

    def __exit__(self, *exc: object) -> bool:
        for n, p in self.model.named_parameters():
            p.data = self.backup.pop(n)
        return False


@user_of_parts
def ema_training() -> User:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    ema = EMA(model, 0.99)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x: torch.Tensor) -> Any:
        opt.zero_grad(set_to_none=True)
        loss = model(x).pow(2).mean()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        ema.update()
        with ema:
            shadow = model(x).mean()
        return loss.item(), norm, shadow.detach()

    return User(
        step,
        lambda d: (d.floats(d.n, 4).detach(),),
        ema.shadow,
        (lambda: opt.param_groups[0].update(lr=0.01),),
        fixed=("mode", "dtype"),
        modules=(model,),
    )


class AffineCoupling(nn.Module):
    def __init__(self, d: int, flip: bool) -> None:
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(d // 2, 8), nn.Tanh(), nn.Linear(8, d))

    def forward(
        self, x: torch.Tensor, reverse: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = x.chunk(2, -1)
        if self.flip:
            a, b = b, a
        s, t = self.net(a).chunk(2, -1)
        s = torch.tanh(s)
        b = (b - t) * torch.exp(-s) if reverse else b * torch.exp(s) + t
        if self.flip:
            a, b = b, a
        return torch.cat([a, b], -1), (-s if reverse else s).sum(-1)


class InvertibleLinear(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        q, _ = torch.linalg.qr(torch.randn(d, d))
        self.weight = nn.Parameter(q)

    def forward(
        self, x: torch.Tensor, reverse: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor]:
        logdet = torch.slogdet(self.weight)[1].expand(x.shape[0])
        if reverse:
            return x @ torch.inverse(self.weight), -logdet
        return x @ self.weight, logdet


@user_of_parts
def normalizing_flow() -> User:
    flows = nn.ModuleList(
        [AffineCoupling(4, False), InvertibleLinear(4), AffineCoupling(4, True)]
    )
    prior = torch.distributions.Normal(torch.zeros(4), torch.ones(4))

    def f(x: torch.Tensor, reverse: bool) -> Any:
        logdet = x.new_zeros(x.shape[0])
        for flow in reversed(flows) if reverse else flows:
            x, ld = flow(x, reverse=reverse)
            logdet = logdet + ld
        return x, prior.log_prob(x).sum(-1) + logdet

    return User(
        f, lambda d: (d.floats(d.n, 4), d.random.random() < 0.3), modules=(flows,)
    )


# Hooks, parametrizations, shared modules -----------------------------------------------


@user_of_parts
def features_by_hooks() -> User:
    net = nn.Sequential(
        nn.Conv1d(2, 4, 3, padding=1), nn.BatchNorm1d(4), nn.ReLU(), nn.Conv1d(4, 2, 1)
    )
    features: dict[str, torch.Tensor] = {}

    def save(name: str) -> Any:
        def hook(module: nn.Module, args: Any, output: torch.Tensor) -> None:
            features[name] = output.detach()

        return hook

    handles = [net[i].register_forward_hook(save(f"layer{i}")) for i in (0, 2)]

    def f(x: torch.Tensor) -> Any:
        features.clear()
        y = net(x)
        return y, {k: v.mean() for k, v in features.items()}

    return User(
        f,
        lambda d: (d.floats(2, 2, d.n),),
        features,
        (
            handles[0].remove,
            lambda: net[3].register_forward_pre_hook(lambda m, a: (a[0] * 2,)),
            lambda: net.register_forward_hook(lambda m, a, o: o + 1),
        ),
        modules=(net,),
    )
