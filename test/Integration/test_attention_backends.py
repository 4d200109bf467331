# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which kernels of attention are allowed: within a part of the call, around calls, changed by a call for good."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import values
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attention

Tensor = torch.Tensor
MATH, FLASH, EFFICIENT = (
    SDPBackend.MATH,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
)


def flags() -> tuple[bool, ...]:
    cuda = torch.backends.cuda
    return (
        cuda.flash_sdp_enabled(),
        cuda.mem_efficient_sdp_enabled(),
        cuda.math_sdp_enabled(),
        cuda.cudnn_sdp_enabled(),
    )


def one(x: Tensor) -> Any:
    with sdpa_kernel(MATH):
        y = attention(x, x, x)
    return y * 2


def several(x: Tensor) -> Any:
    with sdpa_kernel([FLASH, MATH, EFFICIENT, MATH]):
        y = attention(x, x, x, is_causal=True)
        inside = flags()
    return y, inside, flags()


def nested(x: Tensor) -> Any:
    with sdpa_kernel([FLASH, MATH]):
        with sdpa_kernel(FLASH):
            y = attention(x, x, x)
        inside = flags()
        return attention(y, y, y), inside


def decorated(x: Tensor) -> Any:
    @sdpa_kernel([MATH, FLASH])
    def inner(y: Tensor) -> Tensor:
        return attention(y, y, y)

    return inner(x) + inner(x * 2)


def old(x: Tensor) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.backends.cuda.sdp_kernel(enable_flash=False):
            return attention(x, x, x), flags()


def broken(x: Tensor) -> Any:
    """A graph break within."""
    with sdpa_kernel(MATH):
        y = attention(x, x, x)
        print(end="")
        return attention(y, x, x), flags()


def raised(x: Tensor) -> Any:
    try:
        with sdpa_kernel([FLASH, MATH]):
            y = attention(x, x, x)
            if len(x) == 2:
                raise ValueError(len(x))
    except ValueError:
        return x, flags()
    return y, flags()


def left(x: Tensor) -> Any:
    """Changed for good."""
    torch.backends.cuda.enable_math_sdp(not torch.backends.cuda.math_sdp_enabled())
    return attention(x, x, x), flags()


def compared(x: Tensor) -> Any:
    kinds = {MATH: 1, FLASH: 2}
    chosen = MATH if x.shape[0] > 2 else FLASH
    return (
        x * kinds[chosen],
        chosen == MATH,
        chosen in [MATH, EFFICIENT],
        chosen is FLASH,
    )


PROGRAMS = (one, several, nested, decorated, old, broken, raised, left, compared)


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    cuda, before = torch.backends.cuda, flags()
    setters = (
        cuda.enable_flash_sdp,
        cuda.enable_mem_efficient_sdp,
        cuda.enable_math_sdp,
        cuda.enable_cudnn_sdp,
    )
    yield
    for set, value in zip(setters, before, strict=True):
        set(value)


def story(f: Callable[[Tensor], Any], seen: list[Any]) -> None:
    for call in range(14):
        x = values(3 if call < 10 else 2, 2, 4, 8, seed=call).requires_grad_(
            call % 2 == 1
        )
        if call in (5, 8):
            torch.backends.cuda.enable_mem_efficient_sdp(call == 8)
        result = f(x)
        y, *rest = result if isinstance(result, tuple) else (result,)
        if y.requires_grad and y.grad_fn is not None:
            y.sum().backward()
        seen.append((y.detach(), x.grad, rest, flags()))
    torch.backends.cuda.enable_math_sdp(True)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_backends(program: Callable[[Tensor], Any]) -> None:
    told: list[list[Any]] = [[], []]
    story(program, told[0])
    fast = pyjit.compile(program)
    story(fast, told[1])
    for call, (want, have) in enumerate(zip(*told, strict=True)):
        assert want[2:] == have[2:], call
        torch.testing.assert_close(have[:2], want[:2], rtol=1e-5, atol=1e-5)
    stats = pyjit.stats(fast)
    if program not in (broken, left, raised, old):
        assert stats.hits >= 4 and not stats.graph_breaks, stats
