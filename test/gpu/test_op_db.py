# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch's own samples for every operator in the table, on CUDA.

float32, float16 and bfloat16, as test/Integration/test_op_db.py does on the
CPU and by its functions (PYJIT_OPDB=full, PYJIT_OPDB_LIMIT, PYJIT_OPDB_PART).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from Integration import test_op_db as on_cpu

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
NOT_COMPARABLE = {
    # Atomic additions in no fixed order, so that eager differs from itself.
    "histc",
}


@pytest.fixture(autouse=True)
def full_precision() -> Iterator[None]:
    """Convolutions in float32, not in tf32: the algorithm is cuDNN's choice."""
    # PyTorch's own test modules forbid to assign the flag itself.
    before = torch._C._get_cudnn_allow_tf32()
    torch._C._set_cudnn_allow_tf32(False)
    yield
    torch._C._set_cudnn_allow_tf32(before)


OPERATORS = [op for op in on_cpu.OPERATORS if op.name not in NOT_COMPARABLE]


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.full_name)
def test_operator(op: Any) -> None:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in DTYPES:
            if dtype not in op.supported_dtypes("cuda"):
                continue
            calls = on_cpu.chosen(op, dtype, "cuda")
            for spelling, function in on_cpu.spellings(op):
                if spelling == "in-place" and dtype != torch.float32:
                    continue
                for start in range(0, len(calls), on_cpu.GROUP):
                    what = f"{op.full_name} ({spelling}), {dtype}, from {start}"
                    group = calls[start : start + on_cpu.GROUP]
                    name = f"{op.full_name} ({spelling})"
                    on_cpu.check(name, function, group, what)


def test_most_are_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    """Operators that run in eager test nothing."""
    if not on_cpu.report:
        pytest.skip("no operator ran in this process")
    own = [n for n, c in on_cpu.report.items() if "own kernels" in c or "both" in c]
    eager = [n for n, c in on_cpu.report.items() if all("eager" in k for k in c)]
    with capsys.disabled():
        print(
            f"\nop_db on CUDA: {len(on_cpu.report)} spellings, {len(own)} through our own "
            f"kernels, {len(eager)} in eager: {', '.join(sorted(eager))}"
        )
    assert len(eager) < 0.2 * len(on_cpu.report), eager
