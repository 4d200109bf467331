#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How much of what people run does pyjit capture, and does it answer as eager does?

Runs a named set of models and programs (``benchmarks/zoo/``), each in a process of its own
with a time limit: random weights, small configurations, no downloads. Each program is
called by eager, then by pyjit twice on the same input, on other values, on another shape,
and on the first again. Results are compared in structure, type, dtype, shape, strides and
value; so are the arguments and the module's state afterwards.

  benchmarks/breadth.py                      everything
  benchmarks/breadth.py torchvision idioms   some families
  benchmarks/breadth.py -k resnet            names that contain a word
  benchmarks/breadth.py -k resnet --here     in this process, with the traceback
  benchmarks/breadth.py --list               the names
  benchmarks/breadth.py --device cuda        modules and inputs on the GPU

  benchmarks/breadth.py -j 16            so many programs at once
  benchmarks/breadth.py --grad           in grad mode, with gradients (zoo/gradients.py)
  benchmarks/breadth.py --grad train     the same, modules in training mode

Each program is timed against eager in turns, when it has settled; where it seems to be behind, again
without neighbours. Results go to the terminal as they come, to ``--json`` (merged with what is there, so that
batches add up) and, with ``--write``, as a table to benchmarks/results/.

A difference that is rounding: where a float32 result is off by more than the tolerance,
both runs are compared with the same program in float64; pyjit may be four times as far
from it as eager is.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import re
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tools/dev")]

import separately
import torch
from zoo import FAMILIES, Program, load
from zoo.examine import examine, on_device
from zoo.gradients import examine_gradients
from zoo.tables import (
    behind,
    frequencies,
    headline,
    is_one_graph,
    row,
    summary,
    tidy,
    verdict,
    write,
)

RESULTS = HERE / "results"


class Known(dict[str, Any]):
    """What was found, by name; kept in a file if there is one."""

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        self.path = path
        if path and path.exists():
            self.update((f["name"], f) for f in json.loads(path.read_text()))

    def save(self) -> None:
        if self.path:
            self.path.write_text(json.dumps(list(self.values()), default=str))


def examined(program: Program, grad: str = "") -> dict[str, Any]:
    """What a process of its own finds out about a program."""
    try:
        found = examination(grad)(program)
    except BaseException as error:
        text = traceback.format_exc().strip().splitlines()
        found = {"error": f"{type(error).__name__}: {error}"[:300], "trace": text[-8:]}
    return json.loads(json.dumps(found, default=str))


def examination(grad: str) -> Callable[[Program], dict[str, Any]]:
    if not grad:
        return examine
    return functools.partial(examine_gradients, train=grad == "train")


def examine_all(
    programs: list[Program],
    processes: int,
    limit: float,
    known: Known,
    grad: str = "",
) -> None:
    """Adds what is found to ``known``, by name, and prints it as it comes."""
    work = functools.partial(examined, grad=grad)
    outcomes = separately.run(work, programs, processes=processes, limit=limit)
    for number, outcome in enumerate(outcomes):
        found = {"name": outcome.job.name, "family": outcome.job.family}
        if outcome.lost:
            late = "took more" in outcome.lost
            found["error" if late else "crash"] = outcome.lost
        known[outcome.job.name] = found | (outcome.value or {})
        tell(known[outcome.job.name])
        if number % 20 == 19:
            known.save()
    known.save()


def tell(found: dict[str, Any]) -> None:
    print(" · ".join(row(found)), flush=True)
    for line in found.get("differences", [])[1:4]:
        print("    ", tidy(line), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("families", nargs="*", help=", ".join(FAMILIES))
    parser.add_argument("-k", default="", help="only names that match this pattern")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--grad", nargs="?", const="eval", choices=["eval", "train"])
    parser.add_argument("--limit", type=float, default=120, help="seconds per program")
    parser.add_argument("--jobs", "-j", type=int, default=1, help="programs at once")
    parser.add_argument("--json", type=Path, help="keep results here, merged")
    parser.add_argument("--write", type=Path, nargs="?", const=True, help="the table")
    parser.add_argument("--here", action="store_true", help="in this process")
    parser.add_argument("--list", action="store_true", help="names only")
    parser.add_argument("--retry", action="store_true", help="those not yet right")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    known = Known(options.json)
    programs = load(options.families or list(FAMILIES))
    programs = [on_device(p, options.device) for p in programs]
    chosen = [p for p in programs if re.search(options.k, p.name)]
    if options.retry:
        chosen = [
            p
            for p in chosen
            if verdict(known.get(p.name, {"error": ""})) != "equal"
            or not is_one_graph(known[p.name])
        ]
    if options.list:
        print("\n".join(p.name for p in chosen))
        return 0
    if options.here:
        for program in chosen:
            known[program.name] = examination(options.grad)(program)
            tell(known[program.name])
    elif not (options.write and options.json):
        examine_all(chosen, options.jobs, options.limit, known, options.grad)
        slow = {found["name"] for found in behind(list(known.values()))}
        again = [program for program in chosen if program.name in slow]
        if options.jobs > 1 and again:
            print(f"\n{len(again)} seemed behind eager; without neighbours:")
            examine_all(again, 1, options.limit, known, options.grad)
    known.save()
    order = {p.name: i for i, p in enumerate(programs)}
    results = sorted(known.values(), key=lambda f: order.get(f["name"], 1 << 30))
    print("\n" + headline(results) + "\n\n" + summary(results))
    print("\n" + frequencies(results))
    if options.write:
        day = datetime.date.today().isoformat()
        word = "coverage" if options.device == "cpu" else f"coverage-{options.device}"
        word += f"-grad-{options.grad}" if options.grad else ""
        path = RESULTS / f"{day}-{word}.md" if options.write is True else options.write
        write(results, path, options.device, options.jobs, options.grad)
    chosen_now = [known[program.name] for program in chosen if program.name in known]
    return 1 if any(verdict(f) in ("CRASH", "DIFFERS") for f in chosen_now) else 0


if __name__ == "__main__":
    raise SystemExit(main())
