# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers that Python gets of tensors' data are computed in the specialization; uses that it cannot compute
are graph breaks, as they were. What comes out is what eager gives, bit by bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import ANY, Compile, Steps, attempt, scenario, tell, values


def one_graph(story: Callable[[Compile], Steps]) -> Callable[[], None]:
    """The story is told without a graph break."""

    def test() -> None:
        made: list[Any] = []

        def told(compile: Compile) -> Steps:
            def remember(f: Any, **options: Any) -> Any:
                made.append(compile(f, **options))
                return made[-1]

            yield from story(remember)

        tell(told, graph_breaks=ANY, captured="late")
        found = [pyjit.stats(f) for f in made if hasattr(f, "engine")]
        assert found and not any(s["graph_break_sites"] for s in found), found
        assert all(s["hits"] for s in found), found

    test.__name__ = story.__name__
    return test


def doubles(seed: int) -> torch.Tensor:
    return values(4, seed=seed).double() * 3.7


@one_graph
def test_results(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> dict[str, Any]:
        return {
            "float": x[0].item(),
            "single": x.float()[1].item(),
            "half": x.half()[2].item(),
            "int": x.long()[0].item(),
            "small": x.int()[1].item(),
            "whole": float(x[3]),
            "of one": x[2:3].item(),
            "count": int((x > 0)[1]),
            "y": x * 2,
        }

    f = compile(g)
    for seed in range(6):
        yield f(doubles(seed))


@one_graph
def test_arithmetic_is_python_s(compile: Compile) -> Steps:
    def g(x: torch.Tensor, s: float) -> Any:
        a, b, n = x[0].item(), float(x[1]), x.int()[2].item()
        return (
            a * b + 0.1,
            (a - b) * 3 / 7,
            -a + s,
            abs(b) * 1e300,
            n + 2,
            n * 3 - 1,
            -n,
            n + a,
            float(n) / 3,
            2 - a,
        )

    f = compile(g)
    for seed in range(40):
        yield f(doubles(seed), 0.1)
    for special in (math.inf, -math.inf, math.nan, -0.0, 5e-324, 1.7e308):
        yield f(torch.tensor([special, 2.0, 1.0, 0.0], dtype=torch.float64), 0.1)
        yield f(torch.tensor([2.0, special, -1.0, 0.0], dtype=torch.float64), 0.1)


@one_graph
def test_numbers_in_operators(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> Any:
        s, n = x.sum().item(), (x > 0).sum().item()
        return x * s, x + n, x.clamp(max=s), torch.where(x > s, x, x * n)

    f = compile(g)
    for seed in range(6):
        yield f(doubles(seed).round())


@one_graph
def test_both_sides_of_branches(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        if x[0].item() > 0.5:
            x = x * 2
        if bool((x[1:3] > 0).all()):
            x = x - 1
        if not (x[3] < 0).item():
            x = x.abs()
        return x + 1

    f = compile(g)
    with torch.no_grad():
        for _ in range(3):
            for seed in range(8):
                f(doubles(seed))
    if hasattr(f, "engine"):
        assert pyjit.stats(f)["branches"] >= 3
    for seed in range(8):
        yield f(doubles(seed))


@scenario(captured="late", graph_breaks=ANY)
def test_written_after_it_was_read(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> Any:
        before = x[0].item()
        x.add_(1)
        return before, x[0].item(), x

    f = compile(g)
    for seed in range(4):
        yield f(doubles(seed))


@scenario(captured="late", graph_breaks=ANY)
def test_uses_that_are_not_computed(compile: Compile) -> Steps:
    def g(x: torch.Tensor, table: dict[int, str]) -> Any:
        v, n = x[0].item(), int(x.long()[1])
        return (
            f"{v:.3f}",
            round(v, 2),
            math.floor(v),
            str(n),
            table.get(n, "none"),
            list(range(abs(n))),
            [1, 2, 3][n % 3],
            x[: abs(n) % 3],
            v > 0,
            divmod(v, 1.5),
            n**2,
            v**2,
            hash(v) == hash(x[0].item()),
        )

    f = compile(g)
    for seed in range(8):
        yield f(doubles(seed), {0: "zero", 1: "one"})


@scenario(captured="late", graph_breaks=ANY)
def test_exceptions(compile: Compile) -> Steps:
    f = compile(lambda x: 1 / x[0].item())
    g = compile(lambda x: int(x[0].item()))
    h = compile(lambda x: x.item())
    for number in (1.0, 2.0, 0.0, 4.0, math.nan, math.inf, 3.0):
        x = torch.tensor([number, 1.0])
        yield attempt(f, x), attempt(g, x), attempt(h, x), attempt(h, x[:1])


@scenario(captured="late", graph_breaks=ANY)
def test_large_ints(compile: Compile) -> Steps:
    def g(n: torch.Tensor) -> Any:
        k = n.item()
        return k, k > 2**53, k + 1, k * 2, k == 2.0**62

    f = compile(g)
    for k in (1, 2**53, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 5):
        yield f(torch.tensor(k))


@scenario(captured="late", graph_breaks=ANY)
def test_identity_and_types(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> Any:
        v = x[0].item()
        b = (x > 0).any().item()
        return v, type(v), type(b), isinstance(b, bool), b is True, [v, v], b

    f = compile(g)
    for seed in range(4):
        yield f(doubles(seed))


@scenario(captured="late", graph_breaks=ANY)
def test_through_a_graph_break_and_attributes(compile: Compile) -> Steps:
    class Log:
        total = 0.0
        steps = 0

    log = Log()

    def g(x: torch.Tensor) -> Any:
        loss = x.mean().item()
        log.total += loss
        log.steps += 1
        print(end="")
        return x * loss, loss

    f = compile(g)
    for seed in range(6):
        yield f(doubles(seed))
        yield log.total, log.steps


def counted(n: int, x: torch.Tensor, tol: float) -> Any:
    it, total = 0, 0.0
    while it < n and x.abs().max().item() > tol:
        x = x * 0.5
        total += 0.1
        it += 1
    return x, it, total


@pytest.mark.parametrize("first", [0, 1, 3, 9])
def test_a_counted_loop(first: int) -> None:
    f = pyjit.compile(counted)
    with torch.no_grad():
        for n, scale in ((first, 100.0), (50, 1e4), (7, 1e9), (0, 1.0), (50, 3e5), (3, 1e9), (50, 1e-9)) * 3:  # fmt: skip
            x = doubles(1) * scale
            want, have = counted(n, x, 1e-3), f(n, x, 1e-3)
            assert torch.equal(want[0], have[0]) and want[1:] == have[1:]
    assert pyjit.stats(f)["loops"] >= 1


def test_a_counter_near_the_end_of_machine_ints() -> None:
    """What leaves the ints that a specialization computes exactly is Python's."""

    def g(x: torch.Tensor, k: int, step: int) -> Any:
        while x.abs().max() > 1e-3:
            x = x * 0.5
            k = k + step
        return x, k

    f = pyjit.compile(g)
    with torch.no_grad():
        for k, step in ((0, 1), (5, 2), (2**53 - 3, 1), (2**62, 2**61), (-(2**53), -7), (2**63 - 1, 1)):  # fmt: skip
            for scale in (1.0, 1e3):
                x = doubles(2) * scale
                want, have = g(x, k, step), f(x, k, step)
                assert torch.equal(want[0], have[0]) and want[1] == have[1]
    assert pyjit.stats(f)["loops"] >= 1


def test_two_tests_of_data_are_one_loop() -> None:
    def g(x: torch.Tensor) -> Any:
        it = 0
        while it < 40 and x.norm() > 1e-2 and not (x > 1e6).any():
            x = x * 0.5
            it += 1
        return x, it

    f = pyjit.compile(g)
    with torch.no_grad():
        for scale in (100.0, 1e4, 1.0, 1e8, 1e5, 1e-5):
            x = doubles(3) * scale
            want, have = g(x), f(x)
            assert torch.equal(want[0], have[0]) and want[1] == have[1]
    assert pyjit.stats(f)["loops"] >= 1


@one_graph
def test_sums_of_numbers(compile: Compile) -> Steps:
    """sum() starts from an int; more than two floats it adds with their rounding errors kept."""

    def g(x: torch.Tensor, y: torch.Tensor, k: float) -> Any:
        return (
            sum(t.item() for t in (x.sum(), y.sum())),
            sum([x.mean().item(), 3]),
            sum(((x > 0).sum().item(), (y > 0).sum().item(), 2)),
            sum(n.item() for n in (x.long()[0].int(), x.int()[1], x.int()[2])),
            sum((k, 1, 2)),
            sum([1, k, 0.1]),
        )

    f = compile(g)
    for seed in range(12):
        yield f(doubles(seed), doubles(seed + 50), 0.1 * seed)
    for special in (math.inf, math.nan, -0.0, 5e-324):
        yield f(torch.tensor([special, 2.0, 1.0, 0.0]).double(), doubles(1), special)


@scenario(captured=False, graph_breaks=ANY)
def test_sums_that_keep_what_is_rounded_off(compile: Compile) -> Steps:
    f = compile(lambda x: sum(v.item() for v in x))
    g = compile(lambda x, k: sum([k, x[0].item(), x[1].item(), 1]))
    for seed in range(8):
        x = doubles(seed) * torch.tensor([1e16, 1.0, -1e16, 1.0], dtype=torch.float64)
        yield f(x), g(x, 1e16 + seed)


@one_graph
def test_ratios(compile: Compile) -> Steps:
    """A divisor that is a number of the call is guarded to be none of zero."""
    seen = {"right": 0, "all": 0}

    def g(x: torch.Tensor) -> Any:
        seen["right"] += (x > 0).sum().item()
        seen["all"] += x.numel()
        return (
            seen["right"] / seen["all"],
            x.sum().item() / seen["all"],
            1 / seen["all"],
        )

    f = compile(g)
    for seed in range(8):
        yield [f(doubles(seed)), dict(seen)]


@scenario(captured="late", graph_breaks=ANY)
def test_a_divisor_becomes_zero(compile: Compile) -> Steps:
    f = compile(lambda x, n: x.sum().item() / n)
    for seed, n in enumerate([3, 4, 5, 6, 0, 7, -2, 0.0, 0.5]):
        yield attempt(f, doubles(seed), n)


@one_graph
def test_kinds_of_numbers(compile: Compile) -> Steps:
    def g(x: torch.Tensor, k: float) -> Any:
        if not math.isfinite(k):
            return x * 3
        if math.isnan(x[0].item()):
            return x * 5
        return x + k

    f = compile(g)
    with torch.no_grad():
        for kind in (1.0, math.nan) * 4:
            f(doubles(0) * kind, 0.5)
    for seed, kind in enumerate([1.0, 1.0, math.nan, math.inf, 1.0, math.nan, 0.0]):
        yield f(doubles(seed) * kind, 1.5 + seed)
    for k in (math.inf, -math.inf, math.nan, 1e308, 5e-324, 2.0):
        yield f(doubles(0), k)


@scenario(graph_breaks=ANY, captured="late")
def test_number_in_a_tuple_behind_a_graph_break_is_looked_at(compile: Compile) -> Steps:
    """It is followed in the tuple, and fixed where native code counts it."""

    def g(x: torch.Tensor, s: float) -> tuple[Any, ...]:
        w, k, m = s, (x > 0).sum().item(), 3
        if w < 0.3:
            m = [m, k, 1, w].count(k)
            return x * (m % 3), m
        return x, k

    f = compile(g)
    for number, s in ((2, 0.25), (1, 0.75), (3, -1.5), (3, 0.25), (2, 0.75), (1, -1.5), (2, 0.25), (3, 0.25)):  # fmt: skip
        x = torch.tensor([1.0, 2.0, 3.0, 4.0]) - number
        yield f(-x, s)
