"""A compiled model in a training loop of Python's: one autograd node for each compiled part of a call."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, attempt, scenario, values
from torch import nn


def perceptron() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def gradients(*tensors: Any) -> list[Any]:
    return [None if t.grad is None else t.grad.clone() for t in tensors]


def leaf(*shape: int, seed: int = 0) -> torch.Tensor:
    return values(*shape, seed=seed).requires_grad_()


# Loops.


@scenario(grad=True)
def test_perceptron(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(m)
    for seed in range(3):
        m.zero_grad()
        out = f(values(3, 4, seed=seed))
        out.square().mean().backward()
        yield [out, gradients(*m.parameters())]


@scenario(grad=True)
def test_sgd(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(m)
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    for seed in range(5):
        optimizer.zero_grad()
        loss = F.mse_loss(f(values(6, 4, seed=seed)), values(6, 2, seed=9))
        loss.backward()
        optimizer.step()
        yield [loss, list(m.parameters())]


@scenario(grad=True)
def test_loss_inside(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(lambda x, y: F.cross_entropy(m(x), y))
    optimizer = torch.optim.Adam(m.parameters(), lr=0.1)
    target = torch.tensor([0, 1, 1, 0, 1, 0])
    for seed in range(4):
        optimizer.zero_grad(set_to_none=False)
        loss = f(values(6, 4, seed=seed), target)
        loss.backward()
        optimizer.step()
        yield [loss, list(m.parameters())]


@scenario(grad=True, captured="late")
def test_with_and_without_gradients(compile: Compile) -> Steps:
    """The two are specializations of their own, which do not thrash."""
    m = perceptron()
    f = compile(m)
    for seed in range(4):
        x = values(3, 4, seed=seed)
        with torch.no_grad():
            yield f(x)
        m.zero_grad()
        out = f(x)
        out.sum().backward()
        yield [out, gradients(*m.parameters())]


def test_one_graph_and_hits() -> None:
    m = perceptron()
    f = pyjit.compile(m, options={"strict": True})
    for _ in range(4):
        f(values(3, 4)).sum().backward()
    stats = pyjit.stats(f)
    assert stats["hits"] == 3
    assert stats["graphs"] == 1
    assert stats["graph_breaks"] == 0
    assert stats["eager_calls"] == 0
    assert f(values(3, 4)).grad_fn.name() == "PyjitBackward"


# What the engine asks of a node.


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

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
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


# What is saved.


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


# Where gradients end.


@scenario(grad=True)
def test_frozen_layer(compile: Compile) -> Steps:
    m = perceptron()
    m[0].requires_grad_(False)
    f = compile(m)
    for _ in range(3):
        m.zero_grad()
        out = f(values(3, 4))
        out.sum().backward()
        yield [out, gradients(*m.parameters())]


@scenario(grad=True)
def test_all_frozen(compile: Compile) -> Steps:
    m = perceptron().requires_grad_(False)
    f = compile(m)
    for _ in range(2):
        yield f(values(3, 4))


@scenario(grad=True)
def test_no_grad_region(compile: Compile) -> Steps:
    m = perceptron()

    def g(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            h = m[0](x)
        return m[2](h.relu())

    f = compile(g)
    for _ in range(3):
        m.zero_grad()
        out = f(values(3, 4))
        out.sum().backward()
        yield [out, gradients(*m.parameters())]


@scenario(grad=True)
def test_detach_inside(compile: Compile) -> Steps:
    f = compile(lambda x: (x.exp() * x.exp().detach(), x.sin().detach()))
    for _ in range(3):
        x = leaf(4)
        out, still = f(x)
        out.sum().backward()
        yield [out, still, gradients(x)]


@scenario(grad=True)
def test_straight_through(compile: Compile) -> Steps:
    f = compile(lambda x: x + (x.round() - x).detach())
    for _ in range(2):
        x = leaf(4)
        out = f(x)
        out.square().sum().backward()
        yield [out, gradients(x)]


@scenario(grad=True)
def test_data_inside(compile: Compile) -> Steps:
    f = compile(lambda x: x.exp() * (x * 2).data)
    for _ in range(2):
        x = leaf(4)
        out = f(x)
        out.sum().backward()
        yield [out, gradients(x)]


@scenario(grad=True)
def test_detached_and_not(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.exp()
        return y, y.detach(), y[1:], y.detach()[1:]

    f = compile(g)
    for _ in range(2):
        x = leaf(4)
        out = f(x)
        (out[0] * out[1]).sum().backward(retain_graph=True)
        out[2].sum().backward()
        yield [out, gradients(x)]


@scenario(grad=True)
def test_detached_alone(compile: Compile) -> Steps:
    f = compile(lambda x: x.exp().detach())
    for _ in range(2):
        yield f(leaf(4))


@scenario(grad=True)
def test_comparisons_and_indices(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        best = x.argmax(-1)
        return torch.where(x > 0, x * 2, x), best, x.max(-1).values

    f = compile(g)
    for _ in range(2):
        x = leaf(3, 4)
        out = f(x)
        (out[0].sum() + out[2].sum()).backward()
        yield [out, gradients(x)]


@scenario(grad=True)
def test_number_of_data(compile: Compile) -> Steps:
    """No gradient flows through what Python has as a number."""
    f = compile(lambda x: (x * x.sum().item(), x.mean().item()))
    for seed in range(3):
        x = leaf(4, seed=seed)
        out, number = f(x)
        out.sum().backward()
        yield [out, number, gradients(x)]


@scenario(grad=True)
def test_only_a_number_leaves(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(lambda x: m(x).sum().item())
    for seed in range(3):
        yield f(values(3, 4, seed=seed))


# Memory.


@scenario(grad=True)
def test_in_place_on_what_the_call_made(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.mul_(0.5)
        y[0].add_(3)
        y[1] = x[2] * x[3]
        return y

    f = compile(g)
    for _ in range(2):
        x = leaf(4, 4)
        out = f(x)
        (out * values(4, 4, seed=1)).sum().backward()
        yield [out, gradients(x)]


@scenario(grad=True)
def test_buffer_made_inside(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros(4, 4)
        y[1:3] = x * 2
        y.add_(1)
        return y

    f = compile(g)
    for _ in range(2):
        x = leaf(2, 4)
        out = f(x)
        (out * values(4, 4, seed=1)).sum().backward()
        yield [out, gradients(x)]


@scenario(grad=True)
def test_views_leave(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.exp()
        return y.t(), y[0], x.t()

    f = compile(g)
    for _ in range(2):
        x = leaf(3, 4)
        out = f(x)
        sum((part * part).sum() for part in out).backward()
        yield [out, gradients(x)]


@scenario(grad=True)
def test_view_without_a_gradient(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.exp()
        with torch.no_grad():
            part = y[0]
        return y, part

    f = compile(g)
    for _ in range(2):
        x = leaf(3, 4)
        out, part = f(x)
        yield [out, part]


@scenario(grad=True)
def test_written_buffer(compile: Compile) -> Steps:
    m = perceptron()
    running = torch.zeros(2)

    def g(x: torch.Tensor) -> torch.Tensor:
        out = m(x)
        with torch.no_grad():
            running.mul_(0.9).add_(out.mean(0))
        return out

    f = compile(g)
    for seed in range(3):
        m.zero_grad()
        out = f(values(3, 4, seed=seed))
        out.sum().backward()
        yield [out, running, gradients(*m.parameters())]


@scenario(grad=True)
def test_kept_on_an_object(compile: Compile) -> Steps:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = perceptron()
            self.last: Any = None

        def forward(self, x: torch.Tensor) -> dict[str, Any]:
            self.last = self.inner[0](x)
            return {"out": self.inner[2](self.last.relu()), "n": 3}

    m = Model()
    f = compile(m)
    for seed in range(3):
        m.zero_grad()
        out = f(values(3, 4, seed=seed))
        (out["out"].sum() + m.last.square().sum()).backward()
        yield [out["out"], m.last, gradients(*m.parameters())]


@scenario(grad=True)
def test_dropout(compile: Compile) -> Steps:
    m = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    f = compile(m)
    for seed in range(4):
        m.zero_grad()
        torch.manual_seed(seed)
        out = f(values(3, 4))
        out.sum().backward()
        yield [out, gradients(*m.parameters()), torch.rand(2)]


# Graph breaks.


def test_graph_break_leaves_two_nodes() -> None:
    m = perceptron()

    def g(x: torch.Tensor) -> torch.Tensor:
        h = m[0](x)
        print(end="")
        h.register_hook(lambda gradient: None)
        return m[2](h.relu())

    f = pyjit.compile(g, options={"strict": True})
    for _ in range(3):
        m.zero_grad()
        out = f(values(3, 4))
        out.sum().backward()
    have = gradients(*m.parameters())
    names = set()
    work = [out.grad_fn]
    while work:
        node = work.pop()
        names.add((node.name(), id(node)))
        work += [before for before, _ in node.next_functions if before]
    assert sum(name == "PyjitBackward" for name, _ in names) == 2
    m.zero_grad()
    g(values(3, 4)).sum().backward()
    for one, other in zip(have, gradients(*m.parameters()), strict=True):
        torch.testing.assert_close(one, other)


@scenario(grad=True, graph_breaks=ANY, captured=False)
def test_backward_inside(compile: Compile) -> Steps:
    m = perceptron()

    def g(x: torch.Tensor) -> torch.Tensor:
        loss = m(x).square().mean()
        loss.backward()
        return loss.detach() * 2

    f = compile(g)
    for _ in range(3):
        m.zero_grad()
        yield [f(values(3, 4)), gradients(*m.parameters())]


@scenario(grad=True, graph_breaks=ANY)
def test_asks_for_the_node(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        return y * (2 if y.grad_fn is not None else 3)

    f = compile(g)
    for _ in range(3):
        x = leaf(4)
        out = f(x)
        out.sum().backward()
        yield [out, gradients(x)]


@scenario(
    grad=True,
    graph_breaks=("autograd does not see that", "the call has turned grad mode on"),
    captured="late",
)
def test_unseen_write_behind(compile: Compile) -> Steps:
    def g(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = x * w
        with torch.no_grad():
            w.mul_(2)
        return y + w

    f = compile(g)
    w = leaf(4, seed=1)
    for _ in range(3):
        x = leaf(4)
        out = f(x, w)
        yield [out, w, attempt(out.sum().backward)]


@scenario(grad=True, graph_breaks="autograd did not see that", captured="late")
def test_unseen_write_ahead(compile: Compile) -> Steps:
    def g(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            w.mul_(2)
        return (x * w).exp()

    f = compile(g)
    w = leaf(4, seed=1)
    for _ in range(3):
        w.grad = None
        x = leaf(4)
        out = f(x, w)
        out.sum().backward()
        yield [out, w, gradients(x, w)]


@scenario(grad=True, graph_breaks="a branch on a tensor's data")
def test_branch_on_data(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        if y.sum() > 4:
            return y * 2
        return y * 3

    f = compile(g)
    for seed in range(6):
        x = leaf(4, seed=seed)
        out = f(x)
        out.sum().backward()
        yield [out, gradients(x)]


@scenario(grad=True, graph_breaks="a branch on a tensor's data", captured=False)
def test_loop_on_data(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        while x.abs().sum() > 0.1:
            x = x * 0.5
        return x

    f = compile(g)
    for seed in range(5):
        x = leaf(4, seed=seed)
        out = f(x)
        out.sum().backward()
        yield [out, gradients(x)]


@scenario(grad=True, graph_breaks="cannot be differentiated", captured=False)
def test_no_derivative(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        return torch.mvlgamma((x * 2).exp() + 1, 2) * 3

    f = compile(g)
    for _ in range(3):
        x = leaf(4)
        out = f(x)
        out.sum().backward()
        yield [out, gradients(x)]


@scenario(
    grad=True,
    graph_breaks=("cannot be differentiated", "gradients of complex tensors"),
    captured=False,
)
def test_complex(compile: Compile) -> Steps:
    f = compile(lambda x: torch.view_as_real(torch.fft.fft(x.exp())).sum())
    for _ in range(2):
        x = leaf(4)
        out = f(x)
        out.backward()
        yield [out, gradients(x)]


@scenario(
    grad=True,
    graph_breaks="gradients end at a tensor that the call made",
    captured="late",
)
def test_leaf_made_inside(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        w = torch.ones(4, requires_grad=True)
        return x * 2, w * x, w

    f = compile(g)
    for _ in range(3):
        x = leaf(4)
        out = f(x)
        out[1].sum().backward()
        yield [out, gradients(x, out[2])]


@scenario(graph_breaks="the call has turned grad mode on", captured="late")
def test_grad_mode_turned_on_inside(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            y = x * 2
            z = y.exp()
        return z

    f = compile(g)
    for _ in range(3):
        x = leaf(4)
        out = f(x)
        out.backward(torch.ones(4))
        yield [out, gradients(x)]


@scenario(grad=True)
def test_optimizer_step_as_before(compile: Compile) -> Steps:
    """What runs under no_grad alone writes parameters, whatever mode it is called in."""
    w = leaf(4)

    @torch.no_grad()
    def step(gradient: torch.Tensor) -> torch.Tensor:
        w.add_(gradient, alpha=-0.1)
        return w.sum()

    f = compile(step)
    for seed in range(3):
        yield [f(values(4, seed=seed)), w]


def test_memory_is_freed() -> None:
    """Neither nodes nor what they save outlive their outputs."""
    m = perceptron()
    f = pyjit.compile(m, options={"strict": True})
    for _ in range(2):
        f(values(3, 4)).sum().backward()
    x = values(3, 4)
    freed = weakref.ref(x)
    out = f(x)
    del x
    assert freed() is not None
    out.sum().backward()
    assert freed() is None
    x = values(3, 4)
    freed = weakref.ref(x)
    out = f(x)
    del x, out
    assert freed() is None
