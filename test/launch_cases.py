# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs for launch tests, the same for a simulated device and for a GPU.

Each case is a function of a device and a dtype that gives a callable and a
function that makes its arguments anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import pyjit
import torch
from torch import nn
from torch.nn import functional as F

Made = tuple[Callable, Callable[[], tuple]]


# Observed, plain, plain timed, three other ways captured and timed, then the fastest so far.
CALLS = 11


def agree(
    fast: Callable, f: Callable, calls: Iterable[tuple], **tolerance: float
) -> None:
    """All calls agree with ``f``, also later, and leave their arguments alone."""
    held = []
    with torch.no_grad():
        for args in calls:
            copies = [a.clone() for a in args]
            want = f(*copies)
            got = fast(*args)
            torch.testing.assert_close(got, want, **tolerance)
            torch.testing.assert_close(list(args), copies)
            held.append((got, want))
        # No later call wrote what an earlier one returned.
        for got, want in held:
            torch.testing.assert_close(got, want, **tolerance)


def check(fast: Callable, f: Callable, make: Callable, **tolerance: float) -> None:
    """All calls agree with ``f``, and all but the first were answered by one specialization."""
    agree(fast, f, (make() for _ in range(CALLS)), **tolerance)
    stats = pyjit.stats(fast)
    assert stats["specializations"] == 1, stats
    assert stats["hits"] == CALLS - 1, stats


def check_on_two_streams(
    fast: Callable, f: Callable, make: Callable, **tolerance: float
) -> None:
    """Two threads, each on a stream of its own, agree with ``f`` in every call (GPU)."""

    def work(stream: torch.cuda.Stream) -> None:
        with torch.no_grad(), torch.cuda.stream(stream):
            for _ in range(300):
                args = make()
                torch.testing.assert_close(fast(*args), f(*args), **tolerance)

    with torch.no_grad():
        for _ in range(CALLS):
            fast(*make())
    torch.cuda.synchronize()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, [torch.cuda.Stream(), torch.cuda.Stream()]))


def tensor(*shape: int, device: str, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(*shape, device=device).to(dtype)


def tensors(
    device: str, dtype: torch.dtype, *shapes: tuple[int, ...]
) -> Callable[[], tuple]:
    """Makes arguments of these shapes, with other values each time."""
    return lambda: tuple(tensor(*s, device=device, dtype=dtype) for s in shapes)


def by_name(*cases: Callable) -> dict[str, Callable]:
    return {case.__name__: case for case in cases}


def pointwise(device: str, dtype: torch.dtype) -> Made:
    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.relu(a + b) * 2

    return f, tensors(device, dtype, (64,), (64,))


def two_kernels(device: str, dtype: torch.dtype) -> Made:
    """A row reduction and then a column reduction: no one kernel holds both."""

    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        p = torch.softmax(x.float(), -1)
        return p, (p * p).sum(0)

    return f, tensors(device, dtype, (33, 70))


def mlp(device: str, dtype: torch.dtype) -> Made:
    torch.manual_seed(0)
    model = (
        nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 16))
        .to(device=device, dtype=dtype)
        .eval()
    )
    return model, tensors(device, dtype, (8, 32))


def attention(device: str, dtype: torch.dtype) -> Made:
    torch.manual_seed(0)
    q, k, v, o = (nn.Linear(32, 32).to(device=device, dtype=dtype) for _ in range(4))

    def f(x: torch.Tensor) -> torch.Tensor:
        def heads(y: torch.Tensor) -> torch.Tensor:
            return y.view(2, 6, 4, 8).transpose(1, 2)

        a = F.scaled_dot_product_attention(heads(q(x)), heads(k(x)), heads(v(x)))
        return x + o(a.transpose(1, 2).reshape(2, 6, 32))

    return f, tensors(device, dtype, (2, 6, 32))


def embedding(device: str, dtype: torch.dtype) -> Made:
    torch.manual_seed(0)
    table = nn.Embedding(50, 24).to(device=device, dtype=dtype)
    norm = nn.LayerNorm(24).to(device=device, dtype=dtype)

    def f(tokens: torch.Tensor) -> torch.Tensor:
        return norm(table(tokens)).tanh()

    return f, lambda: (torch.randint(0, 50, (3, 5), device=device),)


def vendor_result(device: str, dtype: torch.dtype) -> Made:
    """The caller gets what a vendor call made, and a view of another's result."""

    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        s = torch.cumsum(x.float() * 2, 0)
        t = torch.cumsum(s + 1, 1)
        return s, t[1:]

    return f, tensors(device, dtype, (5, 7))


def returned_input(device: str, dtype: torch.dtype) -> Made:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.exp()
        return x[1], y.t()

    return f, tensors(device, dtype, (4, 6))


def in_place(device: str, dtype: torch.dtype) -> Made:
    def f(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        x[0] = 3
        return x * x

    return f, tensors(device, dtype, (4, 6))


def rerolled_states(device: str, dtype: torch.dtype) -> Made:
    """Equal iterations: loop-carried states, rows by the loop's index, results stacked."""
    w = tensor(8, 8, device=device, dtype=dtype) * 0.3
    u = tensor(8, 8, device=device, dtype=dtype) * 0.3

    def f(x: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out = []
        for t in range(80):
            h = torch.tanh(F.linear(x[t], w) + F.linear(h, u))
            out.append(h)
        return torch.stack(out), h

    return f, tensors(device, dtype, (80, 2, 8), (2, 8))


def rerolled_layers(device: str, dtype: torch.dtype) -> Made:
    """Equal iterations with weights of their own."""
    layers = [nn.Linear(8, 8).to(device, dtype) for _ in range(100)]

    def f(x: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            x = torch.tanh(layer(x)) * 0.5
        return x

    return f, tensors(device, dtype, (3, 8))


def written_parts(device: str, dtype: torch.dtype) -> Made:
    """What a vendor call makes is written between elements that stay."""

    def f(x: torch.Tensor, w: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        k = k.clone()
        for g in range(24):
            k[:, :, g, :] = torch.matmul(x[:, :, g : g + 1, :], w).squeeze(2)
        return k

    return f, tensors(device, dtype, (2, 3, 24, 4), (2, 3, 4, 4), (2, 3, 24, 4))


def kalman(device: str, dtype: torch.dtype) -> Made:
    """A filter whose gains are solved for, its states one column each."""
    n = 4
    eye = torch.eye(n, device=device)
    a, q, r = eye * 0.9 + 0.01, eye * 0.01, eye * 0.1

    def f(z: torch.Tensor) -> torch.Tensor:
        z = z.float()
        mean, cov = torch.zeros(n, 1, device=device), eye
        out = torch.zeros(n, 30, device=device)
        for t in range(30):
            mean, cov = a @ mean, a @ cov @ a.t() + q
            gain = torch.linalg.solve(cov + r, cov).t()
            mean = mean + gain @ (z[:, t : t + 1] - mean)
            cov = (eye - gain) @ cov
            out[:, t : t + 1] = mean
        return out

    return f, tensors(device, dtype, (n, 30))


def waiting_filter(device: str, dtype: torch.dtype) -> Made:
    """The filter again, with a graph for each step: the host looks at what the solver says."""
    n = 4
    eye = torch.eye(n, device=device)
    a, q, r = eye * 0.9 + 0.01, eye * 0.01, eye * 0.1

    def f(z: torch.Tensor) -> torch.Tensor:
        z = z.float()
        mean, cov = torch.zeros(n, 1, device=device), eye
        out = torch.zeros(n, 30, device=device)
        for t in range(30):
            mean, cov = a @ mean, a @ cov @ a.t() + q
            gain = torch.linalg.solve_ex(cov + r, cov).result.t()
            mean = mean + gain @ (z[:, t : t + 1] - mean)
            cov = (eye - gain) @ cov
            out[:, t : t + 1] = mean
        return out

    return f, tensors(device, dtype, (n, 30))


CASES: dict[str, Callable[[str, torch.dtype], Made]] = by_name(
    pointwise,
    two_kernels,
    mlp,
    attention,
    embedding,
    vendor_result,
    returned_input,
    in_place,
    rerolled_states,
    rerolled_layers,
    written_parts,
    kalman,
    waiting_filter,
)
