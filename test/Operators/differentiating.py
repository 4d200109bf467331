# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls with their gradients, and whether two of them agree: what tests of derivatives share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

TOLERANCE = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1e-4, 1e-5),
    torch.bfloat16: (4e-2, 1e-1),
    torch.complex128: (1e-7, 1e-7),
    torch.complex64: (1e-4, 1e-5),
}


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """All tensors within lists, tuples and dicts, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for element in value:
            yield from tensors(element)
    elif isinstance(value, dict):
        for element in value.values():
            yield from tensors(element)


def leaves(value: Any) -> Any:
    """The same structure with tensors of its own."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(leaves(element) for element in value)
    if isinstance(value, dict):
        return {key: leaves(element) for key, element in value.items()}
    return value


def weights(of: list[torch.Tensor], generator: torch.Generator) -> list[torch.Tensor]:
    """A random tensor like each; of complex numbers both parts."""

    def draw(like: torch.Tensor) -> torch.Tensor:
        return torch.rand(like.shape, generator=generator, dtype=torch.float64)

    return [
        (torch.complex(draw(t), draw(t)) if t.is_complex() else draw(t)).to(t.dtype)
        for t in of
    ]


def run(
    function: Callable[..., Any], call: Any, twice: bool = False
) -> tuple[list[torch.Tensor], list[torch.Tensor | None], list[str]]:
    """Outputs, gradients of the inputs that require grad, and the names of the outputs' nodes."""
    args, kwargs = leaves(call)
    torch.manual_seed(0)
    outputs = list(tensors(function(*args, **kwargs)))
    wanted = [out for out in outputs if out.requires_grad]
    inputs = [t for t in tensors([args, kwargs]) if t.requires_grad]
    generator = torch.Generator().manual_seed(1)
    gradients = weights(wanted, generator)
    found: list[torch.Tensor | None] = [None] * len(inputs)
    if wanted and inputs and twice:
        found = second(wanted, inputs, gradients, generator)
    elif wanted and inputs:
        found = list(torch.autograd.grad(wanted, inputs, gradients, allow_unused=True))
    return outputs, found, [out.grad_fn.name() for out in wanted if out.grad_fn]


def second(
    outputs: list[torch.Tensor],
    inputs: list[torch.Tensor],
    gradients: list[torch.Tensor],
    generator: torch.Generator,
) -> list[torch.Tensor | None]:
    """The gradients, and those of a weighted sum of them by all that they depend on."""
    gradients = [gradient.requires_grad_() for gradient in gradients]
    first = torch.autograd.grad(
        outputs, inputs, gradients, allow_unused=True, create_graph=True
    )
    whole = [g for g in first if g is not None and g.requires_grad]
    again: tuple[torch.Tensor | None, ...] = ()
    if whole:
        again = torch.autograd.grad(
            whole,
            [*inputs, *gradients],
            weights(whole, generator),
            allow_unused=True,
        )
    return [*first, *again]


def assert_equal(want: Any, have: Any, what: str) -> None:
    for index, (a, b) in enumerate(zip(want, have, strict=True)):
        where = f"{what}[{index}]"
        # A compiled call's node knows of all inputs that its gradients depend on.
        if a is None and b is not None and " twice" in what and not b.any():
            continue
        assert (a is None) == (b is None), f"{where}: {a}, {b}"
        if a is None or a.layout != torch.strided:
            continue
        rtol, atol = TOLERANCE.get(a.dtype, (0, 0))
        torch.testing.assert_close(
            b,
            a,
            rtol=rtol,
            atol=atol,
            equal_nan=True,
            msg=lambda m, where=where: f"{where}: {m}",
        )
