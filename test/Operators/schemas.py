# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The operator table as tests see it: overloads, how they lower, their arguments."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Row:
    """One line of docs/Operators.md, which a test keeps current."""

    overload: str
    kind: str
    lowering: str
    functional: str

    @property
    def op(self) -> Any:
        """The callable behind `torch.ops`."""
        base, _, suffix = self.overload.removeprefix("aten::").partition(".")
        return getattr(getattr(torch.ops.aten, base), suffix or "default")

    @property
    def source(self) -> str:
        """The same as Python text."""
        base, _, suffix = self.overload.removeprefix("aten::").partition(".")
        return f"torch.ops.aten.{base}.{suffix or 'default'}"


@cache
def table() -> dict[str, Row]:
    """Every row by overload."""
    line = re.compile(
        r"\| `([^`]+)` \| (\w+) \| ([\w -]+?) \| `?([^`|]*?)`? \|$", re.MULTILINE
    )
    text = (ROOT / "docs" / "Operators.md").read_text()
    return {m[1]: Row(m[1], m[2], m[3], m[4].strip()) for m in line.finditer(text)}


def compiled_rows() -> list[Row]:
    """Rows that pyjit computes by kernels of its own, in-place forms of such included."""
    own = {name for name, row in table().items() if row.lowering.startswith("own")}
    return [
        row
        for row in table().values()
        if row.overload in own
        or (row.lowering == "in-place form" and row.functional in own)
    ]


@dataclass(frozen=True)
class Argument:
    name: str
    type: str  # "Tensor", "Scalar?", "int[]", …
    keyword: bool
    written: bool

    @property
    def optional(self) -> bool:
        return self.type.endswith("?")

    @property
    def plain(self) -> str:
        return self.type.rstrip("?")


def arguments(op: Any) -> list[Argument]:
    """The arguments of a schema, with their types as the schema prints them."""
    text = re.sub(r"\((\w)( -> \*)?!?(\|\w)?\)", "", str(op._schema))
    inner = text[text.index("(") + 1 : text.rindex(") ->")]
    types = [p for p in split(inner) if p != "*"]
    found = []
    for argument, declared in zip(op._schema.arguments, types, strict=True):
        kind = declared.rsplit(" ", 1)[0]
        kind = re.sub(r"\[\d+\]", "[]", kind)
        written = argument.alias_info is not None and argument.alias_info.is_write
        found.append(Argument(argument.name, kind, argument.kwarg_only, written))
    return found


def split(text: str) -> list[str]:
    """At the commas outside of brackets and strings."""
    parts, depth, start = [], 0, 0
    for at, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()] if text[start:].strip() else parts
