# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How far a right answer may be from eager's, element by element.

No bound by the largest number of a program: it would hide every error of a small one. Instead the program
runs in eager a few times more, with each operator's results (and, where it adds up or cancels inside,
its operands) off by a rounding of their type. What an element moves by is what other orders of
operations, or no rounding between them, may move it by. An element that does not move must be equal but
for a few units in the last place; one whose decision flips may be anything that a run has shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

RUNS = 6
# Where something is further away than those show: a wrong answer stays, and of a million elements some move in none of
# six runs.
RUNS_AT_MOST = 60
# Distances beyond what the runs have shown: they are samples.
FACTOR = 16.0
UNITS = 8.0

# Operators without arithmetic: their results are their operands' elements, or what tests say.
MOVES = {
    "alias", "as_strided", "cat", "clone", "copy_", "detach", "diagonal", "embedding", "expand",
    "fill_", "flip", "full_like", "gather", "index", "index_fill", "index_fill_", "index_put_",
    "index_select", "lift_fresh", "masked_fill", "masked_fill_", "permute", "repeat", "reshape", "roll",
    "scatter", "scatter_", "select", "slice", "sort", "split", "squeeze", "stack", "t", "transpose",
    "tril", "triu", "unbind", "unfold", "unsqueeze", "view", "where", "zero_", "zeros_like",
    "_unsafe_view", "_reshape_alias", "constant_pad_nd", "neg", "abs", "relu", "maximum", "minimum",
    "amax", "amin", "max", "min", "clamp", "clamp_", "relu_", "empty", "empty_like", "new_empty",
    "full", "zeros", "arange", "movedim", "unflatten", "narrow", "contiguous", "sign", "floor",
    "ceil", "round", "trunc", "floor_", "argmax", "empty_strided", "scalar_tensor", "repeat_interleave",
}  # fmt: skip


# Operators that cancel inside: eager's last digits are those of the operand.
CANCELS = {"gelu"}


# Of 0.0 and -0.0 eager's vectors give one and its loops for single elements the other (Operators/eager_paths.py).
EITHER_ZERO = {"maximum", "minimum", "max", "min", "clamp", "clamp_", "clamp_min", "clamp_max"}  # fmt: skip
# What lies at the mean: which zero depends on how eager's loop for the row's length adds up.
CENTRED = {"native_layer_norm", "native_group_norm", "native_batch_norm"}
# Logarithms of sums that eager adds up one after the other, in each lane of a vector.
SUMS = {"_log_softmax", "logsumexp"}
# Roots of such sums, and quotients by them.
NORMS = {"linalg_vector_norm", "_softmax"}


class Noise(TorchDispatchMode):
    """Moves what arithmetic reads and gives by a rounding."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def noise(self, like: torch.Tensor) -> torch.Tensor:
        """From -1 to 1, in double."""
        noise = torch.rand(like.shape, generator=self.generator, dtype=torch.float64)
        return (noise * 2 - 1).to(like.device)

    def off(self, value: torch.Tensor) -> torch.Tensor:
        """The same numbers, each one unit in the last place or two up or down."""
        unit = torch.finfo(value.dtype).eps
        moved = value.double() * (1 + unit * self.noise(value).sign())
        moved = torch.where(value.isfinite(), moved.to(value.dtype), value)
        return laid_out_like(moved, value)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = func._schema.name.split("::")[1]
        if name in EITHER_ZERO and len(args) > 1:
            return self.zeros_moved(func(*args, **(kwargs or {})), args)
        if name in MOVES:
            return func(*args, **(kwargs or {}))
        if name == "_to_copy":
            return self.converted(args[0], func(*args, **(kwargs or {})))
        if not func._schema.is_mutable:
            args = tuple(self.moved(value) for value in args)
        result = func(*args, **(kwargs or {}))
        if func._schema.is_mutable:
            written = result if isinstance(result, torch.Tensor) else None
            if written is not None and written.dtype.is_floating_point:
                written.copy_(self.off(written))
            return result
        if name in CANCELS:
            x = args[0].double()
            noise = (
                torch.finfo(result.dtype).eps * self.noise(x) * x.nan_to_num(0, 0, 0)
            )
            return (result.double() + noise).to(result.dtype)
        if name in SUMS and result.dtype.is_floating_point:
            dims = args[1] if isinstance(args[1], list) else [args[1]]
            sums = args[0].sum(dims, keepdim=result.dim() == args[0].dim())
            count = max(1, args[0].numel() // max(1, sums.numel()))
            noise = torch.finfo(result.dtype).eps * self.noise(sums) * count**0.5
            return (result.double() + noise).to(result.dtype)
        if name in NORMS and result.dtype.is_floating_point:
            summed = args[0].numel() // max(1, result.numel())
            if name == "_softmax":
                summed = args[0].size(args[1]) if args[0].dim() else 1
            noise = torch.finfo(result.dtype).eps * self.noise(result)
            noise = noise * max(1, summed) ** 0.5
            return (result.double() * (1 + noise)).to(result.dtype)
        if name in CENTRED:
            result = self.off_centre(*result)
        if isinstance(result, (tuple, list)):
            return type(result)(self.moved(value) for value in result)
        return self.moved(result)

    def converted(self, value: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
        """A wider type holds the same number: moved here, its last step could be taken back."""
        floats = value.dtype.is_floating_point and result.dtype.is_floating_point
        wider = floats and result.dtype.itemsize > value.dtype.itemsize
        return result if wider else self.moved(result)

    def off_centre(
        self, result: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """A norm subtracts two products: what rounds there is of their size, not the result's."""
        noise = 8 * torch.finfo(result.dtype).tiny * self.noise(result)
        # Of a layer; those of groups are of many elements.
        if mean.dim() == result.dim():
            count = result.numel() // max(1, mean.numel())
            far = torch.finfo(mean.dtype).eps * count**0.5 * mean.double().abs()
            far = far * rstd.double()
            noise = noise + far.nan_to_num(0, 0, 0) * self.noise(result).sign()
        return (result.double() + noise).to(result.dtype), mean, rstd

    def zeros_moved(self, result: Any, args: Any) -> Any:
        """Zeros that come of two of either sign as something that is almost zero."""
        if not isinstance(result, torch.Tensor) or not result.dtype.is_floating_point:
            return result
        numbers = [
            torch.as_tensor(a).to(result)
            for a in args
            if not isinstance(a, bool | list | None)
        ]
        zeros = [value for value in numbers if bool((value == 0).any())]
        if len(zeros) < 2:
            return result
        a, b = zeros[:2]
        either = (a == 0) & (b == 0) & (a.signbit() != b.signbit()) & (result == 0)
        almost = 8 * torch.finfo(result.dtype).tiny * self.noise(result)
        return result.copy_(torch.where(either, almost.to(result), result))

    def moved(self, value: Any) -> Any:
        plain = isinstance(value, torch.Tensor) and value.dtype.is_floating_point
        # Zeros of autograd's that have no memory stay what they are.
        return self.off(value) if plain and not value._is_zerotensor() else value


def laid_out_like(value: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """With the strides of `like`: kernels of attention refuse a mask whose rows are not padded."""
    shape = like.shape
    spread = [
        dim
        for dim, (size, stride) in enumerate(
            zip(like.shape, like.stride(), strict=True)
        )
        if size > 1 and stride == 0
    ]
    for dim in spread:
        value, like = value.narrow(dim, 0, 1), like.narrow(dim, 0, 1)
    result = torch.empty_strided(
        like.shape, like.stride(), dtype=value.dtype, device=value.device
    )
    return result.copy_(value).expand(shape)


class EitherZero(Noise):
    """Moves nothing but zeros that may be of either sign: for programs without roundings."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[1]
        free = name in EITHER_ZERO and len(args) > 1
        return self.zeros_moved(result, args) if free else result


def bounds(
    run: Callable[[], list[torch.Tensor]],
    want: list[torch.Tensor],
    runs: int = RUNS,
    noise: type[Noise] = Noise,
    have: list[torch.Tensor] | None = None,
) -> list[torch.Tensor]:
    """How far each element of the tensors of `want` may be from it, in float64.

    run: makes the same tensors anew.
    runs: how often that is tried; more where few roundings of eager's are moved at once.
    have: what is to be compared with `want`. Where it is not within, there are more runs.
    """
    spreads = [torch.zeros(value.shape, dtype=torch.float64) for value in want]
    limits = [
        allowed(value, spread) for value, spread in zip(want, spreads, strict=True)
    ]
    for seed in range(runs if have is None else RUNS_AT_MOST):
        if seed >= runs and have is not None and within(want, have, limits):
            break
        with noise(seed):
            again = run()
        for number, (value, other) in enumerate(zip(want, again, strict=True)):
            far = (other.detach().double() - value.double()).abs()
            far = torch.where(far.isnan(), torch.inf, far)
            same = (other == value) | (other.isnan() & value.isnan())
            far = torch.where(same, 0.0, far)
            spreads[number] = torch.maximum(spreads[number], far.cpu())
            limits[number] = allowed(value, spreads[number])
    return limits


def allowed(value: torch.Tensor, spread: torch.Tensor) -> torch.Tensor:
    if not value.dtype.is_floating_point:
        return spread * FACTOR
    info = torch.finfo(value.dtype)
    unit = value.double().abs().cpu() * info.eps + info.tiny * info.eps
    return spread * FACTOR + torch.nan_to_num(unit, posinf=0.0) * UNITS


def within(
    want: list[torch.Tensor], have: list[torch.Tensor], limits: list[torch.Tensor]
) -> bool:
    return all(
        a.shape == b.shape and not apart(a.detach(), b.detach(), limit).any()
        for a, b, limit in zip(want, have, limits, strict=True)
    )


def apart(
    want: torch.Tensor, have: torch.Tensor, bound: torch.Tensor | float
) -> torch.Tensor:
    """Where `have` is further from `want` than `bound`, or a zero of the other sign.

    A zero that may be something else may have either sign.
    """
    bound = torch.as_tensor(bound, dtype=torch.float64)
    x, y = want.double().cpu(), have.double().cpu()
    equal = (x == y) | (x.isnan() & y.isnan())
    near = (x - y).abs() <= bound
    # What overflows in one order of operations and not in another.
    free = bound == torch.inf
    zeros = (x == 0) & (y == 0) & (x.signbit() != y.signbit()) & (bound <= 1e-300)
    if want.dtype.is_floating_point:
        zeros &= bound <= torch.finfo(want.dtype).tiny
    return ~(equal | near | free) | zeros
