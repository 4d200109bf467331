# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page that records of training steps make."""

from __future__ import annotations

from pages import (
    Facts,
    by_column,
    captured,
    circumstances,
    heading,
    number,
    prose,
    ratio,
    row,
)

from train.cases import CASES
from train.columns import COLUMNS

#: By how many times what other kernels of eager's differ by losses may differ, and at least by how much.
ALLOWED, LEAST = 4, 1e-5

Found = dict[str, dict[str, Facts]]  # by case and column


def latest(records: list[Facts]) -> Found:
    """The last record of each case and column, in the order of both."""
    found: Found = {}
    for facts in records:
        found.setdefault(facts["case"], {})[facts["column"]] = facts
    return {
        case: {c: found[case][c] for c in COLUMNS if c in found[case]}
        for case in CASES
        if case in found
    }


def differs(case: str, column: str, columns: dict[str, Facts]) -> bool:
    """Whether losses are further from eager's than rounding explains."""
    limit = max(LEAST, ALLOWED * columns.get("eager", {}).get("kernels_gap", 0))
    # Inductor's random numbers are its own.
    other_numbers = CASES[case].random and not column.startswith("pyjit")
    return not other_numbers and columns[column].get("gap", 0) > limit


def _ms(facts: Facts) -> str:
    if "ms" not in facts:
        return "failed" if "error" in facts else "-"
    text = f"{facts['ms']:.4g}"
    if facts["column"] == "eager" or "eager_ms" not in facts:
        return text
    ratio = facts["eager_ms"] / facts["ms"]
    return f"{text} ({ratio:.2f}x)" if ratio >= 0.98 else f"{text} (**{ratio:.2f}x**)"


def _best_peer(found: Found) -> list[str]:
    """pyjit's whole step, or its model where that is faster, against the fastest other column."""
    lines = heading(["case", "best of pyjit", "best of the others", "ratio"])
    for case, known in found.items():
        timed = {c: f["ms"] for c, f in known.items() if "ms" in f}
        mine = {c: ms for c, ms in timed.items() if c.startswith("pyjit")}
        others = {c: ms for c, ms in timed.items() if c not in mine}
        if not mine or not others:
            continue
        a, b = min(mine, key=mine.__getitem__), min(others, key=others.__getitem__)
        cells = [case, COLUMNS[a].head, COLUMNS[b].head, ratio(others[b] / mine[a])]
        lines.append(row(cells))
    return [*lines, ""]


def _losses(facts: Facts) -> str:
    if facts["column"] == "eager":
        return f"other kernels {facts.get('kernels_gap', float('nan')):.1e}"
    return f"{facts['gap']:.1e}" if "gap" in facts else "-"


def _notes(found: Found) -> list[str]:
    lines = []
    for case, known in found.items():
        for column, facts in known.items():
            head = f"- {case}, {COLUMNS[column].head}: "
            if "error" in facts:
                lines.append(head + facts["error"])
            if differs(case, column, known):
                lines.append(f"{head}**losses differ** by {facts['gap']:.1e}: {facts['losses']}, eager {known['eager']['losses']}")  # fmt: skip
            lines += [f"{head}graph break: {r}" for r in facts.get("reasons", [])[:6]]
            lines += [f"{head}left to eager, {t}" for t in facts.get("left_to_eager", [])]  # fmt: skip
    return lines


def page(records: list[Facts], remark: str = "") -> str:
    found = latest(records)
    if not found:
        return "no records"
    of_all = [facts for known in found.values() for facts in known.values()]
    columns = {c: known.head for c, known in COLUMNS.items() if any(c in f for f in found.values())}  # fmt: skip
    first = of_all[-1]
    gpu = first["device"] == "cuda"
    mode = f"bf16 autocast {first['autocast']} the call except LSTM and MLP" if gpu else "float32"  # fmt: skip
    text = [
        f"# Training steps, {first['day']}",
        "",
        *circumstances(of_all),
        "",
        *prose(
            f"Sizes: {first['size']}. {mode}; AdamW with its default settings; a step is zero_grad, forward, loss, backward, update. "
            "Medians of rounds in which the columns of a case take turns in one process; in brackets eager's time in that process / time. "
            "Model: the model is compiled, the loop runs in Python; step: one compiled function with backward and update in it. "
            "First two steps are cold in their process (of `torch.compile, model and update` the model comes from the cache on disk of the column in front of it). "
            f"Peak: {'reserved by the allocator' if gpu else 'resident set'}, beside what was there before the column, four steps of a warm loop. "
            f"Losses: largest relative difference from eager over the first eight steps, from the same weights. {remark}"
        ),
        "",
        *by_column(found, columns, "ms a step", _ms),
        *_best_peer(found),
        *by_column(found, columns, "first two steps, s", number("first_two", ".2f")),
        *by_column(found, columns, "peak MB", number("peak_mb", ".0f")),
        *by_column(found, columns, "captured", captured),
        *by_column(found, columns, "losses", _losses),
        *(f"- `{case}`: {CASES[case].about[first['size']]}" for case in found),
        "",
        *_notes(found),
    ]
    return "\n".join(text).rstrip() + "\n"


def brief(case: str, records: list[Facts]) -> str:
    parts = [
        f"{f['column']} {f['ms']:.4g} ms" if "ms" in f else f"{f['column']} failed"
        for f in records
    ]
    return f"{case}: " + ", ".join(parts)
