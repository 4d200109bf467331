"""Autocast in a region around the compiled call, with weights that require grad.

Autocast keeps the cast of such a weight until its outermost region ends: later uses find it, in compiled code or
in eager, even where somebody has written the weight meanwhile. All numbers here are small integers, so that no
type rounds them: what differs is another cast, not another rounding.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pyjit
import torch
from Integration.harness import Compile, Steps, attempt, scenario
from torch import nn

BF16, F16 = torch.bfloat16, torch.float16


def region(dtype: torch.dtype = BF16, **settings: Any) -> torch.autocast:
    return torch.autocast("cpu", dtype, **settings)


def whole(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-2, 3, shape, generator=generator).float()


def linear(inputs: int, outputs: int, seed: int = 0) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    with torch.no_grad():
        layer.weight.copy_(whole(outputs, inputs, seed=seed))
        layer.bias.copy_(whole(outputs, seed=seed + 1))
    return layer


def network() -> nn.Sequential:
    return nn.Sequential(linear(4, 6), nn.ReLU(), linear(6, 3, seed=2))


def taken(m: nn.Module, *results: torch.Tensor) -> list[Any]:
    """Results, gradients and weights; the gradients are taken away."""
    for result in results:
        if result.requires_grad:
            result.float().sum().backward()
    seen = [results, [(p.grad, p) for p in m.parameters()]]
    for p in m.parameters():
        p.grad = None
    return seen


# One call in each region


@scenario(grad=True, versions=False)
def test_training(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    optimizer = torch.optim.SGD(m.parameters(), lr=0.5)
    for seed in range(4):
        with region():
            out = f(whole(5, 4, seed=seed))
        out.float().sum().backward()
        for p in m.parameters():
            p.grad.sign_()
        optimizer.step()
        yield taken(m, out.detach())


@scenario
def test_no_grad(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    for seed in range(4):
        with region():
            yield f(whole(5, 4, seed=seed))
        m[0].weight.add_(1)


@scenario(grad=True)
def test_inference_mode(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    for seed in range(4):
        with torch.inference_mode(), region():
            yield f(whole(5, 4, seed=seed))


@scenario(grad=True, versions=False, captured="late")
def test_modes_in_turn(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    for seed in range(3):
        with region():
            out = f(whole(5, 4, seed=seed))
        yield taken(m, out)
        yield taken(m, f(whole(5, 4, seed=seed)))
        with torch.no_grad(), region():
            yield f(whole(5, 4, seed=seed))
        with region(F16):
            out = f(whole(5, 4, seed=seed))
        yield taken(m, out)


# Several calls in a region


@scenario(grad=True, versions=False)
def test_several_calls(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    for seed in range(3):
        with region():
            outs = [f(whole(5, 4, seed=seed + k)) for k in range(3)]
        yield taken(m, *outs)


@scenario(grad=True, versions=False)
def test_weight_written_between_calls(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    for seed in range(3):
        with region():
            first = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
                m[2].bias.mul_(2)
            second = f(whole(5, 4, seed=seed))
        yield taken(m, first, second)


@scenario
def test_weight_written_between_calls_without_grad(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    for seed in range(3):
        with region():
            yield f(whole(5, 4, seed=seed))
            m[0].weight.add_(1)
            yield f(whole(5, 4, seed=seed))


@scenario(grad=True, versions=False)
def test_optimizer_steps_within_the_region(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    optimizer = torch.optim.SGD(m.parameters(), lr=1.0)
    for seed in range(2):
        with region():
            for k in range(3):
                out = f(whole(2, 4, seed=seed + k))
                out.float().sum().backward()
                for p in m.parameters():
                    p.grad.sign_()
                optimizer.step()
                yield taken(m, out.detach())


@scenario(grad=True, versions=False)
def test_cast_was_made_without_grad(compile: Compile) -> Steps:
    """Autocast turns grad mode on for it: a later use is differentiated."""
    m = network()
    f = compile(m)
    for seed in range(3):
        with region():
            with torch.no_grad():
                first = f(whole(5, 4, seed=seed))
            second = f(whole(5, 4, seed=seed + 1))
        yield taken(m, first, second)


@scenario(grad=True, versions=False)
def test_weight_replaced_within_the_region(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    for seed in range(3):
        with region():
            first = f(whole(5, 4, seed=seed))
            m[0].weight = nn.Parameter(whole(6, 4, seed=seed + 7))
            second = f(whole(5, 4, seed=seed))
            m[2].weight.data = whole(3, 6, seed=seed + 8)
            third = f(whole(5, 4, seed=seed))
        yield taken(m, first, second, third)


@scenario(grad=True, versions=False)
def test_weight_frozen_within_the_region(compile: Compile) -> Steps:
    """Of one that does not require grad nothing is kept, but what was is found again."""
    m = network()
    f = compile(m)
    for seed in range(4):
        with region():
            first = f(whole(5, 4, seed=seed))
            m[0].weight.requires_grad_(False)
            m[0].weight.add_(1)
            second = f(whole(5, 4, seed=seed))
            m[0].weight.requires_grad_(True)
            third = f(whole(5, 4, seed=seed))
        yield taken(m, first, second, third)


# Eager code in the same region


@scenario(grad=True, versions=False)
def test_eager_code_made_the_cast(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    for seed in range(3):
        with region():
            first = m(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
            second = f(whole(5, 4, seed=seed))
        yield taken(m, first, second)


@scenario(grad=True, versions=False)
def test_eager_code_finds_the_cast(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    for seed in range(3):
        with region():
            first = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
            second = m(whole(5, 4, seed=seed))
        yield taken(m, first, second)


@scenario(grad=True, versions=False, captured="late")
def test_only_what_the_call_uses_is_cast(compile: Compile) -> Steps:
    m, other = network(), linear(4, 6, seed=3)
    f = compile(lambda x, which: (m if which else other)(x))
    for seed in range(3):
        for which in (True, False):
            with region():
                first = f(whole(5, 4, seed=seed), which)
                with torch.no_grad():
                    m[0].weight.add_(1)
                    other.weight.add_(1)
                second = m(whole(5, 4, seed=seed))
                third = other(whole(5, 4, seed=seed))
            yield taken(nn.ModuleList([m, other]), first, second, third)


@scenario(grad=True, versions=False)
def test_a_call_that_misses_makes_no_cast(compile: Compile) -> Steps:
    """Guards of `f` fail behind those of the weight: nobody has used it by then."""
    m = network()
    box = {"scale": 1.0, "use": True}

    def g(x: torch.Tensor) -> torch.Tensor:
        return m(x) if box["use"] else x * 3

    f = compile(g)
    for seed in range(3):
        box["use"] = True
        with region():
            first = f(whole(5, 4, seed=seed))
        box["use"] = False
        with region():
            second = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
            third = m(whole(5, 4, seed=seed))
        yield taken(m, first, second, third)


@scenario(grad=True, versions=False)
def test_saved_tensors_hook_has_seen_the_cast(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    with region():
        yield taken(m, f(whole(5, 4)))
    with region():
        yield taken(m, f(whole(5, 4)))
    kept = []

    def pack(t: torch.Tensor) -> torch.Tensor:
        kept.append(t)
        return t

    for seed in range(3):
        with region():
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
                first = m(whole(5, 4, seed=seed))
            with torch.no_grad():
                for t in kept:
                    if t.dtype == BF16 and t.shape in ((6, 4), (4, 6)):
                        t.add_(1)
            second = f(whole(5, 4, seed=seed))
        yield [first.detach(), second.detach()]
        kept.clear()


# Kinds of regions


@scenario(grad=True, versions=False)
def test_nested_regions(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    for seed in range(3):
        with region():
            with region():
                first = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
            with region():
                second = f(whole(5, 4, seed=seed))
            with region(enabled=False):
                third = f(whole(5, 4, seed=seed))
        yield taken(m, first, second, third)


@scenario(grad=True, versions=False)
def test_region_within_one_that_is_off(compile: Compile) -> Steps:
    m = network()

    def g(x: torch.Tensor) -> torch.Tensor:
        with region():
            return m(x)

    f = compile(g)
    for seed in range(3):
        with region(enabled=False):
            first = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
            second = f(whole(5, 4, seed=seed))
        third = f(whole(5, 4, seed=seed))
        yield taken(m, first, second, third)


@scenario(grad=True, versions=False, captured="late")
def test_region_within_another_one(compile: Compile) -> Steps:
    m, last = network(), linear(3, 3, seed=5)

    def g(x: torch.Tensor) -> torch.Tensor:
        y = m(x)
        with region():
            y = last(y) + m[2](m[0](x).relu())
        with region(enabled=False):
            y = m[2](m[0](x).relu()) + y
        return last(y)

    f = compile(g)
    for seed in range(3):
        with region():
            out = f(whole(5, 4, seed=seed))
        yield taken(nn.ModuleList([m, last]), out)
        yield taken(nn.ModuleList([m, last]), f(whole(5, 4, seed=seed)))


@scenario(grad=True, versions=False)
def test_region_within_of_another_type(compile: Compile) -> Steps:
    m, last = network(), linear(4, 3, seed=5)

    def g(x: torch.Tensor) -> torch.Tensor:
        with region(F16):
            y = last(x)
        return m(x).float() + y.float()

    f = compile(g)
    for seed in range(3):
        with region():
            first = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                last.weight.add_(1)
            second = f(whole(5, 4, seed=seed))
        yield taken(nn.ModuleList([m, last]), first, second)


@scenario(grad=True, versions=False)
def test_two_types_in_one_region(compile: Compile) -> Steps:
    """Eager finds the cast of the other type, and mostly raises."""
    m = network()
    f = compile(m)
    for seed in range(3):
        with region():
            first = f(whole(5, 4, seed=seed))
            with region(F16):
                raised = attempt(f, whole(5, 4, seed=seed))
            second = f(whole(5, 4, seed=seed))
        yield raised
        yield taken(m, first, second)


@scenario(grad=True, versions=False)
def test_without_cache(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    for seed in range(3):
        with region(cache_enabled=False):
            first = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
            second = f(whole(5, 4, seed=seed))
            with region():
                third = f(whole(5, 4, seed=seed))
        yield taken(m, first, second, third)


@scenario(grad=True, versions=False)
def test_cache_within_a_region_without(compile: Compile) -> Steps:
    m = network()

    def g(x: torch.Tensor) -> torch.Tensor:
        with region():
            return m(x)

    f = compile(g)
    for seed in range(3):
        with region(cache_enabled=False):
            first = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
            second = f(whole(5, 4, seed=seed))
        yield taken(m, first, second)


@scenario(grad=True, versions=False)
def test_cache_cleared_between_calls(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    for seed in range(3):
        with region():
            first = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
            torch.clear_autocast_cache()
            second = f(whole(5, 4, seed=seed))
        yield taken(m, first, second)


@scenario(graph_breaks="clear_autocast_cache")
def test_cache_cleared_by_the_call(compile: Compile) -> Steps:
    m = network()

    def g(x: torch.Tensor) -> torch.Tensor:
        y = m(x)
        with torch.no_grad():
            m[0].weight.add_(1)
        torch.clear_autocast_cache()
        return m(x) + y

    f = compile(g)
    for seed in range(3):
        with region():
            out = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
            later = m(whole(5, 4, seed=seed))
        yield taken(m, out, later)


@scenario(grad=True, versions=False)
def test_switched_on_without_a_region(compile: Compile) -> Steps:
    m = network()
    f = compile(m)
    torch.set_autocast_enabled("cpu", True)
    try:
        for seed in range(3):
            first = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
            second = f(whole(5, 4, seed=seed))
            yield taken(m, first, second)
            torch.clear_autocast_cache()
    finally:
        torch.set_autocast_enabled("cpu", False)
        torch.clear_autocast_cache()


@scenario(grad=True, captured=False, versions=False, graph_breaks=None)
def test_switched_on_by_the_call(compile: Compile) -> Steps:
    m = network()

    def g(x: torch.Tensor) -> torch.Tensor:
        torch.set_autocast_enabled("cpu", True)
        y = m(x)
        torch.set_autocast_enabled("cpu", False)
        return y

    f = compile(g)
    for seed in range(4):
        first = f(whole(5, 4, seed=seed))
        with torch.no_grad():
            m[0].weight.add_(1)
        yield taken(m, first)
    torch.clear_autocast_cache()


@scenario(grad=True, versions=False, captured="late")
def test_around_and_not_in_turn(compile: Compile) -> Steps:
    """A region within the call, with one around it and without."""
    m = network()

    def g(x: torch.Tensor) -> torch.Tensor:
        with region():
            return m(x)

    f = compile(g)
    for seed in range(3):
        yield taken(m, f(whole(5, 4, seed=seed)))
        with region():
            first = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
            second = f(whole(5, 4, seed=seed))
        yield taken(m, first, second)


# Weights


@scenario(grad=True, versions=False)
def test_frozen_weights(compile: Compile) -> Steps:
    m = network()
    m[0].requires_grad_(False)
    f = compile(m)
    for seed in range(3):
        with region():
            first = f(whole(5, 4, seed=seed))
            with torch.no_grad():
                m[0].weight.add_(1)
                m[2].weight.add_(1)
            second = f(whole(5, 4, seed=seed))
        yield taken(m, first, second)


@scenario(grad=True, versions=False)
def test_tied_weights(compile: Compile) -> Steps:
    m = nn.Sequential(linear(4, 4), nn.ReLU(), linear(4, 4))
    m[2].weight = m[0].weight
    f = compile(m)
    for seed in range(3):
        with region():
            out = f(whole(3, 4, seed=seed))
        yield taken(m, out)


@scenario(grad=True, versions=False)
def test_weight_in_both_types(compile: Compile) -> Steps:
    m = linear(4, 4)
    f = compile(lambda x: m(x).float() + m.weight.sum() * x.sum())
    for seed in range(3):
        with region():
            out = f(whole(3, 4, seed=seed))
        yield taken(m, out)


@scenario(grad=True, versions=False)
def test_weights_as_arguments(compile: Compile) -> Steps:
    a, b = (whole(4, 4, seed=s).requires_grad_() for s in (1, 2))
    f = compile(lambda x, w: torch.relu(x @ w) @ w)
    for seed in range(3):
        with region():
            outs = [f(whole(3, 4, seed=seed), w) for w in (a, b, a)]
            with torch.no_grad():
                a.add_(1)
            outs.append(f(whole(3, 4, seed=seed), a))
        sum(o.float().sum() for o in outs).backward()
        yield [outs, a.grad, b.grad]
        a.grad = b.grad = None


@scenario(grad=True, versions=False)
def test_computed_weight(compile: Compile) -> Steps:
    """Autocast keeps the casts of leaves alone."""
    m = linear(4, 4)

    def g(x: torch.Tensor) -> torch.Tensor:
        w = m.weight * 2
        return x @ w + x @ w.detach() + x @ m.weight.detach()

    f = compile(g)
    for seed in range(3):
        with region():
            first = f(whole(3, 4, seed=seed))
            with torch.no_grad():
                m.weight.add_(1)
            second = f(whole(3, 4, seed=seed))
        yield taken(m, first, second)


@scenario(grad=True, versions=False)
def test_leaf_or_not(compile: Compile) -> Steps:
    leaf = whole(4, 4, seed=1).requires_grad_()
    f = compile(lambda x, w: torch.relu(x @ w) @ w)
    for seed in range(3):
        with region():
            x = whole(3, 4, seed=seed)
            outs = [
                f(x, leaf),
                f(x, leaf * 2),
                f(x, leaf.detach().requires_grad_()),
                f(x, leaf),
            ]
        sum(o.float().sum() for o in outs).backward()
        yield [outs, leaf.grad]
        leaf.grad = None


@scenario(grad=True, versions=False)
def test_input_that_requires_grad(compile: Compile) -> Steps:
    """A leaf, like a weight: its cast is kept."""
    m = network()
    f = compile(m)
    for seed in range(3):
        x = whole(5, 4, seed=seed).requires_grad_()
        with region():
            first = f(x)
            with torch.no_grad():
                x.add_(1)
            second = f(x)
        yield taken(m, first, second)
        yield x.grad


@scenario(grad=True, versions=False, graph_breaks=None)
def test_leaf_of_the_call(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            w = (x @ x.T).float().requires_grad_()
            y = x.T @ w
        return y, w

    f = compile(g)
    for seed in range(4):
        with region():
            y, w = f(whole(3, 4, seed=seed))
            with torch.no_grad():
                w.add_(1)
                z = whole(4, 3) @ w
        yield [y, w, z]


@scenario(grad=True, versions=False, graph_breaks=None)
def test_weight_written_before_its_use(compile: Compile) -> Steps:
    m = network()

    def g(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            m[2].weight.add_(1)
        return m(x)

    f = compile(g)
    for seed in range(4):
        with region():
            first = f(whole(5, 4, seed=seed))
            second = f(whole(5, 4, seed=seed))
        yield taken(m, first, second)


@scenario
def test_weight_written_after_its_use(compile: Compile) -> Steps:
    m = network()

    def g(x: torch.Tensor) -> torch.Tensor:
        y = m(x)
        m[2].weight.add_(1)
        return y + m(x)

    f = compile(g)
    for seed in range(4):
        with region():
            yield f(whole(5, 4, seed=seed))
            yield f(whole(5, 4, seed=seed))
        yield [p.detach().clone() for p in m.parameters()]


@scenario(graph_breaks=None)
def test_input_that_overlaps_a_weight(compile: Compile) -> Steps:
    w = whole(4, 4, seed=1).requires_grad_()

    def g(x: torch.Tensor, buffer: torch.Tensor) -> torch.Tensor:
        buffer.add_(1)
        return x @ w

    f = compile(g)
    for seed in range(3):
        for _ in range(2):
            with region():
                yield f(whole(3, 4, seed=seed), whole(4))
        with region():
            yield f(whole(3, 4, seed=seed), w.detach()[0])
        with region():
            yield f(whole(3, 4, seed=seed), whole(4))


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


@scenario(
    grad=True, versions=False, captured=False, graph_breaks="global state changed"
)
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

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert pyjit.stats(f)["hits"] > 60


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
