#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How compile time grows with the program: 100, 1,000 and 10,000 ops.

Each size is one straight-line function of pointwise ops, reductions and views.
Prints seconds per stage and ops per second, and whether growth is linear.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import torch

PATTERN = [
    "x = torch.relu(x + y)",
    "y = x * 0.5 - y",
    "x = torch.tanh(x)",
    "y = y.t().contiguous().t() + x.sum(1, keepdim=True) * 0.01",
    "x = x + torch.sigmoid(y)",
    "y = torch.softmax(y, 1)",
]
OPS_IN_PATTERN = 14


def program(ops: int) -> tuple[Any, int]:
    """A function of about `ops` tensor operators, and their exact number of lines."""
    lines = []
    count = 0
    while count < ops:
        lines += PATTERN
        count += OPS_IN_PATTERN
    source = "def f(x, y):\n" + "".join(f"    {line}\n" for line in lines)
    scope: dict[str, Any] = {"torch": torch}
    exec(compile(source + "    return x, y\n", f"<{ops} ops>", "exec"), scope)
    return scope["f"], count


def stages(explanation: Any) -> dict[str, float]:
    found = getattr(explanation, "stage_seconds", None)
    return dict(found) if found else {}


def main() -> int:
    import pyjit

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=[100, 1000, 10000])
    options = parser.parse_args()
    x, y = torch.randn(16, 16), torch.randn(16, 16)
    rates = []
    with torch.no_grad():
        compiled = pyjit.compile(program(14)[0])  # what is paid once per process
        compiled(x, y)
        for size in options.sizes:
            f, count = program(size)
            start = time.perf_counter()
            want = f(x, y)
            eager = time.perf_counter() - start
            compiled = pyjit.compile(f)
            start = time.perf_counter()
            compiled(x, y)
            first = time.perf_counter() - start
            have = compiled(x, y)
            stats = pyjit.stats(compiled)
            right = all(
                torch.allclose(a, b, atol=1e-4) for a, b in zip(want, have, strict=True)
            )
            rates.append(count / max(first - eager, 1e-9))
            print(
                f"{count:6} ops: eager {eager:.4f} s, first call {first:.3f} s, "
                f"compiling {stats['compile_seconds']:.3f} s, "
                f"{rates[-1]:,.0f} ops/s, kernels {stats['kernels']}, "
                f"{'same values' if right else 'VALUES DIFFER'}"
                + ("" if stats["hits"] else f"; ran in eager: {stats['reasons']}")
            )
            for stage, spent in stats.get("stage_seconds", {}).items():
                print(f"         {stage:28} {spent:.4f} s")
    if len(rates) > 1:
        print(
            f"slowest rate is {min(rates) / max(rates):.2f} of the fastest (1 = linear)"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
