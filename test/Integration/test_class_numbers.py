# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers that are attributes of classes and differ between calls: counters, schedules, settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch

CALLS = 24


class _Base:
    n = 0
    rate = 0.5


class _Class(_Base):
    pass


def _counted(x: torch.Tensor) -> torch.Tensor:
    _Class.n += 1
    return x * 2


def _summed(x: torch.Tensor) -> torch.Tensor:
    _Class.rate = _Class.rate * 0.5 + 1
    return x + _Class.rate


def _of_instance(x: torch.Tensor) -> torch.Tensor:
    held = _Class()
    type(held).n += 1
    return x * held.n + held.rate


def _read(x: torch.Tensor) -> Any:
    return x * _Class.n, _Class.n, _Class.rate


def _inherited(x: torch.Tensor) -> torch.Tensor:
    return x * _Class.n + _Class().n


_PROGRAMS = [_counted, _summed, _of_instance, _read, _inherited]


@pytest.mark.parametrize("program", _PROGRAMS)
@pytest.mark.parametrize("changes", [None, _Base, _Class], ids=str)
def test_numbers_of_classes(program: Callable[..., Any], changes: type | None) -> None:
    """They settle, like those of instances. Who changes them may be the class that a class inherits from."""

    def story(f: Callable[..., Any]) -> list[str]:
        for name in ("n", "rate"):
            if name in vars(_Class):
                delattr(_Class, name)
        _Base.n, _Base.rate = 0, 0.5
        seen = []
        for call in range(CALLS):
            if changes:
                changes.n = call * 7 % 31 + 2  # type: ignore[attr-defined]
            seen.append(repr((f(torch.ones(3)), _Class.n, _Class.rate)))
        return seen

    compiled = pyjit.compile(program)
    assert story(compiled) == story(program)
    assert pyjit.stats(compiled)["hits"] > CALLS // 2
