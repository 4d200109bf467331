# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Why specializations did not answer: the guard as an expression of the program, what it was and is."""

from __future__ import annotations

import functools
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import values
from torch import nn

SCALE = 2


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Dropout(0.5) for _ in range(4)])
        self.kind = "a"

    def forward(self, x: torch.Tensor, k: int = 1) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x * k if self.kind == "a" else x - k


def causes(fast: Any) -> dict[str, tuple[str, str]]:
    return {
        miss["guard"]: (miss["was"], miss["now"])
        for miss in pyjit.stats(fast)["miss_causes"]
    }


@pytest.fixture(autouse=True)
def no_grad() -> Any:
    with torch.no_grad():
        yield


def test_mode_of_one_layer() -> None:
    net = Net().eval()
    fast = pyjit.compile(net)
    fast(values(4))
    net.layers[3].train()
    fast(values(4))
    assert causes(fast) == {"self.layers[3].training": ("False", "True")}


def test_attribute() -> None:
    net = Net().eval()
    fast = pyjit.compile(net)
    fast(values(4))
    net.kind = "b"
    fast(values(4))
    assert causes(fast) == {"self.kind": ("'a'", "'b'")}


@pytest.mark.parametrize(
    ("change", "guard", "was", "now"),
    [
        (lambda x: x.double(), "x.dtype", "torch.float32", "torch.float64"),
        (lambda x: x[:2], "x.size(0)", "4", "2"),
        (lambda x: x.expand(2, 4), "x.dim()", "1", "2"),
        (lambda x: values(8)[::2], "x.stride(0)", "1", "2"),
        (lambda x: nn.Parameter(x), "type(x) is Tensor", "Tensor", "Parameter"),
        (lambda x: x.requires_grad_(), "x.requires_grad", "False", "True"),
    ],
)
def test_argument(change: Any, guard: str, was: str, now: str) -> None:
    fast = pyjit.compile(lambda x: torch.relu(x) + 1)
    fast(values(4))
    fast(change(values(4)))
    assert causes(fast) == {guard: (was, now)}


def test_number_and_what_became_dynamic() -> None:
    fast = pyjit.compile(lambda x, k: x * k)
    fast(values(4), 2)
    fast(values(4), 3)
    (miss,) = pyjit.stats(fast)["miss_causes"]
    assert (miss["guard"], miss["was"], miss["now"]) == ("k", "2", "3")
    assert miss["dynamic"] == ["numbers in k"]
    fast(values(5), 3)
    assert causes(fast)["x.size(0)"] == ("4", "5")


def test_grad_mode() -> None:
    fast = pyjit.compile(lambda x: torch.relu(x) + 1)
    fast(values(4))
    with torch.enable_grad():
        fast(values(4))
    assert causes(fast) == {"torch.is_grad_enabled()": ("False", "True")}


def test_global_is_named_as_the_program_does() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * SCALE

    global SCALE
    fast = pyjit.compile(f)
    fast(values(4))
    SCALE = 3
    try:
        assert torch.equal(fast(values(4)), values(4) * 3)
    finally:
        SCALE = 2
    assert causes(fast) == {"SCALE": ("2", "3")}


def test_number_of_arguments() -> None:
    fast = pyjit.compile(Net().eval())
    fast(values(4))
    fast(values(4), 2)
    assert "the number and names of the arguments" in causes(fast)


def test_equal_misses_are_counted() -> None:
    fast = pyjit.compile(lambda x, name: x * len(name))
    for name in ("a", "bb", "ccc", "dddd"):
        fast(values(4), name)
    (miss,) = pyjit.stats(fast)["miss_causes"]
    assert miss["guard"] == "name" and miss["count"] == 3
    assert (
        "name: " in str(pyjit.explain(fast))
        and "(3 times)" in pyjit.explain(fast).report()
    )


def test_log(capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("PYJIT_LOGS", "recompiles")
    fast = pyjit.compile(Net().eval(), name="net")
    fast(values(4))
    assert not capsys.readouterr().err
    fast(values(4), k=2)
    fast(values(4), k=3)
    text = capsys.readouterr().err
    assert (
        "[pyjit:recompiles] net: no specialization answers (2 so far): k: 2 -> 3"
        in text
    )
    assert "dynamic now: numbers in k" in text


class Watchful(torch.overrides.TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_function__(
        self, f: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.seen.append(f)
        return f(*args, **(kwargs or {}))


@pytest.mark.parametrize("dynamic", [None, True])
def test_modes_are_not_asked(dynamic: Any) -> None:
    """What looks at a call's arguments is no operation of the program's."""

    def calls(f: Any) -> list[Any]:
        with Watchful() as mode:
            f(values(4), 2)
            f(values(5, 2).double(), 3)
        return mode.seen

    fast = pyjit.compile(lambda x, k: torch.relu(x) * k, dynamic=dynamic)
    want = calls(lambda x, k: torch.relu(x) * k)
    fast(values(4), 2)
    assert calls(fast) == want


class Callable:
    """Asked for attributes that it has not, it notes who asks."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, first: torch.Tensor, second: Any) -> torch.Tensor:
        return first * len(second)

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        raise AttributeError(name)


def test_callables_are_not_asked() -> None:
    target = Callable()
    fast = pyjit.compile(target)
    target.asked.clear()
    for text in ("a", "bb", "ccc"):
        fast(values(4), text)
    assert not target.asked
    assert list(causes(fast)) == ["second"] and causes(fast)["second"][1] == "'ccc'"


def test_wrapped_function_has_its_own_names() -> None:
    @functools.wraps(lambda tensor, text: tensor)
    def wrapper(*args: Any) -> Any:
        return args[0] * len(args[1])

    fast = pyjit.compile(wrapper)
    for text in ("a", "bb"):
        fast(values(4), text)
    assert causes(fast) == {"text": ("'a'", "'bb'")}


def test_looking_does_no_harm() -> None:
    """Arguments that say strange things when they are asked, and are asked nothing."""

    class Strange:
        def __init__(self, n: int) -> None:
            self.n = n

        def __repr__(self) -> str:
            raise AssertionError("asked")

        __eq__ = __hash__ = __bool__ = __len__ = __str__ = __repr__  # type: ignore

    fast = pyjit.compile(lambda x, s: x * s.n)
    for n in (2, 3, 4):
        assert torch.equal(fast(values(4), Strange(n)), values(4) * n)
    assert causes(fast)


def test_a_tensor_without_strides() -> None:
    """Its layout is what differs; and who explains that does not raise, nor stop later recordings."""
    fast = pyjit.compile(lambda x: x * 2)
    x = torch.eye(3)
    for _ in range(3):
        fast(x)
    assert torch.equal(fast(x.to_sparse_csr()).to_dense(), x * 2)
    assert causes(fast)["x.layout"] == ("torch.strided", "torch.sparse_csr")
    other = pyjit.compile(lambda x: x + 1)
    for _ in range(3):
        other(x)
    assert pyjit.stats(other)["hits"] > 0
