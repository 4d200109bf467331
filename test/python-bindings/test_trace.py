# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What Python asks of a trace."""

from __future__ import annotations

import threading

import pyjit
import pytest
import torch
from pyjit._C import (
    AccessPath,
    BuildError,
    Context,
    Trace,
    build,
    capture,
    cross_compile,
)

TENSOR = '!refgraph.tensor<[4, 4], [4, 1], f32, "cpu">'
FLAG = '!refgraph.tensor<[], [], i1, "cpu">'
# Leaves two frames: the second one with a flag of the input, one of a product, and the input.
LEAVES = f"""
refgraph.trace @f {{
  %0 = refgraph.external
  %1 = refgraph.get %0 arg(0, "x") type(1) {{requires_grad = false}} : {TENSOR}
  %2 = refgraph.tensor_op "aten::linear"(%1, %1, none) : ({TENSOR}, {TENSOR}) -> {TENSOR}
  %3 = refgraph.tensor_op "aten::relu"(%2) : ({TENSOR}) -> {TENSOR}
  %4 = refgraph.tensor_op "aten::any"(%1) : ({TENSOR}) -> {FLAG}
  %5 = refgraph.tensor_op "aten::any"(%3) : ({TENSOR}) -> {FLAG}
  %6 = refgraph.create "number" [%5] : ({FLAG}) -> !refgraph.obj<"bool">
  %7 = refgraph.create "tuple" [%2] : ({TENSOR}) -> !refgraph.obj<"tuple">
  %8 = refgraph.create "tuple" [%4, %6, %1] : ({FLAG}, !refgraph.obj<"bool">, {TENSOR}) -> !refgraph.obj<"tuple">
  %9 = refgraph.create "tuple" [%7, %8] : (!refgraph.obj<"tuple">, !refgraph.obj<"tuple">) -> !refgraph.obj<"tuple">
  refgraph.leave %9 : !refgraph.obj<"tuple">
}}
"""


def specialization(function, *args, lifted=frozenset()) -> Trace:
    run = capture(Context(), function, args, {}, "f", lifted=set(lifted))
    return run.segments[0].trace


def test_costs_nothing_of_an_input() -> None:
    assert not Trace.parse(LEAVES).is_costly(0)
    assert not Trace.parse(LEAVES).is_costly(2)


def test_costs_behind_a_matmul() -> None:
    assert Trace.parse(LEAVES).is_costly(1)


def test_costs_of_the_unknown() -> None:
    """What cannot be found is taken for work."""
    assert Trace.parse(LEAVES).is_costly(7)
    leaves_no_frames = LEAVES.replace("leave %9", "leave %4").replace(
        '%4 : !refgraph.obj<"tuple">', f"%4 : {FLAG}"
    )
    assert Trace.parse(leaves_no_frames).is_costly(0)


def test_text_is_a_serialization() -> None:
    trace = specialization(lambda x: torch.relu(x) + 1, torch.ones(3))
    again = Trace.parse(str(trace))
    assert str(again) == str(trace)
    # Of another context.
    assert not again.equals(trace)


def test_equals_but_for_locations() -> None:
    def f(x):
        return x + 1

    def g(x):
        return x * 2

    context = Context()
    x = torch.ones(3)
    runs = [capture(context, h, (x,), {}, "f") for h in (f, f, g)]
    traces = [run.segments[0].trace for run in runs]
    assert traces[0].equals(traces[1])
    assert not traces[0].equals(traces[2])


def test_sizes() -> None:
    def f(x):
        return x.reshape(x.shape[0] * 2, -1)

    fixed = specialization(f, torch.ones(4, 6))
    lifted = specialization(
        f, torch.ones(4, 6), lifted={AccessPath.of_argument(0).size(0)}
    )
    assert not fixed.lifts_sizes
    assert not fixed.computes_sizes
    assert lifted.lifts_sizes
    assert lifted.computes_sizes
    assert not lifted.decides


def test_device() -> None:
    trace = specialization(torch.relu, torch.ones(3))
    assert trace.cuda_device is None
    text = str(trace).replace('"cpu"', '"cuda:3"')
    assert Trace.parse(text).cuda_device == 3


def test_no_trace() -> None:
    with pytest.raises(ValueError, match="custom op 'hello' is unknown"):
        Trace.parse("hello")
    with pytest.raises(ValueError, match=r"holds no refgraph\.trace"):
        Trace.parse("module {}")


def test_outlives_its_context() -> None:
    context = Context()
    run = capture(context, torch.relu, (torch.ones(3),), {}, "f")
    trace = run.segments[0].trace
    del context
    with pytest.raises(BuildError, match="CUDA driver does not show|no chip"):
        cross_compile(Trace.parse(str(trace).replace('"cpu"', '"cuda:0"')), 0)
    assert "aten::relu" in str(trace)


def test_what_is_no_trace() -> None:
    with pytest.raises(TypeError, match="expected a Trace"):
        cross_compile("refgraph.trace @f {}", 90)
    with pytest.raises(TypeError, match="expected a Context"):
        capture(None, torch.relu, (torch.ones(3),), {}, "f")


def test_saved_text(tmp_path) -> None:
    path = tmp_path / "f.mlir"
    pyjit.trace(torch.relu)(torch.ones(3)).save(path)
    assert Trace.parse(path.read_text()).equals


def test_threads_share_a_context() -> None:
    """Captures and compilations of one context at the same time."""

    def f(x, k):
        return torch.softmax(x * k, -1).sum(0) + torch.relu(x[:, ::2]).mean()

    context, x, errors = Context(), torch.rand(4, 6), []
    runs = [capture(context, f, (x, k), {}, f"f{k}") for k in range(8)]

    def work(run) -> None:
        (segment,) = run.segments
        try:
            for _ in range(4):
                build(
                    segment.trace,
                    segment.objects,
                    segment.nargs,
                    None,
                    eager_rounding=False,
                    dump_dir="",
                    accelerator="",
                    specialize_sizes=False,
                    verify=True,
                    depth="fusion",
                )
                str(segment.trace)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for k in range(8):
        capture(context, f, (x, k), {}, f"g{k}")
    for thread in threads:
        thread.join()
    assert not errors
