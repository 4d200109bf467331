# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs as users write them, run through circumstances that change between calls (`user_driver.py`): all that
they show is what eager shows. PYJIT_EXAMPLES=2000 for more; each failure names its seed."""

from __future__ import annotations

import importlib
import os

import pyjit
import pytest
from Integration.user_driver import OF_PARTS, PROGRAMS, compared, told

for kind in ("transformers", "layers", "algorithms", "language", "state"):
    importlib.import_module(f"Integration.user_{kind}")

SEEDS = max(1, int(os.environ.get("PYJIT_EXAMPLES", "200")) // 200)
CALLS = 18
# So quick in eager, and so often raising, that recordings wait.
SELDOM = {"contexts_and_finally"}


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("name", PROGRAMS)
def test_user_program(name: str) -> None:
    for seed in range(SEEDS):
        told(name, seed, lambda f: f, CALLS)  # what torch warns of once only
        want, _, _ = told(name, seed, lambda f: f, CALLS)
        have, program, compiled = told(name, seed, pyjit.compile, CALLS)
        assert len(want) == len(have)
        for number, (eager, ours) in enumerate(zip(want, have, strict=True)):
            found = compared(eager[1], ours[1], program.tolerance)
            assert not found, f"seed {seed}, call {number}, {eager[0]}: {found}"
        if seed:
            continue
        stats = pyjit.stats(compiled)
        answered = stats.hits + stats.continuation_hits
        assert answered or (name in SELDOM and stats.graphs), stats.reasons
        assert name in OF_PARTS or not stats.graph_breaks, stats.reasons
