# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The programs of ``benchmarks/breadth.py``, by family.

A program makes a callable and a maker of its inputs. ``inputs(which)`` gives fresh
``(args, kwargs)`` for ``"first"``, ``"other"`` (other values) and ``"shape"`` (another shape;
None where the program has one shape only).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Inputs = Callable[[str], tuple[tuple[Any, ...], dict[str, Any]] | None]


@dataclass(frozen=True)
class Program:
    name: str
    family: str
    make: Callable[[], tuple[Callable[..., Any], Inputs]]
    raises: bool = False
    """Whether eager itself raises, which is then what pyjit has to do."""
    timed: bool = True
    training: Callable[[], tuple[Callable[..., Any], Inputs]] | None = None
    """In place of ``make`` where the modules are in training mode: a batch norm wants
    more than one value for each channel, a detector targets."""


FAMILIES = {
    "modules": "zoo.modules",
    "idioms": "zoo.idioms",
    "state": "zoo.state",
    "torchvision": "zoo.vision",
    "timm": "zoo.timm_models",
    "transformers": "zoo.language",
    "training": "zoo.training",
    "packages": "zoo.packages",
}


def load(families: list[str]) -> list[Program]:
    programs: list[Program] = []
    for family in families:
        if family not in FAMILIES:
            raise SystemExit(f"unknown family {family}; known: {', '.join(FAMILIES)}")
        programs += importlib.import_module(FAMILIES[family]).programs()
    return programs


class Kwargs(dict):  # type: ignore[type-arg]
    """Marks keyword arguments."""


def call_of(made: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments, of which a final ``Kwargs`` has those by name."""
    if made and isinstance(made[-1], Kwargs):
        return made[:-1], dict(made[-1])
    return made, {}


SEEDS = {"first": 10, "other": 11, "shape": 12}


def generator(which: str) -> torch.Generator:
    return torch.Generator().manual_seed(SEEDS[which])


def images(size: int, other: int | None, *, batch: int = 1, dims: int = 2) -> Inputs:
    """Random images; the other shape is another size, or else another batch."""

    def inputs(which: str) -> Any:
        side = other if which == "shape" and other else size
        count = batch + 1 if which == "shape" and not other else batch
        shape = (count, 3, *([8] if dims == 3 else []), side, side)
        return (torch.randn(shape, generator=generator(which)),), {}

    return inputs
