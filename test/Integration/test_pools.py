# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pools of small windows are kernels, and give eager's bits: also of zeros' signs, of what is no number, at edges."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pyjit
import pytest
import torch
from torch.nn import functional as F

SPECIAL = [
    0.0,
    -0.0,
    float("nan"),
    float("inf"),
    -float("inf"),
    1e-45,
    -1e-45,
    3e38,
    1.0,
    1.0,
]
MAX = [F.max_pool1d, F.max_pool2d, F.max_pool3d]
PLACES = [
    F.max_pool1d_with_indices,
    F.max_pool2d_with_indices,
    F.max_pool3d_with_indices,
]
MEAN = [F.avg_pool1d, F.avg_pool2d, F.avg_pool3d]
LAST = {2: torch.channels_last, 3: torch.channels_last_3d}


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """What a tensor's elements are in memory; what is no number counts as one value."""
    if not tensor.is_floating_point():
        return tensor
    tensor = tensor.masked_fill(tensor.isnan(), float("nan")).contiguous()
    return tensor.view(
        {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    )


def operand(draw: random.Random, rank: int, dtype: torch.dtype) -> torch.Tensor:
    torch.manual_seed(draw.randrange(1 << 30))
    x = torch.randn([2, 5, *(draw.randint(6, 23) for _ in range(rank))])
    odd = torch.rand_like(x) < draw.choice([0, 0.1, 0.5])
    x[odd] = torch.tensor(SPECIAL)[torch.randint(0, len(SPECIAL), (int(odd.sum()),))]
    x = x.to(dtype)
    if rank > 1 and draw.random() < 0.4:
        return x.to(memory_format=LAST[rank])
    return x[0] if draw.random() < 0.2 else x


def pools(draw: random.Random, rank: int) -> list[tuple[Any, tuple, dict]]:
    """A pool of each kind, with arguments that eager takes."""
    size = [draw.randint(1, 4 if rank < 3 else 2) for _ in range(rank)]
    stride = draw.choice([None, [draw.randint(1, 3) for _ in range(rank)]])
    padding = draw.choice([0, [draw.randint(0, k // 2) for k in size]])
    ceil = draw.random() < 0.3
    mean = {"ceil_mode": ceil, "count_include_pad": draw.random() < 0.7}
    if rank > 1 and draw.random() < 0.2:
        mean["divisor_override"] = draw.choice([3, -2])
    largest = {
        "ceil_mode": ceil,
        "dilation": draw.choice([1, 1, [draw.choice([1, 2]) for _ in range(rank)]]),
    }
    window = (size, stride, padding)
    return [
        (MAX[rank - 1], window, largest),
        (PLACES[rank - 1], window, largest),
        (MEAN[rank - 1], window, mean),
    ]


def pooled(pool: Any, window: tuple, options: dict, x: torch.Tensor) -> Any:
    return pool(x, *window, **options)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_bits(seed: int, rank: int) -> None:
    draw = random.Random(100 * rank + seed)
    dtype = draw.choice(
        [torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16]
    )
    kernels = 0
    for pool, window, options in pools(draw, rank):
        x = operand(draw, rank, dtype)

        call = partial(pooled, pool, window, options)
        try:
            want = call(x)
        except RuntimeError:
            continue  # no window fits
        fast = pyjit.compile(call)
        fast(x)
        have = fast(x)
        kernels += not pyjit.stats(fast)["vendor_calls"]
        for one, other in zip(
            *((r if isinstance(r, tuple) else (r,)) for r in (have, want)), strict=True
        ):
            assert one.dtype == other.dtype and one.stride() == other.stride()
            assert torch.equal(bits(one), bits(other)), (pool, window, options)
    assert kernels or rank == 3, "no pool was a kernel"


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("rank", [2, 3])
def test_bits_of_gradients(seed: int, rank: int) -> None:
    """Ties, what is no number and what is -inf: an element's gradient goes where eager's goes, with its sign of zero."""
    draw = random.Random(100 * rank + seed)
    size = [draw.randint(1, 3) for _ in range(rank)]
    stride = draw.choice([None, None, [draw.randint(1, 3) for _ in range(rank)]])
    padding = draw.choice([0, 0, [k // 2 for k in size]])
    torch.manual_seed(seed)
    x = torch.randn(
        2, 3, *(k * draw.randint(2, 9) + draw.choice([0, 0, 1]) for k in size)
    )
    x = x.round(decimals=draw.choice([0, 5]))
    odd = torch.rand_like(x) < draw.choice([0, 0.2])
    x[odd] = torch.tensor(SPECIAL)[torch.randint(0, len(SPECIAL), (int(odd.sum()),))]
    if draw.random() < 0.4:
        x = x.to(memory_format=LAST[rank])
    pool = [F.max_pool2d, F.max_pool3d][rank - 2]

    def step(x: torch.Tensor) -> torch.Tensor:
        y = pool(x, size, stride, padding)
        factors = torch.arange(y.numel(), dtype=y.dtype).view_as(y) % 7 - 3
        return torch.autograd.grad((y * factors).sum(), x)[0]

    want = step(x.clone().requires_grad_())
    fast = pyjit.compile(step)
    for _ in range(3):
        have = fast(x.clone().requires_grad_())
        assert have.stride() == want.stride() and torch.equal(bits(have), bits(want))


class Net(torch.nn.Module):
    """Convolutions between pools: what is padded, and what is behind a pool, is in kernels with them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.second = torch.nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.first(x)), 3, 2, 1)
        x = F.avg_pool2d(F.gelu(self.second(x)), 2)
        return F.max_pool2d(x * 2, 2).flatten(1)


@pytest.mark.parametrize("last", [False, True])
def test_gradients_and_batches(last: bool) -> None:
    """A network trains on batches of several sizes: gradients go where eager's go, ties included."""
    torch.manual_seed(0)
    net, twin = Net(), Net()
    twin.load_state_dict(net.state_dict())
    fast = pyjit.compile(net)
    for batch in (4, 4, 3, 3, 5, 7):
        x = torch.randn(batch, 3, 24, 24).round(decimals=1)
        if last:
            x = x.to(memory_format=torch.channels_last)
        have, want = fast(x), twin(x)
        torch.testing.assert_close(have, want)
        have.square().sum().backward()
        want.square().sum().backward()
    for one, other in zip(net.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-5)


REARRANGED = {
    "pad": lambda x: F.pad(x, (1, 2, 3, 0)),
    "pad with a number": lambda x: F.pad(x, (2, 2), value=-7.5),
    "crop": lambda x: F.pad(x, (-1, 3, 2, -2)),
    "flip": lambda x: x.flip(-1),
    "flip of two": lambda x: x.flip(1, -2),
    "roll": lambda x: x.roll(3, -1),
    "roll back": lambda x: x.roll((-5, 2**33), (-1, 1)),
    "shuffle": lambda x: F.pixel_shuffle(x, 2),
    "unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "shuffle of one": lambda x: F.pixel_shuffle(x[0], 2),
    "pad, roll and flip": lambda x: F.pad(x, (1, 1)).roll(2, -1).flip(-1) * 2,
}


@pytest.mark.parametrize("name", REARRANGED)
@pytest.mark.parametrize("layout", ["rows", "last", "columns"])
@pytest.mark.parametrize("width", [6, 34])
def test_rearranged(name: str, layout: str, width: int) -> None:
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
        x = torch.randn(2, 8, 4, width) * 3
        x = (x > 0) if dtype == torch.bool else x.to(dtype)
        if layout == "last":
            x = x.to(memory_format=torch.channels_last)
        elif layout == "columns":
            x = x.transpose(2, 3).contiguous().transpose(2, 3)
        call = REARRANGED[name]
        try:
            want = call(x)
        except (RuntimeError, TypeError):
            continue  # a number that the dtype does not have
        fast = pyjit.compile(call)
        fast(x)
        have = fast(x)
        assert have.dtype == want.dtype and have.stride() == want.stride()
        assert torch.equal(have, want)
        if dtype == torch.float32:
            assert not pyjit.stats(fast)["vendor_calls"]
