# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The line that says what is being compiled, once that lasts: on a terminal and in a notebook, nowhere else."""

from __future__ import annotations

import io
import sys
import threading
import types
from typing import Any

import pytest

pytest.importorskip("pyjit", exc_type=ImportError)
from pyjit import _progress


class Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal
        self.written = threading.Event()

    def isatty(self) -> bool:
        return self.terminal

    def flush(self) -> None:
        self.written.set()


@pytest.mark.parametrize(
    ("terminal", "notebook", "end"),
    [(True, False, "\r\x1b[K"), (False, True, " \r"), (False, False, None)],
)
def test_line(
    terminal: bool, notebook: bool, end: str | None, monkeypatch: Any
) -> None:
    stream = Stream(terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(_progress, "SHOWN_AFTER_SECONDS", 0.0)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    if notebook:
        monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    with _progress.progress("model"):
        if end is not None:
            assert stream.written.wait(60)
            assert "pyjit: compiling model ..." in stream.getvalue()
    if end is None:
        assert not stream.getvalue()
    else:
        assert stream.getvalue().endswith(end)


def test_nothing_where_it_is_soon_over(monkeypatch: Any) -> None:
    stream = Stream(terminal=True)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(_progress, "SHOWN_AFTER_SECONDS", 3600.0)
    with _progress.progress("model"):
        pass
    assert not stream.getvalue()
