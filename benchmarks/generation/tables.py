# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page that records of generations make."""

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

from generation.cases import CASES
from generation.columns import COLUMNS

Found = dict[tuple[str, int], dict[str, Facts]]  # by case and batch, then column

#: Of logits, relative to the largest of a step.
ALLOWED = {"float32": 1e-3, "bfloat16": 1e-1, "float16": 2e-2}


def latest(records: list[Facts]) -> Found:
    """The last record of each case, batch and column."""
    found: Found = {}
    for facts in records:
        known = found.setdefault((facts["case"], facts["batch"]), {})
        known[facts["column"]] = facts
    return found


def tokens_per_second(facts: Facts) -> float:
    return facts["batch"] * facts["new"] / facts["seconds"]


def limit(facts: Facts) -> float:
    """Tokens per second at which all weights are read once for each step."""
    return facts["batch"] * facts["read_gb_s"] * 1e3 / facts["weights_mb"]


def differs(facts: Facts) -> bool:
    return facts.get("gap", 0) > ALLOWED[facts["dtype"]]


def _speed(facts: Facts) -> str:
    if "seconds" not in facts:
        return "failed" if "error" in facts else "-"
    text = f"{tokens_per_second(facts):.4g}"
    return f"**{text}, other logits**" if differs(facts) else text


def _against(found: Found) -> list[str]:
    """pyjit's faster way against eager and against the fastest other column."""
    heads = ["case, batch", "best of pyjit", "pyjit : eager", "best of the others", "pyjit : it", "share of the limit"]  # fmt: skip
    lines = heading(heads)
    for (case, batch), known in found.items():
        speeds = {c: tokens_per_second(f) for c, f in known.items() if "seconds" in f}
        mine = {c: s for c, s in speeds.items() if c.startswith("pyjit")}
        others = {c: s for c, s in speeds.items() if c not in mine}
        if not mine or not others:
            continue
        a, b = max(mine, key=mine.__getitem__), max(others, key=others.__getitem__)
        ratios = [mine[a] / others[c] if c in others else None for c in ("eager", b)]
        shown = ["-" if r is None else ratio(r) for r in ratios]
        share = f"{mine[a] / limit(known[a]):.0%}" if CASES[case].dense else "-"
        lines.append(row([f"{case}, {batch}", COLUMNS[a].head, shown[0], COLUMNS[b].head, shown[1], share]))  # fmt: skip
    return [*lines, ""]


def _logits(facts: Facts) -> str:
    if "gap" not in facts:
        return "-"
    return f"{facts['gap']:.1e}, {facts['equal_tokens']} of {facts['all_tokens']}"


def _notes(found: Found) -> list[str]:
    lines = []
    for (case, batch), known in found.items():
        for column, facts in known.items():
            head = f"- {case}, {batch}, {COLUMNS[column].head}: "
            if "error" in facts:
                lines.append(head + facts["error"])
            lines += [f"{head}left to eager, {t}" for t in facts.get("left_to_eager", [])]  # fmt: skip
    return lines


def page(records: list[Facts], remark: str = "") -> str:
    found = latest(records)
    if not found:
        return "no records"
    of_all = [facts for known in found.values() for facts in known.values()]
    columns = {c: known.head for c, known in COLUMNS.items() if any(c in f for f in found.values())}  # fmt: skip
    shown = {f"{case}, {batch}": known for (case, batch), known in found.items()}
    first = of_all[-1]
    peak = "reserved by the allocator" if first["device"] == "cuda" else "resident set"
    most = max(facts["new"] for facts in of_all)
    # What failed in all columns says nothing of them.
    weights = {case: known[c] for (case, _), known in found.items() for c in known if "weights_mb" in known[c]}  # fmt: skip
    text = [
        f"# Generation, {first['day']}",
        "",
        *circumstances(of_all),
        "",
        *prose(
            f"transformers' `generate`, greedy, {first['dtype']}, random weights, prompt of {first['prompt']} tokens, "
            f"{most} new ones; the whole call with its prompt is timed. Medians of {first['rounds']} rounds in which "
            "the columns of a case take turns in one process. First answer: seconds of the first call, cold in its process. "
            f"Peak: {peak} during one call, beside the model. Host: what a call that hits costs beside the launch, median. "
            "Logits: largest difference from eager's relative to the largest of the step, up to a row's first other token, "
            "over two prompts, and how many tokens come before one that differs. Limit: weights read once a step, at the "
            f"speed at which one sum reads 256 MB. {remark}"
        ),
        "",
        *by_column(shown, columns, "tokens per second; case, batch", _speed),
        *_against(found),
        *by_column(shown, columns, "first answer, s", number("first", ".2f")),
        *by_column(shown, columns, "peak MB", number("peak_mb", ".0f")),
        *by_column(shown, columns, "host us", number("host_microseconds", ".1f")),
        *by_column(shown, columns, "captured", captured),
        *by_column(shown, columns, "logits, equal tokens", _logits),
        *(
            f"- `{case}`: {CASES[case].about}; {f['weights_mb']:.0f} MB of weights, read at {f['read_gb_s']:.0f} GB/s"
            + (f"; {f['new']} new tokens" if f["new"] != most else "")
            for case, f in weights.items()
        ),
        "",
        *_notes(found),
    ]
    return "\n".join(text).rstrip() + "\n"


def brief(case: str, records: list[Facts]) -> str:
    parts = [
        f"{f['column']} {tokens_per_second(f):.4g}/s" if "seconds" in f else f"{f['column']} failed"
        for f in records
    ]  # fmt: skip
    return f"{case}: " + ", ".join(parts)
