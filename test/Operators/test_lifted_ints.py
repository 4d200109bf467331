# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ints of PyTorch's functions that differ between calls and are now negative, now zero, now positive.

Each place of an aten schema that takes an int (`int`, `SymInt`, `Scalar`, or lists of such) is given
an expression of the call's `n`, which is lifted: `-n` and `n - 4` are numbers as often as sizes. Every
answer has to be eager's, exceptions included, and no launch may raise where eager does not: such a
call is answered, but none of its kind is ever answered by a graph.

PYJIT_OPERATORS=full takes every overload and four calls of each, some eight minutes on one core; by default an eighth.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration.harness import Raised, attempt, difference, snapshot
from Operators.calls import (
    FULL,
    Call,
    function,
    sample_calls,
    table,
)
from Operators.cases import copied

INTS = {"int", "SymInt", "number", "List[int]", "List[SymInt]", "Optional[int]",
        "Optional[SymInt]", "Optional[number]", "Optional[List[int]]"}  # fmt: skip
EXPRESSIONS: dict[str, tuple[Callable[[int], int], Callable[[int], int]]] = {
    # What a place holds, and its inverse.
    "-n": (lambda n: -n, lambda value: -value),
    "n - 4": (lambda n: n - 4, lambda value: value + 4),
}
SMALL = 40  # larger ones are no numbers of a small tensor
# Overloads whose answers tell nothing, and why.
LEFT_OUT = {
    "fractional_max_pool2d": "users' spelling draws random samples",
    "fractional_max_pool3d": "users' spelling draws random samples",
    "grid_sampler_2d": "numbers that are no mode leave memory as it was",
    "grid_sampler_3d": "numbers that are no mode leave memory as it was",
    "group_norm": "groups of one element are not eager's (docs/decisions/2026-11-22-operator-conformance.md)",
}
NAMES = [
    name
    for name in table()
    if any(str(a.type) in INTS for a in function(name)._schema.arguments)
    # What nobody calls by itself checks less: some of it ends the process.
    and not name.startswith("_")
    and torch.Tag.nondeterministic_seeded not in function(name).tags
    and name not in LEFT_OUT
    and "empty" not in name
    and "resize" not in name
]
TAKEN = NAMES if FULL else NAMES[::8]


@cache
def calls() -> dict[str, list[Call]]:
    """Of PyTorch's samples, and some by hand: eager itself crashes in some that the schema makes up."""
    return sample_calls(TAKEN, by_schema=False)


def spelling(name: str) -> Callable[..., Any] | None:
    """What users write for an overload."""
    base = name.split(".")[0]
    for owner in (torch, torch.Tensor, F, torch.linalg, torch.special, torch.fft):
        short = base.removeprefix("linalg_").removeprefix("special_")
        for spelled in (base, short.removeprefix("fft_")):
            if callable(found := getattr(owner, spelled, None)):
                return found
    return None


def places(call: Call) -> Iterator[tuple[int, int | None]]:
    """Positional arguments, and elements of those that are lists, that are small ints by the schema."""
    kinds = [str(a.type) for a in function(call.overload)._schema.arguments]
    for i, (kind, value) in enumerate(zip(kinds, call.args, strict=False)):
        if kind not in INTS:
            continue
        several = isinstance(value, (list, tuple))
        for k, item in enumerate(value if several else [value]):
            if type(item) is int and abs(item) <= SMALL:
                yield i, k if several else None


def program(
    spelled: Callable[..., Any], call: Call, place: Any, kind: str
) -> Callable[..., Any]:
    """A function of its own: numbers are found to differ specialization by specialization."""
    holds, kwargs = EXPRESSIONS[kind][0], call.kwargs
    i, k = place

    def alone(n: int, *args: Any) -> Any:
        return spelled(*args[:i], holds(n), *args[i + 1 :], **kwargs)

    def listed(n: int, *args: Any) -> Any:
        numbers = [*args[i][:k], holds(n), *args[i][k + 1 :]]
        return spelled(*args[:i], numbers, *args[i + 1 :], **kwargs)

    return alone if k is None else listed


def is_taken(f: Callable[..., Any], n: int, call: Call) -> bool:
    """Whether eager answers."""
    found = attempt(f, n, *copied(call.args))
    return isinstance(found, (torch.Tensor, tuple, list))


def compare(f: Any, fast: Any, numbers: list[int], call: Call, what: str) -> None:
    for n in numbers:
        want = attempt(f, n, *copied(call.args))
        have = attempt(fast, n, *copied(call.args))
        # Texts name threads' finds, and frames.
        if isinstance(want, Raised) and isinstance(have, Raised):
            assert want.type is have.type, f"{what}, n = {n}: {want}, {have}"
            continue
        found = difference(snapshot(want), snapshot(have))
        assert found is None, f"{what}, n = {n}: {found}"


def check(f: Callable[..., Any], call: Call, place: Any, kind: str) -> bool:
    """Of numbers that eager takes, and then of the others, too; False where it takes not even the sample's."""
    i, k = place
    first = EXPRESSIONS[kind][1](call.args[i] if k is None else call.args[i][k])
    if not is_taken(f, first, call):
        return False
    tried = [first, *(n for n in (3, 5, 2, 4, 6, 1, 0, -1, -2, -3, -5) if n != first)]
    taken = [n for n in tried if is_taken(f, n, call)]
    what = f"{call} at {place}, {kind}"
    fast = pyjit.compile(f)
    compare(f, fast, [*taken, *reversed(taken)], call, what)
    stats = pyjit.stats(fast)
    told = stats["reasons"] + stats["fixed_sizes"]
    raised = [line for line in told if "raised" in line]
    assert not raised, f"{what}: {raised}"
    refused = [n for n in tried if n not in taken]
    compare(f, fast, [*refused, *taken, *refused], call, what)
    return True


@pytest.mark.parametrize("name", TAKEN)
def test_ints_that_differ(name: str) -> None:
    spelled = spelling(name)
    if spelled is None or not calls().get(name):
        pytest.skip("nobody spells it, or no call is known")
    tested = 0
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in calls()[name][: 4 if FULL else 2]:
            for place, kind in itertools.product(places(call), EXPRESSIONS):
                f = program(spelled, call, place, kind)
                tested += check(f, call, place, kind)
    if not tested:
        pytest.skip("no place holds a small int, or it is spelled another way")
