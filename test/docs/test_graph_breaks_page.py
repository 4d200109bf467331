# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/GraphBreaks.md has a section for each kind of reason, and its examples do what it says."""

from __future__ import annotations

import contextlib
import io
import re
import textwrap
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

pyjit = pytest.importorskip("pyjit", exc_type=ImportError)
from pyjit._C import ReasonKind
from pyjit._reasons import ENTRIES, PAGE, code_of

ROOT = Path(__file__).parents[2]


def sections() -> dict[str, str]:
    parts = re.split(r"^### (.*)$", (ROOT / PAGE).read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_each_kind_has_a_section_and_no_section_is_left_over() -> None:
    assert set(sections()) == {code_of(kind) for kind in ReasonKind}


def test_each_kind_has_an_entry() -> None:
    assert set(ENTRIES) == set(ReasonKind)
    for entry in ENTRIES.values():
        assert entry.title and entry.remedy
        assert not entry.remedy.endswith(".")


@pytest.mark.parametrize("kind", list(ReasonKind), ids=lambda kind: kind.name)
def test_the_page_gives_the_remedy(kind: ReasonKind) -> None:
    """The same that reports and warnings give."""
    text = " ".join(sections()[code_of(kind)].split())
    assert f"**What to do:** {ENTRIES[kind].remedy}." in text


def test_the_index_has_each_kind_once() -> None:
    """What passes by itself is in the row of what needs nothing."""
    page = (ROOT / PAGE).read_text()
    rows = page.split("| how bad | codes |")[1].split("\n\n")[0].splitlines()[2:]
    listed = [re.findall(r"\[([\w-]+)\]\(#\1\)", row) for row in rows]
    every = [code for codes in listed for code in codes]
    assert sorted(every) == sorted(code_of(kind) for kind in ReasonKind)
    passing = {code_of(kind) for kind, entry in ENTRIES.items() if entry.passing}
    assert rows[-1].startswith("| nothing to do") and passing <= set(listed[-1])


def examples() -> list[tuple[str, str, str]]:
    """Sections' code, what breaks and what does not, by the section's name."""
    found = []
    for code, text in sections().items():
        for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
            broken, right = re.fullmatch(
                r"# breaks\n(.*?)\n\n# does not\n(.*)", block, flags=re.DOTALL
            ).groups()
            found.append((code, broken, right))
    return found


def function(source: str, file: Path) -> Any:
    """The function f of an example, which is the whole of it, or a body that computes y of x."""
    if "def f(" not in source:
        source = f"def f(x):\n{textwrap.indent(source, '    ')}\n    return y\n"
    else:
        source = source.split("\n\nstart = ")[0]
    file.write_text(f"import torch\n\n\n{source}")
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(file.read_text(), str(file), "exec"), names)
    return names["f"]


def reasons(f: Any) -> list[Any]:
    fast = pyjit.compile(f)
    inputs = [torch.tensor([1.0, -2.0, 3.0, 5.0]), torch.tensor([0.5, 2.5, -1.0, 1.0])]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x in 3 * inputs:
            with contextlib.redirect_stdout(io.StringIO()):
                fast(x)
    return pyjit.stats(fast)["reasons"]


@pytest.mark.parametrize(
    ("code", "broken", "right"), examples(), ids=[code for code, _, _ in examples()]
)
def test_examples(code: str, broken: str, right: str, tmp_path: Path) -> None:
    found = reasons(function(broken, tmp_path / "broken.py"))
    if code != "branch-on-data":  # merged by itself after both ways were seen
        assert code in [reason.code for reason in found], found
    assert not reasons(function(right, tmp_path / "right.py"))


@pytest.mark.parametrize("page", ["GraphBreaks.md", "Explain.md", "Options.md"])
def test_pages_have_short_lines_and_links_that_lead_somewhere(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    fenced = False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        assert len(line) <= 120 or line.startswith("|"), line
    for target in re.findall(r"\]\(([^)#]+)", text):
        assert (ROOT / "docs" / target).exists(), target
