# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What ``pyjit-trace`` runs inside its interpreter: a script, one call of it traced."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import torch

from pyjit._trace import Trace, trace

_OBSERVE = "__pyjit_trace__"


def trace_script(script: str, function: str, output: str, arguments: list[str]) -> str:
    """Runs ``script`` as ``__main__`` and writes the trace of the first call of ``function``; ``-`` is standard
    output. Returns what went wrong, or an empty string.

    ``function`` is a name that the script binds, in any scope: ``f``, ``Model.forward``, ``main.step``; of a
    class, its ``forward`` or ``__call__``; of a variable that holds a module, the module's calls.
    """
    try:
        source = Path(script).read_text()
        tree = ast.parse(source, script)
    except (OSError, SyntaxError) as error:
        return f"{script}: {error}"
    observer = _Observer(function.replace(".<locals>", ""))
    tree = observer.visit(tree)
    if not observer.found:
        return f"{script}: binds no {function}; there are {', '.join(observer.known) or 'no functions'}"
    traces: list[Trace] = []
    main = type(sys)("__main__")
    main.__file__ = script
    main.__dict__[_OBSERVE] = lambda fn: _first_call_traced(fn, traces)
    sys.modules["__main__"] = main
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    exec(compile(ast.fix_missing_locations(tree), script, "exec"), main.__dict__)
    if not traces:
        return f"{script}: {function} was never called"
    if traces[0].reason:
        return f"{script}: {function} was not captured: {traces[0].reason}"
    if output == "-":
        sys.stdout.write(traces[0].text)
    else:
        traces[0].save(output)
    return ""


class _Observer(ast.NodeTransformer):
    """Rewrites a script so that what binds one name binds its observed form."""

    def __init__(self, wanted: str) -> None:
        self.wanted = wanted
        self.found = False
        # Functions and methods, for the message where the name is none of them.
        self.known: list[str] = []
        self._scope: list[str] = []

    def _path(self, name: str) -> str:
        return ".".join([*self._scope, name])

    def _is_wanted(self, name: str) -> bool:
        path = self._path(name)
        calls = name in ("forward", "__call__") and path == f"{self.wanted}.{name}"
        return path == self.wanted or (calls and not self.found)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.known.append(self._path(node.name))
        if self._is_wanted(node.name):
            self.found = True
            # What is no function any more, a static method say, stays in front.
            place = 1 + max(
                (i for i, d in enumerate(node.decorator_list) if _is_descriptor(d)),
                default=-1,
            )
            name = ast.Name(_OBSERVE, ast.Load())
            node.decorator_list.insert(place, ast.copy_location(name, node))
        return self._inside(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._inside(node)

    def _inside(self, node: Any) -> ast.AST:
        self._scope.append(node.name)
        try:
            return self.generic_visit(node)
        finally:
            self._scope.pop()

    def visit_Assign(self, node: ast.Assign) -> Any:
        binds = any(
            isinstance(target, ast.Name) and self._path(target.id) == self.wanted
            for target in node.targets
        )
        if not binds:
            return node
        self.found = True
        name = self.wanted.rpartition(".")[2]
        rebind = ast.parse(f"{name} = {_OBSERVE}({name})").body[0]
        return [node, ast.copy_location(rebind, node)]


def _is_descriptor(decorator: ast.expr) -> bool:
    name = decorator.attr if isinstance(decorator, ast.Attribute) else decorator
    name = name.id if isinstance(name, ast.Name) else name
    return name in ("staticmethod", "classmethod", "property", "setter", "getter")


def _first_call_traced(fn: Any, traces: list[Trace]) -> Any:
    if isinstance(fn, torch.nn.Module):
        # It stays the module that the script goes on with.
        fn.forward = _first_call_traced(fn.forward, traces)
        return fn
    if not callable(fn):
        return fn

    def call(*args: Any, **kwargs: Any) -> Any:
        if traces:
            return fn(*args, **kwargs)
        traces.append(trace(fn)(*args, **kwargs))
        return traces[0].result

    return call
