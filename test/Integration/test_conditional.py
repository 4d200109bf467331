# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops on data as conditional nodes, on a simulated device.

The same cases run on a real device in test/gpu.
"""

from __future__ import annotations

import conditional_cases
import pyjit
import pytest
import torch


def compiled(f: object) -> object:
    return pyjit.compile(f, options={"simulated_device": True})


@pytest.mark.parametrize("name", conditional_cases.CASES)
def test_cases(name: str) -> None:
    f, calls = conditional_cases.CASES[name]("cpu")
    fast = compiled(f)
    conditional_cases.check(fast, f, calls)
    text = conditional_cases.report(fast, calls[0])
    assert "cudagraph.while" in text, text
    # Which way is the fastest is measured; all of them work.
    assert "loops and branches: " in text, text
    assert "not possible" not in text, text


@pytest.mark.parametrize("name", conditional_cases.BRANCHES)
def test_branches(name: str) -> None:
    f, calls = conditional_cases.BRANCHES[name]("cpu")
    fast = compiled(f)
    conditional_cases.check(fast, f, calls)
    text = conditional_cases.report(fast, calls[0])
    assert "cudagraph.if" in text, text
    assert "loops and branches: " in text, text


def test_two_programs_take_turns() -> None:
    f, calls = conditional_cases.newton("cpu")
    g, others = conditional_cases.halve("cpu")
    first, second = compiled(f), compiled(g)
    for _ in range(3):
        for a, b in zip(calls, others, strict=False):
            torch.testing.assert_close(first(*a), f(*a), rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(second(*b), g(*b), rtol=1e-4, atol=1e-4)
