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
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
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
    parser.add_argument("--record", default="", help="file of JSON lines")
    parser.add_argument("--tables", nargs="+", default=[], help="files of JSON lines")
    parser.add_argument("--name", default="", help="a word for the file's name")
    parser.add_argument("--remark", default="", help="a sentence for the page")
    parser.add_argument("--no-file", action="store_true", help="print only")
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
    """What is known of each column, whether or not the process came to its end."""
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        command = [
            sys.executable, str(HERE / "worker.py"), name, file.name,
            "--columns", ",".join(options.columns), "--device", options.device,
            "--size", options.size, "--autocast", options.autocast,
            "--limit", str(options.limit), "--budget", str(options.budget),
            "--rounds", str(options.rounds), "--threads", str(options.threads),
        ]  # fmt: skip
        fault = ""
        grace = 0.25 * options.limit + 20
        try:
            done = subprocess.run(
                command, timeout=options.limit + grace, stderr=subprocess.PIPE,
                text=True, check=False,
            )  # fmt: skip
            if done.returncode:
                fault = f"the process ended with {done.returncode}"
                print(done.stderr[-2000:], file=sys.stderr)
        except subprocess.TimeoutExpired:
            fault = f"no end within {options.limit + grace:.0f} s"
        known = {column: {"column": column} for column in options.columns}
        for line in Path(file.name).read_text().splitlines():
            facts = json.loads(line)
            known[facts["column"]] = facts
    for facts in known.values():
        if "ms" not in facts and "error" not in facts:
            facts["error"] = fault or "not timed"
    return list(known.values())


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
                with record.open("a") as file:
                    file.writelines(json.dumps(facts) + "\n" for facts in found)
        files = [record] if records and record.exists() else []
    if files:
        lines = [line for file in files for line in file.read_text().splitlines()]
        records = [json.loads(line) for line in lines]
    text = page(records, options.remark)
    print("\n" + text)
    if not options.no_file:
        RESULTS.mkdir(exist_ok=True)
        target.with_suffix(".md").write_text(text)
        print(f"written: {target.with_suffix('.md')}")
    return 0
