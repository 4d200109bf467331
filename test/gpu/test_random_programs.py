# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random programs on CUDA: pyjit and eager must agree.

The programs and the comparison are the CPU's (test/Integration). Programs
grow on the CPU, which refuses an index out of range; on a device it would end
the context. All failures are collected: a visit to a machine with a GPU is short.

PYJIT_EXAMPLES sets the number of programs, 1000 by default.
"""

from __future__ import annotations

import os

import pytest
from Integration import test_random_programs as on_cpu
from Integration.random_kinds import straight_line

PARTS = 10
EXAMPLES = int(os.environ.get("PYJIT_EXAMPLES", "1000"))


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.filterwarnings("ignore")
def test_random_programs(part: int) -> None:
    before = dict(on_cpu.tally)
    batch = straight_line(device="cuda")(part, max(1, EXAMPLES // PARTS))
    ran = on_cpu.tally["programs"] - before["programs"]
    captured = on_cpu.tally["captured"] - before["captured"]
    print(f"part {part}: {captured} of {ran} captured, {len(batch.failures)} differ")
    assert not batch.failures, f"{len(batch.failures)} of {ran}:\n" + "\n".join(
        batch.failures[:20]
    )
    assert captured > 0.6 * ran, on_cpu.reasons
