# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Global state of PyTorch or the interpreter changes between two calls."""

from __future__ import annotations

import contextvars
import threading

import pytest
import torch
from Integration.harness import ANY, Compile, Steps, in_threads, scenario, tell, values
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


@scenario
def test_grad_mode_seen_by_program(compile: Compile) -> Steps:
    f = compile(lambda x: x + 1 if torch.is_grad_enabled() else x - 1)
    yield f(values(4))
    yield f(values(4))
    with torch.enable_grad():
        yield f(values(4))
    yield f(values(4))


@scenario
def test_grad_mode_with_parameters(compile: Compile) -> Steps:
    m = nn.Linear(4, 2)
    f = compile(m)
    yield f(values(3, 4))
    yield f(values(3, 4))
    with torch.enable_grad():
        out = f(values(3, 4))
        yield [out, out.grad_fn is not None]
        out.sum().backward()
        yield m.weight.grad
    yield f(values(3, 4))


@scenario(graph_breaks="the call has turned grad mode on")
def test_enable_grad_inside(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            y = x * 2
        return y

    f = compile(g)
    yield f(values(4))
    yield f(values(4))
    for _ in range(3):
        out = f(values(4).requires_grad_())
        yield [out, out.requires_grad]


@scenario(grad=True)
def test_no_grad_inside(compile: Compile) -> Steps:
    @torch.no_grad()
    def g(x: torch.Tensor) -> torch.Tensor:
        return x * 2 + int(torch.is_grad_enabled())

    f = compile(g)
    yield f(values(4))
    yield f(values(4))
    yield torch.is_grad_enabled()
    out = f(values(4).requires_grad_())
    yield [out, out.requires_grad]


@scenario(eager="grad mode changed by the call", grad=True)
def test_set_grad_enabled_left_on(compile: Compile) -> Steps:
    def g(x: torch.Tensor, on: bool) -> torch.Tensor:
        torch.set_grad_enabled(on)
        return x * 2

    f = compile(g)
    try:
        for on in (False, False, True, False):
            out = f(values(4), on)
            yield [out, torch.is_grad_enabled()]
            torch.set_grad_enabled(True)
    finally:
        torch.set_grad_enabled(True)
    yield 0


@scenario
def test_inference_mode(compile: Compile) -> Steps:
    f = compile(lambda x: x * 2)
    yield f(values(4))
    yield f(values(4))
    with torch.inference_mode():
        out = f(values(4))
        yield [out, out.is_inference()]
    out = f(values(4))
    yield [out, out.is_inference()]


@scenario
def test_inference_tensor_as_input(compile: Compile) -> Steps:
    f = compile(lambda x: x * 2 + 1)
    yield f(values(4))
    yield f(values(4))
    with torch.inference_mode():
        a = values(4) * 1
    out = f(a)
    yield [out, out.is_inference()]


@scenario
def test_autocast(compile: Compile) -> Steps:
    m = nn.Linear(8, 8)
    f = compile(lambda x: torch.relu(m(x)) + 1)
    yield f(values(3, 8))
    yield f(values(3, 8))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield f(values(3, 8))
        yield f(values(3, 8))
    yield f(values(3, 8))


@scenario
def test_autocast_inside_keeps_casts_of_weights(compile: Compile) -> Steps:
    m, w = nn.Linear(8, 8), nn.Parameter(values(8, 8, seed=1))

    def g(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = m(x)
            z = torch.cat([y @ w, x]) + m(x * 2).repeat(2, 1)
        return y, z, x @ w

    f = compile(g)
    for seed in range(3):
        yield f(values(3, 8, seed=seed))


@scenario
def test_autocast_inside_of_a_region_that_is_off(compile: Compile) -> Steps:
    m = nn.Linear(8, 8)

    def g(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return m(x)

    f = compile(g)
    yield f(values(3, 8))
    yield f(values(3, 8))
    with torch.autocast("cpu", enabled=False):  # keeps casts all the same
        yield f(values(3, 8))
        m.weight.mul_(2)
        yield f(values(3, 8))
    yield f(values(3, 8))


@scenario
def test_autocast_inside_finds_a_cast_that_is_out_of_date(compile: Compile) -> Steps:
    m = nn.Linear(8, 8)

    def g(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            before = m(x)
            m.weight.mul_(2)
            return before, m(x)

    f = compile(g)
    for seed in range(3):
        yield f(values(3, 8, seed=seed))
    yield m.weight.detach().clone()


@scenario
def test_autocast_dtype(compile: Compile) -> Steps:
    f = compile(lambda x, y: x @ y)
    a, b = values(4, 4), values(4, 4, seed=1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield f(a, b)
        yield f(a, b)
    with torch.autocast("cpu", dtype=torch.float16):
        yield f(a, b)
    yield f(a, b)
    yield f(a, b)


@scenario
def test_autocast_inside(compile: Compile) -> Steps:
    def g(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = x @ y
        return z

    f = compile(g)
    for _ in range(3):
        yield f(values(4, 4), values(4, 4, seed=1))


@scenario
def test_default_dtype(compile: Compile) -> Steps:
    f = compile(lambda x: x + torch.ones(4) * 0.5 + torch.tensor(2.5))
    yield f(values(4))
    yield f(values(4))
    torch.set_default_dtype(torch.float64)
    try:
        yield f(values(4))
    finally:
        torch.set_default_dtype(torch.float32)
    yield f(values(4))


@scenario
def test_default_dtype_decides_promotion(compile: Compile) -> Steps:
    f = compile(lambda x: x / 2)
    x = values(4, dtype=torch.int64)
    yield f(x)
    yield f(x)
    torch.set_default_dtype(torch.float64)
    try:
        yield f(x)
    finally:
        torch.set_default_dtype(torch.float32)


@scenario(graph_breaks=ANY)
def test_default_device(compile: Compile) -> Steps:
    """On a device whose tensors are not recorded; test_default_device*.py have others."""
    f = compile(lambda n: torch.ones(n) * 2)
    yield f(3)
    yield f(3)
    with torch.device("meta"):
        yield f(3)
    torch.set_default_device("meta")
    try:
        yield f(3)
    finally:
        torch.set_default_device(None)
    yield f(3)


@scenario
def test_deterministic_algorithms(compile: Compile) -> Steps:
    f = compile(
        lambda x: (
            x + (1 if torch.are_deterministic_algorithms_enabled() else 2),
            torch.empty(3).shape,
        )
    )
    yield f(values(4))
    yield f(values(4))
    torch.use_deterministic_algorithms(True)
    try:
        yield f(values(4))
    finally:
        torch.use_deterministic_algorithms(False)
    yield f(values(4))


@scenario
def test_deterministic_fill(compile: Compile) -> Steps:
    """With deterministic algorithms on, empty() is filled with NaN."""
    f = compile(lambda x: torch.empty_like(x).fill_(1) + x)
    yield f(values(4))
    yield f(values(4))
    torch.use_deterministic_algorithms(True)
    try:
        yield f(values(4))
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.bfloat16, torch.float64, torch.bool, torch.uint8]
    + [torch.int8, torch.int16, torch.int32, torch.int64, torch.complex64],
)
@pytest.mark.parametrize("grad", [False, True])
def test_deterministic_memory_is_filled(dtype: torch.dtype, grad: bool) -> None:
    """What nothing writes of memory that was asked for holds what eager has filled it with."""

    def story(compile: Compile) -> Steps:
        def g(x: torch.Tensor) -> object:
            part, some = torch.empty(4, dtype=dtype), torch.empty_like(x)
            part[:2] = x[:2]
            some.scatter_(0, torch.tensor([2, 0]), x[:2])
            return part, some, x.new_empty(2), torch.empty(2, 3), torch.empty(0)

        f = compile(g)
        torch.use_deterministic_algorithms(True)
        try:
            for i in range(5):
                yield f(values(4, seed=i, dtype=dtype))
        finally:
            torch.use_deterministic_algorithms(False)

    tell(story, captured=not dtype.is_complex, graph_breaks=ANY, grad=grad)


@scenario(graph_breaks="a __torch_function__ mode is active")
def test_torch_function_mode(compile: Compile) -> Steps:
    class Shift(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            out = func(*args, **(kwargs or {}))
            return out + 100 if func is torch.relu else out

    f = compile(lambda x: torch.relu(x) * 2)
    yield f(values(4))
    yield f(values(4))
    with Shift():
        yield f(values(4))
    yield f(values(4))


@scenario(graph_breaks="a __torch_dispatch__ mode is active")
def test_torch_dispatch_mode(compile: Compile) -> Steps:
    class Log(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[str] = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            self.seen.append(str(func))
            return func(*args, **(kwargs or {}))

    f = compile(lambda x: torch.relu(x) * 2)
    yield f(values(4))
    yield f(values(4))
    with Log() as log:
        out = f(values(4))
    yield [out, log.seen]
    yield f(values(4))


@scenario(graph_breaks="a functorch transform is running")
def test_inside_vmap(compile: Compile) -> Steps:
    f = compile(lambda x: torch.relu(x).sum() * 2)
    yield f(values(4))
    yield f(values(4))
    yield torch.vmap(f)(values(3, 4))
    yield f(values(4))


@scenario(graph_breaks="a functorch transform is running")
def test_inside_grad_transform(compile: Compile) -> Steps:
    f = compile(lambda x: (x * x).sum())
    yield f(values(4))
    yield f(values(4))
    yield torch.func.grad(f)(values(4))
    yield torch.func.jvp(f, (values(4),), (values(4, seed=1),))
    yield f(values(4))


@scenario(graph_breaks="forward-mode differentiation is running")
def test_forward_mode_dual(compile: Compile) -> Steps:
    import torch.autograd.forward_ad as fwad

    f = compile(lambda x: torch.tanh(x) * 2)
    yield f(values(4))
    yield f(values(4))
    with torch.enable_grad(), fwad.dual_level():
        dual = fwad.make_dual(values(4), values(4, seed=1))
        out = fwad.unpack_dual(f(dual))
        yield [out.primal, out.tangent]


@scenario(graph_breaks="a __torch_dispatch__ mode is active")
def test_fake_tensor_mode(compile: Compile) -> Steps:
    from torch._subclasses.fake_tensor import FakeTensorMode

    f = compile(lambda x: torch.relu(x) * 2)
    yield f(values(4))
    yield f(values(4))
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(values(4))
        yield [type(f(fake)).__name__, tuple(f(fake).shape)]
    yield f(values(4))


@scenario
def test_sdpa_backend(compile: Compile) -> Steps:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    f = compile(
        lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v) + 1
    )
    q, k, v = (values(1, 2, 8, 4, seed=s) for s in range(3))
    yield f(q, k, v)
    yield f(q, k, v)
    with sdpa_kernel(SDPBackend.MATH):
        yield f(q, k, v)


@scenario
def test_thread_count(compile: Compile) -> Steps:
    f = compile(lambda x: torch.relu(x).sum(0) + x.mean(0))
    x = values(512, 256)
    threads = torch.get_num_threads()
    yield f(x)
    yield f(x)
    torch.set_num_threads(1)
    try:
        yield f(x)
    finally:
        torch.set_num_threads(threads)
    yield f(x)


@scenario
def test_called_from_another_thread(compile: Compile) -> Steps:
    """Grad mode is per thread: a new thread starts with it on."""
    f = compile(lambda x: x * (2 if torch.is_grad_enabled() else 3))
    yield f(values(4))
    yield f(values(4))
    out: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: out.append(f(values(4))))
    thread.start()
    thread.join()
    yield out
    yield f(values(4))


@scenario
def test_context_variable(compile: Compile) -> Steps:
    factor: contextvars.ContextVar[float] = contextvars.ContextVar("f", default=2.0)
    f = compile(lambda x: x * factor.get())
    yield f(values(4))
    yield f(values(4))
    factor.set(3.0)
    yield f(values(4))
    yield contextvars.Context().run(f, values(4))


@scenario
def test_manual_seed_and_random(compile: Compile) -> Steps:
    f = compile(lambda x: x + torch.rand(4) + torch.randn_like(x))
    for _ in range(4):
        yield f(values(4))
    torch.manual_seed(0)
    yield f(values(4))
    yield torch.rand(2)


@scenario
def test_dropout_draws_anew(compile: Compile) -> Steps:
    m = nn.Dropout(0.5).train()
    f = compile(lambda x: m(x) * 2)
    for _ in range(4):
        yield f(values(64))
    yield torch.rand(2)


@scenario
def test_two_threads_at_once(compile: Compile) -> Steps:
    f = compile(lambda x: (torch.relu(x) + x.sum()) * 2)
    g = compile(lambda x: torch.tanh(x) - 1)
    results: dict[int, list[torch.Tensor]] = {}

    def work(index: int) -> None:
        with torch.no_grad():
            results[index] = [
                (f if index % 2 else g)(values(16, seed=index * 100 + i))
                for i in range(20)
            ]

    in_threads(work, ((i,) for i in range(4)))
    yield [results[i] for i in range(4)]
    yield f(values(16))
    yield f(values(16))
