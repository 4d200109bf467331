# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch's samples again, longer or shorter at each call: sizes that were numbers in the
first specialization become symbols, and every answer has to be eager's.

A dimension of all tensors of a sample is repeated, or grows by a few elements (what an operator pads to
a length that it is given differs between lengths below that one); what an operator then refuses, pyjit has
to refuse. So with gradients: what is trained on batches whose sizes differ. PYJIT_OPDB=full takes every
operator and dimension, some twenty minutes on one core; by default (CI) an eighth of them, along the first
dimension and the last.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import pytest
import torch
from Integration.test_op_db import FULL, NOT_COMPARABLE, op_db, same
from Operators.cases import copied

pyjit = pytest.importorskip("pyjit", exc_type=ImportError)

SAMPLES = 6 if FULL else 2
# What makes a length another one: so many times, so many more.
TIMES = [(times, 0) for times in (1, 1, 2, 3, 5, 1, 2, 4)]
MORE = [(1, more) for more in (0, 0, 1, 2, 3, 1, 5)]
DIMS = (0, 1, 2, -1) if FULL else (0, -1)
# What these do with sizes that do not fit together is undefined: they check nothing.
UNCHECKED = {
    "native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update",
    "nn.functional.embedding_bag", "linalg.lstsq",
}  # fmt: skip
# Random, or too slow with five times the work.
LEFT_OUT = {
    "bernoulli", "cauchy", "exponential", "geometric", "grid_sampler_3d", "log_normal",
    "multinomial", "normal", "pca_lowrank", "rand_like", "randint", "randint_like", "randn",
    "randn_like", "svd_lowrank", "uniform",
}  # fmt: skip
OPERATORS = [
    op
    for op in op_db
    if op.supports_dtype(torch.float32, "cpu")
    and op.name not in NOT_COMPARABLE | UNCHECKED | LEFT_OUT
    and "dropout" not in op.name
    and "rrelu" not in op.name
    and "fractional_max_pool" not in op.name
][:: 1 if FULL else 8]


def resized(value: Any, length: tuple[int, int], dim: int) -> Any:
    times, more = length
    if isinstance(value, torch.Tensor):
        fits = value.dim() > dim if dim >= 0 else value.dim() >= -dim
        if value.layout != torch.strided or not fits:
            return value
        rest = value.narrow(dim, 0, min(more, value.size(dim)))
        return torch.cat([value] * times + [rest], dim)
    if isinstance(value, (list, tuple)) and all(
        isinstance(item, torch.Tensor) for item in value
    ):
        return type(value)(resized(item, length, dim) for item in value)
    return value


def samples_of(op: Any) -> list[Any]:
    try:
        return list(itertools.islice(op.sample_inputs("cpu", torch.float32), SAMPLES))
    except Exception as error:
        pytest.skip(f"no samples here: {error}")


def lengthened(
    sample: Any, length: tuple[int, int], dim: int
) -> tuple[Any, list, dict]:
    """Input, arguments and keyword arguments of a sample, that dimension of all tensors longer."""
    kwargs = {name: resized(arg, length, dim) for name, arg in sample.kwargs.items()}
    args = [resized(arg, length, dim) for arg in sample.args]
    return resized(sample.input, length, dim), args, kwargs


def outcome(f: Any, *args: Any, **kwargs: Any) -> Any:
    args, kwargs = copied(args), copied(kwargs)
    torch.manual_seed(0)  # attention with dropout
    try:
        return f(*args, **kwargs)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("lengths", [TIMES, MORE], ids=["times", "more"])
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.full_name)
def test_sizes_change(op: Any, lengths: list[tuple[int, int]]) -> None:
    for sample in samples_of(op):
        # A function of its own: sizes are found to change specialization by specialization.
        def f(x: Any, *args: Any, **kwargs: Any) -> Any:
            return op.op(x, *args, **kwargs)

        fast = pyjit.compile(f)
        for dim, length in itertools.product(DIMS, lengths):
            x, args, kwargs = lengthened(sample, length, dim)
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                want = outcome(f, x, *args, **kwargs)
                have = outcome(fast, x, *args, **kwargs)
            where = f"dimension {dim} {length[0]} times and {length[1]}, {sample}"
            if isinstance(want, type) or isinstance(have, type):
                assert want is have, where
            else:
                same(want, have, where)


# Eager's own gradient is wrong: of a matrix with more rows than columns it goes on behind the diagonal.
WRONG_IN_EAGER = {"trace"}


def floats(value: Any) -> list[torch.Tensor]:
    """In their order."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, dict):
        value = list(value.values())
    several = isinstance(value, (list, tuple))
    return [t for item in value for t in floats(item)] if several else []


def weights(t: torch.Tensor) -> torch.Tensor:
    """Another one for each element, so that gradients are told apart."""
    return torch.linspace(0.5, 1.5, t.numel()).view(t.shape)


def gradients(f: Any, x: Any, args: Any, kwargs: Any) -> Any:
    """Results that have a history, then the gradients of all operands; or the class of what was raised."""
    x, args, kwargs = copied(x), copied(args), copied(kwargs)
    leaves = [t.requires_grad_() for t in floats([x, args, kwargs])]
    torch.manual_seed(0)
    try:
        results = [t for t in floats(f(x, *args, **kwargs)) if t.requires_grad]
        if results:
            torch.stack([(t * weights(t)).sum() for t in results]).sum().backward()
    except Exception as error:
        return type(error)
    return [t.detach() for t in results] + [leaf.grad for leaf in leaves]


@pytest.mark.parametrize(
    "op",
    [op for op in OPERATORS if op.supports_autograd and op.name not in WRONG_IN_EAGER],
    ids=lambda op: op.full_name,
)
@pytest.mark.parametrize("lengths", [TIMES, MORE], ids=["times", "more"])
@pytest.mark.filterwarnings("ignore")
def test_gradients_while_sizes_change(op: Any, lengths: list[tuple[int, int]]) -> None:
    for sample in samples_of(op):

        def f(x: Any, *args: Any, **kwargs: Any) -> Any:
            return op.op(x, *args, **kwargs)

        fast = pyjit.compile(f)
        for dim, length in itertools.product(DIMS if FULL else (0,), lengths):
            x, args, kwargs = lengthened(sample, length, dim)
            want, have = gradients(f, x, args, kwargs), gradients(fast, x, args, kwargs)
            where = f"dimension {dim} {length[0]} times and {length[1]}, {sample}"
            if isinstance(want, type) or isinstance(have, type):
                assert want is have, where
                continue
            for theirs, ours in zip(want, have, strict=True):
                assert (theirs is None) == (ours is None), where
                if theirs is not None:
                    torch.testing.assert_close(
                        ours, theirs, rtol=2e-3, atol=1e-3, equal_nan=True
                    )
