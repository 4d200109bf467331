# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A line on the terminal, or in a notebook, while a compilation lasts."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

SHOWN_AFTER_SECONDS = 0.5


@contextlib.contextmanager
def progress(name: str) -> Iterator[None]:
    """Says on a terminal's or a notebook's standard error that ``name`` is being compiled, once that lasts."""
    notebook = "ipykernel" in sys.modules
    if not notebook and not sys.stderr.isatty():
        yield
        return
    line = f"pyjit: compiling {name} ..."
    shown = False

    def show() -> None:
        nonlocal shown
        shown = True
        sys.stderr.write(f"\r{line}")
        sys.stderr.flush()

    timer = threading.Timer(SHOWN_AFTER_SECONDS, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if shown:
            # Notebooks know no escape sequence that clears a line.
            clear = f"{' ' * len(line)}\r" if notebook else "\x1b[K"
            sys.stderr.write(f"\r{clear}")
            sys.stderr.flush()
