# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A function under checkpoint that the backward pass calls again: what the call itself has made."""

from __future__ import annotations

import collections
import itertools
import random
import types
from typing import Any

import numpy
from Integration.checkpoint_steps import World, again, changed


@changed
def test_cell_is_set(w: World, x: Any, y: Any) -> Any:
    scale = 1.0

    def f(x: Any) -> Any:
        return (w.layer(x) * scale).sin()

    out = again(f, x)
    scale = 2.0
    return w.finish(out.sum())


@changed
def test_cell_is_set_to_a_tensor(w: World, x: Any, y: Any) -> Any:
    scale = y

    def f(x: Any) -> Any:
        return (w.layer(x) * scale).sin()

    out = again(f, x)
    scale = y * 2
    return w.finish(out.sum())


@changed
def test_list_is_set(w: World, x: Any, y: Any) -> Any:
    scales = [1.0, y]
    out = again(lambda x: (w.layer(x) * scales[0] * scales[1]).sin(), x)
    scales[0] += 1.5
    return w.finish(out.sum())


@changed
def test_list_is_appended_to(w: World, x: Any, y: Any) -> Any:
    scales = [1.0]
    out = again(lambda x, scales: (w.layer(x) * scales[-1]).sin(), x, scales)
    scales.append(3.0)
    return w.finish(out.sum())


@changed
def test_list_is_sorted_by_its_method(w: World, x: Any, y: Any) -> Any:
    scales = [3.0, 2.0]
    out = again(lambda x: (w.layer(x) * scales[0]).sin(), x)
    scales.sort()
    return w.finish(out.sum())


@changed
def test_dict_is_set(w: World, x: Any, y: Any) -> Any:
    kept = {"scale": 1.0}
    out = again(lambda x: (w.layer(x) * kept["scale"]).sin(), x)
    kept["scale"] = 2.0
    return w.finish(out.sum())


@changed
def test_attribute_of_an_own_object_is_set(w: World, x: Any, y: Any) -> Any:
    kept = types.SimpleNamespace(scale=1.0)
    out = again(lambda x: (w.layer(x) * kept.scale).sin(), x)
    kept.scale = 2.0
    return w.finish(out.sum())


class Slotted:
    __slots__ = ("scale",)


class Plain:
    def __init__(self) -> None:
        self.scale = 1.0


@changed
def test_slot_of_an_own_object_is_set(w: World, x: Any, y: Any) -> Any:
    kept = Slotted()
    kept.scale = 1.0
    out = again(lambda x: (w.layer(x) * kept.scale).sin(), x)
    kept.scale = 2.0
    return w.finish(out.sum())


@changed
def test_attribute_of_a_plain_object_is_set(w: World, x: Any, y: Any) -> Any:
    kept = Plain()
    out = again(lambda x, kept: (w.layer(x) * kept.scale).sin(), x, kept=kept)
    kept.scale = 2.0
    return w.finish(out.sum())


@changed
def test_class_of_the_calls_own_is_set(w: World, x: Any, y: Any) -> Any:
    class Kept:
        scale = 1.0

    out = again(lambda x: (w.layer(x) * Kept.scale).sin(), x)
    Kept.scale = 2.0
    return w.finish(out.sum())


@changed
def test_deque_is_rotated(w: World, x: Any, y: Any) -> Any:
    kept = collections.deque([1.0, 2.0])
    out = again(lambda x: (w.layer(x) * kept[0]).sin(), x)
    kept.rotate(1)
    return w.finish(out.sum())


@changed
def test_own_object_that_is_reached_by_an_earlier_one(w: World, x: Any, y: Any) -> Any:
    w.scale = [1.0]
    out = again(lambda x: (w.layer(x) * w.scale[0]).sin(), x)
    w.scale[0] = 2.0
    return w.finish(out.sum())


@changed
def test_own_object_in_an_earlier_list(w: World, x: Any, y: Any) -> Any:
    kept = {"scale": 1.0}
    w.seen.append(kept)
    out = again(lambda x: (w.layer(x) * w.seen[-1]["scale"]).sin(), x)
    kept["scale"] = 2.0
    return w.finish(out.sum())


@changed
def test_default_of_an_own_function_is_set(w: World, x: Any, y: Any) -> Any:
    def f(x: Any, scale: float = 1.0) -> Any:
        return (w.layer(x) * scale).sin()

    out = again(f, x)
    f.__defaults__ = (2.0,)
    return w.finish(out.sum())


@changed
def test_attribute_of_an_own_tensor_is_set(w: World, x: Any, y: Any) -> Any:
    h = x.cos()
    h.scale = 1.0
    out = again(lambda h: (w.layer(h) * h.scale).sin(), h)
    h.scale = 2.0
    return w.finish(out.sum())


@changed
def test_iterator_is_walked_on(w: World, x: Any, y: Any) -> Any:
    walk = iter([1.0, 2.0, 3.0, 4.0])
    out = again(lambda x: (w.layer(x) * next(walk)).sin(), x)
    return w.finish(out.sum()), next(walk)


@changed
def test_iterator_is_walked_between(w: World, x: Any, y: Any) -> Any:
    walk = iter([1.0, 2.0, 3.0, 4.0])
    out = again(lambda x: (w.layer(x) * (next(walk, 7.0) * 0 + 1)).sin(), x)
    next(walk)
    return w.finish(out.sum()), list(walk)


@changed
def test_generator_is_walked(w: World, x: Any, y: Any) -> Any:
    walk = (float(i) for i in range(1, 9))
    out = again(lambda x: (w.layer(x) * next(walk)).sin(), x)
    return w.finish(out.sum()), next(walk)


@changed
def test_counter_counts(w: World, x: Any, y: Any) -> Any:
    count = itertools.count(1)
    out = again(lambda x: (w.layer(x) * next(count)).sin(), x)
    return w.finish(out.sum()), next(count)


@changed
def test_own_random_state(w: World, x: Any, y: Any) -> Any:
    draw = random.Random(3)
    out = again(lambda x: (w.layer(x) * draw.random()).sin(), x)
    return w.finish(out.sum()), draw.random()


@changed
def test_bytes_are_set(w: World, x: Any, y: Any) -> Any:
    kept = bytearray(b"\x01")
    out = again(lambda x: (w.layer(x) * kept[0]).sin(), x)
    kept[0] = 2
    return w.finish(out.sum())


@changed
def test_array_of_numpy_is_set(w: World, x: Any, y: Any) -> Any:
    kept = numpy.ones(1)
    out = again(lambda x: (w.layer(x) * float(kept[0])).sin(), x)
    kept[0] = 2
    return w.finish(out.sum())


@changed
def test_calls_are_counted_in_a_cell(w: World, x: Any, y: Any) -> Any:
    count = 0

    def f(x: Any) -> Any:
        nonlocal count
        count += 1
        return w.layer(x).sin()

    return w.finish(again(f, x).sum()), count


@changed
def test_calls_are_counted_in_an_own_list(w: World, x: Any, y: Any) -> Any:
    count = [0]

    def f(x: Any) -> Any:
        count[0] += 1
        return w.layer(x).sin()

    return w.finish(again(f, x).sum()), count


@changed
def test_calls_are_counted_by_a_method(w: World, x: Any, y: Any) -> Any:
    calls: list[int] = []
    note = calls.append

    def f(x: Any) -> Any:
        note(1)
        return w.layer(x).sin()

    return w.finish(again(f, x).sum()), calls


@changed
def test_calls_are_counted_in_an_own_object(w: World, x: Any, y: Any) -> Any:
    kept = Plain()

    def f(x: Any) -> Any:
        kept.scale += 1
        return w.layer(x).sin()

    return w.finish(again(f, x).sum()), kept.scale
