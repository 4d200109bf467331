#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the documentation's site into build/site, without a network; any warning is an error.

  .venv/bin/python tools/dev/build_site.py [FOLDER]

The pages are the Markdown files that docs/site/navigation.toml lists, wherever they are in the tree, and the
reference of dialects and passes, which mlir-tblgen writes from their definitions at each build. A link
to a page leads to that page, one to a folder to its README, one to another file of the tree to a copy of that
file. A link that leads nowhere, a heading that does not exist and a page that no part lists are errors.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("PYJIT_BUILD", ROOT / "build"))
NAVIGATION = ROOT / "docs/site/navigation.toml"
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
FENCE = re.compile(r"^(`{3,}).*?^\1$", re.MULTILINE | re.DOTALL)

# The definitions of each dialect. A page is asked for by the dialect's name, for they include those of others.
DIALECTS = {
    "refgraph": "dialects/refgraph/IR/RefGraphOps.td",
    "tssa": "dialects/tssa/IR/TSSAOps.td",
    "cudagraph": "dialects/cudagraph/IR/CudaGraphOps.td",
}


API = "reference/api.md"


class SiteError(Exception):
    """What is wrong with a page, or what Sphinx says."""


@dataclass
class Site:
    """The pages, and what is known of links between them."""

    parts: dict[str, list[str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def pages(self) -> set[str]:
        return {page for pages in self.parts.values() for page in pages}


def tablegen() -> Path:
    """The mlir-tblgen of the LLVM that the build uses."""
    cache = (BUILD / "CMakeCache.txt").read_text()
    found = re.search(r"^MLIR_DIR:[A-Z]+=(.*)$", cache, re.MULTILINE)
    if not found:
        raise SiteError("build/CMakeCache.txt names no MLIR_DIR: configure the build")
    return Path(found[1]).parents[2] / "bin/mlir-tblgen"


def generated(kind: str, definitions: str) -> str:
    """What mlir-tblgen writes of some definitions, as this site's pages are written."""
    tool = tablegen()
    done = subprocess.run(
        [
            tool,
            *kind.split(),
            "-I",
            ROOT,
            "-I",
            ROOT / "include",
            "-I",
            ROOT / "dialects",
        ]
        + ["-I", tool.parents[1] / "include", ROOT / definitions],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SiteError(f"{definitions}: {done.stderr}")
    text = re.sub(r"^<!-- .*? -->\n", "", done.stdout)
    return text.replace("[TOC]\n", "").replace("See README.md in this folder.", "")


@functools.cache
def reference() -> dict[str, str]:
    """Path and text of each generated page."""
    pages = {
        f"reference/{name}.md": generated(
            f"-gen-dialect-doc -dialect={name}", definitions
        )
        + f"\n[Words and reasons](../dialects/{name}/README.md)\n"
        for name, definitions in DIALECTS.items()
    }
    for file in sorted(ROOT.glob("*/**/Passes.td")):
        path = file.relative_to(ROOT)
        if path.parts[0] not in ("dialects", "lib", "include"):
            continue
        folder = path.parent.as_posix().removeprefix("include/pyjit/")
        folder = folder.removeprefix("lib/").removeprefix("dialects/")
        name = folder.removesuffix("/Transforms").replace("/", "-")
        text = generated("-gen-pass-doc", path.as_posix())
        # Headings begin at the third level there.
        text = re.sub(r"^##(#+) ", r"\1# ", text, flags=re.MULTILINE)
        title = name.replace("-", ", ")
        pages[f"reference/passes-{name}.md"] = (
            f"# Passes: {title}\n\nDefined in `{path.as_posix()}`.\n\n{text}"
        )
    pages[API] = api()
    return pages


def navigation() -> dict[str, list[str]]:
    """The pages of each part."""
    parts = {}
    for part in tomllib.loads(NAVIGATION.read_text())["part"]:
        pages: list[str] = []
        for page in part["pages"]:
            if page == "reference":
                pages += sorted(reference_names())
            elif page == "decisions":
                found = sorted((ROOT / "docs/decisions").glob("*.md"), reverse=True)
                pages += [file.relative_to(ROOT).as_posix() for file in found]
            else:
                pages.append(page)
        parts[part["title"]] = pages
    return parts


def reference_names() -> list[str]:
    """The generated pages of dialects and passes."""
    return [page for page in reference() if page != API]


def api() -> str:
    """The public names, as python-bindings/pyjit/__init__.pyi has them."""
    tree = ast.parse((ROOT / "python-bindings/pyjit/__init__.pyi").read_text())
    text = "# The Python API\n\nWhat `import pyjit` offers. [Options.md](../docs/Options.md) has the options.\n"
    seen = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            if node.name not in seen:
                text += f"\n## {node.name}\n"
            seen.add(node.name)
            text += "\n" + entry(node)
    return text


def entry(node: ast.FunctionDef | ast.ClassDef) -> str:
    """One definition: how it is written, what it says of itself, and a class' members."""
    said = page_text(ast.get_docstring(node))
    if isinstance(node, ast.FunctionDef):
        return f"```python\n{ast.unparse(plain(node))}\n```\n\n{said}\n"
    head = f"class {node.name}({', '.join(map(ast.unparse, node.bases))})"
    members = [each for each in node.body[1:] if not is_text(each)]
    lines = [
        f"- `{written(each)}`: {' '.join(page_text(text_behind(node, each)).split())}".rstrip(
            ": "
        )
        for each in members
    ]
    return f"```python\n{head.replace('()', '')}\n```\n\n{said}\n\n" + "\n".join(
        lines + [""]
    )


def written(node: ast.stmt) -> str:
    """A member in one line, without what its kind makes clear."""
    text = " ".join(ast.unparse(plain(node)).split())
    return text.replace("@property ", "").replace("def ", "").removesuffix(": ...")


def text_behind(owner: ast.ClassDef, member: ast.stmt) -> str | None:
    """What a method, or the string that follows an attribute, says."""
    if isinstance(member, ast.FunctionDef):
        return ast.get_docstring(member)
    following = owner.body[owner.body.index(member) + 1 :][:1]
    if following and is_text(following[0]):
        return inspect.cleandoc(ast.literal_eval(following[0].value))  # type: ignore[attr-defined]
    return None


def page_text(documentation: str | None) -> str:
    """A docstring as Markdown: names in backticks, examples as code."""
    text = (documentation or "").replace("``", "`")
    example = re.compile(r"^>>> .*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
    return example.sub(lambda match: f"```pycon\n{match[0]}\n```", text)


def is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def plain(node: ast.stmt) -> ast.stmt:
    """A definition without what it says of itself."""
    if isinstance(node, ast.FunctionDef):
        node = copy.copy(node)
        node.body = [ast.Expr(ast.Constant(...))]
    return node


def unlisted(site: Site) -> list[str]:
    """Pages of the tree that no part lists. Measurements are no pages."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    return [
        path
        for path in listed
        if path not in site.pages
        and path != "README.md"
        and not path.startswith(("benchmarks/results/", ".github/"))
    ]


def follow(site: Site, page: str, text: str, stage: Path) -> str:
    """A page whose links lead to pages and copied files only."""

    def link(match: re.Match[str]) -> str:
        words, target = match[1], match[2]
        if re.match(r"(https?|mailto):|#", target):
            return match[0]
        path, mark, anchor = target.partition("#")
        file = (ROOT / page).parent / path
        if not file.exists():
            site.problems.append(f"{page}: no {target}")
            return words
        name = file.resolve().relative_to(ROOT).as_posix()
        if file.is_dir():
            if f"{name}/README.md" not in site.pages:
                return words
            return f"[{words}]({path.rstrip('/')}/README.md)"
        if name == "README.md":
            up = os.path.relpath("index.md", Path(page).parent)
            return f"[{words}]({up}{mark}{anchor})"
        if name in site.pages:
            return match[0]
        if file.suffix == ".md":
            return words
        (stage / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, stage / name)
        return match[0]

    pieces, end = [], 0
    for fence in FENCE.finditer(text):
        pieces += [LINK.sub(link, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join(pieces) + LINK.sub(link, text[end:])


def index(site: Site) -> str:
    """The README, followed by the navigation."""
    text = (ROOT / "README.md").read_text()
    for title, pages in site.parts.items():
        names = "\n".join(page.removesuffix(".md") for page in pages)
        text += f"\n```{{toctree}}\n:hidden:\n:maxdepth: 1\n:caption: {title}\n\n{names}\n```\n"
    return text


def stage_pages(stage: Path) -> Site:
    """Writes all pages below a folder, as they are in the tree."""
    shutil.rmtree(stage, ignore_errors=True)
    site = Site(navigation())
    site.problems += [
        f"{path}: in no part of {NAVIGATION.name}" for path in unlisted(site)
    ]
    made = reference()
    texts = {"index.md": ("README.md", index(site))}
    for page in sorted(site.pages):
        if page in made:
            texts[page] = (page, made[page])
        elif (ROOT / page).exists():
            texts[page] = (page, (ROOT / page).read_text())
        else:
            site.problems.append(f"{NAVIGATION.name}: no {page}")
    for name, (page, text) in texts.items():
        (stage / name).parent.mkdir(parents=True, exist_ok=True)
        if page not in made:
            text = follow(site, page, text, stage)
        (stage / name).write_text(text)
    return site


def build(out: Path) -> None:
    """The whole site; raises SiteError with everything that is wrong."""
    stage = out.parent / f"{out.name}-pages"
    site = stage_pages(stage)
    if site.problems:
        raise SiteError("\n".join(site.problems))
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
        + ["-c", ROOT / "docs/site", stage, out],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SiteError(done.stderr.replace(f"{stage}/", ""))


def main() -> int:
    out = Path(sys.argv[1]).resolve() if sys.argv[1:] else BUILD / "site"
    try:
        build(out)
    except SiteError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{out / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
