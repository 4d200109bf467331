# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every pass, pipeline and op that is registered appears in a test.

A pass or pipeline has to occur, as `--name` or inside a pipeline string, in a RUN
line; an op has to occur in the body of a lit test.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest


def _help(bin_dir: Path) -> str:
    tool = bin_dir / "pyjit-opt"
    return subprocess.run(
        [tool, "--help"], capture_output=True, text=True, check=True
    ).stdout


def _options_of_passes(text: str) -> dict[str, str]:
    """Pass arguments of `--help`, with their descriptions."""
    found = {}
    # Passes and pipelines are listed eight columns in; their options deeper.
    for match in re.finditer(
        r"^ {4,6}--([a-z][\w-]*)(?:=<[^>]*>)?\s+-\s*(.*)$", text, re.MULTILINE
    ):
        found[match.group(1)] = match.group(2)
    return found


def _own(name: str) -> bool:
    prefixes = (
        "refgraph-",
        "tssa-",
        "cudagraph-",
        "fusion-",
        "pyjit-",
        "x86-",
        "codegen-",
    )
    return name.startswith(prefixes) or bool(
        re.match(r"convert-.*(refgraph|tssa)", name)
    )


def _lit_files(root: Path) -> list[Path]:
    return sorted((root / "test").rglob("*.mlir")) + sorted(
        (root / "test").rglob("*.test")
    )


@pytest.fixture(scope="module")
def run_lines(root: Path) -> str:
    lines = []
    for file in _lit_files(root):
        for line in file.read_text().splitlines():
            if "RUN:" in line:
                lines.append(line)
    return "\n".join(lines)


def test_passes_and_pipelines(bin_dir: Path, run_lines: str) -> None:
    options = _options_of_passes(_help(bin_dir))
    mine = {name: text for name, text in options.items() if _own(name)}
    assert mine, "pyjit-opt --help lists no pass of ours"
    untested = [
        name
        for name in mine
        if not re.search(rf"(--|[(,='\"\s]){name}(?![\w-])", run_lines)
    ]
    assert not untested, f"in no RUN line: {untested}"
    undescribed = [name for name, text in mine.items() if len(text.strip()) < 10]
    assert not undescribed, f"without a description: {undescribed}"


def _ops(root: Path) -> list[str]:
    """Op mnemonics of our dialects' TableGen files."""
    found = []
    for file in sorted((root / "dialects").rglob("*.td")):
        dialect = file.relative_to(root / "dialects").parts[0]
        for match in re.finditer(
            r'^def\s+\w+Op\s*:\s*\w+<\s*"(\w+)"', file.read_text(), re.MULTILINE
        ):
            found.append(f"{dialect}.{match.group(1)}")
    return found


def test_ops(root: Path) -> None:
    ops = _ops(root)
    assert ops, "no op found in dialects/*.td"
    text = "\n".join(
        line
        for file in _lit_files(root)
        for line in file.read_text().splitlines()
        if not line.lstrip().startswith("//")
    )
    missing = [
        op for op in ops if not re.search(rf"(?<![\w.]){re.escape(op)}(?![\w.])", text)
    ]
    assert not missing, f"in no lit test: {missing}"


def test_every_dialect_file_has_an_errors_file(root: Path) -> None:
    for dialect in sorted(
        path.parent for path in (root / "dialects").glob("*/README.md")
    ):
        files = list((root / "test" / "dialects" / dialect.name).rglob("*errors*.mlir"))
        files += list((root / "test" / dialect.name).rglob("*errors*.mlir"))
        assert files, f"no *-errors.mlir for {dialect.name}"


def test_bad_input_ends_in_a_diagnostic(bin_dir: Path, tmp_path: Path) -> None:
    tool = bin_dir / "pyjit-opt"
    bad = tmp_path / "bad.mlir"
    for text in ("module {", "%0 = nonsense", "refgraph.trace @f {", "\x00\xff"):
        bad.write_text(text)
        done = subprocess.run([tool, bad], capture_output=True, text=True, check=False)
        assert done.returncode == 1, (text, done.returncode)
        assert "bad.mlir:" in done.stderr, done.stderr
    done = subprocess.run(
        [tool, tmp_path / "missing.mlir"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "missing.mlir" in done.stderr
