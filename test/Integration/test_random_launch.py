# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random programs through launch programs, on a simulated device.

What plans launches (graphs, copies, memory) is the GPU's; kernels and vendor calls
are the CPU's. PYJIT_EXAMPLES sets the number of programs, 100 by default.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from Integration import test_random_programs as plain
from Integration.random_programs import Program, programs


@settings(
    max_examples=int(os.environ.get("PYJIT_EXAMPLES", "100")),
    deadline=None,
    derandomize="PYJIT_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
@given(programs(), st.sampled_from(["", "copy", "table", "update"]))
@pytest.mark.filterwarnings("ignore")
def test_random_program(program: Program, launch: str) -> None:
    """Launched as measured, or in one way: what is the fastest here says nothing of the others."""
    program.options["simulated_device"] = True
    if launch:
        program.options["launch"] = launch
    plain.check(program)
