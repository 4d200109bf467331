# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch's own samples for every operator in the table, through the whole pipeline.

All float32 samples, and a fixed random tenth of those of the other dtypes, in the
functional, in-place and method spellings; several samples make one program. A
failure of pyjit's compiler is a failure of the test. What ran through our own
kernels, through the dispatcher, or in eager is printed at the end of the run,
by operator and by ATen overload, and written to build/test-reports/op_db.md.

PYJIT_OPDB=full takes every sample: some 6 minutes on one core of a quiet machine.
By default (CI) at most 4 per operator and dtype, and two of the other dtypes. PYJIT_OPDB_PART=2/8 runs the second eighth
of the operators; the report then sums up the parts that have run so far.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal import common_methods_invocations
    from torch.testing._internal.common_methods_invocations import op_db

from Operators.cases import copied

# The samples of random operators come with a seed and a saved generator state of
# their own; here every run is seeded.
common_methods_invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(
    *args, **kwargs
)

ROOT = Path(__file__).resolve().parents[2]
FULL = os.environ.get("PYJIT_OPDB", "") == "full"
LIMIT = 10**9 if FULL else int(os.environ.get("PYJIT_OPDB_LIMIT", "4"))
GROUP = 8


def table() -> set[str]:
    """Names of the ATen operators in the operator table."""
    found: set[str] = set()
    for file in (ROOT / "lib" / "Operators").rglob("*.td"):
        found |= set(re.findall(r'"aten::(\w+)[.(]', file.read_text()))
    return found


KNOWN = table()
# PYJIT_OPDB_EVERY=1: also operators that the table does not have; they run as
# vendor calls, which must be right too.
EVERY = bool(os.environ.get("PYJIT_OPDB_EVERY"))
NOT_COMPARABLE = {
    # Uninitialised memory, or random numbers that no seed fixes between samples.
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided",
    "empty_permuted", "resize_", "resize_as_",
}  # fmt: skip
OPERATORS = sorted(
    (
        op
        for op in op_db
        if (EVERY or op.aten_name in KNOWN or op.name.split(".")[-1] in KNOWN)
        and op.name not in NOT_COMPARABLE
        # Python functions over many operators, named like one of them.
        and not op.name.startswith(("_refs", "masked.", "sparse."))
    ),
    key=lambda op: op.full_name,
)
PART = os.environ.get("PYJIT_OPDB_PART", "")
if PART:
    _part, _of = map(int, PART.split("/"))
    OPERATORS = OPERATORS[_part - 1 :: _of]
REPORTS = ROOT / "build" / "test-reports"
# Spellings of which no sample ran in a graph, and why.
STRIDED = "as_strided of an input may show any of its storage"
NOT_COMPILED = {
    "as_strided (function)": STRIDED,
    "as_strided (in-place)": STRIDED,
    "as_strided.partial_views (function)": STRIDED,
    "as_strided.partial_views (in-place)": STRIDED,
    "as_strided_scatter (function)": STRIDED,
    "linspace.tensor_overload (function)": "its ends are numbers that tensors hold",
    "logspace.tensor_overload (function)": "its ends are numbers that tensors hold",
    "masked_select (function)": "the shape of the result depends on data",
    "nn.functional.instance_norm (function)": "batch norm in training mode",
    "nn.functional.one_hot (function)": "the shape of the result depends on data",
    "nonzero (function)": "the shape of the result depends on data",
    "squeeze (in-place)": "changes the shape of an input",
    "unsqueeze (in-place)": "changes the shape of an input",
}
# Operators and dtypes of which op_db has no samples that eager takes, and why.
NOT_SAMPLED: dict[str, str] = {}
# Operator and spelling -> where it ran -> samples; ATen overload -> where it ran.
report: dict[str, dict[str, int]] = {}
# Operator and spelling -> programs that eager refuses.
refused: dict[str, int] = {}
overloads: dict[str, set[str]] = {}

TOLERANCE = {
    torch.float32: (1e-5, 1e-5),
    torch.float64: (1e-9, 1e-9),
    torch.bfloat16: (2e-2, 1e-2),
    torch.float16: (4e-3, 2e-3),
    torch.complex64: (1e-5, 1e-5),
    torch.complex128: (1e-9, 1e-9),
}


def same(want: Any, have: Any, what: str) -> None:
    if isinstance(want, torch.Tensor):
        assert isinstance(have, torch.Tensor), f"{what}: {type(have)}"
        assert want.dtype == have.dtype, f"{what}: {want.dtype} became {have.dtype}"
        assert want.shape == have.shape, f"{what}: {want.shape} became {have.shape}"
        if want.layout != torch.strided:
            return
        for n, a, b in zip(want.shape, want.stride(), have.stride(), strict=True):
            assert n <= 1 or a == b or want.numel() == 0, (
                f"{what}: strides {want.stride()} became {have.stride()}"
            )
        rtol, atol = TOLERANCE.get(want.dtype, (0, 0))
        torch.testing.assert_close(
            have,
            want,
            rtol=rtol,
            atol=atol,
            equal_nan=True,
            msg=lambda m: f"{what}: {m}",
        )
    elif isinstance(want, (list, tuple)):
        assert len(want) == len(have), what
        for index, (a, b) in enumerate(zip(want, have, strict=True)):
            same(a, b, f"{what}[{index}]")
    elif isinstance(want, dict):
        for key in want:
            same(want[key], have[key], f"{what}[{key}]")
    elif isinstance(want, float):
        assert want == have or (math.isnan(want) and math.isnan(have)), (
            f"{what}: {want}, {have}"
        )
    else:
        assert type(want) is type(have), f"{what}: {want}, {have}"
        assert want == have, f"{what}: {want}, {have}"


def program(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*calls: tuple[Any, tuple[Any, ...], dict[str, Any]]) -> list[Any]:
        return [function(x, *args, **kwargs) for x, args, kwargs in calls]

    return run


def check(name: str, function: Callable[..., Any], calls: list[Any], what: str) -> None:
    """One program of several calls; taken apart where it was not captured."""
    import pyjit

    run = program(function)
    torch.manual_seed(0)
    theirs = copied(calls)
    try:
        want = run(*theirs)
    except Exception:
        # Not valid for this dtype in eager either: the others of the group may be.
        if len(calls) == 1:
            refused[name] = refused.get(name, 0) + 1
        else:
            for index, one in enumerate(calls):
                check(name, function, [one], f"{what}, sample {index}")
        return
    fast = pyjit.compile(run, options={"strict": True})
    for turn in range(2):
        torch.manual_seed(0)
        ours = copied(calls)
        have = fast(*ours)
        same(want, have, f"{what}, call {turn}")
        same(theirs, ours, f"{what}, call {turn}, inputs afterwards")
    stats = pyjit.stats(fast)
    counts = report.setdefault(name, {})
    if stats["hits"]:
        note_overloads(fast)
        kind = "own kernels" if stats["kernels"] else "dispatcher"
        if stats["kernels"] and stats.get("vendor_calls"):
            kind = "both"
        counts[kind] = counts.get(kind, 0) + len(calls)
    elif len(calls) > 1:
        for index, one in enumerate(calls):
            check(name, function, [one], f"{what}, sample {index}")
    else:
        # Behind a graph break in the middle of `run` its own loop is another one.
        sites = [
            site for site in stats["graph_break_sites"] if "_iterator" not in str(site)
        ]
        reason = str([*stats["reasons"], *sites, "no reason given"][0])
        key = f"eager: {reason.splitlines()[0][:100]}"
        counts[key] = counts.get(key, 0) + 1


def chosen(op: Any, dtype: torch.dtype, device: str = "cpu") -> list[Any]:
    samples = list(op.sample_inputs(device, dtype, requires_grad=False))
    if dtype != torch.float32:
        draw = random.Random(f"{op.full_name} {dtype}")
        count = max(1, len(samples) // 10)
        samples = draw.sample(samples, min(count, len(samples)))
    return [(s.input, s.args, s.kwargs) for s in samples][:LIMIT]


def spellings(op: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    yield "function", op.op
    if op.inplace_variant is not None and f"{op.aten_name}_" in KNOWN:
        yield "in-place", op.inplace_variant


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.full_name)
def test_operator(op: Any) -> None:
    dtypes = [torch.float32] if torch.float32 in op.dtypes else []
    others = sorted(op.dtypes - {torch.float32}, key=str)
    if not FULL:
        others = random.Random(op.full_name).sample(others, min(2, len(others)))
    dtypes += others
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in dtypes:
            calls = chosen(op, dtype)
            for spelling, function in spellings(op):
                if spelling == "in-place" and dtype != torch.float32:
                    continue
                if not calls:
                    refused[f"{op.full_name} ({spelling}) of {dtype}"] = 0
                for start in range(0, len(calls), GROUP):
                    what = f"{op.full_name} ({spelling}), {dtype}, from {start}"
                    group = calls[start : start + GROUP]
                    check(f"{op.full_name} ({spelling})", function, group, what)


def note_overloads(fast: Any) -> None:
    """Which overloads of a program became kernels, and which vendor calls."""
    for specialization in fast.engine.compiled.specializations:
        calls = r'tssa\.aten "([^"]+)"'
        before = set(re.findall(calls, specialization.text("graph")))
        after = set(re.findall(calls, specialization.text("fusion")))
        for name in before - after:
            overloads.setdefault(name, set()).add("own kernels")
        for name in after:
            overloads.setdefault(name, set()).add("dispatcher")


def merged() -> None:
    """With parts, adds what the other parts have reported."""
    folder = REPORTS / "op_db"
    folder.mkdir(parents=True, exist_ok=True)
    mine = folder / f"{PART.replace('/', '-of-')}.json"
    found = {name: sorted(places) for name, places in overloads.items()}
    mine.write_text(json.dumps([report, found]))
    for file in sorted(folder.glob(f"*-of-{PART.split('/')[1]}.json")):
        theirs, more = json.loads(file.read_text())
        report.update(theirs)
        for name, places in more.items():
            overloads.setdefault(name, set()).update(places)


def test_report(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints which operators ran where."""
    if not report:
        pytest.skip("no operator ran")
    if PART:
        merged()
    own = sorted(n for n, c in report.items() if "own kernels" in c or "both" in c)
    through = sorted(n for n in report if n not in own and "dispatcher" in report[n])
    eager = sorted(n for n in report if n not in own and n not in through)
    summary = f"{len(report)} spellings: {len(own)} through our own kernels, "
    summary += f"{len(through)} through the dispatcher, {len(eager)} in eager."
    kernels = sorted(n for n, places in overloads.items() if "own kernels" in places)
    calls = sorted(n for n, places in overloads.items() if "dispatcher" in places)
    lines = ["# op_db through pyjit", "", summary, ""]
    short = ["", f"op_db through pyjit: {summary}"]
    for title, names in (
        ("Own kernels", own),
        ("Dispatcher", through),
        ("Eager", eager),
    ):
        lines += [f"## {title}", ""]
        for name in names:
            counts = ", ".join(f"{k}: {v}" for k, v in sorted(report[name].items()))
            lines.append(f"- {name} ({counts})")
        lines.append("")
        short += textwrap.wrap(f"{title}: {', '.join(names)}", 150)
    for title, names in (
        ("Overloads that became kernels", kernels),
        ("Overloads called through the dispatcher", calls),
    ):
        lines += [f"## {title} ({len(names)})", "", ", ".join(names), ""]
        short += textwrap.wrap(f"{title} ({len(names)}): {', '.join(names)}", 150)
    # What is not covered.
    page = (ROOT / "docs" / "Operators.md").read_text()
    ours = set(re.findall(r"\| `(aten::[^`]+)` \| pure \| own kernel", page))
    called = sorted((ours & set(calls)) - set(kernels))
    unseen = sorted(ours - set(calls) - set(kernels))
    unsampled = sorted(name for name in refused if name not in report)
    for title, names in (
        ("Spellings and dtypes without samples that eager takes", unsampled),
        (
            "Overloads with a recipe or rule that were called through the dispatcher",
            called,
        ),
        ("Overloads with a recipe or rule that no sample calls", unseen),
    ):
        lines += [f"## {title} ({len(names)})", "", ", ".join(names), ""]
        short += textwrap.wrap(f"{title} ({len(names)}): {', '.join(names)}", 150)
    REPORTS.mkdir(parents=True, exist_ok=True)
    (REPORTS / "op_db.md").write_text("\n".join(lines))
    with capsys.disabled():
        print("\n".join(short))
    assert set(eager) <= NOT_COMPILED.keys(), "in eager, and no reason is listed"
    assert set(unsampled) <= NOT_SAMPLED.keys(), "no samples, and no reason is listed"
