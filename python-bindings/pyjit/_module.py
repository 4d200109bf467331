# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A compiled ``nn.Module`` is still that module.

The compiled object is an instance of a subclass of the module's own class and shares the
module's ``__dict__``: parameters, buffers, hooks, submodules and mode are the same objects seen
through either of the two. Only calling differs.
"""

from __future__ import annotations

import abc
import copy
import functools
from typing import Any

import torch

from pyjit import _C

_SLOTS = ("_pyjit_call", "_pyjit_module", "_pyjit_settings")


def compiled_call(obj: Any) -> Any:
    """The compiled function behind a compiled module, or None."""
    return (
        getattr(obj, "_pyjit_call", None)
        if getattr(type(obj), "_pyjit_compiled", False)
        else None
    )


def compile_module(
    module: torch.nn.Module, call: Any, settings: Any
) -> torch.nn.Module:
    """An instance of ``type(module)`` that shares its state and is called through ``call``."""
    made = object.__new__(_compiled_class(type(module)))
    object.__setattr__(made, "__dict__", module.__dict__)
    for name, value in zip(_SLOTS, (call, module, settings)):
        object.__setattr__(made, name, value)
    return made


@functools.cache
def _compiled_class(cls: type) -> type:
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._pyjit_call(*args, **kwargs)

    def __reduce_ex__(self: Any, protocol: int) -> Any:
        return _recompile, (self._pyjit_module, self._pyjit_settings)

    def __deepcopy__(self: Any, memo: dict) -> Any:
        return _recompile(copy.deepcopy(self._pyjit_module, memo), self._pyjit_settings)

    members = {
        "__slots__": _SLOTS,
        "__call__": __call__,
        "__reduce_ex__": __reduce_ex__,
        "__deepcopy__": __deepcopy__,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "_pyjit_compiled": True,
    }
    made = _subclass(cls, members)
    _C.call_through(made)
    return made


class _Unannounced:
    """Stands in front of a user's class while a subclass of it is made; laid out as modules are, to be taken away."""

    def __init_subclass__(cls) -> None:
        """In place of the user's, which may register what it is told of, or ask for arguments."""


def _subclass(cls: type, members: dict[str, Any]) -> type:
    """A subclass that neither ``__init_subclass__`` nor a metaclass of the user's is told of."""
    of = abc.ABCMeta if issubclass(type(cls), abc.ABCMeta) else type
    made = of.__new__(type(cls), cls.__name__, (_Unannounced, cls), members)
    made.__bases__ = (cls,)
    return made


def _recompile(module: torch.nn.Module, settings: Any) -> torch.nn.Module:
    from pyjit._api import compile_with

    return compile_with(module, settings)
