# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sets, frozensets and ranges from before a call that the call walks over: the order of a set is checked by each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import values
from torch import nn

Tensor = torch.Tensor


def _loop(x: Tensor, s: Any) -> Any:
    seen = []
    for n, element in enumerate(s):
        x = x * 2 + n
        seen.append(element)
    return x, seen


USES: dict[str, Callable[[Tensor, Any], Any]] = {
    "for": _loop,
    "list": lambda x, s: (x + len(s), list(s)),
    "tuple": lambda x, s: (x + 1, (*s,)),
    "sorted": lambda x, s: (x + 1, sorted(s, key=str)),
    "text": lambda x, s: (x + 1, ",".join(str(e) for e in s)),
    "comprehension": lambda x, s: (x + 1, [str(e) * 2 for e in s if e != 5]),
    "dict": lambda x, s: (x + 1, dict.fromkeys(s, 1)),
    "set": lambda x, s: (x + 1, list({str(e) for e in s}).sort()),
    "zip": lambda x, s: (x + 1, list(zip(s, "abc"))),
    "next": lambda x, s: (x + 1, next(iter(s), None)),
    "in": lambda x, s: (x + (5 in s) + 2 * (True in s), [e in s for e in (1, 3)]),
    "max": lambda x, s: (x + len(max((str(e) for e in s), default="")), None),
    "any": lambda x, s: (x + any(e == 5 for e in s), None),
    "starred": lambda x, s: (torch.stack([x * len(str(e)) for e in [1, *s]]), None),
    "union": lambda x, s: (x + 1, list({*s, 100, "z"})),
    "printed": lambda x, s: (x + 1, f"one of {s}" + f"{s!r}"),
    "representation": lambda x, s: (x + len(repr(s)), str([s])),
    "equal": lambda x, s: (x + 1, (s == {1, 5, 9}, s != {5}, [s] == [{1, 5}])),
    "kept": lambda x, s: (x + sum(1 for _ in s), s),
}  # fmt: skip


def _grown(*elements: Any) -> set[Any]:
    """In a larger table, where elements lie in another order."""
    made = set(range(200, 300))
    made.update(elements)
    made.difference_update(range(200, 300))
    return made


STORY = (
    {1, 5, 9}, {1, 5, 9}, {1, 5, 9}, {1, 5}, {True, 5, 9}, {1.0, 5, 9}, {9, 1, 5}, {1, 5, 9}, _grown(1, 33, 5), {1, 33, 5},
    {33, 1, 5}, {"a", "b", "c", 5}, {"a", "b", "c", 5}, {"c", "b", "a", 5}, set(), set(), {None, 5, (1, 2)}, {(1, 2), 5, None},
)  # fmt: skip


class Holder(nn.Module):
    def __init__(self, use: Callable[[Tensor, Any], Any]) -> None:
        super().__init__()
        self.use, self.kinds = use, {"full", "sliding"}

    def forward(self, x: Tensor) -> Any:
        return self.use(x, self.kinds)


def _same(have: Any, want: Any) -> None:
    torch.testing.assert_close(have[0], want[0], rtol=0, atol=0)
    assert repr(have[1]) == repr(want[1])


@pytest.mark.parametrize("kind", (set, frozenset), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("use", USES)
def test_arguments(use: str, kind: type) -> None:
    f = pyjit.compile(USES[use], options={"recompile_limit": 64})
    for _ in range(2):
        for element in STORY:
            given = element if kind is set else frozenset(element)
            _same(f(values(3), given), USES[use](values(3), given))
    # (A frozenset is known by its identity; what is made of a set lies as its table does.)
    assert pyjit.stats(f).hits > 20 or kind is frozenset or use == "union"


@pytest.mark.parametrize("use", USES)
def test_attribute(use: str) -> None:
    """A module's own set, that somebody changes and makes anew."""
    m = Holder(USES[use])
    f = pyjit.compile(m)
    for step in range(30):
        if step == 8:
            m.kinds.add("chunked")
        elif step == 14:
            m.kinds = {"chunked", "sliding", "full"}
        elif step == 20:
            m.kinds.discard("sliding")
        _same(f(values(3)), m(values(3)))
    stats = pyjit.stats(f)
    assert stats.hits > 15, stats


@pytest.mark.parametrize("use", [use for use in USES if use not in ("kept", "next")])
def test_ranges(use: str) -> None:
    f = pyjit.compile(USES[use])
    story = [
        range(3),
        range(3),
        range(3),
        range(1, 3),
        range(0, 9, 3),
        range(0),
        range(3),
        range(9, 0, -2),
    ]
    for given in story * 3:
        _same(f(values(3), given), USES[use](values(3), given))
    assert pyjit.stats(f).hits > 6, pyjit.stats(f)


def test_parts_of_ranges() -> None:
    f = pyjit.compile(
        lambda x, r: (
            x * r[1] + len(r),
            [r[-1], r.start, r.stop, r.step, list(r[1:]), 4 in r, bool(r)],
        )
    )
    for given in (
        range(3),
        range(3),
        range(2, 9),
        range(0, 9, 3),
        range(3),
        range(9, 0, -2),
    ) * 2:
        _same(f(values(3), given), (values(3) * given[1] + len(given), [given[-1], given.start, given.stop, given.step, list(given[1:]), 4 in given, bool(given)]))  # fmt: skip
