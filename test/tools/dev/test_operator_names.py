# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The check of operators' names finds what it must find, and nothing in this tree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def scan(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("check_operator_names")


def test_this_tree(scan: ModuleType, root: Path) -> None:
    assert scan.check(root, scan.EXCEPTIONS) == []


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('int a;\nauto b = "aten::add.Tensor";\n', "2: names aten::add.Tensor"),
        ('f(name, "prim::If");\n', "1: names prim::If"),
        ('g("mkldnn::_linear_pointwise");\n', "1: names mkldnn::_linear_pointwise"),
        ('h("of \\"aten::add\\"");\n', "1: names aten::add"),
        ('auto t = R"(\n%0 = "aten::mm"(%1)\n)";\n', "1: names aten::mm"),
    ],
)
def test_finds(scan: ModuleType, tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path, "lib/Library/A.cpp", text)
    assert scan.check(tmp_path, {}) == [f"lib/Library/A.cpp:{message} in a string"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("lib/A.cpp", '// "aten::add.Tensor"\n/* "aten::add" */\n'),
        ("lib/A.cpp", 'bool is = name.consume_front("aten::");\n'),
        ("lib/A.cpp", "auto b = operators::aten::add_Tensor;\n"),
        ("lib/A.cpp", 'auto b = "https://x"; auto c = "std::vector";\n'),
        ("lib/Operators/A.cpp", 'auto b = "aten::add";\n'),
        ("test/a.cpp", 'auto b = "aten::add";\n'),
    ],
)
def test_lets_pass(scan: ModuleType, tmp_path: Path, path: str, text: str) -> None:
    write(tmp_path, path, text)
    assert scan.check(tmp_path, {}) == []


def test_exceptions_go(scan: ModuleType, tmp_path: Path) -> None:
    write(tmp_path, "lib/A.cpp", 'auto b = "aten::add";\n')
    assert scan.check(tmp_path, {"lib/A.cpp": "because"}) == []
    assert scan.check(tmp_path, {"lib/A.cpp": "", "lib/B.cpp": ""}) == [
        "lib/B.cpp: no exception any more"
    ]
