# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The layering scan finds what it must find, and nothing in this tree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def scan(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("check_layering")


def test_this_tree(scan: ModuleType, root: Path) -> None:
    assert scan.check(root) == []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("dialects/tssa/IR/A.cpp", "#include <Python.h>"),
        ("dialects/tssa/IR/A.h", '#include "dialects/refgraph/IR/RefGraph.h"'),
        ("dialects/tssa/IR/A.td", 'include "dialects/refgraph/IR/RefGraph.td"'),
        ("lib/Fusion/A.cpp", "#include <ATen/ATen.h>"),
        ("lib/Fusion/A.cpp", "#include <cuda_runtime.h>"),
        ("lib/Fusion/A.cpp", '#include "pyjit/Compiler/Session.h"'),
        ("include/pyjit/A.h", "#include <torch/torch.h>"),
        ("include/pyjit-c/A.h", '#include "mlir/IR/MLIRContext.h"'),
        ("runtime/host/A.cpp", '#include "mlir/IR/MLIRContext.h"'),
        ("runtime/host/A.cpp", "#include <ATen/ATen.h>"),
        ("runtime/torch/A.cpp", "#include <Python.h>"),
        ("runtime/host/A.cpp", '#include "pyjit/Operators/Table.h"'),
        ("python-bindings/src/A.cpp", '#include "mlir/IR/MLIRContext.h"'),
        ("python-bindings/src/A.cpp", '#include "pyjit/Operators/Table.h"'),
        ("python-bindings/capture/Recorder.cpp", '#include "internal/pycore_frame.h"'),
        ("lib/Fusion/A.cpp", 'static llvm::cl::opt<bool> flag("flag");'),
        ("runtime/host/A.cpp", 'const char *x = getenv("X");'),
    ],
)
def test_finds(scan: ModuleType, tmp_path: Path, file: str, line: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(f"// first line\n{line}\n")
    problems = scan.check(tmp_path)
    assert len(problems) >= 1
    assert problems[0].startswith(f"{file}:2: ")


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("runtime/torch/A.cpp", "#include <ATen/ATen.h>"),
        ("python-bindings/src/A.cpp", '#include "pyjit-c/Compiler.h"'),
        (
            "python-bindings/cpython/3_12/Version.c",
            '#include "internal/pycore_frame.h"',
        ),
        ("lib/Conversion/A.cpp", '#include "dialects/refgraph/IR/RefGraph.h"'),
        ("lib/Fusion/A.cpp", "// #include <Python.h> would be wrong"),
        ("lib/Fusion/A.cpp", "/* getenv(x) */"),
        ("tools/pyjit-opt/A.cpp", 'static llvm::cl::opt<bool> flag("flag");'),
    ],
)
def test_permits(scan: ModuleType, tmp_path: Path, file: str, line: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(f"{line}\n")
    assert scan.check(tmp_path) == []
