# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``pyjit.bisect``: which part of the compiler gives another answer than eager PyTorch."""

from __future__ import annotations

import copy
import math
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree

from pyjit._api import compile as compile_function
from pyjit._errors import CompileError
from pyjit._settings import DEPTHS

# The first call is recorded, and eager's; one more may be recorded for what the first has changed.
CALLS = 4
# What each depth adds to the one before: the part that is wrong where its answer is the first to differ.
ADDS = {
    "operators": "capture, guards, functionalization and differentiation: the stage frontend",
    "library": "planned vendor calls and prepared parameters: the stage library",
    "kernels": "operators as kernels, one by one: convert-tssa-to-linalg, and the stage x86 or ptx",
    "fusion": "operators that share kernels and write in place: the stage fuse",
}


@dataclass(frozen=True)
class Difference:
    """One part of an answer that is not eager's: ``call 2: result['loss']: off by 3.0e-01 ...``."""

    call: int
    where: str
    what: str

    def __str__(self) -> str:
        return f"call {self.call}: {self.where}: {self.what}"


@dataclass(frozen=True)
class Bisection:
    """What ``bisect`` found. ``depth`` is the first that differs from eager, or None."""

    depth: str | None
    differences: dict[str, list[Difference]] = field(default_factory=dict)
    """Of each depth that ran."""

    @property
    def what(self) -> str:
        """The part of the compiler that the depth adds."""
        return ADDS[self.depth] if self.depth else ""

    def __str__(self) -> str:
        if not self.depth:
            return "the answers at each depth are eager's, within the tolerance"
        lines = [f"wrong from depth {self.depth!r} on: {self.what}"]
        for depth, found in self.differences.items():
            told = "as eager" if not found else f"{len(found)} difference(s)"
            lines.append(f"  {depth}: {told}")
            lines += [f"    {difference}" for difference in found[:4]]
        lines.append(
            f"  next: PYJIT_DUMP_DIR=dumps, options={{'depth': {self.depth!r}}}, docs/WrongAnswers.md"
        )
        return "\n".join(lines)


def bisect(
    fn: Callable,
    *args: Any,
    options: dict[str, Any] | None = None,
    tolerance: float | None = None,
    **kwargs: Any,
) -> Bisection:
    """Calls ``fn(*args, **kwargs)`` in eager and compiled to each depth, and says which is the first to differ.

    Each time ``fn``, where it is a module or a bound method, and the arguments are copied (``copy.deepcopy``) and
    called ``CALLS`` times, with the same random numbers. Compared are each call's result or exception, and what the
    calls leave in the arguments and the module. What else ``fn`` writes is not put back. ``tolerance`` bounds
    differences relative to the largest element of a tensor; by default 16 roundings of its type, times the root of
    its number of elements. ``options`` are those of ``pyjit.compile``.

    Raises ``TypeError`` where ``fn`` cannot be called, and ``ValueError`` for options that ``bisect`` sets itself.
    """
    if not callable(fn):
        raise TypeError(f"pyjit.bisect: {type(fn).__name__!r} object is not callable")
    if taken := {"depth", "strict", "compare_with_eager"} & set(options or {}):
        raise ValueError(f"pyjit.bisect: sets the option {min(taken)!r} itself")
    expected = _run(fn, args, kwargs, None)
    differences: dict[str, list[Difference]] = {}
    for depth in DEPTHS:
        chosen = {
            **(options or {}),
            "depth": depth,
            "strict": True,
            "compare_with_eager": False,
        }
        given = _run(fn, args, kwargs, chosen)
        differences[depth] = list(_compare(expected, given, tolerance))
        if differences[depth]:
            return Bisection(depth, differences)
    return Bisection(None, differences)


@dataclass(frozen=True)
class _Call:
    """What a call gave and left, with names."""

    error: str
    values: dict[str, Any]


def _run(
    fn: Callable, args: tuple, kwargs: dict, options: dict[str, Any] | None
) -> list[_Call]:
    memo: dict[int, Any] = {}
    function = _copied(fn, memo)
    args, kwargs = copy.deepcopy((args, kwargs), memo)
    call = function if options is None else compile_function(function, options=options)
    calls = []
    with _random_numbers(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(CALLS):
            error, result = "", None
            try:
                result = call(*args, **kwargs)
            except CompileError as failed:
                error = f"does not compile: {failed}"
            except Exception as raised:  # noqa: BLE001 (the user's own)
                error = f"{type(raised).__name__}: {raised}"
            owner = getattr(function, "__self__", function)
            left = _pytree.tree_map(_state, (result, args, kwargs, owner))
            calls.append(_Call(error, dict(_named(copy.deepcopy(_detached(left))))))
            if error:
                break
    return calls


def _copied(fn: Callable, memo: dict[int, Any]) -> Callable:
    if isinstance(fn, types.MethodType):
        return types.MethodType(fn.__func__, copy.deepcopy(fn.__self__, memo))
    return copy.deepcopy(fn, memo)


def _state(value: Any) -> Any:
    """Of modules and optimizers what they hold; other values as they are."""
    if isinstance(value, torch.optim.Optimizer):
        return value.state_dict()
    if not isinstance(value, torch.nn.Module):
        return value
    gradients = {name: p.grad for name, p in value.named_parameters()}
    return {"state": value.state_dict(keep_vars=True), "gradients": gradients}


def _detached(values: Any) -> Any:
    return _pytree.tree_map(
        lambda value: value.detach() if isinstance(value, torch.Tensor) else value,
        values,
    )


def _named(left: tuple) -> Iterator[tuple[str, Any]]:
    roots = ("result", "args", "kwargs", "self")
    for root, value in zip(roots, left):
        for path, leaf in _pytree.tree_flatten_with_path(value)[0]:
            yield root + _pytree.keystr(path), leaf


@contextmanager
def _random_numbers() -> Iterator[None]:
    """The same for each run, whose caller's are not moved."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def _compare(
    expected: list[_Call], given: list[_Call], tolerance: float | None
) -> Iterator[Difference]:
    for number, (eager, mine) in enumerate(zip(expected, given), 1):
        if eager.error != mine.error:
            told = mine.error or "no exception"
            yield Difference(
                number, "call", f"{told}; eager: {eager.error or 'no exception'}"
            )
            continue
        if list(eager.values) != list(mine.values):
            yield Difference(number, "result", "has another structure")
            continue
        for where, value in eager.values.items():
            if what := _difference(value, mine.values[where], tolerance):
                yield Difference(number, where, what)


def _is_same(eager: Any, mine: Any) -> bool:
    """Of values that are no tensors; objects that compare by identity say nothing."""
    if type(eager) is not type(mine):
        return False
    if type(eager).__eq__ is object.__eq__:
        return True
    if isinstance(eager, float) and math.isnan(eager):
        return math.isnan(mine)
    try:
        return bool(eager == mine)
    except Exception:  # noqa: BLE001 (objects that do not compare)
        return True


def _difference(eager: Any, mine: Any, tolerance: float | None) -> str:
    if not isinstance(eager, torch.Tensor) or not isinstance(mine, torch.Tensor):
        told = f"{mine!r:.60} where eager has {eager!r:.60}"
        return "" if _is_same(eager, mine) else told
    for name in ("dtype", "shape", "device", "layout"):
        if getattr(eager, name) != getattr(mine, name):
            return f"{name} {getattr(mine, name)}, eager's is {getattr(eager, name)}"
    if not eager.numel() or eager.layout != torch.strided:
        return ""
    if not (eager.is_floating_point() or eager.is_complex()):
        wrong = int((eager != mine).sum())
        return f"{wrong} of {eager.numel()} elements differ" if wrong else ""
    wide = torch.complex128 if eager.is_complex() else torch.float64
    a, b = eager.to(wide), mine.to(wide)
    same = (a == b) | (a.isnan() & b.isnan())
    finite = a.abs()[a.abs().isfinite()]
    scale = float(finite.max()) if finite.numel() else 0.0
    epsilon = torch.finfo(eager.dtype).eps
    bound = scale * (
        16 * epsilon * eager.numel() ** 0.5 if tolerance is None else tolerance
    )
    off = torch.where(same, 0.0, (a - b).abs()).nan_to_num(nan=float("inf"))
    worst = float(off.max())
    return f"off by {worst:.2g}, of {scale:.2g}" if worst > bound else ""
