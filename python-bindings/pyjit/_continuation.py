# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Code for the rest of a function, and for one instruction in the middle of it.

A graph break leaves frames in front of an instruction that pyjit does not model. To go on, three kinds of
function are made from the original bytecode, all without parameters: a prologue takes the values
of operand stack and locals from ``_C._take`` and puts them in place.

*Continuation*: jumps to an instruction and runs to the end of the function.
*Suspended generator*: likewise of a generator's code; it jumps to the ``yield`` that it waits at.
*Step*: carries out one instruction (in an outer frame: a call of the step of the frame above) and
returns a tuple of the values that the rest needs, with a marker that names where it goes on. If the
instruction raises, the function's own handlers, which follow in the code, run to its end.

CPython's jumps are relative, so the original bytecode can stand behind a prologue unchanged; the
exception table and the table of positions are shifted. What differs between versions of it is in
``_bytecode`` (python-bindings/cpython/3_12, 3_13).
"""

from __future__ import annotations

import dis
import inspect
import types
from collections.abc import Callable
from typing import Any

from pyjit import _C
from pyjit._bytecode import ASK_TRUTH, CACHES, LOOP_ENDS, NAMES_OF_CALL, WITHOUT_SELF

Key = _C.Key


class _Assembler:
    def __init__(self, code: types.CodeType) -> None:
        self.code = code
        self.units = bytearray()
        self.constants = list(code.co_consts)

    def emit(self, name: str, arg: int = 0) -> None:
        op = dis.opmap[name]
        for shift in (24, 16, 8):
            if arg >> shift:
                self.units += bytes((dis.EXTENDED_ARG, arg >> shift & 255))
        self.units += bytes((op, arg & 255)) + bytes(2 * CACHES.get(name, 0))

    def constant(self, value: Any) -> None:
        self.constants.append(value)
        self.emit("LOAD_CONST", len(self.constants) - 1)

    def prologue(self, stack: tuple[bool, ...], slots: tuple[int, ...]) -> None:
        """Leaves the state on top of the restored operand stack."""
        if self.code.co_freevars:
            self.emit("COPY_FREE_VARS", len(self.code.co_freevars))
        if self.code.co_flags & inspect.CO_GENERATOR:
            self.emit("RETURN_GENERATOR")
            self.emit("POP_TOP")
        self.emit("RESUME")
        self.constant(_C._take)
        self.without_self()
        self.emit("CALL", 0)
        index = 0
        for value in stack:
            if value:
                self.element(index)
                index += 1
            else:
                self.emit("PUSH_NULL")
            self.emit("SWAP", 2)
        if self.code.co_argcount and 0 not in slots:
            self.emit("DELETE_FAST", 0)  # the parameter's default
        for slot in slots:
            self.element(index)
            index += 1
            self.emit("STORE_FAST", slot)

    def without_self(self) -> None:
        """Makes a callable on top of the stack what CALL finds below its arguments."""
        for name, arg in WITHOUT_SELF:
            self.emit(name, arg)

    def element(self, index: int) -> None:
        self.emit("COPY", 1)
        self.constant(index)
        self.emit("BINARY_SUBSCR")

    def finish(
        self, line: int, depth: int, handled: list[tuple[int, int, int]]
    ) -> types.CodeType:
        """The new code. ``handled``: parts (in units) that have an original unit's handler."""
        code = self.code
        self.emit("NOP")  # brings the table of positions back to the first line
        shift = len(self.units) // 2
        entries = _exception_table(code)
        front = []
        for start, end, original in handled:
            for entry in entries:
                if entry[0] <= original < entry[1]:
                    front.append((start, end, *entry[2:]))
                    break
        table = b"".join(
            _exception_entry(start, end, target + shift, packed)
            for start, end, target, packed in front
        ) + b"".join(
            _exception_entry(start + shift, end + shift, target + shift, packed)
            for start, end, target, packed in entries
        )
        delta = line - code.co_firstlineno
        positions = bytearray()
        left = shift - 1
        while left:
            length = min(left, 8)
            positions += _position(length, delta)
            delta = 0
            left -= length
        positions += _position(1, code.co_firstlineno - line)
        return code.replace(
            co_code=bytes(self.units) + code.co_code,
            co_consts=tuple(self.constants),
            co_exceptiontable=table,
            co_linetable=bytes(positions) + code.co_linetable,
            co_stacksize=max(code.co_stacksize, depth) + 8,
            # `super()` takes the first local of code that has parameters; nobody gives one.
            co_argcount=min(code.co_argcount, 1),
            co_posonlyargcount=0,
            co_kwonlyargcount=0,
            co_flags=code.co_flags & ~0xC,
        )


def continuation(key: Key) -> Any:
    """The callable that runs from ``key`` to the end of the function."""
    function = _rest(key)
    shift = len(function.__code__.co_code) - len(key.code.co_code)
    return _C.Continuation(function, key.function, key.code, key.offset, shift)


def suspended(key: Key) -> Callable[[], types.GeneratorType]:
    """What makes generators that wait at the ``yield`` at ``key``, of the state that is to be taken."""
    rest = _rest(key)

    def make() -> types.GeneratorType:
        generator = rest()
        next(generator)
        return generator

    return make


def _rest(key: Key) -> types.FunctionType:
    """The function of ``key``'s code that begins there: a prologue and a jump."""
    assembler = _Assembler(key.code)
    assembler.prologue(key.stack, key.slots)
    assembler.emit("POP_TOP")
    assembler.emit("JUMP_FORWARD", key.offset // 2 + 1)
    line = _line(key.code, key.offset)
    return _function(key.function, assembler.finish(line, len(key.stack) + 2, []))


def step(
    at: Key, exits: tuple[Key, ...], inner: bool
) -> tuple[types.FunctionType, list[object]]:
    """The function that carries out the instruction at ``at``, and the markers of its exits.

    ``inner``: the instruction is a call of the frame above; what stands for that frame is the last
    element of the state.
    """
    assembler = _Assembler(at.code)
    assembler.prologue(at.stack, at.slots)
    name, arg, names = instruction(at.code, at.offset)
    markers = [object() for _ in exits]
    endings = []
    for marker, leaving in zip(markers, exits):
        ending = _Assembler(at.code)
        ending.constants = assembler.constants
        for slot in leaving.slots:
            ending.emit("LOAD_FAST", slot)
        ending.constant(marker)
        ending.emit("BUILD_TUPLE", len(leaving.stack) + len(leaving.slots) + 1)
        ending.emit("RETURN_VALUE")
        endings.append(ending.units)

    if inner:
        assembler.element(sum(at.stack) + len(at.slots))
        assembler.emit("SWAP", 2)
        assembler.emit("POP_TOP")
        assembler.without_self()
        start = len(assembler.units) // 2
        assembler.emit("CALL", 0)
    else:
        assembler.emit("POP_TOP")
        if names is not None:
            assembler.emit(NAMES_OF_CALL, names)
        start = len(assembler.units) // 2
        if name in ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE"):
            for ask in ASK_TRUTH:
                assembler.emit(ask)
        if len(exits) > 1:
            assembler.emit(name, len(endings[0]) // 2)
        elif name == "LOAD_ATTR":
            assembler.emit(name, arg & ~1)
        elif name == "JUMP_BACKWARD":
            assembler.emit("NOP")  # the exit leads to where it jumps
        else:
            assembler.emit(name, arg)
    end = len(assembler.units) // 2
    if not inner and name == "LOAD_ATTR" and arg & 1:
        assembler.without_self()  # the bound method
    assembler.units += endings[0]
    if len(endings) > 1:
        if name == "FOR_ITER":
            for skipped in LOOP_ENDS:
                assembler.emit(skipped)
        assembler.units += endings[1]
    depth = 3 + max(len(e.stack) + len(e.slots) for e in (at, *exits))
    # CPython 3.13 looks for the handler of a call's exception one unit before the call.
    handled = [(start - 1, end, at.offset // 2)]
    code = assembler.finish(_line(at.code, at.offset), depth, handled)
    return _function(at.function, code), markers


def _function(original: types.FunctionType, code: types.CodeType) -> types.FunctionType:
    function = types.FunctionType(
        code,
        original.__globals__,
        original.__name__,
        (None,) * code.co_argcount,
        original.__closure__,
    )
    function.__qualname__ = original.__qualname__
    function.__module__ = original.__module__
    return function


def instruction(code: types.CodeType, offset: int) -> tuple[str, int, int | None]:
    """Name and argument of an instruction; the index of the names of a call, if they stand in front of it."""
    data = code.co_code
    at, extended, names = 0, 0, None
    while at <= offset:
        op, arg = data[at], extended << 8 | data[at + 1]
        name = dis.opname[op]
        if op == dis.EXTENDED_ARG:
            extended = arg
            at += 2
            continue
        if at == offset:
            return name, arg, names
        extended = 0
        names = arg if name == NAMES_OF_CALL else None
        at += 2 + 2 * CACHES.get(name, 0)
    raise ValueError(f"no instruction at {offset}")


def _line(code: types.CodeType, offset: int) -> int:
    for start, end, line in code.co_lines():
        if start <= offset < end and line is not None:
            return line
    return code.co_firstlineno


def _exception_table(code: types.CodeType) -> list[tuple[int, int, int, int]]:
    """Start, end and target in code units, and depth with the flag `lasti`."""
    data = iter(code.co_exceptiontable)

    def number(first: int) -> int:
        value = first & 63
        byte = first
        while byte & 64:
            byte = next(data)
            value = value << 6 | byte & 63
        return value

    entries = []
    for byte in data:
        start = number(byte)
        length, target, packed = (number(next(data)) for _ in range(3))
        entries.append((start, start + length, target, packed))
    return entries


def _exception_entry(start: int, end: int, target: int, packed: int) -> bytes:
    out = bytearray()
    for value in (start, end - start, target, packed):
        groups = [value & 63]
        while value := value >> 6:
            groups.append(value & 63 | 64)
        out += bytes(reversed(groups))
    out[0] |= 128
    return bytes(out)


def _position(units: int, delta: int) -> bytes:
    """An entry of ``co_linetable``: so many units, a line and no columns."""
    value = (-delta << 1 | 1) if delta < 0 else delta << 1
    out = bytearray((0x80 | 13 << 3 | units - 1,))
    while value > 63:
        out.append(value & 63 | 64)
        value >>= 6
    out.append(value)
    return bytes(out)
