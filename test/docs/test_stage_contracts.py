# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/StageContracts.md names the passes that run, in their order, and every attribute."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

PROGRAM = """
func.func @f(%x: !tssa.ref<tensor<3xf32>>) -> tensor<3xf32> {
  %0 = tssa.load %x : !tssa.ref<tensor<3xf32>>
  return %0 : tensor<3xf32>
}
"""


def page(root: Path) -> str:
    return (root / "docs/StageContracts.md").read_text()


def test_steps_of_the_functional_program(root: Path, bin_dir: Path) -> None:
    steps = page(root).split("| step | passes |")[1].split("\n\n")[0]
    # The cells of the second column; a pipeline is followed by its passes.
    cells = [row.split("|")[2] for row in steps.splitlines()[2:]]
    named = re.findall(r"`([a-z-]+)`(?!:)", " ".join(cells))
    done = subprocess.run(
        [bin_dir / "pyjit-opt", "--pyjit-frontend", "--mlir-print-ir-after-all"],
        input=PROGRAM,
        capture_output=True,
        text=True,
        check=True,
    )
    run = re.findall(r"IR Dump After \w+ \(([\w-]+)\)", done.stderr)
    assert run[run.index("convert-refgraph-to-tssa") + 1 :] == named


def test_every_attribute_is_listed(root: Path) -> None:
    header = (root / "dialects/pyjit/IR/Attributes.h").read_text()
    names = re.findall(r'"(pyjit\.\w+)"', header)
    assert names
    text = page(root)
    assert not [name for name in names if not re.search(rf"`{name}\b(?!_)", text)]
