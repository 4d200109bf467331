# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs of complex numbers on CUDA: results and gradients are eager's."""

from __future__ import annotations

import pyjit
import pytest
import torch
from Operators.differentiating import assert_equal
from Operators.test_complex_gradients import PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    program, given = PROGRAMS[name]
    given = [
        t.to("cuda", torch.complex64 if t.is_complex() else torch.float32)
        for t in given
    ]
    fast = pyjit.compile(program)
    for turn in range(4):
        found = []
        for function in (program, fast):
            leaves = [t.clone().requires_grad_() for t in given]
            result = function(*leaves)
            result.square().sum().backward()
            found.append([result, *(leaf.grad for leaf in leaves)])
        assert_equal(*found, f"{name}, call {turn}")
    assert pyjit.stats(fast)["hits"], pyjit.explain(fast)
