# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Copies of compiled functions: what copying and pickling do to what is compiled, they do to it."""

from __future__ import annotations

import copy
import sys
from typing import Any


def deepcopy(compiled: Any, memo: dict) -> Any:
    """A function stays itself; a method is one of its object's copy, compiled with the same settings."""
    target = copy.deepcopy(compiled.target, memo)
    if target is compiled.target:
        return compiled
    from pyjit._api import compile_with

    return compile_with(target, compiled.engine.settings)


def reduce(compiled: Any) -> Any:
    """By its name, where it stands under that, as functions are pickled; else by what it has compiled."""
    name = getattr(compiled, "__qualname__", "")
    found: Any = sys.modules.get(getattr(compiled, "__module__", None) or "")
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is compiled:
        return name
    from pyjit._api import compile_with

    return compile_with, (compiled.target, compiled.engine.settings)
