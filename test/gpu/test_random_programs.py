"""Random programs on CUDA: pyjit and eager must agree.

The programs and the comparison are the CPU's (test/Integration). Programs
grow on the CPU, which refuses an index out of range; on a device it would end
the context. All failures are collected: a visit to a machine with a GPU is short.

PYJIT_EXAMPLES sets the number of programs, 1000 by default.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from Integration import test_random_programs as on_cpu
from Integration.random_programs import Program, programs

PARTS = 10
EXAMPLES = int(os.environ.get("PYJIT_EXAMPLES", "1000"))


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.filterwarnings("ignore")
def test_random_programs(part: int) -> None:
    failures: list[str] = []
    ran = captured = 0

    @seed(part)
    @settings(
        max_examples=max(1, EXAMPLES // PARTS),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(programs())
    def run(program: Program) -> None:
        program.device = "cuda"
        try:
            on_cpu.check(program)
        except Exception as error:
            if "CUDA" in str(error) and "error" in str(error):
                raise  # the context may be lost
            failures.append(f"{type(error).__name__}: {error}\n{program.snippet()}")

    before = dict(on_cpu.tally)
    run()
    ran = on_cpu.tally["programs"] - before["programs"]
    captured = on_cpu.tally["captured"] - before["captured"]
    print(f"part {part}: {captured} of {ran} captured, {len(failures)} differ")
    assert not failures, f"{len(failures)} of {ran}:\n" + "\n".join(failures[:20])
    assert captured > 0.6 * ran, on_cpu.reasons
