# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``pyjit.explain``: what became of a function's calls, as a ``Report``."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyjit._reasons import Reason
from pyjit._report import Report, check_detail
from pyjit._statistics import Statistics
from pyjit._timings import Timing, timed


class Explanation:
    """What ``pyjit.explain(fn)`` returns: call it to make a call and get its report. Printed, saved or asked, it is
    the report on the calls so far.
    """

    def __init__(
        self, fn: Callable, call: Callable, find: Callable, detail: str | None
    ) -> None:
        functools.update_wrapper(self, fn, updated=())
        self._call = call
        self._find = find
        self._detail = detail
        self._name = getattr(fn, "__qualname__", type(fn).__qualname__)

    def __call__(self, *args: Any, **kwargs: Any) -> Report:
        timings: list[Timing] | None = None
        with uncounted(self._find()):
            if self._detail in ("kernels", "all"):
                timings = timed(lambda: self._call(*args, **kwargs))
            else:
                self._call(*args, **kwargs)
        return self._report(timings)

    def report(self) -> Report:
        """The report on the calls so far, without another one."""
        return self._report(None)

    def _report(self, timings: list[Timing] | None) -> Report:
        return Report(self._find(), self._name, self._detail, timings)

    def __str__(self) -> str:
        return str(self.report())

    __repr__ = __str__

    def __contains__(self, words: str) -> bool:
        return words in self.report()

    def text(self, detail: str | None = None) -> str:
        return self.report().text(detail)

    def to_dict(self) -> dict[str, Any]:
        return self.report().to_dict()

    def save(self, path: str | os.PathLike[str]) -> None:
        self.report().save(path)

    @property
    def stats(self) -> Statistics:
        return self.report().stats

    @property
    def graph_breaks(self) -> list[Reason]:
        return self.report().graph_breaks

    @property
    def eager_reasons(self) -> list[Reason]:
        return self.report().eager_reasons


def explain(fn: Callable, detail: str | None = None) -> Explanation:
    """Tells what became of a function's calls: what runs compiled, graph breaks with their lines and remedies,
    speed, graphs and kernels, and why calls missed.

    ``fn`` is what ``pyjit.compile`` or ``torch.compile(backend="pyjit")`` returned (its own specializations are
    reported), or anything that ``pyjit.compile`` takes (it is compiled for the report alone).
    ``explain(fn)(*args)`` makes a call, which ``stats`` does not count as a hit, and returns its ``Report``;
    ``print(explain(fn))`` makes none. ``detail``: ``guards``, ``ir``, ``kernels``, ``launch`` or ``all``.

    Raises ``TypeError`` for something that cannot be called, ``ValueError`` for an unknown detail.
    """
    from pyjit._api import compile, engines_of, is_compiled

    if not callable(fn):
        raise TypeError(f"pyjit.explain: {type(fn).__name__!r} object is not callable")
    check_detail(detail)
    compiled = fn if is_compiled(fn) else compile(fn)
    return Explanation(fn, compiled, lambda: engines_of(compiled, "explain"), detail)


@contextmanager
def uncounted(roots: list[Any]) -> Iterator[None]:
    """What happens within is no hit that ``stats`` tells of."""
    before = [
        (e, s, s.hits)
        for r in roots
        for e in r.engines()
        for s in e.compiled.specializations
    ]
    calls = [(e, e.compiled.hits) for r in roots for e in r.engines()]
    try:
        yield
    finally:
        for engine, specialization, hits in before:
            if more := specialization.hits - hits:
                engine.uncounted[specialization] += more
        for engine, hits in calls:
            engine.uncounted[None] += max(engine.compiled.hits - hits, 0)
