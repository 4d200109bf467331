#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generation with transformers: eager, torch.compile as transformers sets it up, and pyjit, case by case.

  benchmarks/generate.py                                   what a CPU takes in minutes
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
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from generation.cases import CASES
from generation.columns import COLUMNS
from generation.tables import ALLOWED, brief, page
from run import RESULTS, machine, versions

HERE = Path(__file__).resolve().parent


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
    parser.add_argument("--new", type=int, default=128, help="tokens that are generated")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm", type=int, default=2, help="calls before anything is timed, beside three")  # fmt: skip
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--limit", type=float, default=900, help="seconds a case")
    parser.add_argument("--record", default="", help="file of JSON lines")
    parser.add_argument("--tables", nargs="+", default=[], help="files of JSON lines")
    parser.add_argument("--name", default="", help="a word for the file's name")
    parser.add_argument("--remark", default="", help="a sentence for the page")
    parser.add_argument("--no-file", action="store_true", help="print only")
    options = parser.parse_args(arguments)
    gpu = options.device == "cuda"
    options.dtype = options.dtype or ("float16" if gpu else "float32")
    options.cases = options.cases or [
        name for name, case in CASES.items() if gpu or options.size == "tiny" or not case.large
    ]  # fmt: skip
    options.columns = [c for c in COLUMNS if c in options.columns.split(",")]
    for name in options.cases:
        if name not in CASES:
            parser.error(f"unknown case {name}; known: {', '.join(CASES)}")
    if not options.columns:
        parser.error(f"no column; known: {', '.join(COLUMNS)}")
    return options


def run_case(name: str, batch: int, options: argparse.Namespace) -> list[dict[str, Any]]:  # fmt: skip
    """What is known of each column, whether or not the process came to its end."""
    numbers = ("prompt", "new", "rounds", "warm", "threads")
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        command = [
            sys.executable, str(HERE / "generation" / "worker.py"), name, file.name,
            "--columns", ",".join(options.columns), "--batch", str(batch),
            *(f"--{n}={getattr(options, n)}" for n in ("device", "size", "dtype", *numbers)),
        ]  # fmt: skip
        fault = ""
        try:
            done = subprocess.run(
                command, timeout=options.limit, stderr=subprocess.PIPE, text=True, check=False
            )  # fmt: skip
            if done.returncode:
                fault = f"the process ended with {done.returncode}"
                print(done.stderr[-2000:], file=sys.stderr)
        except subprocess.TimeoutExpired:
            fault = f"no end within {options.limit:.0f} s"
        known = {column: {"column": column} for column in options.columns}
        for line in Path(file.name).read_text().splitlines():
            facts = json.loads(line)
            known[facts["column"]] = facts
    for facts in known.values():
        if "seconds" not in facts and "error" not in facts:
            facts["error"] = fault or "not timed"
    return list(known.values())


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    day = datetime.date.today().isoformat()
    target = RESULTS / f"{day}-generate-{options.name or options.device}"
    record = Path(options.record) if options.record else target.with_suffix(".jsonl")
    records: list[dict[str, Any]] = []
    for file in options.tables:
        records += [json.loads(line) for line in Path(file).read_text().splitlines()]
    about = {
        "day": day, "machine": machine(options.device), "versions": versions(),
        "threads": options.threads or torch.get_num_threads(),
        **{n: getattr(options, n) for n in ("device", "dtype", "prompt", "new", "rounds")},
    }  # fmt: skip
    pairs = [(name, int(batch)) for name in options.cases for batch in options.batch.split(",")]  # fmt: skip
    for name, batch in [] if options.tables else pairs:
        known = {"case": name, "batch": batch, **about}
        found = [{**known, **facts} for facts in run_case(name, batch, options)]
        print(brief(f"{name}, {batch}", found), flush=True)
        records += found
        if options.record or not options.no_file:
            with record.open("a") as file:
                file.writelines(json.dumps(facts) + "\n" for facts in found)
    text = page(records, options.remark)
    print("\n" + text)
    if not options.no_file:
        RESULTS.mkdir(exist_ok=True)
        target.with_suffix(".md").write_text(text)
        print(f"written: {target.with_suffix('.md')}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
