# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The policy by itself: what recordings fix again and again becomes a graph break."""

from __future__ import annotations

from pyjit._C import Fixes
from pyjit._fixed_values import FixedValues


def code() -> None: ...


def sites(found: FixedValues, *fixed: tuple, specializations: int = 1) -> set[int]:
    """Offsets at which the graph is to break after one more recording."""
    given = [(code.__code__, *entry) for entry in fixed]
    return {offset for _, offset in found.take(given, specializations)}


def test_a_number_that_differs_in_each_recording() -> None:
    found = FixedValues()
    for value in range(3):
        assert not sites(found, (4, Fixes.NUMBER, 0, value), (8, Fixes.NUMBER, 0, 7))
    assert sites(found, (4, Fixes.NUMBER, 0, 3), (8, Fixes.NUMBER, 0, 7)) == {4}


def test_values_that_come_back_are_counted_once() -> None:
    found = FixedValues()
    for value in (1, 2, 3, 1, 2, 3, 1, 2, 3):
        assert not sites(found, (4, Fixes.NUMBER, 0, value))


def test_what_an_instruction_fixes_in_turn_is_one_value() -> None:
    """A loop comes by several times: other values in one recording are not other recordings."""
    found = FixedValues()
    for _ in range(6):
        assert not sites(found, *((4, Fixes.NUMBER, 0, value) for value in range(9)))


def test_comparisons_may_come_to_more() -> None:
    found = FixedValues()
    for value in range(7):
        outcomes = [(4, Fixes.OUTCOME, 0, value >> bit & 1) for bit in range(3)]
        assert not sites(found, *outcomes)
    assert sites(found, *[(4, Fixes.OUTCOME, 0, 1)] * 3) == {4}


def test_a_list_that_grows_and_one_that_comes_and_goes() -> None:
    found = FixedValues()
    for length in (3, 4, 5):
        assert not sites(found, (4, Fixes.LENGTH, 1, length))
    assert sites(found, (4, Fixes.LENGTH, 1, 6)) == {4}
    found = FixedValues()
    for length in (3, 1, 4, 2, 9, 5, 7):
        assert not sites(found, (4, Fixes.LENGTH, 1, length))
    assert sites(found, (4, Fixes.LENGTH, 1, 8)) == {4}


def test_lengths_of_several_containers_are_kept_apart() -> None:
    found = FixedValues()
    for container in range(9):
        assert not sites(found, (4, Fixes.LENGTH, container, container))


def test_many_specializations_tolerate_less() -> None:
    found = FixedValues()
    assert not sites(found, (4, Fixes.OUTCOME, 0, 0), specializations=24)
    assert not sites(found, (4, Fixes.OUTCOME, 0, 1), specializations=23)
    assert sites(found, (4, Fixes.OUTCOME, 0, 1), specializations=24) == {4}
