"""The exceptions that pyjit raises where a caller asked for them."""

from __future__ import annotations


class CaptureError(RuntimeError):
    """A call could not be captured as one graph, and ``fullgraph=True`` asked for that."""


class CompileError(RuntimeError):
    """pyjit's own compiler failed on a captured program; raised only with ``options={"strict": True}``."""
