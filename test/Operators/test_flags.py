# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Flags where PyTorch's functions take numbers: `True` is 1 and `False` is 0, in results and in gradients.

Each number among the arguments of PyTorch's samples (op_db; calls of the operator table's overloads) is replaced by a
flag wherever eager takes one: in a program that holds it, and in one that is given now a flag, now a number. Flags are
replaced by 1 and 0 likewise. Results and gradients are eager's, element types included.

PYJIT_OPERATORS=full takes every operator and all samples that say something new; by default an eighth, two of each.
"""

from __future__ import annotations

import itertools
import math
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import module_of
from Operators.calls import function, sample_calls, table
from Operators.differentiating import assert_equal, leaves, run, tensors
from Operators.test_gradients import COLUMN, op_db

FULL = os.environ.get("PYJIT_OPERATORS", "") == "full"
MOST = 6 if FULL else 2  # samples of an operator and element type
PART = 1 if FULL else 8
ELEMENTS = 2000  # in a sample, at most
GROUP = 12  # calls in a program
DTYPES = (torch.float64, torch.int64)

Path = tuple[Any, ...]


@dataclass
class Sample:
    """A call that eager takes."""

    call: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def shape(self) -> str:
        """What the arguments are but for their values."""
        return str(kinds([self.args, self.kwargs]))

    def number(self, path: Path) -> Any:
        value: Any = [self.args, self.kwargs]
        for key in path:
            value = value[key]
        return value

    def answer(self, path: Path, number: Any) -> Any:
        """What eager says with another number at a place; None where it raises."""
        args, kwargs = replaced([self.args, self.kwargs], path, number)
        try:
            return run(self.call, (args, kwargs))
        except Exception:
            return None


def kinds(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.dtype, value.dim()
    if isinstance(value, dict):
        return {key: kinds(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [kinds(item) for item in value]
    return value if isinstance(value, str) else type(value)


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Where numbers and flags are: positions and names, from outside in."""
    if type(value) in (bool, int, float):
        yield path
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif type(value) in (tuple, list, torch.Size):
        for i, item in enumerate(value):
            yield from places(item, (*path, i))


def replaced(value: Any, path: Path, number: Any) -> Any:
    if not path:
        return number
    key, rest = path[0], path[1:]
    if isinstance(value, dict):
        return {**value, key: replaced(value[key], rest, number)}
    items = [*value[:key], replaced(value[key], rest, number), *value[key + 1 :]]
    return tuple(items) if isinstance(value, tuple) else items


@dataclass
class Given:
    """A sample with what stands at one place: one number, or another in each call."""

    name: str
    sample: Sample
    path: Path
    numbers: list[Any]

    def __str__(self) -> str:
        where = "".join(f"[{key!r}]" for key in self.path[1:])
        args = kinds(self.sample.args), self.sample.kwargs
        return f"{self.name}{args}, {where} = {', '.join(map(repr, self.numbers))}"


@dataclass
class Program:
    """Several calls, the numbers in its source or given to it."""

    calls: list[Given]
    tensors: list[torch.Tensor] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)

    def source(self) -> str:
        lines = ["def f(t, n):"]
        for i, given in enumerate(self.calls):
            told = [given.sample.args, given.sample.kwargs]
            number = repr(given.numbers[0]) if len(given.numbers) == 1 else f"n[{i}]"
            args = [
                self.text(v, (0, k), given.path, number) for k, v in enumerate(told[0])
            ]
            args += [
                f"{k}={self.text(v, (1, k), given.path, number)}"
                for k, v in told[1].items()
            ]
            self.constants[f"f{i}"] = given.sample.call
            lines.append(f"    r{i} = f{i}({', '.join(args)})")
        lines.append(
            f"    return [{', '.join(f'r{i}' for i in range(len(self.calls)))}]"
        )
        return "\n".join(lines)

    def text(self, value: Any, path: Path, place: Path, number: str) -> str:
        if path == place:
            return number
        if isinstance(value, torch.Tensor):
            self.tensors.append(value)
            return f"t[{len(self.tensors) - 1}]"
        if type(value) in (list, tuple, torch.Size):
            items = [
                self.text(v, (*path, i), place, number) for i, v in enumerate(value)
            ]
            return (
                f"({''.join(item + ', ' for item in items)})"
                if isinstance(value, tuple)
                else f"[{', '.join(items)}]"
            )
        if type(value) is dict:
            items = [
                f"{k!r}: {self.text(v, (*path, k), place, number)}"
                for k, v in value.items()
            ]
            return f"{{{', '.join(items)}}}"
        if (
            value is None
            or type(value) in (bool, int, str)
            or (type(value) is float and math.isfinite(value))
        ):
            return repr(value)
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def function(self) -> Callable[..., Any]:
        module = module_of(self.source())
        vars(module).update(self.constants)
        return module.f


def check(calls: list[Given], wrong: list[str]) -> int:
    """Compares a program of these calls with eager; one at a time where it differs or is not one graph. Says how many were
    compared with a graph's answer."""
    program = Program(calls)
    f = program.function()
    fast = pyjit.compile(f)
    turns = max(3, *(len(given.numbers) for given in calls))
    for turn in range(turns):
        numbers = [given.numbers[turn % len(given.numbers)] for given in calls]
        what = f"call {turn}"
        try:
            want, ours, _ = run(f, ((program.tensors, numbers), {}))
        except Exception as error:
            if len(calls) > 1:
                return sum(check([given], wrong) for given in calls)
            wrong.append(f"{calls[0]}, {what}: eager raises {error}")
            return 0
        try:
            have, mine, _ = run(fast, ((program.tensors, numbers), {}))
            assert [(a.dtype, a.requires_grad) for a in want] == [
                (b.dtype, b.requires_grad) for b in have
            ]
            assert_equal(want, have, f"{what}, outputs")
            assert_equal(ours, mine, f"{what}, gradients")
        except Exception as error:
            if len(calls) > 1:
                return sum(check([given], wrong) for given in calls)
            text = str(error) if isinstance(error, AssertionError) else repr(error)
            wrong.append(f"{calls[0]}, {what}: {text}")
            return 0
    stats = pyjit.stats(fast)
    if stats["hits"] and not stats["graph_breaks"]:
        return len(calls)
    return sum(check([given], wrong) for given in calls) if len(calls) > 1 else 0


def alternatives(name: str, sample: Sample) -> Iterator[Given]:
    """The sample with flags for numbers, and numbers for flags, that eager takes and has one answer to."""
    for path in places([sample.args, sample.kwargs]):
        own = sample.number(path)
        others = [True, False] if type(own) is not bool else [1, 0]
        tried = [*others, own, 1, 1.0, 2, 0, 0.0]
        taken = {repr(n): n for n in tried if agrees(sample, path, n)}
        for number in others:
            if repr(number) in taken:
                yield Given(name, sample, path, [number])
        if any(repr(number) in taken for number in others):
            order = [
                others[0],
                own,
                others[1],
                others[0],
                1,
                others[0],
                1.0,
                others[1],
                2,
                0,
                others[0],
                0.0,
                own,
            ]
            turns = [n for n in order if repr(n) in taken]
            yield Given(name, sample, path, turns)


def agrees(sample: Sample, path: Path, number: Any) -> bool:
    """Whether eager gives one answer twice."""
    first, second = (sample.answer(path, number) for _ in range(2))
    if first is None or second is None:
        return False
    try:
        assert_equal(first[0], second[0], "")
        assert_equal(first[1], second[1], "")
    except AssertionError:
        return False
    return True


def chosen(found: Iterator[Sample]) -> list[Sample]:
    """Some that differ in more than values."""
    kept: dict[str, Sample] = {}
    for sample in itertools.islice(found, 60):
        told = [sample.args, sample.kwargs]
        if sum(t.numel() for t in tensors(told)) <= ELEMENTS and any(
            True for _ in places(told)
        ):
            kept.setdefault(sample.shape(), sample)
    several = list(kept.values())
    return several[:: -(-len(several) // MOST)] if several else []


def compare(name: str, samples: list[Sample]) -> None:
    wrong: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every = [given for sample in samples for given in alternatives(name, sample)]
        if not every:
            pytest.skip("eager takes no flag for a number")
        for differ in (False, True):
            alike = [given for given in every if (len(given.numbers) > 1) == differ]
            for some in itertools.batched(alike, GROUP):
                check(list(some), wrong)
    assert not wrong, f"{len(wrong)} of {len(every)}:\n" + "\n".join(wrong[:12])


OPERATORS = [
    op
    for op in op_db
    # What nobody has filled has no values.
    if not op.name.startswith(("_refs", "sparse.")) and "empty" not in op.name
]


@pytest.mark.parametrize("op", OPERATORS[::PART], ids=lambda op: op.full_name)
def test_functions(op: Any) -> None:
    found: list[Sample] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in DTYPES:
            if dtype in op.dtypes:
                grad = op.supports_autograd and dtype.is_floating_point
                drawn = op.sample_inputs("cpu", dtype, requires_grad=grad)
                found += chosen(
                    Sample(op.op, (s.input, *s.args), s.kwargs) for s in drawn
                )
    compare(op.full_name, found)


OVERLOADS = sorted(
    name for name in table() if "empty" not in name and "resize" not in name
)


@pytest.mark.parametrize("name", OVERLOADS[::PART])
def test_overloads(name: str) -> None:
    found = sample_calls([name], by_schema=False).get(name, [])
    samples = []
    for call in found:
        args, kwargs = leaves((call.args, call.kwargs))
        for t in tensors([args, kwargs]):
            t.requires_grad_(name in COLUMN and t.is_floating_point())
        samples.append(Sample(function(name), args, kwargs))
    compare(name, chosen(iter(samples)))
