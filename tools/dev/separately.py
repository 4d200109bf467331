# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs jobs in processes of their own: one that dies, or does not end, harms no other."""

from __future__ import annotations

import faulthandler
import multiprocessing
import multiprocessing.connection
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """What became of a job: what its function returned, or why it returned nothing."""

    job: Any
    value: Any = None
    lost: str = ""


class _Running:
    def __init__(self, function: Callable[[Any], Any], job: Any, limit: float) -> None:
        context: Any = multiprocessing.get_context("fork")
        self.job = job
        self.pipe, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=_answer, args=(function, job, theirs))
        self.process.start()
        theirs.close()
        self.limit, self.until = limit, time.monotonic() + limit

    def over(self) -> bool:
        return self.pipe.poll() or time.monotonic() > self.until

    def outcome(self) -> Outcome:
        try:
            if self.pipe.poll():
                return Outcome(self.job, self.pipe.recv())
            self.abort()
            return Outcome(self.job, lost=f"took more than {self.limit:.0f} s")
        except EOFError:
            self.process.join()
            status = self.process.exitcode
            return Outcome(self.job, lost=f"the process ended with status {status}")
        finally:
            self.process.kill()
            self.process.join()
            self.pipe.close()

    def abort(self) -> None:
        """Says on stderr where it is."""
        if self.process.pid is not None:
            os.kill(self.process.pid, signal.SIGABRT)
        self.process.join(timeout=10)


def _answer(
    function: Callable[[Any], Any],
    job: Any,
    pipe: multiprocessing.connection.Connection,
) -> None:
    faulthandler.enable()
    pipe.send(function(job))
    pipe.close()
    os._exit(0)  # no time for what a program has left to be torn down


def run(
    function: Callable[[Any], Any],
    jobs: Iterable[Any],
    *,
    processes: int,
    limit: float,
    until: float = float("inf"),
) -> Iterator[Outcome]:
    """The outcomes of ``function(job)`` as they come, so many processes at a time.

    limit: seconds for a job. until: no job begins after that time (``time.monotonic``).
    Processes are forked: what is loaded already costs them nothing, and a GPU that the caller has touched is lost to
    them (a driver that is initialized does not survive ``fork``).
    """
    todo = iter(jobs)
    running: list[_Running] = []
    waiting = True
    while running or waiting:
        while waiting and len(running) < processes:
            try:
                waiting = time.monotonic() < until
                if waiting:
                    running.append(_Running(function, next(todo), limit))
            except StopIteration:
                waiting = False
        multiprocessing.connection.wait([r.pipe for r in running], timeout=1.0)
        for one in [r for r in running if r.over()]:
            running.remove(one)
            yield one.outcome()
