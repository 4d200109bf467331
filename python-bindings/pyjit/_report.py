# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What became of a function's calls: a first screen for its user, and the details behind it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyjit import _statistics
from pyjit._comparison import MARGIN
from pyjit._guards import Guards
from pyjit._misses import Miss, argument_names
from pyjit._picture import DataFlow
from pyjit._reasons import Reason
from pyjit._report_page import page
from pyjit._timings import Timing

if TYPE_CHECKING:
    from pyjit._engine import Engine

DETAILS = ("guards", "ir", "kernels", "launch", "all")
WIDTH = 118
MOST_LINES = 25
_MOST_BLOCKS = 4
_MOST_MISSES = 3
_MOST_MODULES = 3
_LEAST_PACKED_BYTES = 1_000_000  # of packed weights that are worth a line
_LEAST_PLANNED_BYTES = 16_000_000  # of a call's memory likewise
# What a detail is made of: titles and topics of Specialization.text.
_TOPICS = {
    "guards": (),
    "ir": (("graph", "graph"), ("fusion", "fusion")),
    "kernels": (("kernels", "kernels"),),
    "launch": (("cudagraph", "cudagraph"), ("launch", "launch")),
    "all": (
        ("guard and mock programs", "guards"),
        ("graph", "graph"),
        ("fusion", "fusion"),
        ("kernels", "kernels"),
        ("cudagraph", "cudagraph"),
        ("launch", "launch"),
    ),
}


def check_detail(detail: str | None) -> None:
    if detail is not None and detail not in DETAILS:
        raise ValueError(
            f"pyjit.explain: detail is one of {', '.join(DETAILS)}, got {detail!r}"
        )


def _cut(line: str, width: int = WIDTH) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def _times(*microseconds: float) -> list[str]:
    """In one unit, which suits the longest."""
    if max(microseconds) >= 1e3:
        return [f"{us / 1e3:.2f} ms" for us in microseconds]
    return [f"{us:.1f} us" for us in microseconds]


class Report:
    """What became of a function's calls.

    ``print(report)`` shows the first screen, and the detail that was asked for. ``text(detail)`` gives another
    one, ``to_dict()`` everything for programs, ``save("report.html")`` a page. ``"words" in report`` looks through all details.
    """

    def __init__(
        self,
        roots: list[Engine],
        name: str,
        detail: str | None = None,
        timings: list[Timing] | None = None,
    ) -> None:
        # Of the call that was made for this report, where its kernels were asked for.
        self.timings = timings
        self.name = name.rpartition("<locals>.")[2]
        self.detail = detail
        self._roots = roots
        self.stats = _statistics.stats(*roots)
        self.graph_breaks: list[Reason] = list(
            dict.fromkeys(self.stats["graph_break_sites"])
        )
        engines = [engine for root in roots for engine in root.engines()]
        self.eager_reasons: list[Reason] = [
            reason
            for reason in self.stats["reasons"]
            if reason not in self.graph_breaks
        ]
        self._calls = self.stats["hits"] + self.stats["misses"]
        self._graphs = [
            (engine, specialization)
            for engine in engines
            for specialization in engine.compiled.specializations
        ]
        # What follows is told of now, not when it is read.
        self._text = "\n".join(self._lines())

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self._text)

    def __contains__(self, words: str) -> bool:
        return words in self._text or words in self.text("all")

    def text(self, detail: str | None = None) -> str:
        """The first screen and a detail."""
        check_detail(detail)
        return "\n".join([*self._screen(), *self.details(detail)])

    def _lines(self) -> Iterator[str]:
        yield from self._screen()
        yield from self.details(self.detail)

    # ---- The first screen -----------------------------------------------------------------------

    def _screen(self) -> list[str]:
        if not self._roots or not (self._calls or self._graphs or self.eager_reasons):
            return [
                f"pyjit: {self.name}: not called yet, so nothing is compiled.",
                "  The first call is recorded while it runs as usual; later ones that look like it run compiled code.",
                "  pyjit.explain(f)(inputs) makes a call and tells what became of it.",
            ]
        lines = [f"pyjit: {self.name}: {self._headline()}", self._call_line()]
        lines += self._blocks()
        lines += self._speed()
        lines.append(self._graph_line())
        lines += self._modules()
        lines += self._notes()
        lines += self._misses()
        lines.append(
            '  more: explain(f, detail="guards" | "ir" | "kernels" | "launch" | "all"), report.to_dict(), docs/Explain.md'
        )
        here = os.path.join(os.getcwd(), "")
        return [_cut(line.replace(here, "")) for line in lines[:MOST_LINES]]

    def _headline(self) -> str:
        breaks, graphs = self.stats["graph_breaks"], self.stats["graphs"]
        if not graphs:
            return "nothing runs compiled"
        if breaks:
            return f"calls run as several graphs, with {_count(breaks, 'graph break')} between them, which run in eager"
        if self._blocking():
            return f"some calls are one graph, others run in eager ({_count(graphs, 'graph')})"
        kinds = f" ({graphs} graphs, for {graphs} kinds of calls)" if graphs > 1 else ""
        return f"the whole call runs compiled, as one graph{kinds}"

    def _call_line(self) -> str:
        stats = self.stats
        recorded = sum(root.captures for root in self._roots)
        timed = stats["eager_calls_timed"]
        return (
            f"  calls: {_count(stats['hits'], 'hit')} (answered by compiled code), {_count(stats['misses'], 'miss', 'misses')}, "
            f"{_count(recorded, 'recording')}, {stats['eager_calls']} in eager"
            + (f" ({timed} of them to compare)" if timed else "")
        )

    def _blocks(self) -> Iterator[str]:
        blocks: dict[tuple, list[Reason]] = {}
        for reason in self._blocking():
            blocks[("runs in eager", reason.place, reason.kind, reason)] = [reason]
        for reason in self.graph_breaks:
            blocks.setdefault(("graph break", reason.place, reason.kind), []).append(
                reason
            )
        for number, (key, reasons) in enumerate(list(blocks.items())[:_MOST_BLOCKS], 1):
            what, place = key[:2]
            where = f" at {place} in {place.function}" if place else ""
            source = f":  {place.source}" if place and place.source else ""
            yield f"  [{number}] {what}{where}{source}"
            yield f"      why: {'; '.join(dict.fromkeys(map(_without_place, reasons)))}"
            yield from _remedy_lines(reasons[0])
        left = sum(map(len, list(blocks.values())[_MOST_BLOCKS:]))
        if left:
            yield f"  and {_count(left, 'more reason')}: report.eager_reasons, report.graph_breaks"

    def _blocking(self) -> list[Reason]:
        """Why calls run in eager, without what is over once graphs answer."""
        return [r for r in self.eager_reasons if not (r.passing and self._graphs)]

    def _speed(self) -> Iterator[str]:
        compared = self.stats["compared"]
        if not compared:
            if self._graphs and any(
                root.settings.compare_with_eager for root in self._roots
            ):
                yield "  speed: not compared with eager yet; some of the calls that follow are timed for that"
            return
        best = compared[0]
        factor = best["eager_microseconds"] / max(best["compiled_microseconds"], 1e-9)
        answers = (
            "eager answers" if best["answers"] == "eager" else "compiled code answers"
        )
        more = f" (and {len(compared) - 1} other graphs)" if len(compared) > 1 else ""
        ours, eagers = _times(best["compiled_microseconds"], best["eager_microseconds"])
        yield (
            f"  speed: {ours} compiled, {eagers} in eager: "
            f"{factor:.2f}x; {answers}{more}"
        )
        slower = factor * (1 + MARGIN) < 1
        if slower != (best["answers"] == "eager") and best["step_microseconds"]:
            step, eager_step = _times(*best["step_microseconds"])
            yield f"    with all up to the next call, a backward included: {step}, {eager_step} in eager"

    def _graph_line(self) -> str:
        stats = self.stats
        return (
            f"  {stats['graphs']} graph(s), {stats['graph_breaks']} graph break(s): {_count(stats['kernels'], 'kernel')}, "
            f"{_count(stats['vendor_calls'], 'vendor call')}, {stats['guards']} guards; compiled in {stats['compile_seconds']:.2f} s"
        )

    def _modules(self) -> Iterator[str]:
        """Of modules that eager parts of calls call."""
        modules = self.stats["compiled_modules"]
        if not modules:
            return
        first = ", ".join(
            f"{m['module']} ({_count(m['graphs'], 'graph')}, {_count(m['hits'], 'hit')})"
            for m in modules[:_MOST_MODULES]
        )
        left = len(modules) - _MOST_MODULES
        more = f" and {left} more (stats(f).compiled_modules)" if left > 0 else ""
        yield f"  modules that eager parts call run compiled: {first}{more}"

    def _notes(self) -> Iterator[str]:
        stats = self.stats
        if past := [r for r in self.eager_reasons if r not in self._blocking()]:
            yield f"  earlier calls ran in eager, which is over: {past[0].what} ({past[0].docs})"
        if (packed := stats["packed_weight_bytes"]) >= _LEAST_PACKED_BYTES:
            yield (
                f"  packed weights: {packed / 1e6:.1f} MB beside the model's own, what graphs share once "
                "(docs/Generation.md#packed-weights)"
            )
        if (planned := stats["planned_memory_bytes"]) >= _LEAST_PLANNED_BYTES:
            yield f"  memory of a call: {planned / 1e6:.1f} MB are planned, what it saves for its backward included"
        if stats["loops"] or stats["branches"]:
            yield (
                f"  on data, in one program: {_count(stats['loops'], 'loop')}, "
                f"{_count(stats['branches'], 'branch', 'branches')} with both sides"
            )
        if stats["speculations"]:
            yield f"  {_count(len(stats['speculations']), 'branch', 'branches')} on data went one way so far: {stats['speculations'][0]}"
        if sizes := [*stats["fixed_sizes"], *stats["specialized_sizes"]]:
            yield f"  compiled for each size ({len(sizes)}): {sizes[0]}"

    def _misses(self) -> Iterator[str]:
        causes = self.stats["miss_causes"]
        if not causes:
            return
        yield f"  recorded anew because a guard failed ({_count(len(causes), 'guard')}; was -> is):"
        for miss in causes[:_MOST_MISSES]:
            yield f"    {Miss(**miss)}"

    def data_flows(self) -> Iterator[tuple[str, DataFlow]]:
        """Of each graph: the function it is of, and what it computes from what."""
        for engine, specialization in self._graphs:
            yield engine.name, DataFlow.of(specialization)

    # ---- Details --------------------------------------------------------------------------------

    def details(self, detail: str | None) -> Iterator[str]:
        """The lines of a detail."""
        if detail is None:
            return
        if detail == "all":
            yield from self._everything()
        if detail in ("kernels", "all"):
            yield from self._timing_lines()
        for number, (engine, specialization) in enumerate(self._graphs):
            yield from _graph_lines(number, engine, specialization)
            if detail in ("guards", "all"):
                yield "    guards:"
                yield from (
                    f"      {line}"
                    for line in guard_expressions(engine, specialization)
                )
            for title, topic in _TOPICS[detail]:
                if text := specialization.text(topic):
                    yield f"    {title}:"
                    yield from (f"      {line}" for line in text.splitlines())

    def _timing_lines(self) -> Iterator[str]:
        """What the call that was made for this report spent where."""
        if self.timings is None:
            yield '  times: explain(f, detail="kernels")(inputs) makes a call and tells what kernels and vendor calls took'
        elif not self.timings:
            yield "  times: none, for nothing ran compiled in this call (or another profiler is active); the next may"
        else:
            yield "  times in this call, as torch.profiler has them (longest first):"
            for timing in self.timings:
                times = f" x {timing.count}" if timing.count > 1 else ""
                yield f"    {timing.microseconds:10.1f} us  {timing.name}{times}"

    def _everything(self) -> Iterator[str]:
        """Every reason, each in a line."""
        stats = self.stats
        yield from (f"  runs in eager: {reason}" for reason in self.eager_reasons)
        yield from (f"  graph break: {reason}" for reason in self.graph_breaks)
        if stats["loops"]:
            yield f"  loops that data end, in one program: {stats['loops']}"
        yield from (
            f"  a loop goes round through graph breaks: {why}"
            for why in dict.fromkeys(stats["loops_left"])
        )
        if stats["branches"]:
            yield f"  branches on data, both sides in one program: {stats['branches']}"
        yield from (f"  goes one way so far: {why}" for why in stats["speculations"])
        yield from (
            f"  a branch stays a graph break: {why}" for why in stats["branches_left"]
        )
        yield from (f"  compiled for each size: {why}" for why in stats["fixed_sizes"])
        yield from (f"  {line}" for line in stats["specialized_sizes"])
        yield from (f"  missed: {Miss(**miss)}" for miss in stats["miss_causes"])

    def to_dict(self) -> dict[str, Any]:
        """Everything but the IR, as JSON has it."""
        stats = {
            key: value
            for key, value in self.stats.items()
            if key not in ("graph_break_sites", "reasons", "miss_causes")
        }
        return {
            "function": self.name,
            "called": bool(self._calls or self._graphs),
            "graph_breaks": [reason.to_dict() for reason in self.graph_breaks],
            "eager_reasons": [reason.to_dict() for reason in self.eager_reasons],
            "misses": self.stats["miss_causes"],
            "stats": stats,
            "timings": [timing._asdict() for timing in self.timings or ()],
            "graphs": [
                {
                    "function": engine.name,
                    "inputs": graph.inputs,
                    "guards": graph.guards,
                    "kernels": graph.kernels,
                    "vendor_calls": graph.vendor_calls,
                    "symbols": graph.symbols,
                    "hits": engine.hits_of(graph),
                    "stage_seconds": dict(graph.stages()),
                }
                for engine, graph in self._graphs
            ],
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the report, with all details, as one HTML page that needs no network."""
        Path(path).write_text(page(self), encoding="utf-8")


def _without_place(reason: Reason) -> str:
    """What was in the way; the line is told apart from it."""
    what = reason.what
    if reason.stack:
        last = reason.stack[-1]
        what = what.removesuffix(f" at {last.file}:{last.line}")
    return what


def _remedy_lines(reason: Reason) -> Iterator[str]:
    remedy, docs = f"      do:  {reason.remedy}", f"      see: {reason.docs}"
    together = f"{remedy} ({reason.docs})"
    if len(together) <= WIDTH:
        yield together
        return
    # A remedy is never cut.
    words, line = reason.remedy.split(), "      do: "
    for word in words:
        if len(line) + 1 + len(word) > WIDTH:
            yield line
            line = "          "
        line += f" {word}"
    yield line + (
        f" ({reason.docs})" if len(line) + len(reason.docs) + 3 <= WIDTH else ""
    )
    if len(line) + len(reason.docs) + 3 > WIDTH:
        yield docs


def guard_expressions(engine: Engine, specialization: Any) -> list[str]:
    """The guards of a specialization as expressions of the program."""
    return Guards(
        specialization, engine.compiled.target, argument_names(engine)
    ).expressions()


def _graph_lines(number: int, engine: Engine, specialization: Any) -> Iterator[str]:
    where = "" if engine.root is engine else f" ({engine.name})"
    yield (
        f"  graph {number}{where}: {specialization.inputs} inputs, {specialization.guards} guards, {specialization.kernels} kernels, "
        f"{specialization.vendor_calls} vendor calls, {engine.hits_of(specialization)} hits"
    )
    if answers := engine.turns.describe(specialization):
        yield f"    {answers}"
    if specialization.symbols:
        yield f"    sizes that may differ: {specialization.symbols}"
    if specialization.hashed:
        yield (
            f"    {specialization.hashed} of {specialization.prepared} packed parameters are hashed at each call, because "
            "writes to their memory could go unseen (memory that PyTorch's allocator did not hand out, say; "
            "p.data = p.data.clone() makes it PyTorch's)"
        )
    stages = ", ".join(
        f"{name} {1e3 * seconds:.1f} ms" for name, seconds in specialization.stages()
    )
    yield f"    compiled in: {stages}"
