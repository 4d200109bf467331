# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random numbers on CUDA: what a compiled call draws, and what it leaves to be drawn, is eager's.

The programs of test/Operators/test_random_numbers.py, with CUDA as the default device; of the states that
are compared one is that of its generator.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from Operators import test_random_numbers as draws


@pytest.fixture(autouse=True)
def on_cuda() -> Iterator[None]:
    before = torch.get_default_device()
    torch.set_default_device("cuda")
    yield
    torch.set_default_device(before)


# A distribution that is none is an assertion on the device, which ends the context.
ASSERTS = ("multinomial",)


@pytest.mark.parametrize(
    "name",
    sorted(name for name in draws.ALL if name not in (*draws.RECURRENT, *ASSERTS)),
)
def test_draws(name: str) -> None:
    draws.test_draws(name)


def test_degenerate_bernoulli() -> None:
    draws.test_degenerate_bernoulli()
