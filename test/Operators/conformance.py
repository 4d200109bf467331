# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs cases through pyjit and compares with eager: what `test_conformance.py` and the GPU's test share."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from Integration.harness import module_of
from Operators.cases import Case, copied, describe
from Operators.compare import difference
from Operators.exceptions import bound_of, excused, slack_of, why_vendor_call
from Operators.schemas import arguments

GROUP = 16
KINDS = (bool, int, float)  # of numbers


@dataclass
class Report:
    """What became of the cases of one overload."""

    compiled: int = 0
    library: Counter[str] = field(default_factory=Counter)
    excused: Counter[str] = field(default_factory=Counter)
    stale: Counter[str] = field(
        default_factory=Counter
    )  # listed as not compiled, but compiled
    wrong: list[str] = field(default_factory=list)


def text_of(value: Any, tensors: list[torch.Tensor], numbers: list[Any] | None) -> str:
    """An argument in the program's source; tensors (and numbers, if they are to be lifted) are inputs."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return f"t[{len(tensors) - 1}]"
    if isinstance(value, list):
        return "[" + ", ".join(text_of(item, tensors, numbers) for item in value) + "]"
    if numbers is not None and type(value) in KINDS:
        numbers.append(value)
        return f"n[{len(numbers) - 1}]"
    if isinstance(value, torch.device):
        return repr(str(value))
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    return repr(value)


def source_of(
    cases: list[Case], lifted: bool
) -> tuple[str, list[torch.Tensor], list[Any]]:
    """A program that makes the calls one after the other."""
    tensors: list[torch.Tensor] = []
    numbers: list[Any] = []
    lines = ["import torch", "def f(t, n):"]
    for at, case in enumerate(cases):
        words = []
        for value, a in zip(case.arguments, arguments(case.row.op), strict=True):
            may_lift = lifted and a.plain in ("Scalar", "Tensor")
            text = text_of(value, tensors, numbers if may_lift else None)
            words.append(f"{a.name}={text}" if a.keyword else text)
        lines.append(f"    r{at} = {case.row.source}({', '.join(words)})")
    lines.append(f"    return [{', '.join(f'r{i}' for i in range(len(cases)))}]")
    return "\n".join(lines), tensors, numbers


def check(cases: list[Case], report: Report) -> None:
    """One program of several calls, its second call (a hit) against eager; taken apart where it is not compiled."""
    import pyjit

    source, tensors, numbers = source_of(cases, lifted=False)
    torch.set_default_dtype(cases[0].default_dtype)
    try:
        program = module_of(source).f
        mine, theirs = copied(tensors), copied(tensors)
        want = program(theirs, numbers)
        fast = pyjit.compile(program, options={"strict": True})
        fast(copied(tensors), numbers)
        have = fast(mine, numbers)
    finally:
        torch.set_default_dtype(torch.float32)
    stats = pyjit.stats(fast)
    if not stats["hits"] or stats["graph_breaks"]:
        if len(cases) > 1:
            for case in cases:
                check([case], report)
            return
        reasons = [*stats["reasons"], *stats["graph_break_sites"], "no reason given"]
        note_vendor_call(cases, 1, f"eager: {reasons[0]}", report)
    else:
        left = vendor_calls(fast, len(cases))
        if (
            left != sum(bool(why_vendor_call(case)) for case in cases)
            and len(cases) > 1
        ):
            for case in cases:  # which ones is seen only one at a time
                check([case], report)
            return
        note_vendor_call(cases, left, "a vendor call", report)
    for case, h, w in zip(cases, have, want, strict=True):
        compare(case, h, w, report)


def note_vendor_call(cases: list[Case], left: int, how: str, report: Report) -> None:
    """Of a program's calls `left` were not computed by our kernels: is that listed?"""
    report.compiled += len(cases) - left
    expected = [reason for case in cases if (reason := why_vendor_call(case))]
    report.library.update(expected)
    if left > len(expected):
        listed = ", ".join(case.signature() for case in cases)
        report.wrong.append(
            f"{cases[0].row.overload}: not compiled, unlisted ({how}): {listed} [{cases[0].kind}]"
        )
    elif left < len(expected):
        report.stale.update(expected)


def vendor_calls(fast: Any, most: int) -> int:
    """How many of `most` calls no kernel has taken; a composite one may have left several behind."""
    count = 0
    for specialization in fast.engine.compiled.specializations:
        names = re.findall(r'tssa\.aten "([^"]+)"', specialization.text("fusion"))
        count += sum(not name.startswith("aten::_assert_async") for name in names)
    return min(count, most)


def compare(case: Case, have: Any, want: Any, report: Report) -> None:
    found = disagreement(case, have, want)
    if not found:
        return
    if reason := excused(case, have, want):
        report.excused[reason] += 1
        return
    names = [a.name for a in arguments(case.row.op)]
    given = ", ".join(f"{n}={describe(v)}" for n, v in zip(names, case.arguments, strict=True))  # fmt: skip
    default = (
        ""
        if case.default_dtype == torch.float32
        else f" [default {case.default_dtype}]"
    )
    report.wrong.append(f"{case.row.overload}({given}){default} ({case.kind}): {found}")


def disagreement(case: Case, have: Any, want: Any) -> str:
    """Why a result is not eager's, within what exceptions.py allows; or an empty text."""
    if not isinstance(want, torch.Tensor):
        pairs = zip(have, want, strict=True)
        return next((text for h, w in pairs if (text := disagreement(case, h, w))), "")
    slack = slack_of(case, want)
    return difference(have, want, bound_of(case, want.dtype), slack)


def check_lifted(case: Case, others: list[Any], report: Report) -> None:
    """The same call with numbers that differ from call to call: literal, lifted, then hits."""
    import pyjit

    source, tensors, numbers = source_of([case], lifted=True)
    if not numbers:
        return
    program = module_of(source).f
    fast = pyjit.compile(program, options={"strict": True})
    for number in others:
        now = with_numbers(case, number)
        _, _, given = source_of([now], lifted=True)
        try:
            want = program(copied(tensors), given)
        except (RuntimeError, TypeError, ValueError):
            continue
        compare(now, fast(copied(tensors), given)[0], want[0], report)


def with_numbers(case: Case, number: float) -> Case:
    """The case with each number that may be lifted replaced."""
    values = [
        number if a.plain in ("Scalar", "Tensor") and type(v) in KINDS else v
        for v, a in zip(case.arguments, arguments(case.row.op), strict=True)
    ]
    return Case(case.row, case.kind, values, case.default_dtype)
