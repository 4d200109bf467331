"""The benchmark scripts run and compare values before they time anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch


def _run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )


def test_run(root: Path) -> None:
    done = _run(
        root, "benchmarks/run.py", "relu-add", "--without=torch.compile", "--no-file"
    )
    assert done.returncode == 0, done.stderr
    assert "| relu-add |" in done.stdout


def test_run_rejects_unknown_case(root: Path) -> None:
    done = _run(root, "benchmarks/run.py", "no-such-case")
    assert done.returncode == 2
    assert "unknown case" in done.stderr


def test_demo_of_one_model(root: Path) -> None:
    done = _run(root, "benchmarks/demo.py", "gru-cell")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "largest difference" in done.stdout


def test_compile_time(root: Path) -> None:
    done = _run(root, "benchmarks/compile_time.py", "28", "56")
    assert done.returncode == 0, done.stderr
    assert "VALUES DIFFER" not in done.stdout
    assert "ops/s" in done.stdout


def test_gradients(root: Path) -> None:
    done = _run(
        root, "benchmarks/gradients.py", "bias, GELU", "gradient norm",
        "--without=torch.compile", "--no-file", "--threads=1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "| gradient norm |" in done.stdout
    assert "| bias, GELU, training |" in done.stdout
    assert "failed" not in done.stdout


def test_difference_sees_what_it_must(root: Path) -> None:
    sys.path.insert(0, str(root / "benchmarks"))
    from compare import largest_difference

    a = torch.ones(3)
    assert largest_difference(a, a) == 0
    assert largest_difference(a, a + 1) == 1
    assert largest_difference(a, a.double()) == float("inf")
    assert largest_difference([a], []) == float("inf")
    assert largest_difference(a, a * float("nan")) == float("inf")
