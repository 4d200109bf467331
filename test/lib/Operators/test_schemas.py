"""The operator table's files against the installed torch and the built tools."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path


def test_schemas_are_torch_s(root: Path) -> None:
    """lib/Operators/Schemas.td says what torch prints."""
    script = root / "tools/dev/update_schemas.py"
    spec = importlib.util.spec_from_file_location("update_schemas", script)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (root / "lib/Operators/Schemas.td").read_text() == module.render()


def test_coverage_page_is_current(root: Path, bin_dir: Path) -> None:
    """docs/Operators.md is what the table says."""
    page = subprocess.run(
        [bin_dir / "pyjit-translate", "--operators-to-markdown"],
        input="module {}",
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert (root / "docs/Operators.md").read_text() == page
    counts = page.count("| own kernel |") + page.count("| view |")
    assert counts + page.count("| in-place form |") >= 150
