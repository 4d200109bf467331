# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Subscripts of several parts, of which one is a number that differs between calls and equals a constant beside it in
the call that is recorded: `cache[2, n]` with an n of 2."""

from __future__ import annotations

import itertools
from typing import Any

import pyjit
import pytest
import torch

#: What may stand in a subscript; n is the number.
PARTS = ("2", "n", ":", "2:", ":n", "None", "[0, 2]")
SUBSCRIPTS = [
    ", ".join(parts)
    for length in (2, 3)
    for parts in itertools.product(PARTS, repeat=length)
    if {"n", ":n"} & {*parts}
    and any("2" in part for part in parts)
    and parts.count("[0, 2]") < 2
    and parts.count("None") < 2
]
#: Numbers are followed in the third recording, where it equals the constants.
NUMBERS = (1, 3, 2, 4, 3)


@pytest.mark.parametrize("part", range(12))
def test_read_and_written(part: int) -> None:
    for where in SUBSCRIPTS[part::12]:
        names: dict[str, Any] = {}
        exec(f"def f(x, n, v):\n    x[{where}] = v\n    return x[{where}] + 1", names)
        f = names["f"]
        fast = pyjit.compile(f)
        have, want = (torch.arange(125.0).reshape(5, 5, 5) for _ in range(2))
        for n in NUMBERS:
            value = torch.tensor(-float(n))
            results = fast(have, n, value), f(want, n, value)
            assert torch.equal(*results), (where, n)
            assert torch.equal(have, want), (where, n)
