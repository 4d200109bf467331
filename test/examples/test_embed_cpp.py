# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compiler library in a project outside of the build, found by `find_package(PyJIT)`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch


def run(*command: str | Path) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def embed(bin_dir: Path, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, built against an install tree."""
    tree, build = tmp_path_factory.mktemp("install"), tmp_path_factory.mktemp("build")
    run(
        "cmake",
        "--install",
        bin_dir.parent,
        "--component",
        "compiler",
        "--prefix",
        tree,
    )
    assert not list(tree.glob("**/CMakeFiles")), "what the build leaves is installed"
    example = root / "examples/embed-cpp"
    package = f"-DPyJIT_DIR={tree}/lib/cmake/PyJIT"
    run(
        "cmake",
        "-G",
        "Ninja",
        "-S",
        example,
        "-B",
        build,
        package,
        "-DCMAKE_C_COMPILER=clang-22",
        "-DCMAKE_CXX_COMPILER=clang++-22",
    )
    run("cmake", "--build", build)
    return build / "embed"


def test_compiles_and_runs_a_trace(embed: Path, root: Path) -> None:
    *stages, numbers = run(embed, root / "examples/embed-cpp/swish.mlir").splitlines()
    assert [line.split()[0] for line in stages] == [
        "parse",
        "frontend",
        "library",
        "fuse",
        "x86",
        "jit",
        "encode",
    ]
    x = torch.arange(-3.0, 5.0)
    have = torch.tensor([float(number) for number in numbers.split()])
    torch.testing.assert_close(have, x * torch.sigmoid(2 * x), rtol=0, atol=2e-6)


def test_says_what_is_wrong(embed: Path, tmp_path: Path) -> None:
    file = tmp_path / "wrong.mlir"
    file.write_text("func.func @f() { return }")
    done = subprocess.run([embed, file], check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "holds no refgraph.trace" in done.stderr
