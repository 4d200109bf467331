# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which numbers a specialization takes as inputs, told to the policies without a recorder."""

from __future__ import annotations

import torch
from pyjit._C import AccessPath, ArgumentKind, PlanAction
from pyjit._dynamic import MAX_OUTCOMES, Arguments, DynamicNumbers, Lifted
from pyjit._loops import Loops
from pyjit._planner import REPEATS, Planner

VALUE, OBJECT, RESULT = ArgumentKind.VALUE, ArgumentKind.OBJECT, ArgumentKind.RESULT


def arguments(*given: tuple[ArgumentKind, object]) -> Arguments:
    return Arguments(bytes(k for k, _ in given), tuple(v for _, v in given))


def path(argument: int) -> AccessPath:
    return AccessPath.of_argument(argument)


class Record:
    """Says what kept it from answering."""

    def __init__(self, *changed: AccessPath) -> None:
        self.changed = list(changed)

    def changed_numbers(self, args: tuple, kwargs: dict) -> list[AccessPath]:
        return self.changed


# ---- Calls ---------------------------------------------------------------------------------------


def test_a_number_that_differs_is_lifted() -> None:
    numbers = DynamicNumbers()
    numbers.missed([Record(path(1))], (), {}, may_follow=True)
    assert numbers.lifted == {path(1)}
    assert not numbers.follows_sizes


def test_a_lifted_number_that_was_looked_at() -> None:
    """It may be a size, or a part of one: sizes are followed."""
    numbers = DynamicNumbers()
    numbers.missed([Record(path(1))], (), {}, may_follow=True)
    numbers.missed([Record(path(1))], (), {}, may_follow=True)
    assert numbers.follows_sizes


def test_loops_on_data_follow_no_sizes() -> None:
    numbers = DynamicNumbers()
    for _ in range(2):
        numbers.missed([Record(path(1))], (), {}, may_follow=False)
    assert not numbers.follows_sizes


def test_an_iterator_that_goes_on_says_nothing_of_sizes() -> None:
    numbers = DynamicNumbers()
    for _ in range(2):
        numbers.missed([Record(path(0).field("next"))], (), {}, may_follow=True)
    assert not numbers.follows_sizes


def test_fixed_sizes_stay() -> None:
    numbers = DynamicNumbers()
    numbers.missed([Record(path(0).size(1), path(2))], (), {}, may_follow=True)
    numbers.fix_sizes("no kernel for it")
    assert numbers.lifted == {path(2)}
    numbers.missed([Record(path(0).size(1))], (), {}, may_follow=True)
    assert numbers.lifted == {path(2)}
    assert not numbers.follows_sizes


# ---- Continuations -------------------------------------------------------------------------------


def test_an_argument_that_differs() -> None:
    numbers = DynamicNumbers()
    numbers.learn(arguments((VALUE, 3)), missed=False, specializations=0)
    assert not numbers.lifted
    numbers.learn(arguments((VALUE, 4)), missed=True, specializations=1)
    assert numbers.lifted == {path(0)}


def test_a_string_that_differs_is_passed_on() -> None:
    numbers = DynamicNumbers()
    for text in ("a", "b"):
        numbers.learn(arguments((VALUE, text)), missed=False, specializations=1)
    assert numbers.choose(arguments((VALUE, "c"))) == ((0,), set())


def test_truth_is_not_passed_on() -> None:
    """One of two values cannot be made an object of its own."""
    numbers = DynamicNumbers()
    for truth in (True, False):
        numbers.learn(arguments((VALUE, truth)), missed=True, specializations=1)
    assert numbers.choose(arguments((VALUE, True))) == ((), set())


def test_a_float_result_varies_at_once() -> None:
    numbers = DynamicNumbers()
    numbers.learn(arguments((RESULT, 0.5)), missed=False, specializations=0)
    assert numbers.lifted == {path(0)}


def test_sizes_of_an_argument() -> None:
    numbers = DynamicNumbers()
    for n in (3, 4):
        numbers.learn(arguments((OBJECT, torch.ones(2, n))), False, 0)
    assert numbers.lifted == {path(0).size(1)}


def test_a_number_that_specializations_look_at() -> None:
    """Lifting it did not help: from so many specializations on it is only passed on."""
    numbers = DynamicNumbers()
    numbers.tried.add(path(0))
    for n in range(3):
        numbers.learn(arguments((VALUE, n)), missed=True, specializations=MAX_OUTCOMES)
    assert numbers.unseen == {0}


def test_what_is_lifted_goes_over_a_graph_break() -> None:
    numbers = DynamicNumbers()
    config = {"width": 3}
    lifted = {AccessPath.of_argument(1).size(0)}
    x = torch.ones(4)
    numbers.take_over(Lifted(lifted, (config, x)), (x, config))
    assert numbers.lifted == {path(0).size(0)}


def test_a_call_that_comes_by_its_own_continuation() -> None:
    numbers = DynamicNumbers()
    numbers.lifted = {path(0).size(0), path(1).size(0)}
    x, y, z = torch.ones(4), torch.ones(3), torch.ones(2)
    numbers.take_over(Lifted(numbers.lifted, (x, y)), (z, y, x))
    assert numbers.lifted >= {path(n).size(0) for n in range(3)}


# ---- Plans ---------------------------------------------------------------------------------------


def plan(
    planner: Planner,
    run: int,
    given: Arguments,
    specializations: int = 0,
    limit: int = 8,
    behind_branch: bool = False,
):
    return planner.plan(
        run, given, specializations, limit, True, True, None, behind_branch
    )


def test_recorded_once_for_the_same() -> None:
    planner = Planner(DynamicNumbers())
    given = arguments((VALUE, 3))
    assert plan(planner, 1, given).action == PlanAction.RECORD
    assert plan(planner, 2, given, specializations=1).action == PlanAction.RECORDED


def test_a_miss_is_recorded_again() -> None:
    planner = Planner(DynamicNumbers())
    given = arguments((VALUE, 3))
    plan(planner, 1, given)
    planner.missed = True
    assert plan(planner, 2, given, specializations=1).action == PlanAction.RECORD
    # Once in the run.
    assert plan(planner, 2, given, specializations=1).action == PlanAction.RECORDED


def test_behind_a_new_branch_the_same_is_recorded_again() -> None:
    planner = Planner(DynamicNumbers())
    given = arguments((VALUE, 3))

    def action(run: int) -> PlanAction:
        return plan(planner, run, given, specializations=1, behind_branch=True).action

    plan(planner, 1, given)
    assert action(2) == PlanAction.RECORD
    assert planner.joined_in == 2
    # Once in the run, and not for ever.
    assert action(2) == PlanAction.RECORDED
    later = [action(run) for run in range(3, 100)]
    assert later.count(PlanAction.RECORD) == 15
    assert later[-1] == PlanAction.RECORDED


def test_what_missed_is_not_recorded_for_its_branch_alone() -> None:
    planner = Planner(DynamicNumbers())
    given = arguments((VALUE, 3))
    plan(planner, 1, given)
    planner.missed = True
    plan(planner, 2, given, specializations=1, behind_branch=True)
    assert planner.joined_in == 0


def test_what_gave_no_specialization_is_recorded_again() -> None:
    planner = Planner(DynamicNumbers())
    given = arguments((VALUE, 3))
    plan(planner, 1, given)
    assert plan(planner, 2, given, specializations=0).action == PlanAction.RECORD


def test_limits() -> None:
    planner = Planner(DynamicNumbers())
    different = [[], {}, set(), frozenset()][: REPEATS + 1]
    actions = [plan(planner, 1, arguments((OBJECT, v))).action for v in different]
    assert actions == [PlanAction.RECORD] * REPEATS + [PlanAction.RECORDED]
    planner = Planner(DynamicNumbers())
    full = plan(planner, 1, arguments((VALUE, 3)), specializations=8)
    assert full.action == PlanAction.RECORDED


def at_place(index: int, items: int, *others: tuple[ArgumentKind, object]) -> Arguments:
    walk = iter(["layer"] * items)
    for _ in range(index):
        next(walk)
    return arguments((ArgumentKind.WALK, walk), *others)


def test_a_loop_has_one_for_each_place() -> None:
    """All in one run; what differs from place to place does not vary."""
    planner = Planner(DynamicNumbers())
    for index in range(12):
        given = at_place(index, 12, (VALUE, f"layer {index}"))
        made = plan(planner, 1, given, limit=16)
        assert (made.action, made.unseen, made.lifted) == (PlanAction.RECORD, (), ())
    given = at_place(5, 12, (VALUE, "layer 5"))
    assert plan(planner, 2, given, 12, limit=16).action == PlanAction.RECORDED
    assert planner.room(16) == 4 * 16


def test_a_loop_of_more_places() -> None:
    """Its iterator is passed on unseen."""
    planner = Planner(DynamicNumbers())
    assert plan(planner, 1, at_place(0, 13), limit=16).unseen == (0,)


def test_lists_of_many_lengths() -> None:
    """So are those that make more places in the end."""
    planner = Planner(DynamicNumbers())
    found = [
        plan(planner, length, at_place(1, length), length, limit=16).unseen
        for length in range(2, 13)
        for _ in range(2)
    ]
    assert not any(found)
    assert plan(planner, 20, at_place(2, 12), 11, limit=16).unseen == ()
    assert plan(planner, 21, at_place(3, 12), 12, limit=16).unseen == (0,)
    assert plan(planner, 22, at_place(1, 3), 13, limit=16).action != PlanAction.RECORD


def test_what_does_not_answer_at_its_place() -> None:
    """Somebody else may hold the iterator, which no argument shows."""
    planner = Planner(DynamicNumbers())
    unseen = []
    for run in range(1, 8):
        planner.missed = True
        unseen.append(plan(planner, run, at_place(1, 3), run, limit=16).unseen)
    assert unseen == [()] * MAX_OUTCOMES + [(0,)] * (7 - MAX_OUTCOMES)


def test_a_lifted_number_makes_calls_alike() -> None:
    numbers = DynamicNumbers()
    planner = Planner(numbers)
    numbers.lifted.add(path(0))
    first = plan(planner, 1, arguments((VALUE, 3)))
    assert first.lifted == (path(0),)
    assert numbers.tried == {path(0)}
    again = plan(planner, 2, arguments((VALUE, 3)), specializations=1)
    assert again.action == PlanAction.RECORDED


# ---- Loops ---------------------------------------------------------------------------------------


def test_a_short_loop_is_tried_again() -> None:
    loops = Loops()
    assert not loops.try_again()
    loops.was_short = True
    assert loops.try_again()
    assert not loops.try_again()
    loops.was_short = loops.given_up = True
    assert not loops.try_again()


# ---- Paths ---------------------------------------------------------------------------------------


class Config:
    def __init__(self) -> None:
        self.inner = {"n": 3}


def test_paths_are_compared_by_contents() -> None:
    assert path(0).size(1) == path(0).size(1)
    assert hash(path(0).size(1)) == hash(path(0).size(1))
    assert path(0).size(1) != path(0).size(0)
    assert path(0).size(1) != path(0).field("next")
    assert path(0) != "#0"
    assert str(path(2).field("left")) == "#2>left"
    assert (path(2).argument, path(2).is_size, path(2).size(0).is_size) == (
        2,
        False,
        True,
    )


def test_paths_through_objects() -> None:
    """By way of the holders: of what the recorder names, only sizes and fields are made here."""
    x = torch.ones(3)
    assert path(0).size(0).seen_from((x,), (1, x, x)) == {
        path(1).size(0),
        path(2).size(0),
    }
    assert path(0).size(0).seen_from((x,), (1,)) == set()
    assert path(7).size(0).seen_from((x,), (x,)) == set()
