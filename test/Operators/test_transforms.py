# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each differentiable operator under transforms of torch.func within a compiled function, against eager.

Under `vjp` the engine's operators are recorded as they run, those with masks and without some results among them;
under `vmap` functorch's rules compute with other operators than the program names. A sample of each operator;
PYJIT_GRADIENTS=full takes all.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from Operators.test_gradients import FULL, OPERATORS, samples, tensors
from torch.func import vjp, vmap

CALLS = 4
# Sums of what `exp` and `pow` give cancel.
RTOL, RTOL_BACK = 1e-7, 1e-5
# Conversions, between which no operator rounds here (docs/Options.md, eager_rounding).
HALVES = {"half", "bfloat16"}


def replaced(value: Any, own: list[torch.Tensor]) -> Any:
    """The same structure, with these in the places of tensors that require grad, in order."""
    if isinstance(value, torch.Tensor):
        return own.pop(0) if value.requires_grad else value
    if isinstance(value, (list, tuple)):
        return type(value)(replaced(element, own) for element in value)
    if isinstance(value, dict):
        return {key: replaced(element, own) for key, element in value.items()}
    return value


def function_of(op: Any, call: Any) -> Callable[..., list[torch.Tensor]]:
    def function(*inputs: torch.Tensor) -> list[torch.Tensor]:
        args, kwargs = replaced(call, list(inputs))
        results = tensors(op.op(*args, **kwargs))
        return [t for t in results if t.is_floating_point()]

    return function


def pulled(op: Any, call: Any) -> Callable[..., Any]:
    """Gradients of all inputs, and of the last one alone."""
    function = function_of(op, call)

    def program(*inputs: torch.Tensor) -> Any:
        results, pull = vjp(function, *inputs)
        all_of_them = pull([t.cos() for t in results])
        last = vjp(lambda x: function(*inputs[:-1], x), inputs[-1])[1]
        return results, all_of_them, last([t.sin() for t in results])

    return program


def mapped(op: Any, call: Any) -> Callable[..., Any]:
    function = function_of(op, call)
    return lambda *inputs: vmap(function)(*(torch.stack((t, t * 0.5)) for t in inputs))


def told(
    program: Callable[..., Any], inputs: list[torch.Tensor], back: bool
) -> list[torch.Tensor | None]:
    """The results; and, where the caller goes back through them, the inputs' gradients."""
    own = [t.clone().requires_grad_(back) for t in inputs]
    found = list(tensors(program(*own)))
    whole = [t for t in found if t.requires_grad]
    if not whole:
        return [*found]
    given = [t.detach().cos() for t in whole]
    return [*found, *torch.autograd.grad(whole, own, given, allow_unused=True)]


def compare(op: Any, make: Callable[..., Any], what: str, back: bool = False) -> int:
    import pyjit

    hits = 0
    with warnings.catch_warnings(), torch.set_grad_enabled(back):
        warnings.simplefilter("ignore")
        calls = samples(op, torch.float64)
        for index, call in enumerate(calls if FULL else calls[:1]):
            inputs = [t.detach() for t in tensors(list(call)) if t.requires_grad]
            program = make(op, call)
            fast = pyjit.compile(make(op, call), options={"compare_with_eager": False})
            for turn in range(CALLS):
                torch.manual_seed(turn)
                try:
                    want = told(program, inputs, back)
                except Exception:
                    break  # functorch does not take it
                torch.manual_seed(turn)
                have = told(fast, inputs, back)
                where = f"{op.full_name} {what}, {index}, call {turn}"
                assert [t is None for t in want] == [t is None for t in have], where
                rtol = RTOL_BACK if back else RTOL
                torch.testing.assert_close(
                    [t for t in have if t is not None],
                    [t for t in want if t is not None],
                    rtol=rtol,
                    atol=rtol,
                    equal_nan=True,
                    msg=lambda m, where=where: f"{where}: {m}",
                )
            hits += pyjit.stats(fast)["hits"]
    return hits


hits: dict[str, list[int]] = {}


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.full_name)
def test_vjp(op: Any) -> None:
    hits.setdefault("vjp", []).append(compare(op, pulled, "under vjp"))


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.full_name)
def test_vmap(op: Any) -> None:
    hits.setdefault("vmap", []).append(compare(op, mapped, "under vmap"))


@pytest.mark.parametrize(
    "op",
    [op for op in OPERATORS if op.full_name not in HALVES],
    ids=lambda op: op.full_name,
)
def test_gradients_through_vjp(op: Any) -> None:
    compare(op, pulled, "back through vjp twice", back=True)


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.full_name)
def test_gradients_through_vmap(op: Any) -> None:
    compare(op, mapped, "back through vmap", back=True)


def test_most_hit() -> None:
    """Graph breaks test nothing. (A part of the operators may be all that runs: a few say nothing.)"""
    for what, counts in hits.items():
        assert len(counts) < 8 or sum(counts) > len(counts) / 2, (what, counts)
