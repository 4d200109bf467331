# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""When a call that no specialization answers may be observed again.

A monitored run, and the compilation behind it, takes many times what the call takes in eager. Where
runs come to nothing they are therefore paid for: the next one waits until eager calls have taken so
much time that all of it is a small share of that, and each further run in vain doubles the wait.

Runs that make specializations are free up to a number, for most functions need a few. A function that
needs ever more of them (a length that no graph can take as a symbol, say) may never come to use them:
each further one waits until eager has answered calls for as long as the one before took to make.

A run of a call that raises says nothing of calls that return. After a few of those the next run waits until
calls have returned in eager, twice as many each time.

Time is counted for each *reason* apart: what may change what comes of a run (grad mode,
``training``) and costs little to look at. A new reason begins with a clean slate.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Hashable, Iterator

BUDGET = 0.03
"""What runs in vain may take, as a share of the eager calls' time."""
_FREE = 2
"""Runs in vain before any has to be paid for: what the first one learns may help the second."""
FREE_MADE = 24
"""Runs that made specializations before any has to be paid for. A decoder with a window needs some twenty: prompts
and steps, with the window full or not, for one sequence or a batch, with padding or without."""
FREE_UNUSED = 11
"""Likewise where these answer next to nothing: each call is another one (flags drawn at random, say). Batches with
and without padding, generated from, are many kinds of calls at first, too."""
_LITTLE = 1 / 3
"""Calls that each specialization has answered on average, below which they answer next to nothing."""
FREE_SECONDS = 10.0
"""Likewise in time: about what the first call of ``torch.compile`` takes."""
FEW_MADE = 2
"""Likewise of modules in calls of a function that has reached its limit: what varies there varies in them."""
_WORTH = 8
"""Calls that each specialization has answered on average, from which on more of them are worth their time."""
_MOST_UNSEEN = 64
"""How many calls may pass between two that are timed,"""
_UNSEEN_SECONDS = 2e-3
"""or how much time, if that is more: timing costs as much as a short call takes."""
_MOST_REASONS = 16


class Clock:
    """Seconds, without those of recordings that have ended: eager's answer to a call may contain some, of modules
    that it calls, and pays for no further one with them."""

    def __init__(self) -> None:
        self._recordings = 0.0

    def __call__(self) -> float:
        return time.perf_counter() - self._recordings

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """What happens meanwhile counts for as long as it lasts."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._recordings += time.perf_counter() - start


CLOCK = Clock()


class _Account:
    def __init__(self) -> None:
        self.in_vain = 0
        self.raised = 0
        """Runs of calls that raised an exception of the program's own,"""
        self.returns = 0
        """and how many calls have to return in eager before the next run."""
        self.made = 0
        """Runs that made specializations,"""
        self.made_since = -math.inf
        """when the latest of them began,"""
        self.spent = 0.0
        """and how many seconds they took."""
        self.wait = 0.0
        """Seconds of eager calls until the next run."""
        self.unseen = 0
        """Calls that were let past since the last that was timed."""
        self.shortest = math.inf
        """Seconds of the shortest eager call timed."""


class Backoff:
    """What one function has spent on runs, and what it may spend. ``free``: how many may make specializations
    before any has to be paid for; ``free_seconds``: how long they may take together."""

    def __init__(
        self,
        clock: Callable[[], float] = CLOCK,
        free: float = FREE_MADE,
        free_seconds: float = FREE_SECONDS,
    ) -> None:
        self.clock = clock
        self.free = free
        self.free_seconds = free_seconds
        self._accounts: dict[Hashable, _Account] = {}

    def _account(self, reason: Hashable) -> _Account:
        account = self._accounts.get(reason)
        if account is None:
            if len(self._accounts) >= _MOST_REASONS:  # reasons that never come back
                del self._accounts[next(iter(self._accounts))]
            account = self._accounts[reason] = _Account()
        return account

    def may_observe(self, reason: Hashable, hits: int = 0) -> bool:
        """Whether the present call may be a monitored run. ``hits``: how many specializations have answered."""
        account = self._accounts.get(reason)
        if account is None:
            return True
        if account.returns > 0:
            return False
        if account.wait <= 0:
            return True
        return self.is_paid_for(reason) and hits >= _WORTH * account.made

    def is_paid_for(self, reason: Hashable) -> bool:
        """Whether the next run waits because those before made specializations enough."""
        account = self._accounts.get(reason)
        return (
            account is not None
            and account.made > 0
            and not account.in_vain
            and not account.raised
            and account.wait < math.inf
        )

    def observed_in_vain(self, reason: Hashable, start: float) -> None:
        """A run that began at ``start`` came to nothing."""
        account = self._account(reason)
        account.in_vain += 1
        account.unseen = 0
        doublings = account.in_vain - _FREE
        if doublings >= 0:
            spent = max(self.clock() - start, 0.0)
            account.wait = spent / BUDGET * 2.0 ** min(doublings, 1000)

    def raised(self, reason: Hashable) -> None:
        """A run ended by the program's own exception. That says nothing of calls that return, and eager's answers tell
        when one does."""
        account = self._account(reason)
        account.raised += 1
        account.unseen = 0
        if account.raised >= _FREE:
            account.returns = 2 ** min(account.raised - _FREE, 60)

    def came_to_something(
        self, reason: Hashable, start: float, hits: float = math.inf
    ) -> None:
        """A run that began at ``start`` made a specialization: what was in vain is forgotten. ``hits``: how many calls
        specializations have answered."""
        account = self._account(reason)
        account.in_vain = account.raised = account.unseen = 0
        account.shortest = math.inf
        taken = max(self.clock() - start, 0.0)
        if account.made_since != start:  # else of another place in a loop
            account.made += 1
            account.spent += taken
            account.made_since = start
        unused = account.made > FREE_UNUSED and hits < _LITTLE * account.made
        over = unused or account.made > self.free or account.spent > self.free_seconds
        account.wait = taken if over and self.free < math.inf else 0.0

    def give_up(self, reason: Hashable) -> None:
        """No run for this reason any more."""
        self._account(reason).wait = math.inf

    def answered(
        self, reason: Hashable, start: float, returned: bool = True, past: int = 0
    ) -> int:
        """Eager has answered a call since ``start``; ``returned``: not by an exception. Returns how many of the next
        calls need not be timed: of these ``past`` came, and each counts as much as the shortest that was."""
        account = self._account(reason)
        taken = max(self.clock() - start, 0.0)
        account.shortest = min(account.shortest, taken)
        account.wait -= taken + past * account.shortest
        most = _MOST_UNSEEN
        if account.shortest > 0:
            most = max(most, int(_UNSEEN_SECONDS / account.shortest))
        unseen = min(2 * account.unseen + 1, most)
        if account.returns > 0:
            if returned:
                account.returns -= 1
                unseen = 0
        elif account.shortest > 0 and account.wait < math.inf:
            unseen = min(unseen, int(max(account.wait, 0.0) / account.shortest))
        account.unseen = unseen
        return unseen
