# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/Architecture.md and examples/reading-ir show what the tools print."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.mark.parametrize(
    "name", ["docs/Architecture.md", "examples/reading-ir/README.md"]
)
def test_page_is_current(
    name: str, root: Path, bin_dir: Path, load_script: Callable[[str], ModuleType]
) -> None:
    module = load_script("update_architecture")
    page = (root / name).read_text()
    made = module.PAGES[name](module.Tools(bin_dir))
    for block in made:
        assert f"<!-- live: {block} -->" in page, block
    assert module.render(page, made) == page, (
        "the IR has changed: run tools/dev/update_architecture.py and read what it shows"
    )
