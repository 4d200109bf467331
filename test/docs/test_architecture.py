"""docs/Architecture.md shows what the tools print."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def test_page_is_current(root: Path, bin_dir: Path) -> None:
    script = root / "tools/dev/update_architecture.py"
    spec = importlib.util.spec_from_file_location("update_architecture", script)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (root / "docs/Architecture.md").read_text()
    made = module.blocks(bin_dir)
    for name in made:
        assert f"<!-- live: {name} -->" in page, name
    assert module.render(page, made) == page, (
        "the IR has changed: run tools/dev/update_architecture.py and read what it shows"
    )
