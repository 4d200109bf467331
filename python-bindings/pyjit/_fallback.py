# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tells the user, once, that calls run in eager and go on doing so: as a warning, as an exception, or not.

A filter may make an exception of the warning. So it is given before a call does anything, never behind it,
where the result would be lost.
"""

from __future__ import annotations

import os
import warnings

from pyjit._C import ReasonKind
from pyjit._errors import CaptureError, PyjitWarning, describe_refusal
from pyjit._reasons import Reason

POLICIES = ("warn", "ignore", "raise")


class Fallback:
    """What one function has told of its calls in eager."""

    def __init__(self, name: str, policy: str) -> None:
        self.name = name
        self.policy = policy
        self._told: set[ReasonKind] = set()
        self._pending: Reason | None = None

    def later(self, reason: Reason) -> None:
        """The next call is to tell of it."""
        if reason.kind not in self._told and not reason.passing:
            self._pending = reason

    def warn(self) -> None:
        """A call begins that no specialization answers. Raises CaptureError where the policy is to raise."""
        reason = self._pending
        if reason is None or self.policy == "ignore":
            return
        if self.policy == "raise":
            raise CaptureError(f"pyjit: {describe_refusal(self.name, reason)}")
        self._pending = None
        self._told.add(reason.kind)
        self._warn(
            reason, f"pyjit: calls run in eager: {describe_refusal(self.name, reason)}"
        )

    def announce(self, reason: Reason) -> None:
        """Tells of it behind a call, whose result must not be lost."""
        if self.policy == "raise" or reason.kind in self._told:
            return self.later(reason)
        if self.policy == "warn":
            text = describe_refusal(f"{self.name} runs in eager", reason)
            self._quietly(reason, f"pyjit: {text}")

    def announce_refusal(self, reason: Reason) -> None:
        """A call under ``fullgraph=True`` was answered and is no whole graph: the next one raises."""
        if self.policy == "warn":
            text = describe_refusal(self.name, reason)
            self._quietly(
                reason,
                f"pyjit.compile(fullgraph=True): the next such call raises CaptureError: {text}",
            )

    def _quietly(self, reason: Reason, text: str) -> None:
        self._told.add(reason.kind)
        try:
            self._warn(reason, text)
        except (
            PyjitWarning
        ):  # a filter made an exception of it: the next call raises it
            self._told.discard(reason.kind)
            self._pending = reason

    def _warn(self, reason: Reason, text: str) -> None:
        warning = PyjitWarning(text)
        warning.reason = reason
        warnings.warn(
            warning,
            stacklevel=2,
            skip_file_prefixes=(os.path.dirname(__file__),),
        )
