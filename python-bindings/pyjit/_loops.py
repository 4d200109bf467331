# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops that tensor data end: which recordings may become one program."""

from __future__ import annotations

# How often a loop that was too short to be recorded as one is tried again.
_TRIES = 3


class Loops:
    """Of one function or continuation."""

    def __init__(self) -> None:
        # None was compiled, and none will be.
        self.given_up = False
        # An iteration ended too early to be recorded as one of a loop.
        self.was_short = False
        self.compiled = False
        self._tries = 0

    @property
    def met(self) -> bool:
        """It is known to go round: it was compiled, or too short to be."""
        return self.compiled or self.was_short or self._tries > 0

    def try_again(self) -> bool:
        """One call comes by here again and again. True: what was recorded is to go, for the loop
        is long enough now."""
        if not self.was_short or self.given_up or self._tries >= _TRIES:
            return False
        self._tries += 1
        self.was_short = False
        return True
