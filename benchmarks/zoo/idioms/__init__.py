# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Things that people write: one small function for each, by chapter."""

from __future__ import annotations

from zoo import Program
from zoo.idioms import (  # noqa: F401  (each chapter registers its idioms)
    arguments,
    beyond_dense,
    control_flow,
    data_loops,
    indexing,
    mathematics,
    objects_and_effects,
    registry,
)


def programs() -> list[Program]:
    return list(registry.programs)
