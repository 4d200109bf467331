# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Guards as expressions of the user's program, and which of them a call failed.

A specialization tells its guard program as steps over registers (``Specialization.guard_steps``). Here each
register becomes the expression that a reader of the program would write: ``self.layers[3].training``.
"""

from __future__ import annotations

import collections
import inspect
import struct
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch

from pyjit import _C

_FLOAT = TRUE = 1  # flags of NUMBER, NUMBER_CONST and COMPARE
_PLAIN = (bool, int, float, complex, str, bytes, types.NoneType)
_MODULE_DICTS = ("_modules", "_parameters", "_buffers")
_FUNCTION_MODE = "a __torch_function__ mode is active"
_DEFAULT = "the device that torch.set_default_device has set"
# Bits of PyjitState (include/pyjit-c/Programs.h), lowest first, and what asks for each now.
_STATES: tuple[tuple[str, Callable[[], bool] | None], ...] = (
    ("torch.is_grad_enabled()", torch.is_grad_enabled),
    ("torch.is_inference_mode_enabled()", torch.is_inference_mode_enabled),
    (
        "torch.is_autocast_enabled('cpu')",
        lambda: torch.is_autocast_enabled("cpu"),
    ),
    (
        "torch.is_autocast_enabled('cuda')",
        lambda: torch.is_autocast_enabled("cuda"),
    ),
    ("torch.is_autocast_cache_enabled()", torch.is_autocast_cache_enabled),
    (
        "torch.are_deterministic_algorithms_enabled()",
        torch.are_deterministic_algorithms_enabled,
    ),
    (
        "torch.is_deterministic_algorithms_warn_only_enabled()",
        torch.is_deterministic_algorithms_warn_only_enabled,
    ),
    ("torch.backends.cudnn.enabled", lambda: torch.backends.cudnn.enabled),
    ("torch.backends.mkldnn.enabled", None),
    (_FUNCTION_MODE, None),
    ("a __torch_dispatch__ mode is active", None),
    ("an exception is being handled", None),
    ("inside an autocast region", None),
)


class Failure(NamedTuple):
    """Why a specialization does not answer a call."""

    guard: str
    """The guard, as an expression of the program."""
    was: str
    """What it was when the specialization was recorded."""
    now: str
    step: int
    """How far the guards came."""


class _Register(NamedTuple):
    """What a register holds: its expression, and what a look-up in it means."""

    text: str
    dict_of: str = ""
    """Of an instance's dict: the instance; of a function's globals: '.'."""
    entries_of: str = ""
    """Of a module's dict of submodules, parameters or buffers: the module."""
    known: Any = None
    """The object itself, where the program names it."""


def _brief(value: Any) -> str:
    """A value in few characters; runs no code of the user's."""
    if issubclass(type(value), torch.Tensor):
        return "a tensor"
    parts = value if type(value) in (tuple, frozenset) else (value,)
    if all(type(part) in _PLAIN for part in parts):
        text = repr(value)
    elif type(value) in (torch.dtype, torch.device, torch.Size):
        text = str(value)
    elif type(value) in (type, types.FunctionType, types.BuiltinFunctionType):
        text = value.__qualname__
    elif issubclass(type(value), type):
        text = type.__getattribute__(value, "__name__")
    elif type(value) is types.ModuleType:
        text = vars(value).get("__name__", "a module")
    else:
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:59] + "…"


def function_of(target: Any) -> tuple[types.FunctionType | None, int]:
    """The Python function behind a callable, and how many of its parameters are bound. Runs no code of the user's."""
    kind, bound = type(target), 0
    if issubclass(kind, torch.nn.Module):
        own = vars(target).get("forward")
        target = inspect.getattr_static(kind, "forward") if own is None else own
        bound = int(own is None)
    elif kind not in (types.FunctionType, types.MethodType):
        target, bound = inspect.getattr_static(kind, "__call__", None), 1
    if type(target) is types.MethodType:
        target, bound = target.__func__, 1
    while type(target) is types.FunctionType and "__wrapped__" in vars(target):
        target = vars(target)["__wrapped__"]
    return (target, bound) if type(target) is types.FunctionType else (None, 0)


def parameter_names(target: Any, keywords: Iterable[str] = ()) -> Callable[[int], str]:
    """What the user calls argument ``i`` of ``target``; keyword arguments are named last."""
    function, bound = function_of(target)
    given = tuple(keywords)
    names: tuple[str, ...] = ()
    rest = ""
    if function is not None:
        code = function.__code__
        names = code.co_varnames[bound : code.co_argcount]
        if code.co_flags & inspect.CO_VARARGS:
            rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]

    def name(i: int) -> str:
        if i < len(names):
            return names[i]
        if rest:
            return f"{rest}[{i - len(names)}]"
        return given[i - len(names)] if i - len(names) < len(given) else f"argument {i}"

    return name


def continuation_names(key: _C.Key) -> Callable[[int], str]:
    """Likewise of a continuation: operands, then locals."""
    code = key.code
    local = (
        *code.co_varnames,
        *(n for n in code.co_cellvars if n not in code.co_varnames),
    )
    operands = sum(key.stack)

    def name(i: int) -> str:
        slot = key.slots[i - operands] if 0 <= i - operands < len(key.slots) else -1
        if i < operands:
            return f"<intermediate value {i}>"
        return local[slot] if 0 <= slot < len(local) else f"<local {i}>"

    return name


class Guards:
    """The guard program of one specialization, for readers."""

    def __init__(
        self, specialization: Any, target: Any, argument: Callable[[int], str]
    ) -> None:
        self._argument = argument
        self._target = target
        self._registers: dict[int, _Register] = {}
        self._numbers: dict[int, str] = {}
        self._arguments: set[int] = set()  # registers that hold arguments
        # Objects that the program knows by a path: what that is.
        self._known: dict[int, str] = {}
        self._modules = {
            id(vars(module)): name
            for name, module in list(sys.modules.items())
            if type(module) is types.ModuleType
        }
        function, _ = function_of(target)
        self._own_module = function.__module__ if function else ""
        self._steps = specialization.guard_steps()
        self._texts: list[str] = []
        for _ in range(2):  # the second time, what objects are called is known
            self._texts = [self._add(*step) for step in self._steps]

    def expressions(self) -> list[str]:
        """The checks, each once: state and arguments first, then what the program reads. Those that only say
        that code and structure are what they were are counted."""
        of_code: set[int] = set()
        first: list[str] = []
        found: list[str] = []
        counts = {"code": 0, "names": 0, "types": 0, "modules": 0}
        for step, text in zip(self._steps, self._texts, strict=True):
            name, _, dst, a, _, _, operand = step
            if name in _READS:
                of_code.discard(dst)
                if name in _CODE_READS:
                    of_code.add(dst)
            elif not text:
                continue
            elif name == "STATE":
                first[:0] = _state_texts(*operand)
            elif kind := _structural(name, operand, a in of_code):
                counts[kind] += 1
            else:
                (first if a in self._arguments else found).append(text)
        kept = [
            f"{count} checks that {_COUNTED[k]}" for k, count in counts.items() if count
        ]
        return [*dict.fromkeys([*first, *found]), *kept]

    def input_names(self, registers: Iterable[tuple[int, bool]]) -> list[str]:
        """What the program calls the inputs of the graph (``Specialization.input_registers``)."""
        with torch._C.DisableTorchFunction():
            return [
                "cast"
                if register < 0
                else self._numbers.get(register, "number")
                if is_number
                else "constant"
                if isinstance(self._registers[register].known, torch.Tensor)
                else self._text(register)
                for register, is_number in registers
            ]

    def failure(self, found: tuple[int, Any]) -> Failure:
        """What ``Specialization.failed_guard`` has found."""
        default_device = _C.default_device()
        with torch._C.DisableTorchFunction():  # subclasses and modes are not asked
            return self._failure(found, default_device)

    def _failure(self, found: tuple[int, Any], default_device: str | None) -> Failure:
        index, value = found
        if index == -1:
            return Failure("the number and names of the arguments", "others", "", -1)
        if index == -2:
            return Failure(
                "PyTorch's dispatch state (modes, inference mode)", "another", "", -1
            )
        name, _, _, a, _, imm, operand = self._steps[index]
        subject = self._text(a)
        guard, was, now = self._texts[index], "true", "false"
        if name == "TENSOR":
            guard, was, now = _tensor_difference(subject, operand, value)
        elif name == "STATE":
            guard, was, now = _state_difference(*operand, default_device)
        elif name == "LENGTH":
            guard, was = f"len({subject})", str(imm)
            now = str(len(value)) if type(value) in _SIZED else "another length"
        elif name == "EQ_INT":
            guard, was, now = subject, str(imm), _brief(value)
        elif name in ("EQ_FLOAT", "EQ_STR", "EQ", "IS_CONST"):
            guard, was, now = subject, _brief(operand), _brief(value)
        elif name == "IS":
            was, now = _brief(operand), f"another object ({_brief(value)})"
        elif name == "TYPE_IS":
            was, now = _brief(operand), type(value).__qualname__
        elif name == "INSTANCE":
            guard, was, now = f"{subject}.__dict__", "the recorded dict", "another"
        elif name == "TABLE":
            was, now = "as recorded", "otherwise, though in the same order"
        elif not guard:  # a read that finds nothing
            guard, was, now = self._registers_text(index), "there", "missing"
        return Failure(guard, was, now, index)

    # ---- Building -------------------------------------------------------------------------------

    def _registers_text(self, index: int) -> str:
        name, _, dst, a, _, _, _ = self._steps[index]
        if name in ("NUMBER", "SIZE", "STRIDE"):
            return self._numbers.get(dst, "a number")
        return self._text(dst) if name != "DICT" else f"{self._text(a)}.__dict__"

    def _text(self, register: int) -> str:
        found = self._registers.get(register)
        return found.text if found else f"<value {register}>"

    def _put(
        self,
        dst: int,
        text: str,
        dict_of: str = "",
        entries_of: str = "",
        known: Any = None,
    ) -> str:
        self._registers[dst] = _Register(text, dict_of, entries_of, known)
        return ""

    def _add(
        self, name: str, flags: int, dst: int, a: int, b: int, imm: int, operand: Any
    ) -> str:
        """Takes a step over. Returns the check as an expression, '' for a read."""
        if name in _READS:
            return self._read(name, dst, a, imm, operand)
        if name in _NUMBERS:
            return self._number(name, flags, dst, a, b, imm)
        return self._check(name, a, b, imm, operand)

    def _read(self, name: str, dst: int, a: int, imm: int, operand: Any) -> str:
        holder = self._registers.get(a, _Register(f"<value {a}>"))
        if name == "OBJECT":
            if module := self._modules.get(id(operand)):
                owner = "." if module == self._own_module else module
                return self._put(dst, f"vars({module})", dict_of=owner)
            return self._put(dst, self._object(operand), known=operand)
        self._arguments.discard(dst)
        if name == "ARG":
            self._arguments.add(dst)
            return self._put(dst, self._argument(imm))
        if name == "DICT":
            return self._put(dst, f"{holder.text}.__dict__", dict_of=holder.text)
        if name == "GLOBALS":
            return self._put(dst, f"{holder.text}.__globals__", dict_of=".")
        owner = holder.text if name == "ATTR" else holder.dict_of
        if (
            name in ("KEY", "ITEM", "ATTR")
            and owner not in ("", ".")
            and operand in _MODULE_DICTS
        ):
            return self._put(dst, f"{owner}.{operand}", entries_of=owner)
        if name in ("KEY", "ITEM"):
            return self._put(dst, _item(holder, operand))
        if name == "CELL":
            code = getattr(holder.known, "__code__", None)
            free = code.co_freevars if code else ()
            return self._put(
                dst, free[imm] if imm < len(free) else f"{holder.text}'s closure {imm}"
            )
        if name == "TYPE":
            return self._put(dst, f"type({holder.text})")
        suffix = {
            "CODE": "__code__",
            "DEFAULTS": "__defaults__",
            "KWDEFAULTS": "__kwdefaults__",
            "GRAD": "grad",
            "DATA": "item()",
        }.get(name)
        return self._put(dst, f"{holder.text}.{suffix or operand}")

    def _object(self, value: Any) -> str:
        method = type(self._target) is types.MethodType
        own = value is (self._target.__self__ if method else self._target)
        if own and issubclass(type(value), torch.nn.Module):
            return "self"
        if path := self._known.get(id(value)):
            return path
        if issubclass(type(value), torch.nn.Module):
            return f"<{type(value).__name__}>"
        return _brief(value)

    def _number(self, name: str, flags: int, dst: int, a: int, b: int, imm: int) -> str:
        number = self._numbers.get
        if name == "NUMBER":
            self._numbers[dst] = self._text(a)
            return f"type({self._text(a)}) is {'float' if flags & _FLOAT else 'int'}"
        if name == "NUMBER_CONST":
            value = struct.unpack("d", struct.pack("q", imm))[0]
            self._numbers[dst] = str(value if flags & _FLOAT else imm)
        elif name == "SIZE":
            self._numbers[dst] = f"{self._text(a)}.size({imm})"
        elif name == "STRIDE":
            self._numbers[dst] = f"{self._text(a)}.stride({imm})"
        elif name == "ARITH":
            self._numbers[dst] = f"f({number(a, '?')}, {number(b, '?')})"
        else:  # COMPARE
            return f"how {number(a, '?')} compares with {number(b, '?')}"
        return ""

    def _check(self, name: str, a: int, b: int, imm: int, operand: Any) -> str:
        x = self._text(a)
        match name:
            case "TYPE_IS":
                return f"type({x}) is {_brief(operand)}"
            case "IS":
                if isinstance(operand, torch.nn.Module) and not x.startswith("<"):
                    self._known.setdefault(id(operand), x)
                return f"{x} is {_brief(operand)}"
            case "IS_CONST":
                sign = "==" if isinstance(operand, bool) else "is"
                return f"{x} {sign} {_brief(operand)}"
            case "EQ_INT":
                return f"{x} == {imm}"
            case "EQ_FLOAT" | "EQ_STR" | "EQ":
                return f"{x} == {_brief(operand)}"
            case "LENGTH":
                return f"len({x}) == {imm}"
            case "KEYS":
                return f"list({x}) == {_brief(operand)}"
            case "TABLE":
                return f"how the elements of {x} lie in memory"
            case "SAME":
                return f"{x} is {self._text(b)}"
            case "DISTINCT":
                return f"{x} is not {self._text(b)}"
            case "TENSOR":
                return f"{x}: {_tensor_text(operand)}"
            case "DISJOINT":
                return "inputs that the call writes share no memory with others"
            case "UNALIASED":
                return "what the call writes is found by no other path"
            case "STATE":
                return " and ".join(_state_texts(*operand)) or ""
            case "INSTANCE":
                return ""  # that the object keeps its dict: no expression of anybody's
            case "HOLDS":
                return f"{_brief(operand)} in {x}"
            case "UNHOOKED":
                return f"no hooks on {x}"
            case "NO_KEY":
                return f"{_brief(operand)} not in {x}"
            case "NO_CELL":
                return f"{x}'s closure variable {imm} is not set"
            case "NO_ATTR" | "NO_TYPEATTR" | "NO_SLOT":
                return f"not hasattr({x}, {_brief(operand)})"
        return ""


# fmt: off
_READS = frozenset((
    "OBJECT", "ARG", "ATTR", "DICT", "ITEM", "KEY", "TYPE", "TYPEATTR", "CODE", "DEFAULTS", "KWDEFAULTS", "GLOBALS",
    "CELL", "SLOT", "FIELD", "GRAD", "DATA",
))
_NUMBERS = frozenset(("NUMBER", "NUMBER_CONST", "ARITH", "COMPARE", "SIZE", "STRIDE"))
# fmt: on
_CODE_READS = frozenset(("CODE", "DEFAULTS", "KWDEFAULTS", "TYPEATTR"))
_COUNTED = {
    "code": "functions and methods have the code and the defaults that they had",
    "names": "names mean the functions, classes and modules that they meant",
    "types": "containers that hold no tensors have their types",
    "modules": "submodules are the same objects",
}


def _structural(name: str, operand: Any, of_code: bool) -> str:
    """What a check is counted as; '': it is told."""
    if name in ("IS", "IS_CONST", "TYPE_IS") and of_code:
        return "code"
    if name == "IS":
        if isinstance(operand, torch.nn.Module):
            return "modules"
        return "names" if isinstance(operand, _DEFINED) or callable(operand) else ""
    if name == "TYPE_IS" and operand in (dict, collections.OrderedDict):
        return "types"
    return ""


_DEFINED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)
_SIZED = (list, tuple, dict, set, frozenset, str, bytes)


def _item(holder: _Register, key: Any) -> str:
    """What a program writes for an entry of a dict, a list or an instance's dict."""
    if holder.dict_of == ".":
        return str(key)
    if holder.dict_of:
        return f"{holder.dict_of}.{key}"
    if holder.entries_of:
        if isinstance(key, str) and key.isidentifier():
            return f"{holder.entries_of}.{key}"
        return f"{holder.entries_of}[{key}]"
    return f"{holder.text}[{_brief(key)}]"


def _tensor_text(meta: tuple) -> str:
    sizes, _, dtype, device, grad = meta
    dims = ", ".join("?" if size is None else str(size) for size in sizes)
    requires = "" if grad is None else f", requires_grad={grad}"
    return f"{str(dtype).removeprefix('torch.')}[{dims}] on {device}{requires}"


def _tensor_difference(x: str, meta: tuple, value: Any) -> tuple[str, str, str]:
    sizes, strides, dtype, device, grad = meta
    if not issubclass(type(value), torch.Tensor):
        return f"{x} is a tensor", _tensor_text(meta), _brief(value)
    if value.dim() != len(sizes):
        return f"{x}.dim()", str(len(sizes)), str(value.dim())
    if value.layout != torch.strided or value.is_nested:
        return f"{x}.layout", str(torch.strided), str(value.layout)
    if value.dtype != dtype:
        return f"{x}.dtype", str(dtype), str(value.dtype)
    if str(value.device).split(":")[0] != device.split(":")[0]:
        return f"{x}.device", device, str(value.device)
    for d, size in enumerate(sizes):
        if size is not None and value.size(d) != size:
            return f"{x}.size({d})", str(size), str(value.size(d))
    for d, stride in enumerate(strides):
        if stride is not None and value.stride(d) != stride:
            return f"{x}.stride({d})", str(stride), str(value.stride(d))
    if grad is not None and value.requires_grad != grad:
        return f"{x}.requires_grad", str(grad), str(value.requires_grad)
    return f"the kind of {x} (layout, dispatch keys, version)", "as recorded", "another"


def _state_texts(known: int, value: int, default_device: str | None) -> list[str]:
    """``default_device``: of the only mode that is active."""
    device = [] if default_device is None else [f"{_DEFAULT} == {default_device}"]
    return device + [
        f"{name} == {bool(value >> bit & 1)}"
        for bit, (name, _) in enumerate(_STATES)
        if known >> bit & 1 and not (device and name == _FUNCTION_MODE)
    ]


def _state_difference(
    known: int, value: int, default_device: str | None, now: str | None
) -> tuple[str, str, str]:
    for bit, (name, ask) in enumerate(_STATES):
        if known >> bit & 1 and ask is not None and ask() != bool(value >> bit & 1):
            return name, str(bool(value >> bit & 1)), str(ask())
        if known >> bit & 1 and name == _FUNCTION_MODE and default_device != now:
            return _DEFAULT, str(default_device), str(now)
    return (
        "PyTorch's global state (default dtype, device, modes)",
        "recorded",
        "another",
    )


def closest_failure(
    specializations: Sequence[Any],
    guards: Callable[[Any], Guards],
    args: tuple,
    kwargs: dict[str, Any],
) -> Failure | None:
    """Why the specialization that comes closest does not answer a call; None: all guards of one hold."""
    best: tuple[int, Any, tuple[int, Any]] | None = None
    for specialization in specializations:
        found = specialization.failed_guard(args, kwargs)
        if found is None:
            return None
        if best is None or found[0] > best[0]:
            best = (found[0], specialization, found)
    return guards(best[1]).failure(best[2]) if best else None
