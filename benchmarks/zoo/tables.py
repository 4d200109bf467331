# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tables of what `breadth.py` has found."""

from __future__ import annotations

import collections
import datetime
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import pages
import torch

SLOWER = 1.05
"""Times eager's time: programs beyond it are named in the first lines."""


def verdict(found: dict[str, Any]) -> str:
    """One word: the table's second column."""
    if "crash" in found:
        return "CRASH"
    if "error" in found:
        return "error"
    return "DIFFERS" if found.get("differences") else "equal"


def captured(found: dict[str, Any]) -> str:
    stats = found.get("stats", {})
    if not stats:
        return "-"
    in_eager = stats.get("eager_reasons", stats["reasons"])  # former results
    if stats["graphs"] == 1 and not stats["graph_breaks"] and not in_eager:
        return "one graph"
    if found.get("settled"):
        return f"one graph, of {found['after']['graphs']}"
    return f"{stats['graphs']} graphs, {stats['graph_breaks']} graph breaks"


def is_one_graph(found: dict[str, Any]) -> bool:
    """Whether one graph answers the program's calls, be it only after some that were recorded."""
    return captured(found).startswith("one graph")


def reason(found: dict[str, Any]) -> str:
    if "crash" in found or "error" in found:
        return found.get("crash", found.get("error", ""))
    if found.get("differences"):
        return found["differences"][0]
    reasons = found.get("stats", {}).get("reasons", [])
    late = [r for r in found.get("after", {}).get("reasons", []) if r not in reasons]
    return "; ".join([*reasons, *(f"later: {r}" for r in late)])


def tidy(text: str) -> str:
    """Paths without what is above the package; one line; no bars."""
    text = re.sub(r"/[^ ]*/site-packages/", "", text)
    text = re.sub(r"/[^ ]*/(benchmarks/)", r"\1", text)
    return " ".join(text.split()).replace("|", "\\|")[:220]


def kind(text: str) -> str:
    """A reason without its place, to count by."""
    return tidy(re.sub(r" at [^ ]+:\d+.*", "", text.splitlines()[0] if text else ""))


def row(found: dict[str, Any]) -> list[str]:
    def number(key: str) -> str:
        return f"{found[key]:.3g}" if isinstance(found.get(key), float) else "-"

    first = "-"
    if isinstance(found.get("pyjit first s"), float):
        first = f"{found['pyjit first s'] - found.get('eager first s', 0.0):.2f}"
    cells = [found["name"], captured(found), verdict(found), first]
    cells += [number("eager ms"), number("pyjit ms"), number("ratio")]
    return [*cells, tidy(reason(found))]


def table(results: list[dict[str, Any]]) -> str:
    head = ["program", "captured", "values", "first call beyond eager, s", "eager ms"]
    head += ["pyjit ms", "ratio", "reason"]
    return "\n".join([*pages.heading(head), *(pages.row(row(f)) for f in results)])


def behind(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Programs that are slower than eager by more than noise."""
    slow = [found for found in results if found.get("ratio", 0.0) > SLOWER]
    return sorted(slow, key=lambda found: -found["ratio"])


def headline(results: list[dict[str, Any]]) -> str:
    """The first lines: programs that are behind eager, wrong, or raise inside a graph."""
    wrong = [f["name"] for f in results if verdict(f) in ("CRASH", "DIFFERS")]
    raised = [f["name"] for f in results if f.get("raised in a graph")]
    slow = [f"{f['name']} ({f['ratio']:.2f})" for f in behind(results)]
    left = sum(bool(f.get("answered by eager")) for f in results)
    timed = [f["ratio"] for f in results if "ratio" in f]
    lines = []
    for what, names in (
        (f"more than {SLOWER - 1:.0%} behind eager", slow),
        ("wrong", wrong),
        ("raising inside a graph", raised),
    ):
        named = f": {', '.join(names)}" if names else ""
        lines.append(f"- {len(names)} of {len(results)} programs {what}{named}")
    if timed:
        median = sorted(timed)[len(timed) // 2]
        lines.append(
            f"- {len(timed)} timed: pyjit takes {median:.2f} of eager's time in the median; {left} are left to eager, which was faster"
        )
    return "\n".join(
        textwrap.fill(line, 120, subsequent_indent="  ", break_on_hyphens=False)
        for line in lines
    )


def summary(results: list[dict[str, Any]]) -> str:
    head = ["family", "programs", "one graph", "later", "equal", "differ", "crash", "error"]  # fmt: skip
    lines = pages.heading(head)
    families = collections.defaultdict(list)
    for found in results:
        families[found["family"]].append(found)
    for family, members in [*families.items(), ("all", results)]:
        count = collections.Counter(verdict(f) for f in members)
        first = sum(captured(f) == "one graph" for f in members)
        whole = sum(is_one_graph(f) for f in members)
        cells = [family, len(members), whole, whole - first, count["equal"]]
        cells += [count["DIFFERS"], count["CRASH"], count["error"]]
        lines.append(pages.row(cells))
    return "\n".join(lines)


def frequencies(results: list[dict[str, Any]]) -> str:
    count: collections.Counter[str] = collections.Counter()
    for found in results:
        if is_one_graph(found):
            continue
        reasons = found.get("survey") or found.get("stats", {}).get("reasons", [])
        for text in {kind(r) for r in reasons}:
            count[text] += 1
    return "\n".join(f"| {n} | {text} |" for text, n in count.most_common())


def write(
    results: list[dict[str, Any]],
    path: Path,
    device: str,
    processes: int,
    grad: str | None = None,
) -> None:
    import timm
    import torchvision
    import transformers
    from run import commit, machine

    day = datetime.date.today().isoformat()
    mode = f"grad mode, modules in {grad} mode, not timed" if grad else "no_grad"
    about = (
        f"{machine(device)}, one thread, {processes} programs at once; those that seemed "
        f"behind eager were timed again alone. CPython {sys.version.split()[0]}, torch "
        f"{torch.__version__}, torchvision {torchvision.__version__}, timm "
        f"{timm.__version__}, transformers {transformers.__version__}, pyjit at "
        f"{commit()}. float32, random weights, small configurations, {mode}, made by "
        "`benchmarks/breadth.py`."
    )
    parts = [
        f"# Coverage, {day}",
        headline(results),
        about,
        summary(results),
        "`later`: of the programs that are one graph, those where former calls have compiled others (`one graph, of N`).",
        "Reasons for not being one graph, by number of programs:",
        "| programs | reason |\n| --- | --- |\n" + frequencies(results),
    ]
    families: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for found in results:
        families[found["family"]].append(found)
    for family, members in families.items():
        parts += [f"## {family}", table(members)]
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n")
    print(f"written: {path}")
