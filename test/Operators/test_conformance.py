# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every overload that pyjit computes by kernels of its own, against eager, generated from the table and its schema.

Every dtype against every other and against Python numbers, special values against each other, all 65,536 values of half
precision, every default dtype, layouts, empty tensors, sizes around what vectors, sums and threads take. What must agree:
dtype, sizes, strides, the sign of zero, nan for nan, integers exactly, floats within `exceptions.py`. Our kernel must have
run; what stays with the library, and where eager disagrees with itself, is listed there with the reason.

PYJIT_CONFORMANCE: the part of the cases that runs, 0.1 by default, 1 for all (about 80,000; half an hour on two cores).
PYJIT_SEED: another draw of them.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from Operators.cases import NUMBERS, Generator, drawn_case, plan
from Operators.conformance import GROUP, Report, check, check_lifted
from Operators.schemas import Row, compiled_rows

PART = float(os.environ.get("PYJIT_CONFORMANCE", "0.1"))
SEED = os.environ.get("PYJIT_SEED", "0")
BUILD = Path(os.environ.get("PYJIT_BUILD", Path(__file__).parents[2] / "build"))
REPORT = BUILD / "test-reports" / "conformance.md"
reports: dict[str, Report] = {}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Without gradients and eager's warnings."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("row", compiled_rows(), ids=lambda row: row.overload)
def test_overload(row: Row) -> None:
    conforms(row, "cpu")


def conforms(row: Row, device: str) -> None:
    """Fails where a call of an overload is not what eager answers on that device."""
    report = reports.setdefault(row.overload, Report())
    draw = random.Random(f"{row.overload} {SEED}")
    cases = list(plan(row, draw, PART, device))
    cases = cases or list(itertools.islice(plan(row, draw, 1.0, device), 8))
    assert cases, "eager accepts nothing that the generator draws"
    cases.sort(key=lambda case: str(case.default_dtype))
    for _, group in itertools.groupby(cases, key=lambda case: case.default_dtype):
        for some in itertools.batched(group, GROUP):
            check(list(some), report)
    lifted_numbers(Generator(row, draw, device), report)
    note(row, device, report)
    assert not report.wrong, f"{len(report.wrong)} of {len(cases)}:\n" + "\n".join(
        report.wrong[:12]
    )
    assert report.compiled or len(report.library) > 0


def note(row: Row, device: str, report: Report) -> None:
    """Adds what ran to the file that tools/dev/update_operators.py takes in."""
    found = {
        "overload": row.overload,
        "machine": "CUDA"
        if device == "cuda"
        else torch.backends.cpu.get_cpu_capability(),
        "part": PART,
        "seed": SEED,
        "kernels": report.compiled,
        "library": report.library,
        "excused": report.excused,
        "wrong": len(report.wrong),
    }
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    # Several processes write, a line at a time.
    with REPORT.with_suffix(".jsonl").open("a") as file:
        file.write(json.dumps(found) + "\n")


LIFTED = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64]


def lifted_numbers(make: Generator, report: Report) -> None:
    """Numbers that differ between calls: the third call and later ones meet a specialization that has them as inputs."""
    if not make.scalars:
        return
    for dtype in make.draw.sample(LIFTED, 2):
        case = drawn_case(
            make.row,
            "lifted",
            torch.float32,
            lambda d=dtype: make.call((d,), (3, 4), scalar=2.0),
            Counter(),
            make.device,
        )
        floats = [n for n in NUMBERS if type(n) is float]
        if make.numbers_are_sizes:
            floats = [n for n in floats if abs(n) < 2**17]
        if case:
            others = [2.0, 3.0, *make.draw.sample(floats, 8)]
            check_lifted(case, others, report)
            # Of all kinds: what is 1 as a flag is no flag as a number.
            check_lifted(case, [True, 2, False, True, 1.0, 0, 1, True, 0.5], report)


def test_report(capsys: pytest.CaptureFixture[str]) -> None:
    """Says what ran by kernels, what stays with the library and why, and what was excused."""
    if not reports:
        pytest.skip("no overload ran")
    total = sum(r.compiled + sum(r.library.values()) for r in reports.values())
    lines = [
        "| overload | by kernels | with the library, and why | eager's own differences |",
        "| --- | --- | --- | --- |",
    ]
    for name, r in reports.items():
        library = "; ".join(f"{count}: {why}" for why, count in r.library.items())
        excused = "; ".join(f"{count}: {why}" for why, count in r.excused.items())
        lines.append(f"| `{name}` | {r.compiled} | {library} | {excused} |")
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text("\n".join(lines) + "\n")
    compiled = sum(r.compiled for r in reports.values())
    why = Counter[str]()
    for r in reports.values():
        why.update(r.library)
    with capsys.disabled():
        print(
            f"\nconformance: {total} calls of {len(reports)} overloads, {compiled} by kernels; the rest by reason:"
        )
        for reason, count in why.most_common():
            print(f"  {count:6} {reason}")
        stale = sum((r.stale for r in reports.values()), Counter[str]())
        for reason, count in stale.most_common():
            print(
                f"  {count:6} listed as '{reason}', but compiled: the rule is too wide"
            )
