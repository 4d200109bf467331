# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a call keeps for its backward: one block of memory, of its own for each call, on the CPU and on a (simulated) device."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import Compile, Steps, attempt, scenario, values
from Integration.training import gradients, leaf, loss_of, perceptron, state
from torch import nn
from torch.nn import functional as F


class Mixed(nn.Module):
    """Kernels' results, vendor calls', views of both, and a saved result that is shown, too."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(6, 10), nn.Linear(5, 6)
        self.norm = nn.LayerNorm(6)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = self.first(x).chunk(2, -1)
        gate = torch.sigmoid(a) * torch.tanh(b)
        y = self.norm(x + self.second(gate))
        return y.softmax(-1), gate


def layers() -> nn.Module:
    """Equal layers are a loop, whose results are views of one value."""
    torch.manual_seed(0)
    return nn.Sequential(*[m for _ in range(12) for m in (nn.Linear(6, 6), nn.Tanh())])


OPTIONS: dict[str, dict[str, Any]] = {
    "cpu": {},
    **{
        launch: {"simulated_device": True, "launch": launch}
        for launch in ("plain", "copy", "table", "update")
    },
}
MODELS: dict[str, Callable[[], nn.Module]] = {"mixed": Mixed, "layers": layers}


def several(compile: Compile, make: Callable[[], nn.Module]) -> Steps:
    """Several calls are alive at once; their backward passes come in another order."""
    m = make()
    f = compile(m)
    for size in (3, 3, 3, 5, 4, 5, 4, 5):
        inputs = [leaf(size, 6, seed=k) for k in range(3)]
        outs = [f(x) for x in inputs]
        m.zero_grad()
        for k in (1, 0, 2):
            loss_of(outs[k]).backward(retain_graph=k == 0)
        loss_of(outs[0]).backward()
        yield [outs, gradients(*inputs), state(m)]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("model", MODELS)
def test_calls_alive_at_once(model: str, options: str) -> None:
    from Integration.harness import tell

    def story(compile: Compile) -> Steps:
        return several(lambda f: compile(f, options=OPTIONS[options]), MODELS[model])

    tell(story, grad=True)


@pytest.mark.parametrize("options", ["cpu", "table"])
def test_gradients_of_gradients(options: str) -> None:
    from Integration.harness import tell

    def story(compile: Compile) -> Steps:
        f = compile(
            lambda x, w: F.layer_norm(torch.tanh(x @ w).exp(), (5,)).sigmoid(),
            options=OPTIONS[options],
        )
        for _ in range(5):
            x, w = leaf(4, 6), leaf(6, 5, seed=1)
            first = torch.autograd.grad(loss_of(f(x, w)), (x, w), create_graph=True)
            loss_of(first).backward()
            yield [first, gradients(x, w)]

    tell(story, grad=True)


@scenario(grad=True)
def test_saved_result_is_shown(compile: Compile) -> Steps:
    """A write to it is an error, a write to another result that shares no memory is none."""
    f = compile(lambda x: (torch.tanh(x), x.exp().sin()))
    for step in range(4):
        x = leaf(4)
        first, second = f(x)
        if step % 2:
            first.detach().mul_(2)
        second.detach().mul_(2)
        raised = attempt(lambda a=first: a.sum().backward())
        yield [type(raised), gradients(x)]  # its text names the node


@scenario(grad=True)
def test_results_are_written(compile: Compile) -> Steps:
    """What the call shows shares no memory with what it keeps."""
    m = layers()
    f = compile(lambda x: (m(x), m[:6](x).t()))
    for step in range(4):
        x = leaf(4, 6, seed=step)
        m.zero_grad()
        a, b = f(x)
        loss = a.sum() * 2
        b.detach().zero_()
        loss.backward()
        yield [a, b, gradients(x), state(m)]


def resident() -> float:
    """Megabytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise AssertionError


@pytest.mark.alone
def test_memory_goes_with_the_graph() -> None:
    """Behind `backward`, although the result lives on, and with a result that nobody keeps."""
    w = torch.rand(64, 64)
    f = pyjit.compile(lambda x: (torch.tanh(x @ w) @ w).sum(-1))
    x = torch.rand(8 << 20).view(-1, 64).requires_grad_()  # 32 MB
    for _ in range(4):
        f(x).sum().backward()
    assert pyjit.stats(f)["hits"] >= 2
    gc.collect()
    before = resident()
    out = f(x).sum()
    kept = resident() - before
    out.backward()
    assert kept > 16, "the call keeps nothing: this is no test"
    assert resident() - before < 0.5 * kept
    for _ in range(20):
        f(x)
    assert resident() - before < 2 * kept


@scenario(grad=True, captured="late")
def test_accumulator_is_another(compile: Compile) -> Steps:
    """Data of another type give a parameter another accumulator; hooks are on that one."""
    m = perceptron()
    f = compile(m)
    seen: list[str] = []
    for step in range(6):
        weight = m[0].weight
        if step in (2, 4):
            m.double()
            m.float()
        node = weight.expand_as(weight).grad_fn.next_functions[0][0]
        handle = node.register_hook(lambda *_: seen.append("hook"))
        m.zero_grad()
        out = f(values(3, 4, seed=step))
        loss_of(out).backward()
        handle.remove()
        yield [out, state(m), list(seen)]


@scenario(grad=True, captured="late")
def test_accumulator_dies(compile: Compile) -> Steps:
    """The parameter is another one, and nobody else holds the old one."""
    m = perceptron()
    f = compile(m)
    for step in range(6):
        if step in (2, 4):
            m[0].weight = nn.Parameter(values(8, 4, seed=step))
        m.zero_grad()
        out = f(values(3, 4, seed=step))
        loss_of(out).backward()
        yield [out, state(m)]
