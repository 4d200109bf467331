# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers and sizes that differ between calls: which of them specializations take as inputs.

A number, or a size of a tensor, is a constant of the first specialization. Where a later call differs from
it, and from nothing else, the next specialization takes it as an input (it is *lifted*), and sizes become
symbols. What a specialization looked at all the same is not lifted again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from pyjit._C import AccessPath, ArgumentKind, iterator_position

# Specializations of a continuation that differ in what came of comparing a number.
MAX_OUTCOMES = 4

# Containers of numbers that a continuation may be given.
_TUPLES = (tuple, torch.Size)
_FLAGS = (bool, type(None))
_VALUES = (ArgumentKind.VALUE, ArgumentKind.RESULT, ArgumentKind.LIFTED)


def _is_plain(tensor_class: type) -> bool:
    """Whether no ``__torch_function__`` of the user's hears what is asked of such a tensor."""
    return tensor_class is torch.Tensor or (
        issubclass(tensor_class, torch.Tensor)
        and tensor_class.__torch_function__ is torch._C._disabled_torch_function_impl
    )


def mark(kind: ArgumentKind, value: Any) -> Any:
    """What a specialization of a continuation is likely to depend on in one of its arguments."""
    if kind == ArgumentKind.OPAQUE:
        return type(value)  # nobody looks at it, and it may not like to be asked
    if kind == ArgumentKind.PINNED:
        return id(value)
    if kind == ArgumentKind.WALK:
        return iterator_position(value)
    if kind in _VALUES:
        return type(value), str(value) if type(value) is float else value
    if _is_plain(type(value)):
        with torch._C.DisableTorchFunction():  # nor does a mode
            return value.shape, value.dtype, value.requires_grad
    return type(value)


def _numbers_in(value: Any) -> Any:
    """What a tuple or a slice (an index, say) holds, if that is numbers; None for all else."""
    if type(value) is slice:
        return _numbers_in((value.start, value.stop, value.step))
    if type(value) not in _TUPLES:
        return value if issubclass(type(value), int | float) else None
    return tuple(_numbers_in(element) for element in value)


def _iterations(position: tuple | None) -> int:
    """In how many places a loop may be that an iterator of this mark goes through."""
    if position is None:
        return 0
    _, _, length = position
    return length if isinstance(length, int) else min(map(_iterations, length))


def _changed_sizes(path: AccessPath, before: Any, now: Any) -> set[AccessPath]:
    """The sizes that differ between two marks of tensors of one rank."""
    if not (isinstance(before, tuple) and isinstance(now, tuple)):
        return set()
    old, new = before[0], now[0]
    if not isinstance(old, torch.Size) or not isinstance(new, torch.Size):
        return set()
    if len(old) != len(new):
        return set()
    return {path.size(d) for d in range(len(new)) if old[d] != new[d]}


def _without_sizes(path: AccessPath, mark: Any, lifted: set[AccessPath]) -> Any:
    """A mark as far as a specialization depends on it: not on lifted sizes but zero and one."""
    if not isinstance(mark, tuple) or not isinstance(mark[0], torch.Size):
        return mark
    sizes = tuple(
        None if size > 1 and path.size(d) in lifted else size
        for d, size in enumerate(mark[0])
    )
    return (sizes, *mark[1:])


def sizes_of(values: tuple) -> set[AccessPath]:
    """The sizes of a call's tensors that may become symbols."""
    found = set()
    with torch._C.DisableTorchFunction():  # modes are not asked
        for i, value in enumerate(values):
            plain = type(value) in (torch.Tensor, torch.nn.Parameter)
            if plain and value.layout == torch.strided:
                path = AccessPath.of_argument(i)
                found |= {path.size(d) for d, n in enumerate(value.shape) if n > 1}
    return found


# Where torch._dynamo.mark_dynamic, maybe_mark_dynamic and mark_static keep what a user said of a tensor's sizes.
_DYNAMIC_MARKS = ("_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices")
_STATIC_MARK = "_dynamo_static_indices"


def _add_mark(tensor: torch.Tensor, dims: int | Iterable[int], mark: str) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"pyjit marks sizes of tensors, got {type(tensor).__name__!r}")
    given = [dims] if isinstance(dims, int) else list(dims)
    for dim in given:
        if not -tensor.dim() <= dim < tensor.dim():
            raise IndexError(f"a tensor of {tensor.dim()} dimensions has none {dim}")
    known: set[int] = vars(tensor).setdefault(mark, set())
    known.update(dim % tensor.dim() for dim in given)


def mark_dynamic(tensor: torch.Tensor, dims: int | Iterable[int]) -> None:
    """Says of an argument that these of its sizes will differ between calls: they are symbols from the first
    specialization on that such a call has, if the graph can hold them. ``torch._dynamo.mark_dynamic`` and
    ``maybe_mark_dynamic`` say the same.

    Raises ``TypeError`` for what is no tensor, ``IndexError`` for a dimension that it does not have.
    """
    _add_mark(tensor, dims, _DYNAMIC_MARKS[1])


def mark_static(tensor: torch.Tensor, dims: int | Iterable[int]) -> None:
    """Says of an argument that these of its sizes are worth a specialization each. ``torch._dynamo.mark_static``
    says the same. Raises as ``mark_dynamic``."""
    _add_mark(tensor, dims, _STATIC_MARK)


def marked_sizes(values: tuple) -> tuple[set[AccessPath], set[AccessPath]]:
    """The sizes of a call's tensors that are marked as dynamic, and as static."""
    dynamic: set[AccessPath] = set()
    static: set[AccessPath] = set()
    for i, value in enumerate(values):
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or not vars(value):
            continue
        path = AccessPath.of_argument(i)
        marks = vars(value)
        static |= {path.size(d) for d in marks.get(_STATIC_MARK, ())}
        for mark in _DYNAMIC_MARKS:
            dynamic |= {path.size(d) for d in marks.get(mark, ()) if value.size(d) > 1}
    return dynamic - static, static


class Arguments:
    """What a continuation is about to be given: values, what the recorder knows of each, and
    their marks."""

    def __init__(self, kinds: bytes, values: tuple) -> None:
        self.kinds = [ArgumentKind(kind) for kind in kinds]
        self.values = values
        self.marks = [mark(k, v) for k, v in zip(self.kinds, values)]


class Lifted(NamedTuple):
    """What is lifted in a call that is observed."""

    paths: set[AccessPath]
    given: tuple
    """The call's arguments."""
    alive: tuple = ()
    """Objects that paths may begin at, and that are there."""


class DynamicNumbers:
    """What is known of the numbers of one function, or of one continuation."""

    def __init__(self) -> None:
        self.lifted: set[AccessPath] = set()
        # Sizes are followed, whether or not a tensor's differ by themselves.
        self.follows_sizes = False
        # Why sizes that differ between calls are compiled one by one; empty: they need not be.
        self.fixed_sizes = ""
        # Sizes that the user has marked as static.
        self.static: set[AccessPath] = set()
        # Of a continuation: lifted paths that a specialization was made with; arguments that its specializations
        # only pass on.
        self.tried: set[AccessPath] = set()
        self.unseen: set[int] = set()
        # Lifted paths of each specialization, and those of them that the present call finds looked at.
        self._made_with: dict[Any, set[AccessPath]] = {}
        self._looked_at: set[AccessPath] = set()
        # Of a continuation, by place in a loop: marks of its latest arguments, and the numbers in tuples
        # among them.
        self._marks: dict[tuple, Any] = {}
        self._held: dict[tuple, Any] = {}

    def fix_sizes(self, why: str) -> None:
        """From now on there is a specialization for each size."""
        self.fixed_sizes = why
        self.follows_sizes = False
        self.lifted = {path for path in self.lifted if not path.is_size}

    def made(self, specialization: Any, lifted: set[AccessPath]) -> None:
        """A specialization was made with these inputs."""
        self._made_with[specialization] = lifted

    def take_marks(self, values: tuple) -> None:
        """What the user has marked of a call's tensors, which no specialization answers."""
        dynamic, static = marked_sizes(values)
        self.static |= static
        self.lifted -= static
        if dynamic and not self.fixed_sizes:
            self.lifted |= dynamic
            self.follows_sizes = True

    def missed(
        self,
        specializations: Iterable[Any],
        args: tuple,
        kwargs: dict,
        may_follow: bool,
    ) -> None:
        """No specialization answers a call with these arguments. ``may_follow``: sizes may become
        symbols."""
        self._looked_at = set()
        before = set(self.lifted)
        again = False
        for specialization in specializations:
            changed = specialization.changed_numbers(args, kwargs)
            if any(path.is_position for path in changed):
                continue  # it is for another place in a loop
            again |= any(path in before for path in changed if not path.is_field)
            self._looked_at |= self._made_with.get(specialization, set()).intersection(
                changed
            )
            self.lifted.update(
                path
                for path in changed
                if not (path.is_size and (self.fixed_sizes or path in self.static))
            )
        # A number that was an input already, and looked at all the same, may be a size or a part
        # of one: the recorder then follows sizes.
        if again and not self.fixed_sizes and may_follow:
            self.follows_sizes = True

    def take_over(self, lifted: Lifted, values: tuple) -> None:
        """What is lifted in a call is lifted where its parts are arguments ``values`` of a continuation."""
        # The call may itself be at this continuation.
        for path in tuple(lifted.paths):
            self.lifted |= path.seen_from(lifted.given, values, lifted.alive)

    def learn(
        self,
        arguments: Arguments,
        missed: bool,
        specializations: int,
        positions: int = 0,
    ) -> None:
        """Compares a continuation's arguments with its latest ones. ``missed``: its ``specializations``,
        so many, did not answer. ``positions``: of how many places in a loop there may be one each."""
        self.unseen |= {
            i
            for i, kind in enumerate(arguments.kinds)
            if kind == ArgumentKind.WALK and _iterations(arguments.marks[i]) > positions
        }
        place = self.place(arguments)
        for i, (kind, value) in enumerate(zip(arguments.kinds, arguments.values)):
            path = AccessPath.of_argument(i)
            before, now = self._marks.get((place, i)), arguments.marks[i]
            differs = (place, i) in self._marks and before != now
            if not self.fixed_sizes:
                self.lifted |= _changed_sizes(path, before, now)
            self._marks[place, i] = now
            if kind == ArgumentKind.RANGE:
                self._learn_range(i, path, missed, specializations)
            elif kind == ArgumentKind.OBJECT and type(value) in (*_TUPLES, slice):
                self._learn_tuple(i, place, value, missed, specializations)
            elif kind != ArgumentKind.WALK:
                self._learn_value(
                    i, path, kind, value, differs, missed, specializations
                )

    def _learn_range(
        self, i: int, path: AccessPath, missed: bool, specializations: int
    ) -> None:
        """Where an iterator of a range stands is a number like others, unless a specialization looked at
        that."""
        numbers = {path.field("next"), path.field("left")}
        looked_at = not numbers.isdisjoint(self._looked_at)
        if missed and (looked_at or specializations >= 2 * MAX_OUTCOMES):
            self.unseen.add(i)
        self.lifted |= numbers

    def place(self, arguments: Arguments) -> tuple:
        """The place in loops that the next specialization is for: where the iterators stand that it takes over."""
        return tuple(
            (i, arguments.marks[i])
            for i, kind in enumerate(arguments.kinds)
            if kind == ArgumentKind.WALK and i not in self.unseen
        )

    def pass_on(self, place: tuple) -> None:
        """From now on, specializations only pass on the iterators that stand there."""
        self.unseen |= {i for i, _ in place}

    def _learn_tuple(
        self, i: int, place: tuple, value: Any, missed: bool, specializations: int
    ) -> None:
        """Numbers in it that a specialization takes as inputs may be looked at all the same. Those of a tensor's
        shape that differ are inputs, for sizes are."""
        held = _numbers_in(value)
        before = self._held.get((place, i))
        if type(value) is torch.Size and before and len(before) == len(held):
            path = AccessPath.of_argument(i)
            differ = {path.item(d) for d, n in enumerate(held) if before[d] != n}
            self.lifted |= differ - self.tried
        if missed and self._held.setdefault((place, i), held) != held:
            looked_at = any(
                path.argument == i and path.begins_with_item for path in self._looked_at
            )
            if looked_at or specializations >= MAX_OUTCOMES:
                self.unseen.add(i)
        self._held[place, i] = held

    def _learn_value(
        self,
        i: int,
        path: AccessPath,
        kind: ArgumentKind,
        value: Any,
        differs: bool,
        missed: bool,
        specializations: int,
    ) -> None:
        # What has differed before will differ again: a time, a counter, an open file.
        told_by_value = kind in (*_VALUES, ArgumentKind.PINNED)
        varies = (
            (kind == ArgumentKind.RESULT and type(value) is float)
            or kind == ArgumentKind.LIFTED
            or (told_by_value and type(value) not in _FLAGS and differs)
        )
        is_number = type(value) in (int, float)
        if kind in (ArgumentKind.ITERATOR, ArgumentKind.OPAQUE) or (
            varies and not is_number
        ):
            self.unseen.add(i)
        elif varies and path not in self.tried:
            self.lifted.add(path)
        elif (
            differs
            and missed
            and (path in self._looked_at or specializations >= MAX_OUTCOMES)
        ):
            # To take it as an input did not help: its value was looked at.
            self.unseen.add(i)

    def choose(self, arguments: Arguments) -> tuple[tuple[int, ...], set[AccessPath]]:
        """The arguments that the next specialization only passes on, and what is lifted of the others."""
        unseen = tuple(
            i
            for i in sorted(self.unseen)
            if i < len(arguments.values)
            # One of two values cannot be made an object of its own.
            and type(arguments.values[i]) not in _FLAGS
            and (
                arguments.kinds[i] != ArgumentKind.OBJECT
                or type(arguments.values[i]) in (*_TUPLES, slice)
            )
        )
        return unseen, {p for p in self.lifted if p.argument not in unseen}

    @staticmethod
    def signature(
        arguments: Arguments, unseen: tuple[int, ...], lifted: set[AccessPath]
    ) -> tuple:
        """What a specialization that is made so depends on."""
        parts = []
        for i, (value, known) in enumerate(zip(arguments.values, arguments.marks)):
            path = AccessPath.of_argument(i)
            if i in unseen:
                parts.append(None)
            elif path in lifted:
                parts.append(type(value))
            else:
                parts.append(_without_sizes(path, known, lifted))
        return tuple(parts)
