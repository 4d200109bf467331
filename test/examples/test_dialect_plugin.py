# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""examples/dialect-plugin: a dialect and a pass that pyjit-opt loads."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def plugin(
    root: Path, bin_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[str]:
    """The options that load it."""
    build = tmp_path_factory.mktemp("audit")
    cache = (bin_dir.parent / "CMakeCache.txt").read_text()
    mlir = re.search(r"^MLIR_DIR:[A-Z]+=(.*)$", cache, re.MULTILINE)
    assert mlir
    configure = ["cmake", "-G", "Ninja", "-S", root / "examples/dialect-plugin"]
    configure += ["-B", build, f"-DMLIR_DIR={mlir[1]}"]
    configure += ["-DCMAKE_C_COMPILER=clang-22", "-DCMAKE_CXX_COMPILER=clang++-22"]
    for command in (configure, ["cmake", "--build", build]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return [f"--load-{kind}-plugin={build}/libaudit.so" for kind in ("dialect", "pass")]


# Options are read before plug-ins are loaded, so that a pass of one has no option of its own.
PIPELINE = "--pass-pipeline=builtin.module(audit-vendor-calls)"
PROGRAM = """
func.func @f(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = tssa.aten "aten::mm"(%x, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = tssa.aten "aten::relu"(%0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
"""


def opt(bin_dir: Path, *options: str, text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [bin_dir / "pyjit-opt", *options],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )


def test_pass(bin_dir: Path, plugin: list[str]) -> None:
    """In front of fusion both operators are calls; behind it `relu` is in a kernel."""
    fused = opt(bin_dir, "--pyjit-fuse", text=PROGRAM)
    assert fused.returncode == 0, fused.stderr
    done = opt(bin_dir, *plugin, PIPELINE, text=PROGRAM)
    assert done.returncode == 0, done.stderr
    assert "audit.vendor_calls = 2 : i64" in done.stdout
    again = opt(bin_dir, *plugin, PIPELINE, text=fused.stdout)
    assert again.returncode == 0, again.stderr
    wanted = fused.stdout.count("tssa.aten")
    assert f"audit.vendor_calls = {wanted} : i64" in again.stdout


def test_verifier(bin_dir: Path, plugin: list[str]) -> None:
    wrong = "module attributes {audit.vendor_calls = 1 : i64} {}"
    done = opt(bin_dir, *plugin, text=wrong)
    assert done.returncode == 1
    assert "audit.vendor_calls is an integer of a function" in done.stderr
