#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generation with transformers: eager, torch.compile as transformers sets it up, and pyjit, case by case.

  benchmarks/generate.py                                   all models
  benchmarks/generate.py gpt2 llama-160m --batch 1,8
  benchmarks/generate.py --device cuda --dtype float16
  benchmarks/generate.py --tables a.jsonl b.jsonl --name h100     no run: a page from records

Each case runs in a process of its own. Records are appended to the file (--record; by default beside the
page), the later one of a case, batch and column counts. The page is
benchmarks/results/DATE-generate-NAME.md.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import case_process
import torch
from generation.cases import CASES
from generation.columns import COLUMNS
from generation.tables import ALLOWED, brief, page
from pages import show
from run import RESULTS, machine, versions

HERE = Path(__file__).resolve().parent
#: New tokens of a large model on a CPU, whose memory feeds it a few times a second.
FEW = 32


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", help=", ".join(CASES))
    parser.add_argument("--columns", default=",".join(COLUMNS))
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--dtype", default="", choices=["", *ALLOWED], help="float16 on a GPU, float32 on a CPU")  # fmt: skip
    parser.add_argument("--size", default="full", choices=["full", "tiny"])
    parser.add_argument("--batch", default="1", help="one or several, divided by commas")  # fmt: skip
    parser.add_argument("--prompt", type=int, default=64, help="tokens of the prompt")
    parser.add_argument("--new", type=int, default=128, help=f"tokens that are generated; large models on a CPU: at most {FEW}")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm", type=int, default=2, help="calls before anything is timed, beside three")  # fmt: skip
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--limit", type=float, default=900, help="seconds a case")
    case_process.page_options(parser)
    options = parser.parse_args(arguments)
    gpu = options.device == "cuda"
    options.dtype = options.dtype or ("float16" if gpu else "float32")
    options.cases = options.cases or list(CASES)
    options.columns = [c for c in COLUMNS if c in options.columns.split(",")]
    for name in options.cases:
        if name not in CASES:
            parser.error(f"unknown case {name}; known: {', '.join(CASES)}")
    if not options.columns:
        parser.error(f"no column; known: {', '.join(COLUMNS)}")
    return options


def new_tokens(name: str, options: argparse.Namespace) -> int:
    slow = CASES[name].large and options.device == "cpu" and options.size == "full"
    return min(options.new, FEW) if slow else options.new


def run_case(name: str, batch: int, options: argparse.Namespace) -> list[dict[str, Any]]:  # fmt: skip
    named = ("device", "size", "dtype", "prompt", "rounds", "warm", "threads")
    arguments = [f"--{n}={getattr(options, n)}" for n in named]
    arguments += [f"--batch={batch}", f"--new={new_tokens(name, options)}"]
    worker = HERE / "generation" / "worker.py"
    return case_process.run(worker, name, options.columns, arguments, options.limit, "seconds")  # fmt: skip


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    day = datetime.date.today().isoformat()
    target = RESULTS / f"{day}-generate-{options.name or options.device}"
    record = Path(options.record) if options.record else target.with_suffix(".jsonl")
    records: list[dict[str, Any]] = []
    for file in options.tables:
        records += case_process.read(Path(file))
    about = {
        "day": day, "machine": machine(options.device), "versions": versions(),
        "threads": options.threads or torch.get_num_threads(),
        **{n: getattr(options, n) for n in ("device", "dtype", "prompt", "rounds")},
    }  # fmt: skip
    pairs = [(name, int(batch)) for name in options.cases for batch in options.batch.split(",")]  # fmt: skip
    for name, batch in [] if options.tables else pairs:
        known = {"case": name, "batch": batch, "new": new_tokens(name, options), **about}  # fmt: skip
        found = [{**known, **facts} for facts in run_case(name, batch, options)]
        print(brief(f"{name}, {batch}", found), flush=True)
        records += found
        if options.record or not options.no_file:
            case_process.append(record, found)
    show(page(records, options.remark), None if options.no_file else target.with_suffix(".md"))  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
