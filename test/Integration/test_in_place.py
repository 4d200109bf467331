# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Inputs that a call writes: where they lie, by kernels or at the launch's end; what a user sees is eager's.

Values, versions, strides and aliases through views are compared by the harness. What is proven about kernels is in
test/lib/Fusion/in-place.mlir, what is launched in test/tools/pyjit-run/in-place.mlir.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import ANY, Compile, Steps, as_test, scenario, values

Tensor = torch.Tensor


def _add(x: Tensor, y: Tensor) -> None:
    x.add_(y)


def _swap(x: Tensor, y: Tensor) -> None:
    old = x.clone()
    x.copy_(y)
    y.copy_(old)


def _old(x: Tensor, y: Tensor) -> Tensor:
    old = x.clone()
    x.mul_(y)
    return old


def _new_twice(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    x.add_(y)
    return x.clone(), x


def _flip(x: Tensor, y: Tensor) -> None:
    x.copy_(x.flip(0))
    y.copy_(y.t() + 1)


def _softmax(x: Tensor, y: Tensor) -> Tensor:
    x.copy_(torch.softmax(x, -1))
    y.sub_(y.mean(-1, keepdim=True))
    return x.sum()


def _chain(x: Tensor, y: Tensor) -> Tensor:
    y.add_(x)
    x.mul_(y)
    return x + y


def _around_a_library_call(x: Tensor, y: Tensor) -> Tensor:
    x.mul_(2)
    z = x @ y
    y.add_(z)
    return z


def _same_contents(x: Tensor, y: Tensor) -> None:
    new = (x + y).tanh()
    x.copy_(new)
    y.copy_(new)


def _first_stage(x: Tensor, y: Tensor) -> Tensor:
    before = x.clone()
    x.neg_()
    return before + x.sum(-1, keepdim=True)


def _view_of_input(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    view = x[0]
    x.add_(y)
    return view, view + 1


def _part(x: Tensor, y: Tensor) -> Tensor:
    x[1:3] = y[1:3] * 2
    return x.sum(0)


def _row(x: Tensor, y: Tensor) -> None:
    x[0] += y.sum(0)


def _gather(x: Tensor, y: Tensor) -> None:
    x.copy_(x[torch.tensor([2, 0, 1, 3, 4, 5, 6])])


def _branch(x: Tensor, y: Tensor) -> Tensor:
    x.add_(x * 0.1)
    if (x > 1).any():
        return y * 2
    return x + y


def _unchanged(x: Tensor, y: Tensor) -> None:
    x.add_(0)
    y.mul_(1)


PROGRAMS: list[Callable[[Tensor, Tensor], Any]] = [
    _add, _swap, _old, _new_twice, _flip, _softmax, _chain, _around_a_library_call, _same_contents, _first_stage,
    _view_of_input, _part, _row, _gather, _unchanged,
]  # fmt: skip


@pytest.mark.parametrize("launched", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_written_inputs(program: Any, launched: bool) -> None:
    def story(compile: Compile) -> Steps:
        f = compile(program, options={"simulated_device": launched})
        for seed in range(3):
            x, y = values(7, 7, seed=seed), values(7, 7, seed=seed + 10)
            for _ in range(3):
                yield [f(x, y), x, y]

    as_test(story)()


@pytest.mark.parametrize("program", PROGRAMS)
def test_parts_of_memory(program: Any) -> None:
    """Inputs with gaps, and in another order than row-major; what lies around them stays as it is."""

    def story(compile: Compile) -> Steps:
        f = compile(program)
        for _ in range(3):
            memory, other = values(200), values(9, 8)
            part = memory[1:197].view(14, 14)[::2, 1::2]
            yield [f(part, other[1:8, :7].t()), memory, other]

    as_test(story)()


@pytest.mark.parametrize("launched", [False, True])
def test_branches_behind_a_write(launched: bool) -> None:
    def story(compile: Compile) -> Steps:
        f = compile(_branch, options={"simulated_device": launched})
        for seed in range(10):
            x, y = values(5, seed=seed) * (seed % 3) / 2, values(5, seed=seed + 10)
            yield [f(x, y), x, y]

    as_test(story, captured="late", graph_breaks=ANY)()


@scenario(captured="late")
def test_inference_mode(compile: Compile) -> Steps:
    f = compile(_chain)
    x, y = values(7, 7), values(7, 7, seed=1)
    for _ in range(3):
        with torch.inference_mode():
            inner = values(7, 7, seed=2)
            yield [f(x, y), x, y]
            yield [f(inner, y), inner]


@scenario(grad=True, versions=False)
def test_statistics_and_gradients(compile: Compile) -> Steps:
    """Running statistics are written in a call whose backward comes later, and between two of them."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.Tanh()
    )
    f = compile(model)
    x = values(8, 6).requires_grad_()
    for _ in range(3):
        first, second = f(x), f(x * 2)
        (first.sum() + (second * second).sum()).backward()
        yield [
            first,
            second,
            x.grad,
            [p.grad for p in model.parameters()],
            dict(model.named_buffers()),
        ]


@scenario(grad=True)
def test_written_while_saved(compile: Compile) -> Steps:
    """What the backward reads is written by the same call: eager's error, or eager's gradient."""

    def g(w: Tensor, buffer: Tensor) -> Tensor:
        y = (w * buffer).sin()
        buffer.add_(1)
        return y

    def h(w: Tensor, buffer: Tensor) -> Tensor:
        buffer.mul_(2)
        return (w * buffer).sin()

    for program in (g, h):
        f = compile(program)
        for _ in range(3):
            w, buffer = values(5).requires_grad_(), values(5, seed=1)
            y = f(w, buffer)
            try:
                y.sum().backward()
                yield [y, w.grad, buffer]
            except RuntimeError as error:
                yield ["modified by an inplace operation" in str(error), buffer]


@torch.library.custom_op("pyjit_test::fails_for_nan", mutates_args=())
def fails_for_nan(x: Tensor) -> Tensor:
    if x.isnan().any():
        raise ValueError("told to fail")
    return x * 2


@fails_for_nan.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def test_a_call_that_fails_writes_what_eager_wrote() -> None:
    def g(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        z = fails_for_nan(y)
        y.add_(1)
        return z + x

    f = pyjit.compile(g)
    with torch.no_grad():
        for fails in (False, False, True, False):
            x, y = values(6), values(6, seed=1)
            if fails:
                y = y.index_fill(0, torch.tensor([3]), float("nan"))
            a, b = x.clone(), y.clone()
            for function, arguments in ((f, (x, y)), (g, (a, b))):
                try:
                    function(*arguments)
                    assert not fails
                except ValueError:
                    assert fails
            assert torch.equal(x, a) and torch.equal(y.nan_to_num(), b.nan_to_num())
            assert x._version == a._version and y._version == b._version


def test_optimizers_updates_are_written_in_place() -> None:
    """AdamW over lists: one kernel for each tensor, which writes parameter and state where they are."""

    def adamw(
        parameters: list[Tensor],
        grads: list[Tensor],
        firsts: list[Tensor],
        seconds: list[Tensor],
    ) -> None:
        for p, g, m, v in zip(parameters, grads, firsts, seconds, strict=True):
            p.mul_(1 - 1e-5)
            m.lerp_(g, 0.1)
            v.mul_(0.999).addcmul_(g, g, value=0.001)
            p.addcdiv_(m, v.sqrt().add_(1e-8), value=-1e-3)

    f = pyjit.compile(adamw)
    mine = [[values(33, seed=7 * i + k).abs() for k in range(20)] for i in range(4)]
    eager = [[t.clone() for t in group] for group in mine]
    places = [t.data_ptr() for group in mine for t in group]
    with torch.no_grad():
        for _ in range(4):
            f(*mine)
            adamw(*eager)
    assert [t.data_ptr() for group in mine for t in group] == places
    for ours, theirs in zip(mine, eager, strict=True):
        for x, y in zip(ours, theirs, strict=True):
            torch.testing.assert_close(x, y)
            assert x._version == y._version
    assert pyjit.stats(f)["kernels"] == 20
