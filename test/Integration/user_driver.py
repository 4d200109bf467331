# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs users' programs through circumstances that change between calls, and compares all that they show with eager.

A program is a factory of a `User`: the function, how its inputs are drawn, and what it keeps. The driver draws the
circumstances: sizes, dtypes, layouts, gradients, modes, threads, training, and the changes of the program's own.
Both tellings make their world anew from one seed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import random
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pyjit
import torch
from Integration.harness import Raised, attempt, difference, snapshot
from torch import nn

LAYOUTS = ("plain", "plain", "transposed", "strided", "offset", "expanded", "parameter")
MODES: dict[str, Callable[[], Any]] = {
    "none": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "device": lambda: torch.device("cpu"),
}
SETTLING = 12
SIZES = (4, 4, 1, 0, 7, 5)


@dataclasses.dataclass(frozen=True)
class Circumstances:
    n: int = 4
    dtype: torch.dtype = torch.float32
    layout: str = "plain"
    gradients: bool = False
    mode: str = "none"
    training: bool = True
    default: torch.dtype = torch.float32
    deterministic: bool = False
    thread: bool = False


CHOICES: dict[str, Callable[[random.Random], Any]] = {
    "n": lambda r: r.choice(SIZES),
    "dtype": lambda r: r.choice((torch.float32, torch.float64, torch.bfloat16)),
    "layout": lambda r: r.choice(LAYOUTS),
    "gradients": lambda r: r.random() < 0.5,
    "mode": lambda r: r.choice(tuple(MODES)),
    "training": lambda r: r.random() < 0.5,
    "default": lambda r: r.choice((torch.float32, torch.float64)),
    "deterministic": lambda r: r.random() < 0.5,
    "thread": lambda r: r.random() < 0.5,
}
# For programs without a mode of their own, where all else stays: what they themselves do differs.
BUT_TRAINING = tuple(name for name in CHOICES if name != "training")


class Draw:
    """Makes the inputs of one call."""

    def __init__(self, now: Circumstances, seed: int) -> None:
        self.now, self.n = now, now.n
        self.generator = torch.Generator().manual_seed(seed)
        self.random = random.Random(seed)

    def floats(self, *shape: int) -> torch.Tensor:
        """Random numbers, laid out as the circumstances say."""
        now = self.now

        def make(*shape: int) -> torch.Tensor:
            drawn = torch.randn(shape, generator=self.generator, dtype=torch.float32)
            return drawn.to(now.dtype)

        if now.layout == "transposed" and len(shape) > 1:
            t = make(*shape[:-2], shape[-1], shape[-2]).transpose(-1, -2)
        elif now.layout == "strided" and shape:
            t = make(*shape[:-1], 2 * shape[-1])[..., ::2]
        elif now.layout == "offset" and shape:
            t = make(shape[0] + 2, *shape[1:])[1:-1]
        elif now.layout == "expanded" and shape:
            t = make(1, *shape[1:]).expand(*shape)
        else:
            t = make(*shape)
        if now.layout == "parameter":
            return nn.Parameter(t)
        return t.requires_grad_(now.gradients)

    def ints(self, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(0, high, shape, generator=self.generator)

    def bools(self, *shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=self.generator) > 0.5


@dataclasses.dataclass
class User:
    f: Callable[..., Any]
    inputs: Callable[[Draw], tuple[Any, ...]]
    state: Any = None  # what is looked at after each call
    changes: tuple[Callable[[], Any], ...] = ()
    fixed: tuple[str, ...] = ()  # circumstances that do not change
    tolerance: float = 1.0
    modules: tuple[nn.Module, ...] = ()


Factory = Callable[[], User]
PROGRAMS: dict[str, Factory] = {}
OF_PARTS: set[str] = set()


def user(factory: Factory) -> Factory:
    """Registers a program whose calls should each be one graph."""
    PROGRAMS[factory.__name__] = factory
    return factory


def user_of_parts(factory: Factory) -> Factory:
    """Registers one that has graph breaks, or that often is not compiled at all."""
    OF_PARTS.add(factory.__name__)
    return user(factory)


def look(value: Any, seen: frozenset[int] = frozenset()) -> Any:
    """What of a kept object can be compared: tensors, their gradients, containers, attributes."""
    if id(value) in seen:
        return "cycle"
    seen |= {id(value)}
    if isinstance(value, torch.Tensor):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            grad = value.grad if value.is_leaf else None
        attributes = (
            {k: look(v, seen) for k, v in vars(value).items()}
            if type(value) in (torch.Tensor, nn.Parameter) and vars(value)
            else {}
        )
        kept = None if grad is None else snapshot(grad.contiguous().clone())
        return ("tensor", attempt_snapshot(value), kept, list(attributes.items()))
    if isinstance(value, nn.Module):
        return (
            type(value).__name__,
            [(k, look(v, seen)) for k, v in value.named_parameters()],
            [(k, look(v, seen)) for k, v in value.named_buffers()],
            [
                (name, k, look(v, seen))
                for name, module in value.named_modules()
                for k, v in vars(module).items()
                if not k.startswith("_") and not isinstance(v, types.FunctionType)
            ],
        )
    if isinstance(value, dict):
        return (
            type(value).__name__,
            [(look(k, seen), look(v, seen)) for k, v in value.items()],
        )
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [look(v, seen) for v in value])
    slots = [n for c in type(value).__mro__ for n in getattr(c, "__slots__", ())]
    if slots and type(value).__module__.startswith("Integration"):
        return (
            type(value).__name__,
            [(n, look(getattr(value, n, "unset"), seen)) for n in slots],
        )
    if (
        dataclasses.is_dataclass(value)
        and not isinstance(value, type)
        or type(value).__module__.startswith("Integration")
        and hasattr(value, "__dict__")
    ):
        if hasattr(value, "__dict__"):
            return (
                type(value).__name__,
                [(k, look(v, seen)) for k, v in vars(value).items()],
            )
        return (
            type(value).__name__,
            [
                look(getattr(value, f.name, "unset"), seen)
                for f in dataclasses.fields(value)
            ],
        )
    if isinstance(value, types.FunctionType):
        return ("function", value.__qualname__)
    if hasattr(type(value), "__next__"):
        return ("iterator", type(value).__name__)
    return attempt_snapshot(value)


def attempt_snapshot(value: Any) -> Any:
    found = attempt(snapshot, value)
    return snapshot(found) if isinstance(found, Raised) else found


def tensors_of(value: Any, depth: int = 0) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if depth > 6:
        return []
    if isinstance(value, dict):
        value = list(value.values())
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = [getattr(value, f.name, None) for f in dataclasses.fields(value)]
    elif not isinstance(value, (list, tuple)):
        return []
    return [t for part in value for t in tensors_of(part, depth + 1)]


def relations(tensors: list[torch.Tensor]) -> list[object]:
    """Of each tensor the first that has its memory, the first that is it, and the one that it is a view of."""

    def first(holds: Callable[[torch.Tensor], bool]) -> int | None:
        return next((i for i, t in enumerate(tensors) if holds(t)), None)

    def place(t: torch.Tensor) -> int:
        return t.untyped_storage().data_ptr() if t.numel() else id(t)

    def base(t: torch.Tensor) -> Any:
        return None if t.is_inference() else t._base

    return [
        (
            first(lambda o, t=t: place(o) == place(t)),
            first(lambda o, t=t: o is t),
            first(lambda o, t=t: o is base(t)),
            t.storage_offset(),
            attempt_snapshot(t.requires_grad),
        )
        for t in tensors
        if t.layout == torch.strided
    ]


def gradients_of(results: list[torch.Tensor], leaves: list[torch.Tensor]) -> object:
    roots = [t for t in results if t.requires_grad]
    grads = torch.autograd.grad(
        roots, leaves, [torch.ones_like(t) for t in roots], allow_unused=True
    )
    # Strides of gradients may differ (docs/Training.md).
    return snapshot(
        [
            None if g is None else torch.empty(g.shape, dtype=g.dtype).copy_(g)
            for g in grads
        ]
    )


def schedule(
    name: str, seed: int, program: User, calls: int
) -> Iterator[tuple[Circumstances, int, int | None]]:
    """Of each call: circumstances, seed of inputs, change that is made before it."""
    r = random.Random(f"{name} {seed}")
    base = Circumstances()
    for _ in range(3):
        yield base, r.randrange(10**6), None
    now = base
    changes = list(range(len(program.changes)))
    while calls > 0:
        if changes and r.random() < 0.4:
            yield now, r.randrange(10**6), changes.pop(0)
            yield now, r.randrange(10**6), None
            calls -= 2
            continue
        open_ones = [c for c in CHOICES if c not in program.fixed]
        kinds = r.sample(open_ones, min(len(open_ones), r.choice((1, 1, 1, 2))))
        if r.random() < 0.4:
            now = base
        now = dataclasses.replace(now, **{c: CHOICES[c](r) for c in kinds})
        for _ in range(r.choice((1, 2, 3))):
            yield now, r.randrange(10**6), None
            calls -= 1
    for change in changes:
        yield base, r.randrange(10**6), change
        yield base, r.randrange(10**6), None
    # What a program settles at: equal calls, but for what it has kept.
    for _ in range(SETTLING):
        yield base, 80, None


@contextlib.contextmanager
def surroundings(now: Circumstances) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(now.default)
    torch.use_deterministic_algorithms(now.deterministic, warn_only=True)
    try:
        with MODES[now.mode]():
            yield
    finally:
        torch.set_default_dtype(before)
        torch.use_deterministic_algorithms(False)


def called(f: Callable[..., Any], args: tuple[Any, ...], now: Circumstances) -> Any:
    def call() -> Any:
        with surroundings(now):
            return attempt(f, *args)

    if not now.thread:
        return call()
    made: list[Any] = []

    def run() -> None:
        # warnings' filters are the process's; printing too.
        made.append(call())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return made[0]


def one_call(
    program: User, f: Callable[..., Any], now: Circumstances, number: int
) -> dict[str, object]:
    """Makes a call and says all that it shows."""
    modules = [*program.modules]
    for module in modules:
        if module.training != now.training:
            module.train(now.training)
    draw = Draw(now, number)
    args = program.inputs(draw)
    torch.manual_seed(number)
    random.seed(number)
    numpy.random.seed(number % 2**32)
    printed = io.StringIO()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with contextlib.redirect_stdout(printed):
            result = called(f, args, now)
    warned = [
        (w.category.__name__, str(w.message).splitlines()[0][:200])
        for w in caught
        if not isinstance(w.message, pyjit.PyjitWarning)
    ]
    pyjits = [
        str(w.message) for w in caught if isinstance(w.message, pyjit.PyjitWarning)
    ]
    flat = tensors_of(result)
    given = tensors_of(args)
    found: dict[str, object] = {
        "result": look(result),
        "arguments": look(args),
        "relations": attempt_snapshot(attempt(relations, [*given, *flat])),
        "printed": printed.getvalue(),
        "warned": warned,
        "random": (
            snapshot(torch.get_rng_state()),
            random.getstate()[1][-1],
            int(numpy.random.get_state()[2]),
        ),
        "state": look(program.state),
        "modules": look(list(modules)),
    }
    leaves = [t for t in given if t.requires_grad and t.is_leaf]
    leaves += [p for m in modules for p in m.parameters() if p.requires_grad]
    if any(t.requires_grad for t in flat) and leaves:
        grads = attempt(gradients_of, flat, leaves)
        found["gradients"] = grads.type.__name__ if isinstance(grads, Raised) else grads
    found["loose"] = now.dtype == torch.bfloat16 or now.mode == "autocast"
    found["pyjit"] = pyjits
    return found


def told(
    name: str, seed: int, compile: Callable[..., Any], calls: int
) -> tuple[list[tuple[Any, dict[str, object]]], User, Any]:
    """What each call shows, with its circumstances."""
    torch.manual_seed(seed)
    random.seed(seed)
    program = PROGRAMS[name]()
    f = compile(program.f)
    seen = []
    for now, number, change in schedule(name, seed, program, calls):
        if change is not None:
            with contextlib.redirect_stdout(io.StringIO()):
                attempt(program.changes[change])
        seen.append(((now, number, change), one_call(program, f, now, number)))
    return seen, program, f


def compared(
    want: dict[str, Any], have: dict[str, Any], tolerance: float
) -> str | None:
    """The first difference of what a call shows."""
    loose = want["loose"]
    for key, value in want.items():
        if key in ("loose", "pyjit"):
            continue
        if key not in have:
            return f"{key}: eager has it, pyjit not"
        with closeness(tolerance, loose):
            found = difference(value, have[key], where=key)
        if found:
            return found
    return None


@contextlib.contextmanager
def closeness(tolerance: float, loose: bool) -> Iterator[None]:
    """Tensors are close within what roundings of the dtype add up to in a network."""

    plain = torch.testing.assert_close

    def close(have: Any, want: Any, equal_nan: bool = True) -> None:
        if not have.dtype.is_floating_point and not have.dtype.is_complex:
            return plain(have, want, equal_nan=equal_nan)
        eps = max(torch.finfo(have.dtype).eps, 1e-7)
        if loose:
            eps = max(eps, 2**-8)
        far = 200 * eps * tolerance if not loose else 12 * eps * tolerance
        return plain(have, want, rtol=far, atol=far, equal_nan=equal_nan)

    torch.testing.assert_close = close
    try:
        yield
    finally:
        torch.testing.assert_close = plain
