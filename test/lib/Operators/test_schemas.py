"""The operator table's files against the installed torch and the built tools."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any


def loaded(script: Path) -> Any:
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_schemas_are_torch_s(root: Path) -> None:
    """lib/Operators/Schemas.td says what torch prints."""
    module = loaded(root / "tools/dev/update_schemas.py")
    assert (root / "lib/Operators/Schemas.td").read_text() == module.render()


def test_coverage_page_is_current(root: Path) -> None:
    """docs/Operators.md is what the table and the last full conformance runs say."""
    script = loaded(root / "tools/dev/update_operators.py")
    page = script.render(json.loads(script.COMPARED.read_text()))
    assert (root / "docs/Operators.md").read_text() == page
    counts = page.count("| own kernel |") + page.count("| view |")
    assert counts + page.count("| in-place form |") >= 150
