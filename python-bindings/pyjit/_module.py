# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A compiled ``nn.Module`` is still that module.

The compiled object is an instance of a subclass of the module's own class and shares the
module's ``__dict__``: parameters, buffers, hooks, submodules and mode are the same objects seen
through either of the two. Only calling differs.

The subclass is this one object's. What is done to the object's class is done to the module's: it
says that the module's class is its own (``__class__``), takes another one with the module, and
its attributes are that class', as are instances made by it.
"""

from __future__ import annotations

import abc
import copy
import functools
import types
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


def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    # `GraphModule.recompile` hands what it finds here to the module's own class.
    if not getattr(type(self), "_pyjit_compiled", False):
        return torch.nn.Module.__call__(self, *args, **kwargs)
    return self._pyjit_call(*args, **kwargs)


def _reduce_ex(self: Any, protocol: int) -> Any:
    return _recompile, (self._pyjit_module, self._pyjit_settings)


def _copy(self: Any) -> Any:
    return _recompile(copy.copy(self._pyjit_module), self._pyjit_settings)


def _deepcopy(self: Any, memo: dict) -> Any:
    return _recompile(copy.deepcopy(self._pyjit_module, memo), self._pyjit_settings)


def _recompile(module: torch.nn.Module, settings: Any) -> torch.nn.Module:
    from pyjit._api import compile_with

    return compile_with(module, settings)


def _end(self: Any) -> None:
    """The module ends when it does itself, not when what is compiled of it does."""


# The class of a compiled module.


def _class_of(self: Any) -> type:
    """The module's class: a lazy module takes another one in its first call."""
    cls = type(self._pyjit_module)
    if cls is not _base_of(type(self)):
        _follow(type(self), cls)
    return cls


def _set_class_of(self: Any, cls: type) -> None:
    self._pyjit_module.__class__ = cls
    _follow(type(self), cls)


def _base_of(made: type) -> type:
    return type.__dict__["__bases__"].__get__(made)[0]


def _follow(made: type, cls: type) -> None:
    """``made`` becomes a subclass of ``cls``, and nothing else."""
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        type.__setattr__(made, name, getattr(cls, name))
    type.__setattr__(made, "__bases__", (cls,))
    _C.call_through(made)


def _compiled_class(cls: type) -> type:
    """A subclass that neither ``__init_subclass__`` nor a metaclass of the user's is told of."""
    of = abc.ABCMeta if issubclass(type(cls), abc.ABCMeta) else type
    members = {
        "__slots__": _SLOTS,
        "__call__": _call,
        "__reduce_ex__": _reduce_ex,
        "__copy__": _copy,
        "__deepcopy__": _deepcopy,
        "__class__": property(_class_of, _set_class_of),
        "_pyjit_compiled": True,
        "_pyjit_made": False,
    }
    if hasattr(cls, "__del__"):
        members["__del__"] = _end
    made = of.__new__(_metaclass(type(cls)), cls.__name__, (cls,), members)
    type.__setattr__(made, "_pyjit_made", True)
    _follow(made, cls)
    return made


class _Unannounced:
    """Stands between a subclass and a user's class while the subclass is made."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        """In place of the user's, which may register what it is told of, or ask for arguments."""


@functools.cache
def _metaclass(of: type) -> type:
    """The class of compiled modules' classes whose modules' class is an ``of``."""

    def __new__(meta: type, name: str, bases: tuple, space: dict, **given: Any) -> type:
        """A class that the user derives: of the module's class."""
        plain = (_base_of(b) if type(b) is meta else b for b in bases)
        return of(name, tuple(plain), space, **given)

    def mro(made: Any) -> list[type]:
        order = of.mro(made)
        # Attributes are looked up along the order that is asked for here.
        done = type.__dict__["__dict__"].__get__(made)["_pyjit_made"]
        return order if done else [made, _Unannounced, *order[1:]]

    def __call__(made: Any, *args: Any, **kwargs: Any) -> Any:
        return _base_of(made)(*args, **kwargs)

    def __setattr__(made: Any, name: str, value: Any) -> None:
        if made._pyjit_made:
            setattr(_base_of(made), name, value)
        else:
            type.__setattr__(made, name, value)

    def __delattr__(made: Any, name: str) -> None:
        delattr(_base_of(made), name)

    own = (__new__, mro, __call__, __setattr__, __delattr__)
    members = {f.__name__: f for f in own}
    return types.new_class(of.__name__, (of,), {}, lambda space: space.update(members))
