# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What changes between two calls in training: each change is a guard, a specialization, or nothing at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import ANY, Compile, Steps, attempt, scenario, values
from Integration.training import gradients, leaf, loss_of, perceptron, state
from torch import nn


@scenario(grad=True, captured="late")
def test_layers_are_unfrozen(compile: Compile) -> Steps:
    m = perceptron()
    m[0].requires_grad_(False)
    f = compile(m)
    for step in range(8):
        if step in (3, 6):
            m[0].requires_grad_(step == 3)
        m.zero_grad()
        out = f(values(3, 4, seed=step))
        loss_of(out).backward()
        yield [out, state(m)]


@scenario(grad=True, captured="late")
def test_all_are_frozen_and_not(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(m)
    for step, wanted in enumerate((1, 1, 0, 0, 1, 0, 1)):
        m.requires_grad_(bool(wanted))
        m.zero_grad()
        out = f(values(3, 4, seed=step))
        if wanted:
            loss_of(out).backward()
        yield [out, state(m)]


@scenario(grad=True, captured="late")
def test_input_requires_grad_or_not(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(m)
    for step, wanted in enumerate((0, 0, 1, 1, 0, 1)):
        x = values(3, 4, seed=step).requires_grad_(bool(wanted))
        m.zero_grad()
        out = f(x)
        loss_of(out).backward()
        yield [out, gradients(x), state(m)]


@scenario(grad=True, captured="late")
def test_computed_input(compile: Compile) -> Steps:
    """A leaf and a tensor with a history are one specialization."""
    f = compile(lambda x: x.exp() * 2)
    for step, computed in enumerate((0, 0, 1, 0, 1)):
        x = leaf(4, seed=step)
        out = f(x * 3 if computed else x)
        loss_of(out).backward()
        yield [out, gradients(x)]


@scenario(grad=True, captured="late")
def test_parameters_are_replaced(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(m)
    for step in range(6):
        if step == 2:
            m[0].weight = nn.Parameter(values(8, 4, seed=5))
        if step == 3:
            m[2] = nn.Linear(8, 2, bias=False)
            m[2].weight.data.fill_(0.3)
        if step == 4:
            m[0].weight.data = values(8, 4, seed=6)
        if step == 5:
            m[0].weight.grad = torch.ones(8, 4)
        else:
            m.zero_grad()
        out = f(values(3, 4, seed=step))
        loss_of(out).backward()
        yield [out, state(m)]


@scenario(grad=True, captured="late")
def test_grad_modes(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(m)
    modes = (torch.enable_grad, torch.no_grad, torch.inference_mode)
    for step in range(9):
        with modes[step % 3]():
            out = f(values(3, 4, seed=step))
        m.zero_grad()
        yield [out, attempt(lambda out=out: loss_of(out).backward()), state(m)]


@scenario(grad=True, captured="late")
def test_data_types(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(m)
    for step, dtype in enumerate(
        (torch.float32, torch.float64, torch.float32, torch.float64) * 2
    ):
        m.to(dtype)
        m.zero_grad()
        out = f(values(3, 4, seed=step).to(dtype))
        loss_of(out).backward()
        yield [out, state(m)]


@scenario(grad=True, captured="late")
def test_hooks_come_and_go(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(m)
    seen: list[object] = []
    for step in range(8):
        handle = None
        if step in (2, 3):
            handle = m[0].weight.register_hook(lambda g: g * 2)
        if step == 4:
            handle = m[0].bias.register_post_accumulate_grad_hook(
                lambda p: seen.append(p.grad.clone())
            )
        m.zero_grad()
        out = f(values(3, 4, seed=step))
        loss_of(out).backward()
        yield [out, list(seen), state(m)]
        if handle:
            handle.remove()


@scenario(grad=True, graph_breaks=ANY, captured="late")
def test_module_hooks(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(m)
    seen: list[object] = []
    for step in range(8):
        handle = None
        if step in (2, 3):
            handle = m[0].register_forward_hook(lambda m, a, out: out * 2)
        if step in (4, 5):
            handle = m[2].register_full_backward_hook(
                lambda m, gi, go: seen.append([g.clone() for g in go])
            )
        m.zero_grad()
        out = f(values(3, 4, seed=step))
        loss_of(out).backward()
        yield [out, list(seen), state(m)]
        if handle:
            handle.remove()


@scenario(grad=True, captured="late")
def test_sizes_and_layouts(compile: Compile) -> Steps:
    m = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    with torch.no_grad():
        m[0].weight.copy_(values(4, 3, 3, 3))
        m[0].bias.copy_(values(4))
    f = compile(m)
    for step, (n, last) in enumerate(
        [(2, 0), (2, 0), (2, 1), (3, 0), (2, 1), (4, 0), (4, 1)]
    ):
        x = values(n, 3, 5, 5, seed=step)
        if last:
            x = x.contiguous(memory_format=torch.channels_last)
        x.requires_grad_()
        m.zero_grad()
        out = f(x)
        loss_of(out).backward()
        yield [out, gradients(x), state(m)]


@scenario(grad=True, captured="late")
def test_moved_in_memory(compile: Compile) -> Steps:
    """Gradients are None, zero, kept, or given beforehand."""
    m = perceptron()
    f = compile(m)
    for step in range(6):
        if step == 1:
            m.zero_grad(set_to_none=False)
        if step == 2:
            m.zero_grad()
        if step == 3:
            m[0].weight.grad = values(8, 4, seed=8).t().contiguous().t()
        loss_of(f(values(3, 4, seed=step))).backward()
        yield state(m)


def widen(m: nn.Sequential, width: int) -> None:
    """As a vocabulary grows: the parameters stay, what they show does not."""
    for p, size in ((m[2].weight, (width, 8)), (m[2].bias, (width,))):
        p.data = values(*size, seed=width)
        p.grad = None


@scenario(grad=True, captured="late")
def test_parameters_grow(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(m)

    def step(f: Callable[..., Any], i: int) -> Any:
        m.zero_grad()
        out = f(values(3, 4, seed=i))
        loss_of(out).backward()
        return out.detach()

    for i in range(9):
        if i in (3, 6):
            widen(m, i)
        yield [step(f, i), state(m)]
    # Not by the compiled function: the parameters are as if nobody had held them.
    widen(m, 5)
    yield [step(m, 9), state(m)]
    yield [step(f, 10), state(m)]


@scenario(grad=True, captured="late")
def test_same_tensor_twice(compile: Compile) -> Steps:
    f = compile(lambda a, b: a * b.exp())
    for step, same in enumerate((0, 0, 1, 1, 0)):
        a = leaf(4, seed=step)
        b = a if same else leaf(4, seed=step + 9)
        out = f(a, b)
        loss_of(out).backward()
        yield [out, gradients(a, b)]


@scenario(grad=True, captured="late")
def test_views_of_one_tensor(compile: Compile) -> Steps:
    f = compile(lambda a, b: (a * b).sum(1))
    for step in range(4):
        x = leaf(4, 6, seed=step)
        out = f(x[:, :3], x[:, 3 * (step % 2) :][:, :3])
        loss_of(out).backward()
        yield [out, gradients(x)]


@scenario(grad=True, captured="late")
def test_expanded_input(compile: Compile) -> Steps:
    f = compile(lambda a: a.exp().sum(0))
    for step in range(4):
        x = leaf(1, 4, seed=step)
        out = f(x.expand(3, 4))
        loss_of(out).backward()
        yield [out, gradients(x)]


PRODUCTS: dict[str, Callable[..., Any]] = {
    "product": lambda x, w: x.sin() * w.sin(),
    "sum": lambda x, w: x.sin() + w.sin(),
    "two results": lambda x, w: (x.tanh(), w.tanh() * x),
    "matmul": lambda x, w: torch.nn.functional.linear(x.exp(), w.sin()),
    "shown": lambda x, w: (x.exp(), x.exp().sin() * w),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_written_where_no_gradient_is_asked_for(name: str) -> None:
    """What other gradients need may have been written; where eager minds, a compiled call need not."""

    def go_back(
        f: Callable[..., Any], wanted: Any, written: int
    ) -> list[Any] | RuntimeError:
        both = leaf(4, 5), leaf(4, 5, seed=1)
        out = f(*both)
        results = out if isinstance(out, tuple) else (out,)
        with torch.no_grad():
            [*both, *results][written].add_(1)
        parts = [o.sum() for o in results]
        try:
            return list(
                torch.autograd.grad(parts, [both[i] for i in wanted], allow_unused=True)
            )
        except RuntimeError as error:
            return error

    eager = PRODUCTS[name]
    fast = pyjit.compile(eager)
    for wanted in ((0, 1), (0,), (1,), (0, 1), (0,), (1,)):
        for written in range(3):
            want, have = go_back(eager, wanted, written), go_back(fast, wanted, written)
            if isinstance(want, list):
                assert isinstance(have, list), (wanted, written, have)
                torch.testing.assert_close(have, want)
    assert pyjit.stats(fast)["hits"] > 12
