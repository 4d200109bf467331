# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decisions have one form, and each is in the list of docs/README.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted((DOCS / "decisions").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_form(page: Path) -> None:
    text = page.read_text()
    sections = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
    assert sections[1::2] == ["Context", "Decision", "Consequences", "Status"]
    assert all(section.strip() for section in sections[2::2])
    assert f"]({page.relative_to(DOCS).as_posix()})" in (DOCS / "README.md").read_text()
