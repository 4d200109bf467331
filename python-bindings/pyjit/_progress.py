"""A line on the terminal while a compilation lasts."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

SHOWN_AFTER_SECONDS = 0.5


@contextlib.contextmanager
def progress(name: str) -> Iterator[None]:
    """Says on a terminal's standard error that ``name`` is being compiled, once that lasts."""
    if not sys.stderr.isatty():
        yield
        return
    shown = False

    def show() -> None:
        nonlocal shown
        shown = True
        sys.stderr.write(f"\rpyjit: compiling {name} ...")
        sys.stderr.flush()

    timer = threading.Timer(SHOWN_AFTER_SECONDS, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
