# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`pyjit/_C.pyi` says what the extension has, no more and no less."""

from __future__ import annotations

import ast
import enum
import re
from pathlib import Path

import pytest
from pyjit import _C

STUB = Path(__file__).parents[2] / "python-bindings/pyjit/_C.pyi"
# Set by the engine, in the function's own `__dict__`.
DYNAMIC = {("CompiledFunction", "engine")}

CLASSES = {
    node.name: node
    for node in ast.parse(STUB.read_text()).body
    if isinstance(node, ast.ClassDef)
}
FUNCTIONS = {
    node.name: node
    for node in ast.parse(STUB.read_text()).body
    if isinstance(node, ast.FunctionDef)
}


def members(node: ast.ClassDef) -> set[str]:
    """What a class of the stub declares, but for what every object has."""
    names = set()
    for entry in node.body:
        if isinstance(entry, ast.FunctionDef):
            names.add(entry.name)
        elif isinstance(entry, ast.AnnAssign | ast.Assign):
            target = (
                entry.target if isinstance(entry, ast.AnnAssign) else entry.targets[0]
            )
            names.add(target.id)
    return {name for name in names if not name.startswith("__")}


def public(cls: type) -> set[str]:
    if issubclass(cls, enum.Enum):
        return set(cls.__members__)
    counts = {"n_fields", "n_sequence_fields", "n_unnamed_fields"}
    return {name for name in vars(cls) if not name.startswith("__")} - counts


def said(name: str, text: str) -> str:
    """What an object of the extension says of itself, without its signature."""
    signature = rf"{name}\((?:[^()]|\([^()]*\))*\)(?: -> [^\n:]*)?(?::\s*|\n)"
    return " ".join(re.sub(rf"\A{signature}", "", text).split())


@pytest.mark.parametrize("name", [*CLASSES, *FUNCTIONS])
def test_docstrings(name: str) -> None:
    """Editors show what the extension says."""
    nodes = [FUNCTIONS[name]] if name in FUNCTIONS else CLASSES[name].body
    for node in nodes:
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("__"):
            continue
        owner = _C if name in FUNCTIONS else getattr(_C, name)
        there = vars(owner)[node.name]
        if isinstance(there, staticmethod):
            continue
        text = " ".join((ast.get_docstring(node) or "").split())
        wanted = said(node.name, there.__doc__ or "")
        assert text.rstrip(".").lower() == wanted.rstrip(".").lower(), node.name


def test_the_names() -> None:
    there = {name for name in vars(_C) if not name.startswith("__")}
    assert there == set(CLASSES) | set(FUNCTIONS)


@pytest.mark.parametrize("name", CLASSES)
def test_members(name: str) -> None:
    declared = members(CLASSES[name]) - {m for c, m in DYNAMIC if c == name}
    assert declared == public(getattr(_C, name))


@pytest.mark.parametrize("name", CLASSES)
def test_fields_are_in_order(name: str) -> None:
    """What is a tuple there is a tuple here; an enumeration counts alike."""
    cls = getattr(_C, name)
    fields = [e.target.id for e in CLASSES[name].body if isinstance(e, ast.AnnAssign)]
    if issubclass(cls, enum.Enum):
        values = {
            e.targets[0].id: ast.literal_eval(e.value)
            for e in CLASSES[name].body
            if isinstance(e, ast.Assign)
        }
        assert values == {m.name: m.value for m in cls}
    elif issubclass(cls, tuple):
        assert len(fields) == cls.n_fields
        made = cls(range(cls.n_fields))
        assert [getattr(made, field) for field in fields] == list(range(cls.n_fields))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_keywords(name: str) -> None:
    """Functions take the keywords that they declare: another one is refused by name."""
    arguments = FUNCTIONS[name].args
    if not arguments.kwonlyargs:
        return
    with pytest.raises(TypeError) as error:
        getattr(_C, name)()
    assert "missing required argument" in str(error.value)
    doc = getattr(_C, name).__doc__
    for argument in (*arguments.args, *arguments.kwonlyargs):
        assert argument.arg in doc
