# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The structure check finds what it must find, and nothing in this tree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def scan(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("check_structure")


def test_this_tree(scan: ModuleType, root: Path) -> None:
    assert scan.check(root, scan.EXCEPTIONS) == []


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


LONG = "  work();\n" * 100
MEMBERS = "".join(f"  int member{i}() const;\n" for i in range(41))


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("lib/A.cpp", f"int f(int x) {{\n{LONG}}}\n", "1: f has 102 lines"),
        (
            "lib/A.cpp",
            f"static int\nA::f(int x) {{\n{LONG}}}\n",
            "1: A::f has 103 lines",
        ),
        (
            "lib/A.h",
            f"class A {{\npublic:\n{MEMBERS}}};\n",
            "1: A has 41 public members",
        ),
        ("lib/A.h", f"struct A : B {{\n{MEMBERS}}};\n", "1: A has 41 public members"),
        ("tools/a.py", "def f():\n" + "    work()\n" * 101, "1: f has 102 lines"),
        (
            "tools/a.py",
            "class A:\n    def __init__(self):\n"
            + "".join(f"        self.m{i} = {i}\n" for i in range(41)),
            "1: A has 41 public members",
        ),
        ("lib/A.cpp", "// a\n" * 1001, "1: 1001 lines"),
        ("lib/A.cpp", "static int calls = 0;\n", "1: calls is global and can change"),
        ("lib/A.cpp", "bool on = false;\n", "1: on is global and can change"),
        (
            "lib/A.cpp",
            "int f() {\n  static auto *seen = new Set;\n}\n",
            "2: seen is global and can change",
        ),
        (
            "python-bindings/pyjit/a.py",
            'def f(trace):\n    return "refgraph.decide" in str(trace)\n',
            "2: names IR in a string: 'refgraph.decide'",
        ),
    ],
)
def test_finds(
    scan: ModuleType, tmp_path: Path, path: str, text: str, message: str
) -> None:
    write(tmp_path, path, text)
    assert scan.check(tmp_path, {}) == [f"{path}:{message}"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("lib/A.cpp", f"int f(int x) {{\n{LONG[20:]}}}\n\nint g() {{\n{LONG[20:]}}}\n"),
        ("lib/A.h", f"class A {{\nprivate:\n{MEMBERS}}};\n"),
        ("lib/A.cpp", "int f() { return 1; }\n" * 60 + f"struct A {{\n{LONG}}};\n"),
        ("python-bindings/pyjit/a.py", '"""One ``refgraph.trace``."""\n'),
        ("python-bindings/src/a.py", 'text = "refgraph.decide"\n'),
    ],
)
def test_lets_pass(scan: ModuleType, tmp_path: Path, path: str, text: str) -> None:
    write(tmp_path, path, text)
    assert scan.check(tmp_path, {}) == []


def test_exceptions_go(scan: ModuleType, tmp_path: Path) -> None:
    write(tmp_path, "lib/A.cpp", f"int f(int x) {{\n{LONG}}}\n")
    assert scan.check(tmp_path, {"lib/A.cpp: f": "because"}) == []
    assert scan.check(tmp_path, {"lib/A.cpp: f": "", "lib/B.cpp: g": ""}) == [
        "lib/B.cpp: g: no exception any more"
    ]


def test_pages(scan: ModuleType, tmp_path: Path) -> None:
    write(
        tmp_path, "docs/A.md", f"# A\n\n{'a ' * 60}b\n\n| {'a ' * 80}|\n{'ü' * 120}\n"
    )
    write(tmp_path, "benchmarks/results/B.md", "a" * 200)
    assert scan.check(tmp_path, {}) == ["docs/A.md:3: 121 columns"]
