# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attempts to get a wrong answer: generators that are left, closed and thrown into."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from Integration.harness import Compile, Steps, scenario, tell, values

_DROPPED = "a generator that yields within `try` or `with`"


@contextlib.contextmanager
def _noted(log: list[Any], what: Any) -> Iterator[Any]:
    log.append(("enter", what))
    try:
        yield what
    finally:
        log.append(("exit", what))


def _with_finally(x: Any, log: list[Any]) -> Iterator[Any]:
    try:
        for i in range(4):
            yield x * i
    finally:
        log.append("closed")


def _with_block(x: Any, log: list[Any]) -> Iterator[Any]:
    with _noted(log, "block"):
        yield x
        yield x + 1
    yield x + 2


def _delegating(x: Any, log: list[Any]) -> Iterator[Any]:
    try:
        yield from (x * i for i in range(3))
    except GeneratorExit:
        log.append("left")
        raise


def _left(x: Any, n: int, log: list[Any], make: Any) -> Any:
    for i, y in enumerate(make(x, log)):
        if i == n:
            break
    log.append("behind")
    return y, list(log)


def _next_of(x: Any, n: int, log: list[Any], make: Any) -> Any:
    y = next(make(x, log))
    log.append("behind")
    return y * n, list(log)


def _local(x: Any, n: int, log: list[Any], make: Any) -> Any:
    steps = make(x, log)
    first = next(steps)
    if n == 1:
        del steps
    elif n == 2:
        steps.close()
    log.append("behind")
    return first, list(log)


@pytest.mark.parametrize("make", [_with_finally, _with_block, _delegating])
@pytest.mark.parametrize("use", [_left, _next_of, _local])
def test_what_a_generator_does_when_it_is_dropped(
    use: Callable[..., Any], make: Callable[..., Any]
) -> None:
    """Its handlers run at the instruction that drops it, also while a call is recorded."""

    def story(compile: Compile) -> Steps:
        f = compile(use)
        for n in (1, 1, 1, 2, 0, 9, 1):
            log: list[Any] = []
            yield f(values(3), n, log, make), log

    tell(story, eager=_DROPPED)


@scenario
def test_generators_that_handle_nothing(compile: Compile) -> Steps:
    def parts(x: torch.Tensor, n: int) -> Iterator[Any]:
        for i in range(n):
            x = x + (yield x * i)
        return

    def g(x: torch.Tensor, n: int) -> Any:
        steps = parts(x, n)
        out = [next(steps)]
        with contextlib.suppress(StopIteration):
            while True:
                out.append(steps.send(2))
        for y in parts(x, 5):
            break
        return out, y, [*parts(x, 0)]

    f = compile(g)
    for n in (2, 2, 3, 1, 4, 2):
        yield f(values(3), n)


@scenario
def test_context_managers_of_generators(compile: Compile) -> Steps:
    """contextlib ends the generator itself."""

    def g(x: torch.Tensor, n: int, log: list[Any]) -> Any:
        with _noted(log, n) as a, _noted(log, n + 1):
            x = x * a
        log.append("behind")
        return x, len(log)

    f = compile(g)
    for n in (2, 2, 3, 3, 2):
        log: list[Any] = []
        yield f(values(3), n, log), log
