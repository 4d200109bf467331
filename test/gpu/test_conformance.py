# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The driver's conformance suite, which CI runs on the simulated driver, on the real one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest


def test_conformance(root: Path) -> None:
    binary = Path(
        os.environ.get(
            "PYJIT_DRIVER_TEST", root / "build" / "unittests" / "CudaDriverTest"
        )
    )
    if not binary.exists():
        pytest.skip(f"{binary} is not built here (set PYJIT_DRIVER_TEST)")
    done = subprocess.run(
        [binary, "--gtest_filter=Drivers/Con*"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "SKIPPED" not in done.stdout, done.stdout[-2000:]
