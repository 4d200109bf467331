# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The rows of Opcodes.def against what the CPython that runs says of its instructions."""

from __future__ import annotations

import dis
import opcode
import re
import sys
from pathlib import Path

import pytest

# What ends a part, and is to: coroutines, handlers of exception groups, dead ends of the compiler.
LEFT_OUT = {
    "ASYNC_GEN_WRAP", "BEFORE_ASYNC_WITH", "CALL_INTRINSIC_2", "CHECK_EG_MATCH", "CLEANUP_THROW",
    "END_ASYNC_FOR", "ENTER_EXECUTOR", "EXIT_INIT_CHECK", "GET_AITER", "GET_ANEXT",
    "GET_AWAITABLE", "LOAD_FROM_DICT_OR_GLOBALS", "RESERVED",
}  # fmt: skip


def rows(root: Path) -> dict[str, tuple[str, str]]:
    """Pops and pushes by instruction, as the table writes them."""
    version = "{}_{}".format(*sys.version_info)
    folder = root / "python-bindings/cpython"
    text = (folder / "Opcodes.def").read_text()
    text += (folder / version / "OwnOpcodes.def").read_text()
    pattern = r"^OPCODE\((\w+), \w+, \w+, (.+), (.+), \w+, \w+\)$"
    return {name: (pops, pushes) for name, pops, pushes in re.findall(pattern, text, re.MULTILINE)}  # fmt: skip


def evaluate(expression: str, arg: int) -> int:
    """A C expression of `arg`."""
    expression = expression.replace("__builtin_popcount", "int.bit_count")
    expression = re.sub(r"\(?([^?()]+) \? (\d) : (\d)\)?", r"(\2 if \1 else \3)", expression)  # fmt: skip
    return eval(expression, {"arg": arg})


def test_every_instruction_is_a_row_or_left_out(root: Path) -> None:
    real = {name for name, op in opcode.opmap.items() if op < 256}
    real = {name for name in real if not name.startswith("INSTRUMENTED")}
    assert real - set(rows(root)) == LEFT_OUT & real


def test_no_row_is_of_another_version(root: Path) -> None:
    assert set(rows(root)) <= set(opcode.opmap)


@pytest.mark.parametrize("arg", [0, 1, 2, 3, 4, 5, 258])
def test_stack_effects(root: Path, arg: int) -> None:
    compared = 0
    for name, (pops, pushes) in rows(root).items():
        op = opcode.opmap[name]
        if pops == "ANY" or (arg and op not in dis.hasarg):
            continue
        if name == "CALL_INTRINSIC_1" and arg not in (3, 5, 6):
            continue
        own = evaluate(pushes, arg) - evaluate(pops, arg)
        given = arg if op in dis.hasarg else None
        assert own == dis.stack_effect(op, given, jump=False), name
        compared += 1
    assert compared > 20
