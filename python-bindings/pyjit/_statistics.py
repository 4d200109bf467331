# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an engine has come to, for ``pyjit.stats``, ``pyjit.specializations`` and PYJIT_LOGS."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from pyjit._C import ReasonKind
from pyjit._reasons import Reason
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
    """What a compiled function has come to. A dict whose keys are attributes, too; ``FIELDS`` documents them.

    It answers to former keys with a warning; iteration shows the present ones alone.
    """

    FIELDS: ClassVar[dict[str, str]] = {
        "graphs": "specializations that are kept, those after graph breaks included",
        "specializations": "the same",
        "graph_breaks": "places in the program where calls break; a call that is not recorded at all is none",
        "graph_break_sites": "why they do, each a Reason (a str with kind, place, remedy)",
        "hits": "calls of the function that a specialization answered",
        "continuation_hits": "likewise of what follows a graph break",
        "misses": "calls that no specialization answered; those of the latter included",
        "miss_causes": "which guards those that were recorded anew had failed, each a dict: guard, was, now (in the latest), count, dynamic",
        "eager_calls": "calls that ran in eager and left no specialization, those that were timed to compare included",
        "eager_calls_timed": "the latter alone",
        "reasons": "why calls broke or ran in eager, each a Reason; not empty where one did",
        "eager_reasons": "those of calls that ran in eager and would again",
        "compile_seconds": "what the compiler took, all specializations together",
        "stage_seconds": "likewise by stage",
        "kernels": "generated kernels, all specializations together",
        "vendor_calls": "calls of vendor libraries, likewise",
        "guards": "steps of guard programs, likewise",
        "symbols": "sizes that may differ between calls",
        "packed_weight_bytes": "memory of packed, joined and folded weights that are kept beside the weights themselves; what several specializations keep counts once",
        "planned_memory_bytes": "the most that a call takes beside its inputs and results, what it saves for its backward included, as far as it is planned: sizes do not differ between calls, and what vendor calls allocate is not in it",
        "compared": "specializations that were timed in turns with eager: compiled_microseconds, eager_microseconds, step_microseconds (in grad mode, from the beginning of a call to that of the next one: compiled, in eager), answers",
        "host_microseconds": "median of a hit without its launch, where pyjit._C.measure_host is on; else None",
        "compiled_modules": "modules that parts of calls in eager call, which run compiled, each a dict: module (its class), graphs, graph_breaks, hits, eager_calls, kernels, reasons",
        "loops": "loops that data end, in one program each",
        "loops_left": "why others go round through graph breaks",
        "branches": "branches on data with both sides in one program",
        "branches_left": "why others stay graph breaks",
        "speculations": "branches on data that have gone one way so far, which the graphs rely on",
        "fixed_sizes": "why sizes are compiled one by one",
        "specialized_sizes": "sizes that were to differ between calls and could not, and why",
    }

    def __getattr__(self, name: str) -> Any:
        if name in self.FIELDS and dict.__contains__(self, name):
            return self[name]
        raise AttributeError(f"pyjit.stats has no {name!r}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self]

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
                "hits": engine.hits_of(r),
                "guards": r.guards,
                "kernels": r.kernels,
                "vendor_calls": r.vendor_calls,
                "inputs": r.inputs,
                "symbols": r.symbols,
                "host_microseconds": r.host_microseconds,
                "prepared": r.prepared,
                "hashed": r.hashed,
                "packed_weight_bytes": sum(r.packed_memory.values()),
                "shared_weight_bytes": r.shared_weight_bytes,
                "planned_memory": r.planned_memory,
                "stages": dict(r.stages()),
            }
        )
        for engine in root.engines()
        for r in engine.compiled.specializations
    ]


def _packed_weight_bytes(specializations: Iterable[Any]) -> int:
    """What several keep is in one place."""
    memory: dict[int, int] = {}
    for specialization in specializations:
        memory |= specialization.packed_memory
    return sum(memory.values())


def _planned_memory_bytes(specializations: Iterable[Any]) -> int:
    """Of the call that takes most; calls take turns."""
    planned = (s.planned_memory or (0, 0, 0) for s in specializations)
    return max((saved + max(one, other) for one, saved, other in planned), default=0)


def _comparisons(engines: list[Engine]) -> list[dict[str, Any]]:
    """Specializations whose calls were timed in turns with eager's."""
    return [
        {
            "function": e.name,
            "compiled_microseconds": 1e6 * known.compiled_seconds,
            "eager_microseconds": 1e6 * known.eager_seconds,
            "step_microseconds": known.step_seconds
            and tuple(1e6 * seconds for seconds in known.step_seconds),
            "answers": "eager" if r.left_to_eager else "specialization",
        }
        for e in engines
        for r in e.compiled.specializations
        if (known := e.turns.comparisons.get(r)) and known.looks
    ]


def _compiled_modules(roots: Iterable[Engine]) -> list[dict[str, Any]]:
    """What became of the modules in eager parts of calls, those with the most hits first."""
    told = []
    for engine in dict.fromkeys(e for root in roots for e in root.module_engines()):
        own = stats(engine)
        counters = ("graphs", "graph_breaks", "hits", "eager_calls", "kernels")
        told.append(
            {
                "module": engine.name,
                **{key: own[key] for key in counters},
                "reasons": own["reasons"],
            }
        )
    return sorted(told, key=lambda module: -module["hits"])


def eager_reasons(engines: list[Engine]) -> list[Reason]:
    """Why calls ran in eager, what passes by itself included."""
    found = [reason for e in engines for reason in e.reasons.values()]
    found += [reason for e in engines for reason in e.turns.reasons()]
    found += [
        Reason(
            ReasonKind.GRAPH_RAISED,
            f"{r.failures} call(s) of a graph raised and ran in eager, the last with: "
            + _first_line(r.last_error),
            e.own_place(),
        )
        for e in engines
        for r in e.compiled.specializations
        if r.failures
    ]
    return list(dict.fromkeys(found))


def _all_reasons(engines: list[Engine], sites: list[Reason]) -> list[Reason]:
    """Why calls broke or ran in eager; what passes by itself only where there is nothing else."""
    found = eager_reasons(engines)
    told = [reason for reason in found if not reason.passing] + sites
    in_eager = any(e.compiled.eager_calls > e.turns.timed_in_eager for e in engines)
    return list(dict.fromkeys(told or (found if in_eager else ())))


def _stage_seconds(engines: list[Engine]) -> dict[str, float]:
    total: dict[str, float] = {}
    for engine in engines:
        for stage, seconds in engine.stage_seconds.items():
            total[stage] = total.get(stage, 0.0) + seconds
    return total


def stats(*roots: Engine) -> Statistics:
    """The counters of a compiled function, or of several that one call of the user's is made of."""
    engines = [engine for root in roots for engine in root.engines()]
    specializations = [r for engine in engines for r in engine.compiled.specializations]
    sites = [site for root in roots for site in root.graph_break_sites.values()]
    return Statistics(
        {
            "specializations": len(specializations),
            "graphs": len(specializations),
            "graph_breaks": len(sites),
            "graph_break_sites": sites,
            "loops": sum(root.compiled_loops for root in roots),
            "loops_left": [why for root in roots for why in root.loops_left],
            "branches": sum(root.branches.merged for root in roots),
            "speculations": _unique(
                reason
                for e in engines
                for call_segment in e.call_segments
                if call_segment.specialization
                for reason in call_segment.speculations
            ),
            "branches_left": _unique(
                why for root in roots for why in root.branches.left.values()
            ),
            "symbols": sum(r.symbols for r in specializations),
            "fixed_sizes": _unique(
                e.numbers.fixed_sizes for e in engines if e.numbers.fixed_sizes
            ),
            "specialized_sizes": _unique(
                line for r in specializations for line in r.text("sizes").splitlines()
            ),
            "hits": sum(root.hits for root in roots),
            "continuation_hits": sum(e.hits for e in engines if e.root is not e),
            "misses": sum(e.compiled.misses for e in engines),
            "miss_causes": [
                dataclasses.asdict(miss)
                for miss in sorted(
                    (miss for e in engines for miss in e.misses.by_guard.values()),
                    key=lambda miss: -miss.count,
                )
            ],
            "eager_calls": sum(e.compiled.eager_calls for e in engines),
            "eager_calls_timed": sum(e.turns.timed_in_eager for e in engines),
            "compile_seconds": sum(e.compile_seconds for e in engines),
            "kernels": sum(r.kernels for r in specializations),
            "vendor_calls": sum(r.vendor_calls for r in specializations),
            "guards": sum(r.guards for r in specializations),
            "packed_weight_bytes": _packed_weight_bytes(specializations),
            "planned_memory_bytes": _planned_memory_bytes(specializations),
            "compared": _comparisons(engines),
            "compiled_modules": _compiled_modules(
                root for root in roots if not root.is_modules
            ),
            "reasons": _all_reasons(engines, sites),
            "eager_reasons": [r for r in eager_reasons(engines) if not r.passing],
            "stage_seconds": _stage_seconds(engines),
            "host_microseconds": next(
                (r.host_microseconds for r in specializations if r.host_microseconds),
                None,
            ),
        }
    )


def log(engine: Engine, specialization: Any) -> None:
    """A specialization was made: what PYJIT_LOGS asks for, on stderr."""
    for topic in sorted(log_topics() - {"recompiles"}):  # _misses.py
        print(
            f"[pyjit:{topic}] {engine.name}\n{_log_text(engine, specialization, topic)}",
            file=sys.stderr,
        )


def _log_text(engine: Engine, specialization: Any, topic: str) -> str:
    compiled = engine.compiled
    if topic == "cache":
        most = engine.planner.room(engine.settings.recompile_limit)
        return (
            f"specialization {len(compiled.specializations)} of at most {most}: {specialization.guards} guards, "
            f"compiled in {1e3 * sum(seconds for _, seconds in specialization.stages()):.1f} ms; "
            f"{compiled.hits} hits and {compiled.misses} misses so far"
        )
    text = specialization.text(topic)
    if text:
        return text.rstrip()
    if topic == "cudagraph":
        return f"no graph: {specialization.kernels} kernels and {specialization.vendor_calls} vendor calls run on the CPU"
    return "nothing"
