#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that no C++ outside of lib/Operators names an operator in a string.

What is known of an operator stands in lib/Operators/*.td; C++ asks for facts (`lookupFacts`,
`pyjitOperatorFacts`), and a rewrite names what it rewrites by a constant (`operators::aten::linear`,
OperatorNames.h), so that a misspelt name does not compile. Exceptions are listed with their
reasons; one that no longer applies is a problem, too. Prints FILE:LINE: message; exit status 1 if
there is any.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("dialects", "include", "lib", "python-bindings", "runtime", "tools")
APART = ("lib/Operators/", "tools/pyjit-tblgen/")

# A file, and why it names operators.
EXCEPTIONS: dict[str, str] = {}

COMMENT_OR_STRING = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\((.*?)\)\1"|"((?:\\.|[^"\\\n])*)"', re.DOTALL
)
LIBRARIES = (
    "aten",
    "mkl",
    "mkldnn",
    "prim",
    "prims",
    "quantized",
    "torchvision",
    r"_?c10d\w*",
)
NAME = re.compile(rf"(?<![\w:])(?:{'|'.join(LIBRARIES)})::\w[\w.]*")


def names(text: str) -> Iterator[tuple[int, str]]:
    """Line and name of each operator that a string of C++ names."""
    for found in COMMENT_OR_STRING.finditer(text):
        string = found[2] or found[3]
        name = NAME.search(string) if string else None
        if name:
            yield text.count("\n", 0, found.start()) + 1, name[0]


def check(root: Path, exceptions: dict[str, str]) -> list[str]:
    problems, met = [], set()
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            path = file.relative_to(root).as_posix()
            if file.suffix not in {".h", ".c", ".cpp", ".cu"} or path.startswith(APART):
                continue
            for line, name in names(file.read_text(encoding="utf-8")):
                met.add(path)
                if path not in exceptions:
                    problems.append(f"{path}:{line}: names {name} in a string")
    problems += [
        f"{path}: no exception any more" for path in exceptions if path not in met
    ]
    return problems


def main() -> int:
    problems = check(Path(__file__).resolve().parents[2], EXCEPTIONS)
    for problem in problems:
        print(problem)
    if not problems:
        print(f"operators' names: no violation, {len(EXCEPTIONS)} exceptions")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
