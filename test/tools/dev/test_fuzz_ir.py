# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tools survive IR that nobody has written: a sample of what tools/dev/fuzz_ir.py runs by the ten thousand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


def run(root: Path, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, root / "tools/dev" / script, *words],
        capture_output=True,
        text=True,
        check=False,
    )


def rows(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    return {
        kind: int(count)
        for kind, count in re.findall(
            r"^\| ([^|]*?) \| (\d+) \|$", done.stdout, re.MULTILINE
        )
    }


def test_a_sample_is_answered(root: Path) -> None:
    done = run(root, "fuzz_ir.py", "300", "-j", "2", "--minutes", "0.25")
    assert done.returncode == 0, done.stdout + done.stderr
    counts = rows(done)
    # Machines differ in how far they come; what runs has to reach passes.
    assert counts["ok"] > 0 and counts["refused"] > 0, counts


def test_a_case_is_made_again(root: Path) -> None:
    one, other = (
        run(root, "fuzz_ir.py", "1", "--first", "7", "--show").stdout for _ in range(2)
    )
    assert one == other and "// pyjit-" in one


def test_findings_are_told(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of tools that do what they should not."""
    monkeypatch.syspath_prepend(root / "tools/dev")
    import fuzz_ir
    from ir_cases import Case, Tools

    def found(script: str) -> str:
        tool = tmp_path / "pyjit-run"
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)
        return fuzz_ir.judge(
            Tools(tmp_path, tmp_path), Case(1, "pyjit-run", [], "", "")
        ).kind

    assert found("kill -SEGV $$") == "crash"
    assert found("exit 1") == "failure without an error"
    assert (
        found("echo '<unknown>:0: error: bad' >&2; exit 1") == "error without a place"
    )
    assert found("echo 'a.mlir:1:2: error: bad' >&2; exit 1") == "refused"
    assert found("echo 'a.mlir:1:2: error: bad' >&2") == "error, yet success"
    assert found("exit 0") == "ok"
