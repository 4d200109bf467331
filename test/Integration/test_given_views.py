# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results that a program computes as views of its own buffers: the caller gets the buffer where the view shows all of
it, and a copy where somebody else has it or where it is larger."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration.harness import values
from Integration.training import leaf

Tensor = torch.Tensor
PLACES: dict[str, dict[str, Any]] = {"cpu": {}, "device": {"simulated_device": True}}
for way in ("copy", "table", "update"):
    PLACES[way] = {"simulated_device": True, "launch": way}
CALLS = 5  # and more than are recorded, compared with eager and captured


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    return request.param


def compiled(f: Callable[..., Any], place: str) -> Any:
    return pyjit.compile(f, options={"strict": True, **PLACES[place]})


def launches(fast: Any) -> list[str]:
    """The launch programs of the specializations, in the order in which they are printed."""
    texts = [s.text("programs") for s in fast.specializations]
    return [p for t in texts for p in re.split(r"(?=launch: \d+ inputs)", t)[1:]]


def given(program: str) -> tuple[int, int]:
    """So many outputs are views of fresh memory, which nobody copies, and of other memory."""
    kinds = dict(re.findall(r"^ *s(\d+) = (\w+)", program, re.MULTILINE))
    bases = dict(re.findall(r"s(\d+) = view of s(\d+)", program))
    found = [0, 0]
    for slot in re.findall(r"s(\d+)", program.split("outputs:")[1].split("\n")[0]):
        if kinds[slot] != "view":
            continue
        while slot in bases:
            slot = bases[slot]
        found[kinds[slot] != "fresh"] += 1
    return found[0], found[1]


def describe(results: Any) -> list[Any]:
    """What the caller can tell of tensors' memory, and which of them share it."""
    storages = [r.untyped_storage() for r in results]
    first = [s.data_ptr() for s in storages]
    shown = [[r.shape, r.stride(), r.storage_offset(), r._version] for r in results]
    return [shown, [s.nbytes() for s in storages], [first.index(p) for p in first]]


def check(fast: Any, slow: Any, make: Callable[[int], tuple[Any, ...]]) -> None:
    """Each call's results are eager's, in memory of their own, and stay what they are."""
    kept: list[tuple[Tensor, Tensor]] = []
    for seed in range(CALLS):
        results, expected = fast(*make(seed)), slow(*make(seed))
        assert describe(results) == describe(expected)
        torch.testing.assert_close(results, expected)
        for result, wanted in zip(results, expected, strict=True):
            with torch.no_grad():
                result.add_(1)
                wanted.add_(1)
            torch.testing.assert_close(results, expected)
        kept += zip(results, expected, strict=True)
    for result, wanted in kept:
        torch.testing.assert_close(result, wanted)


def gradients_of(f: Any) -> Callable[..., Any]:
    def call(*leaves: Tensor) -> Any:
        result = f(*leaves)
        return torch.autograd.grad(result, leaves, values(*result.shape, seed=7))

    return call


def test_gradients_of_biases(place: str) -> None:
    def layers(x: Tensor, w: Tensor, b: Tensor, v: Tensor, c: Tensor) -> Tensor:
        return F.linear(torch.tanh(F.linear(x, w, b)), v, c)

    fast = compiled(layers, place)
    shapes = [(5, 4), (8, 4), (8,), (3, 8), (3,)]
    check(
        gradients_of(fast),
        gradients_of(layers),
        lambda seed: tuple(leaf(*s, seed=seed + i) for i, s in enumerate(shapes)),
    )
    _, backward = launches(fast)
    assert given(backward) == (2, 0)


def test_gradients_that_accumulate(place: str) -> None:
    """The engine keeps what the program gives as `.grad`, and adds to it."""
    made = []
    for compile in (lambda f: compiled(f, place), lambda f: f):
        b, w = leaf(6), leaf(6, 4, seed=1)
        f = compile(lambda x, w=w, b=b: F.linear(x, w, b).sin())
        seen = []
        for seed in range(2 * CALLS):
            f(values(3, 4, seed=seed)).sum().backward()
            assert b.grad is not None
            seen.append([b.grad.clone(), b.grad.untyped_storage().nbytes()])
            if seed % 3 == 2:
                b.grad = None
        made.append(seen)
    torch.testing.assert_close(*made)


def test_two_gradients_of_one_sum(place: str) -> None:
    """One of them is the buffer, of the other's shape; neither is the other one's memory."""

    def add(x: Tensor, row: Tensor, flat: Tensor) -> Tensor:
        return (x + row + flat).sin()

    fast = compiled(add, place)
    check(
        gradients_of(fast),
        gradients_of(add),
        lambda seed: (leaf(5, 4, seed=seed), leaf(1, 4), leaf(4, seed=1)),
    )


def write(x: Tensor, y: Tensor) -> list[Tensor]:
    y.add_(x)
    return [x.exp().view(-1), x.sum(0, keepdim=True).view(4)]


# And so many results that are views: of fresh memory, and of other memory.
FORWARDS: dict[
    str, tuple[Callable[..., Any], list[tuple[int, ...]], tuple[int, int]]
] = {
    "of a kernel": (lambda x: [x.exp().view(-1)], [(3, 4)], (1, 0)),
    "turned": (lambda x: [x.exp().t(), x.sin().view(2, 6)], [(3, 4)], (2, 0)),
    "reshaped": (lambda x: [(x.t() * 2).reshape(2, 6)], [(3, 4)], (1, 0)),
    "read by a call": (
        lambda x, w: [(h := x.exp()).view(-1), h @ w],
        [(3, 4), (4, 2)],
        (1, 0),
    ),
    "of a call": (lambda x, w: [(x @ w).view(-1)], [(3, 4), (4, 2)], (0, 1)),
    "einsum": (
        lambda x, w: [torch.einsum("bij,jk->bik", x, w)],
        [(2, 3, 4), (4, 5)],
        (0, 1),
    ),
    "two of one buffer": (
        lambda x: [(h := x.exp().t()).reshape(-1), h.reshape(2, 6)],
        [(3, 4)],
        (2, 0),
    ),
    "a buffer and a view": (
        lambda x: [(h := x.exp().t()).reshape(-1), h.contiguous()],
        [(3, 4)],
        (1, 0),
    ),
    "of an input": (lambda x: [x.t().reshape(-1)], [(3, 4)], (1, 0)),
    "beside a write": (write, [(3, 4), (3, 4)], (2, 0)),
    "empty": (lambda x: [x.exp().view(-1)], [(0, 4)], (1, 0)),
}


@pytest.mark.parametrize("name", FORWARDS)
def test_forward(place: str, name: str) -> None:
    f, shapes, expected = FORWARDS[name]
    fast = compiled(f, place)
    with torch.no_grad():
        check(
            fast,
            f,
            lambda seed: tuple(values(*s, seed=seed + i) for i, s in enumerate(shapes)),
        )
    assert given(launches(fast)[0]) == expected


def test_nothing_is_cloned() -> None:
    """What a vendor call made is handed over, too."""
    f = lambda x, w: torch.einsum("bij,jk->bik", x, w)
    fast = compiled(f, "cpu")
    with torch.no_grad(), torch.profiler.profile() as profile:
        for seed in range(2 * CALLS):
            fast(values(2, 3, 4, seed=seed), values(4, 5))
    assert pyjit.stats(fast)["hits"] >= CALLS
    names = [event.name for event in profile.events()]
    assert "aten::bmm" in names
    assert "aten::clone" not in names


def test_a_part_holds_what_it_shows(place: str) -> None:
    f = lambda x: [x.exp()[1], x.sin()[:2]]
    fast = compiled(f, place)
    with torch.no_grad():
        for seed in range(CALLS):
            results = fast(values(3, 4, seed=seed))
            torch.testing.assert_close(results, f(values(3, 4, seed=seed)))
    assert [r.untyped_storage().nbytes() for r in results] == [16, 32]
    assert given(launches(fast)[0]) == (0, 2)


SAVED: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "of a kernel": (lambda x: [x.exp().t().reshape(-1)], [(3, 4)]),
    "of a call": (lambda x, w: [(x @ w).tanh().t().reshape(-1)], [(3, 4), (4, 5)]),
    "kron": (lambda x, w: [torch.kron(x, w).exp()], [(3, 4), (2, 5)]),
    "group norm": (lambda x, w: [F.group_norm(x, 2, w)], [(2, 4, 5), (4,)]),
    "linear": (
        lambda x, w: [F.linear(x, w).sin(), F.linear(x, w)],
        [(2, 3, 4), (5, 4)],
    ),
}


@pytest.mark.parametrize("name", SAVED)
def test_what_is_saved_stays(place: str, name: str) -> None:
    """What the caller writes is not what the backward reads, and the other way round."""
    f, shapes = SAVED[name]
    fast = compiled(f, place)
    for seed in range(CALLS):
        outcomes = []
        for g in (fast, f):
            leaves = [leaf(*s, seed=seed + i) for i, s in enumerate(shapes)]
            results = g(*leaves)
            loss = sum((r.sin() * r).sum() for r in results)
            results[0].data.zero_()
            outcomes.append([results, torch.autograd.grad(loss, leaves)])
        torch.testing.assert_close(*outcomes)


def test_sizes_that_differ(place: str) -> None:
    def f(x: Tensor, w: Tensor) -> list[Tensor]:
        return [x.exp().view(-1), (x @ w).view(-1), x.sin().t().reshape(-1)]

    fast = compiled(f, place)
    with torch.no_grad():
        for rows in (3, 4, 5, 6, 5, 3):
            check(
                fast,
                f,
                lambda seed, rows=rows: (values(rows, 4, seed=seed), values(4, 2)),
            )
    assert pyjit.stats(fast)["specializations"] <= 2


def test_parameters_that_differ(place: str) -> None:
    """What is kept of a parameter, as a view, is no memory of the parameter's."""
    w = torch.nn.Parameter(values(1, 4), requires_grad=False)
    fast = compiled(lambda x: [x * w.exp().view(4)], place)
    with torch.no_grad():
        for seed in range(3):
            w.copy_(values(1, 4, seed=seed))
            check(
                fast,
                lambda x: [x * w.exp().view(4)],
                lambda s: (values(3, 4, seed=s),),
            )


def test_results_can_grow(place: str) -> None:
    """The storage is the caller's own, as eager's is."""
    fast = compiled(lambda x: [x.exp().view(-1)], place)
    with torch.no_grad():
        for seed in range(CALLS):
            (result,) = fast(values(3, 4, seed=seed))
            before = result.clone()
            result.resize_(16)
            assert result.untyped_storage().nbytes() == 64
            torch.testing.assert_close(result[:12], before)
