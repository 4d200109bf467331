# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls under `torch.set_default_device` and `with torch.device(...)`: recorded as others are, in segments where one
must be, and guarded by the device."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration.harness import (
    ANY,
    Compile,
    Raised,
    Steps,
    attempt,
    in_threads,
    scenario,
    tell,
    values,
)
from torch import nn
from torch.overrides import (
    TorchFunctionMode,
    _get_current_function_mode_stack,
    has_torch_function_unary,
)
from torch.utils._device import DeviceContext
from torch.utils.checkpoint import checkpoint


@contextlib.contextmanager
def default_device(device: str | None) -> Iterator[None]:
    """`torch.set_default_device`, and the mode that it has put on the stack is still there at the end."""
    torch.set_default_device(device)
    stack = _get_current_function_mode_stack()
    try:
        yield
        now = _get_current_function_mode_stack()
        assert len(now) == len(stack) and all(
            a is b for a, b in zip(now, stack, strict=True)
        )
    finally:
        torch.set_default_device(None)
    assert not _get_current_function_mode_stack()


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    """As `values`, wherever the default device is."""
    with torch.device("cpu"):
        return values(*shape, seed=seed)


def tell_under(
    f: Any, *arguments: Any, device: str = "cpu", times: int = 4, **expected: Any
) -> None:
    """Calls `f` under the default device; functions among the arguments are called for each call anew."""

    def story(compile: Compile) -> Steps:
        fast = compile(f)
        with default_device(device):
            for _ in range(times):
                given = [a() if callable(a) else a for a in arguments]
                yield attempt(fast, *given), given

    tell(story, **expected)


# Guards -----------------------------------------------------------------------------------------


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


# Constructors -----------------------------------------------------------------------------------


def by_name(x: torch.Tensor) -> Any:
    return x + torch.ones(4), torch.zeros(2, device=None), torch.zeros(2, device="cpu")


def in_calls(x: torch.Tensor) -> Any:
    def inner(n: int) -> torch.Tensor:
        return torch.arange(n) + torch.tensor(n)

    return [inner(n) for n in range(1, 4)], x * inner(4)


def by_map(x: torch.Tensor) -> Any:
    return x, list(map(torch.ones, [2, 3])), [*map(torch.tensor, (1.0, 2.0))]


def by_partial(x: torch.Tensor) -> Any:
    zeros = functools.partial(torch.zeros, dtype=torch.float64)
    return x.double() + zeros(4), functools.partial(torch.full, (2,))(7)


def by_key(x: torch.Tensor) -> Any:
    return sorted([3, 1, 2], key=torch.tensor), min([2, 1], key=torch.tensor), x


def by_reduce(x: torch.Tensor) -> Any:
    return functools.reduce(lambda a, n: a + torch.ones(n), (4, 4), x)


def by_inner_name(x: torch.Tensor) -> Any:
    return torch._C._VariableFunctions.zeros(4) + x, getattr(torch, "on" + "es")(2)


def with_stars(x: torch.Tensor) -> Any:
    given: dict[str, Any] = {"dtype": torch.float64}
    return torch.ones(*(2, 3), **given), torch.full(*((2,), 1), device=None), x


def of_data(x: torch.Tensor) -> Any:
    return torch.tensor([1.0, 2.0]), torch.as_tensor([3, 4]), x + torch.scalar_tensor(2)


def of_windows(x: torch.Tensor) -> Any:
    return torch.hann_window(4) * x, torch.linspace(0, 1, 3), torch.fft.fftfreq(4)


def like_others(x: torch.Tensor) -> Any:
    return x.new_zeros(2), torch.ones_like(x), x.new_tensor([1.0]), torch.empty_like(x).zero_()  # fmt: skip


def in_generator(x: torch.Tensor) -> Any:
    def parts(n: int) -> Any:
        for i in range(n):
            yield torch.full((4,), float(i))

    return sum(parts(3), x), [t * 2 for t in parts(2)]


def of_positional_device(x: torch.Tensor) -> Any:
    return x, torch.as_tensor([1, 2], None, torch.device("cpu"))


def in_module(x: torch.Tensor) -> Any:
    layer = nn.Linear(4, 2)
    nn.init.constant_(layer.weight, 0.5)
    nn.init.zeros_(layer.bias)
    return layer(x)


def by_new(x: torch.Tensor) -> Any:
    return torch.Tensor([1, 2]), torch.Tensor(2).fill_(3), torch.FloatTensor([3]), x


def by_torch_ops(x: torch.Tensor) -> Any:
    return torch.ops.aten.add(x, 1), torch.ops.aten.ones([2]), torch.ops.aten.mul.Tensor(x, x)  # fmt: skip


CONSTRUCTORS = [
    *(by_name, in_calls, by_map, by_partial, by_key, by_reduce, by_inner_name),
    *(with_stars, of_data, of_windows, like_others, in_generator),
    *(of_positional_device, in_module, by_new, by_torch_ops),
]
# Functions that are one graph without a default device, and so with one.
WHOLE = {by_name, in_calls, by_partial, by_inner_name, with_stars, of_data, of_windows, like_others, in_generator, by_torch_ops}  # fmt: skip


@pytest.mark.parametrize("f", CONSTRUCTORS, ids=lambda f: f.__name__)
def test_constructors(f: Any) -> None:
    whole = f in WHOLE
    tell_under(f, lambda: numbers(4), captured=whole, graph_breaks=() if whole else ANY)


@pytest.mark.parametrize("f", CONSTRUCTORS, ids=lambda f: f.__name__)
def test_constructors_on_another_device(f: Any) -> None:
    """What is made on another device shows who was given it, where the recorder sees tensors of it as well."""
    # An exception names no device twice; what it says may tell the argument's position.
    tell_under(f, lambda: numbers(4), device="meta", captured=False, graph_breaks=ANY)


@pytest.mark.parametrize("grad", [False, True])
def test_random_numbers(grad: bool) -> None:
    def draws(x: torch.Tensor) -> Any:
        return torch.randn(4) + x, torch.rand(2), torch.randperm(5), F.dropout(x, 0.5)

    def story(compile: Compile) -> Steps:
        f = compile(draws)
        with default_device("cpu"):
            for seed in range(4):
                torch.manual_seed(seed)
                yield f(numbers(4).requires_grad_(grad))

    tell(story, grad=grad)


# Torch's functions in Python --------------------------------------------------------------------


def of_functional(x: torch.Tensor) -> Any:
    y = F.linear(F.gelu(x), torch.ones(4, 4))
    return F.softmax(F.layer_norm(y, (4,)), -1), F.interpolate(y[None], scale_factor=2)


def of_losses(x: torch.Tensor) -> Any:
    return F.cross_entropy(x, torch.arange(4)), F.mse_loss(x, torch.zeros(4, 4))


def of_operators(x: torch.Tensor) -> Any:
    return 2 - x, x**2, 2**x, x // 2, 1 / x, x == 1, x @ x, -x, x[1:], x % 2, abs(x)


def of_methods(x: torch.Tensor) -> Any:
    x = x.clone()
    x[0] = 1
    return x.norm(), x.split(2), x.unflatten(0, (2, 2)), x.T, x.shape, x.dtype, x.sum().dim(), len(x), [*x]  # fmt: skip


def of_composites(x: torch.Tensor) -> Any:
    return torch.einsum("ij,jk->ik", x, x), torch.cdist(x, x), torch.block_diag(x, x), torch.meshgrid(x[0], x[1], indexing="ij")  # fmt: skip


def of_modes_state(x: torch.Tensor) -> Any:
    return (
        torch._C._len_torch_function_stack(),
        torch._C._is_torch_function_mode_enabled(),
        has_torch_function_unary(x),
        x + (1 if has_torch_function_unary(x) else 2),
    )


FUNCTIONS = [of_functional, of_losses, of_operators, of_methods, of_composites]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions_of_torch(f: Any, grad: bool) -> None:
    tell_under(
        f,
        lambda: numbers(4, 4).requires_grad_(grad),
        grad=grad,
        captured="late",
        graph_breaks="aten::floor_divide" if grad and f is of_operators else (),
    )


def test_what_python_asks_of_modes() -> None:
    tell_under(of_modes_state, lambda: numbers(4))


class Encoder(nn.Module):
    """Layers that ask whether a mode is active before they take their fast path."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.layer(x)
        return self.attention(x, x, x)


@pytest.mark.parametrize("training", [False, True])
def test_layers_that_ask_for_modes(training: bool) -> None:
    model = Encoder().train(training)
    tell_under(model, lambda: numbers(2, 3, 8), graph_breaks=ANY)


def test_functions_ask_for_themselves() -> None:
    """`has_torch_function` in a program's own code, which does not hand the call over."""

    def asks(x: torch.Tensor) -> Any:
        if has_torch_function_unary(x):
            y = torch.ones(4)
        else:
            y = torch.zeros(4)
        return x + y

    def story(compile: Compile) -> Steps:
        f = compile(asks)
        for device in (None, "cpu", None, "cpu"):
            with default_device(device):
                yield f(numbers(4))
                yield f(numbers(4))

    tell(story)


# As Torch's own functions are written: under a mode they run once more, with the mode off.
HANDED_OVER = """
import torch
from torch.overrides import handle_torch_function, has_torch_function_unary

def plain(x):
    if has_torch_function_unary(x):
        return handle_torch_function(plain, (x,), x)
    return x.sum(), torch.ones(2), torch._C._len_torch_function_stack()

def breaks(x):
    if has_torch_function_unary(x):
        return torch.overrides.handle_torch_function(breaks, (x,), x)
    made = torch.ones(2)
    print(end="")
    return x.sum(), made, torch.ones(2), torch._C._len_torch_function_stack()

def raises(x):
    if has_torch_function_unary(x):
        return handle_torch_function(raises, (x,), x)
    raise ValueError(torch.ones(2).device)

def compiled(x):
    if has_torch_function_unary(x):
        return handle_torch_function(compiled, (x,), x)
    return called(x)
"""


def handed_over(name: str, of_torch: bool = True) -> Any:
    """One of these functions, of a module of Torch's or of a program's."""
    module = {"__name__": "torch.of_a_test" if of_torch else "of_a_test"}
    exec(HANDED_OVER, module)
    return module[name]


@pytest.mark.parametrize("of_torch", [True, False])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_the_mode_is_off_in_functions_that_are_handed_over(
    device: str, of_torch: bool
) -> None:
    plain = handed_over("plain", of_torch)

    def calls(x: torch.Tensor) -> Any:
        return x * 2, plain(x), torch.zeros(2), plain(x)

    whole = device == "cpu" and of_torch
    for f in (calls, plain):
        tell_under(
            f,
            lambda: numbers(4),
            device=device,
            captured=whole,
            graph_breaks=() if whole else ANY,
        )


def test_compiled_functions_where_the_mode_is_off() -> None:
    """One function is hit with the mode on and off."""

    def story(compile: Compile) -> Steps:
        compiled = handed_over("compiled")
        inner = compile(lambda x: (x + 1, torch.ones(2)))
        compiled.__globals__["called"] = inner
        for device in (None, "meta", "cpu", None, "meta", "cpu"):
            with default_device(device):
                yield compiled(numbers(4)), inner(numbers(4))

    tell(story, captured="late", graph_breaks=ANY)


@pytest.mark.parametrize("of_torch", [True, False])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_breaks_in_functions_that_are_handed_over(device: str, of_torch: bool) -> None:
    breaks = handed_over("breaks", of_torch)

    def calls(x: torch.Tensor) -> Any:
        y = x * 2
        found = breaks(x)
        return y + 1, found, torch.zeros(2)

    tell_under(
        calls,
        lambda: numbers(4),
        device=device,
        captured="late" if device == "cpu" else False,
        times=6,
        graph_breaks=ANY,
    )


@pytest.mark.parametrize("of_torch", [True, False])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_exceptions_in_functions_that_are_handed_over(
    device: str, of_torch: bool
) -> None:
    raises = handed_over("raises", of_torch)

    def catches(x: torch.Tensor) -> Any:
        try:
            raises(x)
        except ValueError as error:
            found = str(error)
        return found, torch.ones(2), x + 1

    for f in (catches, raises, lambda x: F.linear(x, torch.ones(3))):
        tell_under(
            f, lambda: numbers(4), device=device, captured=False, graph_breaks=ANY
        )


# Within the call --------------------------------------------------------------------------------


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


# Training ---------------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        noise = torch.zeros(x.shape[0], 8)
        return self.second(F.dropout(F.relu(self.first(x)) + noise, 0.1))


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_training_steps(kind: Any) -> None:
    def story(compile: Compile) -> Steps:
        with default_device("cpu"):
            model = Net()
            optimizer = kind(model.parameters(), lr=0.1)

            def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                return loss.detach()

            fast = compile(step)
            for seed in range(6):
                yield fast(numbers(5, 4, seed=seed), torch.arange(5) % 3)
            yield list(model.parameters())

    tell(story, grad=True, captured="late")


def test_gradients_by_the_caller() -> None:
    def story(compile: Compile) -> Steps:
        with default_device("cpu"):
            model = Net()
            fast = compile(model)
            for seed in range(4):
                x = numbers(5, 4, seed=seed).requires_grad_()
                fast(x).square().sum().backward()
                yield x.grad, [p.grad for p in model.parameters()]

    tell(story, grad=True)


class Scales(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * torch.full((4,), 3.0)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g * torch.full((4,), 3.0)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: Scales.apply(x),
        lambda x: checkpoint(
            lambda y: (y * torch.ones(4)).sin(), x, use_reentrant=False
        ),
        lambda x: torch.func.vmap(lambda y: y * torch.ones(()))(x),
        lambda x: torch.func.grad(lambda y: (y * torch.ones(4)).sum())(x),
        lambda x: torch.autograd.grad((x * torch.ones(4)).sum(), x, retain_graph=True),
    ],
    ids=["function", "checkpoint", "vmap", "grad", "autograd.grad"],
)
def test_functions_within_functions(f: Any) -> None:
    def with_backward(x: torch.Tensor) -> Any:
        out = f(x)
        out = out[0] if isinstance(out, tuple) else out
        return out, torch.zeros(2)

    tell_under(
        with_backward,
        lambda: numbers(4).requires_grad_(),
        grad=True,
        captured=False,
        graph_breaks=ANY,
    )


def test_autocast() -> None:
    layer = nn.Linear(4, 4)

    def g(x: torch.Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return layer(x) + torch.ones(4)

    tell_under(g, lambda: numbers(2, 4))


def test_a_transformer_of_others() -> None:
    from Integration.generating import build

    model = build("llama")

    def story(compile: Compile) -> Steps:
        fast = compile(model)
        with default_device("cpu"):
            for seed in range(4):
                tokens = numbers(2, 5, seed=seed).abs().mul(3).long() + 3
                yield fast(input_ids=tokens, use_cache=False).logits

    tell(story)


def test_behind_dynamo() -> None:
    compiled = torch.compile(lambda x: torch.relu(x) + torch.ones(4), backend="pyjit")
    for device in (None, "cpu", None, "cpu"):
        with default_device(device):
            for seed in range(3):
                x = numbers(4, seed=seed)
                torch.testing.assert_close(compiled(x), torch.relu(x) + 1)
    assert pyjit.stats(compiled)["hits"] >= 8
    assert not pyjit.stats(compiled)["eager_reasons"]
    torch._dynamo.reset()


def test_exceptions_leave_the_stack_alone() -> None:
    def raises(x: torch.Tensor) -> Any:
        torch.ones(3) + x  # of four
        return x

    fast = pyjit.compile(raises)
    with default_device("cpu"):
        for _ in range(3):
            found = attempt(fast, numbers(4))
            assert isinstance(found, Raised) and found.type is RuntimeError
            assert torch.ones(2).device.type == "cpu"
