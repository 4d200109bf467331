# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs that keep state, as people publish them, for `test_user_programs.py`."""

# The spellings are those of the programs.
# ruff: noqa: C408

from __future__ import annotations

import dataclasses
import math
import types
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from Integration.user_driver import User, user, user_of_parts
from torch import nn


@user
def sum_tree() -> User:
    class Tree:
        def __init__(self, n: int) -> None:
            self.n, self.tree, self.pos = n, torch.zeros(2 * n), 0

        def add(self, p: torch.Tensor) -> None:
            i = self.pos + self.n
            self.tree[i] = p
            while i > 1:
                i //= 2
                self.tree[i] = self.tree[2 * i] + self.tree[2 * i + 1]
            self.pos = (self.pos + 1) % self.n

        def total(self) -> torch.Tensor:
            return self.tree[1]

    t = Tree(4)

    def f(x: torch.Tensor) -> Any:
        for p in x.abs():
            t.add(p)
        return t.total(), t.tree[t.n :] / t.total()

    return User(
        f,
        lambda d: (d.floats(min(d.n, 2)).detach(),),
        t,
        (lambda: t.__init__(8),),
        fixed=("mode",),
    )


@user
def double_buffer_swap() -> User:
    class Sim:
        def __init__(self) -> None:
            self.a, self.b = torch.randn(5, 5), torch.zeros(5, 5)
            self.tick = 0

        def step(self, k: float) -> torch.Tensor:
            torch.mul(self.a, k, out=self.b)
            self.b[1:-1] += self.a[:-2]
            self.a, self.b = self.b, self.a
            self.tick += 1
            return self.a[self.tick % 5]

    s = Sim()
    return User(
        s.step,
        lambda d: (d.random.choice([0.5, 0.5, 0.25]),),
        s,
        (
            lambda: setattr(s, "b", s.a.clone()),
            lambda: setattr(s, "a", torch.ones(5, 5)),
        ),
        fixed=("mode", "default"),
    )


@user_of_parts
def meters() -> User:
    class Meter:
        def __init__(self, window: int = 3) -> None:
            self.values: deque[float] = deque(maxlen=window)
            self.total, self.count = 0.0, 0

        def update(self, v: float, n: int = 1) -> None:
            self.values.append(v)
            self.total += v * n
            self.count += n

        @property
        def avg(self) -> float:
            return self.total / max(self.count, 1)

    class Logger:
        def __init__(self) -> None:
            self.meters: dict[str, Meter] = {}

        def update(self, **kw: Any) -> None:
            for k, v in kw.items():
                if isinstance(v, torch.Tensor):
                    v = v.item()
                self.meters.setdefault(k, Meter()).update(v)

        def __getattr__(self, k: str) -> Meter:
            if k in self.__dict__.get("meters", {}):
                return self.meters[k]
            raise AttributeError(k)

    log = Logger()

    def f(x: torch.Tensor) -> Any:
        log.update(loss=x.mean(), n=len(x))
        return x * 2, log.loss.avg, log.n.count

    return User(
        f,
        lambda d: (d.floats(max(1, d.n)),),
        {k: m for k, m in log.meters.items()},
        (lambda: log.meters.clear(), lambda: log.meters.setdefault("lr", Meter())),
    )


@user
def lion_optimizer() -> User:
    class Lion(torch.optim.Optimizer):
        def __init__(
            self,
            params: Any,
            lr: float = 1e-2,
            betas: tuple[float, float] = (0.9, 0.99),
            wd: float = 0.1,
        ) -> None:
            super().__init__(params, dict(lr=lr, betas=betas, weight_decay=wd))

        @torch.no_grad()
        def step(self, closure: Any = None) -> Any:
            loss = None
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    p.data.mul_(1 - group["lr"] * group["weight_decay"])
                    state = self.state[p]
                    if len(state) == 0:
                        state["exp_avg"] = torch.zeros_like(p)
                    m = state["exp_avg"]
                    b1, b2 = group["betas"]
                    update = m * b1 + p.grad * (1 - b1)
                    p.add_(update.sign_(), alpha=-group["lr"])
                    m.mul_(b2).add_(p.grad, alpha=1 - b2)
            return loss

    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    opt = Lion(net.parameters())
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda e: 0.9**e)

    def step(x: torch.Tensor) -> Any:
        opt.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        opt.step()
        sched.step()
        return loss.detach(), opt.param_groups[0]["lr"]

    return User(
        step,
        lambda d: (d.floats(max(1, d.n), 3).detach(),),
        opt.state,
        (lambda: opt.param_groups[0].update(weight_decay=0.0),),
        fixed=("mode", "dtype", "default"),
        modules=(net,),
    )


@user
def sharpness_aware() -> User:
    net = nn.Linear(3, 2)
    base = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    old: dict[Any, torch.Tensor] = {}

    def step(x: torch.Tensor, y: torch.Tensor, rho: float = 0.05) -> Any:
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        with torch.no_grad():
            norm = torch.norm(torch.stack([p.grad.norm() for p in net.parameters()]))
            for p in net.parameters():
                old[p] = p.data.clone()
                p.add_(p.grad * (rho / (norm + 1e-12)))
        base.zero_grad()
        F.cross_entropy(net(x), y).backward()
        with torch.no_grad():
            for p in net.parameters():
                p.data = old.pop(p)
        base.step()
        base.zero_grad()
        return loss.item()

    return User(
        step,
        lambda d: (d.floats(max(1, d.n), 3).detach(), d.ints(2, max(1, d.n))),
        None,
        fixed=("mode", "dtype", "default"),
        modules=(net,),
    )


@user_of_parts
def gradient_accumulation() -> User:
    net, state = nn.Linear(3, 1), {"micro": 0}
    opt = torch.optim.AdamW(net.parameters(), lr=0.01)

    def step(x: torch.Tensor, every: int = 3) -> Any:
        loss = net(x).mean() / every
        loss.backward()
        state["micro"] += 1
        if state["micro"] % every == 0:
            opt.step()
            opt.zero_grad()
            return loss.detach(), True
        return loss.detach(), False

    return User(
        step,
        lambda d: (d.floats(max(1, d.n), 3).detach(),),
        state,
        (lambda: state.update(micro=0), lambda: net.zero_grad()),
        fixed=("mode", "dtype", "default"),
        modules=(net,),
    )


@user
def sinkhorn_and_gumbel() -> User:
    def sinkhorn(c: torch.Tensor, eps: float, iters: int) -> torch.Tensor:
        n, m = c.shape
        mu, nu = (
            torch.full((n,), -math.log(max(n, 1))),
            torch.full((m,), -math.log(max(m, 1))),
        )
        u, v = torch.zeros(n), torch.zeros(m)
        for _ in range(iters):
            u = eps * (mu - torch.logsumexp((v[None] - c) / eps, 1))
            v = eps * (nu - torch.logsumexp((u[:, None] - c) / eps, 0))
        return torch.exp((u[:, None] + v[None] - c) / eps)

    def f(a: torch.Tensor, b: torch.Tensor, hard: bool) -> Any:
        plan = sinkhorn(torch.cdist(a, b), 0.5, 3)
        g = -torch.empty_like(plan).exponential_().log()
        soft = ((plan.clamp_min(1e-9).log() + g) / 0.7).softmax(-1)
        if hard and soft.numel():
            idx = soft.argmax(-1, keepdim=True)
            soft = torch.zeros_like(soft).scatter_(-1, idx, 1.0) - soft.detach() + soft
        return plan.sum(), soft

    return User(
        f,
        lambda d: (d.floats(d.n, 2), d.floats(3, 2), d.random.random() < 0.5),
        fixed=("dtype", "mode"),
    )


@user
def running_normalizer() -> User:
    class RunningMeanStd:
        def __init__(self, shape: tuple[int, ...] = (3,)) -> None:
            self.mean, self.var, self.count = (
                torch.zeros(shape, dtype=torch.float64),
                torch.ones(shape, dtype=torch.float64),
                1e-4,
            )

        def update(self, x: torch.Tensor) -> None:
            m, v, n = x.mean(0).double(), x.var(0, unbiased=False).double(), x.shape[0]
            delta, tot = m - self.mean, self.count + n
            self.mean = self.mean + delta * n / tot
            m2 = self.var * self.count + v * n + delta.square() * self.count * n / tot
            self.var, self.count = m2 / tot, tot

    r = RunningMeanStd()

    def f(x: torch.Tensor, update: bool) -> torch.Tensor:
        if update:
            r.update(x.detach())
        return ((x - r.mean.to(x)) / (r.var.to(x) + 1e-8).sqrt()).clamp(-5, 5)

    return User(
        f,
        lambda d: (d.floats(max(d.n, 1), 3), d.random.random() < 0.7),
        r,
        (lambda: r.__init__(),),
    )


@user
def kv_ring_buffer() -> User:
    class Ring(nn.Module):
        def __init__(self, size: int = 6, d: int = 4) -> None:
            super().__init__()
            self.register_buffer("k", torch.zeros(size, d))
            self.register_buffer("v", torch.zeros(size, d))
            self.pos, self.size = 0, size

        def forward(
            self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
        ) -> torch.Tensor:
            idx = (self.pos + torch.arange(k.shape[0])) % self.size
            self.k[idx], self.v[idx] = (
                k.detach().to(self.k.dtype),
                v.detach().to(self.v.dtype),
            )
            self.pos += k.shape[0]
            n = min(self.pos, self.size)
            w = (q @ self.k[:n].T.to(q.dtype)) / 2
            return w.softmax(-1) @ self.v[:n].to(w.dtype)

    r = Ring()
    return User(
        r,
        lambda d: (
            d.floats(2, 4),
            d.floats(1 if d.n == 4 else min(d.n, 5), 4),
            d.floats(1 if d.n == 4 else min(d.n, 5), 4),
        ),
        None,
        (lambda: setattr(r, "pos", 0), lambda: r.k.zero_()),
        modules=(r,),
        fixed=("mode",),
    )


@user_of_parts
def results_that_alias() -> User:
    bank = torch.randn(8, 3)

    def f(x: torch.Tensor, i: int) -> Any:
        row = bank[i]
        part = x[1:]
        flat = x.flatten()
        both = {
            "row": row,
            "part": part,
            "same": x,
            "t": x.T,
            "flat": flat,
            "copy": x.contiguous(),
            "exp": row.expand(2, 3),
        }
        if i % 2:
            row.mul_(0.5)
        lo, hi = bank.split(4)
        hi[0] = row
        return both, (lo, hi), bank.view(-1)[::2], x.detach(), x[None].squeeze(0)

    return User(
        f,
        lambda d: (d.floats(d.n, 3), d.random.choice([1, 2, 2])),
        bank,
        fixed=("mode",),
    )


@user
def monkey_patches() -> User:
    class Attn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q = nn.Linear(4, 4)
            self.processor: Callable[..., torch.Tensor] = plain

        def forward(self, x: torch.Tensor, **kw: Any) -> torch.Tensor:
            return self.processor(self, x, **kw)

    def plain(attn: Any, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return attn.q(x) * scale

    class Slow:
        calls = 0

        def __call__(
            self, attn: Any, x: torch.Tensor, scale: float = 1.0, **_: Any
        ) -> torch.Tensor:
            self.calls += 1
            return attn.q(x).relu() * scale + self.calls

    a, slow = Attn(), Slow()
    old = a.q.forward
    return User(
        lambda x: a(x, scale=2.0),
        lambda d: (d.floats(d.n, 4),),
        slow,
        (
            lambda: setattr(a, "processor", slow),
            lambda: setattr(a.q, "forward", lambda x: old(x) + 1),
            lambda: setattr(
                a, "forward", types.MethodType(lambda self, x, **kw: self.q(x), a)
            ),
            lambda: a.__dict__.pop("forward"),
            lambda: setattr(slow, "calls", 10),
            lambda: delattr(a.q, "forward"),
            lambda: setattr(Attn, "forward", lambda self, x, **kw: x),
        ),
        modules=(a,),
    )


@user
def weak_cache() -> User:
    cache: dict[tuple[Any, ...], torch.Tensor] = {}
    hits = {"hit": 0, "miss": 0}

    def mask(n: int, device: Any, dtype: torch.dtype) -> torch.Tensor:
        key = (n, str(device), dtype)
        if key not in cache:
            hits["miss"] += 1
            if len(cache) > 3:
                cache.pop(next(iter(cache)))
            cache[key] = torch.full((n, n), float("-inf"), dtype=dtype).triu(1)
        else:
            hits["hit"] += 1
        return cache[key]

    def f(x: torch.Tensor) -> torch.Tensor:
        return (x @ x.mT + mask(x.shape[-2], x.device, x.dtype)).softmax(-1)

    return User(f, lambda d: (d.floats(d.n, 3),), (cache, hits), (cache.clear,))


@user_of_parts
def padding_and_collate() -> User:
    @dataclasses.dataclass
    class Sample:
        x: torch.Tensor
        label: int
        meta: dict[str, Any] = dataclasses.field(default_factory=dict)

        def __post_init__(self) -> None:
            self.meta.setdefault("n", len(self.x))

    def collate(items: list[Sample]) -> dict[str, Any]:
        items = sorted(items, key=lambda s: -s.meta["n"])
        x = nn.utils.rnn.pad_sequence(
            [s.x for s in items], batch_first=True, padding_value=-1
        )
        return {
            "x": x,
            "mask": x != -1,
            "y": torch.tensor([s.label for s in items]),
            **{k: [s.meta[k] for s in items] for k in items[0].meta},
        }

    def f(x: torch.Tensor, cuts: list[int]) -> Any:
        b = collate([Sample(x[:c], i) for i, c in enumerate(cuts)])
        pooled = (b["x"] * b["mask"]).sum(1)
        return pooled, b["n"], b["y"]

    return User(
        f, lambda d: (d.floats(5), d.random.choice([[1, 3], [1, 3], [5, 2, 2], [0, 4]]))
    )


@user_of_parts
def adaptive_computation() -> User:
    cell, halt = nn.GRUCell(2, 3), nn.Linear(3, 1)

    def f(x: torch.Tensor, limit: int) -> Any:
        h = x.new_zeros(x.shape[0], 3)
        total, n = torch.zeros(x.shape[0]), torch.zeros(x.shape[0])
        out = torch.zeros_like(h)
        for step in range(limit):
            h = cell(x, h)
            p = halt(h).sigmoid().squeeze(-1)
            running = (total < 0.99).to(p.dtype)
            p = torch.where(total + p * running > 0.99, 1 - total, p) * running
            total, n = total + p, n + running
            out = out + p.unsqueeze(-1) * h
            if bool((total >= 0.99).all()):
                break
        return out, n, step

    return User(
        f,
        lambda d: (d.floats(d.n, 2), 4),
        modules=(cell, halt),
        fixed=("dtype", "default", "mode"),
    )
