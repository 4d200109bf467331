# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A trace, compiled and run outside Python, gives what Python computed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "bin"
SCRIPT = """
import sys
import numpy as np
import torch

torch.manual_seed(0)
first, second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

def network(x, w1, b1, w2, b2):
    h = torch.nn.functional.gelu(torch.nn.functional.linear(x, w1, b1))
    return torch.softmax(torch.nn.functional.linear(h, w2, b2), -1)

inputs = [torch.randn(32, 8)]
inputs += [p.detach() for m in (first, second) for p in (m.weight, m.bias)]
result = network(*inputs)
for i, value in enumerate([*inputs, result]):
    np.save(f"{sys.argv[1]}/{i}.npy", value.numpy())
"""


@pytest.mark.skipif(
    not (BIN / "pyjit-trace").exists(), reason="no libpython to embed: no pyjit-trace"
)
def test_trace_compile_run(tmp_path):
    script, trace = tmp_path / "net.py", tmp_path / "t.mlir"
    script.write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "build" / "python")}
    subprocess.run(
        [BIN / "pyjit-trace", script, "--function", "network", "-o", trace]
        + ["--", tmp_path],
        check=True,
        env=environment,
    )
    lowered = subprocess.run(
        [BIN / "pyjit-opt", "--pyjit-cpu", trace], check=True, capture_output=True
    ).stdout
    arguments = [f"--arg={tmp_path}/{i}.npy" for i in range(5)]
    subprocess.run(
        [BIN / "pyjit-run", "--entry", "network", *arguments]
        + [f"--save={tmp_path}/got"],
        input=lowered,
        check=True,
    )
    got, want = np.load(tmp_path / "got0.npy"), np.load(tmp_path / "5.npy")
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_never_called(tmp_path):
    script = tmp_path / "quiet.py"
    script.write_text("def f(x):\n    return x\n")
    if not (BIN / "pyjit-trace").exists():
        pytest.skip("no libpython to embed: no pyjit-trace")
    run = subprocess.run(
        [BIN / "pyjit-trace", script, "--function", "f", "-o", tmp_path / "t.mlir"],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "build" / "python")},
    )
    assert run.returncode == 1
    assert "f was never called" in run.stderr
