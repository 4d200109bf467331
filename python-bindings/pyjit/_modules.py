# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The modules that the eager parts of a compiled function's calls call: they run compiled.

A call that eager answers, or the instruction of a graph break, may call modules. The outermost of them are answered
by engines of their own, as if the program had written ``pyjit.compile(module)``; theirs share the table, so that
where a module's own call comes to run in eager, its children are compiled. ``src/EagerParts.cpp`` finds such calls.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch

from pyjit import _C

if TYPE_CHECKING:
    from pyjit._engine import Engine

WARM_SECONDS = 5e-3
"""How long a module's calls take in eager before it is compiled, which takes longer than that."""
_MOST = 64
"""Modules of one function. Those of a model that breaks everywhere are many, and small."""


class CompiledModules:
    """What answers the modules in the eager parts of one compiled function, ``root``."""

    def __init__(self, root: Engine) -> None:
        self._root = root
        self.calls = _C.ModuleCalls(self._begin, WARM_SECONDS)
        # Little is to be won by many specializations: the function has reached its limit of them.
        self.few = False
        _C.follow_module_calls(torch.nn.Module.__call__)

    def _begin(self, module: torch.nn.Module) -> Any:
        """The compiled function that answers the module's calls from now on, or None; called by ``ModuleCalls``."""
        root = self._root
        if root.compiled.target is module:  # it calls itself
            return root.compiled
        if len(self.calls.compiled) >= _MOST:
            return None
        settings = dataclasses.replace(root.settings, name=None, fallback="ignore")
        return type(root)(module, settings, modules=self).compiled

    def engines(self) -> list[Engine]:
        """Those of modules, but for the function's own."""
        found = (compiled.engine for compiled in self.calls.compiled)
        return [engine for engine in found if engine is not self._root]

    def clear(self) -> None:
        """Forgets all modules."""
        self.calls.clear()
        self.few = False
        self.calls.warm_seconds = WARM_SECONDS
