# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs within a region of autocast: graph breaks, branches, errors, gradients of gradients, steps, threads."""

from __future__ import annotations

import contextlib
from typing import Any

import pyjit
import torch
from Integration.autocasting import linear, network, region, taken, whole
from Integration.harness import Compile, Steps, attempt, in_threads, scenario
from torch import nn

# Programs


@scenario(grad=True, versions=False, graph_breaks="print")
def test_graph_break_within(compile: Compile) -> Steps:
    m = network()

    def g(x: torch.Tensor) -> torch.Tensor:
        y = m[0](x)
        print(end="")
        return m[2](torch.relu(y)) + m[2](torch.relu(m[0](x)))

    f = compile(g)
    for seed in range(4):
        with region():
            first = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
                m[2].weight.add_(1)
            second = f(whole(5, 4, seed=seed))
        yield taken(m, first, second)


@scenario(grad=True, versions=False, graph_breaks=None)
def test_weight_written_at_a_graph_break(compile: Compile) -> Steps:
    m = network()

    @pyjit.disable
    def write() -> None:
        with torch.no_grad():
            m[0].weight.add_(1)
            m[2].weight.add_(1)

    def g(x: torch.Tensor) -> torch.Tensor:
        y = m[0](x)
        write()
        return m[2](torch.relu(y)) + m[2](torch.relu(m[0](x)))

    f = compile(g)
    for seed in range(4):
        with region():
            out = f(whole(5, 4, seed=seed))
        yield taken(m, out)


@scenario(grad=True, versions=False, captured="late", graph_breaks=None)
def test_graph_break_in_a_region_of_the_call(compile: Compile) -> Steps:
    """Both regions switch to the same state: what is left is how deep they are nested."""
    m = network()

    def g(x: torch.Tensor) -> torch.Tensor:
        with region():
            y = m[0](x)
            print(end="")
            return m[2](torch.relu(y))

    f = compile(g)
    for seed in range(4):
        with region():
            first = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
            second = f(whole(5, 4, seed=seed))
        yield taken(m, first, second)
        yield [torch.is_autocast_enabled("cpu"), taken(m, f(whole(5, 4, seed=seed)))]


@scenario(grad=True, versions=False, graph_breaks=None)
def test_branch_on_data(compile: Compile) -> Steps:
    m, other = network(), linear(6, 3, seed=5)

    def g(x: torch.Tensor) -> torch.Tensor:
        y = m[0](x)
        if y.float().sum() > 0:
            return m[2](y.relu())
        with torch.no_grad():
            m[2].weight.add_(1)
        return other(y.relu()) + m[2](y.relu())

    f = compile(g)
    for seed in range(8):
        with region():
            first = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                other.weight.add_(1)
            second = f(-whole(5, 4, seed=seed))
            third = other(whole(2, 6, seed=seed)) + m[2](whole(2, 6, seed=seed))
        yield taken(nn.ModuleList([m, other]), first, second, third)


@scenario(graph_breaks=None)
def test_loop_on_data(compile: Compile) -> Steps:
    m, last = linear(4, 4), linear(4, 4, seed=3)

    def g(x: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
        count = torch.zeros(())
        while count < limit:
            x = torch.relu(m(x)).clamp(max=3)
            count = count + 1
        return last(x)

    f = compile(g)
    for seed in range(4):
        for limit in (3, 5, 0, 4):
            with region():
                yield f(whole(2, 4, seed=seed), torch.tensor(float(limit)))
                m.weight.add_(1)
                last.weight.add_(1)
                yield f(whole(2, 4, seed=seed), torch.tensor(3.0))
            m.weight.sign_()
            last.weight.sign_()


@scenario(grad=True, versions=False)
def test_custom_module_asks(compile: Compile) -> Steps:
    class Careful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if torch.is_autocast_enabled("cpu"):
                x = x.to(torch.get_autocast_dtype("cpu"))
            with torch.autocast("cpu", enabled=False):
                x = x.float() * 2
            return self.inner(x)

    m = Careful()
    f = compile(m)
    for seed in range(3):
        with region():
            first = f(whole(3, 4, seed=seed))
        yield taken(m, first, f(whole(3, 4, seed=seed)))


@scenario(grad=True, versions=False, graph_breaks=None)
def test_exception_within(compile: Compile) -> Steps:
    m = network()

    def g(x: torch.Tensor, bad: bool) -> torch.Tensor:
        y = m[0](x)
        if bad:
            raise ValueError("bad")
        return m[2](torch.relu(y))

    f = compile(g)
    for seed in range(4):
        with region():
            first = f(whole(5, 4, seed=seed), False)
        yield taken(m, first)
        with region():
            raised = attempt(f, whole(5, 4, seed=seed), True)
            with torch.no_grad():
                m[0].weight.add_(1)
                m[2].weight.add_(1)
            second = f(whole(5, 4, seed=seed), False)
        yield [raised, taken(m, second)]


@scenario(grad=True, versions=False, graph_breaks=None)
def test_error_of_an_operator(compile: Compile) -> Steps:
    m, table = network(), nn.Embedding(3, 4)
    with torch.no_grad():
        table.weight.copy_(whole(3, 4))

    f = compile(lambda i: m(table(i)))
    for seed in range(4):
        with region():
            first = f(torch.tensor([0, 1, 2]))
        yield taken(m, first)
        with region():
            raised = attempt(f, torch.tensor([0, 1, 7]))
        with region():
            second = f(torch.tensor([2, 1, 0]))
        yield [type(raised), taken(m, second)]


@scenario(grad=True, versions=False)
def test_gradients_of_gradients(compile: Compile) -> Steps:
    m = nn.Sequential(linear(4, 6), nn.Tanh(), linear(6, 1, seed=2))
    f = compile(m)
    for seed in range(3):
        x = torch.zeros(3, 4).requires_grad_()
        with torch.no_grad():
            m[0].bias.zero_()
        with region():
            out = f(x + x * seed)
        (g,) = torch.autograd.grad(out.float().sum(), x, create_graph=True)
        (g.float() ** 2).sum().backward()
        yield taken(m, g.detach())


@scenario(grad=True, versions=False)
def test_backward_behind_a_step(compile: Compile) -> Steps:
    """What is saved is the cast: eager does not mind that the weight was written."""
    m = network()
    f = compile(m)
    for seed in range(3):
        with region():
            out = f(whole(5, 4, seed=seed))
        with torch.no_grad():
            m[0].weight.add_(1)
            m[2].weight.add_(1)
        yield taken(m, out)


@scenario(grad=True, versions=False)
def test_gradient_scaler(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    optimizer = torch.optim.SGD(m.parameters(), lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for seed in range(4):
        with region():
            loss = f(whole(5, 4, seed=seed)).float().sum()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_value_(m.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        yield taken(m, loss.detach())


@scenario(grad=True, versions=False)
def test_accumulated_gradients(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    for seed in range(3):
        for k in range(3):
            with region():
                loss = f(whole(5, 4, seed=seed + k)).float().sum()
            loss.backward()
        yield taken(m)


@scenario(grad=True, versions=False)
def test_loss_within(compile: Compile) -> Steps:
    m = network()

    @region()
    def eager_step(x: torch.Tensor) -> torch.Tensor:
        return m(x)

    f = compile(lambda x, y: (m(x).float() - y).abs().sum())
    for seed in range(3):
        with region():
            loss = f(whole(5, 4, seed=seed), whole(5, 3, seed=seed))
        yield taken(m, loss, eager_step(whole(5, 4, seed=seed)))


def test_threads() -> None:
    """Autocast's state is a thread's own; its cache is not."""
    m = network()
    f = pyjit.compile(m)
    with region():
        f(whole(5, 4))
    wrong: list[int] = []

    def work(number: int) -> None:
        for seed in range(20):
            x = whole(5, 4, seed=number * 100 + seed)
            with region() if seed % 3 else contextlib.nullcontext():
                have = f(x)
            with region() if seed % 3 else contextlib.nullcontext():
                want = m(x)
            if have.dtype != want.dtype or not torch.equal(have, want):
                wrong.append(number)

    in_threads(work, ((n,) for n in range(4)))
    assert not wrong
    # Calls that come while another thread's is recorded run in eager.
    assert pyjit.stats(f)["hits"] > 30


def test_casts_are_autocasts_own() -> None:
    """One cast of each weight in a region, made by whoever is first."""
    m = network()
    f = pyjit.compile(m)
    counted = 0

    class Count(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            nonlocal counted
            counted += func is torch.ops.aten._to_copy.default
            return func(*args, **(kwargs or {}))

    x = whole(5, 4).bfloat16()
    for _ in range(3):
        with region():
            f(x)
            with Count():
                m(x)
        assert counted == 0
    assert pyjit.stats(f)["hits"] == 2


def test_nothing_outlives_the_region() -> None:
    m = network()
    f = pyjit.compile(m)
    for _ in range(3):
        with region():
            f(whole(5, 4))
    assert pyjit.stats(f)["hits"] == 2
    with torch.no_grad():
        for p in m.parameters():
            p.add_(1)
    with region():
        have = f(whole(5, 4))
    with region():
        assert torch.equal(have, m(whole(5, 4)))
