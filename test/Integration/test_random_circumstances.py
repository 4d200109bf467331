# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions called in circumstances that change from call to call: layouts, dtypes, sizes (zero and one as
well), what shares memory, modes, numbers, training and evaluation. What is compared is all that a caller
sees: results and which of them share whose memory, views of whom, arguments, gradients, state, random
numbers, what was printed, errors. PYJIT_EXAMPLES=2000 for more; each failure names its seed."""

from __future__ import annotations

import contextlib
import io
import os
import random
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
from Integration.circumstances import MODES, PROGRAMS, arguments, draw_circumstances
from Integration.harness import (
    Raised,
    attempt,
    difference,
    snapshot,
    without_versions,
)

SEEDS = max(1, int(os.environ.get("PYJIT_EXAMPLES", "200")) // 200)
CALLS = 10
# What eager says when such a view that was written is asked for its grad_fn; ours has none.
REFUSED = "A view was created in"


def tensors_of(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [t for part in value for t in tensors_of(part)]


def relations(tensors: list[torch.Tensor]) -> list[object]:
    """Of each tensor the first that has its memory, the first that is it, and the one that it is a view of."""

    def first(holds: Callable[[torch.Tensor], bool]) -> int | None:
        return next((i for i, t in enumerate(tensors) if holds(t)), None)

    def place(t: torch.Tensor) -> int:
        return t.untyped_storage().data_ptr() if t.numel() else id(t)

    return [
        (
            first(lambda o, t=t: place(o) == place(t)),
            first(lambda o, t=t: o is t),
            first(lambda o, t=t: o is t._base),
            t.grad_fn is not None,
        )
        for t in tensors
    ]


def gradients_of(results: list[torch.Tensor], leaves: list[torch.Tensor]) -> object:
    roots = [t for t in results if t.requires_grad]
    for leaf in leaves:
        leaf.retain_grad()
    torch.autograd.backward(roots, [torch.ones_like(t) for t in roots])
    return snapshot([leaf.grad for leaf in leaves])


def told(name: str, seed: int, compile: Callable[..., Any]) -> list[dict[str, object]]:
    """What each call of the story shows."""
    torch.manual_seed(seed)
    function, modules, state = PROGRAMS[name]()
    function = compile(function)
    parameters = [p for m in modules for p in m.parameters()]
    seen = []
    for now, number in draw_circumstances(random.Random(f"{name} {seed}"), CALLS):
        x, y = arguments(now, number)
        for parameter in parameters:
            parameter.grad = None
        for module in modules:
            module.train(now.training)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), MODES[now.mode]():
            result = attempt(function, x, y, now.k, now.s, now.flag)
        flat = tensors_of(result)
        found: dict[str, object] = {
            # Nobody can ask some views anything once their bases were written.
            "result": attempt(snapshot, result),
            "arguments": attempt(snapshot, [x, y]),
            "relations": attempt(relations, [x, y, *flat]),
            "printed": printed.getvalue(),
            "random": snapshot(torch.get_rng_state()),
            "state": snapshot(dict(state)),
            "buffers": snapshot([b for m in modules for b in m.buffers()]),
        }
        leaves = [t for t in (x, y, *parameters) if t.requires_grad]
        # The rounding of halves has oracles of its own.
        rounds = now.dtype == torch.bfloat16 or now.mode == "autocast"
        if any(t.requires_grad for t in flat) and not rounds:
            found["gradients"] = attempt(gradients_of, flat, leaves)
        seen.append({key: settled(key, value) for key, value in found.items()})
    return seen


def settled(key: str, value: Any) -> object:
    """What cannot differ where nothing is wrong: errors in a backward tell of nodes, and how
    often the engine adds to a gradient in place depends on who holds it."""
    if isinstance(value, Raised):
        return value.type if key == "gradients" else snapshot(value)
    return without_versions(value) if key == "gradients" else value


@pytest.mark.parametrize("name", PROGRAMS)
def test_circumstances(name: str) -> None:
    for seed in range(SEEDS):
        made: list[Any] = []

        def compiled(f: Callable[..., Any], made: list[Any] = made) -> Any:
            made.append(pyjit.compile(f))
            return made[-1]

        want, have = told(name, seed, lambda f: f), told(name, seed, compiled)
        for call, (w, h) in enumerate(zip(want, have, strict=True)):
            assert w.keys() == h.keys(), f"seed {seed}, call {call}"
            for key in w:
                if REFUSED in str(w[key]):
                    continue
                found = difference(w[key], h[key], where=key)
                assert not found, f"seed {seed}, call {call}: {found}"
