# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``torch.compile(model, backend="pyjit")``: Dynamo in front, pyjit behind.

Dynamo hands over a graph as a module made of Python code, which pyjit captures like any other.
Found by torch through the entry point ``torch_dynamo_backends``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx._lazy_graph_module import _LazyGraphModule

from pyjit import _dynamo_graphs
from pyjit._api import compile, engine_of


def _power(base: Any, exponent: Any) -> Any:
    return base**exponent


def _bracket_bases(graph: torch.fx.GraphModule) -> None:
    """The code that FX makes of ``operator.pow`` has no brackets: of a base that is -2, ``-2 ** x`` is
    ``-(2 ** x)``."""
    for node in graph.graph.nodes:
        if node.target is operator.pow and isinstance(node.args[0], int | float):
            node.target = _power


def backend(
    graph: torch.fx.GraphModule,
    example_inputs: list[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable:
    """Compiles a graph of Dynamo's. ``options`` are those of ``pyjit.compile``."""
    _bracket_bases(graph)
    graph.recompile()
    # Its first call would write the code.
    _LazyGraphModule.force_recompile(graph)
    # What its graphs call has been through Dynamo.
    options = {**(options or {}), "compile_modules": False}
    compiled = compile(graph.forward, mode=mode, options=options, name="dynamo_graph")
    _dynamo_graphs.note(engine_of(compiled, "compile"))
    return compiled
