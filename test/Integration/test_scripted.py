# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions of torch.jit.script: their own instructions make tensors past the dispatcher."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
import torch
from Integration.harness import Compile, Steps, scenario, values
from Integration.training import gradients, leaf, loss_of


@pytest.fixture(autouse=True)
def scripts_call_themselves() -> Iterator[None]:
    """torch's own test library, which op_db needs, puts a Python function before each call."""
    common = sys.modules.get("torch.testing._internal.common_utils")
    with pytest.MonkeyPatch.context() as patch:
        if common:
            patch.setattr(torch._C.ScriptFunction, "__call__", common.func_call)
        yield


@torch.jit.script
def sized_root(x: torch.Tensor, factor: int):
    return torch.sqrt(torch.tensor(x.size(-1), dtype=torch.float) * factor)


@torch.jit.script
def span(x: torch.Tensor, most: int):
    return torch.tensor(min(max(x.size(0), x.size(-1)), most))


@torch.jit.script
def by_data(x: torch.Tensor):
    return torch.tensor(float(x[0])) * x


@torch.jit.script
def list_of_data(x: torch.Tensor):
    numbers: list[float] = x.tolist()
    return torch.tensor(numbers) * 2


@torch.jit.script
def chain(x: torch.Tensor):
    return torch.tanh(x * 2 + 1) * torch.tensor(3.0)


@scenario
def test_tensor_of_a_size(compile: Compile) -> Steps:
    f = compile(lambda x, k: x / sized_root(x, k) + span(x, 5))
    for shape, k in (((2, 3), 2), ((2, 3), 2), ((2, 8), 2), ((2, 3), 3), ((7, 2), 3)):
        yield f(values(*shape), k)


@scenario
def test_tensor_of_a_size_is_returned(compile: Compile) -> Steps:
    f = compile(lambda x: span(x, 5))
    for shape in ((2, 3), (2, 3), (4, 3), (8, 2)):
        yield f(values(*shape))


@scenario(captured="late", graph_breaks="its tensor's data flows into Python")
def test_tensor_of_data(compile: Compile) -> Steps:
    f = compile(lambda x: by_data(x) + 1)
    for seed in range(4):
        yield f(values(4, seed=seed))


@scenario(graph_breaks="ScriptFunction")
def test_list_of_data(compile: Compile) -> Steps:
    f = compile(lambda x: list_of_data(x) + 1)
    for seed in range(4):
        yield f(values(4, seed=seed))


@scenario(captured="late", graph_breaks="a tensor of unknown origin")
def test_traced_constant_is_no_number(compile: Compile) -> Steps:
    """A trace's constants may be tensors that the program still holds."""
    held = torch.ones(4)
    with_constant = torch.jit.trace(lambda x: x * held, (torch.ones(4),))
    f = compile(lambda x: with_constant(x) + 1)
    yield f(values(4))
    yield f(values(4))
    held.mul_(3)
    yield f(values(4))
    held.mul_(3)
    yield f(values(4))


@scenario(grad=True)
def test_where_gradients_flow_around_it(compile: Compile) -> Steps:
    """TorchScript runs parts apart, for gradients that they might have."""
    w = leaf(3)
    for _ in range(3):
        sized_root(w * 2, 3)
    f = compile(lambda x, k: (x * w) / sized_root(x * w, k) + span(x * w, 5))
    for step in range(4):
        out = f(values(2, 3, seed=step), 3)
        loss_of(out).backward()
        yield out, gradients(w)
        w.grad = None


@scenario(grad=True, eager="a tensor whose history no recorded operator has made")
def test_where_gradients_flow_through_it(compile: Compile) -> Steps:
    w = leaf(64)
    f = compile(lambda x: chain(x * w) + 1)
    for step in range(5):
        out = f(values(64, seed=step))
        loss_of(out).backward()
        yield out, gradients(w)
        w.grad = None


@scenario
def test_after_it_was_optimized(compile: Compile) -> Steps:
    for seed in range(5):
        chain(values(64, seed=seed))
    f = compile(lambda x: chain(x) + 1)
    for seed in range(4):
        yield f(values(64, seed=seed))
