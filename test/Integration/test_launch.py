# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Launch programs on a simulated device: the whole path without a GPU.

The same cases run on a real device in test/gpu.
"""

from __future__ import annotations

import launch_cases
import pyjit
import pytest
import torch


def compiled(f: object, **options: str) -> object:
    return pyjit.compile(
        f, options={"simulated_device": True, "strict": True, **options}
    )


def report(f: object, *args: object) -> str:
    return str(pyjit.explain(f, detail="all")(*args))


@pytest.mark.parametrize("name", launch_cases.CASES)
def test_cases(name: str) -> None:
    f, make = launch_cases.CASES[name]("cpu", torch.float32)
    launch_cases.check(compiled(f), f, make)


@pytest.mark.parametrize("launch", ["plain", "copy", "table", "update"])
@pytest.mark.parametrize("name", launch_cases.CASES)
def test_every_way(name: str, launch: str) -> None:
    f, make = launch_cases.CASES[name]("cpu", torch.float32)
    fast = compiled(f, launch=launch)
    launch_cases.check(fast, f, make)
    text = report(fast, *make())
    assert "not possible" not in text, text


def test_report_names_the_ways_and_figures() -> None:
    f, make = launch_cases.attention("cpu", torch.float32)
    fast = compiled(f)
    with torch.no_grad():
        for _ in range(launch_cases.CALLS):
            fast(*make())
        text = report(fast, *make())
    for way in (
        "plain launches",
        "graph with copies",
        "graph with a table",
        "graph with updated nodes",
    ):
        assert f"{way}: " in text, text
    assert " us" in text
    assert "cudagraph.graph" in text


class WithLoss(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.hidden, self.last = torch.nn.Linear(16, 8), torch.nn.Linear(8, 4)

    def forward(
        self, x: torch.Tensor, y: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        scores = self.last(self.hidden(x).relu())
        return torch.nn.functional.cross_entropy(scores, y), scores


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("launch", ["copy", "table", "update"])
def test_backward_is_a_graph(launch: str, both: bool) -> None:
    """That of all results, and that of the loss alone, which is another program."""
    model, plain = WithLoss(), WithLoss()
    fast = compiled(model, launch=launch)
    for seed in range(launch_cases.CALLS):
        torch.manual_seed(seed)
        x, y = torch.randn(5, 16), torch.randint(4, (5,))
        for m in (fast, plain):
            loss, scores = m(x, y)
            (loss + scores.square().sum() if both else loss).backward()
        for own, other in zip(model.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(own.grad, other.grad)
            own.grad, other.grad = None, None
    text = str(pyjit.explain(fast, detail="launch"))
    way = {
        "copy": "graph with copies",
        "table": "graph with a table",
        "update": "graph with updated nodes",
    }[launch]
    assert ("backward: launch: " if both else "backward of result 0: launch: ") in text
    captured = text[text.rindex("backward") :]
    assert f"launch: {way}\n" in captured and "graph of " in captured, captured


def test_parameter_moves() -> None:
    f, make = launch_cases.mlp("cpu", torch.float32)
    fast = compiled(f)
    with torch.no_grad():
        for _ in range(launch_cases.CALLS):
            fast(*make())
        for _ in range(3):
            f[0].weight.data = torch.randn(64, 32)
            f[3].bias.add_(1)
            args = make()
            torch.testing.assert_close(fast(*args), f(*args))
    assert pyjit.stats(fast)["specializations"] == 1


def test_random_numbers_stay_outside_of_graphs() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        a = torch.cumsum(x, 0).relu()
        b = torch.nn.functional.dropout(a, 0.5)
        return torch.cumsum(b, 0) + 1

    fast = compiled(f)
    for i in range(launch_cases.CALLS):
        x = torch.randn(8, 8)
        torch.manual_seed(i)
        want = f(x)
        after = torch.get_rng_state()
        torch.manual_seed(i)
        got = fast(x)
        torch.testing.assert_close(got, want)
        assert torch.equal(torch.get_rng_state(), after)


def test_failing_vendor_call_leaves_a_usable_process() -> None:
    table = torch.nn.Embedding(10, 4)

    def f(tokens: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(table(tokens).sin(), 0)

    fast = pyjit.compile(f, options={"simulated_device": True})
    with torch.no_grad():
        for _ in range(launch_cases.CALLS):
            tokens = torch.randint(0, 10, (6,))
            torch.testing.assert_close(fast(tokens), f(tokens))
        with pytest.raises(IndexError):
            fast(torch.full((6,), 99))
        torch.testing.assert_close(fast(tokens), f(tokens))
