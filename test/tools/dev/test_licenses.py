# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The check of SPDX lines finds files without one, and none in this tree."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def check(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("check_licenses")


def test_this_tree(check: ModuleType, root: Path) -> None:
    paths = check.sources(root)
    assert "lib/Fusion/Plan.cpp" in paths
    assert check.without_license(root, paths) == []


def test_finds(check: ModuleType, tmp_path: Path) -> None:
    line = f"# {check.IDENTIFIER}\n"
    texts = {
        "with.py": f"#!/usr/bin/env python3\n{line}",
        "without.py": "import os\n",
        "late.cpp": "//\n" * 4 + f"// {check.IDENTIFIER}\n",
        "other.h": "// SPDX-License-Identifier: MIT\n",
        "data.json": "{}\n",
        "empty.py": "",
    }
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    found = check.without_license(tmp_path, check.sources(tmp_path))
    assert sorted(found) == ["empty.py", "late.cpp", "other.h", "without.py"]
