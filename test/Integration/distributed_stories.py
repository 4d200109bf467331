# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What each of several processes does with DistributedDataParallel (gloo): `test_training_distributed.py` starts them.

    distributed_stories.py RANK SIZE PORT

tells each story in eager and compiled, and prints a line for each that agrees.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, tell, values
from Integration.training import OPTIMIZERS, loss_of, state
from torch import nn
from torch.nn.parallel import DistributedDataParallel as Parallel


class Net(nn.Module):
    """Several buckets of gradients, statistics, a layer that some steps leave out. In double precision: what
    rounds otherwise must not look like a gradient of another process."""

    def __init__(self, norm: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(4, 64), nn.Linear(64, 64)
        self.norm = nn.BatchNorm1d(64) if norm else nn.Identity()
        self.beside, self.last = nn.Linear(64, 64), nn.Linear(64, 2)
        self.uses_beside = True
        self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(self.second(self.first(x).relu()))
        if self.uses_beside:
            h = h + self.beside(h).tanh()
        return self.last(h)


SMALL = {"bucket_cap_mb": 0.01}  # a few thousand numbers: several buckets


def wrapped(compile: Compile, m: nn.Module, inside: bool, **options: Any) -> Any:
    """A compiled module wrapped, or the wrapped one compiled."""
    return (
        Parallel(compile(m), **options) if inside else compile(Parallel(m, **options))
    )


def batch(step: int) -> torch.Tensor:
    """Each process has its own."""
    return values(6, 4, seed=10 * step + dist.get_rank()).double()


def steps_of(
    compile: Compile,
    inside: bool,
    between: Callable[[int, Any], None] = lambda step, m: None,
    optimizer: str = "SGD",
    norm: bool = True,
    **options: Any,
) -> Steps:
    m = Net(norm)
    f = wrapped(compile, m, inside, **options)
    chosen = OPTIMIZERS[optimizer](list(m.parameters()))
    for step in range(6):
        between(step, m)
        chosen.zero_grad()
        out = f(batch(step))
        loss_of(out).backward()
        chosen.step()
        yield [out, state(m, chosen)]


def plain(compile: Compile, inside: bool) -> Steps:
    yield from steps_of(compile, inside)


def buckets(compile: Compile, inside: bool) -> Steps:
    yield from steps_of(compile, inside, **SMALL)


def gradients_are_views(compile: Compile, inside: bool) -> Steps:
    yield from steps_of(compile, inside, gradient_as_bucket_view=True, **SMALL)


def static_graph(compile: Compile, inside: bool) -> Steps:
    yield from steps_of(compile, inside, static_graph=True, **SMALL)


def unused_parameters(compile: Compile, inside: bool) -> Steps:
    def between(step: int, m: Any) -> None:
        m.uses_beside = step % 2 == 0

    yield from steps_of(compile, inside, between, find_unused_parameters=True, **SMALL)


def accumulation(compile: Compile, inside: bool) -> Steps:
    """Gradients are exchanged in every second step only."""
    m = Net()
    f = wrapped(compile, m, inside, **SMALL)
    chosen = OPTIMIZERS["SGD"](list(m.parameters()))
    for step in range(6):
        with f.no_sync():
            loss_of(f(batch(2 * step))).div(2).backward()
        yield state(m)
        loss_of(f(batch(2 * step + 1))).div(2).backward()
        chosen.step()
        yield state(m, chosen)
        chosen.zero_grad()


def communication_hook(compile: Compile, inside: bool) -> Steps:
    """Told of each bucket; sums in single precision."""
    m = Net()
    seen: list[int] = []
    parallel = Parallel(compile(m) if inside else m, **SMALL)

    def hook(_, bucket):  # type: ignore[no-untyped-def]  # DDP looks at the annotations
        seen.append(bucket.index())
        sent = bucket.buffer().float() / dist.get_world_size()
        future = dist.all_reduce(sent, async_op=True).get_future()
        return future.then(lambda f: bucket.buffer().copy_(f.value()[0]))

    parallel.register_comm_hook(None, hook)
    f = parallel if inside else compile(parallel)
    for step in range(5):
        m.zero_grad()
        loss_of(f(batch(step))).backward()
        yield [state(m), sorted(seen)]


def hooks_of_parameters(compile: Compile, inside: bool) -> Steps:
    m = Net()
    seen: list[float] = []
    f = wrapped(compile, m, inside, **SMALL)
    m.last.weight.register_hook(lambda g: seen.append(g.sum().item()) or g * 2)
    m.last.bias.register_post_accumulate_grad_hook(
        lambda p: seen.append(p.grad.sum().item())
    )
    for step in range(5):
        m.zero_grad()
        loss_of(f(batch(step))).backward()
        yield [state(m), sorted(seen)]


def dropout_and_evaluation(compile: Compile, inside: bool) -> Steps:
    m = nn.Sequential(Net(), nn.Dropout(0.3))
    f = wrapped(compile, m, inside)
    for step in range(6):
        torch.manual_seed(step)
        f.train(step % 3 > 0)
        m.zero_grad()
        out = f(batch(step))
        loss_of(out).backward()
        with torch.no_grad():
            yield [out, state(m), f(batch(9))]


def whole_step(compile: Compile, inside: bool) -> Steps:
    m = Net()
    parallel = Parallel(compile(m) if inside else m, **SMALL)
    chosen = OPTIMIZERS["SGD"](list(m.parameters()))
    target = values(6, 2, seed=9).double()

    def step_of(x: torch.Tensor) -> torch.Tensor:
        chosen.zero_grad()
        loss = F.mse_loss(parallel(x), target)
        loss.backward()
        chosen.step()
        return loss.detach()

    f = compile(step_of)
    for step in range(6):
        yield [f(batch(step)), state(m, chosen)]


def collectives(compile: Compile, inside: bool) -> Steps:
    """The user's own, in the compiled function."""
    m = Net(norm=False)

    def loss(x: torch.Tensor) -> torch.Tensor:
        out = m(x)
        mean = out.detach().mean()
        dist.all_reduce(mean)
        if inside:
            dist.barrier()
        return ((out - mean / dist.get_world_size()) ** 2).mean()

    f = compile(loss)
    chosen = OPTIMIZERS["SGD"](list(m.parameters()))
    for step in range(6):
        chosen.zero_grad()
        value = f(batch(step))
        value.backward()
        for p in m.parameters():
            if p.grad is not None:
                dist.all_reduce(p.grad)
        chosen.step()
        yield [value, state(m, chosen)]


STORIES: dict[str, Callable[[Compile, bool], Steps]] = {
    story.__name__: story
    for story in (
        plain,
        buckets,
        gradients_are_views,
        static_graph,
        unused_parameters,
        accumulation,
        communication_hook,
        hooks_of_parameters,
        dropout_and_evaluation,
        whole_step,
        collectives,
    )
}


def main(rank: int, size: int, port: int) -> None:
    torch.set_num_threads(1)
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
    dist.init_process_group("gloo", rank=rank, world_size=size)
    for name, story in STORIES.items():
        for inside in (True, False):
            tell(
                lambda compile, s=story, i=inside: s(compile, i),
                grad=True,
                graph_breaks=ANY,
                captured=False,
            )
            print(f"{name}, {'inside' if inside else 'outside'}: agrees", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
