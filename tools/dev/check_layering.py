#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks which part of the tree includes which: the borders of the design.

One rule per entry of RULES; a violation is printed as FILE:LINE: message.
Exit status 1 if there is any.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

PYTHON = r"Python\.h|pybind11/|nanobind/|internal/pycore_|cpython/"
TORCH = r"torch/|ATen/|c10/|caffe2/"
CUDA = r"cuda\.h|cuda_runtime|cuda/|cudnn|cublas|nvrtc"
MLIR = r"mlir/|mlir-c/|llvm/|llvm-c/"

SOURCES = {".h", ".hpp", ".cpp", ".c", ".cc", ".inc", ".td"}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]|^\s*include\s+"([^"]+)"')


@dataclass
class Rule:
    """Files under `where` (apart from `apart`) must not include `never`."""

    where: tuple[str, ...]
    never: str
    why: str
    apart: tuple[str, ...] = field(default=())


RULES = [
    Rule(
        ("dialects/", "lib/", "include/"),
        f"^({PYTHON}|{TORCH}|{CUDA})",
        "the compiler knows no Python, Torch or CUDA headers",
    ),
    Rule(
        ("runtime/",),
        f"^({PYTHON}|{MLIR})",
        "the runtime knows no MLIR, LLVM or Python",
    ),
    Rule(
        ("runtime/",),
        f"^({TORCH})",
        "only runtime/torch knows Torch",
        apart=("runtime/torch/",),
    ),
    Rule(
        ("runtime/",),
        r"^(pyjit/|pyjit-c/|lib/|dialects/|python-bindings/)",
        "the runtime does not know the compiler",
        # The flat programs are plain data, shared by encoder and reader.
    ),
    Rule(
        ("python-bindings/",),
        f"^({MLIR}|pyjit/|lib/|dialects/)",
        "python-bindings/ reaches the compiler through include/pyjit-c only",
    ),
    Rule(
        ("python-bindings/src/",),
        r"^(internal/pycore_)",
        "CPython internals stay in python-bindings/cpython/<version>",
    ),
    Rule(
        ("include/pyjit-c/",),
        f"^({MLIR}|pyjit/)",
        "the C API shows no C++ compiler headers",
    ),
    Rule(
        (
            "lib/Analysis/",
            "lib/Conversion/",
            "lib/Fusion/",
            "lib/Codegen/",
            "lib/GraphPlan/",
        )
        + ("lib/Operators/", "lib/Executable/", "dialects/"),
        r"^pyjit/(Compiler|CAPI)/",
        "only lib/CAPI and tools know the compiler as a whole",
    ),
]

DIALECTS = ("refgraph", "tssa", "cudagraph")
DIALECT_INCLUDE = re.compile(r"^dialects/(\w+)/")
CPYTHON_INTERNAL = re.compile(r"^internal/pycore_")
CPYTHON_WHERE = "python-bindings/cpython/"

# Text that must not occur in compiler and runtime code: options are pass
# options or session state, never process-wide.
GLOBAL_STATE = re.compile(
    r"\bcl::(opt|list|bits|alias)\b|\b(secure_)?getenv\s*\(|\bManagedStatic\b"
)
GLOBAL_STATE_WHERE = ("dialects/", "lib/", "runtime/")


def without_comments(text: str) -> str:
    """Blanks out comments and string literals' comment look-alikes, line numbers kept."""

    def blank(match: re.Match[str]) -> str:
        found = match.group(0)
        if found.startswith('"'):
            return found
        return re.sub(r"[^\n]", " ", found)

    return re.sub(
        r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', blank, text, flags=re.DOTALL
    )


def check(root: Path) -> list[str]:
    problems: list[str] = []
    for top in ("dialects", "lib", "include", "runtime", "python-bindings", "tools"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in SOURCES or not path.is_file():
                continue
            name = path.relative_to(root).as_posix()
            code = without_comments(path.read_text(encoding="utf-8", errors="replace"))
            for number, line in enumerate(code.splitlines(), 1):
                problems += [
                    f"{name}:{number}: {why}" for why in check_line(name, line)
                ]
    return problems


def check_line(name: str, line: str) -> list[str]:
    if name.startswith(GLOBAL_STATE_WHERE) and (found := GLOBAL_STATE.search(line)):
        return [f"no process-wide options or state here ({found.group(0).strip()})"]
    match = INCLUDE.match(line)
    if not match:
        return []
    target = match.group(1) or match.group(2)
    problems = []
    for rule in RULES:
        if not name.startswith(rule.where) or (
            rule.apart and name.startswith(rule.apart)
        ):
            continue
        if re.match(rule.never, target):
            problems.append(f"includes {target}: {rule.why}")
    if name.startswith("dialects/"):
        own = name.split("/")[1]
        other = DIALECT_INCLUDE.match(target)
        if other and other.group(1) not in (own, "pyjit") and own in DIALECTS:
            problems.append(f"includes {target}: no dialect includes another")
    if CPYTHON_INTERNAL.match(target) and not name.startswith(CPYTHON_WHERE):
        problems.append(f"includes {target}: CPython internals stay in {CPYTHON_WHERE}")
    return problems


def main() -> int:
    root = Path(__file__).resolve().parents[2]
    problems = check(root)
    for problem in problems:
        print(problem)
    if not problems:
        print("layering: no violation")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
