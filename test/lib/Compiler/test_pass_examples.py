# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The example in each pass's description does what it says."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
OPT = ROOT / "build/bin/pyjit-opt"
TABLES = [
    "dialects/refgraph/Transforms/Passes.td",
    "include/pyjit/Differentiation/Passes.td",
]


def examples() -> list[tuple[str, str, str]]:
    """Pass (with the options that its example names), input and output of each description."""
    found = []
    texts = [
        text
        for name in TABLES
        for text in (ROOT / name).read_text().split("\ndef ")[1:]
    ]
    for text in texts:
        name = re.search(r'Pass<"([\w-]+)"', text)
        blocks = re.findall(r"```mlir\n(.*?)```", text, flags=re.DOTALL)
        assert name and len(blocks) == 2, text[:80]
        options = re.search(r"With `(\w+=\S+)`:\s*```mlir", text)
        suffix = f"={options.group(1)}" if options else ""
        found.append((name.group(1) + suffix, blocks[0], blocks[1]))
    return found


def run(text: str, *options: str) -> list[str]:
    done = subprocess.run(
        [OPT, *options],
        check=False,
        input=text,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


@pytest.mark.skipif(not OPT.exists(), reason="pyjit-opt is not built")
@pytest.mark.parametrize(("name", "before", "after"), examples())
def test_example(name: str, before: str, after: str) -> None:
    wanted = run(after)[1:-1]  # without the module around it
    got = run(before, f"--{name}")
    start = got.index(wanted[0])
    assert got[start : start + len(wanted)] == wanted
