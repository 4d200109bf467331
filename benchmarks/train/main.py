# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`run.py --train`: training steps, case by case, each in a process of its own.

  benchmarks/run.py --train                                 all cases and columns
  benchmarks/run.py --train --only bert,mlp --columns eager,pyjit-model,pyjit-step
  benchmarks/run.py --train --device cuda --record $OUT/train.jsonl --limit 120
  benchmarks/run.py --train --tables a.jsonl b.jsonl --name h100     no run: a page from records

Records are appended to the file (--record; by default beside the page), the later one of a case and a
column counts. The page is benchmarks/results/DATE-train-NAME.md.
"""

from __future__ import annotations

import argparse
import datetime
import time
from pathlib import Path
from typing import Any

import case_process
import torch
from pages import show
from run import RESULTS, machine, versions

from train.cases import CASES
from train.columns import COLUMNS
from train.tables import brief, page

HERE = Path(__file__).resolve().parent


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="run.py --train",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", help=f"cases of: {', '.join(CASES)}")
    parser.add_argument("--columns", default="", help=f"of: {', '.join(COLUMNS)}")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--size", default="", choices=["", "full", "small", "tiny"])
    parser.add_argument("--limit", type=float, default=600, help="seconds a case")
    parser.add_argument("--total", type=float, default=1e9, help="seconds for all; no case begins that might not end")  # fmt: skip
    parser.add_argument("--budget", type=float, default=4, help="of timing, seconds a column")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument(
        "--autocast", default="around", choices=["around", "inside"],
        help="on a GPU: around the call of the compiled model, or within what is compiled",
    )  # fmt: skip
    case_process.page_options(parser)
    options = parser.parse_args(arguments)
    options.size = options.size or ("full" if options.device == "cuda" else "small")
    options.only = [n for n in options.only.split(",") if n] or list(CASES)
    fitting = [n for n, c in COLUMNS.items() if options.device in c.devices]
    options.columns = [n for n in options.columns.split(",") if n] or fitting
    for what, names, all_names in (
        ("case", options.only, CASES),
        ("column", options.columns, COLUMNS),
    ):
        for name in names:
            if name not in all_names:
                parser.error(f"unknown {what} {name}; known: {', '.join(all_names)}")
    # In the order in which columns are set up.
    options.columns = [name for name in COLUMNS if name in options.columns]
    return options


def run_case(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    named = ("device", "size", "autocast", "limit", "budget", "rounds", "threads")
    arguments = [f"--{n}={getattr(options, n)}" for n in named]
    # The process keeps its limit itself, and says what it knows.
    limit = 1.25 * options.limit + 20
    return case_process.run(HERE / "worker.py", name, options.columns, arguments, limit, "ms")  # fmt: skip


def about(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "day": datetime.date.today().isoformat(),
        "device": options.device,
        "size": options.size,
        "autocast": options.autocast,
        "machine": machine(options.device),
        "threads": options.threads or torch.get_num_threads(),
        "versions": versions(),
    }


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    day = datetime.date.today().isoformat()
    word = options.name or f"{options.device}-{options.size}"
    target = RESULTS / f"{day}-train-{word}"
    record = Path(options.record) if options.record else target.with_suffix(".jsonl")
    records: list[dict[str, Any]] = []
    if options.tables:
        files = [Path(file) for file in options.tables]
    else:
        begun = time.monotonic()
        known = about(options)
        for name in options.only:
            if time.monotonic() - begun + options.limit > options.total:
                print(f"{name}: not begun, {options.total:.0f} s do not suffice")
                continue
            found = [{"case": name, **known, **f} for f in run_case(name, options)]
            print(brief(name, found), flush=True)
            records += found
            if options.record or not options.no_file:
                case_process.append(record, found)
        files = [record] if records and record.exists() else []
    if files:
        records = [facts for file in files for facts in case_process.read(file)]
    show(page(records, options.remark), None if options.no_file else target.with_suffix(".md"))  # fmt: skip
    return 0
