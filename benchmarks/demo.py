#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles five models with random weights and prints what that brings."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from cases import CASES
from compare import largest_difference
from measure import interleaved, seconds

MODELS = ["bert-base", "resnet50", "gpt2", "mobilenetv3", "gru-cell"]
COLUMNS = ["model", "eager ms", "pyjit ms", "speed-up", "first call s"]
COLUMNS += ["graphs", "graph breaks", "guards", "kernels", "largest difference"]


def run(name: str) -> tuple[list[str], list[str]]:
    """A row of the table, and complaints."""
    import pyjit

    complaints = []
    case = CASES[name]
    with torch.no_grad():
        model, inputs = case.make()
        first = inputs(0)
        model(*first)
        eager_once, want = seconds(model, *first)
        compiled = pyjit.compile(model)
        first_call, have = seconds(compiled, *first)
        worst = largest_difference(want, have, relative=True)
        # Other values of the same shape: must be answered by compiled code, rightly.
        other = inputs(1)
        before = pyjit.stats(compiled)["hits"]
        want, have = model(*other), compiled(*other)
        worst = max(worst, largest_difference(want, have, relative=True))
        # Read before another shape makes a specialization of its own.
        stats: dict[str, Any] = pyjit.stats(compiled)
        if stats["hits"] != before + 1:
            reasons = "; ".join(str(reason) for reason in stats["reasons"])
            complaints.append(f"{name}: the second call ran in eager: {reasons}")
        other_shape = inputs(2, other_shape=True)
        want, have = model(*other_shape), compiled(*other_shape)
        worst = max(worst, largest_difference(want, have, relative=True))
        if not worst <= case.tolerance:
            complaints.append(f"{name}: differs by {worst} (limit {case.tolerance})")
        times = interleaved(
            {"eager": lambda: model(*other), "pyjit": lambda: compiled(*other)}
        )
    eager, fast = times["eager"] * 1e3, times["pyjit"] * 1e3
    row = [name, f"{eager:.3g}", f"{fast:.3g}", f"{eager / fast:.2f}x"]
    row += [f"{first_call:.2f} (eager {eager_once:.2f})"]
    row += [str(stats[key]) for key in ("graphs", "graph_breaks", "guards", "kernels")]
    return [*row, f"{worst:.1e}"], complaints


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS, help=", ".join(CASES))
    options = parser.parse_args()
    widths = [max(len(title), 12) for title in COLUMNS]
    widths[4] = 18
    print(
        f"pyjit on {torch.get_num_threads()} threads, batch 1, float32, random weights"
    )
    print()
    print("  ".join(t.ljust(w) for t, w in zip(COLUMNS, widths, strict=True)))
    complaints = []
    for name in options.models:
        row, found = run(name)
        print(
            "  ".join(t.ljust(w) for t, w in zip(row, widths, strict=True)), flush=True
        )
        complaints += found
    print()
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    if not complaints:
        print(
            "Each second call, with other values, was answered by compiled code; calls "
            "with another\nshape were right as well; the largest difference is relative "
            "where values exceed 1."
        )
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
