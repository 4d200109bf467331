#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares random programs of all kinds with eager, in as many processes as asked.

  tools/dev/random_programs.py 200000 -j 16        that many programs, in the kinds' shares
  tools/dev/random_programs.py 500 --kind loops    of one kind
  tools/dev/random_programs.py 200000 --minutes 9  ends in time, and says how far it came

Numbers start at --first: another one gives other programs, the same one the same. Prints a table of
programs by kind and each difference with what makes it again; exits with 1 if there is one.
A process answers for one batch: a crash, or a program that does not end, is a difference of its batch.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import separately

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("PYJIT_BUILD", ROOT / "build"))
# As in test/conftest.py: of a CPython beside the main one, its own.
OWN = BUILD / "python-{}.{}".format(*sys.version_info)
sys.path[:0] = [str(OWN if OWN.exists() else BUILD / "python"), str(ROOT / "test")]
# Who answers a call would hang from the machine's load.
os.environ.setdefault("PYJIT_COMPARE_WITH_EAGER", "0")
os.environ.setdefault("PYJIT_VERIFY", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Whether there is a GPU is asked of its management library: a driver that is initialized here would be lost to the
# processes that are forked.
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"

LIMIT = 300.0  # seconds for a batch


class Job(NamedTuple):
    kind: str
    first: int
    count: int

    def __str__(self) -> str:
        return f"{self.kind}, {self.count} from {self.first}"


def jobs(total: int, first: int, shares: dict[str, int], size: int) -> Iterator[Job]:
    """Batches of every kind, mixed, so that a run that ends early has run some of each."""
    whole = sum(shares.values())
    left = {kind: total * share // whole for kind, share in shares.items()}
    left[max(shares, key=shares.__getitem__)] += total - sum(left.values())
    place = dict.fromkeys(shares, first)
    while any(left.values()):
        # The kind that has the most left of its share.
        kind = max(left, key=lambda k: left[k] / shares[k])
        count = min(size, left[kind])
        yield Job(kind, place[kind], count)
        place[kind] += count
        left[kind] -= count


CARDS = os.environ.get("CUDA_VISIBLE_DEVICES")


def card(job: Job) -> str:
    """The GPU of a job, as CUDA_VISIBLE_DEVICES names it: batches take turns. None for programs of the CPU."""
    import torch

    if "CUDA" not in job.kind:
        return ""
    known = (
        CARDS.split(",")
        if CARDS
        else [str(i) for i in range(torch.cuda.device_count())]
    )
    return known[job.first // job.count % len(known)]


def carry_out(job: Job) -> tuple[int, list[str]]:
    from Integration.random_kinds import KINDS

    warnings.simplefilter("ignore")
    # Optimizers ask a GPU what it does; only programs for one shall.
    os.environ["CUDA_VISIBLE_DEVICES"] = card(job)
    # What programs print is compared, and not to be read here.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    batch = KINDS[job.kind][1](job.first, job.count)
    return batch.ran, batch.failures


def warm_up() -> None:
    """Loads what torch loads at first use: once, and not in each process."""
    import torch
    from Integration.tolerances import bounds

    x = torch.ones(2)
    bounds(lambda: [torch.tanh(x) + 1], [torch.tanh(x) + 1])


def run(
    todo: Iterator[Job],
    processes: int,
    until: float,
    ran: collections.Counter[str],
    failures: list[str],
) -> Iterator[None]:
    """Counts programs by kind, and collects differences, as they come."""
    for outcome in separately.run(
        carry_out, todo, processes=processes, limit=LIMIT, until=until
    ):
        count, found = outcome.value or (0, [outcome.lost])
        ran[outcome.job.kind] += count
        for text in found:
            failures.append(f"{outcome.job}: {text}")
            print(failures[-1], flush=True)
        yield


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("programs", type=int)
    parser.add_argument("--jobs", "-j", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--first", type=int, default=0, help="number of the first")
    parser.add_argument("--kind", action="append", help="only these kinds")
    parser.add_argument("--batch", type=int, default=50, help="programs to a process")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--json", type=Path, help="keep counts and differences here")
    options = parser.parse_args()

    import torch
    from Integration.random_kinds import KINDS

    torch.set_num_threads(1)
    warm_up()
    kinds = options.kind or list(KINDS)
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        parser.error(f"unknown kind {unknown[0]!r}; known: {', '.join(KINDS)}")
    start = time.monotonic()
    todo = jobs(
        options.programs, options.first, {k: KINDS[k][0] for k in kinds}, options.batch
    )
    until = start + 60 * options.minutes
    ran: collections.Counter[str] = collections.Counter()
    failures: list[str] = []
    for _ in run(todo, options.jobs, until, ran, failures):
        if options.json:
            took = time.monotonic() - start
            found = {"ran": ran, "failures": failures, "seconds": took}
            options.json.write_text(json.dumps(found, indent=1))
    print("\n| kind | programs |\n| --- | --- |")
    for kind in kinds:
        print(f"| {kind} | {ran[kind]} |")
    print(f"| all, from {options.first} | {sum(ran.values())} |")
    took = time.monotonic() - start
    print(f"{len(failures)} differences, {took:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
