# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graph breaks within `except` and `finally`: the exception that is handled is the thread's state."""

from __future__ import annotations

import sys
import traceback
from typing import Any

import torch
from Integration.harness import ANY, Compile, Steps, attempt, scenario, values


@scenario(captured=False, graph_breaks=ANY)
def test_what_is_handled(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[Any, ...]:
        try:
            raise ValueError("a")
        except ValueError:
            kind = sys.exc_info()[0]
            last = traceback.format_exc().splitlines()[-1]
            return x * 2, kind, last, type(sys.exception())

    f = compile(g)
    for seed in range(5):
        yield f(values(4, seed=seed))


@scenario(captured=False, graph_breaks=ANY)
def test_raised_again(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        try:
            raise KeyError(len(y))
        except KeyError:
            print(end="")
            raise

    f = compile(g)
    for seed in range(5):
        raised = attempt(f, values(4, seed=seed))
        yield type(raised), str(raised)


@scenario(captured=False, graph_breaks=ANY)
def test_context(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, str]:
        try:
            raise ValueError("a")
        except ValueError:
            print(end="")
            try:
                raise KeyError("b")
            except KeyError as error:
                return x + 1, repr(error.__context__)

    f = compile(g)
    for seed in range(5):
        yield f(values(4, seed=seed))


@scenario(captured=False, graph_breaks=ANY)
def test_in_a_function_that_the_handler_calls(compile: Compile) -> Steps:
    lines: list[str] = []

    def report() -> None:
        lines.append(repr(sys.exc_info()[1]))
        lines.append(traceback.format_exc().splitlines()[-1])

    def g(x: torch.Tensor, table: dict[str, int]) -> torch.Tensor:
        y = x * 2
        try:
            y = y * table["scale"]
        except KeyError:
            report()
        return y + 1

    f = compile(g)
    for seed in range(6):
        yield f(values(4, seed=seed), {} if seed % 3 else {"scale": 3}), list(lines)


@scenario(graph_breaks=ANY, captured="late")
def test_behind_the_handler(compile: Compile) -> Steps:
    """What was handled is over: the graph break is as any other."""

    def g(x: torch.Tensor, table: dict[str, int]) -> torch.Tensor:
        try:
            scale = table["scale"]
        except KeyError:
            scale = 2
        x = x * scale
        print(end="")
        return x + 1

    f = compile(g)
    for seed in range(6):
        yield f(values(4, seed=seed), {})
