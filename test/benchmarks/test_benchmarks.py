# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The benchmark scripts run and compare values before they time anything."""

from __future__ import annotations

import os
import re
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


def test_functions(root: Path) -> None:
    """Of two, compared with eager's and timed; all are shown."""
    script = ("benchmarks/functions.py", "--no-file", "--budget=0.02", "--rows=8")
    done = _run(root, *script, "tan", "stack", "--at-least=0", "--dtype=float64")
    assert done.returncode == 0, done.stderr
    for name in ("tan", "tanh", "stack, last"):
        assert f"| {name} | float64 |" in done.stdout
    done = _run(root, *script, "no such function")
    assert done.returncode == 2
    assert "no function begins so" in done.stderr


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


def test_training_steps(root: Path, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    done = _run(
        root, "benchmarks/run.py", "--train", "--only=mlp", "--size=tiny",
        "--columns=eager,pyjit-model,pyjit-step", "--budget=0.1", "--rounds=3",
        f"--record={record}", "--no-file",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "| ms a step | eager | pyjit, model | pyjit, step |" in done.stdout
    assert "failed" not in done.stdout
    assert "losses differ" not in done.stdout
    assert len(record.read_text().splitlines()) == 3


def test_generation(root: Path, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    done = _run(
        root, "benchmarks/generate.py", "gpt2", "--size=tiny", "--prompt=5", "--new=6", "--batch=1,2",
        "--columns=eager,pyjit-dynamic,pyjit-static", "--rounds=2", "--warm=1", "--no-file",
        f"--record={record}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (
        "| tokens per second; case, batch | eager | pyjit, dynamic cache |"
        in done.stdout
    )
    assert "failed" not in done.stdout
    assert "other logits" not in done.stdout
    assert len(record.read_text().splitlines()) == 6


def test_generation_page(root: Path) -> None:
    sys.path.insert(0, str(root / "benchmarks"))
    from generation.tables import page

    known = {
        "day": "2026-01-01", "device": "cuda", "dtype": "float16", "machine": "M", "threads": 1, "versions": "V",
        "prompt": 8, "new": 100, "rounds": 1, "read_gb_s": 1.0, "weights_mb": 10.0, "case": "gpt2", "batch": 2,
    }  # fmt: skip
    records = [
        {**known, "column": "eager", "seconds": 4.0, "first": 5.0},
        {**known, "column": "eager", "seconds": 2.0, "first": 5.0},
        {**known, "column": "pyjit-dynamic", "seconds": 1.0, "gap": 1e-3, "equal_tokens": 3, "all_tokens": 4},
        {**known, "column": "pyjit-static", "seconds": 5.0, "gap": 0.5, "equal_tokens": 1, "all_tokens": 4},
        {**known, "column": "torch.compile", "error": "no end within 1 s"},
    ]  # fmt: skip
    text = page(records)
    assert "| gpt2, 2 | 100 | 200 | **40, other logits** | failed |" in text
    assert "| gpt2, 2 | pyjit, dynamic cache | 2.00x | eager | 2.00x | 100% |" in text
    assert "| gpt2, 2 | - | 1.0e-03, 3 of 4 | 5.0e-01, 1 of 4 | - |" in text
    assert "- gpt2, 2, torch.compile, static cache: no end within 1 s" in text


def test_training_page_of_two_runs(root: Path) -> None:
    sys.path.insert(0, str(root / "benchmarks"))
    from train.tables import page

    known = {
        "day": "2026-01-01", "device": "cuda", "size": "tiny", "autocast": "around",
        "machine": "M", "threads": 1, "versions": "V",
    }  # fmt: skip
    first = {"case": "mlp", **known}
    records = [
        {**first, "column": "eager", "ms": 9.0, "kernels_gap": 1e-4},
        {**first, "column": "eager", "ms": 2.0, "kernels_gap": 1e-4},
        {**first, "column": "pyjit-step", "ms": 1.0, "eager_ms": 2.0, "gap": 1e-4},
        {**first, "column": "compile", "error": "no end within 1 s"},
        {**first, "case": "bert", "column": "eager", "ms": 1.0},
        {**first, "case": "bert", "column": "pyjit-step", "ms": 2.0, "eager_ms": 1.0,
         "gap": 0.5, "losses": [1.0]},
    ]  # fmt: skip
    for facts in records:
        facts.setdefault("losses", [2.0])
    text = page(records)
    assert "| mlp | 2 | 1 (2.00x) | failed |" in text
    assert "| bert | 1 | 2 (**0.50x**) | - |" in text
    assert "- mlp, torch.compile: no end within 1 s" in text
    assert "- bert, pyjit, step: **losses differ** by 5.0e-01" in text
    assert "- mlp, pyjit, step: **losses differ**" not in text


def test_difference_sees_what_it_must(root: Path) -> None:
    sys.path.insert(0, str(root / "benchmarks"))
    from compare import largest_difference

    a = torch.ones(3)
    assert largest_difference(a, a) == 0
    assert largest_difference(a, a + 1) == 1
    assert largest_difference(a, a.double()) == float("inf")
    assert largest_difference([a], []) == float("inf")
    assert largest_difference(a, a * float("nan")) == float("inf")


def test_packages(root: Path) -> None:
    """Without the packages there are no programs of theirs, and no error; each that is used is among those that
    `tools/dev/packages.sh` installs."""
    listed = _run(root, "benchmarks/breadth.py", "packages", "--list")
    assert listed.returncode == 0, listed.stderr
    text = (root / "benchmarks/packages.txt").read_text()
    known = {line.partition("==")[0] for line in text.splitlines() if "==" in line}
    used: set[str] = set()
    for path in (root / "benchmarks/zoo/packages").glob("*.py"):
        source = path.read_text()
        used |= set(re.findall(r'(?:model|named|register)\(\s*f?"(\w+)[.:]', source))
    modules = {name.replace("-", "_") for name in known}
    # Modules that have another name than their package.
    modules |= {
        "lightly", "nnAudio", "whisper", "openunmix", "neuralop", "tltorch", "monai",
        "open_clip", "gluonts", "chronos", "diffusers", "transformers",
    }  # fmt: skip
    assert len(used) > 40 and used <= modules, used - modules


def test_a_program_of_a_package(root: Path, tmp_path: Path) -> None:
    """As one is made and called: in eval mode and in training."""
    (tmp_path / "vit_pytorch").mkdir()
    (tmp_path / "vit_pytorch/__init__.py").write_text("")
    (tmp_path / "vit_pytorch/simple_vit.py").write_text(
        "from torch import nn\n"
        "def SimpleViT(**options):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 4))\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        for mode in ([], ["--grad", "train"]):
            command = ["benchmarks/breadth.py", "packages", "-k", "simple_vit.Simple"]
            done = _run(root, *command, *mode)
            assert done.returncode == 0, done.stdout + done.stderr
            assert "one graph · equal" in done.stdout, done.stdout
    finally:
        sys.path.remove(str(tmp_path))
