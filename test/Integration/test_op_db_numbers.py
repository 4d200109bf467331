# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch's samples again, one number of them another one at each call: what was a literal in the first
specialization becomes an input, a symbol, or a guard, and every answer has to be eager's.

Of each sample every number in turn, also those in lists (sizes of kernels, dimensions, pads) and flags. What an
operator then refuses, pyjit has to refuse. PYJIT_OPDB=full takes every operator and six samples of each; by
default (CI) an eighth of them, two samples each.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from Integration.test_op_db import FULL, NOT_COMPARABLE, op_db, same
from Integration.test_op_db_sizes import LEFT_OUT, UNCHECKED, gradients, outcome

pyjit = pytest.importorskip("pyjit", exc_type=ImportError)

SAMPLES = 6 if FULL else 2
# Of a mode that is none, memory that nobody has written.
UNDEFINED = {"grid_sampler_2d"}
OPERATORS = [
    op
    for op in op_db
    if op.supports_dtype(torch.float32, "cpu")
    and op.name not in NOT_COMPARABLE | UNCHECKED | UNDEFINED | LEFT_OUT
    and "dropout" not in op.name
    and "rrelu" not in op.name
    and "fractional_max_pool" not in op.name
][:: 1 if FULL else 8]


def others(value: Any) -> list[Any]:
    """Numbers in place of this one, first as it is."""
    if isinstance(value, bool):
        return [value, value, not value, value, not value]
    if isinstance(value, int):
        return [value, value, value + 1, value + 2, value - 1, value, 0, 1, -1, 2]
    if isinstance(value, float):
        return [value, value, value * 1.5, value + 1, -value, 0.0, 1.0, 0.5, 2.0]
    return []


# Where a number stands in (arguments, keyword arguments): the way to it.
Path = tuple[Any, ...]


def numbers_in(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from numbers_in(item, (*path, key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from numbers_in(item, (*path, index))
    elif isinstance(value, (bool, int, float)):
        yield path, value


def replaced(value: Any, path: Path, number: Any) -> Any:
    if not path:
        return number
    if isinstance(value, dict):
        return {**value, path[0]: replaced(value[path[0]], path[1:], number)}
    items = list(value)
    items[path[0]] = replaced(items[path[0]], path[1:], number)
    return items if isinstance(value, list) else tuple(items)


def samples_of(op: Any) -> list[Any]:
    """Those with numbers, of different ones first."""
    try:
        with_numbers = [
            sample
            for sample in itertools.islice(op.sample_inputs("cpu", torch.float32), 60)
            if next(numbers_in((sample.args, sample.kwargs)), None)
        ]
    except Exception as error:
        pytest.skip(f"no samples here: {error}")
    seen: dict[Any, list[Any]] = {}
    for sample in with_numbers:
        ways = tuple(path for path, _ in numbers_in((sample.args, sample.kwargs)))
        seen.setdefault(ways, []).append(sample)
    ordered = itertools.chain.from_iterable(itertools.zip_longest(*seen.values()))
    return [sample for sample in ordered if sample is not None][:SAMPLES]


# A function, its input, its arguments and its keyword arguments to what a call of it gives.
Outcome = Callable[[Any, Any, Any, Any], Any]


def same_gradients(want: list[Any], have: list[Any], what: str) -> None:
    for theirs, ours in zip(want, have, strict=True):
        assert (theirs is None) == (ours is None), what
        if theirs is not None:
            # Of one row's norm, say, they are differences of numbers a thousand times as large.
            torch.testing.assert_close(
                ours, theirs, rtol=2e-3, atol=1e-3, equal_nan=True, msg=what
            )


def compare(op: Any, outcome_of: Outcome, alike: Callable[..., None]) -> None:
    samples = samples_of(op)
    if not samples:
        pytest.skip("no numbers")
    for sample in samples:
        given = (sample.args, sample.kwargs)
        for path, value in numbers_in(given):
            # A function of its own: numbers are found to change specialization by specialization.
            def f(x: Any, *args: Any, **kwargs: Any) -> Any:
                return op.op(x, *args, **kwargs)

            fast = pyjit.compile(f)
            for number in others(value):
                args, kwargs = replaced(given, path, number)
                want = outcome_of(f, sample.input, args, kwargs)
                have = outcome_of(fast, sample.input, args, kwargs)
                where = f"{path} is {number}, {sample}"
                if isinstance(want, type) or isinstance(have, type):
                    assert want is have, where
                else:
                    alike(want, have, where)


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.full_name)
@pytest.mark.filterwarnings("ignore")
def test_numbers_change(op: Any, capfd: pytest.CaptureFixture[str]) -> None:
    with torch.no_grad():
        compare(op, lambda f, x, args, kwargs: outcome(f, x, *args, **kwargs), same)
    # What the recorder raises is a warning of PyTorch's, and the operator goes on.
    assert "RecordFunction" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "op",
    [op for op in OPERATORS if op.supports_autograd],
    ids=lambda op: op.full_name,
)
@pytest.mark.filterwarnings("ignore")
def test_gradients_while_numbers_change(
    op: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    compare(op, gradients, same_gradients)
    assert "RecordFunction" not in capfd.readouterr().err
