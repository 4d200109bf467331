# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What people ask of autograd's engine around a compiled model: hooks of every kind, anomalies, saved tensors, roots."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, attempt, scenario, values
from Integration.training import gradients, leaf, loss_of, perceptron, state
from torch import nn
from torch.autograd import graph


@scenario(grad=True, graph_breaks=ANY, captured=False)
def test_backward_hooks_of_modules(compile: Compile) -> Steps:
    m = perceptron()
    seen: list[Any] = []
    f = compile(m)
    for step in range(10):
        if step == 3:
            handle = m.register_full_backward_hook(
                lambda _, i, o: seen.append(["model", o[0].clone(), i[0] is None])
            )
        if step == 5:
            m[0].register_full_backward_pre_hook(
                lambda _, o: seen.append(["first", o[0].clone()]) or (o[0] * 2,)
            )
        if step == 7:
            m[2].register_full_backward_hook(
                lambda _, i, o: (i[0] * 0.5,)  # changes what flows on
            )
        if step == 9:
            handle.remove()
        m.zero_grad()
        seen.clear()
        out = f(values(3, 4, seed=step))
        loss_of(out).backward()
        yield [out, list(seen), state(m)]


@scenario(grad=True, graph_breaks=ANY, captured=False)
def test_hooks_of_all_modules(compile: Compile) -> Steps:
    m = perceptron()
    seen: list[str] = []
    f = compile(m)
    for step in range(8):
        seen.clear()
        handles = []
        if step in (3, 4):
            handles.append(
                nn.modules.module.register_module_forward_hook(
                    lambda m, *_: seen.append(type(m).__name__)
                )
            )
        if step in (4, 5):
            handles.append(
                nn.modules.module.register_module_full_backward_hook(
                    lambda m, *_: seen.append("back " + type(m).__name__)
                )
            )
        m.zero_grad()
        loss_of(f(values(3, 4, seed=step))).backward()
        for handle in handles:
            handle.remove()
        yield [sorted(seen), state(m)]


@scenario(grad=True, captured="late")
def test_hooks_of_nodes(compile: Compile) -> Steps:
    """A compiled call is one node: hooks that tell its inputs apart see others than in eager."""
    f = compile(lambda x: x.exp() * x)
    for step in range(5):
        x = leaf(3, seed=step)
        seen: list[Any] = []
        out = f(x)
        out.grad_fn.register_prehook(lambda g, s=seen: s.append(g[0].clone()) or None)
        out.grad_fn.register_hook(
            lambda i, o, s=seen: s.append(o[0].clone()) or tuple(g * 2 for g in i)
        )
        out.sum().backward()
        yield [len(seen), seen[:1], gradients(x)]


@pytest.mark.parametrize("mode", ["all", "any"])
def test_hooks_of_several_tensors(mode: Any) -> None:
    @scenario(grad=True)
    def story(compile: Compile) -> Steps:
        m = perceptron()
        f = compile(m)
        seen: list[Any] = []
        graph.register_multi_grad_hook(
            [m[0].weight, m[2].bias], lambda g: seen.append(g), mode=mode
        )
        for step in range(4):
            m.zero_grad()
            seen.clear()
            loss_of(f(values(3, 4, seed=step))).backward()
            # Which is first, only the engine knows.
            yield [len(seen), state(m)]

    story()


class Attending(nn.Module):
    """Weights of several uses, of layers with and without biases, norms between them."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.norm = nn.LayerNorm(8)
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8, bias=False)
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        h = self.embedding(ids)
        for _ in range(2):
            q, k, v = self.qkv(self.norm(h)).chunk(3, -1)
            h = h + self.out((q @ k.mT).softmax(-1) @ v) * self.scale
        return h @ self.embedding.weight.t()


def convolutional() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 4, 3, groups=2, bias=False),
        nn.GroupNorm(2, 4),
        nn.Flatten(),
        nn.Linear(64, 5),
        nn.PReLU(),
    )


def attending() -> nn.Module:
    torch.manual_seed(0)
    return Attending()


@pytest.mark.parametrize("penalty", [False, True])
@pytest.mark.parametrize(
    ("make", "batch"),
    [
        (perceptron, lambda seed: values(3, 4, seed=seed)),
        (convolutional, lambda seed: values(2, 3, 8, 8, seed=seed)),
        (attending, lambda seed: torch.arange(6).view(2, 3) + seed % 3),
    ],
)
def test_order_of_leaves(make: Any, batch: Any, penalty: bool) -> None:
    """Eager hands a leaf's gradient out as soon as nothing can be added to it."""

    @scenario(grad=True)
    def story(compile: Compile) -> Steps:
        m = make()
        f = compile(m)
        seen: list[str] = []
        for name, p in m.named_parameters():
            p.register_hook(lambda g, name=name: seen.append(f"{name} has a gradient"))
            p.register_post_accumulate_grad_hook(
                lambda p, name=name: seen.append(f"{name} has accumulated it")
            )
        for step in range(4):
            m.zero_grad()
            seen.clear()
            loss = loss_of(f(batch(step)))
            if penalty:
                loss = loss + sum(p.square().sum() for p in m.parameters())
            loss.backward()
            yield [list(seen), state(m)]

    story()


@pytest.mark.parametrize("whole", [False, True])
def test_optimizer_within_the_backward(whole: bool) -> None:
    """Each parameter is updated as soon as its gradient is there."""

    @scenario(grad=True, graph_breaks=ANY, captured=False)
    def story(compile: Compile) -> Steps:
        m = perceptron()
        each = {p: torch.optim.SGD([p], lr=0.1, momentum=0.9) for p in m.parameters()}

        def update(p: torch.Tensor) -> None:
            each[p].step()
            each[p].zero_grad()

        for p in m.parameters():
            p.register_post_accumulate_grad_hook(update)
        target = values(3, 2, seed=9)

        def step_of(x: torch.Tensor) -> torch.Tensor:
            loss = F.mse_loss(model(x), target)
            loss.backward()
            return loss.detach()

        model = m if whole else compile(m)
        f = compile(step_of) if whole else step_of
        for step in range(6):
            yield [f(values(3, 4, seed=step)), state(m)]

    story()


@scenario(grad=True, captured="late", graph_breaks=ANY)
def test_anomalies(compile: Compile) -> Steps:
    f = compile(lambda x: x.sqrt() * x)
    for step in range(6):
        x = torch.tensor([0.0, 1.0, 4.0], requires_grad=True)
        if step % 2:
            with torch.autograd.set_detect_anomaly(True, check_nan=True):
                out = f(x)
                found = attempt(out.sum().backward)
        else:
            found = attempt(f(x).sum().backward)
        yield [type(getattr(found, "type", None)).__name__, gradients(x)]


@pytest.mark.parametrize("whole", [False, True])
def test_saved_on_the_host(whole: bool) -> None:
    @scenario(grad=True, graph_breaks=ANY, captured=False)
    def story(compile: Compile) -> Steps:
        m = perceptron()

        def step_of(x: torch.Tensor) -> torch.Tensor:
            with graph.save_on_cpu():
                out = model(x)
            loss_of(out).backward()
            return out.detach()

        model = m if whole else compile(m)
        f = compile(step_of) if whole else step_of
        for step in range(5):
            m.zero_grad()
            yield [f(values(3, 4, seed=step)), state(m)]

    story()


@scenario(grad=True, graph_breaks=ANY, captured=False)
def test_saved_tensors_that_may_be_written(compile: Compile) -> Steps:
    f = compile(lambda x, y: x * y)
    for step in range(6):
        x, y = leaf(3, seed=step), leaf(3, seed=9)
        h = y * 2
        if step % 2:
            with graph.allow_mutation_on_saved_tensors():
                out = f(x, h)
                h.mul_(3)
                found = attempt(out.sum().backward)
        else:
            out = f(x, h)
            h.mul_(3)
            found = attempt(out.sum().backward)
        yield [type(found).__name__, gradients(x, y)]


@scenario(grad=True)
def test_several_roots_and_given_gradients(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(lambda x: (m(x), m(x * 2).sin()))
    for step in range(5):
        m.zero_grad()
        one, two = f(values(3, 4, seed=step))
        torch.autograd.backward([one, two], [values(3, 2), values(3, 2, seed=1)])
        yield state(m)
        one, two = f(values(3, 4, seed=step))
        (one.sum() + two.sum()).backward(inputs=[m[0].weight])
        yield state(m)


@scenario(grad=True)
def test_gradient_edges(compile: Compile) -> Steps:
    f = compile(lambda x: x.exp() * 2)
    for step in range(4):
        x = leaf(3, seed=step)
        h = x.sin()
        edge = graph.get_gradient_edge(h)
        out = f(h)
        del h
        (first,) = torch.autograd.grad(out.sum(), edge, retain_graph=True)
        last = graph.get_gradient_edge(out)
        (second,) = torch.autograd.grad(last, x, torch.ones(3))
        yield [first, second]


@scenario(grad=True, captured="late")
def test_copied_and_pickled_models(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(m)
    for step in range(6):
        m.zero_grad()
        loss_of(f(values(3, 4, seed=step))).backward()
        if step == 2:
            m = copy.deepcopy(m)
            f = compile(m)
        if step == 4:
            m.load_state_dict(pickle.loads(pickle.dumps(m.state_dict())))
        yield state(m)


@scenario(grad=True, captured="late", graph_breaks=ANY)
def test_parameters_are_exchanged(compile: Compile) -> Steps:
    m = perceptron()
    f = compile(m)
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    for step in range(9):
        if step == 3:
            flat = nn.utils.parameters_to_vector(m.parameters())
            nn.utils.vector_to_parameters(flat.detach() * 0.5, m.parameters())
        if step == 5:
            other = perceptron()
            torch.utils.swap_tensors(m[0].weight, other[0].weight)
        if step == 7:
            m[0] = nn.Linear(4, 8)
        m.zero_grad()
        loss_of(f(values(3, 4, seed=step))).backward()
        optimizer.step()
        yield state(m)


@scenario(grad=True, captured="late", graph_breaks=ANY)
def test_gradients_are_given_noise(compile: Compile) -> Steps:
    m = perceptron()
    optimizer = torch.optim.AdamW(m.parameters(), lr=0.01, eps=1e-3)
    target = values(3, 2, seed=9)

    def step_of(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(m(x), target)
        loss.backward()
        for p in m.parameters():
            p.grad.add_(torch.randn_like(p) * 0.01)
            p.grad = p.grad / (p.grad.norm() + 1)
        optimizer.step()
        return loss.detach()

    f = compile(step_of)
    for step in range(7):
        torch.manual_seed(step)
        yield [f(values(3, 4, seed=step)), state(m, optimizer)]


CHANGES: dict[str, Callable[[torch.Tensor], object]] = {
    "requires_grad_": lambda out: out.requires_grad_(),
    "detach_": lambda out: out.detach_(),
    "retain_grad": lambda out: out.retain_grad(),
    "in place": lambda out: out.mul_(2),
    "in place on a part": lambda out: out[0].mul_(2),
    "data": lambda out: out.data.mul_(2),
    "set_": lambda out: out.data.fill_(1.5),
}


@pytest.mark.parametrize("name", CHANGES)
def test_results_are_changed(name: str) -> None:
    @scenario(grad=True, captured="late")
    def story(compile: Compile) -> Steps:
        m = nn.Sequential(perceptron(), nn.Sigmoid())
        f = compile(m)
        for step in range(5):
            m.zero_grad()
            out = f(values(3, 4, seed=step))
            found = attempt(CHANGES[name], out)
            loss = loss_of(out)
            error = attempt(loss.backward)
            yield [type(found).__name__, type(error).__name__, out.requires_grad]
            yield [out.is_leaf, gradients(*[out] if out.is_leaf else []), state(m)]

    story()
