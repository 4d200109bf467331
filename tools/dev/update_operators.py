#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes docs/Operators.md: the operator table, and what of it was compared with eager.

  tools/dev/update_operators.py                 after a change of the table (build first)
  tools/dev/update_operators.py REPORT.jsonl…   takes in full runs of the conformance tests
                                                (PYJIT_CONFORMANCE=1; build/test-reports/)

A run's counts are kept in test/Operators/compared.json, by machine: the last one replaces what was
there for its machine. Overloads that the table has no longer are dropped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("PYJIT_BUILD", ROOT / "build"))
PAGE = ROOT / "docs/Operators.md"
COMPARED = ROOT / "test/Operators/compared.json"
MACHINES = ("AVX2", "AVX512", "CUDA")
ABOUT = """
## Compared with eager

Calls that the last full run of `test/Operators/test_conformance.py` compared, computed by our kernels
(+ by the library), on CPUs with AVX2 and AVX-512 and on a GPU. All other overloads are vendor calls:
their meaning is eager's; `test_op_db.py` checks their effects, `test_errors.py` their errors.
"""


def table() -> str:
    return subprocess.run(
        [BUILD / "bin/pyjit-translate", "--operators-to-markdown"],
        input="module {}",
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def take_in(report: Path, compared: dict[str, Any]) -> None:
    for line in report.read_text().splitlines():
        found = json.loads(line)
        if found.pop("part") < 1.0 or found.pop("wrong"):
            continue
        found.pop("seed")
        of_machine = compared.setdefault(found.pop("machine"), {})
        of_machine[found.pop("overload")] = found


def section(compared: dict[str, Any]) -> str:
    """The page's part on the conformance runs."""
    overloads = sorted({name for of in compared.values() for name in of})
    lines = [
        ABOUT,
        "| overload | " + " | ".join(MACHINES) + " | with the library, because of |",
        "| --- " * (len(MACHINES) + 2) + "|",
    ]
    for name in overloads:
        cells = [cell(compared.get(machine, {}).get(name)) for machine in MACHINES]
        why: Counter[str] = Counter()
        for of in compared.values():
            why.update(of.get(name, {}).get("library", {}))
        lines.append(f"| `{name}` | {' | '.join(cells)} | {'; '.join(sorted(why))} |")
    return "\n".join(lines) + "\n"


def cell(found: dict[str, Any] | None) -> str:
    if not found:
        return "–"
    library = sum(found["library"].values())
    return f"{found['kernels']:,}" + (f" + {library:,}" if library else "")


def render(compared: dict[str, Any]) -> str:
    return "".join(
        line if line.startswith("|") else wrapped(line)
        for line in (table() + section(compared)).splitlines(keepends=True)
    )


def wrapped(line: str) -> str:
    """A line of prose in lines of at most 120 columns."""
    return (
        textwrap.fill(line, 120, break_long_words=False, break_on_hyphens=False) + "\n"
    )


def main() -> int:
    compared = json.loads(COMPARED.read_text()) if COMPARED.exists() else {}
    for report in sys.argv[1:]:
        take_in(Path(report), compared)
    rows = table()
    for of in compared.values():
        for name in [name for name in of if f"| `{name}` |" not in rows]:
            del of[name]
    if sys.argv[1:]:
        lines = (
            f"{json.dumps(m)}: {{\n"
            + ",\n".join(
                f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(of.items())
            )
            + "\n}"
            for m, of in sorted(compared.items())
        )  # one overload to a line
        COMPARED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    PAGE.write_text(render(compared))
    return 0


if __name__ == "__main__":
    sys.exit(main())
