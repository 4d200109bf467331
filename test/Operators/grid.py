# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Values at which operators go wrong, and tensors that hold them in every layout."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
DTYPES = (*FLOATS, *INTEGERS, torch.bool)

# Rounding edges: of half (65504, 65520), of bfloat16 (256, 257, 3.3961e38), of single precision
# (16777217, 3.4e38), the ends of each integer, the smallest normal and denormal numbers of each float.
REAL_SPECIALS = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.0, -3.0, 0.1, -0.9, 7.0, 100.0,
    float("inf"), float("-inf"), float("nan"),
    255.0, 256.0, 257.0, 258.0, -257.0, 2047.0, 2049.0, 65504.0, 65519.0, 65520.0, 65536.0, -65520.0,
    16777215.0, 16777217.0, 1e10, -1e10, 2147483520.0, 2147483648.0, -2147483904.0, 9.2e18, 9.3e18, -9.3e18,
    1e20, 3.3961e38, 3.4028e38, -3.4028e38, 1e-3, 6.1e-5, 5.96e-8, 2.9e-8, 1.1754944e-38, 1e-40, 1.4e-45, -1.4e-45,
    88.8, -104.1, 20.0, -20.0, 1e300, 1e-310,
)  # fmt: skip
INTEGER_SPECIALS = (
    0, 1, -1, 2, -2, 3, 5, 7, -7, 10, 31, 32, 63, 64, 100, 127, 128, -128, -129, 255, 256, 257, 2049,
    32767, -32768, 65519, 65520, 16777217, 2**31 - 1, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63),
)  # fmt: skip


def specials(dtype: torch.dtype) -> torch.Tensor:
    """The special values that a dtype can hold, each once, its own ends among them."""
    if dtype == torch.bool:
        return torch.tensor([False, True])
    if dtype.is_floating_point:
        facts = torch.finfo(dtype)
        ends = (facts.max, facts.min, facts.tiny, facts.smallest_normal / 2, facts.eps)
        values = torch.tensor((*REAL_SPECIALS, *ends), dtype=torch.float64)
        return distinct(values.to(dtype))
    facts = torch.iinfo(dtype)
    held = [v for v in INTEGER_SPECIALS if facts.min <= v <= facts.max]
    return torch.tensor([*held, facts.min, facts.max], dtype=dtype).unique()


def distinct(values: torch.Tensor) -> torch.Tensor:
    """Without repetitions by bits: both zeros stay."""
    kinds = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    kind = kinds[values.element_size()]
    return values.view(kind).unique().view(values.dtype)


def every_half(dtype: torch.dtype) -> torch.Tensor:
    """All 65,536 values of a 16-bit float."""
    return torch.arange(-(2**15), 2**15, dtype=torch.int16).view(dtype)


def drawn(
    shape: tuple[int, ...], dtype: torch.dtype, draw: random.Random, wild: float = 0.5
) -> torch.Tensor:
    """Random values, a part of them (`wild`) special ones."""
    count = 1
    for size in shape:
        count *= size
    generator = torch.Generator().manual_seed(draw.getrandbits(40))
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype.is_floating_point:
        plain = torch.randn(count, dtype=torch.float64, generator=generator) * 3
        plain = plain.to(dtype)
    else:
        low = 0 if dtype == torch.uint8 else -9
        plain = torch.randint(low, 10, (count,), generator=generator).to(dtype)
    pool = specials(dtype)
    chosen = pool[torch.randint(0, len(pool), (count,), generator=generator)]
    where = torch.rand(count, generator=generator) < wild
    return torch.where(where, chosen, plain).reshape(shape)


def transposed(value: torch.Tensor) -> torch.Tensor:
    return value.mT.contiguous().mT if value.dim() >= 2 else value


def strided(value: torch.Tensor) -> torch.Tensor:
    """Every second element of a larger tensor, behind an offset."""
    if value.dim() == 0:
        return value
    wide = value.new_zeros((*value.shape[:-1], 2 * value.shape[-1] + 1))
    part = wide[..., 1::2]
    part.copy_(value)
    return part


def expanded(value: torch.Tensor) -> torch.Tensor:
    """The first index along dimension 0 for all of them, with stride 0."""
    if value.dim() == 0 or value.shape[0] == 0:
        return value
    return value[:1].expand(value.shape)


def overlapping(value: torch.Tensor) -> torch.Tensor:
    """`as_strided` with windows that overlap."""
    if value.dim() < 2 or value.numel() == 0:
        return value
    flat = value.reshape(-1, value.shape[-1])
    line = flat[0].repeat(2)[: value.shape[-1] + flat.shape[0] - 1]
    if len(line) < value.shape[-1] + flat.shape[0] - 1 or value.dim() != 2:
        return value
    return line.as_strided(tuple(value.shape), (1, 1))


def channels_last(value: torch.Tensor) -> torch.Tensor:
    if value.dim() != 4:
        return value
    return value.contiguous(memory_format=torch.channels_last)


LAYOUTS: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    torch.Tensor.contiguous,
    transposed,
    strided,
    expanded,
    overlapping,
    channels_last,
)
