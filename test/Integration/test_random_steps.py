# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random whole training steps (step_programs.py): all that a user sees of each step is eager's.

Results, parameters, gradients, buffers, the optimizer's state, what was logged and kept, errors, random state. A
number that is not eager's within a few roundings is held against eager runs whose operators' results are moved by
a rounding (tolerances.py).

A fifth of PYJIT_EXAMPLES is the number of programs.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import module_of
from Integration.step_programs import Program, draw
from Integration.tolerances import Noise

EXAMPLES = int(os.environ.get("PYJIT_EXAMPLES", "100"))
NOISES = 4
# A program whose numbers are beyond this has diverged: what overflows in eager's order of operations need not in ours.
DIVERGED = 1e6
# Of the largest number of a tensor, and of what noise moved.
CLOSE = {torch.float64: 1e-7, torch.float32: 1e-5, torch.bfloat16: 2e-2}
FACTOR = 16.0

# Where a program ends. Eager says no where a saved tensor was written, and where a loss of two types
# goes backward; a compiled call keeps what was saved, and converts (docs/Training.md).
EAGERS_ERRORS = (
    "has been modified by an inplace operation",
    "Found dtype Float but expected BFloat16",
)
# Operators without a second derivative.
OUR_ERRORS = "a compiled call has no gradients of gradients"

Compile = Callable[[Any], Any]
Seen = list[tuple[str, Any]]


class Run:
    """A program that goes on step by step."""

    def __init__(self, program: Program, compile: Compile) -> None:
        self.program = program
        before = torch.get_default_dtype()
        try:
            torch.manual_seed(0)
            self.module = module_of(program.source())
        finally:
            torch.set_default_dtype(before)
        self.compiled = None
        if program.compiled:
            name = {"model": "call", "loss": "loss_of"}.get(
                program.compiled, program.compiled
            )
            self.compiled = compile(getattr(self.module, name))
            setattr(self.module, name, self.compiled)
        self.results: list[Any] = []

    def data(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        program, module = self.program, self.module
        generator = torch.Generator().manual_seed(number)
        dtype = getattr(torch, program.dtype)
        shape = module.shape(program.rows[number])
        if program.base == "tokens":
            x = torch.randint(0, 11, shape, generator=generator)
            shape = (*shape, 8)
        else:
            x = torch.randn(shape, generator=generator, dtype=dtype)
        y = torch.randn(shape, generator=generator, dtype=dtype)
        if "transposed" in program.marks:
            x = x.transpose(0, 1).contiguous().transpose(0, 1)
        return x, y

    def step(self, number: int) -> Seen:
        """Makes a step; what can be seen then."""
        module = self.module
        torch.manual_seed(100 + number)
        errors = []
        for when, line in self.program.events:
            if when == number:
                try:
                    exec(line, module.__dict__)
                except Exception as error:
                    errors.append(of_error(error))
        x, y = self.data(number)
        given = {"x": x, "y": y, "model": module.model, "optimizer": module.optimizer}
        arguments = [given[name] for name in self.program.arguments.split(", ")]
        around = (
            torch.autocast("cpu", torch.bfloat16)
            if self.program.autocast == "call"
            else contextlib.nullcontext()
        )
        result: Any = None
        try:
            with around:
                result = module.step(*arguments)
        except Exception as error:
            errors.append(of_error(error))
        drawn = torch.get_rng_state()
        self.results.append(result)
        del self.results[:-2]
        seen: Seen = [("errors", errors), ("random state", drawn)]
        known = self.known(x, y)
        for name, value in {"result": result, **known}.items():
            seen += shown(name, value, known)
        for name, value in self.others():
            seen += shown(name, value, known)
        return seen

    def diverged(self) -> bool:
        return any(size_of(p) > DIVERGED for p in self.module.model.parameters())

    def known(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        model = self.module.model
        found = {"x": x, "y": y, **dict(model.named_parameters())}
        found |= dict(model.named_buffers())
        grads = {f"{n}.grad": p.grad for n, p in found.items() if p.is_leaf}
        return found | {n: g for n, g in grads.items() if g is not None}

    def others(self) -> Iterator[tuple[str, Any]]:
        module = self.module
        for i, (p, slots) in enumerate(module.optimizer.state.items()):
            yield f"state {i}", (slots, p.shape if hasattr(p, "shape") else p)
        for i, group in enumerate(module.optimizer.param_groups):
            yield f"group {i}", {k: v for k, v in group.items() if k != "params"}
        yield "model.calls", module.model.calls
        yield "model.seen", module.model.seen
        yield "training", [m.training for m in module.model.modules()]
        yield "log", module.LOG
        yield "kept", module.KEPT
        yield "ema", module.ema
        for name in ("target", "critic"):
            weights = list(getattr(module, name).parameters())
            yield name, weights
            yield f"{name}.grad", [p.grad for p in weights]
        yield "earlier results", self.results[:-1]


def of_error(error: Exception) -> str:
    text = re.sub(r"0x[0-9a-f]+", "0x", str(error).split("\n")[0])
    return f"{type(error).__name__}: {text}"


def shown(name: str, value: Any, known: dict[str, torch.Tensor]) -> Seen:
    """Facts and numbers, as pairs of a name and a value that later steps leave alone."""
    if isinstance(value, torch.Tensor):
        memory = value.untyped_storage().data_ptr()
        shares = [
            n for n, t in known.items() if t.untyped_storage().data_ptr() == memory
        ]
        facts = {
            "type": type(value).__name__,
            "dtype": value.dtype,
            "shape": tuple(value.shape),
            "requires_grad": value.requires_grad,
            "is_leaf": value.is_leaf,
            "has grad_fn": value.grad_fn is not None,
            "is": [n for n, t in known.items() if t is value],
            "shares": shares if value.numel() else [],
        }
        if not any(
            part in name for part in ("grad", "result", "kept", "seen", "state")
        ):
            facts["version"] = value._version
            facts["stride"] = value.stride()
        found: Seen = [(f"{name}.{key}", fact) for key, fact in facts.items()]
        if value.is_leaf and value.grad is not None:
            found.append((f"{name} has a gradient", True))
        return [*found, (name, value.detach().clone())]
    if isinstance(value, dict):
        return [
            pair for k, v in value.items() for pair in shown(f"{name}[{k!r}]", v, known)
        ]
    if isinstance(value, (list, tuple)):
        found = [(f"len({name})", len(value))]
        for i, v in enumerate(value):
            found += shown(f"{name}[{i}]", v, known)
        return found
    if callable(value):
        return [(name, type(value).__name__)]
    return [(name, value)]


def size_of(tensor: torch.Tensor) -> float:
    finite = tensor.detach().double().abs()
    finite = finite[finite.isfinite()]
    return float(finite.max()) if finite.numel() else 0.0


def distance(want: Any, have: Any) -> float:
    """Between two tensors or numbers; infinite where they are not of one kind."""
    want, have = torch.as_tensor(want), torch.as_tensor(have)
    if want.shape != have.shape or want.dtype != have.dtype:
        return torch.inf
    if want.numel() == 0:
        return 0.0
    a, b = want.double(), have.double()
    far = torch.where((a == b) | (a.isnan() & b.isnan()), 0.0, (a - b).abs())
    return float(far.nan_to_num(torch.inf).max())


def is_inexact(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.dtype.is_floating_point
    return isinstance(value, float)


def allowed(want: Any, low: torch.dtype) -> float:
    dtype = want.dtype if isinstance(want, torch.Tensor) else low
    scale = size_of(torch.as_tensor(want))
    close = max(CLOSE[dtype], CLOSE[low])
    return close * max(scale, 1e-2)


def unequal(want: Seen, have: Seen, low: torch.dtype) -> list[str]:
    """The names of what differs."""
    if want[0] != have[0]:
        return [f"errors: eager {want[0][1]}, pyjit {have[0][1]}"]
    if (names := [n for n, _ in want]) != [n for n, _ in have]:
        only = set(names).symmetric_difference(n for n, _ in have)
        return [f"only on one side: {sorted(only)[:6]}"]
    found = []
    for (name, w), (_, h) in zip(want, have, strict=True):
        if is_inexact(w) and is_inexact(h):
            if not distance(w, h) <= allowed(w, low):
                found.append(name)
        elif isinstance(w, torch.Tensor):
            if not (isinstance(h, torch.Tensor) and torch.equal(w, h)):
                found.append(name)
        elif type(w) is not type(h) or w != h:
            found.append(f"{name}: eager {w!r}, pyjit {h!r}")
    return found


class Noisy:
    """What other roundings make of a program, computed when it is asked for."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.runs: list[list[Seen]] = []

    def run(self, seed: int, steps: int) -> list[Seen]:
        one = Run(replace(self.program, compiled=""), lambda f: f)
        found = []
        for number in range(steps):
            with Noise(seed):
                seen = one.step(number)
            found.append(seen)
        return found

    def spread(self, step: int, name: str, want: Any) -> float:
        if len(self.runs[:1]) == 0 or len(self.runs[0]) <= step:
            self.runs = [self.run(seed, step + 1) for seed in range(NOISES)]
        values = [dict(run[step]).get(name) for run in self.runs]
        if any(not is_inexact(v) for v in values):
            return torch.inf  # another way was taken
        return max(distance(want, v) for v in values)


def check(
    number: int, program: Program | None = None, plain: bool = False
) -> dict[str, Any]:
    """Compares a program with eager; what the compiled function says of itself."""
    program = program or draw(random.Random(number), plain)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return compare(program)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{program!r}\n{tail(program)}") from None


def tail(program: Program) -> str:
    return program.source().split("class Model")[-1]


def compare(program: Program) -> dict[str, Any]:
    low = torch.bfloat16 if program.autocast else getattr(torch, program.dtype)
    eager = Run(program, lambda f: f)
    ours = Run(program, lambda f: pyjit.compile(f))
    noisy = Noisy(program)
    for number in range(len(program.rows)):
        want = eager.step(number)
        if any(text in error for error in want[0][1] for text in EAGERS_ERRORS):
            break
        if eager.diverged():
            break
        have = ours.step(number)
        if any(OUR_ERRORS in error for error in have[0][1]):
            break
        names = unequal(want, have, low)
        of_want, of_have = dict(want), dict(have)
        for name in names:
            what = f"step {number}, {name}"
            w, h = of_want.get(name), of_have.get(name)
            assert is_inexact(w), what
            spread = noisy.spread(number, name, w)
            bound = FACTOR * spread + allowed(w, low)
            assert distance(w, h) <= bound, (
                f"{what}: {distance(w, h):.3g} apart, {bound:.3g} allowed, size"
                f" {size_of(torch.as_tensor(w)):.3g}\n{w}\n{h}"
            )
    return pyjit.stats(ours.compiled) if ours.compiled else {}


def way(program: Program) -> str:
    """In which way a program differs, as far as the first words say; nothing where it does not."""
    try:
        check(0, program)
    except Exception as error:
        text = str(error)
        found = re.search(r"step \d+, ([\w.' ]+)", text)
        return f"{type(error).__name__} {found.group(1)[:8] if found else text[:40]}"
    return ""


def reduced(
    program: Program, limit: int = 400, differs: Callable[[Program], str] = way
) -> Program:
    """A smaller program that differs in the same way."""
    how = differs(program)
    found = bool(how)
    while found:
        found = False
        for other in program.smaller():
            limit -= 1
            if limit < 0:
                return program
            if differs(other) == how:
                program, found = other, True
                break
    return program


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("seed", range(EXAMPLES // 10))
def test_random_steps(seed: int, plain: bool) -> None:
    check(seed, plain=plain)


def test_a_wrong_step_is_found() -> None:
    """The comparison sees a parameter, a gradient, a version and a random number that are not eager's."""
    program = Program(
        layers=(("self.l = nn.Linear(8, 8)", "h = F.dropout(self.l(h), 0.5)"),),
        step=("loss = call(x).mean()", "loss.backward()", "optimizer.step()", "return loss"),
    )  # fmt: skip
    compare(program)
    wrong: list[Callable[[types.ModuleType], object]] = [
        lambda m: m.model.l.weight.data.add_(1e-6),
        lambda m: m.model.l.weight.grad.mul_(1 + 1e-6),
        lambda m: setattr(m.model.l.bias, "grad", None),
        lambda m: torch.rand(1),
        lambda m: m.model.l.bias.detach().add_(0),
        lambda m: setattr(m.model, "calls", 0),
    ]
    for change in wrong:
        eager, other = (Run(program, lambda f: f) for _ in range(2))
        step = other.module.step

        def changed(*args: Any, step: Any = step, change: Any = change, other: Run = other) -> Any:  # fmt: skip
            result = step(*args)
            change(other.module)
            return result

        other.module.step = changed
        assert unequal(eager.step(0), other.step(0), torch.float64)


def test_a_program_is_reduced() -> None:
    """Lines that have nothing to do with the difference are left out."""
    program = replace(draw(random.Random(3)), compiled="step", events=(), setup=())
    rest = len(program.source())
    smallest = reduced(
        program, differs=lambda one: "wrong" if "torch.optim" in one.optimizer else ""
    )
    assert len(smallest.step) == 1 and smallest.layers == ()
    assert len(smallest.source()) < rest
