# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arguments that are told from others by their identity alone, and are new in each call."""

from __future__ import annotations

import types
from typing import Any

import torch

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class statement made it
# What a native function is bound to that is no method of an object; a tensor's method is an operator.
_NO_OWNER = (types.NoneType, types.ModuleType, type, torch.Tensor)


def is_handle(value: Any) -> bool:
    """An object of a C type that is told from others by its identity alone, and that nobody calls; or a bound
    method of such a type (``tokens.append``), which is a new object each time that it is looked up. Nothing is asked
    of an object of a user's class, not its ``__class__`` either."""
    if type(value) is types.BuiltinMethodType:
        return not isinstance(value.__self__, _NO_OWNER)
    cls = type(value)
    return (
        not cls.__flags__ & _HEAP_TYPE
        and cls.__module__ != "builtins"
        and cls.__hash__ is object.__hash__
        and cls not in (torch.dtype, torch.layout, torch.memory_format)
        and not hasattr(value, "__dict__")
        and not hasattr(cls, "__len__")
        and not callable(value)
    )


class Handles:
    """Which arguments of a function specializations only pass on: those that hold a handle which was another one in
    an earlier call (a generator of random numbers, an open file)."""

    def __init__(self) -> None:
        self._identities: dict[int, int] = {}
        # By place: keywords stand behind positional arguments.
        self.renewed: set[int] = set()

    def note(self, given: tuple) -> None:
        """A call with these arguments is recorded."""
        for i, value in enumerate(given):
            if not is_handle(value):
                continue
            known = self._identities.setdefault(i, id(value))
            if known != id(value):
                self.renewed.add(i)
        self.renewed = {
            i for i in self.renewed if i < len(given) and is_handle(given[i])
        }
