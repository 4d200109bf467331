# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Algorithms on tensors, as people publish them, for `test_user_programs.py`."""

# The spellings are those of the programs.

from __future__ import annotations

import dataclasses
from typing import Any

import torch
import torch.nn.functional as F
from Integration.user_driver import User, user, user_of_parts
from torch import nn


@user
def beam_search_tensors() -> User:
    W = torch.randn(5, 5)

    def search(start: torch.Tensor, width: int, length: int) -> Any:
        b = start.shape[0]
        seqs = start.view(b, 1, 1).expand(b, width, 1)
        scores = torch.full((b, width), -1e9)
        scores[:, 0] = 0
        for t in range(length):
            lp = W[seqs[:, :, -1]].log_softmax(-1)
            total = (scores.unsqueeze(-1) + lp).view(b, -1)
            scores, idx = total.topk(width, dim=-1)
            beam, tok = torch.div(idx, 5, rounding_mode="floor"), idx % 5
            seqs = torch.cat(
                [
                    seqs.gather(1, beam.unsqueeze(-1).expand(-1, -1, t + 1)),
                    tok.unsqueeze(-1),
                ],
                -1,
            )
        return seqs, scores

    return User(search, lambda d: (d.ints(5, d.n), 3, d.random.choice([2, 3])), W)


@user_of_parts
def viterbi_crf() -> User:
    trans = nn.Parameter(torch.randn(3, 3))

    def forward_alg(e: torch.Tensor) -> torch.Tensor:
        alpha = e[0]
        for t in range(1, e.shape[0]):
            alpha = torch.logsumexp(alpha.unsqueeze(1) + trans, 0) + e[t]
        return torch.logsumexp(alpha, 0)

    def decode(e: torch.Tensor, tags: torch.Tensor) -> Any:
        score, back = e[0], []
        for row in e[1:]:
            best, idx = (score.unsqueeze(1) + trans).max(0)
            back.append(idx)
            score = best + row
        path = [score.argmax()]
        for idx in reversed(back):
            path.append(idx[path[-1]])
        gold = e.gather(1, tags.unsqueeze(1)).sum() + trans[tags[:-1], tags[1:]].sum()
        return torch.stack(path[::-1]), forward_alg(e) - gold

    return User(
        decode, lambda d: (d.floats(max(d.n, 1), 3), d.ints(3, max(d.n, 1))), trans
    )


@user_of_parts
def sampling_filters() -> User:
    def top_k_top_p(
        logits: torch.Tensor,
        top_k: int = 0,
        top_p: float = 1.0,
        filter_value: float = -float("inf"),
    ) -> torch.Tensor:
        top_k = min(top_k, logits.size(-1))
        if top_k > 0:
            remove = logits < torch.topk(logits, top_k)[0][..., -1, None]
            logits[remove] = filter_value
        if top_p < 1.0:
            s, i = torch.sort(logits, descending=True)
            cum = torch.cumsum(F.softmax(s, dim=-1), dim=-1)
            rm = cum > top_p
            rm[..., 1:] = rm[..., :-1].clone()
            rm[..., 0] = 0
            logits = logits.masked_fill(rm.scatter(-1, i, rm), filter_value)
        return logits

    def f(
        logits: torch.Tensor, seen: torch.Tensor, temperature: float, k: int, p: float
    ) -> Any:
        score = torch.gather(logits, 1, seen)
        score = torch.where(score < 0, score * 1.2, score / 1.2)
        logits = logits.scatter(1, seen, score) / max(temperature, 1e-5)
        probs = top_k_top_p(logits, k, p).softmax(-1)
        return probs, torch.multinomial(probs.float(), 1) if probs.numel() else None

    return User(
        f,
        lambda d: (
            d.floats(d.n, 6),
            d.ints(6, d.n, 2),
            d.random.choice([1.0, 0.7, 0.0]),
            d.random.choice([0, 3]),
            d.random.choice([1.0, 0.9]),
        ),
    )


# Numerics ----------------------------------------------------------------------------


class KalmanFilter:
    __slots__ = ("F", "H", "P", "Q", "R", "log", "x")

    def __init__(self) -> None:
        self.F = torch.tensor([[1.0, 1.0], [0.0, 1.0]])
        self.H = torch.tensor([[1.0, 0.0]])
        self.Q, self.R = 0.01 * torch.eye(2), 0.5 * torch.eye(1)
        self.x, self.P = torch.zeros(2, 1), torch.eye(2)
        self.log: list[float] = []

    def predict(self) -> KalmanFilter:
        self.x = self.F @ self.x
        self.P = self.F @ self.P @ self.F.T + self.Q
        return self

    def update(self, z: torch.Tensor) -> None:
        y = z - self.H @ self.x
        S = self.H @ self.P @ self.H.T + self.R
        K = self.P @ self.H.T @ torch.linalg.inv(S)
        self.x = self.x + K @ y
        self.P = (torch.eye(2) - K @ self.H) @ self.P


@user
def kalman() -> User:
    kf = KalmanFilter()

    def f(zs: torch.Tensor) -> Any:
        out = []
        for z in zs:
            kf.predict().update(z.view(1, 1))
            out.append(kf.x.squeeze(-1))
        return torch.stack(out) if out else None, kf.P.trace()

    return User(
        f,
        lambda d: (d.floats(d.n).detach(),),
        kf,
        (lambda: setattr(kf, "R", 2 * torch.eye(1)), lambda: kf.__init__()),
        fixed=("dtype", "default", "mode"),
    )


@user_of_parts
def nbody() -> User:
    @dataclasses.dataclass(slots=True)
    class World:
        pos: torch.Tensor
        vel: torch.Tensor
        mass: torch.Tensor
        t: float = 0.0
        steps: int = 0

    w = World(torch.randn(4, 2), torch.zeros(4, 2), torch.rand(4) + 1)

    def acc(p: torch.Tensor, m: torch.Tensor, soft: float) -> torch.Tensor:
        d = p.unsqueeze(0) - p.unsqueeze(1)
        inv = (d.square().sum(-1) + soft**2).pow(-1.5)
        inv.fill_diagonal_(0)
        return (inv.unsqueeze(-1) * d * m[None, :, None]).sum(1)

    def step(dt: float, n: int) -> Any:
        for _ in range(n):
            w.vel += 0.5 * dt * acc(w.pos, w.mass, 0.1)
            w.pos += dt * w.vel
            w.vel += 0.5 * dt * acc(w.pos, w.mass, 0.1)
            w.t += dt
            w.steps += 1
        e = 0.5 * (w.mass * w.vel.square().sum(1)).sum()
        return e, w.t, f"{w.steps:04d}" if w.steps % 50 == 0 else ""

    def grow() -> None:
        w.pos, w.vel, w.mass = torch.randn(5, 2), torch.zeros(5, 2), torch.ones(5)

    return User(
        step, lambda d: (0.01, d.random.choice([1, 1, 2])), w, (grow,), fixed=("mode",)
    )


@user_of_parts
def kmeans() -> User:
    def f(x: torch.Tensor, k: int, iters: int = 4) -> Any:
        centers = x[:k].clone()
        for i in range(iters):
            labels = torch.cdist(x, centers).argmin(1)
            new = torch.zeros_like(centers).index_add_(0, labels, x)
            counts = torch.zeros(k, dtype=x.dtype).scatter_add_(
                0, labels, torch.ones(len(x), dtype=x.dtype)
            )
            new = torch.where(
                counts[:, None] > 0, new / counts.clamp(min=1)[:, None], centers
            )
            shift = (new - centers).norm()
            centers = new
            if shift < 1e-4:
                break
        return centers, labels, i

    return User(f, lambda d: (d.floats(d.n + 3, 2).detach(), 2))


@user_of_parts
def pagerank() -> User:
    def f(edges: torch.Tensor, n: int, damping: float = 0.85) -> Any:
        src, dst = edges
        deg = torch.zeros(n).index_add(0, src, torch.ones(src.shape[0]))
        r = torch.full((n,), 1 / n)
        it = 0
        while True:
            w = r / deg.clamp(min=1)
            new = (1 - damping) / n + damping * (
                torch.zeros(n).index_add_(0, dst, w[src]) + r[deg == 0].sum() / n
            )
            it += 1
            if (new - r).abs().sum() < 1e-3 or it >= 8:
                break
            r = new
        return new, it

    return User(f, lambda d: (d.ints(5, 2, 6 + d.n), 5), fixed=("default",))


@user_of_parts
def ray_marcher() -> User:
    def sdf(p: torch.Tensor) -> torch.Tensor:
        sphere = (p - torch.tensor([0.0, 0.0, 3.0])).norm(dim=-1) - 1
        return torch.minimum(sphere, p[..., 1] + 1.0)

    def f(h: int, w: int, steps: int) -> torch.Tensor:
        ys, xs = torch.meshgrid(
            torch.linspace(1, -1, h), torch.linspace(-1, 1, w), indexing="ij"
        )
        d = F.normalize(torch.stack([xs, ys, torch.ones_like(xs)], -1), dim=-1)
        t, alive = torch.zeros(h, w), torch.ones(h, w, dtype=torch.bool)
        for _ in range(steps):
            dist = sdf(d * t[..., None])
            t = torch.where(alive, t + dist, t)
            alive &= (dist > 1e-3) & (t < 20)
            if not alive.any():
                break
        p = (d * t[..., None]).requires_grad_()
        with torch.enable_grad():
            (n,) = torch.autograd.grad(sdf(p).sum(), p)
        shade = (
            (
                F.normalize(n, dim=-1)
                * F.normalize(torch.tensor([1.0, 1.0, -1.0]), dim=0)
            )
            .sum(-1)
            .clamp(0)
        )
        return torch.where(t < 20, shade, 0.0)

    return User(f, lambda d: (d.n, 5, 6), fixed=("mode",))


@user
def heat_and_life() -> User:
    grid = torch.zeros(6, 6)
    grid[2:4, 2:4] = 1.0
    kernel = torch.tensor([[1.0, 1, 1], [1, 0, 1], [1, 1, 1]]).view(1, 1, 3, 3)

    def f(alpha: float) -> Any:
        lap = (
            -4 * grid[1:-1, 1:-1]
            + grid[:-2, 1:-1]
            + grid[2:, 1:-1]
            + grid[1:-1, :-2]
            + grid[1:-1, 2:]
        )
        grid[1:-1, 1:-1] += alpha * lap
        grid[0], grid[-1] = grid[1], grid[-2]
        alive = (grid > 0.3).float()
        n = F.conv2d(F.pad(alive[None, None], (1, 1, 1, 1), mode="circular"), kernel)[
            0, 0
        ]
        return (n == 3) | ((n == 2) & (alive > 0)), grid.roll(1, 0), grid[::2]

    return User(
        f,
        lambda d: (d.random.choice([0.1, 0.1, 0.2]),),
        grid,
        fixed=("default", "mode"),
    )


@user_of_parts
def nms_by_hand() -> User:
    def area(b: torch.Tensor) -> torch.Tensor:
        return (b[..., 2] - b[..., 0]).clamp(0) * (b[..., 3] - b[..., 1]).clamp(0)

    def iou(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        lt, rb = (
            torch.max(a[:, None, :2], b[:, :2]),
            torch.min(a[:, None, 2:], b[:, 2:]),
        )
        wh = (rb - lt).clamp(min=0)
        inter = wh[..., 0] * wh[..., 1]
        return inter / (area(a)[:, None] + area(b) - inter + 1e-6)

    def f(centers: torch.Tensor, scores: torch.Tensor, thr: float) -> Any:
        boxes = torch.cat([centers - 1, centers + 1], -1)
        order = scores.argsort(descending=True, stable=True)
        m = iou(boxes, boxes)
        keep: list[int] = []
        suppressed = torch.zeros(len(boxes), dtype=torch.bool)
        for i in order.tolist():
            if suppressed[i]:
                continue
            keep.append(i)
            suppressed |= m[i] > thr
        return torch.tensor(keep, dtype=torch.long), boxes[keep]

    return User(f, lambda d: (d.floats(d.n, 2), d.floats(d.n), 0.5), fixed=("dtype",))


@user
def box_losses() -> User:
    def giou(p: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        x1, y1, x2, y2 = p.unbind(-1)
        X1, Y1, X2, Y2 = t.unbind(-1)
        inter = (torch.min(x2, X2) - torch.max(x1, X1)).clamp(0) * (
            torch.min(y2, Y2) - torch.max(y1, Y1)
        ).clamp(0)
        union = (x2 - x1) * (y2 - y1) + (X2 - X1) * (Y2 - Y1) - inter
        c = (torch.max(x2, X2) - torch.min(x1, X1)) * (
            torch.max(y2, Y2) - torch.min(y1, Y1)
        )
        return 1 - inter / union + (c - union) / c

    def f(p: torch.Tensor, t: torch.Tensor, reduction: str) -> Any:
        p, t = (torch.cat([q[:, :2], q[:, :2] + q[:, 2:].exp()], 1) for q in (p, t))
        loss = giou(p, t)
        focal = -0.25 * (1 - torch.sigmoid(p)) ** 2 * F.logsigmoid(p)
        return getattr(
            loss, reduction
        )() if reduction != "none" else loss, focal.sum() / max(1, len(p))

    return User(
        f,
        lambda d: (
            d.floats(d.n, 4),
            d.floats(d.n, 4),
            d.random.choice(["mean", "sum", "none"]),
        ),
    )


# Graphs -------------------------------------------------------------------------------


class GATLayer(nn.Module):
    def __init__(self, i: int, o: int) -> None:
        super().__init__()
        self.w, self.a = nn.Linear(i, o, bias=False), nn.Parameter(torch.randn(2 * o))

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        n = x.size(0)
        src, dst = edge_index
        h = self.w(x)
        e = F.leaky_relu((torch.cat([h[src], h[dst]], -1) * self.a).sum(-1), 0.2)
        mx = torch.full((n,), -torch.inf, dtype=e.dtype).scatter_reduce(
            0, dst, e, "amax", include_self=True
        )
        ex = (e - mx[dst]).exp()
        den = torch.zeros(n, dtype=ex.dtype).index_add(0, dst, ex)
        return torch.zeros_like(h).index_add(
            0, dst, (ex / den[dst]).unsqueeze(-1) * h[src]
        )


@user_of_parts
def graph_network() -> User:
    layers = nn.ModuleList([GATLayer(3, 4), GATLayer(4, 2)])

    def f(x: torch.Tensor, edges: torch.Tensor, batch: torch.Tensor) -> Any:
        for i, layer in enumerate(layers):
            x = layer(x, edges)
            if i < len(layers) - 1:
                x = F.elu(x)
        pooled = x.new_zeros(2, x.size(1)).index_add_(0, batch, x)
        count = torch.bincount(batch, minlength=2).clamp(min=1)
        return x, pooled / count.unsqueeze(-1)

    return User(
        f,
        lambda d: (d.floats(max(2, d.n), 3), d.ints(2, 2, 5), d.ints(2, max(2, d.n))),
        modules=(layers,),
        fixed=("dtype", "mode"),
    )


@user_of_parts
def ppo_loss() -> User:
    net = nn.ModuleDict({"pi": nn.Linear(3, 2), "v": nn.Linear(3, 1)})

    def gae(
        rewards: torch.Tensor,
        values: torch.Tensor,
        dones: torch.Tensor,
        gamma: float = 0.99,
        lam: float = 0.95,
    ) -> torch.Tensor:
        adv = torch.zeros_like(rewards)
        last = 0
        for t in reversed(range(rewards.shape[0])):
            nonterminal = 1.0 - dones[t].float()
            nxt = values[t + 1] if t + 1 < values.shape[0] else 0.0
            delta = rewards[t] + gamma * nxt * nonterminal - values[t]
            adv[t] = last = delta + gamma * lam * nonterminal * last
        return adv

    def f(
        s: torch.Tensor, a: torch.Tensor, r: torch.Tensor, d: torch.Tensor, clip: float
    ) -> Any:
        dist = torch.distributions.Categorical(logits=net["pi"](s), validate_args=False)
        v = net["v"](s).squeeze(-1)
        adv = gae(r, v.detach(), d)
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        ratio = (dist.log_prob(a) - dist.log_prob(a).detach()).exp()
        pg = torch.max(-adv * ratio, -adv * ratio.clamp(1 - clip, 1 + clip)).mean()
        return pg + 0.5 * F.mse_loss(v, adv) - 0.01 * dist.entropy().mean(), adv

    return User(
        f,
        lambda d: (
            d.floats(d.n, 3),
            d.ints(2, d.n),
            d.floats(d.n).detach(),
            d.bools(d.n),
            0.2,
        ),
        modules=(net,),
        fixed=("dtype", "mode"),
    )


@user_of_parts
def quantized_by_hand() -> User:
    w = torch.randn(6, 4)
    scale = w.abs().amax(1, keepdim=True) / 7
    q = (w / scale).round().clamp(-8, 7).to(torch.int8)
    packed = ((q[:, ::2] & 0xF) | ((q[:, 1::2] & 0xF) << 4)).to(torch.uint8)

    def unpack(p: torch.Tensor) -> torch.Tensor:
        lo = (p & 0xF).to(torch.int8)
        hi = (p >> 4).to(torch.int8)
        both = torch.stack([lo, hi], -1).flatten(1)
        return torch.where(both > 7, both - 16, both)

    def f(x: torch.Tensor) -> Any:
        wq = unpack(packed)
        y = x @ (wq.to(x.dtype) * scale.to(x.dtype)).T
        s = x.abs().max() / 127 if x.numel() else torch.tensor(1.0)
        xi = (x / s).round().clamp(-128, 127).to(torch.int8)
        acc = (xi.to(torch.int32) @ wq.T.to(torch.int32)).to(x.dtype) * s
        bits = (xi.view(torch.uint8).int().unsqueeze(-1) >> torch.arange(8)) & 1
        fake = x + ((xi.to(x.dtype) * s) - x).detach()
        return y, acc, bits.sum((-1, -2)), fake, xi.bitwise_xor(3), ~xi, xi << 1

    return User(f, lambda d: (d.floats(d.n, 4),), fixed=("dtype", "mode", "default"))
