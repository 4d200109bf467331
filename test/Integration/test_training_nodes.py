# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the engine asks of a compiled call's autograd node: subsets, orders, retained graphs, hooks, threads."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import Compile, Steps, attempt, in_threads, scenario, values
from Integration.training import gradients, leaf, perceptron
from torch import nn


@scenario(grad=True)
def test_second_backward(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(m)
    for _ in range(2):
        out = f(values(3, 4)).sum()
        out.backward()
        yield attempt(out.backward)


@scenario(grad=True)
def test_second_backward_of_what_saves_nothing(compile: Compile) -> Steps:
    f = compile(lambda x: x + 1)
    x = leaf(4)
    for _ in range(2):
        x.grad = None
        out = f(x)
        out.backward(torch.ones(4))
        out.backward(torch.ones(4))
        yield gradients(x)


Two = tuple[torch.Tensor, torch.Tensor]


def sine_and_exponential(h: torch.Tensor) -> Two:
    return h.sin().sum(), h.exp().sum()


def sums(h: torch.Tensor) -> Two:
    return h + 1, h + 2


GRAPHS: dict[str, Callable[[nn.Linear, torch.Tensor], Two]] = {
    "apart": lambda m, x: (m(x).sin().sum(), m(x * 0.5).exp().sum()),
    "of equal calls": lambda m, x: (m(x).sin().sum(), m(x).exp().sum()),
    "detached": lambda m, x: (m(x).sin().sum(), m(m(x).detach()).exp().sum()),
    "of parameters": lambda m, x: (m(x).sin().sum(), m.weight.norm()),
    "shared": lambda m, x: sine_and_exponential(m(x)),
    "shared, nothing saved": lambda m, x: sums(m(x)),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_of_several_results(name: str) -> None:
    """A backward frees what its own result needs, and no other graph."""

    @scenario(grad=True, versions=False, captured="late")
    def story(compile: Compile) -> Steps:
        torch.manual_seed(0)
        m = nn.Linear(4, 4)
        f = compile(lambda x: GRAPHS[name](m, x))
        for seed in range(3):
            for order in ((0, 1), (1, 0), (0, 0), (1, 0, 1)):
                results = f(values(3, 4, seed=seed))
                for k in order:
                    m.zero_grad()
                    yield attempt(lambda k=k, r=results: r[k].sum().backward())
                    yield gradients(*m.parameters())

    story()


@scenario(grad=True, captured="late")
def test_parts_of_one_graph(compile: Compile) -> Steps:
    """Gradients by some inputs free what was saved for these, and not what others need."""

    def call(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return (a.exp() * 2).sum() + (b.exp() * 3).sin().sum() + (c + 1).sum()

    f = compile(call)
    for seed in range(3):
        a, b, c = (leaf(3, seed=seed + k) for k in range(3))
        for order in ((a, b, c), (a, a), (c, b, b), ([a, b], c, a), (c, c)):
            result = f(a, b, c)
            for inputs in order:
                yield attempt(
                    lambda r=result, i=inputs: [
                        g.contiguous() for g in torch.autograd.grad(r, i)
                    ]
                )
        result = f(a, b, c)
        yield torch.autograd.grad(result, a)
        yield attempt(result.backward)
        result = f(a, b, c)
        result.backward()
        yield attempt(torch.autograd.grad, result, a)


@scenario(grad=True, versions=False, captured="late")
def test_graphs_in_front_of_several_results(compile: Compile) -> Steps:
    """A backward goes to what its own result was computed from, and runs and frees nothing else."""
    ran: list[str] = []

    class Known(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, name: str) -> torch.Tensor:
            ctx.save_for_backward(x)
            ctx.name = name
            return x.sin()

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> Any:  # type: ignore[override]
            ran.append(ctx.name)
            return g * ctx.saved_tensors[0].cos(), None

    f = compile(lambda a, b: (a.exp().sum(), b.exp().sum(), (a * b).sum()))
    for seed in range(4):
        for order in ((0, 1), (1, 0), (0,), (2,), (0, 2)):
            x, y = leaf(4, seed=seed), leaf(4, seed=seed + 1)
            results = f(Known.apply(x, "a"), Known.apply(y, "b"))
            for k in order:
                yield attempt(lambda k=k, r=results: r[k].backward())
            yield gradients(x, y), list(ran)


@scenario(grad=True)
def test_retain_graph(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(m)
    for _ in range(2):
        m.zero_grad()
        out = f(values(3, 4)).sum()
        out.backward(retain_graph=True)
        first = gradients(*m.parameters())
        out.backward()
        yield [first, gradients(*m.parameters())]


@scenario(grad=True)
def test_gradients_of_some_inputs(compile: Compile) -> Steps:
    f = compile(lambda a, b, c: (a * b).sum() + (b * c).exp().mean())
    a, b, c = leaf(4), leaf(4, seed=1), leaf(4, seed=2)
    for _ in range(2):
        yield [g.clone() for g in torch.autograd.grad(f(a, b, c), [b])]
        yield [g.clone() for g in torch.autograd.grad(f(a, b, c), [c, a])]
        yield gradients(a, b, c)


@scenario(grad=True)
def test_outputs_that_nobody_uses(compile: Compile) -> Steps:
    f = compile(lambda a, b: (a * b, a.exp(), b.sin()))
    a, b = leaf(4), leaf(4, seed=1)
    for number in (0, 1, 2, 0):
        a.grad = b.grad = None
        f(a, b)[number].sum().backward()
        yield gradients(a, b)


@scenario(grad=True)
def test_infinity_that_nobody_uses(compile: Compile) -> Steps:
    """No gradient is not a gradient of zeros: zero times infinity is nan."""
    f = compile(lambda x: (x.log(), x * 2, 1 / x))
    for number in (1, 1, 0, 2, 1):
        x = torch.tensor([0.0, 1.0], requires_grad=True)
        f(x)[number].sum().backward()
        yield gradients(x)


@scenario(grad=True)
def test_written_output_that_nobody_uses(compile: Compile) -> Steps:
    f = compile(lambda x: (x.exp(), x * 2))
    for _ in range(3):
        x = leaf(4)
        first, second = f(x)
        with torch.no_grad():
            first.zero_()
        second.sum().backward()
        yield gradients(x)


@scenario(grad=True)
def test_written_input_that_eager_does_not_save(compile: Compile) -> Steps:
    """Nothing is computed again from what somebody may write."""
    f = compile(lambda x, y: ((x + y).sin() * y.exp()).tanh() * x)
    for seed in range(3):
        x, y = leaf(4), values(4, seed=seed)
        out = f(x, y)
        y.zero_()
        out.sum().backward()
        yield gradients(x)


@scenario(grad=True)
def test_output_used_twice(compile: Compile) -> Steps:
    f = compile(lambda x: x.tanh())
    x = leaf(4)
    for _ in range(2):
        x.grad = None
        out = f(x)
        (out * out + out).sum().backward()
        yield [out, gradients(x)]


@scenario(grad=True)
def test_accumulation(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(m)
    for seed in range(4):
        f(values(3, 4, seed=seed)).sum().backward()
        yield gradients(*m.parameters())


@scenario(grad=True)
def test_one_call_after_the_other(compile: Compile) -> Steps:
    """Two nodes, the first of which gets the gradient of the second."""
    m = nn.Linear(4, 4)
    with torch.no_grad():
        m.weight.copy_(values(4, 4))
        m.bias.copy_(values(4, seed=1))
    f = compile(lambda x: torch.tanh(m(x)))
    for _ in range(3):
        m.zero_grad()
        f(f(values(3, 4, seed=2))).sum().backward()
        yield gradients(*m.parameters())


@scenario(grad=True)
def test_gradients_of_other_layouts(compile: Compile) -> Steps:
    """Of `sum` (expanded), of a transposed use, of a slice, given by hand."""
    f = compile(lambda x: x.sigmoid())
    x = leaf(3, 4)
    for _ in range(2):
        for use in (
            lambda out: out.sum().backward(),
            lambda out: (out.t() @ values(3, 2)).sum().backward(),
            lambda out: out[:, ::2].sum().backward(),
            lambda out: out.backward(values(4, 3).t()),
            lambda out: out.backward(values(1, 4).expand(3, 4)),
        ):
            x.grad = None
            use(f(x))
            yield gradients(x)


@scenario(grad=True, captured="late")
def test_hooks(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(m)
    for _ in range(2):
        seen: list[Any] = []

        def see(name: str, g: torch.Tensor, seen: list[Any] = seen) -> None:
            seen.append((name, g.clone()))

        handles = [
            m[0].weight.register_hook(lambda g, see=see: see("weight", g)),
            m[2].bias.register_post_accumulate_grad_hook(
                lambda p, see=see: see("bias", p.grad)
            ),
        ]
        out = f(values(3, 4))
        out.register_hook(lambda g, see=see: see("out", g) or g * 2)
        out.retain_grad()
        out.sum().backward()
        # In which order parameters get their gradients, only the engine knows.
        yield [dict(sorted(seen, key=lambda entry: entry[0])), gradients(out)]
        yield gradients(*m.parameters())
        for handle in handles:
            handle.remove()
        m.zero_grad()


@scenario(grad=True)
def test_hook_that_raises(compile: Compile) -> Steps:
    f = compile(lambda x: x.exp())
    x = leaf(4)

    def hook(gradient: torch.Tensor) -> None:
        raise ValueError("not today")

    for _ in range(2):
        out = f(x)
        out.register_hook(hook)
        yield [attempt(out.sum().backward), gradients(x)]


@scenario(grad=True)
def test_on_another_thread(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(m)
    for _ in range(3):
        m.zero_grad()
        loss = f(values(3, 4)).sum()
        thread = threading.Thread(target=loss.backward)
        thread.start()
        thread.join()
        yield gradients(*m.parameters())


def test_threads_at_once() -> None:
    m = perceptron()
    f = pyjit.compile(m, options={"strict": True})
    f(values(3, 4))
    found: list[Any] = []

    def work() -> None:
        for seed in range(20):
            x = leaf(3, 4, seed=seed)
            (have,) = torch.autograd.grad(f(x).sum(), x)
            (want,) = torch.autograd.grad(m(x).sum(), x)
            found.append(torch.equal(have, want) or (have, want))

    in_threads(work, (() for _ in range(4)))
    assert len(found) == 80
    for entry in found:
        if entry is not True:
            torch.testing.assert_close(*entry)


def test_outlives_the_function() -> None:
    m = perceptron()
    f = pyjit.compile(m, options={"strict": True})
    f(values(3, 4))
    out = f(values(3, 4))
    gone = weakref.ref(f)
    pyjit.reset()
    del f
    out.sum().backward()
    want = torch.autograd.grad(m(values(3, 4)).sum(), list(m.parameters()))
    for p, gradient in zip(m.parameters(), want, strict=True):
        torch.testing.assert_close(p.grad, gradient)
    del gone


@scenario(grad=True)
def test_a_leaf_that_nobody_sees(compile: Compile) -> Steps:
    """It takes gradients as others do, where no argument requires any."""

    def call(x: torch.Tensor) -> Two:
        scale = torch.ones(3, requires_grad=True)
        return (x * scale).sum(), x + 1

    f = compile(call)
    for _ in range(3):
        a, b = f(values(2, 3))
        a.backward()
        yield a, a.requires_grad, a.is_leaf, b.requires_grad


@scenario(grad=True)
def test_results_that_depend_on_own_leaves_alone(compile: Compile) -> Steps:
    """They have a history where arguments that require grad have no part in it."""

    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x.detach() * torch.ones(3, requires_grad=True)

    def masked(x: torch.Tensor) -> torch.Tensor:
        return (x > 0).float() * torch.ones(3, requires_grad=True)

    def restarted(x: torch.Tensor) -> torch.Tensor:
        return x.detach().clone().requires_grad_() * 2

    def several(x: torch.Tensor) -> torch.Tensor:
        w = torch.ones(3, requires_grad=True)
        return (x.detach() * w).tanh() + (w * 2).exp()

    for call in (scaled, masked, restarted, several):
        f = compile(call)
        for step in range(4):
            x = values(2, 3, seed=step).requires_grad_()
            out = f(x)
            out.sum().backward()
            yield out, out.requires_grad, out.is_leaf, x.grad


@scenario(grad=True)
def test_own_leaves_beside_inputs(compile: Compile) -> Steps:
    """A result of an input's and one of an own leaf's: the input's gradient is of the first alone."""

    def both(x: torch.Tensor) -> Any:
        w = torch.ones(3, requires_grad=True)
        return x.sin() * w, x.detach() * w

    f = compile(both)
    for step in range(4):
        x = values(2, 3, seed=step).requires_grad_()
        first, own = f(x)
        own.sum().backward()
        before = x.grad
        first.sum().backward()
        yield own, before, first, x.grad


@scenario(grad=True)
def test_a_matrix_of_ints_without_columns(compile: Compile) -> Steps:
    """Eager's `mv` looks at the types where it multiplies."""
    matrix = torch.zeros(3, 0, dtype=torch.int64)
    f = compile(lambda x: torch.mv(matrix, x) + 1)
    for _ in range(3):
        x = torch.zeros(0, requires_grad=True)
        out = f(x)
        out.sum().backward()
        yield out, x.grad


@pytest.mark.filterwarnings("ignore")
def test_a_deviation_of_one_element_with_another_default() -> None:
    fast = pyjit.compile(lambda x: x.std())
    torch.set_default_dtype(torch.float16)
    try:
        for _ in range(3):
            x = torch.ones((), dtype=torch.float32, requires_grad=True)
            fast(x).backward()
            assert x.grad is not None and x.grad.isnan()
    finally:
        torch.set_default_dtype(torch.float32)
