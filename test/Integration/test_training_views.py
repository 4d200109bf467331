# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Views that show elements several times, on the way of a gradient: sums over what overlaps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from Integration.harness import Compile, Steps, scenario, values
from Integration.training import gradients, leaf, loss_of

Program = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def chunks(x: torch.Tensor) -> torch.Tensor:
    """Halves that overlap, as attention over windows cuts them."""
    rows, length, width = x.shape
    x = x.view(rows, length // 4, 4, width)
    size, stride = list(x.shape), list(x.stride())
    size[1] = 2 * size[1] - 1
    stride[1] //= 2
    return x.as_strided(size, stride)


WINDOW = torch.hann_window(4)


def frames(x: torch.Tensor) -> torch.Tensor:
    return x.unfold(1, 4, 3) * WINDOW


PROGRAMS: dict[str, Program] = {
    "frames": lambda x, w: frames(x @ w).tanh(),
    "frames of frames": lambda x, w: (x @ w).unfold(1, 4, 2).unfold(2, 3, 2).tanh(),
    "frames far apart": lambda x, w: (x @ w).unfold(1, 2, 3).tanh(),
    "frames of columns": lambda x, w: (x @ w).mT.unfold(1, 3, 1).tanh(),
    "frames of an input": lambda x, w: x.unfold(1, 3, 1) * w.sum(),
    "overlapping chunks": lambda x, w: chunks(x @ w).tanh(),
    "diagonals by strides": lambda x, w: (x @ w).as_strided((3, 5), (8, 9), 2).exp(),
    "a number by strides": lambda x, w: (x @ w).as_strided((), (), 7).exp(),
    "rows repeated by strides": lambda x, w: (x @ w).as_strided((3, 8), (0, 1)).exp(),
    "columns by strides": lambda x, w: (
        (x @ w).mT.clone().as_strided((2, 6), (30, 2), 1).exp()
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_views(name: str) -> None:
    @scenario(grad=True, captured="late")
    def story(compile: Compile) -> Steps:
        f = compile(PROGRAMS[name])
        w = leaf(8, 8, seed=1)
        for step in range(4):
            x = leaf(2, 12, 8, seed=step % 2)
            out = f(x, w)
            loss_of(out).backward()
            yield out, gradients(x, w)
            w.grad = None
        x = leaf(3, 12, 8)  # another size
        for _ in range(3):
            out = f(x, w)
            loss_of(out).backward()
            yield out, gradients(x, w)

    story()


PARTS: dict[str, Program] = {
    "a slice": lambda x, w: (x @ w)[1:].as_strided((3, 4), (8, 1), 100),
    "in front of a slice": lambda x, w: (x @ w)[1:].as_strided((3, 4), (8, 1), 2),
    "between columns": lambda x, w: (x @ w)[:, :, :4].as_strided((3, 8), (8, 1), 0),
    "of what is repeated": lambda x, w: (
        (x @ w)[:1].expand(2, 12, 8).as_strided((3, 8), (8, 1), 0)
    ),
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("grad", [False, True])
def test_storage_that_a_tensor_does_not_show(name: str, grad: bool) -> None:
    """What `as_strided` reads beside its tensor is no value of a program, nor of one behind a graph break."""

    @scenario(grad=grad, eager="a storage of which its tensor shows a part")
    def story(compile: Compile) -> Steps:
        f = compile(lambda x, w: PARTS[name](x, w).exp())
        w = leaf(8, 8, seed=1)
        for step in range(3):
            x = leaf(2, 12, 8, seed=step % 2)
            out = f(x, w)
            if grad:
                loss_of(out).backward()
            yield out, gradients(x, w)
            w.grad = None

    story()


@scenario(grad=True, captured="late")
def test_second_gradients_of_frames(compile: Compile) -> Steps:
    f = compile(lambda x: frames(x).square())
    for step in range(4):
        x = leaf(2, 12, 3, seed=step % 2)
        (first,) = torch.autograd.grad(loss_of(f(x)), x, create_graph=True)
        yield first
        first.square().sum().backward()
        yield gradients(x)


@scenario(grad=True, captured="late")
def test_experts(compile: Compile) -> Steps:
    """A layer of experts: rows are sorted by the expert that a gate chooses, each group has a matrix."""

    def layer(
        x: torch.Tensor, gate: torch.Tensor, experts: torch.Tensor
    ) -> torch.Tensor:
        weights, chosen = (x @ gate).softmax(-1).topk(2)
        order = chosen.flatten().argsort(stable=True)
        counts = (chosen.flatten()[:, None] == torch.arange(3)).sum(0)
        ends = counts.cumsum(0).to(torch.int32)
        rows = x.repeat_interleave(2, 0)[order]
        products = torch._grouped_mm(rows, experts.mT, offs=ends)
        products = products * weights.flatten()[order][:, None]
        return torch.zeros_like(x).index_add(0, order // 2, products)

    f = compile(layer)
    gate, experts = leaf(8, 3, seed=1), leaf(3, 8, 8, seed=2)
    for step in range(4):
        x = values(7, 8, seed=step)
        out = f(x, gate, experts)
        loss_of(out).backward()
        yield out, gradients(gate, experts)
