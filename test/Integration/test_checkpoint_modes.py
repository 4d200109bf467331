# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A function under checkpoint that the backward pass calls again: random numbers and modes."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import numpy
import pyjit
import pytest
import torch
from Integration.checkpoint_steps import World, again, changed, graph
from torch import nn
from torch.utils.checkpoint import checkpoint


@graph
def test_dropout_within(w: World, x: Any, y: Any) -> Any:
    out = again(lambda x: w.drop(w.layer(x)).sin(), x)
    return w.finish((out * torch.rand(4)).sum()), torch.rand(2)


@changed
def test_dropout_without_the_state(w: World, x: Any, y: Any) -> Any:
    f = partial(checkpoint, use_reentrant=False, preserve_rng_state=False)
    out = f(lambda x: w.drop(w.layer(x)).sin(), x)
    return w.finish(out.sum()), torch.rand(2)


@changed
def test_generator_is_given(w: World, x: Any, y: Any) -> Any:
    def f(x: Any) -> Any:
        return (w.layer(x) * torch.rand(4, generator=w.generator)).sin()

    return w.finish(again(f, x).sum())


@changed
def test_generator_of_the_calls_own(w: World, x: Any, y: Any) -> Any:
    g = torch.Generator().manual_seed(5)
    out = again(lambda x: (w.layer(x) * torch.rand(4, generator=g)).sin(), x)
    return w.finish(out.sum()), torch.rand(2, generator=g)


@changed
def test_seed_is_set_within(w: World, x: Any, y: Any) -> Any:
    def f(x: Any) -> Any:
        torch.manual_seed(7)
        return w.drop(w.layer(x)).sin()

    return w.finish(again(f, x).sum()), torch.rand(2)


@changed
def test_seed_is_set_between(w: World, x: Any, y: Any) -> Any:
    out = again(lambda x: w.drop(w.layer(x)).sin(), x)
    torch.manual_seed(7)
    return w.finish(out.sum()), torch.rand(2)


@changed
def test_numbers_of_python_are_drawn(w: World, x: Any, y: Any) -> Any:
    def f(x: Any) -> Any:
        return (w.layer(x) * random.random()).sin()

    return w.finish(again(f, x).sum())


@changed
def test_numbers_of_numpy_are_drawn(w: World, x: Any, y: Any) -> Any:
    def f(x: Any) -> Any:
        return (w.layer(x) * float(numpy.random.rand())).sin()

    return w.finish(again(f, x).sum())


@changed
def test_autocast_around_the_forward(w: World, x: Any, y: Any) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        out = again(lambda x: w.layer(x), x)
    return w.finish(w.other(out.float()).square().mean())


@changed
def test_default_dtype_is_set(w: World, x: Any, y: Any) -> Any:
    torch.set_default_dtype(torch.float64)
    out = again(lambda x: (w.layer(x) * torch.ones(4).float()).sin(), x)
    torch.set_default_dtype(torch.float32)
    return w.finish(out.sum())


@changed
def test_grad_mode_is_asked(w: World, x: Any, y: Any) -> Any:
    def f(x: Any) -> Any:
        h = w.layer(x)
        with torch.no_grad():
            scale = h.mean()
        return (h * scale * (2.0 if torch.is_grad_enabled() else 1.0)).sin()

    return w.finish(again(f, x).sum())


@changed
def test_autocast_is_asked(w: World, x: Any, y: Any) -> Any:
    def f(x: Any) -> Any:
        return (w.layer(x) * (2.0 if torch.is_autocast_enabled("cpu") else 1)).sin()

    with torch.autocast("cpu", torch.bfloat16):
        out = again(f, x)
    return w.finish(out.float().sum())


@changed
def test_deterministic_is_asked(w: World, x: Any, y: Any) -> Any:
    def f(x: Any) -> Any:
        strict = torch.are_deterministic_algorithms_enabled()
        return (w.layer(x) * (2.0 if strict else 1)).sin()

    torch.use_deterministic_algorithms(True)
    out = again(f, x)
    torch.use_deterministic_algorithms(False)
    return w.finish(out.sum())


@changed
def test_default_device_is_asked(w: World, x: Any, y: Any) -> Any:
    def f(x: Any) -> Any:
        meta = torch.get_default_device().type == "meta"
        return (w.layer(x) * (2.0 if meta else 1)).sin()

    with torch.device("meta"):
        out = again(f, x)
    return w.finish(out.sum())


@changed
def test_whether_it_is_the_backward_is_asked(w: World, x: Any, y: Any) -> Any:
    def f(x: Any) -> Any:
        within = torch._C._current_graph_task_id() != -1
        return (w.layer(x) * (2.0 if within else 1.0)).sin()

    return w.finish(again(f, x).sum())


def test_hooks_on_saved_tensors_are_forbidden() -> None:
    m, x = nn.Linear(3, 3), torch.ones(2, 3)

    def f(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(m, x, use_reentrant=False).sum()

    fast = pyjit.compile(f)
    for grad in (True, False):
        for _ in range(3):
            with torch.set_grad_enabled(grad):
                torch.testing.assert_close(fast(x), f(x))
    assert pyjit.stats(fast).hits == 4
    with torch.autograd.graph.disable_saved_tensors_hooks("not allowed"):
        for function in (f, fast):
            with pytest.raises(RuntimeError, match="not allowed"):
                function(x)
        with torch.no_grad():  # there is nothing to be saved
            torch.testing.assert_close(fast(x), f(x))
    assert pyjit.stats(fast).hits == 5
