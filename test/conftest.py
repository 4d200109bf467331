# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the built package importable and describes which build is tested."""

from __future__ import annotations

import importlib.util
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
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
    parser.addoption(
        "--most", type=int, help="of a test with more cases, run so many of them, drawn"
    )
    parser.addoption("--part-seed", default="0", help="another one gives others")
    parser.addoption(
        "--alone", choices=["only", "never"], help="only, or without, what is marked so"
    )
    parser.addoption(
        "--aged",
        action="store_true",
        help="in processes that have traced, compiled and profiled by PyTorch's own tools first",
    )


def pytest_sessionstart(session: pytest.Session) -> None:
    """Leaves behind what PyTorch's tools leave in a process: patched classes, notes of modules, hooks, caches."""
    if not session.config.getoption("--aged"):
        return
    import torch

    model, x = (
        torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()),
        torch.ones(2),
    )
    torch.compile(model, backend="eager")(x)
    torch.fx.symbolic_trace(model)(x)
    torch.export.export(model, (x,)).module()(x)
    torch.jit.trace(model, x)(x)
    torch.func.vmap(torch.func.grad(lambda y: model(y).sum()))(x[None])
    with torch.profiler.profile(), torch.autocast("cpu", torch.bfloat16):
        model(x).sum().backward()
    with torch.device("meta"):
        torch.nn.Linear(2, 2)
    with torch.utils.flop_counter.FlopCounterMode(display=False):
        model(x)


def is_drawn(config: pytest.Config, what: str, part: float) -> bool:
    """The same for the same ``--part-seed``."""
    seed = config.getoption("--part-seed")
    return part >= 1 or random.Random(f"{seed} {what}").random() < part


def part_of_files(config: pytest.Config) -> float:
    """Of the files as of the tests in them: to collect one of which nothing runs takes time, too."""
    return config.getoption("--part") ** 0.5


def is_named(config: pytest.Config, file: Path) -> bool:
    """Whether the command line has the file, and not only a folder of it."""
    return any(Path(arg.partition("::")[0]).resolve() == file for arg in config.args)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out files that are not drawn, or hold nothing that ``--alone`` admits, unless they are named."""
    if collection_path.suffix != ".py" or is_named(config, collection_path):
        return None
    if config.getoption("--alone") == "only":
        return None if "mark.alone" in collection_path.read_text() else True
    file = str(collection_path.relative_to(ROOT))
    return None if is_drawn(config, file, part_of_files(config)) else True


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Keeps the tests that ``--part`` and ``--most`` draw, and ``--alone`` admits."""
    part = config.getoption("--part")
    most, alone = config.getoption("--most"), config.getoption("--alone")
    cases = Counter(item.nodeid.partition("[")[0] for item in items)

    def is_kept(item: pytest.Item) -> bool:
        if alone and (item.get_closest_marker("alone") is not None) != (
            alone == "only"
        ):
            return False
        drawn = part
        if alone != "only" and not is_named(config, item.path):
            drawn /= part_of_files(config)
        if most:
            drawn *= most / max(most, cases[item.nodeid.partition("[")[0]])
        return is_drawn(config, item.nodeid, drawn)

    kept, left = [], []
    for item in items:
        (kept if is_kept(item) else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
    items[:] = kept


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


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Small tensors gain nothing by more: threads would but wait for each other, beside a suite's other processes."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
