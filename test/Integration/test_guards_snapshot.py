# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Something changes after enough calls that the checks rest on a snapshot of memory.

The first calls capture, watch and take the snapshot; the one before the change has compared it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import attempt
from torch import nn

WARM = 5


class Slotted:
    __slots__ = ("name", "scale")

    def __init__(self) -> None:
        self.scale = 2.0
        self.name = "first"


class Child(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(16.0).reshape(4, 4))
        self.bias = nn.Parameter(torch.ones(4))
        self.register_buffer("table", torch.arange(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight + self.bias + self.table


class Other(Child):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) - 100


class Heavy(nn.Parameter):
    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {})) + 1000


class World:
    def __init__(self) -> None:
        self.child = child = Child()
        self.slotted = slotted = Slotted()
        factor = 3.0
        word = "plus"
        tag = str(12345) + "x"

        def helper(x: torch.Tensor) -> torch.Tensor:
            return x + 1 if word == "plus" else x - 1

        def f(x: torch.Tensor) -> torch.Tensor:
            y = child(x) * slotted.scale * factor
            if helper.__name__ == "helper" and tag != "":
                y = helper(y)
            return y + len(slotted.name)

        def set_factor(value: float) -> None:
            nonlocal factor
            factor = value

        def set_word(value: str) -> None:
            nonlocal word
            word = value

        def set_tag(value: str) -> None:
            nonlocal tag
            tag = value

        self.f, self.helper = f, helper
        self.set_factor, self.set_word, self.set_tag = set_factor, set_word, set_tag


def reshaped_data(w: World) -> None:
    w.child.bias.data = w.child.bias.data.reshape(1, 4)


def transposed_in_place(w: World) -> None:
    with torch.no_grad():
        w.child.weight.t_()


def strided_data(w: World) -> None:
    w.child.weight.data = w.child.weight.data.t()


def other_values(w: World) -> None:
    w.child.weight.data = torch.full((4, 4), 7.0)


def other_dtype(w: World) -> None:
    w.child.bias.data = w.child.bias.data.double()


def in_place(w: World) -> None:
    with torch.no_grad():
        w.child.weight.add_(1)


def set_storage(w: World) -> None:
    with torch.no_grad():
        w.child.weight.set_(torch.full((16,), 5.0).untyped_storage(), 0, (4, 4), (4, 1))


def shifted(w: World) -> None:
    with torch.no_grad():
        w.child.bias.set_(torch.arange(8.0).untyped_storage(), 4, (4,), (1,))


def resized(w: World) -> None:
    w.child.table.resize_(1)


def conjugate(w: World) -> None:
    w.child.weight.data = torch.ones(4, 4, dtype=torch.complex64).mul_(1j).conj()


def swapped(w: World) -> None:
    torch.utils.swap_tensors(w.child.weight, nn.Parameter(torch.full((4, 4), -2.0)))
    gc.collect()


def class_of_parameter(w: World) -> None:
    w.child.weight.__class__ = Heavy


def class_of_module(w: World) -> None:
    w.child.__class__ = Other


def dict_of_module(w: World) -> None:
    fresh = Child()
    with torch.no_grad():
        fresh.bias.fill_(9)
    w.child.__dict__ = fresh.__dict__


def replaced_parameter(w: World) -> None:
    w.child.weight = nn.Parameter(torch.eye(4))


def no_grad_wanted(w: World) -> None:
    w.child.weight.requires_grad_(False)


def cell(w: World) -> None:
    w.set_factor(4.0)


def cell_text(w: World) -> None:
    w.set_word("minus")


def cell_deleted_value(w: World) -> None:
    # The old text dies, and another may come to lie where it lay.
    for i in range(64):
        w.set_tag(str(54321 + i) + "y")
    w.set_tag("")


def slot(w: World) -> None:
    w.slotted.scale = 5.0


def slot_text(w: World) -> None:
    w.slotted.name = "another"


def name(w: World) -> None:
    w.helper.__name__ = "renamed"


def code(w: World) -> None:
    def replacement(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if word else x

    word = "w"
    w.helper.__code__ = replacement.__code__


CHANGES: list[Callable[[World], None]] = [
    reshaped_data,
    transposed_in_place,
    strided_data,
    other_values,
    other_dtype,
    in_place,
    set_storage,
    shifted,
    resized,
    conjugate,
    swapped,
    class_of_parameter,
    class_of_module,
    dict_of_module,
    replaced_parameter,
    no_grad_wanted,
    cell,
    cell_text,
    cell_deleted_value,
    slot,
    slot_text,
    name,
    code,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_change_after_snapshot(change: Callable[[World], None]) -> None:
    x = torch.rand(3, 4)
    plain, compiled = World(), World()
    fast = pyjit.compile(compiled.f)
    with torch.no_grad():
        for _ in range(WARM):
            torch.testing.assert_close(fast(x), plain.f(x))
        assert pyjit.stats(fast)["hits"] >= WARM - 2
        change(plain)
        change(compiled)
        for _ in range(WARM):
            expected, got = attempt(plain.f, x), attempt(fast, x)
            if isinstance(expected, torch.Tensor):
                torch.testing.assert_close(got, expected)
            else:
                assert repr(got) == repr(expected)


def test_equal_values_still_hit() -> None:
    """Another string of the same contents is no change, however often it comes."""
    x = torch.rand(3, 4)
    world = World()
    fast = pyjit.compile(world.f)
    with torch.no_grad():
        for _ in range(WARM):
            fast(x)
        misses = pyjit.stats(fast)["misses"]
        for _ in range(2 * WARM):
            world.set_word(str(b"plus", "ascii"))
            world.slotted.name = str(b"first", "ascii")
            torch.testing.assert_close(fast(x), world.f(x))
        assert pyjit.stats(fast)["misses"] == misses


def test_change_and_back() -> None:
    x = torch.rand(3, 4)
    world = World()
    fast = pyjit.compile(world.f)
    with torch.no_grad():
        for i in range(40):
            world.set_factor(3.0 + i // 4 % 2)
            world.child.bias.data = torch.full((4,) if i % 3 else (1, 4), float(i))
            torch.testing.assert_close(fast(x), world.f(x))


def test_dropped_objects_die() -> None:
    """What a snapshot remembers is not kept alive by it beyond plain values."""
    import weakref

    class Setting:
        pass

    class Holder:
        __slots__ = ("setting",)

    holder = Holder()
    holder.setting = Setting()

    def f(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if type(holder.setting) is Setting else x

    fast = pyjit.compile(f)
    x = torch.rand(3)
    for _ in range(WARM):
        torch.testing.assert_close(fast(x), x * 2)
    gone = weakref.ref(holder.setting)
    holder.setting = None
    gc.collect()
    assert gone() is None
    torch.testing.assert_close(fast(x), x)
