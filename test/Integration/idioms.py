# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the tests of idioms ask of a compiled function and of its results."""

from __future__ import annotations

import dataclasses
import types
from typing import Any

import pyjit
import torch


def graphs(f: Any) -> int:
    """How many specializations a compiled function has."""
    return int(pyjit.stats(f)["graphs"])


def hits(f: Any) -> int:
    """How many calls compiled code has answered."""
    return int(pyjit.stats(f)["hits"])


def same(a: Any, b: Any) -> None:
    """Asserts that two results are equal, types, order and strides included."""
    assert type(a) is type(b) or (
        dataclasses.is_dataclass(a) and repr(type(a)) == repr(type(b))
    )
    if isinstance(a, torch.Tensor):
        assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride())
        torch.testing.assert_close(a, b, equal_nan=True)
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    elif dataclasses.is_dataclass(a):
        for field in dataclasses.fields(a):
            same(getattr(a, field.name, None), getattr(b, field.name, None))
    elif isinstance(a, types.SimpleNamespace):
        same(vars(a), vars(b))
    else:
        assert a == b
