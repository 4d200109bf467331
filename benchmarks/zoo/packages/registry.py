# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How a program that uses a package of PyPI is registered, and what makes its arguments."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from zoo import Inputs, Program, call_of, generator

programs: list[Program] = []

Given = Callable[[torch.Generator, int], tuple[Any, ...]]
"""Makes arguments of a batch of that size; a final ``Kwargs`` has those by name."""


class Calls(nn.Module):
    """A function of modules and what a call is given: ``function(*modules, *args)``."""

    def __init__(self, function: Callable[..., Any], *modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(modules)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*self.parts, *args, **kwargs)


def named(path: str) -> Any:
    """``package.module:Name.attribute``, imported."""
    module, _, names = path.partition(":")
    found = importlib.import_module(module)
    for name in names.split("."):
        found = getattr(found, name)
    return found


def register(name: str, make: Callable[[], Any], given: Given) -> None:
    """A program that is missing its package is left out: the first word of its name is the package's module."""
    if importlib.util.find_spec(name.partition(".")[0]) is None:
        return

    def build() -> tuple[Any, Inputs]:
        torch.manual_seed(0)
        made = make()
        if isinstance(made, nn.Module):
            made.eval()

        def inputs(which: str) -> Any:
            return call_of(given(generator(which), 3 if which == "shape" else 2))

        return made, inputs

    programs.append(Program(f"packages.{name}", "packages", build))


def model(
    path: str, given: Given, /, *args: Any, name: str = "", **kwargs: Any
) -> None:
    """Registers what `path` makes of the arguments; `name` where one class has several programs."""
    title = path.replace(":", ".") + (f" {name}" if name else "")
    register(title, lambda: named(path)(*args, **kwargs), given)


def floats(*shape: int) -> Given:
    return lambda g, n: (torch.randn(n, *shape, generator=g),)


def tokens(length: int, vocabulary: int = 64) -> Given:
    return lambda g, n: (torch.randint(0, vocabulary, (n, length), generator=g),)
