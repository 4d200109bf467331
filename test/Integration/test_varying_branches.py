# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Branches on data in functions whose numbers and sizes differ between calls: two calls with
different ones cost one recompilation, the others hit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import Compile, Steps, difference, tell, values
from Integration.test_speculations import checked, positive
from torch import nn

DEVICES = pytest.mark.parametrize("device", [False, True], ids=["cpu", "device"])


def check(
    f: Callable[..., Any], calls: Iterable[tuple], device: bool, **options: Any
) -> dict[str, Any]:
    """Compares calls with eager."""
    fast = pyjit.compile(f, options={"simulated_device": device, **options})
    with torch.no_grad():
        for number, arguments in enumerate(calls):
            found = difference(f(*arguments), fast(*arguments))
            assert not found, f"call {number}: {found}"
    return pyjit.stats(fast)


def one_graph(stats: dict[str, Any], *, specializations: int, misses: int) -> None:
    assert not stats["graph_break_sites"] and not stats["eager_calls"], stats
    assert (stats["specializations"], stats["misses"]) == (specializations, misses), (
        stats
    )


def padded(ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    n, length = ids.shape
    x = table[ids]
    if 0 in ids:
        x = x * (ids != 0).unsqueeze(-1)
    return x.reshape(n * length, -1).relu()


def stepped(x: torch.Tensor, step: int) -> torch.Tensor:
    y = x * step
    if torch.isnan(y).any():
        raise ValueError("not a number")
    return torch.relu(y) + (step + 1)


def either(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    else:
        y = y.neg() * x.shape[0]
    return torch.relu(y) + x


def scheduled(x: torch.Tensor, rate: float, step: int) -> tuple:
    x = x * rate if x.sum() > 0 else x + step
    return x.relu() - rate, step + 1


@DEVICES
@pytest.mark.parametrize("f", [checked, either], ids=lambda f: f.__name__)
def test_sizes(f: Callable[..., Any], device: bool) -> None:
    calls = [(positive(n, 4, seed=n),) for n in (2, 3, 5, 17, 4, 2, 9)]
    stats = check(f, calls, device)
    one_graph(stats, specializations=2, misses=2)
    assert stats["symbols"] == 1 and len(stats["speculations"]) == 1, stats


@DEVICES
def test_sizes_that_python_computes_with(device: bool) -> None:
    table = values(50, 4)
    shapes = ((2, 5), (3, 5), (5, 5), (17, 5), (4, 5))
    calls = [
        (1 + torch.arange(n * length).reshape(n, length) % 40, table)
        for n, length in shapes
    ]
    one_graph(check(padded, calls, device), specializations=2, misses=2)


@DEVICES
def test_sizes_and_either_way(device: bool) -> None:
    """Where sizes differ, each way has a specialization."""
    signs = (1, 1, 1, -1, 1, -1, -1, 1, -1, 1)
    calls = [(s * positive(2 + n, 4, seed=n),) for n, s in enumerate(signs)]
    one_graph(check(either, calls, device), specializations=3, misses=3)


def many(x: torch.Tensor) -> torch.Tensor:
    for column in range(4):
        if x[:, column].sum() > 0:
            x = x * 2
        else:
            x = x - 1
    return x


def test_more_ways_than_specializations() -> None:
    """Then they are graph breaks again."""
    calls = []
    for number in range(40):
        signs = torch.tensor([1.0 if number >> i & 1 else -1.0 for i in range(4)])
        calls.append((positive(2 + number % 5, 4, seed=number) * signs * 50,))
    stats = check(many, calls, False, max_records=32)
    assert stats["graph_break_sites"] and stats["specializations"] < 32, stats


def late(x: torch.Tensor) -> torch.Tensor:
    y = torch.tanh(x @ x.T) + 1
    if y[0, 1] > 1:
        return y * 2
    return y - x.shape[0]


def test_what_is_asked_is_work() -> None:
    """No call computes it twice: where both sides are taken, a graph break stays."""
    signs = (1, 1, 1, -1, 1, -1, -1, 1, -1, 1)
    calls = []
    for number, sign in enumerate(signs):
        x = positive(2 + number, 4, seed=number)
        x[1] *= sign
        calls.append((x,))
    one_graph(check(late, calls[:3], False), specializations=2, misses=2)
    stats = check(late, calls, False)
    assert len(stats["graph_break_sites"]) == 1 and not stats["speculations"], stats


@DEVICES
def test_a_step(device: bool) -> None:
    calls = [(values(4, 3, seed=n), n) for n in range(8)]
    one_graph(check(stepped, calls, device), specializations=2, misses=2)


@DEVICES
def test_numbers_of_the_sides(device: bool) -> None:
    """The sides were recorded in calls with other numbers."""
    signs = (1, 1, -1, 1, -1, -1, 1, -1, 1, 1)
    calls = [(s * positive(4, seed=n), 0.25 * n, n + 2) for n, s in enumerate(signs)]
    stats = check(scheduled, calls, device)
    assert not stats["graph_break_sites"] and not stats["speculations"], stats
    assert stats["branches"] and stats["misses"] == 3, stats


def test_a_number_that_one_side_looks_at() -> None:
    """Its comparisons are guards of the whole."""

    def g(x: torch.Tensor, step: int) -> torch.Tensor:
        if x.sum() > 0:
            return x * step if step < 6 else x - step
        return x + 1

    signs = (1, 1, -1, 1, -1, 1, 1, 1, -1, 1, -1, 1)
    check(g, [(s * positive(4, seed=n), n) for n, s in enumerate(signs)], False)


def test_a_counter_of_a_module() -> None:
    """What is stored in front of the branch is found behind it."""

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.step = 0
            self.linear = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.step += 1
            y = self.linear(x)
            if torch.isnan(y).any():
                raise ValueError("not a number")
            self.last = y
            return y * self.step

    torch.manual_seed(0)
    plain, module = Counting(), Counting()
    module.load_state_dict(plain.state_dict())
    fast = pyjit.compile(module)
    with torch.no_grad():
        for seed in range(7):
            x = values(3, 4, seed=seed)
            found = difference(plain(x), fast(x))
            assert not found, found
            assert module.step == plain.step
            assert torch.equal(module.last, plain.last)
    one_graph(pyjit.stats(fast), specializations=2, misses=2)


def test_a_number_behind_the_branch() -> None:
    """A place that only the rest of the call reads."""

    class Config:
        scale = 1.0

    def story(compile: Compile) -> Steps:
        config = Config()

        def g(x: torch.Tensor, config: Config) -> torch.Tensor:
            y = x + 1
            if (y > 100).any():
                raise OverflowError
            return y * config.scale + config.__dict__["n"]

        f = compile(g)
        for n in range(7):
            config.scale, config.n = 0.5 * n, n
            yield f(values(4, seed=n), config)

    tell(story, captured="late")


def test_a_size_object_that_is_carried() -> None:
    def g(x: torch.Tensor) -> torch.Tensor:
        shape = x.shape
        y = x.flatten()
        if torch.isnan(y).any():
            raise ValueError("not a number")
        return (y * 2).view(shape) + shape[0]

    calls = [(values(n, 4, seed=n),) for n in (2, 3, 5, 17, 4)]
    one_graph(check(g, calls, False), specializations=2, misses=2)


def test_a_number_that_is_passed_on_and_stored() -> None:
    def story(compile: Compile) -> Steps:
        log: list[int] = []

        def g(x: torch.Tensor, step: int, log: list) -> Any:
            next_step = step * 2 + 1
            if (x > 100).any():
                next_step = 0
            log.append(next_step)
            return x + 1, next_step

        f = compile(g)
        for n in range(6):
            yield f(values(4, seed=n) + (200 if n == 4 else 0), n, log), list(log)

    tell(story, captured="late", graph_breaks=("a branch on a tensor's data",))


@pytest.mark.parametrize("padding", ["none", "always", "sometimes"])
def test_a_transformer(padding: str) -> None:
    """Whether anything is masked is a branch on data in front of all layers."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = transformers.BertModel(
        transformers.BertConfig(
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            vocab_size=50,
            max_position_embeddings=32,
        )
    ).eval()
    fast = pyjit.compile(model)
    with torch.no_grad():
        for call, (rows, length) in enumerate(
            ((2, 8), (3, 8), (5, 8), (17, 8), (4, 11), (6, 12), (2, 8))
        ):
            ids = torch.randint(1, 50, (rows, length))
            mask = torch.ones(rows, length, dtype=torch.long)
            if padding == "always" or (padding == "sometimes" and call % 2):
                mask[0, -2:] = 0
            want = model(input_ids=ids, attention_mask=mask).last_hidden_state
            have = fast(input_ids=ids, attention_mask=mask).last_hidden_state
            torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-5)
    stats = pyjit.stats(fast)
    assert not stats["graph_break_sites"] and not stats["specialized_sizes"], stats
    # The first sizes, other rows, another length; each way at least once more.
    assert stats["specializations"] <= (3 if padding != "sometimes" else 6), stats


class Inner:
    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


class Outer:
    def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.x, self.y = x, y


class Branching(nn.Module):
    def forward(self, x: torch.Tensor, step: torch.Tensor) -> Inner:
        if (x > -100).all():
            return Inner(torch.cat([x, step]) * 2)
        return Inner(x)


class Around(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Branching()

    def forward(self, x: torch.Tensor, step: torch.Tensor) -> Outer:
        found = self.inner(x, step)
        return Outer(found.x.relu(), step + 1)


@DEVICES
def test_callers_that_share_their_code(device: bool) -> None:
    """`Module.__call__` within itself: which of its continuations belongs where, the order of recording says."""
    module = Around()

    def of_both(x: torch.Tensor, step: torch.Tensor) -> tuple:
        found = module(x, step)
        return found.x, found.y

    calls = [(torch.ones(n, 4), torch.ones(m, 4)) for n, m in [(8, 8), (8, 1), (9, 1), (10, 1), (11, 1)]]  # fmt: skip
    one_graph(check(of_both, calls, device), specializations=3, misses=3)
