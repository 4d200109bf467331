# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the pages in results/ are made of: tables in Markdown, and the file itself."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

Facts = dict[str, Any]


def row(cells: Iterable[object]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def heading(cells: list[str]) -> list[str]:
    """The first two lines of a table."""
    return [row(cells), "|" + " --- |" * len(cells)]


def by_column(
    found: Mapping[str, Mapping[str, Facts]],
    columns: Mapping[str, str],
    title: str,
    cell: Callable[[Facts], str],
) -> list[str]:
    """A row for each case, with what `cell` makes of the facts of each column. `columns`: their heads."""
    lines = heading([title, *columns.values()])
    for case, known in found.items():
        lines.append(row([case, *(cell(known[c]) if c in known else "-" for c in columns)]))  # fmt: skip
    return [*lines, ""]


def number(name: str, form: str) -> Callable[[Facts], str]:
    """The cell of a fact that is a number, in the format `form`."""
    return lambda facts: format(facts[name], form) if facts.get(name) is not None else "-"  # fmt: skip


def captured(facts: Facts) -> str:
    """How many graphs a column has, and breaks where it counts them."""
    if "graphs" not in facts:
        return "-"
    breaks = f", {facts['graph_breaks']} graph breaks" if "graph_breaks" in facts else ""  # fmt: skip
    return f"{facts['graphs']} graphs{breaks}"


def prose(text: str) -> list[str]:
    """Lines of 120 columns at most."""
    return textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False)


def ratio(value: float) -> str:
    """Of another's time and ours: a loss is marked as one."""
    return f"{value:.2f}x" if value >= 1 else f"**{value:.2f}x (loss)**"


def circumstances(records: Iterable[Facts]) -> list[str]:
    """Machines and versions of the records, a line each."""
    return sorted({f"{f['machine']}, {f['threads']} threads. {f['versions']}." for f in records})  # fmt: skip


def show(text: str, target: Path | None) -> None:
    """Prints the page and writes it to `target`, if that is given."""
    print("\n" + text)
    if target:
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)
        print(f"written: {target}")
