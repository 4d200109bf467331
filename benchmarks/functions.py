#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Single functions on the CPU, pyjit against eager, with the comparison off that leaves slow programs to eager.

A kernel that is slower than eager's loses all that a program gains around it, and is not seen in a program's time, for
eager answers then. Values are compared first; the two take turns, medians. The table has what takes more than
--at-least times eager's, all with 0.

  benchmarks/functions.py                      every function, in float32, float64 and bfloat16
  benchmarks/functions.py tan sum --dtype float64
"""

from __future__ import annotations

import argparse
import datetime
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measure
import pages
import pyjit
import torch
import torch.nn.functional as F

RESULTS = Path(__file__).resolve().parent / "results"
UNARY = [
    "exp",
    "expm1",
    "exp2",
    "log",
    "log2",
    "log10",
    "log1p",
    "tanh",
    "erf",
    "erfc",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "asinh",
    "atanh",
    "sqrt",
    "rsqrt",
    "sigmoid",
    "lgamma",
    "digamma",
    "erfinv",
    "reciprocal",
]
BINARY: dict[str, Callable[..., Any]] = {
    "atan2": torch.atan2,
    "pow": torch.pow,
    "fmod": torch.fmod,
    "remainder": torch.remainder,
    "hypot": torch.hypot,
    "xlogy": torch.xlogy,
    "floored quotient": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "gelu": lambda a, b: F.gelu(a - b),
    "elu": lambda a, b: F.elu(a - b),
    "softplus": lambda a, b: F.softplus(a - b),
    "mish": lambda a, b: F.mish(a - b),
    "stack, last": lambda a, b: torch.stack([a, b], -1),
    "join, last": lambda a, b: torch.cat([a, b], -1),
    "sum of rows": lambda a, b: a.sum(0),
    "sum of columns": lambda a, b: a.sum(1),
    "variance of rows": lambda a, b: a.var(0),
    "softmax": lambda a, b: a.softmax(1),
    "softmax of rows": lambda a, b: a.softmax(0),
    "layer norm": lambda a, b: F.layer_norm(a, a.shape[1:]),
    "batch norm": lambda a, b: F.batch_norm(a, None, None, training=True),
    "transposed sum": lambda a, b: (a.t() + b.t()).contiguous(),
}


def functions() -> dict[str, Callable[..., Any]]:
    """By name, of two operands. Each a function of its own: pyjit knows one by its code."""
    made: dict[str, Callable[..., Any]] = {}
    for name in UNARY:
        scope = {"function": getattr(torch, name)}
        made[name] = eval("lambda a, b: function(a)", scope)
    for name, function in BINARY.items():
        is_lambda = inspect.isfunction(function)
        scope = {"function": function}
        made[name] = (
            function if is_lambda else eval("lambda a, b: function(a, b)", scope)
        )
    return made


def times(function: Callable[..., Any], operands: tuple[torch.Tensor, ...], budget: float) -> tuple[float, float]:  # fmt: skip
    """Microseconds of eager and of pyjit. Raises AssertionError where they differ."""
    fast = pyjit.compile(
        function, options={"compare_with_eager": False, "strict": True}
    )
    for _ in range(3):
        have = fast(*operands)
    torch.testing.assert_close(
        have, function(*operands), rtol=2e-2 if have.dtype == torch.bfloat16 else 1e-4, atol=1e-4, equal_nan=True
    )  # fmt: skip
    runners = {"eager": lambda: function(*operands), "pyjit": lambda: fast(*operands)}
    found = measure.interleaved(runners, budget=budget)
    return found["eager"] * 1e6, found["pyjit"] * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="beginnings of names")
    parser.add_argument("--dtype", default="float32,float64,bfloat16")
    parser.add_argument("--rows", type=int, default=512, help="of 512 elements")
    parser.add_argument("--at-least", type=float, default=1.1)
    parser.add_argument("--budget", type=float, default=0.4, help="seconds each")
    parser.add_argument("--name", default="cpu", help="of the page")
    parser.add_argument("--no-file", action="store_true", help="print only")
    options = parser.parse_args()
    torch.set_num_threads(1)
    chosen = {
        name: f
        for name, f in functions().items()
        if not options.names or name.startswith(tuple(options.names))
    }
    if not chosen:
        parser.error(f"no function begins so: {', '.join(options.names)}")
    lines = pages.heading(["function", "dtype", "eager us", "pyjit us", "eager : pyjit"])  # fmt: skip
    for dtype in options.dtype.split(","):
        torch.manual_seed(0)
        shape = (options.rows, 512)
        operands = tuple(
            (torch.rand(shape) * 0.9 + low).to(getattr(torch, dtype))
            for low in (0.05, 0.5)
        )
        for name, function in chosen.items():
            with torch.no_grad():
                eager, ours = times(function, operands, options.budget)
            if ours >= options.at_least * eager:
                lines.append(pages.row([name, dtype, f"{eager:.0f}", f"{ours:.0f}", pages.ratio(eager / ours)]))  # fmt: skip
                print(lines[-1], flush=True)
    day = datetime.date.today().isoformat()
    text = "\n".join(
        [
            f"# Functions on a CPU, {day}",
            "",
            *pages.prose(
                f"One thread, {options.rows} x 512 elements, torch {torch.__version__}, the comparison with eager off. "
                f"{len(chosen)} functions in {options.dtype}; the table has those that take at least "
                f"{options.at_least} times eager's."
            ),
            "",
            *lines,
            "",
        ]
    )
    pages.show(text, None if options.no_file else RESULTS / f"{day}-functions-{options.name}.md")  # fmt: skip


if __name__ == "__main__":
    main()
