"""Makes the built package importable and describes which build is tested."""

from __future__ import annotations

import importlib.util
import os
import random
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

# The package of this checkout, not of whoever owns the virtual environment; of a CPython beside the
# main one, its own.
OWN = BUILD / "python-{}.{}".format(*sys.version_info)
sys.path.insert(0, str(OWN if OWN.exists() else BUILD / "python"))
sys.path.insert(0, str(ROOT / "test"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds what a sample is asked for with."""
    parser.addoption(
        "--part", type=float, default=1.0, help="run this part of the tests, drawn"
    )
    parser.addoption("--part-seed", default="0", help="another one gives others")


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Keeps the tests that ``--part`` draws: the same ones for the same seed."""
    part, seed = config.getoption("--part"), config.getoption("--part-seed")
    if part >= 1:
        return
    drawn = [i for i in items if random.Random(f"{seed} {i.nodeid}").random() < part]
    config.hook.pytest_deselected(items=[i for i in items if i not in drawn])
    items[:] = drawn


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
