# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python programs of examples/ run, and find their results equal to eager's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyjit", exc_type=ImportError)

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = sorted(file.name for file in EXAMPLES.glob("*.py"))
#: What a program prints that shows it right.
SAYS = {"generate_text.py": "the first 48 of 48 tokens are eager's"}


@pytest.mark.parametrize("program", PROGRAMS)
def test_runs(program: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / program],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert SAYS.get(program, "the whole call runs compiled") in done.stdout


def test_each_example_is_listed() -> None:
    page = (EXAMPLES / "README.md").read_text()
    for entry in EXAMPLES.iterdir():
        if entry.name not in ("README.md", "__pycache__"):
            assert f"]({entry.name}" in page, entry.name
