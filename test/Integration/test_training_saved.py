# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a compiled call saves for its backward, and what writes to it do."""

from __future__ import annotations

from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import Compile, Steps, attempt, scenario, values
from Integration.training import gradients, leaf, perceptron


@scenario(grad=True, captured="late")
def test_saved_input_is_written(compile: Compile) -> Steps:
    f = compile(lambda x, y: x * y)
    for _ in range(2):
        x, y = leaf(4), values(4, seed=1)
        out = f(x, y)
        y.add_(1)
        yield attempt(out.sum().backward)
        yield gradients(x)


@scenario(grad=True)
def test_parameter_is_written(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(m)
    for _ in range(2):
        out = f(values(3, 4))
        with torch.no_grad():
            m[2].weight.add_(1)
        yield type(attempt(out.sum().backward)).__name__


@scenario(grad=True)
def test_saved_output_is_written(compile: Compile) -> Steps:
    f = compile(lambda x: x.exp())
    for _ in range(2):
        x = leaf(4)
        out = f(x)
        with torch.no_grad():
            out.add_(1)
        yield [type(attempt(out.sum().backward)).__name__, gradients(x)]


@scenario(grad=True)
def test_parameter_gets_other_memory(compile: Compile) -> Steps:
    """Autograd does not count that as a write: the backward sees what is there."""
    f = compile(lambda x, w: x * w)
    for _ in range(2):
        x, w = leaf(4), leaf(4, seed=1)
        out = f(x, w)
        w.data = values(4, seed=2)
        out.sum().backward()
        yield gradients(x, w)


@scenario(grad=True)
def test_data_of_an_input_is_written(compile: Compile) -> Steps:
    """What the call has computed of it is of its time, what eager computes of it in the backward is not."""

    def call(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        h = torch.nn.functional.layer_norm(x, (4,)) + (x.sin() * w).cos().exp()
        return (h * x).tanh() * w.sigmoid()

    f = compile(call)
    for _ in range(3):
        for which in range(2):
            x, w = leaf(3, 4), leaf(4, seed=1)
            out = f(x, w)
            (x, w)[which].data.mul_(values(4, seed=2))
            out.sum().backward()
            yield gradients(x, w)


@scenario(grad=True)
def test_data_of_a_result_is_written(compile: Compile) -> Steps:
    def call(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        h = x.exp()
        return h, (h * 2).sin() * h, x.softmax(0).tanh().tanh()

    f = compile(call)
    for _ in range(3):
        for which in range(3):
            x = leaf(4)
            results = f(x)
            results[which].data.add_(values(4, seed=2))
            torch.stack(results).sum().backward()
            yield gradients(x)


@scenario(grad=True)
def test_reshaped_result_is_written(compile: Compile) -> Steps:
    """What a reshape copied is the result's memory, which eager's nodes have saved, themselves or as a view."""

    def call(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        h = x.exp().t().reshape(-1)
        return h, h.sin(), h.view(4, 3) @ w

    f = compile(call)
    for _ in range(3):
        for which in (1, 2):
            x, w = leaf(3, 4), leaf(3, 2, seed=1)
            results = f(x, w)
            results[0].data.zero_()
            results[which].sum().backward()
            yield gradients(x, w)
            results = f(x, w)
            with torch.no_grad():
                results[0].zero_()
            yield type(attempt(results[which].sum().backward)).__name__


@scenario(grad=True, versions=False)
def test_modes_between_call_and_backward(compile: Compile) -> Steps:
    """A call in training mode writes the statistics that one in evaluation mode has saved, without a version."""
    torch.manual_seed(0)
    m = torch.nn.Sequential(torch.nn.Conv1d(4, 4, 1), torch.nn.BatchNorm1d(4))
    f = compile(m)
    for seed in range(4):
        m.zero_grad()
        x = leaf(5, 4, 3)
        m.eval()
        out = f(x)
        m.train()
        f(values(5, 4, 3, seed=seed))
        out.square().sum().backward()
        yield gradients(x, *m.parameters())


def test_saved_input_of_another_size() -> None:
    f = pyjit.compile(lambda x, w: x * w, options={"strict": True})
    for _ in range(2):
        x, w = leaf(4), leaf(4, seed=1)
        out = f(x, w)
    w.data = values(2)
    with pytest.raises(RuntimeError, match="other sizes, strides or memory"):
        out.sum().backward()


@scenario(grad=True)
def test_number_that_differs(compile: Compile) -> Steps:
    """A call's number is there when its backward comes, after other calls."""
    f = compile(lambda x, n: x.exp() * n)
    for n in range(5):
        a, b = leaf(4), leaf(4)
        first = f(a, n + 0.5)
        second = f(b, n + 7.5)
        second.sum().backward()
        first.sum().backward()
        yield gradients(a, b)


@scenario(grad=True)
def test_sizes_that_differ(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(m)
    for n in (3, 3, 5, 6, 7, 5):
        m.zero_grad()
        out = f(values(n, 4))
        out.square().sum().backward()
        yield [out, gradients(*m.parameters())]


@scenario(grad=True, captured="late")
def test_sizes_that_nothing_saved_has(compile: Compile) -> Steps:
    """The node reads a size of an input whose elements nobody needs: they may be written, and nothing is freed."""
    f = compile(lambda x: x.sum())
    for n in (3, 4, 5, 6, 7):
        x = leaf(n)
        out = f(x)
        with torch.no_grad():
            x.add_(1)
        out.backward()
        yield [g.contiguous() for g in gradients(x)]
        out.backward()
        yield [g.contiguous() for g in gradients(x)]


def test_sizes_that_nothing_saved_has_are_one_specialization() -> None:
    f = pyjit.compile(lambda x: x.sum())
    for n in range(3, 9):
        f(leaf(n)).backward()
    assert pyjit.stats(f)["specializations"] == 2


@scenario(grad=True, graph_breaks="function of unknown origin", captured=False)
def test_saved_tensors_hooks(compile: Compile) -> Steps:
    f = compile(lambda x: x.exp() * x)
    x = leaf(4)
    for _ in range(3):
        seen: list[Any] = []

        def pack(t: torch.Tensor, seen: list[Any] = seen) -> torch.Tensor:
            seen.append(tuple(t.shape))
            return t

        x.grad = None
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            out = f(x)
        out.sum().backward()
        yield [seen, gradients(x)]


@scenario(grad=True)
def test_saved_tensors_hooks_later(compile: Compile) -> Steps:
    f = compile(lambda x: x.exp() * x)
    x = leaf(4)
    for hooked in (False, False, True, False):
        x.grad = None
        seen: list[Any] = []
        if hooked:
            with torch.autograd.graph.saved_tensors_hooks(
                lambda t, seen=seen: seen.append(1) or t, lambda t: t
            ):
                out = f(x)
        else:
            out = f(x)
        out.sum().backward()
        yield [len(seen), gradients(x)]
