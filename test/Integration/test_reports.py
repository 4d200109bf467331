# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What pyjit says about itself: explain, PYJIT_LOGS, and what becomes of failures."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from Integration.harness import values

pyjit = pytest.importorskip("pyjit", exc_type=ImportError)


@pytest.fixture(autouse=True)
def no_grad() -> Any:
    with torch.no_grad():
        yield


def scaled(x: torch.Tensor, k: float) -> torch.Tensor:
    return torch.relu(x + 1) * k


def logged(topic: str, capsys: Any, monkeypatch: Any) -> str:
    monkeypatch.setenv("PYJIT_LOGS", topic)
    f = pyjit.compile(scaled)
    f(values(8), 2.0)
    text = capsys.readouterr().err
    assert text.startswith(f"[pyjit:{topic}] scaled\n")
    return text


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("guards", ["TENSOR", "inputs:", "effects:", "RETURN"]),
        ("graph", ["func.func @scaled", '"aten::relu"']),
        ("fusion", ["func.func @scaled", "call @"]),
        ("kernels", ["pyjit.kernel", "linalg.generic"]),
        ("cudagraph", ["no graph: 1 kernels and 0 vendor calls"]),
        ("cache", ["specialization 1 of at most 32", "0 hits and 1 misses"]),
    ],
)
def test_logs(topic: str, words: list[str], capsys: Any, monkeypatch: Any) -> None:
    text = logged(topic, capsys, monkeypatch)
    for word in words:
        assert word in text


def test_all_logs(capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("PYJIT_LOGS", "all")
    pyjit.compile(scaled)(values(8), 2.0)
    text = capsys.readouterr().err
    for topic in ("guards", "graph", "fusion", "kernels", "cudagraph", "cache"):
        assert f"[pyjit:{topic}] scaled\n" in text


def test_no_logs(capsys: Any) -> None:
    pyjit.compile(scaled)(values(8), 2.0)
    assert not capsys.readouterr().err


def test_explain_of_a_graph() -> None:
    text = pyjit.explain(scaled)(values(8), 2.0)
    assert "1 graph(s), 0 graph break(s)" in text
    assert "1 kernels" in text
    for part in ("compiled in: frontend", "guards:", "fusion:", "kernels:", "ms"):
        assert part in text
    for stage in ("frontend", "library", "fuse", "x86", "jit", "encode"):
        assert f"{stage} " in text


def test_explain_of_a_graph_break() -> None:
    """Construct, file and line."""

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        print("here", end="")
        return y + 1

    text = pyjit.explain(f)(values(8))
    assert "test_reports.py" in text
    assert "print" in text


def broken(monkeypatch: Any) -> None:
    """A compiler that fails, as it would on a trace with a fault."""
    build = pyjit._C.build

    def build_broken(trace: pyjit._C.Trace, *rest: Any, **options: Any) -> Any:
        text = str(trace).replace('"aten::mul.Tensor"', '"aten::no_such_op"')
        return build(pyjit._C.Trace.parse(text), *rest, **options)

    monkeypatch.setattr(pyjit._C, "build", build_broken)


def test_compiler_failure_warns_once(monkeypatch: Any) -> None:
    broken(monkeypatch)
    f = pyjit.compile(scaled)
    with pytest.warns(RuntimeWarning, match="scaled runs in eager.*no_such_op"):
        assert torch.equal(f(values(8), 2.0), scaled(values(8), 2.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in (2.0, 3.0, 4.0):
            assert torch.equal(f(values(8), k), scaled(values(8), k))
    stats = pyjit.stats(f)
    assert stats["specializations"] == 0
    assert stats["hits"] == 0
    text = pyjit.explain(f)(values(8), 2.0)
    assert "pyjit's compiler failed" in text
    assert "no_such_op" in text


def test_compiler_failure_raises_when_strict(monkeypatch: Any) -> None:
    broken(monkeypatch)
    f = pyjit.compile(scaled, options={"strict": True})
    with pytest.raises(pyjit.CompileError, match="scaled: .*no_such_op") as caught:
        f(values(8), 2.0)
    line = scaled.__code__.co_firstlineno
    assert f"test_reports.py:{line}: def scaled" in str(caught.value)
    assert "what to do: please report it" in str(caught.value)


def test_launch_that_raises() -> None:
    """A vendor call's own error: eager raises it again, as itself."""

    def f(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x.scatter(0, index, 5.0) + 1

    fast, x, index = pyjit.compile(f), values(8), torch.tensor([1, 2])
    fast(x, index)
    assert torch.equal(fast(x, index), f(x, index))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="out of bounds"):
            fast(x, torch.tensor([1, 9]))
    assert torch.equal(fast(x, index), f(x, index))
    stats = pyjit.stats(fast)
    assert stats["hits"] == 2
    assert stats["eager_calls"] == 2
    assert len(stats["reasons"]) == 1
    assert stats["reasons"][0].startswith("2 call(s) of a graph raised and ran in")
    pyjit.reset()
    assert not pyjit.stats(fast)["reasons"]
