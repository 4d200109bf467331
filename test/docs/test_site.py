# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The site builds without a network and without a warning, and its checks find what they should."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("sphinx")
pytest.importorskip("myst_parser")


@pytest.fixture
def site(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("build_site")


def test_builds(
    site: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for proxy in ("http_proxy", "https_proxy"):  # of the process that is started
        monkeypatch.setenv(proxy, "http://127.0.0.1:9")
    site.build(tmp_path / "site")
    front = (tmp_path / "site/index.html").read_text()
    for part in ("Use", "Understand", "Change", "Decisions"):
        assert f'<span class="caption-text">{part}</span>' in front
    for name in site.reference_names():
        assert (tmp_path / "site" / name).with_suffix(".html").exists(), name
    operations = (tmp_path / "site/reference/tssa.html").read_text()
    assert "tssa.assign" in operations
    passes = (tmp_path / "site/reference/passes-Fusion.html").read_text()
    assert "fusion-in-place" in passes


def test_every_pass_and_operation_is_in_the_reference(
    site: ModuleType, root: Path
) -> None:
    """Whatever file of definitions is added."""
    text = "\n".join(site.reference().values())
    for file in root.glob("*/**/*.td"):
        if file.name == "Passes.td" and file.relative_to(root).parts[0] != "test":
            for name in re.findall(
                r'^def \w+ *: *Pass<\s*"([\w-]+)"', file.read_text(), re.MULTILINE
            ):
                assert f"`-{name}`" in text, name
        if file.is_relative_to(root / "dialects"):
            dialect = file.relative_to(root / "dialects").parts[0]
            for name in re.findall(
                r'^def\s+\w+Op\s*:\s*\w+<\s*"(\w+)"', file.read_text(), re.MULTILINE
            ):
                assert f"`{dialect}.{name}`" in text, name


def test_the_list_of_pages_has_what_the_navigation_has(
    site: ModuleType, root: Path
) -> None:
    """The table of docs/README.md names the pages of docs/ in the navigation's parts and order."""
    text = (root / "docs/README.md").read_text()
    rows = re.findall(r"^\| (\w+) \| people .*\|$", text, re.MULTILINE)
    navigation = {
        title: [page for page in pages if page != "docs/README.md"]
        for title, pages in site.navigation().items()
    }
    assert [*rows, "Decisions"] == list(navigation)
    for row in rows:
        line = re.search(rf"^\| {row} \|.*$", text, re.MULTILINE)[0]  # type: ignore[index]
        linked = [
            os.path.normpath(f"docs/{target}")
            for target in re.findall(r"\]\(([^)#]+)\)", line)
        ]
        assert [page for page in navigation[row] if page in linked] == linked, row
        left_out = set(navigation[row]) - set(linked)
        assert not [page for page in left_out if page.startswith("docs/")], row


def test_public_names_are_documented(site: ModuleType) -> None:
    text = site.api()
    import pyjit

    for name in pyjit.__all__:
        assert f"## {name}" in text, name
    assert "```pycon\n>>> import pyjit" in text
    assert "- `graph_breaks: list[Reason]`: Every place" in text
    assert "- `remedy(self) -> str`: What to do" in text


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("[x](Nothing.md)", "docs/Limits.md: no Nothing.md"),
        ("[x](Options.md#nowhere)", "local id not found"),
        ("[x](#nowhere)", "cross-reference target not found"),
    ],
)
def test_broken_links_are_errors(
    site: ModuleType,
    link: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = tmp_path / "tree"
    for name in ("docs/site/conf.py", "docs/site/navigation.toml", "docs/Options.md"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(site.ROOT / name, tree / name)
    (tree / "README.md").write_text("# Here\n")
    (tree / "docs/Explain.md").write_text("# Explain\n")
    (tree / "docs/GraphBreaks.md").write_text("# Breaks\n")
    (tree / "docs/Limits.md").write_text(f"# Limits\n\n{link}\n")
    (tree / "docs/Options.md").write_text("# Options\n")
    monkeypatch.setattr(site, "ROOT", tree)
    pages = [
        "docs/Limits.md",
        "docs/Options.md",
        "docs/Explain.md",
        "docs/GraphBreaks.md",
    ]
    monkeypatch.setattr(site, "navigation", lambda: {"Use": pages})
    monkeypatch.setattr(site, "reference", dict)
    monkeypatch.setattr(site, "unlisted", lambda _: [])
    with pytest.raises(site.SiteError, match=message):
        site.build(tmp_path / "site")


# Files that pages name and that are not in the tree: what programs write, and placeholders.
WRITTEN = {"manifest.json", "op_db.md", "page.py", "report.html"}


def test_files_that_pages_name_exist(site: ModuleType, root: Path) -> None:
    """In backticks, by their whole path or its end."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    ends = {
        "/".join(path.split("/")[start:])
        for path in listed
        for start in range(path.count("/") + 1)
    }
    pages = {page for pages in site.navigation().values() for page in pages}
    missing = []
    for page in sorted(pages - {"docs/Status.md", "CHANGELOG.md"}):
        if page.startswith("reference/"):
            continue
        text = site.FENCE.sub("", (root / page).read_text())
        named = re.findall(
            r"`([\w./-]+\.(?:cpp|h|c|td|def|py|pyi|sh|mlir|md|toml|lock))`", text
        )
        missing += [
            f"{page}: {name}"
            for name in named
            if name not in ends
            and name.split("/")[-1] not in WRITTEN
            and not re.search(r"DATE|NAME|^name", name)
        ]
    assert not missing, "\n".join(missing)
