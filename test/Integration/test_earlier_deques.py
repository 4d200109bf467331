# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Deques from before a call, and deques that a call makes and hands out: what is read of them is checked by each call,
what the call does to them is done again, and a bound drops what it drops in eager."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch

Tensor = torch.Tensor


def _x() -> Tensor:
    """Of small integers: sums in any order are the same."""
    return torch.arange(1.0, 4.0)


def _appended(x: Tensor, d: Any) -> Any:
    d.append(x * 2)
    return torch.stack(list(d)).sum(0)


def _appended_twice(x: Tensor, d: Any) -> Any:
    d.append(x * 2)
    d.append(x * 3)
    return sum(d) + d[0] - d[-1], len(d)


def _rolled(x: Tensor, d: Any) -> Any:
    d.append(x)
    return d.popleft() + d[0] if len(d) > 1 else d[-1] * 2


def _turned(x: Tensor, d: Any) -> Any:
    d.rotate(1)
    d.appendleft(x)
    d.extend([x + 1, x + 2])
    return d.pop() + d[-1]


def _seen_first(x: Tensor, d: Any) -> Any:
    before = len(d)
    d.append(x * before)
    return x + before, d[-1]


def _kept(x: Tensor, d: Any) -> Any:
    d.append(d[-1] if d else x)
    return d, deque(d, 2), deque([x * 2, 1.5, "a"])


def _unread(x: Tensor, d: Any) -> Any:
    d.append(3)
    d.append("text")
    d.append({"a": x})
    return x * 2


def _over_a_break(x: Tensor, d: Any) -> Any:
    own = deque([x, x * 2], maxlen=3)
    own.append(x * 3)
    print(end="")
    own.append(x * 4)
    d.append(own[0])
    return own, d[-1] + x


def _stored(x: Tensor, d: Any) -> Any:
    if d:
        d[0] = x * 5
        d[-1] = d[0] + 1
    return x in d if not d else len(d)


def _emptied(x: Tensor, d: Any) -> Any:
    d.append(x)
    d.clear()
    d.append(x + 1)
    return bool(d), [t.sum() for t in d]


def _walked(x: Tensor, d: Any) -> Any:
    for i, t in enumerate(reversed(d)):
        x = x + t * i
    for a, b in zip(d, list(d)[1:]):
        x = x + a * b
    return x


USES = {
    use.__name__.strip("_"): use
    for use in (_appended, _appended_twice, _rolled, _turned, _seen_first, _kept, _unread, _over_a_break, _stored,
                _emptied, _walked)
}  # fmt: skip


def _shown(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, (deque, list, tuple)):
        bound = value.maxlen if isinstance(value, deque) else ""
        return type(value).__name__, bound, [_shown(item) for item in value]
    return (
        {k: _shown(v) for k, v in value.items()} if isinstance(value, dict) else value
    )


class Holder:
    def __init__(self, bound: int | None) -> None:
        self.recent: deque[Any] = deque(maxlen=bound)


@pytest.mark.parametrize("bound", [None, 1, 2, 3])
@pytest.mark.parametrize("use", USES)
def test_grow(use: str, bound: int | None) -> None:
    """One deque for all calls, which others change, too."""
    f = USES[use]
    mine, theirs = Holder(bound), Holder(bound)
    fast = pyjit.compile(lambda x, h: f(x, h.recent), options={"recompile_limit": 64})
    r = random.Random(use)
    for step in range(14):
        x = torch.arange(3.0) + step
        assert _shown(_tried(fast, x, mine)) == _shown(_tried(f, x, theirs.recent)), (
            step
        )
        assert _shown(mine.recent) == _shown(theirs.recent), step
        change = r.random()
        for h in (mine, theirs):
            if change < 0.15:
                h.recent.append(_x() * 7)
            elif change < 0.3 and h.recent:
                h.recent.popleft()
            elif change < 0.36:
                h.recent = deque([_x()], maxlen=bound)


def _tried(f: Callable[..., Any], *args: Any) -> Any:
    try:
        return f(*args)
    except IndexError as error:
        return repr(error)


def _new(length: int, bound: int | None) -> deque[Tensor]:
    return deque([_x() + i for i in range(length)], bound)


@pytest.mark.parametrize("use", USES)
def test_arguments(use: str) -> None:
    """Another deque for each call, of other lengths and bounds."""
    f = USES[use]
    fast = pyjit.compile(f, options={"recompile_limit": 64})
    for length, bound in [
        (2, 3),
        (2, 3),
        (3, 3),
        (2, 3),
        (2, None),
        (3, None),
        (2, 2),
        (3, 3),
        (0, 3),
    ] * 2:
        x, mine, theirs = _x(), _new(length, bound), _new(length, bound)
        assert _shown(fast(x, mine)) == _shown(f(x, theirs))
        assert _shown(mine) == _shown(theirs)


@pytest.mark.parametrize("use", [use for use in USES if use not in ("over_a_break",)])
def test_one_graph(use: str) -> None:
    """A full deque of tensors neither breaks the graph nor keeps a call from settling."""
    fast, h = pyjit.compile(USES[use]), _new(3, 3)
    for _ in range(12):
        fast(_x(), h)
        if use in ("unread", "kept", "emptied", "seen_first", "stored"):
            h = _new(3, 3)
    stats = pyjit.stats(fast)
    assert not stats.graph_breaks, pyjit.explain(fast)
    assert stats.hits > 6, stats


def test_numbers_stay_eager() -> None:
    """A deque of losses is another one in each call: it breaks the graph where it is looked into."""
    losses: deque[float] = deque(maxlen=3)

    def f(x: Tensor, loss: float) -> Any:
        losses.append(loss)
        y = x * 2
        return y, sum(losses) / len(losses)

    fast = pyjit.compile(f)
    for i in range(14):
        want = [float(j) for j in range(max(0, i - 2), i + 1)]
        assert fast(torch.ones(2), float(i))[1] == sum(want) / len(want)


def test_itself() -> None:
    d: deque[Any] = deque()
    d.append(d)

    def f(x: Tensor) -> Any:
        own: deque[Any] = deque()
        own.append(own)
        return x + len(d), own

    fast: Callable[..., Any] = pyjit.compile(f)
    for _ in range(4):
        y, own = fast(torch.ones(2))
        assert torch.equal(y, torch.ones(2) + 1) and own[0] is own
