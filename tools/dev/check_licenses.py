#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that each source file names the license in one of its first lines.

The line is `SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception`, in a comment. Prints FILE: message;
exit status 1 if a file lacks it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

IDENTIFIER = "SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception"
# Endings and names of source files. Data, text and generated pages are none.
SUFFIXES = {
    ".h",
    ".c",
    ".cpp",
    ".def",
    ".td",
    ".mlir",
    ".py",
    ".pyi",
    ".sh",
    ".cmake",
} | {".toml", ".yml"}
NAMES = {"CMakeLists.txt", ".clang-format", ".ci/run"}
FIRST_LINES = 4


def is_source(path: str) -> bool:
    return Path(path).suffix in SUFFIXES or path in NAMES or Path(path).name in NAMES


def sources(root: Path) -> list[str]:
    """The source files that git knows or would add, and that exist."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return [path for path in listed if is_source(path) and (root / path).is_file()]


def without_license(root: Path, paths: list[str]) -> list[str]:
    return [
        path
        for path in paths
        if not any(
            line.endswith(IDENTIFIER)
            for line in (root / path)
            .read_text(encoding="utf-8")
            .splitlines()[:FIRST_LINES]
        )
    ]


def main() -> int:
    root = Path(__file__).resolve().parents[2]
    paths = sources(root)
    missing = without_license(root, paths)
    for path in missing:
        print(f"{path}: no line with {IDENTIFIER!r} at its beginning")
    if not missing:
        print(f"licenses: named in all {len(paths)} source files")
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
