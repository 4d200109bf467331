# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every kind of hook that hears of a leaf's gradient, on leaves of compiled models and of whole steps, against eager.

The recorder, the guards and the nodes of compiled calls ask whether somebody hears (runtime/torch, `Hooks.h`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from torch.autograd.graph import get_gradient_edge

Tensor = torch.Tensor
Log = list[tuple[str, Any]]


def note(log: Log, name: str, gradients: Any) -> None:
    given = gradients if isinstance(gradients, tuple) else (gradients,)
    log.append((name, [None if g is None else g.detach().clone() for g in given]))


def accumulator_of(leaf: Tensor) -> Any:
    return get_gradient_edge(leaf).node


def on_tensor(leaf: Tensor, name: str, log: Log) -> Any:
    return leaf.register_hook(lambda g: note(log, name, g))


def changing(leaf: Tensor, name: str, log: Log) -> Any:
    def hook(g: Tensor) -> Tensor:
        note(log, name, g)
        return g * 2

    return leaf.register_hook(hook)


def behind(leaf: Tensor, name: str, log: Log) -> Any:
    return leaf.register_post_accumulate_grad_hook(lambda p: note(log, name, p.grad))


def before_accumulator(leaf: Tensor, name: str, log: Log) -> Any:
    node = accumulator_of(leaf)
    return node, node.register_prehook(lambda gradients: note(log, name, gradients))


def after_accumulator(leaf: Tensor, name: str, log: Log) -> Any:
    node = accumulator_of(leaf)
    return node, node.register_hook(lambda _, gradients: note(log, name, gradients))


def of_several(leaf: Tensor, name: str, log: Log) -> Any:
    return torch.autograd.graph.register_multi_grad_hook(
        [leaf], lambda gradients: note(log, name, tuple(gradients))
    )


def of_any(leaf: Tensor, name: str, log: Log) -> Any:
    return torch.autograd.graph.register_multi_grad_hook(
        [leaf], lambda g: note(log, name, g), mode="any"
    )


KINDS = [
    on_tensor, changing, behind, before_accumulator, after_accumulator, of_several, of_any,
]  # fmt: skip
Kind = Callable[[Tensor, str, Log], Any]


def leaves() -> dict[str, Tensor]:
    torch.manual_seed(0)
    shapes = {"w": (3, 5), "u": (2, 3), "b": (3,)}
    return {name: torch.randn(shape).requires_grad_() for name, shape in shapes.items()}


def same(want: Log, have: Log) -> None:
    assert [name for name, _ in want] == [name for name, _ in have]
    for (name, w), (_, h) in zip(want, have, strict=True):
        assert len(w) == len(h), name
        for a, b in zip(w, h, strict=True):
            assert (a is None) == (b is None), name
            if a is not None:
                torch.testing.assert_close(b, a)


def model(x: Tensor, w: Tensor, u: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The second result alone comes by `u`."""
    h = F.linear(x, w, b).tanh()
    return h, F.linear(h, u)


def play_model(kind: Kind, which: str, compile: Callable[[Any], Any]) -> Log:
    given, log = leaves(), []
    call, kept = compile(model), list[Any]()  # some live as long as what is returned
    for turn in range(6):
        if turn == 2:
            kept += [kind(given[name], name, log) for name in which]
        h, y = call(torch.ones(4, 5), *given.values())
        (h.sin().sum() + y.cos().sum() if turn % 2 else h.sin().sum()).backward()
        for name, leaf in given.items():
            note(log, f".grad of {name}", leaf.grad)
            leaf.grad = None
    return log


@pytest.mark.parametrize("which", ["w", "u", "wu", "buw"])
@pytest.mark.parametrize("kind", KINDS)
def test_of_models(kind: Kind, which: str) -> None:
    same(play_model(kind, which, lambda f: f), play_model(kind, which, pyjit.compile))


def play_steps(kind: Kind, which: str, compile: Callable[[Any], Any]) -> Log:
    given, log = leaves(), []
    kept: list[Any] = []

    @compile
    def step(x: Tensor) -> Tensor:
        h = F.linear(x, given["w"], given["b"]).tanh()
        loss = F.linear(h, given["u"]).square().mean()
        loss.backward()
        with torch.no_grad():
            for leaf in given.values():
                leaf -= 0.1 * leaf.grad
                leaf.grad = None
        return loss.detach()

    for turn in range(6):
        if turn == 3:
            kept += [kind(given[name], name, log) for name in which]
        note(log, "loss", step(torch.ones(4, 5)))
    for name, leaf in given.items():
        note(log, name, leaf)
    return log


@pytest.mark.parametrize("which", ["w", "buw"])
@pytest.mark.parametrize("kind", KINDS)
def test_of_steps(kind: Kind, which: str) -> None:
    same(play_steps(kind, which, lambda f: f), play_steps(kind, which, pyjit.compile))
