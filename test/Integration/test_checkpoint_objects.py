# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A function under checkpoint that the backward pass calls again: what was there before the call."""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable
from typing import Any

from Integration.checkpoint_steps import World, again, changed, graph

SCALE: contextvars.ContextVar[float] = contextvars.ContextVar("SCALE", default=1.0)
GLOBAL = 1.0


@changed
def test_attribute_is_set(w: World, x: Any, y: Any) -> Any:
    w.number = 1.0
    out = again(lambda x: (w.layer(x) * w.number).sin(), x)
    w.number = 2.0
    return w.finish(out.sum())


@changed
def test_attribute_is_set_and_set_back(w: World, x: Any, y: Any) -> Any:
    w.number = 3.0
    out = again(lambda x: (w.layer(x) * w.number).sin(), x)
    w.number = 1.0
    return w.finish(out.sum())


@changed
def test_global_is_set(w: World, x: Any, y: Any) -> Any:
    global GLOBAL
    GLOBAL = 1.0
    out = again(lambda x: (w.layer(x) * GLOBAL).sin(), x)
    GLOBAL = 2.0
    return w.finish(out.sum()), GLOBAL


@changed
def test_earlier_list_is_set_twice(w: World, x: Any, y: Any) -> Any:
    w.seen[:] = [1.0]
    out = again(lambda x: (w.layer(x) * w.seen[0]).sin(), x)
    w.seen[:] = [2.0]
    return w.finish(out.sum())


@changed
def test_calls_are_counted(w: World, x: Any, y: Any) -> Any:
    def f(x: Any) -> Any:
        w.number += 1
        w.seen.append(w.number)
        return w.layer(x).sin()

    return w.finish(again(f, x).sum())


@changed
def test_earlier_iterator_is_walked(w: World, x: Any, y: Any) -> Any:
    return w.finish(again(lambda x: (w.layer(x) * next(w.walk)).sin(), x).sum())


@changed
def test_mode_is_set(w: World, x: Any, y: Any) -> Any:
    w.drop.train()
    out = again(lambda x: w.drop(w.layer(x)).sin(), x)
    w.drop.eval()
    return w.finish(out.sum())


@changed
def test_cache_is_asked(w: World, x: Any, y: Any) -> Any:
    scale_of.cache_clear()
    out = again(lambda x: (w.layer(x) * scale_of(3)).sin(), x)
    return w.finish(out.sum()), tuple(scale_of.cache_info())


@functools.lru_cache
def scale_of(number: int) -> float:
    return float(number)


@changed
def test_hook_counts(w: World, x: Any, y: Any) -> Any:
    handle = w.layer.register_forward_hook(lambda module, args, out: w.seen.append(1))
    result = w.finish(again(lambda x: w.layer(x).sin(), x).sum())
    handle.remove()
    return result


@changed
def test_cell_of_an_earlier_function_is_set_twice(w: World, x: Any, y: Any) -> Any:
    return earlier(w, x)


def make_earlier() -> Callable[..., Any]:
    scale = 1.0

    def f(w: World, x: Any) -> Any:
        nonlocal scale
        scale = 3.0
        out = again(lambda x: (w.layer(x) * scale).sin(), x)
        scale = 2.0
        return w.finish(out.sum())

    return f


earlier = make_earlier()


@changed
def test_context_variable_is_set(w: World, x: Any, y: Any) -> Any:
    token = SCALE.set(2.0)
    out = again(lambda x: (w.layer(x) * SCALE.get()).sin(), x)
    SCALE.reset(token)
    return w.finish(out.sum())


@changed
def test_context_variable_is_set_again(w: World, x: Any, y: Any) -> Any:
    token = SCALE.set(2.0)
    out = again(lambda x: (w.layer(x) * SCALE.get()).sin(), x)
    SCALE.reset(token)
    token = SCALE.set(3.0)
    result = w.finish(out.sum())
    SCALE.reset(token)
    return result


@changed
def test_context_variable_is_set_within(w: World, x: Any, y: Any) -> Any:
    def f(x: Any) -> Any:
        SCALE.set(SCALE.get() + 1)
        return w.layer(x).sin() * SCALE.get()

    SCALE.set(1.0)
    return w.finish(again(f, x).sum()), SCALE.get()


@graph
def test_context_variable_is_set_and_reset_within(w: World, x: Any, y: Any) -> Any:
    def f(x: Any) -> Any:
        token = SCALE.set(2.0)
        out = (w.layer(x) * SCALE.get()).sin()
        SCALE.reset(token)
        return out

    return w.finish(again(f, x).sum())


@graph
def test_context_variable_that_nobody_reads(w: World, x: Any, y: Any) -> Any:
    token = SCALE.set(2.0)
    out = again(lambda x: w.layer(x).sin(), x)
    SCALE.reset(token)
    return w.finish(out.sum())


@graph
def test_an_object_that_nobody_reads_is_set(w: World, x: Any, y: Any) -> Any:
    layer = w.layer
    out = again(lambda x: layer(x).sin(), x)
    w.number = 2.0
    w.seen.append("one more")
    return w.finish(out.sum())
