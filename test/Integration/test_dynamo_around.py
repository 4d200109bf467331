# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What torch.compile runs calls compiled functions: Dynamo sees their calls and nothing beneath."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyjit
import pytest
import torch
from Integration.harness import attempt, values
from torch import nn


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def around(f: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return torch.compile(lambda x: f(x * 2) + 1, backend="eager")


def check(f: Callable[..., torch.Tensor], sizes: tuple[int, ...], **options: bool) -> None:  # fmt: skip
    compiled = pyjit.compile(f, options={"compare_with_eager": False, **options})
    outer = around(compiled)
    for seed, size in enumerate(sizes):
        x = values(size, 4, seed=seed)
        want, have = attempt(lambda y: f(y * 2) + 1, x), attempt(outer, x)
        if isinstance(want, torch.Tensor):
            assert isinstance(have, torch.Tensor), have
            torch.testing.assert_close(have, want)
        else:
            assert type(have) is type(want) and have.type is want.type, have
    assert pyjit.stats(compiled)["hits"] > 0


def test_module() -> None:
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    with torch.no_grad():
        check(m, (2, 2, 3, 3, 5, 6))


def test_training() -> None:
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    check(m, (2, 2, 3, 3, 5, 6))


def test_graph_break_and_eager_part() -> None:
    notes: list[float] = []

    def f(x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x) * 2
        notes.append(float(y.sum().tolist()))
        return torch.cos(y) + notes[-1]

    check(f, (3, 3, 3, 3, 3))


def test_raises() -> None:
    w = values(4, 4)

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ w[: x.shape[0]])

    check(f, (4, 4, 3, 4, 3, 4))


def test_dynamo_goes_on_behind_it() -> None:
    """What is called behind the compiled function, and within it by a torch.compile of its own."""
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> Callable:
        graphs.append(graph)
        return graph.forward

    inner = torch.compile(lambda x: x.sin() + 1, backend=backend)

    def f(x: torch.Tensor) -> torch.Tensor:
        return inner(x) * 3

    compiled = pyjit.compile(f)

    def g(x: torch.Tensor) -> torch.Tensor:
        return compiled(x.exp()).cos()

    outer = torch.compile(g, backend=backend)
    for seed in range(4):
        x = values(5, seed=seed)
        want = ((x.exp().sin() + 1) * 3).cos()
        torch.testing.assert_close(outer(x), want)
    called = {node.target for graph in graphs for node in graph.graph.nodes}
    assert {"exp", "cos"} <= called, called
    assert torch._C._dynamo.eval_frame.get_eval_frame_callback() is None


def test_modules_made_in_a_process_that_dynamo_served() -> None:
    """Dynamo notes each new module by a weak reference from its first call on: a continuation may hold it."""
    around(torch.sin)(values(2, 2))
    f = pyjit.compile(lambda t: nn.Bilinear(2, 2, 1)(t, t) * 0)
    for seed in range(8):
        x = values(2, 2, seed=seed)
        torch.testing.assert_close(f(x), torch.zeros(2, 1))
    assert pyjit.stats(f).hits > 3, pyjit.explain(f)
