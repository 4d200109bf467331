# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Casts that autocast keeps of weights, where the region lies around the call: a hit makes those that are missing
together, with one node. What eager code in the region sees of them, and gradients, stay eager's."""

from __future__ import annotations

from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import Compile, Steps, attempt, in_threads, scenario, values
from torch import nn

REGION = {"device_type": "cpu", "dtype": torch.bfloat16}


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 6), nn.Linear(6, 4))


def gradients(m: nn.Module) -> list[Any]:
    found = [None if p.grad is None else p.grad.clone() for p in m.parameters()]
    m.zero_grad()
    return found


def nodes(out: torch.Tensor) -> list[str]:
    seen, todo = [], [out.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.append(node)
            todo += [edge for edge, _ in node.next_functions]
    return [node.name() for node in seen]


def test_one_node() -> None:
    m = network()
    f = pyjit.compile(m, options={"strict": True, "compare_with_eager": False})
    for seed in range(3):
        with torch.autocast(**REGION):
            out = f(values(3, 8, seed=seed))
        out.float().sum().backward()
    assert pyjit.stats(f)["hits"] == 2
    with torch.autocast(**REGION):
        names = nodes(f(values(3, 8)))
    assert names.count("PyjitCastsBackward") == 1, names
    assert "ToCopyBackward0" not in names, names


@scenario(grad=True, versions=False)
def test_eager_code_in_front_and_behind(compile: Compile) -> Steps:
    """Some casts are there before the call, others after it: gradients of both users meet in them."""
    m = network()
    f = compile(m)
    for seed in range(6):
        x = values(3, 8, seed=seed)
        with torch.autocast(**REGION):
            early = m[2](values(2, 6, seed=seed)).float().sum() if seed % 2 else 0
            out = f(x)
            late = m[0](x).float().sum() if seed % 3 else 0
        (out.float().square().sum() + early + late).backward()
        yield out, gradients(m)


@scenario(grad=True, versions=False)
def test_weights_written_in_the_region(compile: Compile) -> Steps:
    """The first cast is the one that the region keeps."""
    m = network()
    f = compile(m)
    for seed in range(4):
        x = values(3, 8, seed=seed)
        with torch.autocast(**REGION):
            first = f(x)
            with torch.no_grad():
                for p in m.parameters():
                    p.add_(1)
            second = f(x)
            third = m(x)
        (first + second + third).float().sum().backward()
        yield first, second, third, gradients(m)


@scenario(grad=True, versions=False, captured="late")
def test_several_backwards(compile: Compile) -> Steps:
    """Of one result, by some weights, of a batch of gradients, of gradients."""
    m = network()
    m[1] = nn.Identity()
    f = compile(m)
    for seed in range(4):
        x = values(3, 8, seed=seed).requires_grad_()
        with torch.autocast(**REGION):
            out = f(x).float()
        loss = out.square().sum()
        yield torch.autograd.grad(loss, [m[2].weight], retain_graph=True)
        loss.backward(retain_graph=True, inputs=[m[0].weight, m[3].bias])
        yield gradients(m)
        eye = torch.eye(out.numel()).reshape(-1, *out.shape)
        yield torch.autograd.grad(out, [m[0].weight, m[3].bias], eye, retain_graph=True, is_grads_batched=True)  # fmt: skip
        (by,) = torch.autograd.grad(loss, [m[0].weight], create_graph=True)
        yield by, attempt(by.sum().backward), gradients(m)


@scenario(grad=True, versions=False)
def test_hooks(compile: Compile) -> Steps:
    """Weights with hooks are cast by themselves."""
    m = network()
    f = compile(m)
    seen: list[str] = []
    handles = []
    for seed in range(6):
        if seed == 3:
            for name, p in m.named_parameters():
                note = lambda p, name=name: seen.append(name)
                handles.append(p.register_post_accumulate_grad_hook(note))
        if seed == 5:
            for handle in handles:
                handle.remove()
        with torch.autocast(**REGION):
            out = f(values(3, 8, seed=seed))
        out.float().square().sum().backward()
        yield out, gradients(m), sorted(seen)
        seen.clear()


@scenario(grad=True, versions=False, captured="late")
def test_frozen_weights_and_a_raise(compile: Compile) -> Steps:
    """What requires grad changes between calls; a call that raises leaves a cache that later calls can use."""
    m = network()
    f = compile(m)
    for seed in range(6):
        m[2].weight.requires_grad_(seed not in (3, 4))
        with torch.autocast(**REGION):
            bad = attempt(f, values(3, 9, seed=seed))
            out = f(values(3, 8, seed=seed))
            again = m[2](values(1, 6))
        (out.float().sum() + again.float().sum()).backward()
        yield type(bad).__name__, out, gradients(m)


@scenario(grad=True, versions=False)
def test_no_cache_and_other_types(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    others: list[dict[str, Any]] = [
        {}, {"cache_enabled": False}, {"dtype": torch.float16}, {}, {"enabled": False},
    ]  # fmt: skip
    for seed, options in enumerate([{}, {}, *others, *others]):
        with torch.autocast(**{**REGION, **options}):
            out = f(values(3, 8, seed=seed))
        out.float().sum().backward()
        yield out, gradients(m)


@pytest.mark.parametrize("anomaly", [False, True])
def test_anomaly_mode_names_each_cast(anomaly: bool) -> None:
    m = network()
    f = pyjit.compile(m, options={"strict": True, "compare_with_eager": False})
    for seed in range(3):
        with torch.autocast(**REGION):
            f(values(3, 8, seed=seed)).float().sum().backward()
    with torch.autograd.set_detect_anomaly(anomaly), torch.autocast(**REGION):
        out = f(values(3, 8))
        out.float().sum().backward()
    assert ("ToCopyBackward0" in nodes(out)) == anomaly


def test_threads() -> None:
    """Each thread has regions of its own, and all the same weights."""
    m = network()
    f = pyjit.compile(m)
    with torch.autocast(**REGION):
        x = values(3, 8)
        want = m(x).detach()
    wrong: list[torch.Tensor] = []

    def work() -> None:
        for _ in range(50):
            with torch.autocast(**REGION):
                out = f(x)
            out.float().sum().backward()
            if not torch.allclose(out.float(), want.float(), rtol=0.02, atol=0.02):
                wrong.append(out)

    in_threads(work, (() for _ in range(4)))
    assert not wrong
