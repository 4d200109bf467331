"""What ``pyjit-trace`` runs inside its interpreter: a script, one call of it traced."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyjit._trace import Trace, trace


def trace_script(script: str, function: str, output: str, arguments: list[str]) -> str:
    """Runs ``script`` as ``__main__`` and writes the trace of the first call of ``function``, a
    name that the script binds at its top level; ``-`` is standard output. Returns what went wrong, or an empty string.
    """
    try:
        source = Path(script).read_text()
        tree = ast.parse(source, script)
    except (OSError, SyntaxError) as error:
        return f"{script}: {error}"
    traces: list[Trace] = []
    tree.body = [
        part for statement in tree.body for part in _observed(statement, function)
    ]
    main = type(sys)("__main__")
    main.__file__ = script
    main.__dict__["__pyjit_trace__"] = lambda fn: _first_call_traced(fn, traces)
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


def _observed(statement: ast.stmt, name: str) -> list[ast.stmt]:
    """The statement, and after one that binds ``name``, its rebinding to the observed form."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    binds = (isinstance(statement, ast.FunctionDef) and statement.name == name) or any(
        isinstance(target, ast.Name) and target.id == name for target in targets
    )
    if not binds:
        return [statement]
    rebind = ast.parse(f"{name} = __pyjit_trace__({name})").body[0]
    return [statement, ast.copy_location(rebind, statement)]


def _first_call_traced(fn: Callable, traces: list[Trace]) -> Callable:
    def call(*args: Any, **kwargs: Any) -> Any:
        if traces:
            return fn(*args, **kwargs)
        traces.append(trace(fn)(*args, **kwargs))
        return traces[0].result

    return call
