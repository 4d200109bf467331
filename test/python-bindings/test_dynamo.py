# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torch.compile(backend="pyjit"). Not beside the models: once Dynamo is loaded, some of them ask it
questions that the recorder does not model."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from Integration.harness import values
from torch import nn

pyjit = pytest.importorskip("pyjit", exc_type=ImportError)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    with torch.no_grad():
        yield
    torch._dynamo.reset()


def graphs() -> list[Any]:
    from pyjit._api import _engines

    return [engine for engine in _engines if engine.name == "dynamo_graph"]


def hits() -> int:
    from pyjit import _statistics

    gc.collect()  # what an earlier test made counts now or never
    return sum(_statistics.stats(engine)["hits"] for engine in graphs())


def test_is_listed() -> None:
    assert "pyjit" in torch._dynamo.list_backends()


def test_function() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + y) * 2

    fast = torch.compile(f, backend="pyjit")
    before = hits()
    for seed in range(4):
        x, y = values(64, seed=seed), values(64, seed=seed + 9)
        torch.testing.assert_close(fast(x, y), f(x, y))
    assert hits() - before == 3


def test_module_whose_weights_change() -> None:
    module = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16)).eval()
    fast = torch.compile(module, backend="pyjit")
    before = hits()
    for seed in range(4):
        x = values(3, 8, seed=seed)
        torch.testing.assert_close(fast(x), module(x))
        if seed == 2:
            module[0].weight.data.mul_(2)
    assert hits() - before == 3


def test_graph_break_and_other_shapes() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(x * 2)
        if y.sum() > 0:
            return y + 1
        return y.view(-1) - x.shape[0]

    fast = torch.compile(f, backend="pyjit")
    before = hits()
    for seed in range(3):
        for rows in (2, 3, 5, 7):
            x = values(rows, 4, seed=seed)
            torch.testing.assert_close(fast(x), f(x))
    assert hits() > before


def test_gradients_flow_in_eager() -> None:
    module = nn.Linear(4, 4)
    fast = torch.compile(module, backend="pyjit")
    with torch.enable_grad():
        fast(values(2, 4)).sum().backward()
    assert module.weight.grad is not None


def test_options() -> None:
    fast = torch.compile(
        lambda x: x * 2 + 1, backend="pyjit", options={"eager_rounding": True}
    )
    torch.testing.assert_close(fast(values(4)), values(4) * 2 + 1)
    assert any(engine.settings.eager_rounding for engine in graphs())
    with pytest.raises(Exception, match="no_such_option"):
        torch.compile(lambda x: x + 2, backend="pyjit", options={"no_such_option": 1})(
            values(4)
        )


def test_modules_made_in_a_call_once_dynamo_has_compiled() -> None:
    """Dynamo then notes every new module; transformers slice their lists of layers."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers[:2]:
                x = layer(x).relu()
            return x

    torch.compile(lambda x: x + 1, backend="eager")(values(4))
    model = Model().eval()
    fast = pyjit.compile(model)
    for seed in range(4):
        x = values(2, 4, seed=seed)
        torch.testing.assert_close(fast(x), model(x))
    stats = pyjit.stats(fast)
    assert stats["hits"] == 3, stats
    assert not stats["graph_break_sites"], stats
    sliced = pyjit.compile(lambda: model.layers[:1])
    for _ in range(3):
        assert len(sliced()) == 1


@pytest.mark.parametrize("kind", ["function", "module", "method"])
def test_stats_and_explain_of_what_torch_compile_returned(kind: str) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x).relu()

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * 3

    gc.collect()  # what an earlier test made of the same code
    original = {"function": f, "module": Net(), "method": Net().forward}[kind]
    fast = torch.compile(original, backend="pyjit")
    other = torch.compile(lambda x: x - 5, backend="pyjit")
    assert pyjit.stats(fast).graphs == 0
    assert "not called yet" in str(pyjit.explain(fast))
    for seed in range(4):
        fast(values(2, 4, seed=seed))
        other(values(2, 4, seed=seed))
    assert (pyjit.stats(fast).graphs, pyjit.stats(fast).hits) == (1, 3)
    report = pyjit.explain(fast)(values(2, 4))
    assert "as one graph" in str(report) and report.stats.hits == 3


def test_stats_of_all_parts_of_a_call_that_dynamo_broke() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(x)
        torch._dynamo.graph_break()
        return y * 2

    gc.collect()
    fast = torch.compile(f, backend="pyjit")
    for seed in range(3):
        fast(values(4, seed=seed))
    assert pyjit.stats(fast).graphs == 2 and pyjit.stats(fast).hits == 4


def test_what_torch_compile_returned_for_another_backend() -> None:
    fast = torch.compile(lambda x: x + 1, backend="eager")
    fast(values(4))
    assert pyjit.stats(fast).graphs == 0
    with pytest.raises(TypeError, match="not made by pyjit.compile"):
        pyjit.stats(lambda x: x)


def test_powers_of_negative_numbers() -> None:
    """In Python's text they need brackets, which FX leaves out."""

    def f(x: torch.Tensor, n: int) -> tuple[torch.Tensor, ...]:
        return (-1.0) ** x, (-2) ** x, 2**x, x * (-2) ** n

    fast = torch.compile(f, backend="pyjit")
    for n in range(3, 7):
        x = torch.tensor([0.0, 1.0, 2.0, 3.0, -1.0])
        torch.testing.assert_close(fast(x, n), f(x, n))
