"""What happens when a call meets no record: observe it, compile it, remember it."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

from pyjit import _C
from pyjit._backoff import Backoff
from pyjit._branches import Branches, Part
from pyjit._continuation import Key, continuation, step
from pyjit._errors import CaptureError, CompileError
from pyjit._places import places_in
from pyjit._progress import progress
from pyjit._settings import Settings, dump_dir, log_topics, verifies
from pyjit._turns import Turns

# Concurrent captures would observe one another; one at a time in the process.
_capture_lock = threading.Lock()


# How often one monitored run records the same continuation, and how many a function may have.
_REPEATS = 3
_MAX_CONTINUATIONS = 256
# Records of a continuation that differ in what came of comparing a number.
_MAX_OUTCOMES = 4
_MAX_CUTS = 64
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class statement made it


def _mark(kind: str, value: Any) -> Any:
    """What a record of a continuation is likely to depend on in one of its arguments."""
    if kind == "u":
        return type(value)  # nobody looks at it, and it may not like to be asked
    if kind == "p":
        return id(value)
    if kind in "vrl":
        return type(value), str(value) if type(value) is float else value
    if isinstance(value, torch.Tensor):
        return value.shape, value.dtype, value.requires_grad
    return type(value)


def _numbers_in(value: Any) -> Any:
    """What a tuple or a slice (an index, say) holds, if that is numbers; None for all else."""
    if type(value) is slice:
        return _numbers_in((value.start, value.stop, value.step))
    if type(value) is not tuple:
        return value if isinstance(value, int | float) else None
    return tuple(_numbers_in(element) for element in value)


def _is_handle(value: Any) -> bool:
    """An object of a C type that is told from others by its identity alone, and that nobody calls."""
    cls = type(value)
    return (
        not cls.__flags__ & _HEAP_TYPE
        and cls.__module__ != "builtins"
        and cls.__hash__ is object.__hash__
        and not isinstance(value, torch.dtype | torch.layout | torch.memory_format)
        and not hasattr(value, "__dict__")
        and not hasattr(cls, "__len__")
        and not callable(value)
    )


def _lies_in(place: str, arguments: list[int]) -> bool:
    """Whether a place is one of these arguments, or in it."""
    number = re.match(r"#(\d+)", place)
    return number is not None and int(number[1]) in arguments


def _changed_sizes(place: str, before: Any, now: Any) -> set[str]:
    """The places of sizes that differ between two marks of tensors of one rank."""
    if not (isinstance(before, tuple) and isinstance(now, tuple)):
        return set()
    old, new = before[0], now[0]
    if not isinstance(old, torch.Size) or not isinstance(new, torch.Size):
        return set()
    if len(old) != len(new):
        return set()
    return {f"{place}${d}" for d in range(len(new)) if old[d] != new[d]}


def _without_sizes(place: str, mark: Any, lifted: set[str]) -> Any:
    """A mark as far as a record depends on it: not on lifted sizes but zero and one."""
    if not isinstance(mark, tuple) or not isinstance(mark[0], torch.Size):
        return mark
    sizes = tuple(
        None if size > 1 and f"{place}${d}" in lifted else size
        for d, size in enumerate(mark[0])
    )
    return (sizes, *mark[1:])


class Engine:
    """The records of one compiled function and the policy that makes them.

    Where a call is cut, what follows is a function of its own with an engine of its own; the
    engine of the function that the user compiled is their ``root``.
    """

    def __init__(
        self, target: Callable, settings: Settings, root: Engine | None = None
    ) -> None:
        self.settings = settings
        self.root = root or self
        self.name = settings.name or getattr(
            target, "__qualname__", type(target).__qualname__
        )
        self.compiled = _C.CompiledFunction(target, self._miss)
        self.compiled.engine = self
        # A continuation's record is part of a call: the call's first record is compared.
        self.turns = Turns(self.compiled, settings.compare_with_eager and root is None)
        self._clear()

    def _clear(self) -> None:
        self.captures = 0
        self.cuts = 0
        self.compile_seconds = 0.0
        self.stage_seconds: dict[str, float] = {}
        self.reasons: list[str] = []
        # Places whose number differed between calls: the next capture takes them as inputs.
        self.lifted: set[str] = set()
        # Why sizes that differ between calls are compiled one by one; empty: they need not be.
        self.fixed_sizes = ""
        self.continuations: dict[Key, Engine] = {}
        # Instructions in front of which the recorder cuts, and why.
        self.cut_points: dict[tuple[Any, int], str] = {}
        # Instructions at which something was so in one call only, and how often that was.
        self.passed: dict[tuple[Any, int], str] = {}
        # What the present capture went on with after each cut.
        self._path: list[Key] = []
        # Who is being captured, and what it was called with.
        self._captured: tuple[Engine, tuple, dict[str, Any]] | None = None
        # Where records end, and why.
        self.cut_sites: dict[tuple[Any, int], str] = {}
        # Loops that data ends: compiled, and why others go round through cuts.
        self.loops = 0
        self.loops_left: list[str] = []
        self._no_loop = self._may_loop = False
        self._rounds_noted = 0
        # The recordings behind the records, where a branch may join them.
        self.parts: list[Part] = []
        self.branches = Branches(self)
        self._context: _C.Context | None = None
        self._seen: dict[int, Any] = {}
        self._held: dict[int, Any] = {}
        self._handles: set[int] = set()
        self._unseen: set[int] = set()
        # Lifted places that a record of this continuation was made with.
        self._tried: set[str] = set()
        # Lifted places of each record, and those of them that the present call finds pinned.
        self._made_with: dict[Any, set[str]] = {}
        self._looked_at: set[str] = set()
        # The monitored run that looked here last, and the last that recorded.
        self._run = self._recorded_in = self._repeats = 0
        self._missed = False
        self._recorded: set[tuple] = set()
        self.turns.clear()
        self._backoff = Backoff()
        # When the latest monitored run began; the modes when it came here; the hits when eager
        # answered last.
        self._observed_since = 0.0
        self._observed_modes: tuple = ()
        self._hits_before = -1
        self._warned = False

    def reset(self) -> None:
        self.compiled.clear()
        self._clear()

    def _miss(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Answers a call that no record answers; called by the compiled function."""
        compiled = self.compiled
        modes = self._observed_modes = self._modes()
        if not self.settings.fullgraph and not self._backoff.may_observe(modes):
            return self._answer_in_eager(modes, args, kwargs)
        if len(compiled.records) >= self.settings.max_records:
            self._note(
                f"the limit of {self.settings.max_records} records is reached (option max_records); "
                "calls that meet none of them run in eager"
            )
            self._backoff.give_up("limit")
            return self._answer_in_eager("limit", args, kwargs)
        if not _capture_lock.acquire(blocking=False):
            compiled.eager_calls += 1
            return compiled.target(*args, **kwargs)
        self._looked_at = set()
        before = set(self.lifted)
        again = False
        for record in compiled.records:
            changed = record.changed_numbers(args, kwargs)
            again |= any(place in before for place in changed if ">" not in place)
            self._looked_at |= self._made_with.get(record, set()).intersection(changed)
            self.lifted.update(
                place for place in changed if "$" not in place or not self.fixed_sizes
            )
        # A number that was an input already, and looked at all the same, may be a size or a part of
        # one: the recorder then follows sizes, whether or not a tensor's differ by themselves.
        # Records with loops on data have no sizes that differ.
        if again and not self.fixed_sizes and not self.root.loops:
            self.lifted.add("$")
        if self.settings.fullgraph:
            return self._capture_whole(args, kwargs)
        self._note_handles((*args, *kwargs.values()))
        root = self.root
        root._observed_since = self._backoff.clock()
        root.captures += 1
        root._path = []
        root._captured = (self, args, kwargs)
        self._missed = True
        try:
            result, segments, learned, reason = _C.capture_with_cuts(
                root.context(),
                compiled.target,
                args,
                kwargs,
                self._symbol(),
                root.cut_points | root.passed,
                root._plan,
                self.lifted,
                tuple(self._handles),
            )
        except Exception:
            # The program's own: nothing is recorded of such a call.
            self._backoff.observed_in_vain(modes, root._observed_since)
            raise
        finally:
            root._captured = None
            _capture_lock.release()
        recorded = False
        new: list[tuple[Engine, Part]] = []
        place = 0  # on the path: parts that need no record are there, too
        for segment in segments:
            key, trace, objects, nargs, cut, grad_mode, fallback, may_loop, *rest = (
                segment
            )
            sites, footing = rest
            numbers = dict.fromkeys(sites, "a tensor's data as a Python number")
            if key is not None:
                while place < len(root._path) and root._path[place] != Key(*key):
                    place += 1
                place += 1
            took = root._path[place] if place < len(root._path) else None
            owner = self if key is None else root._continuation(Key(*key))
            owner._may_loop |= may_loop
            keywords = tuple(kwargs) if key is None else ()
            recorded |= owner is self
            if fallback is not None:
                part = Part(trace, objects, nargs, keywords, cut, grad_mode, footing)
                part.lifted = set(owner._tried)
                if owner._add_loop(part):
                    continue
                trace, objects, cut, grad_mode, footing = fallback
            part = Part(trace, objects, nargs, keywords, cut, grad_mode, footing)
            part.took = took
            part.numbers = numbers
            part.lifted = set(owner._tried)
            if cut is None and owner is root:
                owner.make_record(part)
            else:
                owner.parts.append(part)
                new.append((owner, part))
        progressed = recorded
        for code, offset, why in learned:
            (root.cut_points if offset >= 0 else root.passed)[code, offset] = why
            progressed = True
        if max(len(root.cut_sites), len(root.cut_points)) > _MAX_CUTS:
            root._give_up()
        root.branches.merge(new)
        root.leave_context()
        if not recorded:
            compiled.eager_calls += 1
        if not progressed:
            self._failed(reason or "the rest of the function was not recorded")
        return result

    def _modes(self) -> tuple:
        """What may change what comes of a monitored run, and costs little to look at."""
        target = self.compiled.target
        target = getattr(target, "__self__", target)
        is_module = isinstance(target, torch.nn.Module)
        training = target.__dict__.get("training") if is_module else None
        return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), training

    def _answer_in_eager(self, reason: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call that is not observed. Of those that follow, some come by here to be timed."""
        compiled = self.compiled
        compiled.eager_calls += 1
        start = self._backoff.clock()
        try:
            return compiled.target(*args, **kwargs)
        finally:
            unseen = self._backoff.answered(reason, start)
            if compiled.records and compiled.hits == self._hits_before:
                # Nor do records need to be asked that answer nothing.
                compiled.let_past(unseen, *args, *kwargs.values())
            else:
                compiled.stay_quiet(unseen)
            self._hits_before = compiled.hits

    def _note_handles(self, given: tuple) -> None:
        """Notes arguments that records know by identity and that are new in each call (a generator
        of random numbers, an open file): from the second on, records only pass them on."""
        for i, value in enumerate(given):
            if not _is_handle(value):
                continue
            known = self._held.setdefault(i, id(value))
            if known != id(value):
                self._handles.add(i)
        self._handles = {
            i for i in self._handles if i < len(given) and _is_handle(given[i])
        }

    def _give_up(self) -> None:
        """So many cuts leave nothing to win."""
        sites = [*self.cut_points.values(), *self.cut_sites.values()]
        modes = self._observed_modes
        self.compiled.clear()
        self._clear()
        self._note(f"more than {_MAX_CUTS} cuts, the last of them: {sites[-1]}")
        self._backoff.give_up(modes)

    def _capture_whole(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        compiled = self.compiled
        try:
            result, trace, objects, reason, footing = _C.capture(
                self.context(),
                compiled.target,
                args,
                kwargs,
                self._symbol(),
                self.lifted,
            )
        finally:
            _capture_lock.release()
        self.captures += 1
        if reason:
            self._failed(reason)
            compiled.eager_calls += 1
            raise CaptureError(f"pyjit.compile(fullgraph=True): {self.name}: {reason}")
        nargs = len(args) + len(kwargs)
        self.make_record(Part(trace, objects, nargs, tuple(kwargs), None, -1, footing))
        self.leave_context()
        return result

    def context(self) -> _C.Context:
        """Where traces are made: one context for those that may be merged."""
        if self._context is None:
            self._context = _C.Context()
        return self._context

    def leave_context(self) -> None:
        """Nothing is left to be merged: what was compiled does not need its context."""
        if not any(engine.parts for engine in self.engines()):
            self._context = None

    def _continuation(self, key: Key) -> Engine:
        engine = self.continuations.get(key)
        if engine is None:
            engine = Engine(continuation(key), self.settings, self)
            line = next(
                (
                    line
                    for start, end, line in key.code.co_lines()
                    if start <= key.offset < end
                ),
                None,
            )
            engine.name = f"{key.code.co_qualname} from line {line}"
            self.continuations[key] = engine
        return engine

    def _plan(
        self, key: tuple, kinds: str, values: tuple
    ) -> tuple[tuple[int, ...], tuple[str, ...]] | bool | None:
        """Which of a continuation's arguments its next record must not depend on, and which places'
        numbers it takes as inputs. False: it needs no record now; None: nor does what follows.
        Called by the recorder."""
        self._path.append(Key(*key))
        known = Key(*key) in self.continuations
        if not known and len(self.continuations) >= _MAX_CONTINUATIONS:
            return None
        return self._continuation(Key(*key))._plan_own(kinds, values)

    def _plan_own(
        self, kinds: str, values: tuple
    ) -> tuple[tuple[int, ...], tuple[str, ...]] | bool:
        self._observed_modes = self._modes()
        first = self._run != self.root.captures
        if first:
            self._run = self.root.captures
            self._repeats = 0
        # What has a record that is likely to hit gets another when it has missed.
        missed = first and self._missed
        self._missed = False
        marks = [_mark(kind, value) for kind, value in zip(kinds, values)]
        for i, (kind, value) in enumerate(zip(kinds, values)):
            # What has differed before will differ again: a time, a counter, an open file.
            value_or_identity = kind in "prvl" and not isinstance(value, bool | None)
            differs = i in self._seen and self._seen[i] != marks[i]
            varies = (
                (kind == "r" and type(value) is float)
                or kind == "l"
                or (value_or_identity and differs)
            )
            place = f"#{i}"
            if not self.fixed_sizes:
                self.lifted |= _changed_sizes(place, self._seen.get(i), marks[i])
            if kind == "g":
                # An iterator of a range: where it stands is a number like others, unless a record
                # looked at that.
                numbers = {f"{place}>next", f"{place}>left"}
                if missed and (
                    not numbers.isdisjoint(self._looked_at)
                    or len(self.compiled.records) >= 2 * _MAX_OUTCOMES
                ):
                    self._unseen.add(i)
                self.lifted |= numbers
            elif kind == "o" and type(value) in (tuple, slice):
                # Numbers in it that a record takes as inputs may be looked at all the same.
                held = _numbers_in(value)
                if (
                    missed
                    and self._held.setdefault(i, held) != held
                    and (
                        any(p.startswith(f"{place}[") for p in self._looked_at)
                        or len(self.compiled.records) >= _MAX_OUTCOMES
                    )
                ):
                    self._unseen.add(i)
                self._held[i] = held
            elif kind in "iu" or varies and type(value) not in (int, float):
                self._unseen.add(i)
            elif varies and place not in self._tried:
                self.lifted.add(place)
            elif (
                differs
                and missed
                and (
                    place in self._looked_at
                    or len(self.compiled.records) >= _MAX_OUTCOMES
                )
            ):
                # To take it as an input did not help: its value was looked at.
                self._unseen.add(i)
            self._seen[i] = marks[i]
        if self.root._captured:
            engine, args, kwargs = self.root._captured
            given = (*args, *kwargs.values())
            for place in engine.lifted:
                self.lifted |= places_in(place, given, values)
        # One of two values cannot be made an object of its own.
        unseen = [
            i
            for i in sorted(self._unseen)
            if (kinds[i] != "o" or type(values[i]) in (tuple, slice))
            and not isinstance(values[i], bool | None)
        ]
        lifted = {p for p in self.lifted if not _lies_in(p, unseen)}
        signature = tuple(
            None
            if i in unseen
            else type(values[i])
            if f"#{i}" in lifted
            else _without_sizes(f"#{i}", m, lifted)
            for i, m in enumerate(marks)
        )
        # A recording that is part of something larger has no record of its own.
        answers = self.compiled.records or self._recorded_in == self._run
        if (
            (signature in self._recorded and not missed and answers)
            or not self._backoff.may_observe(self._observed_modes)
            or self._repeats >= _REPEATS
            or len(self.compiled.records) + self._repeats >= self.settings.max_records
        ):
            return False
        self._recorded.add(signature)
        self._recorded_in = self._run
        self._repeats += 1
        self._tried |= lifted
        flags = (-1,) if self._no_loop else ()
        return (*unseen, *flags), tuple(lifted)

    def _add_loop(self, part: Part) -> bool:
        """A part that is a loop, if it can be compiled."""
        if not self.make_record(part, attempt=True):
            return False
        self.root.loops += 1
        if part.cut or self is not self.root:
            self.parts.append(part)
        return True

    def make_record(self, part: Part, attempt: bool = False) -> bool:
        """Makes a record of a recording. ``attempt``: that it cannot be compiled is no failure;
        nor is it where cuts leave the part's numbers to Python."""
        try:
            self.install(part)
        except _C.BuildError as error:
            if attempt:
                self.root.loops_left.append(str(error).splitlines()[0])
                self._no_loop = True
                return False
            if part.numbers:
                self.root.cut_points |= part.numbers
                return False
            self._failed(f"pyjit's compiler failed: {error}")
            if self.settings.strict:
                raise CompileError(f"{self.name}: {error}") from None
            if not self._warned:
                self._warned = True
                warnings.warn(
                    f"pyjit: {self.name} runs in eager because pyjit's compiler failed: "
                    f"{str(error).splitlines()[0]}",
                    RuntimeWarning,
                    stacklevel=2,
                    skip_file_prefixes=(os.path.dirname(__file__),),
                )
            return False
        return True

    def _add(self, part: Part) -> None:
        """From now on, a part's record answers calls."""
        end = None
        record = part.record
        if part.cut is not None:
            reason, frames = part.cut
            self.root.cut_sites.setdefault(part.site, reason)
            end = self._end(frames)
        record.set_end(end, part.grad_mode, part.footing)
        for stage, seconds in record.stages():
            self.stage_seconds[stage] = self.stage_seconds.get(stage, 0.0) + seconds
        self._backoff.came_to_something(self._observed_modes)
        self.compiled.add_record(record)
        self.turns.begin(record)
        self._made_with[record] = set(part.lifted)
        self._log(record)

    def install(self, part: Part) -> None:
        """Compiles a part. Raises BuildError."""
        start = time.perf_counter()
        try:
            with progress(self.name):
                part.record = self._build(
                    part.trace, part.objects, part.nargs, part.keywords
                )
        finally:
            self.compile_seconds += time.perf_counter() - start
        self._add(part)

    def _goes_round(self) -> None:
        """One call comes by here again and again: called by ``_C.Cut``."""
        if not self._may_loop or self._no_loop or self._rounds_noted >= _REPEATS:
            return
        # The loop was too short to be recorded as one; now it is not.
        self._rounds_noted += 1
        self._may_loop = False
        self.compiled.drop_records()
        self.parts.clear()

    def _build(
        self, trace: _C.Trace, objects: list, nargs: int, keywords: tuple[str, ...]
    ) -> Any:
        """Where a record for all sizes does not compile, one for the recorded sizes."""

        def build(pin_sizes: bool) -> Any:
            record = _C.build(
                trace,
                objects,
                nargs,
                keywords or None,
                self.settings.eager_rounding,
                str(dump_dir() or ""),
                "cpu" if self.settings.software_device else "",
                pin_sizes,
                verifies(),
            )
            if self.settings.launch:
                record.prefer_launch(self.settings.launch)
            return record

        if not trace.lifts_sizes and not trace.computes_sizes:
            return build(False)
        if not self.fixed_sizes:
            try:
                return build(False)
            except _C.BuildError as error:
                self.fixed_sizes = str(error).splitlines()[0]
                self.lifted = {place for place in self.lifted if "$" not in place}
        return build(True)

    def _end(self, frames: tuple) -> Any:
        """What runs the frames that a record leaves at a cut."""
        steps = []
        for level, (*at, exits) in enumerate(frames):
            keys = tuple(Key(*key) for key in exits)
            function, markers = step(Key(*at), keys, inner=level + 1 < len(frames))
            goes_on = tuple(
                (marker, self.root._continuation(key).compiled)
                for marker, key in zip(markers, keys)
            )
            steps.append((function, goes_on))
        return _C.Cut(tuple(steps))

    def _failed(self, reason: str) -> None:
        self.cuts += 1
        self._note(reason)
        since = self.root._observed_since
        self._backoff.observed_in_vain(self._observed_modes, since)

    def _look(self, record: Any) -> None:
        """A record is due to be compared with eager: called by the compiled function."""
        self.turns.look(record)

    def _compared(self, record: Any, seconds: float | None) -> None:
        """A call of it, or of eager, was timed: called by the compiled function."""
        self.turns.compared(record, seconds)

    def _raised(self, record: Any) -> None:
        """Its launch has raised several times where eager did not: called by the compiled function."""
        error = next(iter(record.last_error.splitlines()), "no message")
        if record.symbols and not self.fixed_sizes:
            # With its sizes as numbers it may be another matter.
            self.fixed_sizes = f"a graph for all sizes raised: {error}"
            self.lifted = {place for place in self.lifted if "$" not in place}
            self.parts = [part for part in self.parts if part.record is not record]
            self.compiled.drop_record(record)
        else:
            self.turns.give_up(
                record, f"a graph raises where eager does not, the last time: {error}"
            )

    def _note(self, reason: str) -> None:
        if reason not in self.reasons:
            self.reasons.append(reason)

    def _symbol(self) -> str:
        return "".join(c if c.isalnum() or c == "_" else "_" for c in self.name)

    def _log(self, record: Any) -> None:
        for topic in sorted(log_topics()):
            print(
                f"[pyjit:{topic}] {self.name}\n{self._log_text(record, topic)}",
                file=sys.stderr,
            )

    def _log_text(self, record: Any, topic: str) -> str:
        if topic == "cache":
            return (
                f"record {len(self.compiled.records)} of at most {self.settings.max_records}: {record.guards} guards, "
                f"compiled in {1e3 * sum(seconds for _, seconds in record.stages()):.1f} ms; "
                f"{self.compiled.hits} hits and {self.compiled.misses} misses so far"
            )
        text = record.text(topic)
        if text:
            return text.rstrip()
        if topic == "cudagraph":
            return f"no graph: {record.kernels} kernels and {record.library_calls} library calls run on the CPU"
        return "nothing"

    def engines(self) -> list[Engine]:
        """This engine and those of its continuations."""
        return [self, *self.continuations.values()]

    def describe_records(self) -> list[dict[str, Any]]:
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
            for engine in self.engines()
            for r in engine.compiled.records
        ]

    def stats(self) -> dict[str, Any]:
        engines = self.engines()
        records = [r for engine in engines for r in engine.compiled.records]
        stage_seconds: dict[str, float] = {}
        for engine in engines:
            for stage, seconds in engine.stage_seconds.items():
                stage_seconds[stage] = stage_seconds.get(stage, 0.0) + seconds
        reasons = [reason for engine in engines for reason in engine.reasons]
        return {
            "records": len(records),
            "graphs": len(records),
            "cuts": len(self.cut_sites) + sum(engine.cuts for engine in engines),
            "cut_sites": list(self.cut_sites.values()),
            "loops": self.loops,
            "loops_left": list(self.loops_left),
            "branches": self.branches.merged,
            # Branches on data that have gone one way so far, which the graphs rely on.
            "expectations": list(
                dict.fromkeys(
                    reason
                    for e in engines
                    for part in e.parts
                    if part.record
                    for reason in part.expectations
                )
            ),
            "branches_left": list(dict.fromkeys(self.branches.left.values())),
            "symbols": sum(r.symbols for r in records),
            "fixed_sizes": list(
                dict.fromkeys(e.fixed_sizes for e in engines if e.fixed_sizes)
            ),
            # Sizes that were to differ between calls and could not, and why.
            "pinned_sizes": list(
                dict.fromkeys(
                    line for r in records for line in r.text("sizes").splitlines()
                )
            ),
            "hits": self.compiled.hits,
            "continuation_hits": sum(e.compiled.hits for e in engines[1:]),
            "misses": sum(e.compiled.misses for e in engines),
            "eager_calls": sum(e.compiled.eager_calls for e in engines),
            "compile_seconds": sum(e.compile_seconds for e in engines),
            "kernels": sum(r.kernels for r in records),
            "library_calls": sum(r.library_calls for r in records),
            "guards": sum(r.guards for r in records),
            "compared": [
                {
                    "function": e.name,
                    "compiled_microseconds": 1e6 * known.compiled_seconds,
                    "eager_microseconds": 1e6 * known.eager_seconds,
                    "answers": "eager" if r.left_to_eager else "record",
                }
                for e in engines
                for r in e.compiled.records
                if (known := e.turns.comparisons.get(r)) and known.looks
            ],
            "reasons": list(dict.fromkeys(reasons))
            + [reason for e in engines for reason in e.turns.reasons()]
            + [
                f"{r.failures} call(s) of a graph raised and ran in eager, the last with: "
                + next(iter(r.last_error.splitlines()), "no message")
                for r in records
                if r.failures
            ],
            "stage_seconds": stage_seconds,
            "host_microseconds": next(
                (r.host_microseconds for r in records if r.host_microseconds), None
            ),
        }
