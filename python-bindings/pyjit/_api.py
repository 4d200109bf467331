# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``pyjit.compile`` and what can be asked of its results."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch

from pyjit import _C, _dynamo_graphs, _statistics
from pyjit._engine import Engine
from pyjit._module import compile_module, compiled_call
from pyjit._settings import Settings

_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


def compile(
    model: Callable | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str = "pyjit",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    name: str | None = None,
) -> Any:
    """Returns a callable that computes what ``model`` computes, faster.

    The first call with a new kind of input runs eagerly under observation and is compiled; later
    calls that pass its guards run compiled code. What pyjit does not support runs in eager
    PyTorch; ``pyjit.explain`` says why.

    ``model`` is a function, a method, an ``nn.Module`` (the result is an instance of its class
    that shares its state) or any other callable; without it, the result is a decorator.
    ``fullgraph=True``: where a call cannot be captured as one graph, it is answered, with a warning, and the next
    such call raises ``CaptureError`` before it does anything.
    ``dynamic``: sizes are symbols from the first call on (``True``), in no call (``False``), or once they
    differed between calls (``None``).
    ``mode``: ``default``, ``reduce-overhead`` and ``max-autotune`` mean the same here, for the way to launch is
    measured; ``max-autotune-no-cudagraphs`` launches without CUDA graphs.
    ``options``: ``recompile_limit`` (or ``max_records``), ``fallback``, ``strict``, ``eager_rounding``,
    ``launch``, ``compare_with_eager``: docs/Options.md.

    Raises ``TypeError`` for something that cannot be called, ``ValueError`` for unknown settings.
    """
    settings = Settings.of(
        fullgraph=fullgraph,
        dynamic=dynamic,
        backend=backend,
        mode=mode,
        options=options,
        name=name,
    )
    decorator = functools.partial(
        compile,
        fullgraph=fullgraph,
        dynamic=dynamic,
        backend=backend,
        mode=mode,
        options=options,
        disable=disable,
        name=name,
    )
    if model is None:
        return decorator
    if isinstance(model, (staticmethod, classmethod)):
        return type(model)(decorator(model.__func__))
    if not callable(model):
        raise TypeError(
            f"pyjit.compile: {type(model).__name__!r} object is not callable"
        )
    if disable:
        return model
    if isinstance(model, _C.CompiledFunction) or compiled_call(model) is not None:
        return model
    return compile_with(model, settings)


def compile_with(model: Callable, settings: Settings) -> Any:
    """``compile`` with settings that are already validated."""
    engine = Engine(model, settings)
    _engines.add(engine)
    if isinstance(model, torch.nn.Module):
        return compile_module(model, engine.compiled, settings)
    functools.update_wrapper(engine.compiled, model)
    return engine.compiled


def is_compiled(thing: Any) -> bool:
    """Whether ``pyjit.compile``, or ``torch.compile(backend="pyjit")``, returned it."""
    if isinstance(thing, _C.CompiledFunction) or compiled_call(thing) is not None:
        return True
    return _dynamo_graphs.is_dynamos(thing)


def engines_of(compiled: Any, caller: str) -> list[Engine]:
    """The engines behind a compiled function: one, or those of the graphs that Dynamo has handed over."""
    if _dynamo_graphs.is_dynamos(compiled):
        return _dynamo_graphs.of(compiled)
    return [engine_of(compiled, caller)]


def engine_of(compiled: Any, caller: str) -> Engine:
    """The engine behind what ``pyjit.compile`` returned."""
    call = compiled_call(compiled)
    if call is None and isinstance(compiled, _C.CompiledFunction):
        call = compiled
    if call is None:
        raise TypeError(
            f"pyjit.{caller}: {type(compiled).__name__!r} object was not made by pyjit.compile"
        )
    return call.engine


def stats(compiled: Any) -> _statistics.Statistics:
    """What a compiled function has come to, as a dict whose keys are attributes, too (``Statistics.FIELDS``
    says what each is). Of the result of ``torch.compile(backend="pyjit")``: all of its graphs together."""
    return _statistics.stats(*engines_of(compiled, "stats"))


def specializations(compiled: Any) -> list[dict[str, Any]]:
    """One dict per specialization that is kept, in the order in which calls ask them: those made for one size before
    those for all sizes, most recently hit first."""
    return _statistics.describe_specializations(engine_of(compiled, "specializations"))


def records(compiled: Any) -> list[dict[str, Any]]:
    """The former name of ``specializations``."""
    return specializations(compiled)


def reset() -> None:
    """Forgets every specialization and counter of every compiled function."""
    for engine in list(_engines):
        engine.reset()


def disable(fn: Callable) -> Callable:
    """Marks ``fn`` as never captured: a capture that reaches it ends there."""
    if not callable(fn):
        raise TypeError(f"pyjit.disable: {type(fn).__name__!r} object is not callable")

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        return _C.call_disabled(fn, args, kwargs)

    return call


def is_compiling() -> bool:
    """Whether this thread is inside a recording; so it is true in what is compiled of one, too. It breaks no graph.

    ``torch.compiler.is_compiling()`` is false there, as in eager."""
    return _C.is_capturing()
