"""What an engine has come to, for ``pyjit.stats``, ``pyjit.specializations`` and PYJIT_LOGS."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pyjit._settings import log_topics

if TYPE_CHECKING:
    from pyjit._engine import Engine


# Keys that were renamed; the former ones go with the next release.
FORMER_KEYS = {
    "cuts": "graph_breaks",
    "cut_sites": "graph_break_sites",
    "expectations": "speculations",
    "records": "specializations",
    "pinned_sizes": "specialized_sizes",
    "library_calls": "vendor_calls",
}


class Statistics(dict[str, Any]):
    """A dict that also answers to former keys, with a warning; iteration shows the present ones alone."""

    def __missing__(self, key: str) -> Any:
        if key not in FORMER_KEYS:
            raise KeyError(key)
        warnings.warn(
            f"pyjit.stats: {key!r} is {FORMER_KEYS[key]!r} now",
            DeprecationWarning,
            stacklevel=2,
        )
        return self[FORMER_KEYS[key]]

    def __contains__(self, key: object) -> bool:
        return dict.__contains__(self, key) or (
            key in FORMER_KEYS and dict.__contains__(self, FORMER_KEYS[str(key)])
        )

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default


def _unique(items: Iterable[str]) -> list[str]:
    """In the order of their first occurrence."""
    return list(dict.fromkeys(items))


def _first_line(text: str) -> str:
    return next(iter(text.splitlines()), "no message")


def describe_specializations(root: Engine) -> list[dict[str, Any]]:
    return [
        Statistics(
            {
                "function": engine.name,
                "hits": r.hits,
                "guards": r.guards,
                "kernels": r.kernels,
                "vendor_calls": r.vendor_calls,
                "inputs": r.inputs,
                "symbols": r.symbols,
                "host_microseconds": r.host_microseconds,
                "prepared": r.prepared,
                "hashed": r.hashed,
                "stages": dict(r.stages()),
            }
        )
        for engine in root.engines()
        for r in engine.compiled.specializations
    ]


def _comparisons(engines: list[Engine]) -> list[dict[str, Any]]:
    """Specializations whose calls were timed in turns with eager's."""
    return [
        {
            "function": e.name,
            "compiled_microseconds": 1e6 * known.compiled_seconds,
            "eager_microseconds": 1e6 * known.eager_seconds,
            "answers": "eager" if r.left_to_eager else "specialization",
        }
        for e in engines
        for r in e.compiled.specializations
        if (known := e.turns.comparisons.get(r)) and known.looks
    ]


def _reasons(engines: list[Engine], specializations: list[Any]) -> list[str]:
    """Why calls ran in eager."""
    return [
        *_unique(reason for e in engines for reason in e.reasons),
        *(reason for e in engines for reason in e.turns.reasons()),
        *(
            f"{r.failures} call(s) of a graph raised and ran in eager, the last with: "
            + _first_line(r.last_error)
            for r in specializations
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
    specializations = [r for engine in engines for r in engine.compiled.specializations]
    return Statistics(
        {
            "specializations": len(specializations),
            "graphs": len(specializations),
            "graph_breaks": len(root.graph_break_sites)
            + sum(engine.graph_breaks for engine in engines),
            "graph_break_sites": list(root.graph_break_sites.values()),
            "loops": root.compiled_loops,
            "loops_left": list(root.loops_left),
            "branches": root.branches.merged,
            # Branches on data that have gone one way so far, which the graphs rely on.
            "speculations": _unique(
                reason
                for e in engines
                for call_segment in e.call_segments
                if call_segment.specialization
                for reason in call_segment.speculations
            ),
            "branches_left": _unique(root.branches.left.values()),
            "symbols": sum(r.symbols for r in specializations),
            "fixed_sizes": _unique(
                e.numbers.fixed_sizes for e in engines if e.numbers.fixed_sizes
            ),
            # Sizes that were to differ between calls and could not, and why.
            "specialized_sizes": _unique(
                line for r in specializations for line in r.text("sizes").splitlines()
            ),
            "hits": root.compiled.hits,
            "continuation_hits": sum(e.compiled.hits for e in engines[1:]),
            "misses": sum(e.compiled.misses for e in engines),
            "eager_calls": sum(e.compiled.eager_calls for e in engines),
            "compile_seconds": sum(e.compile_seconds for e in engines),
            "kernels": sum(r.kernels for r in specializations),
            "vendor_calls": sum(r.vendor_calls for r in specializations),
            "guards": sum(r.guards for r in specializations),
            "compared": _comparisons(engines),
            "reasons": _reasons(engines, specializations),
            "stage_seconds": _stage_seconds(engines),
            "host_microseconds": next(
                (r.host_microseconds for r in specializations if r.host_microseconds),
                None,
            ),
        }
    )


def log(engine: Engine, specialization: Any) -> None:
    """A specialization was made: what PYJIT_LOGS asks for, on stderr."""
    for topic in sorted(log_topics()):
        print(
            f"[pyjit:{topic}] {engine.name}\n{_log_text(engine, specialization, topic)}",
            file=sys.stderr,
        )


def _log_text(engine: Engine, specialization: Any, topic: str) -> str:
    compiled = engine.compiled
    if topic == "cache":
        return (
            f"specialization {len(compiled.specializations)} of at most {engine.settings.max_records}: {specialization.guards} guards, "
            f"compiled in {1e3 * sum(seconds for _, seconds in specialization.stages()):.1f} ms; "
            f"{compiled.hits} hits and {compiled.misses} misses so far"
        )
    text = specialization.text(topic)
    if text:
        return text.rstrip()
    if topic == "cudagraph":
        return f"no graph: {specialization.kernels} kernels and {specialization.vendor_calls} vendor calls run on the CPU"
    return "nothing"
