# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/Architecture.md shows what the tools print."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType


def test_page_is_current(
    root: Path, bin_dir: Path, load_script: Callable[[str], ModuleType]
) -> None:
    module = load_script("update_architecture")
    page = (root / "docs/Architecture.md").read_text()
    made = module.blocks(bin_dir)
    for name in made:
        assert f"<!-- live: {name} -->" in page, name
    assert module.render(page, made) == page, (
        "the IR has changed: run tools/dev/update_architecture.py and read what it shows"
    )
