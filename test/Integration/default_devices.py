# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stories under `torch.set_default_device`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from Integration.harness import Compile, Steps, attempt, tell, values
from torch.overrides import _get_current_function_mode_stack


@contextlib.contextmanager
def default_device(device: str | None) -> Iterator[None]:
    """`torch.set_default_device`, and the mode that it has put on the stack is still there at the end."""
    torch.set_default_device(device)
    stack = _get_current_function_mode_stack()
    try:
        yield
        now = _get_current_function_mode_stack()
        assert len(now) == len(stack) and all(
            a is b for a, b in zip(now, stack, strict=True)
        )
    finally:
        torch.set_default_device(None)
    assert not _get_current_function_mode_stack()


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    """As `values`, wherever the default device is."""
    with torch.device("cpu"):
        return values(*shape, seed=seed)


def tell_under(
    f: Any, *arguments: Any, device: str = "cpu", times: int = 4, **expected: Any
) -> None:
    """Calls `f` under the default device; functions among the arguments are called for each call anew."""

    def story(compile: Compile) -> Steps:
        fast = compile(f)
        with default_device(device):
            for _ in range(times):
                given = [a() if callable(a) else a for a in arguments]
                yield attempt(fast, *given), given

    tell(story, **expected)
