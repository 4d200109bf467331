# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The examples in `__init__.pyi` run, and public names have docstrings."""

from __future__ import annotations

import ast
import doctest
import itertools
from pathlib import Path

import pytest

pyjit = pytest.importorskip("pyjit", exc_type=ImportError)

STUB = Path(__file__).parents[2] / "python-bindings/pyjit/__init__.pyi"


def documented() -> dict[str, str]:
    """Docstrings by name: those of functions, classes and their public methods."""
    found: dict[str, str] = {}
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            text = ast.get_docstring(node) or ""
            found[node.name] = found.get(node.name) or text
    return found


def test_each_public_name_says_what_it_is() -> None:
    texts = documented()
    assert not [name for name in pyjit.__all__ if not texts.get(name)]


@pytest.mark.parametrize(
    "name", [name for name, text in documented().items() if ">>>" in text]
)
def test_examples(name: str) -> None:
    test = doctest.DocTestParser().get_doctest(
        documented()[name], {}, name, str(STUB), 0
    )
    results = doctest.DocTestRunner(verbose=False).run(test)
    assert results.attempted and not results.failed


def test_fields_of_statistics() -> None:
    """The stub says what `Statistics.FIELDS` says."""
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name == "Statistics":
            body = node.body
    said = {
        member.target.id: " ".join(text.value.value.split())
        for member, text in itertools.pairwise(body)
        if isinstance(member, ast.AnnAssign) and isinstance(text, ast.Expr)
    }
    for name, meaning in pyjit.Statistics.FIELDS.items():
        assert said[name].rstrip(".").lower() == meaning.rstrip(".").lower(), name
