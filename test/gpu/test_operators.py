# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operator conformance on a GPU: the cases of test/Operators, with eager's CUDA kernels as the oracle."""

from __future__ import annotations

import pytest
from Operators.schemas import Row, compiled_rows
from Operators.test_conformance import conforms, quiet, test_report

__all__ = ["quiet", "test_report"]


@pytest.mark.parametrize("row", compiled_rows(), ids=lambda row: row.overload)
def test_overload(row: Row) -> None:
    conforms(row, "cuda")
