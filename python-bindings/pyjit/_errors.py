# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The exceptions that pyjit raises where a caller asked for them, and its category of warnings."""

from __future__ import annotations

from pyjit._reasons import Reason


class CaptureError(RuntimeError):
    """A call cannot be captured as one graph, and ``fullgraph=True`` asked for that; or it would run in
    eager, and ``options={"fallback": "raise"}`` did. The call has not begun."""


class CompileError(RuntimeError):
    """pyjit's own compiler failed on a captured program; raised only with ``options={"strict": True}``."""


class PyjitWarning(RuntimeWarning):
    """Calls run in eager and go on doing so; given once for each function and kind of reason.

    ``warnings.filterwarnings("ignore", category=pyjit.PyjitWarning)`` or ``options={"fallback": "ignore"}``
    silences it.
    """

    reason: Reason | None = None


def describe_refusal(name: str, reason: Reason) -> str:
    """What the exceptions and warnings say: the reason, the program's line, what to do, and where to read."""
    lines = [f"{name}: {reason.what}"]
    if place := reason.place:
        source = f": {place.source}" if place.source else ""
        lines.append(f"  in {place.function}, {place}{source}")
    lines += [f"  what to do: {reason.remedy}", f"  more: {reason.docs}"]
    return "\n".join(lines)
