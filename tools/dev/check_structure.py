#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the size of functions and classes, and that nobody searches the text of IR.

Outside of tests: no function has more than 100 lines, no class more than 40 public members, no file
more than 1000 lines, no variable that can change is global (objects of Python's made once, and tables
of the C API apart), and the Python half names no operation of a dialect in a string (it asks
`pyjit._C.Trace`). No line of a Markdown page has more than 120 columns outside of tables. Exceptions are listed with their reasons; one that no longer applies is a problem,
too. Prints FILE:LINE: message; exit status 1 if there is any.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOLDERS = ("dialects", "include", "lib", "python-bindings", "runtime", "tools")
LONGEST_FUNCTION = 100
MOST_MEMBERS = 40
LONGEST_FILE = 1000
LONGEST_LINE = 120

# A function, class or file (by its folder and name), and why it is as it is.
EXCEPTIONS = {
    "lib/Operators/RecipeExpression.cpp: Resolver::eval": "a case for each node of the table",
    "python-bindings/src/Guards.cpp: Guards::step": "a case for each guard, in the hot loop",
    "lib/Conversion/TSSAToLinalg/EmitScalar.cpp: Emitter::unary": "a case for each function",
    "runtime/cuda/include/pyjit-rt/cuda/Driver.h: Driver": "a function for each of the CUDA driver's",
    "runtime/cuda/RealDriver.cpp: RealDriver": "likewise",
    "runtime/cuda/SimulatedDriver.cpp: SimulatedDriver": "likewise",
    "python-bindings/capture/Recording.h: current": "the recording in progress: sys.monitoring has "
    "one tool in an interpreter",
    "python-bindings/capture/breaks/Run.h: current": "likewise, of the run",
    "python-bindings/capture/breaks/Continuation.cpp: map": "a code object's continuation, for as "
    "long as code objects live",
    "python-bindings/src/Watch.cpp: registry": "CPython's watchers, which belong to the interpreter",
    "python-bindings/src/Specialization.h: measuring": "a switch of the whole process, for figures",
    "python-bindings/src/SharedValues.cpp: known": "who keeps packed values of which memory, in the process",
    "python-bindings/src/UnversionedWrites.h: writes": "of the optimizers of the process",
    "python-bindings/src/WriteBarrier.cpp: all": "marks on storages, which belong to the process",
    "python-bindings/src/WriteBarrier.cpp: limit": "likewise",
    "python-bindings/src/WriteBarrier.h: count": "likewise",
    "runtime/torch/SavedInputs.cpp: all": "what autograd keeps of tensors, which belong to the process",
    "runtime/torch/CapturePool.cpp: all": "workspaces of streams, which belong to the process",
}

# What begins a line at column 0 and is no function.
NO_FUNCTION = re.compile(
    r"(namespace|struct|class|enum|using|typedef|extern|static_assert|template|union|public|"
    r"private|protected|#|//|}|PYJIT_|OPCODE)"
)
# A variable of static storage, which is neither constant nor made once.
STATIC_VARIABLE = re.compile(
    r"^ *static (?!const |constexpr |.*\*const |Py[A-Z]\w+ |std::once_flag|thread_local)"
    r"[\w:<>,* ]*?[*> ](\w+)(?: =.*|;|\{.*;)"
)
# Likewise, at namespace scope.
GLOBAL_VARIABLE = re.compile(
    r"^(?:bool|int|unsigned|u?int\d+_t|size_t|double|std::\w+(?:<.*>)?) (\w+)(?: = .*|\{.*)?;$"
)
IR_IN_A_STRING = re.compile(r"refgraph\.\w+|!refgraph|tssa\.\w+|!tssa")


class Problem(NamedTuple):
    path: str
    line: int
    name: str
    message: str

    @property
    def key(self) -> str:
        return f"{self.path}: {self.name}" if self.name else self.path


def functions_of_cpp(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Start, length and name of each function that begins and ends at column 0."""
    start = None
    for number, line in enumerate(lines):
        if start is None and re.match(r"[A-Za-z_~]", line):
            if not NO_FUNCTION.match(line) and not line.endswith((";", "}")):
                start = number
        elif line.startswith("}"):
            if start is not None:
                head = " ".join(lines[start : start + 4])
                name = re.search(r"([\w:~]+)\(", head)
                if name and "=" not in head[: name.start()]:
                    yield (
                        start,
                        number - start + 1,
                        re.sub(r"^.*\b(?=\w+::\w+$)", "", name[1]),
                    )
            start = None
        elif start is not None and line.startswith(("static ", "const ")):
            start = number


def functions_of_python(tree: ast.Module) -> Iterator[tuple[int, int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno - 1, (node.end_lineno or 0) - node.lineno + 1, node.name


def classes_of_python(tree: ast.Module) -> Iterator[tuple[int, int, str]]:
    """Line, number of public members and name of each class."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        members = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
        for target in ast.walk(node):
            if (
                isinstance(target, ast.Attribute)
                and isinstance(target.ctx, ast.Store)
                and isinstance(target.value, ast.Name)
                and target.value.id == "self"
            ):
                members.add(target.attr)
        public = {name for name in members if not name.startswith("_")}
        yield node.lineno - 1, len(public), node.name


def classes_of_cpp(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Likewise, of classes and structs that begin at column 0; overloads count as one."""
    name, public, members, start = None, False, set(), 0
    for number, line in enumerate(lines):
        head = re.match(r"(class|struct) (\w+)[^;]*\{$", line)
        if head:
            name, public, members, start = head[2], head[1] == "struct", set(), number
        elif name and line.startswith("};"):
            yield start, len(members), name
            name = None
        elif name and line in ("public:", "private:", "protected:"):
            public = line == "public:"
        elif name and public and re.match(r"  [\w~]", line) and "using " not in line:
            member = re.search(r"(\w+)(?=\(|;| =|\{)", line)
            if member:
                members.add(member[1])


def check_file(path: str, text: str) -> Iterator[Problem]:
    lines = text.splitlines()
    if len(lines) > LONGEST_FILE and not path.endswith("Schemas.td"):
        yield Problem(path, 1, "", f"{len(lines)} lines")
    if path.endswith(".td"):
        return
    if path.endswith((".py", ".pyi")):
        tree = ast.parse(text)
        functions, classes = functions_of_python(tree), classes_of_python(tree)
    else:
        functions, classes = functions_of_cpp(lines), classes_of_cpp(lines)
    if path.endswith((".cpp", ".h", ".c")):
        for number, line in enumerate(lines):
            if found := STATIC_VARIABLE.match(line) or GLOBAL_VARIABLE.match(line):
                name = found[1]
                yield Problem(
                    path, number + 1, name, f"{name} is global and can change"
                )
    for start, length, name in functions:
        if length > LONGEST_FUNCTION:
            yield Problem(path, start + 1, name, f"{name} has {length} lines")
    for start, members, name in classes:
        if members > MOST_MEMBERS:
            yield Problem(path, start + 1, name, f"{name} has {members} public members")
    if path.startswith("python-bindings/pyjit/") and path.endswith(".py"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from _search_of_text(path, node, tree)


def _search_of_text(
    path: str, node: ast.Constant, tree: ast.Module
) -> Iterator[Problem]:
    """A string that names IR, where it is not documentation."""
    documentation = {
        id(owner.body[0].value)
        for owner in ast.walk(tree)
        if isinstance(owner, ast.Module | ast.ClassDef | ast.FunctionDef)
        and owner.body
        and isinstance(owner.body[0], ast.Expr)
    }
    if id(node) not in documentation and IR_IN_A_STRING.search(node.value):
        yield Problem(path, node.lineno, "", f"names IR in a string: {node.value!r}")


def check_pages(root: Path) -> Iterator[Problem]:
    """Lines of Markdown pages outside of tables. Measurements are written by programs."""
    for file in sorted(root.rglob("*.md")):
        path = file.relative_to(root).as_posix()
        if path.startswith((".", "build", "dist/", "benchmarks/results/", "shared/")):
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines()):
            if len(line) > LONGEST_LINE and not line.lstrip().startswith("|"):
                yield Problem(path, number + 1, "", f"{len(line)} columns")


def check(root: Path, exceptions: dict[str, str]) -> list[str]:
    problems, met = [], set()
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in {".h", ".c", ".cpp", ".td", ".py"}:
                continue
            path = file.relative_to(root).as_posix()
            for problem in check_file(path, file.read_text(encoding="utf-8")):
                met.add(problem.key)
                if problem.key not in exceptions:
                    problems.append(f"{path}:{problem.line}: {problem.message}")
    problems += [
        f"{problem.path}:{problem.line}: {problem.message}"
        for problem in check_pages(root)
    ]
    problems += [
        f"{key}: no exception any more" for key in exceptions if key not in met
    ]
    return problems


def main() -> int:
    problems = check(Path(__file__).resolve().parents[2], EXCEPTIONS)
    for problem in problems:
        print(problem)
    if not problems:
        print(f"structure: no violation, {len(EXCEPTIONS)} exceptions")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
