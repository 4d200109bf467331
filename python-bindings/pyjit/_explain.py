"""``pyjit.explain``: what became of a call, as text."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pyjit import _C, _statistics
from pyjit._module import compiled_call


def explain(fn: Callable) -> Callable[..., str]:
    """Returns a callable that runs ``fn`` and reports on it: graphs, graph breaks with source lines,
    guards, kernels, vendor calls, seconds per stage.

    ``fn`` may be a compiled function (its own specializations are reported) or anything that
    ``pyjit.compile`` takes (it is compiled for the report alone).
    """
    from pyjit._api import compile, engine_of

    if not callable(fn):
        raise TypeError(f"pyjit.explain: {type(fn).__name__!r} object is not callable")
    own = compiled_call(fn) is not None or isinstance(fn, _C.CompiledFunction)
    compiled = fn if own else compile(fn)
    engine = engine_of(compiled, "explain")

    @functools.wraps(fn, updated=())
    def run(*args: Any, **kwargs: Any) -> str:
        compiled(*args, **kwargs)
        return report(engine)

    return run


def report(engine: Any) -> str:
    """The report on an engine's present state."""
    stats = _statistics.stats(engine)
    lines = [
        (
            f"pyjit: {engine.name}: {stats['graphs']} graph(s), {stats['graph_breaks']} graph break(s), {stats['hits']} hit(s), "
            f"{stats['misses']} miss(es), {stats['eager_calls']} eager call(s)"
        )
    ]
    lines += [f"  runs in eager: {reason}" for reason in stats["reasons"]]
    lines += [f"  graph break: {reason}" for reason in stats["graph_break_sites"]]
    if stats["loops"]:
        lines.append(f"  loops that data end, in one program: {stats['loops']}")
    lines += [
        f"  a loop goes round through graph breaks: {why}"
        for why in dict.fromkeys(stats["loops_left"])
    ]
    if stats["branches"]:
        lines.append(
            f"  branches on data, both sides in one program: {stats['branches']}"
        )
    lines += [f"  goes one way so far: {reason}" for reason in stats["speculations"]]
    lines += [
        f"  a branch stays a graph break: {why}" for why in stats["branches_left"]
    ]
    lines += [f"  compiled for each size: {reason}" for reason in stats["fixed_sizes"]]
    lines += [f"  {line}" for line in stats["specialized_sizes"]]
    specializations = [
        (part, specialization)
        for part in engine.engines()
        for specialization in part.compiled.specializations
    ]
    for number, (part, specialization) in enumerate(specializations):
        where = "" if part is engine else f" ({part.name})"
        lines.append(
            f"  graph {number}{where}: {specialization.inputs} inputs, {specialization.guards} guards, {specialization.kernels} kernels, "
            f"{specialization.vendor_calls} vendor calls, {specialization.hits} hits"
        )
        if answers := part.turns.describe(specialization):
            lines.append(f"    {answers}")
        if specialization.symbols:
            lines.append(f"    sizes that may differ: {specialization.symbols}")
        if specialization.hashed:
            lines.append(
                f"    {specialization.hashed} of {specialization.prepared} packed parameters are hashed at each call, because "
                "writes to their memory could go unseen (memory that PyTorch's allocator did not hand out, say; "
                "p.data = p.data.clone() makes it PyTorch's)"
            )
        stages = ", ".join(
            f"{name} {1e3 * seconds:.1f} ms"
            for name, seconds in specialization.stages()
        )
        lines.append(f"    compiled in: {stages}")
        for topic in ("guards", "fusion", "kernels", "cudagraph", "launch"):
            text = specialization.text(topic)
            if text:
                lines.append(f"    {topic}:")
                lines += [f"      {line}" for line in text.splitlines()]
    return "\n".join(lines)
