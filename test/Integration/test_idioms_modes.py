# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What hand-written inference code is full of: modes, contexts, copies, things that are so in the
first call only. One graph, unless a test names the graph break."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import enum
import functools
import logging
import sys
import types
import typing
import warnings
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, attempt, scenario, values
from torch import nn

# ---- inference mode --------------------------------------------------------------------------


@scenario
def test_inference_mode_inside(compile: Compile) -> Steps:
    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            return torch.relu(x) * 2

    fast = compile(f)
    for seed in range(3):
        y = fast(values(4, 8, seed=seed))
        # "Inplace update to inference tensor …"
        yield y, attempt(lambda y=y: y.add_(1)), y + 1, torch.is_grad_enabled()


@scenario
def test_inference_mode_around_a_function_and_a_method(compile: Compile) -> Steps:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)
            self.norm = nn.LayerNorm(8)

        @torch.inference_mode()
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.gelu(self.norm(self.linear(x)))

    torch.manual_seed(0)
    model = Model().eval()
    fast = compile(model)
    for seed in range(3):
        yield fast(values(4, 8, seed=seed))
    model.linear.weight.data.mul_(2)
    yield fast(values(4, 8))


@scenario
def test_what_is_made_behind_inference_mode_is_not_of_it(compile: Compile) -> Steps:
    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            y = torch.relu(x) * 2
        return y + 1

    fast = compile(f)
    for seed in range(3):
        y = fast(values(4, 8, seed=seed))
        yield y, y.is_inference(), y.add_(1)


@scenario
def test_views_of_inputs_in_inference_mode_are_of_the_inputs(compile: Compile) -> Steps:
    def f(x: torch.Tensor) -> Any:
        with torch.inference_mode():
            x.mul_(2)
            return x[1:], x.t(), x * 3

    fast = compile(f)
    for seed in range(3):
        x = values(4, 8, seed=seed)
        found = fast(x)
        yield found, [t.is_inference() for t in found], x


@scenario
def test_a_function_that_is_called_in_both_modes(compile: Compile) -> Steps:
    fast = compile(lambda x: torch.tanh(x) * 2)
    for mode in (True, True, False, False, True, False):
        with torch.inference_mode(mode):
            yield fast(values(4))


@scenario(
    graph_breaks=("Torch's global state", "__exit__"),
    captured="late",
)
def test_a_branch_on_data_in_inference_mode(compile: Compile) -> Steps:
    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            y = x * 2
            y = y + 1 if y.sum() > 0 else y - 1
        return y

    fast = compile(f)
    for seed in range(8):
        yield fast(values(4, seed=seed))


@scenario(
    graph_breaks=("of inference mode beside one that is not", "__exit__"),
    captured="late",
)
def test_tensors_of_both_modes_leave(compile: Compile) -> Steps:
    def f(x: torch.Tensor) -> Any:
        y = x * 2
        with torch.inference_mode():
            return y, x + 1

    fast = compile(f)
    for seed in range(4):
        yield fast(values(4, seed=seed))


# ---- contexts --------------------------------------------------------------------------------


@scenario
def test_exit_stack(compile: Compile) -> Steps:
    def f(x: torch.Tensor) -> Any:
        log: list[str] = []
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            stack.enter_context(contextlib.nullcontext())
            stack.callback(log.append, "left")
            y = x * 2
        return y + 1, log

    fast = compile(f)
    for seed in range(3):
        yield fast(values(4, seed=seed))


@scenario(captured="late", graph_breaks="native function sys.exc")
def test_the_exception_that_is_handled(compile: Compile) -> Steps:
    def f(x: torch.Tensor) -> Any:
        error = sys.exc_info()[1]
        return x * 2 if error is None else x * len(str(error)), sys.exception() is None

    fast = compile(f)
    for seed in range(3):
        yield fast(values(4, seed=seed))
        try:
            raise KeyError("outer")
        except KeyError:
            yield fast(values(4, seed=seed))


@scenario(captured="late")
def test_a_logger(compile: Compile) -> Steps:
    logger = logging.getLogger("pyjit_test_modes")
    logger.manager._clear_cache()

    def f(x: torch.Tensor) -> torch.Tensor:
        logger.debug("a tensor of %s", x.shape)
        return x * 2 if logger.isEnabledFor(logging.INFO) else x * 3

    fast = compile(f)
    for level in (logging.WARNING, logging.INFO, logging.WARNING):
        logger.setLevel(level)
        for seed in range(6):
            yield fast(values(4, seed=seed))


@scenario(captured="late", graph_breaks="a call of Logger._log")
def test_a_logger_that_writes(compile: Compile) -> Steps:
    """One graph break for each record, which tells of the place that logs."""
    logger, told = logging.getLogger("pyjit_test_writes"), []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append((record.getMessage(), record.funcName, record.lineno))

    logger.propagate = False
    logger.handlers = [Handler()]
    logger.setLevel(logging.INFO)

    def inner(x: torch.Tensor) -> torch.Tensor:
        logger.info("of %d elements", x.numel())
        return x * 2

    def outer(x: torch.Tensor) -> torch.Tensor:
        y = inner(x.sin())
        logger.warning("half")
        return y + 1

    fast = compile(outer)
    for seed in range(6):
        yield fast(values(3 + seed // 3, seed=seed)), list(told)


# ---- objects that are passed on unseen ---------------------------------------------------------


class Mode(enum.Enum):
    A = "a"
    B = "b"


class Point(typing.NamedTuple):
    x: float
    y: torch.Tensor


@scenario(captured="late", graph_breaks=ANY)
def test_an_unseen_value_is_met_by_its_name(compile: Compile) -> Steps:
    """`m` was taken for the constant that it was compared with."""

    def f(x: torch.Tensor) -> Any:
        out = []
        for m in (Mode.A, Mode.B, Point(1.0, x)):
            match m:
                case Mode.A:
                    out.append(x + 1)
                case Mode.B:
                    out.append(x - 1)
                case Point(x=1.0, y=t):
                    out.append(t * 2)
        return out

    fast = compile(f)
    for seed in range(6):
        yield fast(values(2, 2, seed=seed))


# ---- copies ----------------------------------------------------------------------------------


@dataclasses.dataclass
class Options:
    scale: float = 2.0
    names: list[str] = dataclasses.field(default_factory=list)


@scenario(captured="late")
def test_copy_of_an_object(compile: Compile) -> Steps:
    options = Options(3.0, ["a"])

    def f(x: torch.Tensor) -> Any:
        own = copy.copy(options)
        own.scale += 1
        return x * own.scale + options.scale, own

    fast = compile(f)
    for seed in range(4):
        yield fast(values(4, seed=seed))
    options.scale = 7.0
    yield fast(values(4))
    _, own = fast(values(4))
    own.names.append("b")
    own.more = 1
    yield options, own


# ---- so in the first call only -----------------------------------------------------------------


@scenario(captured="late")
def test_a_cached_function(compile: Compile) -> Steps:
    calls: list[int] = []

    @functools.cache
    def frequencies(n: int) -> torch.Tensor:
        calls.append(n)
        return torch.arange(n) * 0.5

    fast = compile(lambda x: x * frequencies(x.shape[-1]))
    for n in (4, 4, 4, 5, 5, 5, 4):
        yield fast(values(2, n)), list(calls)


@scenario(captured="late")
def test_an_import_inside(compile: Compile) -> Steps:
    name = "pyjit_test_lazy_module"

    def f(x: torch.Tensor) -> torch.Tensor:
        import pyjit_test_lazy_module as lazy  # type: ignore[import-not-found]

        return x * lazy.K

    class Finder:
        @staticmethod
        def find_spec(full: str, path: Any = None, target: Any = None) -> Any:
            from importlib.machinery import ModuleSpec

            return ModuleSpec(full, Finder) if full == name else None

        @staticmethod
        def create_module(spec: Any) -> types.ModuleType:
            return types.ModuleType(spec.name)

        @staticmethod
        def exec_module(module: types.ModuleType) -> None:
            module.K = 3

    sys.modules.pop(name, None)
    sys.meta_path.append(Finder)
    try:
        fast = compile(f)
        for seed in range(4):
            yield fast(values(4, seed=seed))
        sys.modules[name].K = 4
        yield fast(values(4))
    finally:
        sys.meta_path.remove(Finder)
        sys.modules.pop(name, None)


def _warn(x: torch.Tensor) -> torch.Tensor:
    warnings.warn("be careful", stacklevel=1)
    return x * 2


def _shown(fast: Any, x: torch.Tensor) -> Any:
    caught: list[str] = []
    before = warnings.showwarning
    warnings.showwarning = lambda message, *_: caught.append(str(message))
    try:
        return fast(x), caught
    finally:
        warnings.showwarning = before


@scenario(captured="late", graph_breaks=("a warning that",))
def test_a_warning_that_is_shown_once(compile: Compile) -> Steps:
    fast = compile(_warn)
    globals().pop("__warningregistry__", None)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        for seed in range(4):
            yield _shown(fast, values(4, seed=seed))
        with warnings.catch_warnings():  # the notes are out of date
            yield _shown(fast, values(4))
        yield _shown(fast, values(4))
        warnings.simplefilter("always")
        for _ in range(4):
            yield _shown(fast, values(4))


@scenario(captured="late", graph_breaks=("a warning that",))
def test_a_warning_that_is_ignored(compile: Compile) -> Steps:
    fast = compile(_warn)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="be careful")
        for seed in range(4):
            yield _shown(fast, values(4, seed=seed))
        for _ in range(4):
            with warnings.catch_warnings():
                warnings.simplefilter("always")
                yield _shown(fast, values(4))
            yield _shown(fast, values(4))


# ---- tensors -----------------------------------------------------------------------------------


@scenario
def test_data(compile: Compile) -> Steps:
    linear = nn.Linear(4, 4)

    def f(x: torch.Tensor) -> Any:
        y = x * 2
        return (
            F.linear(x, linear.weight.data, linear.bias.data),
            torch.max(x.data, 1)[1],
            y.data,
            y.data.requires_grad,
            linear.weight.data.requires_grad,
        )

    fast = compile(f)
    for seed in range(3):
        x = values(4, 4, seed=seed)
        found = fast(x)
        linear.weight.data.mul_(2)
        yield found, x, linear.weight, fast(x)


@scenario(graph_breaks="that shows the .data of another one", captured="late")
def test_data_that_is_handed_out(compile: Compile) -> Steps:
    linear = nn.Linear(4, 4)
    fast = compile(lambda x: (x * 2, linear.weight.data, x.data[1:]))
    for seed in range(5):
        x = values(4, 4, seed=seed)
        found = fast(x)
        found[1].mul_(2)  # it is the weight
        found[2].zero_()
        yield found, x, x._version, linear.weight, linear.weight._version


@scenario(captured="late")
def test_data_that_is_handed_out_has_its_own_version(compile: Compile) -> Steps:
    linear = nn.Linear(4, 4)

    def f(x: torch.Tensor) -> object:
        z = x * 2
        d = z.data
        d.mul_(2)
        z.add_(1)
        return z, d, z[1:], linear.weight.data, x.data

    fast = compile(f)
    for seed in range(4):
        x = values(4, 4, seed=seed)
        found = fast(x)
        yield found, x._version, [t._is_view() for t in found]
        found[1].mul_(2)  # it is z
        found[3].mul_(2)  # it is the weight
        found[4].add_(1)  # it is x
        yield found, x, x._version, linear.weight, linear.weight._version


@scenario(grad=True, graph_breaks="writes a tensor's `.data`", captured="late")
def test_data_is_written_behind_a_graph_break(compile: Compile) -> Steps:
    """The backward of what it is the data of does not see the write: it raised."""

    def f(x: torch.Tensor) -> torch.Tensor:
        e = x.exp()
        e.data.clamp_(max=2.0)
        return e

    fast = compile(f)
    for seed in range(4):
        x = values(4, seed=seed).requires_grad_()
        y = fast(x)
        y.sum().backward()
        yield y, x.grad


@scenario(captured="late")
def test_data_is_handed_out_behind_a_branch(compile: Compile) -> Steps:
    def f(x: torch.Tensor) -> object:
        y = x + 1 if x.sum() > 0 else x - 1
        z = y * 2
        d = z.data
        d.mul_(2)
        z.add_(1).add_(1)
        return z, d

    fast = compile(f)
    for seed in range(8):
        x = values(4, seed=seed)
        found = fast(x)
        yield found
        found[1].zero_()
        yield found


@scenario
def test_writes_to_data(compile: Compile) -> Steps:
    def f(x: torch.Tensor) -> torch.Tensor:
        x.data.mul_(2)
        return x + 1

    fast = compile(f)
    for seed in range(5):
        x = values(4, seed=seed)
        yield fast(x), x, x._version


@scenario
def test_a_plain_subclass(compile: Compile) -> Steps:
    class Packed(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

    packed = torch.Tensor._make_subclass(Packed, torch.ones(4))
    packed.scale = 3.0
    fast = compile(lambda x: (x * packed * packed.scale, packed))
    for seed in range(3):
        yield fast(values(4, seed=seed))
    packed.scale = 4.0
    yield fast(values(4))
    packed.mul_(2)
    yield fast(values(4))


@scenario
def test_numpy_makes_a_number_of_a_shape(compile: Compile) -> Steps:
    def f(x: torch.Tensor) -> Any:
        n = int(np.prod(x.shape[1:]))
        return (
            x.reshape(-1, n) / np.prod(x.shape),
            x * np.mean([1.0, 2.0]),
            np.max((3, 4)),
        )

    fast = compile(f)
    for shape in ((2, 3, 4), (2, 3, 4), (3, 3, 4), (3, 3, 4), (2, 5, 4), (2, 3, 4)):
        yield fast(values(*shape))
