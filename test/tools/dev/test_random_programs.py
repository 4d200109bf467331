# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command that runs random programs by the hundred thousand runs some of each kind, and tells of a difference."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from Integration.random_kinds import KINDS


def run(
    root: Path, *words: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, root / "tools/dev/random_programs.py", *words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""} | environment,
    )


def test_every_kind_runs(root: Path) -> None:
    done = run(root, "100", "-j", "2", "--first", "77000")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    counts = {row.split("|")[1].strip(): row.split("|")[2].strip() for row in rows[2:]}
    assert counts.pop("all, from 77000") == "100"
    assert set(counts) == set(KINDS) and all(int(n) > 0 for n in counts.values()), (
        counts
    )


def test_a_difference_a_crash_and_an_endless_job_are_told(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(root / "tools/dev")
    import separately

    def work(job: str) -> str:
        if job == "dies":
            os._exit(7)
        while job == "endless":
            pass
        return job.upper()

    outcomes = separately.run(work, ["dies", "endless", "works"], processes=2, limit=2)
    found = {o.job: o.value or o.lost for o in outcomes}
    assert found == {
        "dies": "the process ended with status 7",
        "endless": "took more than 2 s",
        "works": "WORKS",
    }
