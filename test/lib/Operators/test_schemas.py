# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The operator table's files against the installed torch and the built tools."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import torch


def loaded(script: Path) -> Any:
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_schemas_are_torch_s(root: Path) -> None:
    """lib/Operators/Schemas.td says what torch prints."""
    module = loaded(root / "tools/dev/update_schemas.py")
    assert (root / "lib/Operators/Schemas.td").read_text() == module.render()


def test_coverage_page_is_current(root: Path) -> None:
    """docs/Operators.md is what the table and the last full conformance runs say."""
    script = loaded(root / "tools/dev/update_operators.py")
    page = script.render(json.loads(script.COMPARED.read_text()))
    assert (root / "docs/Operators.md").read_text() == page
    counts = page.count("| own kernel |") + page.count("| view |")
    assert counts + page.count("| in-place form |") >= 150


def symbols_of_torchscript() -> set[str]:
    """The names that torch's headers know: instructions that have no schema are among them."""
    header = Path(torch.__file__).parent / "include/ATen/core/interned_strings.h"
    found = re.findall(r"_\((\w+), (\w+)\)", header.read_text())
    return {f"{library}::{name}" for library, name in found}


def test_calls_of_our_own_are_the_table_s(root: Path) -> None:
    """What the runtime registers (runtime/torch/OwnCalls.h), lib/Operators/Operators.td says, too."""
    sources = sorted((root / "runtime/torch").glob("*Calls.cpp"))
    calls = re.findall(r"library\.def\(((?:\s*\"[^\"]*\")+)", "".join(map(Path.read_text, sources)))  # fmt: skip
    registered = {"".join(re.findall(r'"([^"]*)"', call)) for call in calls}
    table = (root / "lib/Operators/Operators.td").read_text()
    known = set(re.findall(r'Schema<"pyjit::([^"]*)"', table))
    assert len(registered) >= 3 and registered <= known


def test_facts_are_of_torch_s_operators(root: Path) -> None:
    """lib/Operators/Facts.td misspells no name."""
    overloads = set(torch._C._dispatch_get_all_op_names()) | symbols_of_torchscript()
    overloads |= {
        schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
        for schema in torch._C._jit_get_all_schemas()
    }
    # TorchScript prints instructions without their overloads.
    operators = {name.split(".")[0] for name in overloads}
    libraries = {name.split("::")[0] for name in overloads}
    page = (root / "docs/Operators.md").read_text()
    facts = page.split("## Facts")[1].split("\n## ")[0].split("| --- | --- |")[1]
    unknown = []
    for line in facts.strip().splitlines():
        fact, names = line.strip("| ").split(" | ")
        for name in re.findall(r"`([^`]+)`", names):
            base, star, _ = name.partition("*")
            if star:
                known = base.strip(".:") in operators | libraries
            else:
                known = name in (operators if "Script" in fact else overloads)
            # Those of other packages, and our own.
            if not known and not name.startswith(("torchvision::", "pyjit::")):
                unknown.append(f"{fact}: {name}")
    assert unknown == []
    assert facts.count("`aten::") > 500
