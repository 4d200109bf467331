#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs every kind of test on an existing set-up and sums the results.

The last line printed is always `N passed, N failed, N skipped`; the exit status
is 0 only when nothing failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
REPORTS = BUILD / "test-reports"
VENV = ROOT / ".venv" / "bin"
# Exit status of pytest where no test was asked for.
NOTHING_COLLECTED = 5
# The CPython beside the main one, and how much of the tests runs on it.
OTHER = "3.13"
OTHERS_PART = 0.1
# Of a test that goes through the operator table or through what PyTorch defines,
# so many cases, other ones with each commit: CI has no more time for it.
MOST_CASES = 36
# When `tools/dev/test.sh` began, and the seconds that the whole of it should take.
BEGAN = "PYJIT_TEST_BEGAN"
WANTED = 44 * 60
# What the sample takes, with the part on the other CPython, on a machine where set-up and build from
# nothing take one (CI, 2026-12-01: 1,520 s, and 1,800 s for two thirds of it).
SAMPLE_PER_BUILD = 1.8


@dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
        )

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def call(command: list[str | Path], **environment: str) -> int:
    print("+", " ".join(str(word) for word in command), flush=True)
    return subprocess.run(
        command, cwd=ROOT, check=False, env={**os.environ, **environment}
    ).returncode


def from_junit(report: Path, status: int) -> Count:
    """Counts a JUnit file; a runner that died without one counts as one failure."""
    count = Count()
    try:
        cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return Count(failed=1)
    for case in cases:
        if case.find("failure") is not None or case.find("error") is not None:
            count.failed += 1
        elif case.find("skipped") is not None or case.get("status") in (
            "notrun",
            "disabled",
        ):
            count.skipped += 1
        else:
            count.passed += 1
    if status != 0 and count.failed == 0:
        count.failed = 1
    return count


def one(status: int) -> Count:
    return Count(passed=1) if status == 0 else Count(failed=1)


def run_layering(_: argparse.Namespace) -> Count:
    checks = (
        "check_layering.py",
        "check_structure.py",
        "check_operator_names.py",
        "check_licenses.py",
    )
    return sum(
        (one(call([sys.executable, f"tools/dev/{check}"])) for check in checks), Count()
    )


def run_format(_: argparse.Namespace) -> Count:
    return one(call(["tools/dev/format.sh", "--check"]))


def run_build(_: argparse.Namespace) -> Count:
    built = one(call(["tools/dev/build.sh"]))
    # A header that is generated without anybody waiting for it: builds from nothing
    # fail now and then.
    return built + one(call(["ninja", "-C", BUILD, "-t", "missingdeps"]))


def run_lit(options: argparse.Namespace) -> Count:
    report = REPORTS / "lit.xml"
    status = call(
        [VENV / "lit", "-sv", f"-j{options.jobs}", f"--xunit-xml-output={report}"]
        + [BUILD / "test"]
    )
    return from_junit(report, status)


def run_gtest(options: argparse.Namespace) -> Count:
    report = REPORTS / "ctest.xml"
    status = call(
        ["ctest", "--test-dir", BUILD, "--output-on-failure", "--no-tests=error"]
        + [f"-j{options.jobs}", "--output-junit", report]
    )
    return from_junit(report, status)


def run_pytest(options: argparse.Namespace) -> Count:
    return pytest(VENV / "python", "pytest", options, *sample(options))


def sample(options: argparse.Namespace) -> list[str]:
    """What pytest is told to run less than everything, drawn by the commit."""
    if options.whole:
        return []
    seed = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return [f"--most={MOST_CASES}", f"--part-seed={seed}", *what_fits(options)]


def what_fits(options: argparse.Namespace) -> list[str]:
    """Of the sample, a part, where set-up and build took so long that all of it would not end in time."""
    built = options.began - float(os.environ.get(BEGAN, options.began))
    part = (WANTED - built) / max(1.0, built * SAMPLE_PER_BUILD)
    if part >= 1:
        return []
    print(
        f"run_tests: set-up and build took {built:.0f} s: {max(part, 0.05):.0%} of the sample fit",
        flush=True,
    )
    return [f"--part={max(part, 0.05):.2f}"]


def run_pytest_other(options: argparse.Namespace) -> Count:
    """The tests on a CPython beside the main one: a part, another one with each commit."""
    python = ROOT / f".venv-{OTHER}" / "bin" / "python"
    if not python.exists():
        print(f"run_tests: no .venv-{OTHER}: see tools/dev/setup.sh --also {OTHER}")
        return Count(skipped=1)
    # Of two parts, pytest takes the last one.
    part = [] if options.whole else [f"--part={OTHERS_PART}"]
    return pytest(python, f"pytest-{OTHER}", options, *sample(options), *part)


def pytest(python: Path, name: str, options: argparse.Namespace, *part: str) -> Count:
    """Files side by side, in as many processes as there are jobs; then the tests that time something."""
    several = []
    if options.jobs > 1:
        # Behind a crash the rest of a file would wait for ever.
        several = [f"-n={options.jobs}", "--dist=loadfile", "--max-worker-restart=0"]
    total = Count()
    statuses = []
    for which, how in (("never", several), ("only", [])):
        # A process whose threads spin takes the other's core.
        environment = {"OMP_WAIT_POLICY": "PASSIVE"} if how else {}
        report = REPORTS / f"{name}-alone-{which}.xml"
        status = call(
            [python, "-m", "pytest", "-q", "-rfE", "--durations=15", *how, *part]
            + [f"--alone={which}", f"--junitxml={report}"]
            + [*options.pytest_args, "test"],
            **environment,
        )
        statuses.append(status)
        total += from_junit(report, 0 if status == NOTHING_COLLECTED else status)
    if all(status == NOTHING_COLLECTED for status in statuses):
        return Count(failed=1)  # a misspelt choice is no success
    return total


STAGES = {
    "build": run_build,
    "layering": run_layering,
    "format": run_format,
    "lit": run_lit,
    "gtest": run_gtest,
    "pytest": run_pytest,
    f"pytest-{OTHER}": run_pytest_other,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", default=",".join(STAGES), help="stages, comma-separated"
    )
    parser.add_argument(
        "--whole", action="store_true", help=f"all tests, on CPython {OTHER}, too"
    )
    parser.add_argument("--jobs", "-j", type=int, default=os.cpu_count() or 2)
    parser.add_argument("pytest_args", nargs="*", help="passed on to pytest (after --)")
    options = parser.parse_args()
    options.began = time.time()
    chosen = [name for name in options.only.split(",") if name]
    if unknown := [name for name in chosen if name not in STAGES]:
        parser.error(f"unknown stage {unknown[0]}; known: {', '.join(STAGES)}")
    REPORTS.mkdir(parents=True, exist_ok=True)
    for old in REPORTS.glob("*.xml"):
        old.unlink()
    total = Count()
    lines = []
    for name in chosen:
        start = time.monotonic()
        count = STAGES[name](options)
        lines.append(f"{name:11} {count} ({time.monotonic() - start:.0f} s)")
        total += count
        if name == "build" and count.failed:
            break
    print()
    print("\n".join(lines))
    print(total)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
