# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The runtime's own PTX, by ptxas where there is one. On a GPU the driver takes it, too."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

PTXAS = shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")
FOLDER = Path(__file__).parents[3]


def texts() -> dict[str, str]:
    """What stands as PTX in the sources, by the name of its first entry."""
    found = {}
    for file in (
        "runtime/cuda/LoadedKernels.cpp",
        "test/runtime/cuda/Drivers.h",
        "test/gpu/conditional_diagnostic.py",
    ):
        source = (FOLDER / file).read_text()
        for text in re.findall(
            r"\.version 7\.0\n\.target.*?\n}\n(?=\)\"|\"\"\")", source, re.DOTALL
        ):
            name = re.search(r"\.entry (\w+)", text)
            assert name
            found[name[1]] = text
    return found


@pytest.mark.parametrize("chip", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("name", sorted(texts()))
def test_is_assembled(name: str, chip: str, tmp_path: Path) -> None:
    if not PTXAS:
        pytest.skip("no ptxas on this machine")
    source = tmp_path / "code.ptx"
    source.write_text(texts()[name])
    # Relocatable: the driver has the function that sets conditions.
    done = subprocess.run(
        [PTXAS, "-c", f"-arch={chip}", str(source), "-o", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_setter_of_the_diagnostic_is_the_runtimes() -> None:
    found = texts()
    assert (
        found["pyjit_set_condition"].replace("pyjit_set_condition", "set_condition")
        == (found["set_condition"])
    )
