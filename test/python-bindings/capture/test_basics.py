# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads, operators and results of small functions."""

import sys

import pytest
import torch
from torch import nn

SCALE = 2.0


def relu_add(a, b):
    return torch.relu(a + b) * 2


def scaled(x):
    return x * SCALE


def test_relu_add(capture):
    a, b = torch.randn(64), torch.randn(64)
    t = capture(relu_add, a, b)
    assert t.reason == ""
    assert torch.equal(t.result, relu_add(a, b))
    assert t.ops == ["aten::add.Tensor", "aten::relu", "aten::mul.Tensor"]
    assert t.has("arg(0,", "type(", "requires_grad = false")
    assert t.has('item("torch")', "is(")
    assert t.has("wrapped(2 : i64)")
    assert t.has('test_basics.py"')


def test_global_value_is_guarded(capture):
    t = capture(scaled, torch.ones(3))
    assert t.has('item("SCALE") equals(2.000000e+00 : f64)')
    assert t.has("wrapped(2.000000e+00 : f64)")


def test_mlp(capture):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    x = torch.randn(2, 8)
    with torch.no_grad():
        t = capture(model, x)
        assert t.reason == ""
        assert torch.equal(t.result, model(x))
    assert t.ops == ["aten::linear", "aten::relu", "aten::linear"]
    assert t.has('item("weight")', "param")
    assert t.has("grad_mode = false")
    assert t.has('typeattr("forward")', "is(")


def test_containers(capture):
    def f(xs, d):
        total = 0
        for x in xs:
            total = total + x
        return {"sum": total, "pair": (d["a"], [d["a"]])}

    a, b = torch.ones(2), torch.ones(2)
    t = capture(f, [a, b], {"a": a})
    assert t.reason == ""
    assert t.has("refgraph.length", "is 2")
    assert t.has('item("a")')
    assert t.has("refgraph.same")
    assert t.has('create "dict"')


def test_absent_key(capture):
    def f(x, d):
        return x + d.get("bias", 1.0)

    t = capture(f, torch.ones(2), {})
    assert t.reason == "" and t.has("refgraph.absent", 'item("bias")')


def test_closure_and_defaults(capture):
    k = 3

    def f(x, y=1.5):
        def g(z):
            return z * k + y

        return g(x)

    t = capture(f, torch.ones(2))
    assert t.reason == ""
    assert t.has("cell(0", "equals(3)")


def test_exception_passes_through(capture):
    def f(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        capture(f, torch.ones(2))
    assert sys.monitoring.get_tool(5) is None


def test_caught_exception(capture):
    def f(x, d):
        try:
            return d["missing"]
        except KeyError:
            return x + 1

    t = capture(f, torch.ones(2), {})
    assert t.reason == "" and t.has("absent", 'item("missing")')


def test_unknown_native_ends(capture):
    import zlib

    def f(x):
        return x + zlib.crc32(b"abc")

    x = torch.ones(2)
    t = capture(f, x)
    assert "crc32" in t.reason and "test_basics.py" in t.reason
    assert t.text == "" and torch.equal(t.result, f(x))


def test_data_dependent_branch_ends(capture):
    def f(x):
        return x + 1 if x.sum() > 0 else x - 1

    t = capture(f, torch.ones(2))
    assert "branch" in t.reason and torch.equal(t.result, torch.ones(2) + 1)


def test_item_is_a_number_of_the_graph(capture):
    t = capture(lambda x: x * x.sum().item(), torch.ones(2))
    assert not t.reason
    assert "f64" in t.text and "wrapped(%" in t.text


def test_item_that_python_looks_into_ends(capture):
    t = capture(lambda x: x * round(x.sum().item()), torch.ones(2))
    assert t.reason and t.text == ""


def test_constant_tensor_data_may_flow(capture):
    def f(x):
        n = torch.arange(4).sum().item()
        return x + n

    t = capture(f, torch.ones(2))
    assert t.reason == "" and t.has("wrapped(6 : i64)")


def test_requires_grad(capture):
    t = capture(relu_add, torch.ones(2, requires_grad=True), torch.ones(2))
    assert t.reason == "" and t.has("refgraph.differentiable")
    assert not t.has("no_grad}")


def test_gradients_end(capture):
    t = capture(lambda x: (x.detach(), x > 0, x * 2), torch.ones(2, requires_grad=True))
    assert t.reason == "" and t.has("refgraph.differentiable")
    assert t.text.count("{no_grad}") == 2


def test_monitoring_is_off_afterwards(capture):
    capture(relu_add, torch.ones(2), torch.ones(2))
    assert sys.monitoring.get_tool(5) is None
