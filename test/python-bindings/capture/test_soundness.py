# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What must end a capture, and what must be guarded."""

import contextvars
import functools
import random
import time
from collections import namedtuple

import pytest
import torch
from torch import nn

X = torch.ones(3)
Pair = namedtuple("Pair", "a b")
VARIABLE: contextvars.ContextVar[float] = contextvars.ContextVar("v", default=1.0)
REGISTRY = {"relu", "gelu"}


class Config:
    scale = 3.0

    def __init__(self):
        self.items = [1.0, 2.0]
        self.n = 0

    @property
    def half(self):
        return self.scale / 2


class Slotted:
    __slots__ = ("k",)

    def __init__(self):
        self.k = 4.0


def tensor_made(x):
    return x + torch.tensor([1.0, 2.0, 3.0])


ENDS = {
    "tolist": lambda x: x + x.tolist()[0],
    "numpy": lambda x: x.numpy(),
    "item": lambda x: x + round(x[0].item(), 1),
    "int": lambda x: x + int(x[0]),
    "index": lambda x: x[: x[0].long()],
    "bool": lambda x: x if x.any() else -x,
    "all_list": lambda x: x if all([x[0] > 0]) else -x,
    "in": lambda x: x if x[0] in [1.0] else -x,
    "data_ptr": lambda x: x + x.data_ptr() % 2,
    "resize": lambda x: x.clone().resize_(2),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "equal": lambda x: torch.equal(x, x + 0),
    "mixed_index": lambda x: x[[x[:1].long(), [0]][:1]],
    "print": lambda x: (print(end=""), x)[1],
    "time": lambda x: x + time.time() * 0,
    "random": lambda x: x + random.random() * 0,
    "eval": lambda x: x + eval("1"),
    "locals": lambda x: x + len(locals()),
    "class": lambda x: type("T", (), {})() and x,
    "format": lambda x: f"{x}",
    "hash": lambda x: {x: 1} and x,
    "generator": lambda x: torch.rand(3, generator=torch.Generator()) + x,
}


@pytest.mark.parametrize("name", ENDS)
def test_ends(capture, name):
    f = ENDS[name]
    if name == "class":
        assert capture(f, X.clone()).reason
        return
    t = capture(f, X.clone())
    assert t.reason and t.text == "", name
    assert "test_soundness.py" in t.reason


def test_external_iterator_ends(capture):
    source = iter([1.0, 2.0])
    t = capture(lambda x: x + next(source), X)
    assert t.reason


def test_external_generator_ends(capture):
    def count():
        n = 0
        while True:
            n += 1
            yield n

    g = count()
    next(g)
    t = capture(lambda x: x + next(g), X)
    assert t.reason
    assert torch.equal(t.result, X + 2)


def test_training_batch_norm_writes_its_statistics(capture):
    m = nn.BatchNorm1d(3)
    with torch.no_grad():
        t = capture(m, torch.randn(4, 3))
    assert not t.reason
    assert "mutates [3, 4]" in t.text


def test_nested_capture_is_refused(capture, recorder):
    inner = []

    def f(x):
        inner.append(recorder.capture(lambda y: y + 1, (x,), {}, "inner"))
        return x

    capture(f, X)
    assert "running" in inner[0][3]


def test_type_attribute_property_and_list(capture):
    def f(c, x):
        return x * c.half + sum(c.items)

    t = capture(f, Config(), X)
    assert t.reason == ""
    assert t.has('typeattr("half")', "is(")
    assert t.has('typeattr("scale")', "equals(3.0")
    assert t.has("absent", 'attr("scale")')
    assert t.has("refgraph.length", "is 2")
    assert t.has("item(1)", "equals(2.0")


def test_slots(capture):
    t = capture(lambda s, x: x * s.k, Slotted(), X)
    assert t.reason == "" and t.has('slot("k")', "equals(4.0")


def test_namedtuple(capture):
    t = capture(lambda p: Pair(p.b, p.a), Pair(X, X + 1))
    assert t.reason == "" and t.has('create "instance"')


def test_partial_and_methods(capture):
    t = capture(functools.partial(lambda k, x: x * k, 2.0), X)
    assert t.reason == "" and t.has("wrapped(2.0")
    t = capture(Config().__init__)
    assert t.reason == "" and t.has("refgraph.set", 'attr("n")')


def test_set_and_context_variable(capture):
    def f(x):
        token = VARIABLE.set(5.0)
        try:
            y = x * VARIABLE.get()
        finally:
            VARIABLE.reset(token)
        return y * VARIABLE.get() if "relu" in REGISTRY else x

    t = capture(f, X)
    assert t.reason == "" and t.has("refgraph.holds", '"relu"')
    assert t.has('field("is_set")', "equals(false)")


def test_context_variable_left_set_ends(capture):
    def f(x):
        VARIABLE.set(2.0)
        return x

    contextvars.copy_context().run(
        lambda: setattr(test_context_variable_left_set_ends, "t", capture(f, X))
    )
    assert test_context_variable_left_set_ends.t.reason


def test_constant_tensor(capture):
    t = capture(tensor_made, X)
    assert t.reason == "" and t.has("constant tensor") and "aten::clone" in t.ops


def test_mutation_and_views(capture):
    def f(x):
        y = x[1:]
        y.mul_(2.0)
        x[0] = 7.0
        return y

    t = capture(f, X.clone())
    assert t.reason == ""
    assert t.has("aten::mul_.Tensor", "mutates [0]")
    assert t.has("aten::slice.Tensor", "aliases [0]", "offsets = array<i64: 1>")


def test_overlapping_inputs_end(capture):
    def f(a, b):
        a.add_(1)
        return a * b

    x = torch.ones(4)
    t = capture(f, x[:3], x[1:])
    assert "shares memory" in t.reason


def test_writes(capture):
    def f(c, x, d, xs):
        c.last = x + 1
        c.n = c.n + 1
        d["y"] = c.last
        xs.append(c.last)
        return c.n

    t = capture(f, Config(), X, {"a": 1}, [])
    assert t.reason == ""
    assert t.has("refgraph.set", 'attr("last")')
    assert t.has("refgraph.set", 'item("y")')
    assert t.has("refgraph.append")
    assert not t.has('attr("last")', "refgraph.get")


def test_written_objects_stay_apart(capture):
    def f(a, b, x):
        a.append(x)
        return len(b)

    t = capture(f, [], [], X)
    assert t.reason == "" and t.has("refgraph.distinct")


def test_read_after_append_reads_what_was_there(capture):
    def f(a, x):
        a.append(x)
        return a[0]

    t = capture(f, [], X)
    assert t.reason == "" and t.has("refgraph.length", "is 0")


def test_shared_result(capture):
    def f(x):
        inner = [x + 1]
        return (inner, inner, {"k": inner})

    t = capture(f, X)
    assert t.reason == "" and t.text.count('create "list"') == 1


def test_module_state(capture):
    m = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).eval()
    with torch.no_grad():
        t = capture(m, torch.randn(2, 3))
    assert t.reason == ""
    assert t.has('attr("training")', "equals(false)")
    assert t.has('attr("_forward_hooks")')
    assert t.ops == ["aten::linear"]


def test_generators_and_unpacking(capture):
    def f(xs, **named):
        pairs = [(i, v) for i, (k, v) in enumerate(named.items())]
        first, *rest = xs
        return sum(v * i for i, v in pairs) + first + sum(rest)

    t = capture(f, [X, X + 1], p=2.0, q=3.0)
    assert t.reason == ""


def test_inner_no_grad(capture):
    def f(x):
        with torch.no_grad():
            return x * 2

    assert capture(f, X).reason == ""
