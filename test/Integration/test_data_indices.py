# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers of data as indices, bounds and sizes of tensors whose own sizes are symbols from the first call on."""

from __future__ import annotations

import math
from collections.abc import Callable

import pyjit
import pytest
import torch

Function = Callable[[torch.Tensor], torch.Tensor]

USES: dict[str, Function] = {
    "index": lambda x: x[int(x.argmax())],
    "item": lambda x: x[x.argmax().item()] * 2,
    "select": lambda x: x.select(0, int(x.argmin())),
    "end": lambda x: x[: int(x.argmax()) + 1],
    "end beyond": lambda x: x[: int(x.sum())] + 1,
    "begin": lambda x: x[int(x.argmin()) :],
    "both": lambda x: x[int(x.argmin()) : x.shape[0] - int(x.min())],
    "narrow": lambda x: torch.narrow(x, 0, int(x[0] > 5), 2),
    "roll": lambda x: x.roll(int(x.argmax()), 0),
    "expand": lambda x: x[None].expand(int(x[0]), x.shape[0]),
    "zeros": lambda x: torch.zeros(int(x[0]) + x.shape[0]),
    "product": lambda x: x * math.prod((x.shape[0], int(x[0]))),
    "comparison": lambda x: x + 1 if int(x.argmax()) < x.shape[0] - 1 else x,
    "arithmetic": lambda x: x * (int(x.argmax()) - len(x)),
    "unbind": lambda x: x.unbind()[int(x[0] > 2)],
    "inner": lambda x: x[None].repeat(2, 1)[:, int(x.argmax())],
}


@pytest.mark.parametrize("how", ["dynamic", "marked", "automatic"])
@pytest.mark.parametrize("use", USES)
def test_numbers_of_data_among_sizes(use: str, how: str) -> None:
    f = USES[use]
    fast = pyjit.compile(f, dynamic=True) if how == "dynamic" else pyjit.compile(f)
    for size in (3, 3, 4, 6, 4):
        for first in (1, 2):
            x = torch.arange(first, first + size).float()
            if how == "marked":
                pyjit.mark_dynamic(x, 0)
            x = x.flip(0) if first == 2 else x
            torch.testing.assert_close(fast(x), f(x), rtol=0, atol=0)
