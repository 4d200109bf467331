# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls under `torch.set_default_device` and `with torch.device(...)`: guarded by the device, recorded as others are,
and in segments where one sets it."""

from __future__ import annotations

import contextlib
from typing import Any

import pyjit
import pytest
import torch
from Integration.default_devices import default_device, numbers, tell_under
from Integration.harness import (
    ANY,
    Compile,
    Steps,
    attempt,
    in_threads,
    scenario,
    tell,
    values,
)
from torch.overrides import (
    TorchFunctionMode,
    _get_current_function_mode_stack,
)
from torch.utils._device import DeviceContext


@scenario(captured="late", graph_breaks=ANY)
def test_set_between_calls(compile: Compile) -> Steps:
    f = compile(lambda n: torch.ones(n) * 2)
    for device in (None, "cpu", "meta", None, "cpu", "cpu:0", "meta", None):
        with default_device(device):
            yield f(3)
            yield f(3)


@scenario(captured="late")
def test_with_blocks_around_calls(compile: Compile) -> Steps:
    f = compile(lambda x: x + torch.arange(4))
    for _ in range(2):
        yield f(values(4))
        with torch.device("cpu"):
            yield f(values(4))
            with torch.device("meta"):
                yield attempt(f, numbers(4))
            yield f(values(4))
    with default_device("cpu"), torch.device("meta"):
        yield attempt(f, numbers(4))


def test_each_device_has_its_specialization() -> None:
    fast = pyjit.compile(lambda x: x + torch.ones(4))
    x = values(4)
    for _ in range(3):
        fast(x)
        with default_device("cpu"):
            fast(x)
        with torch.device("cpu"):
            fast(x)
        with torch.device("cpu:0"):
            fast(x)
    stats = pyjit.stats(fast)
    assert len(pyjit.specializations(fast)) == 3
    assert stats["hits"] == 12 - 3
    (cause,) = stats["miss_causes"]
    default = "the device that torch.set_default_device has set"
    assert cause["guard"] == default and cause["count"] == 2
    report = str(pyjit.explain(fast, detail="guards"))
    assert f"{default} == cpu" in report


def test_a_set_device_costs_no_graph() -> None:
    """A script that sets its device once is compiled as others are: whole, and hit at once."""
    fast = pyjit.compile(lambda x: torch.relu(x @ x) + torch.eye(4), fullgraph=True)
    with default_device("cpu"):
        for seed in range(5):
            x = numbers(4, 4, seed=seed)
            torch.testing.assert_close(fast(x), torch.relu(x @ x) + torch.eye(4))
    assert pyjit.stats(fast)["hits"] == 4


@scenario
def test_threads_have_their_own(compile: Compile) -> Steps:
    f = compile(lambda x: x + torch.full((4,), 2.0))
    found: dict[Any, Any] = {}

    def work(device: str | None) -> None:
        with default_device(device):
            for seed in range(4):
                found[device, seed] = f(numbers(4, seed=seed))

    for device in (None, "cpu", "cpu:0"):
        in_threads(work, [(device,)])
        yield f(values(4))
    in_threads(work, [(None,), ("cpu",), ("cpu:0",)])
    yield [found[key] for key in sorted(found, key=str)]


class Derived(DeviceContext):
    pass


class Shifts(TorchFunctionMode):
    def __torch_function__(self, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # fmt: skip
        out = f(*args, **(kwargs or {}))
        return out + 1 if f is torch.relu else out


@pytest.mark.parametrize("around", [False, True])
@pytest.mark.parametrize("mode", [Shifts, lambda: Derived("cpu")])
def test_other_modes_stay_eagers(mode: Any, around: bool) -> None:
    def story(compile: Compile) -> Steps:
        f = compile(lambda x: torch.relu(x) + torch.ones(4))
        yield f(values(4))
        yield f(values(4))
        with torch.device("cpu") if around else contextlib.nullcontext():
            with mode():
                yield f(numbers(4))
                yield f(numbers(4))
            yield f(numbers(4))
        yield f(values(4))

    tell(story, graph_breaks="a __torch_function__ mode is active")


def test_disabled_torch_functions() -> None:
    """A context in which no mode is asked."""

    def story(compile: Compile) -> Steps:
        f = compile(lambda x: (x * 2, torch.ones(2)))
        with default_device("meta"):
            for _ in range(3):
                yield f(numbers(4))
                with torch._C.DisableTorchFunction():
                    yield f(numbers(4))

    tell(story, captured=False, graph_breaks=ANY)


# Within the call ------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_breaks_between_constructions(device: str) -> None:
    def g(x: torch.Tensor) -> Any:
        a = torch.ones(4)
        print(end="")
        b = torch.arange(4)
        print(end="")
        return a, b, torch.zeros(2), x * 2

    whole = device == "cpu"
    tell_under(
        g,
        lambda: numbers(4),
        device=device,
        captured="late" if whole else False,
        times=6,
        graph_breaks=ANY,
    )


@pytest.mark.parametrize("device", [None, "cpu", "meta"])
def test_a_device_within_the_call(device: str | None) -> None:
    def within(x: torch.Tensor) -> Any:
        a = torch.ones(2)
        with torch.device("meta"):
            b = torch.ones(2)
            c = x * 2
        with torch.device("cpu"):
            d = torch.zeros(2) + c.sum()
        return a, b, c, d, torch.ones(2)

    def sets(x: torch.Tensor) -> Any:
        a = torch.ones(2)
        torch.set_default_device("cpu")
        b = torch.zeros(2) + x.sum()
        torch.set_default_device("meta")
        c = torch.zeros(2)
        torch.set_default_device(None)
        return a, b, c, torch.ones(2)

    @torch.utils._device.set_device("meta")
    def decorated(x: torch.Tensor) -> Any:
        return torch.ones(2), x * 2

    def by_hand(x: torch.Tensor) -> Any:
        mode = torch.utils._device.DeviceContext("cpu")
        with mode:
            a = torch.ones(2) + x.sum()
            b = torch._C._len_torch_function_stack()
        return a, b, torch.ones(2)

    for f in (within, sets, decorated, by_hand):

        def story(compile: Compile, f: Any = f) -> Steps:
            fast = compile(f)
            for _ in range(5):
                torch.set_default_device(device)
                try:
                    yield attempt(fast, numbers(4))
                finally:
                    torch.set_default_device(None)
            yield len(_get_current_function_mode_stack())

        tell(story, captured=False, graph_breaks=ANY)


def test_the_mode_itself_is_found() -> None:
    """Who looks at the stack within the call finds the mode that is there in eager."""

    def looks(x: torch.Tensor) -> Any:
        (mode,) = _get_current_function_mode_stack()
        return x + 1, mode, type(mode)

    fast = pyjit.compile(looks)
    with torch.device("cpu"):
        (mode,) = _get_current_function_mode_stack()
        for _ in range(4):
            _, found, kind = fast(numbers(4))
            assert found is mode and kind is DeviceContext


@pytest.mark.parametrize("device", ["cpu", "cpu:0", "meta"])
def test_get_default_device(device: str) -> None:
    def asks(x: torch.Tensor) -> Any:
        default = torch.get_default_device()
        return x + 1, default, str(default), default.type

    whole = device != "meta"
    tell_under(
        asks, lambda: numbers(4), device=device, graph_breaks=() if whole else ANY
    )


def test_get_default_device_between() -> None:
    def story(compile: Compile) -> Steps:
        f = compile(lambda x: (x + 1, torch.get_default_device()))
        for device in (None, "cpu:0", None, "cpu", "cpu:0"):
            with default_device(device):
                yield f(numbers(4))
                yield f(numbers(4))

    tell(story, captured="late", graph_breaks=ANY)


@scenario(captured="late")
def test_compiled_functions_within(compile: Compile) -> Steps:
    inner = compile(lambda x: x + torch.ones(4))
    outer = compile(lambda x: inner(x) * torch.full((4,), 2.0))
    for device in (None, "cpu", None, "cpu"):
        with default_device(device):
            yield outer(numbers(4)), inner(numbers(4))
