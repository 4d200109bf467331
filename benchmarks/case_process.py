# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A case in a process of its own, which says what is known of each column in a file of JSON lines.

A process that crashes or does not end loses no more than what it had not said: `run` is the side that starts it,
`answer` its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

Facts = dict[str, Any]


def run(
    worker: Path, case: str, columns: list[str], arguments: list[str], limit: float, timed: str
) -> list[Facts]:  # fmt: skip
    """What is known of each column, whether or not the process came to its end within `limit` seconds.

    timed: the fact that a column has once it is timed; without it and an error, the process's end is the error.
    """
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        command = [sys.executable, str(worker), case, file.name, "--columns", ",".join(columns)]  # fmt: skip
        fault = ""
        try:
            done = subprocess.run(
                [*command, *arguments], timeout=limit, stderr=subprocess.PIPE, text=True, check=False
            )  # fmt: skip
            if done.returncode:
                fault = f"the process ended with {done.returncode}"
                print(done.stderr[-2000:], file=sys.stderr)
        except subprocess.TimeoutExpired:
            fault = f"no end within {limit:.0f} s"
        known = {column: {"column": column} for column in columns}
        known |= {facts["column"]: facts for facts in read(Path(file.name))}
    for facts in known.values():
        if timed not in facts and "error" not in facts:
            facts["error"] = fault or "not timed"
    return list(known.values())


def read(file: Path) -> list[Facts]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def append(file: Path, found: list[Facts]) -> None:
    with file.open("a") as record:
        record.writelines(json.dumps(facts) + "\n" for facts in found)


def page_options(parser: argparse.ArgumentParser) -> None:
    """Options of the side that starts processes: where records and the page go."""
    parser.add_argument("--record", default="", help="file of JSON lines")
    parser.add_argument("--tables", nargs="+", default=[], help="files of JSON lines")
    parser.add_argument("--name", default="", help="a word for the file's name")
    parser.add_argument("--remark", default="", help="a sentence for the page")
    parser.add_argument("--no-file", action="store_true", help="print only")


def worker_options(description: str | None) -> argparse.ArgumentParser:
    """Those of the process of a case."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("case")
    parser.add_argument("file")
    parser.add_argument("--columns", required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--size", required=True)
    parser.add_argument("--threads", type=int, default=0)
    return parser


def reason_of(error: Exception) -> str:
    """One line for the page."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def answer(
    options: argparse.Namespace,
    run: Callable[[argparse.Namespace, Callable[[Facts], None]], None],
) -> None:
    """Runs a case, which says facts of a column, the later ones in place of the earlier, and ends the process."""
    warnings.simplefilter("ignore")
    if options.threads:
        torch.set_num_threads(options.threads)
    run(options, lambda facts: append(Path(options.file), [facts]))
    sys.stdout.flush()
    # Libraries take their time to shut down, and need not.
    os._exit(0)
