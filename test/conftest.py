"""Makes the built package importable and describes which build is tested."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

# Who answers a call would hang from the machine's load. Tests of that turn it on by the option.
os.environ.setdefault("PYJIT_COMPARE_WITH_EAGER", "0")

# What each pass leaves is verified, not only what each stage does.
os.environ.setdefault("PYJIT_VERIFY", "1")

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("PYJIT_BUILD", ROOT / "build"))

# The package of this checkout, not of whoever owns the virtual environment.
sys.path.insert(0, str(BUILD / "python"))
sys.path.insert(0, str(ROOT / "test"))


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def load_script() -> Callable[[str], ModuleType]:
    """A script of tools/dev as a module."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(
            name, ROOT / f"tools/dev/{name}.py"
        )
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # where dataclasses look for it
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="session")
def bin_dir() -> Path:
    """Where the built tools are."""
    return BUILD / "bin"
