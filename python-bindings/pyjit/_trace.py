# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``pyjit.trace``: the capture log of one call, as text that ``pyjit-opt`` reads."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyjit import _C
from pyjit._module import compiled_call


@dataclass(frozen=True)
class Trace:
    """One monitored call: eager's result, and the ``refgraph`` text or why there is none."""

    result: Any
    text: str
    reason: str

    def save(self, path: str | Path) -> None:
        """Writes the text. Raises ``ValueError`` where the capture ended early."""
        if self.reason:
            raise ValueError(f"nothing was captured: {self.reason}")
        Path(path).write_text(self.text)


def trace(fn: Callable) -> Callable[..., Trace]:
    """Returns a callable that runs ``fn`` once, monitored, and returns its ``Trace``."""
    if not callable(fn):
        raise TypeError(f"pyjit.trace: {type(fn).__name__!r} object is not callable")
    call = compiled_call(fn) or fn
    target = call.target if isinstance(call, _C.CompiledFunction) else fn

    @functools.wraps(fn, updated=())
    def run(*args: Any, **kwargs: Any) -> Trace:
        name = getattr(target, "__name__", type(target).__name__)
        run = _C.capture(_C.Context(), target, args, kwargs, name)
        text = "".join(str(segment.trace) for segment in run.segments)
        return Trace(run.result, text, run.reason.text if run.reason else "")

    return run
