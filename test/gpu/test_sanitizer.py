# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""compute-sanitizer over one kernel of each family."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
HERE = Path(__file__).parent


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "initcheck", "synccheck"])
def test_families(tool: str) -> None:
    if not Path(TOOL).exists():
        pytest.skip("no compute-sanitizer")
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    # Each tensor is an allocation of its own, whose end is known.
    environment["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    command = [TOOL, "--tool", tool, "--error-exitcode", "9", "--print-limit", "20"]
    # A capture that cannot allocate without a cache fails, and plain launches answer.
    command += ["--report-api-errors", "no"]
    if tool == "initcheck":
        command += ["--kernel-regex-exclude", "kns=at::native"]
    done = subprocess.run(
        [*command, sys.executable, HERE / "families.py"],
        capture_output=True,
        text=True,
        timeout=900,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "ERROR SUMMARY: 0 errors" in done.stdout or tool == "racecheck", done.stdout
