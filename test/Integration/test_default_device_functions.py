# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Constructors and Torch's own functions under a default device, however they are called."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from Integration.default_devices import default_device, numbers, tell_under
from Integration.harness import (
    ANY,
    Compile,
    Steps,
    tell,
)
from torch import nn
from torch.overrides import (
    has_torch_function_unary,
)


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


# Torch's functions in Python ------------------------------------------------------------------------


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
