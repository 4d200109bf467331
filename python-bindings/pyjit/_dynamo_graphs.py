# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which engines are behind what ``torch.compile(backend="pyjit")`` returned.

Dynamo's backends are not told whose graph they get. But a trace knows the code that it has gone through: first
the function's own, or, behind a graph break, code that Dynamo made of it. So all instances of one class share
their graphs here, as they share the code of ``forward``.
"""

from __future__ import annotations

import sys
import weakref
from types import CodeType
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from pyjit._engine import Engine

_traced: weakref.WeakKeyDictionary[Engine, CodeType] = weakref.WeakKeyDictionary()


def note(engine: Engine) -> None:
    """Called while Dynamo compiles a graph: the engine answers for it."""
    from torch._guards import TracingContext

    traced = TracingContext.get_traced_code() if TracingContext.try_get() else None
    if traced:
        _traced[engine] = _original_code(traced[0])


def _original_code(code: CodeType) -> CodeType:
    """Of what Dynamo made to go on behind a graph break: the code that it goes on with."""
    from torch._dynamo.resume_execution import ContinueExecutionCache

    while (
        known := ContinueExecutionCache.generated_code_metadata.get(code)
    ) is not None:
        code = known.code
    return code


def _original(thing: Any) -> Any:
    """What torch.compile was given, or None."""
    dynamo = sys.modules.get("torch._dynamo.eval_frame")
    if dynamo is None:
        return None
    if isinstance(thing, dynamo.OptimizedModule):
        return thing._orig_mod
    if isinstance(thing, torch.nn.Module | type):
        return None
    return getattr(thing, "_torchdynamo_orig_callable", None)


def is_dynamos(thing: Any) -> bool:
    return _original(thing) is not None


def of(thing: Any) -> list[Engine]:
    """The engines of its graphs, in no order."""
    original = _original(thing)
    if isinstance(original, torch.nn.Module):
        original = original.forward
    original = getattr(original, "__func__", original)
    code = getattr(original, "__code__", None)
    if code is None:
        return []
    return [engine for engine, first in list(_traced.items()) if first is code]
