# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Imports within functions of a package: of the package itself, a module beside, one above, and what calls change there."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pyjit
import pytest
import torch
from Integration.harness import values

FILES = {
    "__init__.py": "FACTOR = 2\n",
    "above.py": "SHIFT = 1\ndef shift(x):\n    return x + SHIFT\n",
    "inner/__init__.py": "NAME = 'inner'\n",
    "inner/beside.py": "def scale(x, n):\n    return x * n\n",
    "inner/lazy.py": "SLOPE = .5\n",
    "inner/model.py": """
def f(x):
    from . import NAME
    from .. import FACTOR
    from ..above import shift
    from .beside import scale as scaled
    from .lazy import SLOPE
    return shift(scaled(x, FACTOR)) * len(NAME) * SLOPE

def missing(x):
    try:
        from .nowhere import nothing
    except ImportError:
        return x * 3
    return x

def absent(x):
    from . import beside
    try:
        from .beside import nothing
    except ImportError:
        return beside.scale(x, 4)
    return x
""",
}


@pytest.fixture
def packages(tmp_path: Path) -> Iterator[list[ModuleType]]:
    names = ["relative_eager", "relative_compiled"]
    for name in names:
        for file, text in FILES.items():
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    sys.path.insert(0, str(tmp_path))
    try:
        yield [importlib.import_module(name) for name in names]
    finally:
        sys.path.remove(str(tmp_path))
        for name in [n for n in sys.modules if n.partition(".")[0] in names]:
            del sys.modules[name]


@pytest.mark.parametrize("which", ("f", "missing", "absent"))
def test_relative_imports(packages: list[ModuleType], which: str) -> None:
    models = [importlib.import_module(p.__name__ + ".inner.model") for p in packages]
    plain, fast = getattr(models[0], which), pyjit.compile(getattr(models[1], which))
    for call in range(14):
        for package in packages:
            if call == 4:
                package.FACTOR = 5
            elif call == 7:
                importlib.import_module(package.__name__ + ".above").SHIFT = 3
            elif call == 9:
                importlib.import_module(package.__name__ + ".inner.beside").scale = (
                    lambda x, n: x - n
                )
            elif call == 11:
                sys.modules.pop(package.__name__ + ".inner.lazy", None)
        torch.testing.assert_close(fast(values(3)), plain(values(3)), rtol=0, atol=0)
    if which == "f":
        stats = pyjit.stats(fast)
        assert stats.hits >= 6 and not stats.graph_breaks, stats


def test_a_part_that_nobody_has_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`from package import part`: the first call loads it, and the next one is recorded."""
    package = tmp_path / "package_with_a_part"
    package.mkdir()
    (package / "__init__.py").write_text("FACTOR = 2\n")
    (package / "part.py").write_text("FACTOR = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("package_with_a_part")

    def run(x: torch.Tensor) -> torch.Tensor:
        from package_with_a_part import FACTOR, part

        return x * FACTOR * part.FACTOR

    fast = pyjit.compile(run)
    for n in range(4):
        torch.testing.assert_close(fast(torch.ones(3) * n), torch.ones(3) * n * 6)
    stats = pyjit.stats(fast)
    assert stats["hits"] >= 1 and not stats["graph_breaks"], stats["reasons"]

    def wrong(x: torch.Tensor) -> torch.Tensor:
        from package_with_a_part import missing

        return x * missing

    fast = pyjit.compile(wrong)
    for _ in range(4):
        with pytest.raises(ImportError):
            fast(torch.ones(3))
