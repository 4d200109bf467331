# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What programs do to a compiled module's class, or copy of it, is what they would have done to the module."""

from __future__ import annotations

import abc
import copy
import gc
import inspect
import pickle
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import pyjit
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

T = TypeVar("T")
X = torch.arange(12.0).reshape(3, 4)


class Plain(nn.Module):
    factor = 2

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * self.factor


class Slots:
    __slots__ = ()


class Named(Protocol):
    name: str


class Abstract(abc.ABC, Plain):
    pass


class Iterating(Iterable, Plain):
    def __iter__(self) -> Any:
        return iter([self.linear])


class Shaped(Generic[T], Plain):  # noqa: PYI059, UP046
    pass


class Slotted(Slots, Plain):
    pass


class Following(Named, Plain):
    pass


class Told(Plain):
    told: ClassVar[list[type]] = []

    def __init_subclass__(cls, **given: Any) -> None:
        Told.told.append(cls)


class Meta(type):
    made: ClassVar[list[str]] = []

    def __new__(cls, name: str, bases: tuple, space: dict) -> type:
        Meta.made.append(name)
        return super().__new__(cls, name, bases, space)


class OfMeta(Plain, metaclass=Meta):
    pass


KINDS = (Plain, Abstract, Iterating, Shaped, Slotted, Following, Told, OfMeta)


@pytest.fixture(autouse=True)
def no_gradients() -> Any:
    with torch.no_grad():
        yield


def both(make: Callable[[], nn.Module]) -> tuple[nn.Module, nn.Module]:
    """A compiled module that has answered calls, and a twin."""
    torch.manual_seed(0)
    made = make()
    fast, twin = pyjit.compile(copy.deepcopy(made)), copy.deepcopy(made)
    for _ in range(3):
        same(fast, twin)
    return fast, twin


def same(fast: nn.Module, twin: nn.Module) -> None:
    assert torch.allclose(fast(X), twin(X))
    assert repr(fast) == repr(twin)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_kinds_of_classes(kind: type) -> None:
    fast, _ = both(kind)
    assert isinstance(fast, kind) and fast.__class__ is kind
    assert pyjit.stats(fast)["hits"] == 2
    assert Told.told == [] and Meta.made == ["OfMeta"]


def test_attributes_of_the_class(monkeypatch: pytest.MonkeyPatch) -> None:
    for of in (lambda m: type(m), lambda m: m.__class__):
        fast, twin = both(Plain)
        monkeypatch.setattr(Plain, "factor", 2)
        of(fast).factor = 5
        assert Plain.factor == 5
        same(fast, twin)
        monkeypatch.setattr(Plain, "factor", 2)
        same(fast, twin)
    type(fast).extra = 1
    del type(fast).extra
    with pytest.raises(AttributeError, match="extra"):
        del type(fast).extra


def test_graph_that_is_made_again() -> None:
    def traced() -> nn.Module:
        return torch.fx.symbolic_trace(Plain())

    fast, twin = both(traced)
    for module in (fast, twin):
        for node in module.graph.nodes:
            if node.op == "call_function":
                node.args = (node.args[0], 7)
        module.recompile()
    same(fast, twin)


def test_instances_that_the_class_makes() -> None:
    fast, _ = both(lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    part = fast[:1]
    assert type(part) is nn.Sequential
    assert torch.allclose(part(X), fast[0](X))
    for made in (type(fast)(nn.ReLU()), fast.__class__(nn.ReLU())):
        assert type(made) is nn.Sequential and torch.equal(made(X), X)
    table = pyjit.compile(nn.Embedding(4, 3)).from_pretrained(torch.eye(3))
    assert torch.equal(table(torch.tensor([1])), torch.eye(3)[1:2])

    class Derived(type(fast)):  # type: ignore[misc]
        pass

    assert type(Derived) is type and Derived.__bases__ == (nn.Sequential,)
    assert torch.equal(Derived(nn.ReLU())(X), X)


@pytest.mark.parametrize("name", ["weight_norm", "orthogonal", "spectral_norm"])
def test_parametrizations(name: str) -> None:
    fast, twin = both(lambda: nn.Linear(4, 4).eval())
    for module in (fast, twin):
        torch.manual_seed(1)
        getattr(parametrizations, name)(module)
    for _ in range(3):
        same(fast, twin)
    for module in (fast, twin):
        parametrize.remove_parametrizations(module, "weight")
    assert fast.__class__ is nn.Linear
    same(fast, twin)


def test_another_class() -> None:
    class Other(Plain):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x - 1

    fast, twin = both(Plain)
    fast.__class__ = twin.__class__ = Other
    same(fast, twin)
    assert isinstance(fast, Other)
    with pytest.raises(TypeError, match="__class__"):
        fast.__class__ = int  # type: ignore[assignment]
    same(fast, twin)
    lazy = pyjit.compile(nn.LazyLinear(3))
    assert lazy(X).shape == (3, 3)
    assert lazy.__class__ is nn.Linear and isinstance(lazy, nn.Linear)


def test_copies_of_modules() -> None:
    fast, twin = both(Plain)
    for made in (
        copy.copy(fast),
        copy.deepcopy(fast),
        pickle.loads(pickle.dumps(fast)),
    ):
        same(made, twin)
        assert pyjit.stats(made)["misses"] == 1
        made.training = False
        assert fast.training


def test_end_of_a_module() -> None:
    ended = []

    class Ending(Plain):
        def __del__(self) -> None:
            ended.append(self.factor)

    module = Ending()
    fast = pyjit.compile(module)
    fast(X)
    del fast
    gc.collect()
    assert ended == []
    del module
    gc.collect()
    assert ended == [2]


@pyjit.compile
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def tripled(x: torch.Tensor) -> torch.Tensor:
    return x * 3


def test_copies_of_functions() -> None:
    assert (
        copy.deepcopy({"f": doubled})["f"] is doubled and copy.copy(doubled) is doubled
    )
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    other = pickle.loads(pickle.dumps(pyjit.compile(tripled)))
    assert torch.equal(other(X), X * 3) and pyjit.stats(other)["misses"] == 1
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(pyjit.compile(lambda x: x))


def test_copies_of_modules_with_a_compiled_forward() -> None:
    model = Plain()
    model.forward = pyjit.compile(model.forward)
    model(X)
    made = copy.deepcopy(model)
    with torch.no_grad():
        made.linear.weight.zero_()
    assert torch.allclose(made(X), made.linear.bias * 2)
    assert not torch.allclose(model(X), made(X))
    average = torch.optim.swa_utils.AveragedModel(model)
    assert torch.allclose(average(X), model(X))


class Decorated:
    factor = 3

    @pyjit.compile
    @staticmethod
    def plain(x: torch.Tensor, k: int = 2) -> torch.Tensor:
        return x * k

    @pyjit.compile
    @classmethod
    def of_class(cls, x: torch.Tensor) -> torch.Tensor:
        return x * cls.factor

    @classmethod
    @pyjit.compile
    def within(cls, x: torch.Tensor) -> torch.Tensor:
        return x + cls.factor


def test_decorators_of_methods() -> None:
    class Other(Decorated):
        factor = 5

    for owner, factor in ((Decorated, 3), (Decorated(), 3), (Other, 5), (Other(), 5)):
        for _ in range(2):
            assert torch.equal(owner.plain(X), X * 2)
            assert torch.equal(owner.of_class(X), X * factor)
            assert torch.equal(owner.within(X), X + factor)


def test_signatures() -> None:
    def function(x: torch.Tensor, *rest: Any, k: int = 2) -> torch.Tensor:
        return x * k

    fast = pyjit.compile(function)
    assert inspect.getfullargspec(fast) == inspect.getfullargspec(function)
    assert inspect.signature(fast) == inspect.signature(function)
    assert not hasattr(pyjit.compile(torch.ops.aten.sin.default), "nothing")
