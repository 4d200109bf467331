# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packages of PyPI that nobody here has written (``benchmarks/packages.txt``), as their pages show them.

``tools/dev/packages.sh`` installs them to build/packages; what is not there is not among the programs.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from zoo import Program
from zoo.packages import registry

INSTALLED = Path(__file__).resolve().parents[3] / "build/packages"
SUBJECTS = ("vision", "sequences", "diffusion", "science", "sound", "learning")


def programs() -> list[Program]:
    if str(INSTALLED) not in sys.path:
        sys.path.append(str(INSTALLED))
    for subject in SUBJECTS:
        importlib.import_module(f"zoo.packages.{subject}")
    return list(registry.programs)
