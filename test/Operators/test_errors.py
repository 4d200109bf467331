# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What eager refuses because of values, pyjit refuses, and nothing else.

For every overload of the operator table, values are searched (witnesses.py, hostile.py) for
which eager raises, in shapes and dtypes that guards accept. A program that calls the overload is
compiled with good values until it hits, and then called with hostile ones: the same exception, or the
same result. The call stands in several places (FORMS): its result is returned, unused, overwritten,
asked for its shape only, or computed in an arm of a branch on data.

The table's `Raises` is checked with them: an overload that eager made raise and that is not marked
fails, and so does a marked one that nothing made raise, unless a reason is listed.

PYJIT_OPERATORS=full searches all overloads with all values and takes every witness's form; by default
all marked overloads, a seeded tenth of the others, and a seeded sample of forms.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from Integration.harness import module_of
from Operators.calls import FULL, table
from Operators.hostile import Variant

ROOT = Path(__file__).resolve().parents[2]

# Marked overloads that no values of ours make raise, and why.
NOT_WITNESSED: dict[str, str] = {}
# Overloads that raise without a mark, and why.
NOT_MARKED = {
    "arange": "its number is a size of the result, which guards check",
    "arange.start": "its numbers are a size of the result, which guards check",
}
# Overloads whose errors tell what differs from call to call, and why.
OTHER_TEXT = {"_embedding_bag": "eager reads an index in front of its tensor"}
# Overloads whose calls are no part of a graph, and why.
NOT_COMPILED: dict[str, str] = {}

FORMS = {
    "used": "r = CALL\nreturn FIRST, x * 2",
    "unused": "CALL\nreturn x * 2",
    "followed": "r = CALL\nreturn FIRST.abs().sum() * 2",
    "overwritten": "r = CALL\ny = FIRST.clone()\ny.fill_(1)\nreturn y",
    "shape": "r = CALL\nreturn torch.zeros(FIRST.shape) + 1",
    "sliced": "r = CALL\nreturn FIRST.flatten()[:0], x + 1",
    "multiplied": "r = CALL\ny = x + 1\ny.copy_(FIRST.sum() * 0)\ny.fill_(3)\nreturn y",
    "arm": "if flag.sum() > 0:\n    CALL\n    y = x + 1\nelse:\n    y = x - 1\nreturn y",
    "arm used": "if flag.sum() > 0:\n    r = CALL\n    y = x + FIRST.shape[0:1].numel()\n"
    "else:\n    y = x - 1\nreturn y",
}


def marked() -> set[str]:
    page = (ROOT / "docs/Operators.md").read_text()
    section = page.split("## Errors\n")[1].split("\n## ")[0]
    return set(re.findall(r"`aten::([^`]+)`", section))


def searched() -> list[str]:
    names = [name for name, row in table().items() if row.kind != "view"]
    if FULL:
        return names
    some = random.Random(5).sample(names, len(names) // 10)
    return sorted(marked() | set(some))


@cache
def variants(folder: Path) -> dict[str, list[Variant]]:
    file = folder / "witnesses.pt"
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, "-m", "Operators.witnesses", str(file), *searched()],
        env={**os.environ, "PYTHONPATH": str(ROOT / "test"), **threads},
        check=True,
        capture_output=True,
    )
    found: dict[str, list[Variant]] = torch.load(file, weights_only=False)
    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Variant]]:
    return variants(tmp_path_factory.mktemp("errors"))


def test_marks(found: dict[str, list[Variant]], capsys: Any) -> None:
    """The overloads that raise are those that the table marks."""
    raising = {name for name, tried in found.items() if any(v.error for v in tried)}
    # Random operators and those whose shapes depend on data are never left out.
    droppable = {n for n in found if table()[n].kind in ("pure", "mutation")}
    with capsys.disabled():
        none = [name for name, tried in found.items() if not tried]
        print(f"\nerrors: {len(found)} overloads searched, {len(raising)} raise")
        print(f"errors: no calls or no values to change: {', '.join(none) or 'none'}")
    unmarked = raising & droppable - marked() - NOT_MARKED.keys()
    assert not unmarked, "raise, but are not marked"
    assert marked() - raising == NOT_WITNESSED.keys(), "marked, but nothing raised"


def names_of(variant: Variant) -> list[str]:
    tensors = sum(isinstance(value, torch.Tensor) for value in variant.good)
    numbers = len(variant.good) - tensors
    return [f"t{i}" for i in range(tensors)] + [f"n{i}" for i in range(numbers)]


def fresh(values: list[Any]) -> list[Any]:
    return [v.clone() if isinstance(v, torch.Tensor) else v for v in values]


def first_of(variant: Variant) -> str:
    """How the program gets at a tensor of the call's result."""
    scope = dict(zip(names_of(variant), fresh(variant.good), strict=True))
    result = eval(call_of(variant), {"torch": torch, **scope})
    return "r" if isinstance(result, torch.Tensor) else "r[0]"


def call_of(variant: Variant) -> str:
    base, _, name = variant.overload.partition(".")
    return f"torch.ops.aten.{base}.{name or 'default'}({variant.source})"


def program(variant: Variant, form: str) -> str:
    body = FORMS[form].replace("CALL", call_of(variant))
    body = body.replace("FIRST", first_of(variant))
    names = names_of(variant)
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"import torch\ndef f({', '.join([*names, 'x', 'flag'])}):\n{lines}"


def outcome(f: Any, values: list[Any], flag: int) -> dict[str, Any]:
    mine = fresh(values)
    torch.manual_seed(0)
    seen: dict[str, Any] = {"result": None, "error": None, "inputs": mine}
    try:
        result = f(*mine, torch.arange(3.0), torch.tensor([float(flag)]))
        seen["result"] = list(result) if isinstance(result, tuple) else [result]
    except Exception as error:
        seen["error"] = (type(error), str(error))
    seen["state"] = torch.get_rng_state()
    return seen


def compare(
    want: dict[str, Any], have: dict[str, Any], what: str, other_text: bool = False
) -> None:
    errors = want["error"], have["error"]
    if other_text and None not in errors:
        errors = errors[0][0], errors[1][0]
    assert errors[0] == errors[1], f"{what}: eager {errors[0]}, pyjit {errors[1]}"
    assert torch.equal(want["state"], have["state"]), f"{what}: other random numbers"
    pairs = list(zip(want["inputs"], have["inputs"], strict=True))
    if want["error"] is None:
        pairs += zip(want["result"], have["result"], strict=True)
    for a, b in pairs:
        if not isinstance(a, torch.Tensor):
            continue
        torch.testing.assert_close(
            b, a, equal_nan=True, check_stride=False, msg=lambda m: f"{what}: {m}"
        )


def other_numbers(values: list[Any]) -> list[list[Any]]:
    """The same with other numbers, twice: what differs between calls becomes an input."""
    if all(isinstance(value, torch.Tensor) for value in values):
        return []
    return [
        [value if isinstance(value, torch.Tensor) else value + more for value in values]
        for more in (1, 2, 1)
    ]


def check(variant: Variant, form: str, others: list[Variant]) -> bool:
    """Compares one program; whether a graph answered its good calls."""
    import pyjit

    source = program(variant, form)
    f = module_of(source).f
    with torch.no_grad():
        good = outcome(f, variant.good, 1)
        if good["error"] is not None:
            return True  # the form has no meaning for this result
        fast: Any = pyjit.compile(module_of(source).f)
        flags = (1, 1, -1, -1, 1, -1) if "flag" in FORMS[form] else (1, 1, 1)
        for values in [variant.good, *other_numbers(variant.good)]:
            for flag in flags:
                want, have = (outcome(g, values, flag) for g in (f, fast))
                compare(want, have, f"{form}, good values\n{source}")
        hits = pyjit.stats(fast)["hits"]
        for other in [variant, *others]:
            for flag in sorted(set(flags)):
                want, have = (outcome(g, other.bad, flag) for g in (f, fast))
                what = f"{form}, {other.what}, flag {flag}\n{source}{other.bad}"
                compare(want, have, what, variant.overload in OTHER_TEXT)
        want, have = (outcome(g, variant.good, 1) for g in (f, fast))
        compare(want, have, f"{form}, good again\n{source}")
    return hits > 0


def kinds(values: list[Any]) -> list[Any]:
    """What guards see of the tensors."""
    return [
        (v.dtype, v.shape) if isinstance(v, torch.Tensor) else type(v) for v in values
    ]


def chosen(tried: list[Variant], draw: random.Random) -> list[Variant]:
    """One raising variant of each call."""
    by_call: dict[str, list[Variant]] = {}
    for variant in tried:
        if variant.error:
            key = f"{variant.source} {kinds(variant.good)}"
            by_call.setdefault(key, []).append(variant)
    firsts = [draw.choice(group) for group in by_call.values()]
    return firsts if FULL else draw.sample(firsts, min(1, len(firsts)))


@pytest.mark.filterwarnings("ignore")
def test_errors(found: dict[str, list[Variant]], capsys: Any) -> None:
    """Programs of raising calls, in every form."""
    wrong, idle, programs = [], set(), 0
    for name, tried in found.items():
        draw = random.Random(name)
        for variant in chosen(tried, draw):
            same = [v for v in tried if v.source == variant.source
                    and kinds(v.good) == kinds(variant.good)]  # fmt: skip
            others = draw.sample(same, min(3, len(same)))
            forms = list(FORMS) if FULL else ["unused", *draw.sample(list(FORMS), 2)]
            for form in dict.fromkeys(forms):
                programs += 1
                try:
                    if not check(variant, form, others):
                        idle.add(name)
                except AssertionError as error:
                    wrong.append(f"{name}: {error}")
    with capsys.disabled():
        print(f"\nerrors: {programs} programs, not in a graph: {sorted(idle)}")
    names = sorted({text.split(":")[0] for text in wrong})
    assert not wrong, f"{len(wrong)} of {programs}: {names}\n" + "\n\n".join(wrong[:8])
    assert idle <= NOT_COMPILED.keys(), "no graph answered, and no reason is listed"
