#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exit status 0 when this interpreter has exactly the versions a lock file names."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path


def differences(lock: Path) -> list[str]:
    found = []
    for line in lock.read_text().splitlines():
        line = line.split("#")[0].strip()
        if not line:
            continue
        name, _, version = line.partition("==")
        try:
            have = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            have = "none"
        if have != version:
            found.append(f"{name}: have {have}, want {version}")
    return found


if __name__ == "__main__":
    problems = differences(Path(sys.argv[1]))
    print("\n".join(problems) or "as locked")
    sys.exit(bool(problems))
