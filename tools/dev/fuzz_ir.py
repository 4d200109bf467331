#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gives the tools IR that nobody has written: each must answer with valid IR, or with an error that says where.

  tools/dev/fuzz_ir.py 20000 -j 2              that many cases, numbered from 0
  tools/dev/fuzz_ir.py 1 --first 4711 --show   one case: its command, and its text
  tools/dev/fuzz_ir.py 1000000 --minutes 30    ends in time, and says how far it came
  tools/dev/fuzz_ir.py 5000 --bin build-checked/bin --keep /tmp/found

A case is one of the inputs of the lit tests, perhaps as some passes leave it, perhaps mutated (ir_mutations.py), and a
tool with arguments that are chosen at random (ir_cases.py); its number makes it again. What is wrong of a tool: a
signal, an abort, no end; an error without a place, or a failure without an error; invalid IR that a pass leaves of
valid IR; output that does not parse. Prints a table of outcomes, and each class of findings once with the numbers of
its cases; exits with 1 if there is one. A build with assertions finds more (docs/Building.md says how to make one).
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import functools
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ir_cases import ENDLESS, Case, Cases, Tools

ROOT = Path(__file__).resolve().parents[2]
BASE = 0x555555554000  # where Linux puts a program that it does not put elsewhere each time
SYMBOLIZER = "/usr/lib/llvm-22/bin/llvm-symbolizer"

OK, REFUSED = "ok", "refused"
# Crashes of MLIR itself, by the function where they happen: not ours to mend.
UPSTREAM = {
    "mlir::FloatType::getWidth < mlir::Type::getIntOrFloatBitWidth < mlir::detail::Parser::parseDenseArrayAttr": (
        "array<complex<f32>: ...>"
    ),
}
# Said of launch programs alone, which tensor programs that never end, or planned memory, become.
LATE = re.compile(
    "reads a buffer that nothing has written yet|never writes its condition, so no iteration"
)


@dataclass
class Finding:
    kind: str
    signature: str
    detail: str = ""
    cases: list[int] = field(default_factory=list)


def judge(tools: Tools, case: Case) -> Finding:
    """What became of a case."""
    done = tools.run(case.tool, case.words, case.text)
    if done.returncode == ENDLESS:
        return Finding(
            "endless",
            " ".join([case.tool, *(word.split("=")[0] for word in case.words)]),
        )
    if done.returncode not in (0, 1):
        where = crashed_in(tools.bin / case.tool, done.stderr)
        if any(known in where for known in UPSTREAM):
            return Finding("crash of MLIR itself", where)
        return Finding("crash", where, done.stderr[-3000:])
    # MLIR's driver adds an error that says nothing where it refuses an option.
    errors = re.findall(r"^(?:(.*?): )?error: (.+)$", done.stderr, re.MULTILINE)
    if done.returncode == 0:
        if errors and case.tool != "pyjit-lsp-server":
            return Finding("error, yet success", shape(errors[0][1]))
        return (
            again(tools, done.stdout)
            if case.tool == "pyjit-opt" and case.number % 4 == 0
            else Finding(OK, "")
        )
    return refusal(tools, case, done.stderr, errors)


def again(tools: Tools, text: str) -> Finding:
    """Whether what a tool prints is IR."""
    done = tools.run("pyjit-opt", [], text)
    if done.returncode == 0:
        return Finding(OK, "")
    said = re.search(r"error: (.*)", done.stderr)
    return Finding(
        "prints what does not parse",
        shape(said.group(1) if said else done.stderr[:100]),
        done.stderr[:1500],
    )


def refusal(
    tools: Tools, case: Case, err: str, errors: list[tuple[str, str]]
) -> Finding:
    told = [line for line in err.splitlines() if line.strip()]
    if not errors:
        # LLVM's parsers refuse options without a place.
        fine = bool(told) and (case.tool in told[0] or "LLVM ERROR: " in told[0])
        return Finding(
            REFUSED if fine else "failure without an error",
            shape(err[:200]),
            err[-1500:],
        )
    place, message = errors[0]
    of_operation = (
        case.tool == "pyjit-opt"
        and case.words
        and re.search(r"'[\w.]+' op |^operand #|^block ", message)
    )
    if (
        of_operation
        and not LATE.search(message)
        and tools.run("pyjit-opt", [], case.text).returncode == 0
        and tools.run(
            "pyjit-opt", [*case.words, "--verify-each=false"], case.text
        ).returncode
        != 1
    ):
        return Finding("a pass left invalid IR", shape(message), err[:1500])
    if re.match(r"<unknown>|loc\(unknown\)", place):
        return Finding("error without a place", shape(message), err[:1500])
    return Finding(REFUSED, shape(message))


def crashed_in(binary: Path, err: str) -> str:
    """A crash by what it says and by the innermost functions that have names."""
    said = re.search(
        r"Assertion [`'](.*)' failed|LLVM ERROR: (.*)|what\(\): *(.*)|(terminate called.*)",
        err,
    )
    text = next((group for group in said.groups() if group), "") if said else ""
    frames = re.findall(
        r"^ ?#?\d+ +(\S+) +0x([0-9a-f]+)(?: (.*) \+ \d+)?", err, re.MULTILINE
    )
    if not frames and not text:
        return "no stack: " + shape(err[-200:])
    names = []
    for module, address, name in frames:
        if module == binary.name:
            name = function_at(binary, int(address, 16) - 1 - BASE)
        name = re.sub(r"\(.*", "", name)
        if name and not re.search(
            r"llvm::sys|^(gsignal|abort|raise|__assert_fail|pthread_kill)$|__cxa", name
        ):
            names.append(name)
    return shape(f"{text} in {' < '.join(names[:4])}")


@functools.lru_cache(maxsize=65536)
def function_at(binary: Path, address: int) -> str:
    try:
        done = subprocess.run(
            [SYMBOLIZER, f"--obj={binary}", "--basenames", hex(address)],
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return hex(address)
    lines = done.stdout.strip().splitlines()
    # Of inlined functions the first that is in a source file of ours.
    for name, place in zip(lines[::2], lines[1::2], strict=False):
        if re.match(r"[A-Z]\w+\.cpp", place):
            own = name.split("(")[0].replace("(anonymous namespace)", "")
            return f"{own} [{place.rsplit(':', 1)[0].replace(':', '.')}]"
    return lines[-2] if len(lines) > 1 else ""


def shape(message: str) -> str:
    """A message without what differs between cases."""
    message = re.sub(r"[!#]?[\w.]*<.*>", "<>", message)
    message = re.sub(r"'?[%@][\w$.#:-]+'?", "%", message)
    message = re.sub(r"/\S+\.mlir", "FILE", message)
    return re.sub(r"-?(?<!cpp\.)\b\d+\b|(?<=[a-z])\d+", "N", message).replace(
        "\n", " "
    )[:300]


def run(
    tools: Tools, cases: Cases, numbers: range, jobs: int, until: float
) -> Iterator[tuple[Case, Finding]]:
    def one(number: int) -> tuple[Case, Finding] | None:
        if time.monotonic() > until:
            return None
        case = cases.case(number)
        return case, judge(tools, case)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        # Not all at once: numbers may be many.
        for first in range(numbers.start, numbers.stop, 1000):
            some = range(first, min(first + 1000, numbers.stop))
            yield from filter(None, pool.map(one, some))
            if time.monotonic() > until:
                return


def keep(folder: Path, case: Case, finding: Finding) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    head = f"// {case.command()}\n// {case.story}\n// {finding.kind}: {finding.signature}\n"
    (folder / f"{case.number}.mlir").write_text(head + case.text)


def report(
    kinds: collections.Counter[str], found: dict[tuple[str, str], Finding], first: int
) -> None:
    print("\n| outcome | cases |\n| --- | --- |")
    for kind, count in kinds.most_common():
        print(f"| {kind} | {count} |")
    print(f"| all, from {first} | {sum(kinds.values())} |\n")
    for (kind, signature), finding in sorted(
        found.items(), key=lambda entry: -len(entry[1].cases)
    ):
        print(
            f"{len(finding.cases):5} {kind}: {signature}: {', '.join(map(str, finding.cases[:8]))}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", type=int)
    parser.add_argument("--first", type=int, default=0, help="number of the first")
    parser.add_argument("--jobs", "-j", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, default=1e9)
    build = Path(os.environ.get("PYJIT_BUILD", ROOT / "build"))
    parser.add_argument(
        "--bin", type=Path, default=build / "bin", help="the folder of the tools"
    )
    parser.add_argument(
        "--keep", type=Path, help="a folder for cases that find something"
    )
    parser.add_argument(
        "--show", action="store_true", help="print cases instead of running them"
    )
    parser.add_argument(
        "--refusals", action="store_true", help="count what is refused, by message"
    )
    options = parser.parse_args()

    found: dict[tuple[str, str], Finding] = {}
    kinds: collections.Counter[str] = collections.Counter()
    refusals: collections.Counter[str] = collections.Counter()
    numbers = range(options.first, options.first + options.cases)
    with tempfile.TemporaryDirectory() as folder:
        tools = Tools(options.bin.resolve(), Path(folder))
        cases = Cases(tools, ROOT)
        if options.show:
            for number in numbers:
                case = cases.case(number)
                print(f"// {number}: {case.story}\n// {case.command()}\n{case.text}")
            return 0
        until = time.monotonic() + 60 * options.minutes
        for case, finding in run(tools, cases, numbers, options.jobs, until):
            kinds[finding.kind] += 1
            if finding.kind == REFUSED:
                refusals[finding.signature] += 1
            if finding.kind in (OK, REFUSED, "crash of MLIR itself"):
                continue
            known = found.setdefault((finding.kind, finding.signature), finding)
            known.cases.append(case.number)
            if known is finding:
                print(
                    f"{case.number}: {finding.kind}: {finding.signature}\n    {case.command()}",
                    flush=True,
                )
            if options.keep:
                keep(options.keep, case, finding)
    report(kinds, found, options.first)
    if options.refusals:
        for text, count in refusals.most_common():
            print(f"{count:5} {text}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
