# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What pyjit reads of CPython's iterators over containers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import pytest
from pyjit._C import iterator_position

ABC = {"a": 1, "b": 2, "c": 3}


def gone(iterator: Iterator[Any], steps: int) -> Iterator[Any]:
    for _ in range(steps):
        next(iterator)
    return iterator


@pytest.mark.parametrize(
    ("iterator", "name"),
    [
        (iter([1, 2, 3]), "list_iterator"),
        (iter((1, 2, 3)), "tuple_iterator"),
        (iter("abc"), "str_ascii_iterator"),
        (iter("aβc"), "str_iterator"),
    ],
)
def test_sequences(iterator: Iterator[Any], name: str) -> None:
    assert iterator_position(iterator) == (name, 0, 3)
    assert iterator_position(gone(iterator, 2)) == (name, 2, 3)
    assert list(iterator) != []
    assert iterator_position(iterator) is None  # it has run out


def test_backwards() -> None:
    assert iterator_position(gone(reversed([1, 2, 3]), 1)) == (
        "list_reverseiterator",
        1,
        3,
    )
    assert iterator_position(reversed((1, 2, 3))) == ("reversed", 2, 3)


@pytest.mark.parametrize("view", [iter, dict.keys, dict.values, dict.items])
def test_dicts(view: Any) -> None:
    """A dict's says how many are left."""
    there = dict(ABC)
    iterator = gone(iter(view(there)), 1)
    position = iterator_position(iterator)
    assert position is not None
    assert position[1:] == (2, 3)
    there["d"] = 4
    assert iterator_position(iterator) is None  # the next step raises


def test_dict_with_holes() -> None:
    there = {**ABC, "d": 4}
    del there["b"]
    iterator = gone(iter(there), 1)
    assert iterator_position(iterator) == ("dict_keyiterator", 2, 3)
    # As many as before, elsewhere.
    del there["a"]
    there["a"] = 5
    assert iterator_position(iterator) is None


def test_nested() -> None:
    nested = gone(enumerate(zip([1, 2], "ab", strict=True), 5), 1)
    assert iterator_position(nested) == (
        "enumerate",
        6,
        (
            (
                "zip",
                0,
                (("list_iterator", 1, 2), ("str_ascii_iterator", 1, 2)),
            ),
        ),
    )
    assert iterator_position(zip(range(3))) == ("zip", 0, (("range_iterator", 0, 3),))


@pytest.mark.parametrize(
    "other",
    [iter(OrderedDict(a=1)), iter({1}), map(str, [1]), (i for i in [1]), [1], None],
)
def test_others(other: Any) -> None:
    assert iterator_position(other) is None


def test_counts_beyond_size() -> None:
    assert iterator_position(gone(enumerate("ab", 2**63 - 1), 1)) is None
