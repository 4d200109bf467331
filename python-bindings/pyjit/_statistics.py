"""What an engine has come to, for ``pyjit.stats``, ``pyjit.records`` and PYJIT_LOGS."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pyjit._settings import log_topics

if TYPE_CHECKING:
    from pyjit._engine import Engine


def _unique(items: Iterable[str]) -> list[str]:
    """In the order of their first occurrence."""
    return list(dict.fromkeys(items))


def _first_line(text: str) -> str:
    return next(iter(text.splitlines()), "no message")


def describe_records(root: Engine) -> list[dict[str, Any]]:
    return [
        {
            "function": engine.name,
            "hits": r.hits,
            "guards": r.guards,
            "kernels": r.kernels,
            "library_calls": r.library_calls,
            "inputs": r.inputs,
            "symbols": r.symbols,
            "host_microseconds": r.host_microseconds,
            "prepared": r.prepared,
            "hashed": r.hashed,
            "stages": dict(r.stages()),
        }
        for engine in root.engines()
        for r in engine.compiled.records
    ]


def _comparisons(engines: list[Engine]) -> list[dict[str, Any]]:
    """Records whose calls were timed in turns with eager's."""
    return [
        {
            "function": e.name,
            "compiled_microseconds": 1e6 * known.compiled_seconds,
            "eager_microseconds": 1e6 * known.eager_seconds,
            "answers": "eager" if r.left_to_eager else "record",
        }
        for e in engines
        for r in e.compiled.records
        if (known := e.turns.comparisons.get(r)) and known.looks
    ]


def _reasons(engines: list[Engine], records: list[Any]) -> list[str]:
    """Why calls ran in eager."""
    return [
        *_unique(reason for e in engines for reason in e.reasons),
        *(reason for e in engines for reason in e.turns.reasons()),
        *(
            f"{r.failures} call(s) of a graph raised and ran in eager, the last with: "
            + _first_line(r.last_error)
            for r in records
            if r.failures
        ),
    ]


def _stage_seconds(engines: list[Engine]) -> dict[str, float]:
    total: dict[str, float] = {}
    for engine in engines:
        for stage, seconds in engine.stage_seconds.items():
            total[stage] = total.get(stage, 0.0) + seconds
    return total


def stats(root: Engine) -> dict[str, Any]:
    engines = root.engines()
    records = [r for engine in engines for r in engine.compiled.records]
    return {
        "records": len(records),
        "graphs": len(records),
        "cuts": len(root.cut_sites) + sum(engine.cuts for engine in engines),
        "cut_sites": list(root.cut_sites.values()),
        "loops": root.compiled_loops,
        "loops_left": list(root.loops_left),
        "branches": root.branches.merged,
        # Branches on data that have gone one way so far, which the graphs rely on.
        "expectations": _unique(
            reason
            for e in engines
            for part in e.parts
            if part.record
            for reason in part.expectations
        ),
        "branches_left": _unique(root.branches.left.values()),
        "symbols": sum(r.symbols for r in records),
        "fixed_sizes": _unique(
            e.numbers.fixed_sizes for e in engines if e.numbers.fixed_sizes
        ),
        # Sizes that were to differ between calls and could not, and why.
        "pinned_sizes": _unique(
            line for r in records for line in r.text("sizes").splitlines()
        ),
        "hits": root.compiled.hits,
        "continuation_hits": sum(e.compiled.hits for e in engines[1:]),
        "misses": sum(e.compiled.misses for e in engines),
        "eager_calls": sum(e.compiled.eager_calls for e in engines),
        "compile_seconds": sum(e.compile_seconds for e in engines),
        "kernels": sum(r.kernels for r in records),
        "library_calls": sum(r.library_calls for r in records),
        "guards": sum(r.guards for r in records),
        "compared": _comparisons(engines),
        "reasons": _reasons(engines, records),
        "stage_seconds": _stage_seconds(engines),
        "host_microseconds": next(
            (r.host_microseconds for r in records if r.host_microseconds), None
        ),
    }


def log(engine: Engine, record: Any) -> None:
    """A record was made: what PYJIT_LOGS asks for, on stderr."""
    for topic in sorted(log_topics()):
        print(
            f"[pyjit:{topic}] {engine.name}\n{_log_text(engine, record, topic)}",
            file=sys.stderr,
        )


def _log_text(engine: Engine, record: Any, topic: str) -> str:
    compiled = engine.compiled
    if topic == "cache":
        return (
            f"record {len(compiled.records)} of at most {engine.settings.max_records}: {record.guards} guards, "
            f"compiled in {1e3 * sum(seconds for _, seconds in record.stages()):.1f} ms; "
            f"{compiled.hits} hits and {compiled.misses} misses so far"
        )
    text = record.text(topic)
    if text:
        return text.rstrip()
    if topic == "cudagraph":
        return f"no graph: {record.kernels} kernels and {record.library_calls} library calls run on the CPU"
    return "nothing"
