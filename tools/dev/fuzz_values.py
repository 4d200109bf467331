#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs programs of the lit tests in front of a pass and behind it: the numbers must be the same.

  tools/dev/fuzz_values.py 2000 -j 2           that many programs and passes, numbered from 0
  tools/dev/fuzz_values.py 1 --first 17 --keep /tmp/found

A program is a function of tensors from a lit test, perhaps with other sizes or element types (ir_mutations.py). It runs
with each operator called through Torch, as it is; and once more behind one to three passes, as it is then or compiled
further. Prints each difference, and how many programs ran; exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import functools
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from random import Random

import numpy as np
from ir_cases import Cases, Chunk, Tools
from ir_mutations import element_everywhere, number

ROOT = Path(__file__).resolve().parents[2]
# Those that leave a tensor program what it is.
PASSES = (
    "canonicalize", "cse", "sccp", "tssa-functionalize", "tssa-fold-views", "tssa-hoist-speculations",
    "tssa-reroll-loops=min-saved=1", "tssa-reroll-loops=min-saved=3", "tssa-unroll-loops", "tssa-parallelize-loops",
    "tssa-rewrite-mutation", "library-batch-linears", "library-merge-linears", "library-pad-matmuls",
    "library-plan-attention=columns=16", "library-plan-attention-rows", "library-plan-batch-norms",
    "library-plan-convolutions", "library-plan-convolutions=columns=16", "library-plan-linear", "library-plan-losses",
    "library-plan-matmuls=columns=16", "library-plan-matvecs", "library-plan-images", "fusion-keep-parts",
    "convert-tssa-to-linalg", "batch-loops", "fusion-split-reductions=parts=2", "fusion-outline", "fusion-in-place",
)  # fmt: skip
DTYPES = {"f32": "f4", "f64": "f8", "f16": "f2", "i64": "i8", "i32": "i4", "i16": "i2", "i8": "i1", "ui8": "u1",
          "i1": "?", "complex<f32>": "c8", "complex<f64>": "c16"}  # fmt: skip
MOST = 1 << 16  # elements of an argument


def programs(text: str) -> list[tuple[str, list[str]]]:
    """Functions, and the types of their arguments."""
    found = []
    for match in re.finditer(
        r"^ *func\.func @([\w.$-]+)\((.*?)\)(?: ->|[^\n]*\{$)",
        text,
        re.MULTILINE | re.DOTALL,
    ):
        types = re.findall(
            r"%[\w$.-]+: ([^%]*?)(?: \{[^}]*\})?(?:,\s*(?=%)|$)", match.group(2).strip()
        )
        found.append((match.group(1), [t.strip() for t in types]))
    return found


def argument(type_: str, rng: np.random.Generator) -> np.ndarray | None:
    match = re.fullmatch(
        r"(?:!tssa\.ref<)?tensor<((?:\d+x)*)(\w+(?:<f\d+>)?)>>?", type_
    )
    if not match or match.group(2) not in DTYPES:
        return None
    shape = [int(n) for n in match.group(1).split("x") if n]
    dtype = np.dtype(DTYPES[match.group(2)])
    if np.prod(shape, dtype=float) > MOST:
        return None
    if dtype.kind in "iu":
        return rng.integers(0, 3, shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    values = rng.standard_normal(shape)
    return np.asarray(
        values + 1j * rng.standard_normal(shape) if dtype.kind == "c" else values
    ).astype(dtype)


class Runner:
    def __init__(self, tools: Tools) -> None:
        self.tools = tools

    def results(
        self, text: str, entry: str, arguments: list[Path], words: list[str]
    ) -> list[np.ndarray] | str:
        """What the function returns, or why it returns nothing."""
        with tempfile.TemporaryDirectory(dir=self.tools.folder) as folder:
            given = [f"--arg={path}" for path in arguments]
            done = self.tools.run(
                "pyjit-run",
                [f"--entry={entry}", *given, f"--save={folder}/r", *words],
                text,
            )
            if done.returncode:
                return done.stderr[-1500:] or f"status {done.returncode}"
            files = sorted(
                Path(folder).glob("r*.npy"), key=lambda path: int(path.stem[1:])
            )
            return [np.load(path) for path in files]


def differ(one: list[np.ndarray], other: list[np.ndarray]) -> str:
    if len(one) != len(other):
        return f"{len(one)} results, and {len(other)}"
    for i, (a, b) in enumerate(zip(one, other, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return (
                f"result {i} is {a.dtype}{list(a.shape)}, and {b.dtype}{list(b.shape)}"
            )
        if a.dtype.kind in "fc":
            bound = 2e-2 if a.dtype.itemsize <= 2 else 2e-4
            largest = float(np.max(np.abs(np.where(np.isfinite(a), a, 0)), initial=0.0))
            same = np.isclose(
                a, b, rtol=bound, atol=bound * max(1.0, largest), equal_nan=True
            )
        else:
            same = a == b
        if not np.all(same):
            place = tuple(int(n) for n in np.argwhere(~same)[0]) if a.ndim else ()
            return f"result {i} at {place}: {a[place]}, and {b[place]}, {int(np.sum(~same))} of {a.size}"
    return ""


def changed(text: str, rng: Random, cases: Cases) -> str:
    """A size or an element type is another one everywhere, or a number somewhere."""
    kind = rng.random()
    if kind < 0.2:
        return element_everywhere(text, rng, cases.words)
    sizes = sorted(set(re.findall(r"(?<=[<x])\d+(?=x)", text)))
    if kind < 0.3 or not sizes:
        return number(text, rng, cases.words)
    old, new = (
        rng.choice(sizes),
        rng.choice(("1", "2", "3", "5", "8", "16", "17", "33")),
    )
    # As a number, too: programs say sizes in arguments and views.
    return re.sub(rf"(?<=[<x]){old}(?=x)|(?<![\w.%@#]){old}(?![\w.])", new, text)


@functools.lru_cache(maxsize=1)
def runnable(cases: Cases) -> list[Chunk]:
    """Chunks with a function whose arguments can be made."""
    some = np.random.default_rng(0)
    return [
        chunk
        for chunk in cases.chunks
        if "refgraph." not in chunk.text
        and "cudagraph." not in chunk.text
        and any(
            all(argument(t, some) is not None for t in types)
            for _, types in programs(chunk.text)
        )
    ]


def compare(number_: int, cases: Cases, runner: Runner) -> tuple[str, str]:
    """The outcome of a numbered comparison, and what it says."""
    rng = Random(f"values {number_}")
    chunk = rng.choice(runnable(cases))
    text = chunk.text
    for _ in range(rng.choice((0, 1, 1, 2))):
        text = changed(text, rng, cases)
    entries = programs(text)
    if not entries:
        return "no program", ""
    entry, types = rng.choice(entries)
    values = [
        argument(t, np.random.default_rng(number_ + i)) for i, t in enumerate(types)
    ]
    if any(value is None for value in values):
        return "no arguments", ""
    with tempfile.TemporaryDirectory(dir=runner.tools.folder) as folder:
        paths = [Path(folder) / f"a{i}.npy" for i in range(len(values))]
        for path, value in zip(paths, values, strict=True):
            np.save(path, value)
        first = runner.results(text, entry, paths, ["--depth=operators"])
        if isinstance(first, str):
            return "does not run", first
        repeated = runner.results(text, entry, paths, ["--depth=operators"])
        if isinstance(repeated, str) or differ(first, repeated):
            return "draws", ""
        words = [
            f"--{name}" for name in rng.sample(PASSES, rng.choice((0, 1, 1, 1, 2, 3)))
        ]
        behind = runner.tools.run("pyjit-opt", words, text) if words else None
        if behind and behind.returncode:
            return "refused", behind.stderr[:500]
        # An input that is written in place is another one for the next run.
        how = [
            rng.choice(
                (
                    "--depth=operators",
                    "--depth=kernels",
                    "--depth=fusion",
                    "--device-launch=update",
                )
            )
        ]
        second = runner.results(behind.stdout if behind else text, entry, paths, how)
        said = second if isinstance(second, str) else differ(first, second)
    story = f"{chunk.file} @{entry} {' '.join(words)} {how[0]}"
    if not said:
        return "same", ""
    if isinstance(second, str):
        return "runs no more", f"{story}: {said}"
    return "differs", f"{story}: {said}\n{text}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("programs", type=int)
    parser.add_argument("--first", type=int, default=0, help="number of the first")
    parser.add_argument("--jobs", "-j", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, default=1e9)
    build = Path(os.environ.get("PYJIT_BUILD", ROOT / "build"))
    parser.add_argument(
        "--bin", type=Path, default=build / "bin", help="the folder of the tools"
    )
    parser.add_argument("--keep", type=Path, help="a folder for what differs")
    parser.add_argument(
        "--reasons", action="store_true", help="count why programs do not run"
    )
    options = parser.parse_args()
    reasons: collections.Counter[str] = collections.Counter()
    until = time.monotonic() + 60 * options.minutes
    outcomes: collections.Counter[str] = collections.Counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        concurrent.futures.ThreadPoolExecutor(options.jobs) as pool,
    ):
        tools = Tools(options.bin.resolve(), Path(folder))
        cases, runner = Cases(tools, ROOT), Runner(tools)

        def one(n: int) -> tuple[int, str, str]:
            return n, *(
                compare(n, cases, runner)
                if time.monotonic() < until
                else ("not reached", "")
            )

        for n, outcome, said in pool.map(
            one, range(options.first, options.first + options.programs)
        ):
            outcomes[outcome] += 1
            if options.reasons and outcome == "does not run":
                reasons[said.split("error: ")[-1][:100]] += 1
            if outcome in ("differs", "runs no more"):
                print(f"{n}: {outcome}: {said[:600]}\n", flush=True)
                if options.keep:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    (options.keep / f"{n}.txt").write_text(said)
    print("| outcome | programs |\n| --- | --- |")
    for outcome, count in outcomes.most_common():
        print(f"| {outcome} | {count} |")
    for why, count in reasons.most_common(40):
        print(f"{count:5} {why}")
    return 1 if outcomes["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
