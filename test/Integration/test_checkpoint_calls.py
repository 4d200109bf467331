# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A function under checkpoint that the backward pass calls again: branches, exceptions, output, and the other ways to call it."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from Integration.checkpoint_steps import World, again, changed, graph
from Integration.harness import attempt
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)


@changed
def test_branch_on_data(w: World, x: Any, y: Any) -> Any:
    def f(x: Any) -> Any:
        h = w.layer(x)
        return h.sin() if h.sum().item() > 0 else h.cos()

    return w.finish(again(f, x).sum())


@changed
def test_branch_on_truth(w: World, x: Any, y: Any) -> Any:
    def f(x: Any) -> Any:
        h = w.layer(x)
        return h.sin() if h.sum() > 0 else h.cos()

    return w.finish(again(f, x).sum())


@changed
def test_number_of_data(w: World, x: Any, y: Any) -> Any:
    return w.finish(again(lambda x: (w.layer(x) * y.mean().item()).sin(), x).mean())


@changed
def test_exception_within(w: World, x: Any, y: Any) -> Any:
    def f(x: Any) -> Any:
        h = w.layer(x).sin()
        if x[0, 0].item() > 0:
            raise ValueError("no")
        return h

    try:
        out = again(f, x)
    except ValueError:
        out = w.other(x)
    return w.finish(out.sum())


@changed
def test_exception_that_is_always_raised(w: World, x: Any, y: Any) -> Any:
    def f(x: Any) -> Any:
        w.layer(x).sin()
        raise ValueError("no")

    try:
        out = again(f, x)
    except ValueError:
        out = again(lambda x: w.other(x).sin(), x)
    return w.finish(out.sum())


@changed
def test_exception_the_second_time(w: World, x: Any, y: Any) -> Any:
    w.number = 1.0

    def f(x: Any) -> Any:
        if w.number > 1:
            raise ValueError("again")
        return w.layer(x).sin()

    out = again(f, x)
    w.number = 2.0
    return attempt(w.finish, out.sum())


@changed
def test_something_is_written_to_the_console(w: World, x: Any, y: Any) -> Any:
    def f(x: Any) -> Any:
        print("called", file=Sink(w))
        return w.layer(x).sin()

    return w.finish(again(f, x).sum())


class Sink:
    def __init__(self, w: World) -> None:
        self.w = w

    def write(self, text: str) -> None:
        self.w.seen.append(text)


@changed
def test_result_is_kept(w: World, x: Any, y: Any) -> Any:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        h = w.layer(x).sin()
        kept[:] = [h]
        return h * 2

    out = again(f, x)
    result = w.finish(out.sum())
    return result, kept[0].detach()


@changed
def test_reentrant(w: World, x: Any, y: Any) -> Any:
    out = checkpoint(lambda x: w.layer(x).sin(), x.requires_grad_(), use_reentrant=True)
    return w.finish(out.sum())


@changed
def test_nested(w: World, x: Any, y: Any) -> Any:
    def inner(x: Any) -> Any:
        return w.other(x).sin()

    def f(x: Any) -> Any:
        return again(inner, w.layer(x).sin()).cos()

    return w.finish(again(f, x).sum())


@changed
def test_sequential(w: World, x: Any, y: Any) -> Any:
    parts = [w.layer, nn.ReLU(), w.other, nn.Tanh()]
    out = checkpoint_sequential(parts, 2, x, use_reentrant=False)
    return w.finish(out.sum())


@changed
def test_without_early_stop(w: World, x: Any, y: Any) -> Any:
    with torch.utils.checkpoint.set_checkpoint_early_stop(False):
        out = again(lambda x: w.layer(x).sin() + 1, x)
    return w.finish(out.sum())


@changed
def test_early_stop_skips_the_end(w: World, x: Any, y: Any) -> Any:
    def f(x: Any) -> Any:
        h = w.layer(x).sin()
        w.seen.append(1)
        return h + 1

    return w.finish(again(f, x).sum())


def double(x: Any) -> Any:
    return x * 2


@changed
def test_selective(w: World, x: Any, y: Any) -> Any:
    contexts = partial(
        create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default]
    )
    out = again(lambda x: w.layer(x).sin(), x, context_fn=contexts)
    return w.finish(out.sum())


@changed
def test_selective_by_a_policy(w: World, x: Any, y: Any) -> Any:
    def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        w.seen.append(str(op))
        save = op == torch.ops.aten.addmm.default
        return CheckpointPolicy.MUST_SAVE if save else CheckpointPolicy.PREFER_RECOMPUTE

    contexts = partial(create_selective_checkpoint_contexts, policy)
    out = again(lambda x: w.layer(x).sin(), x, context_fn=contexts)
    return w.finish(out.sum())


@changed
def test_without_a_check(w: World, x: Any, y: Any) -> Any:
    out = again(lambda x: w.layer(x).sin(), x, determinism_check="none")
    return w.finish(out.sum())


@changed
def test_with_debug(w: World, x: Any, y: Any) -> Any:
    return w.finish(again(lambda x: w.layer(x).sin(), x, debug=True).sum())


@changed
def test_under_hooks_on_saved_tensors(w: World, x: Any, y: Any) -> Any:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
        out = again(lambda x: w.layer(x).sin(), x)
        loss = w.other(out).square().sum()
    return w.finish(loss)


@changed
def test_under_no_grad(w: World, x: Any, y: Any) -> Any:
    with torch.no_grad():
        h = again(lambda x: w.layer(x).sin(), x)
    return w.finish(w.other(h).sum())


@changed
def test_module_is_given(w: World, x: Any, y: Any) -> Any:
    return w.finish(F.relu(again(w.other, again(w.layer, x))).sum())


@graph
def test_module_is_given_plainly(w: World, x: Any, y: Any) -> Any:
    return w.finish(again(lambda x: w.other(w.layer(x)).relu(), x).sum())


@graph
def test_tuples_go_in_and_out(w: World, x: Any, y: Any) -> Any:
    def f(pair: Any, *, scale: float) -> Any:
        return w.layer(pair[0]).sin(), w.other(pair[1]) * scale

    a, b = again(f, (x, y), scale=0.5)
    return w.finish((a * b).sum())
