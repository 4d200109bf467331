# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What happens when a call meets no specialization: observe it, compile it, remember it."""

from __future__ import annotations

import collections
import contextlib
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from pyjit import _C
from pyjit._backoff import CLOCK, Backoff
from pyjit._branches import Branches
from pyjit._building import build
from pyjit._C import ReasonKind
from pyjit._call_segment import CallSegment
from pyjit._continuation import Key, continuation, step
from pyjit._dumps import is_dumping
from pyjit._dynamic import Arguments, DynamicNumbers, Lifted, sizes_of
from pyjit._errors import CaptureError, CompileError, describe_refusal
from pyjit._fallback import Fallback
from pyjit._fixed_values import FixedValues
from pyjit._gradients import refused_site
from pyjit._guards import function_of
from pyjit._handles import Handles
from pyjit._limit import SpecializationLimit
from pyjit._loops import Loops
from pyjit._misses import Misses
from pyjit._modules import CompiledModules
from pyjit._planner import Planner
from pyjit._progress import progress
from pyjit._reasons import Reason, stack_of
from pyjit._recorded_run import (
    BRANCH_ON_DATA,
    MAX_GRAPH_BREAKS,
    RecordedRun,
    go_through,
)
from pyjit._settings import Settings
from pyjit._statistics import log
from pyjit._turns import Turns

# Concurrent captures would observe one another; one at a time in the process.
_capture_lock = threading.Lock()


_MAX_CONTINUATIONS = 256
_VAIN = 8
"""Calls, each of another signature, that came by without a hit in between, for each call that is let past whatever its arguments are,"""
_MOST_PAST = 31
"""and how many of those at most: to ask some thirty specializations takes as long as a short call."""


class _Observed(NamedTuple):
    """A call that is monitored now."""

    engine: Engine
    args: tuple
    kwargs: dict[str, Any]


class Engine:
    """The specializations of one compiled function and the policy that makes them.

    Where a call has a graph break, what follows is a function of its own with an engine of its own; the
    engine of the function that the user compiled is their ``root``.
    """

    def __init__(
        self,
        target: Callable,
        settings: Settings,
        root: Engine | None = None,
        modules: CompiledModules | None = None,
    ) -> None:
        self.settings = settings
        self.root = root or self
        self.name = settings.name or getattr(
            target, "__qualname__", type(target).__qualname__
        )
        self.compiled = _C.CompiledFunction(target, self._miss)
        self.compiled.engine = self
        # What answers modules that parts of calls in eager call; a module's engine shares it.
        self.modules = modules or self._own_modules()
        self.is_modules = modules is not None
        self.compiled.modules = self.modules and self.modules.calls
        # Of a continuation: where it begins.
        self.key: Key | None = None
        # A continuation's specialization is part of a call: the call's first specialization is compared.
        self.turns = Turns(self.compiled, settings.compare_with_eager and root is None)
        self._clear()

    def _own_modules(self) -> CompiledModules | None:
        if self.root is not self:
            return self.root.modules
        if self.settings.fullgraph or not self.settings.compile_modules:
            return None
        return CompiledModules(self)

    def _clear(self) -> None:
        self.captures = 0
        self.graph_breaks = 0
        self.compile_seconds = 0.0
        self.stage_seconds: dict[str, float] = {}
        # Why calls ran in eager, each once.
        self.reasons: dict[str, Reason] = {}
        self.misses = Misses()
        self.fallback = Fallback(self.name, self.settings.fallback)
        self.numbers = DynamicNumbers()
        if self.settings.dynamic is False:
            self.numbers.fix_sizes("dynamic=False")
        self.planner = Planner(self.numbers)
        self.loops = Loops()
        #: A recording that made state has been seen, and nothing was compiled of it.
        self._has_made_state = False
        # Loops that data end: compiled, and why others go round through graph breaks.
        self.compiled_loops = 0
        self.loops_left: list[str] = []
        self.continuations: dict[Key, Engine] = {}
        # Instructions in front of which the recorder breaks the graph, and why.
        self.graph_break_points: dict[tuple[Any, int], _C.Reason] = {}
        # What instructions fixed that may differ between calls, and which of them a specialization rests on.
        self.fixed_values = FixedValues()
        self._fixed_sites: dict[Any, frozenset[tuple[Any, int]]] = {}
        # Branches that recordings went through, how often, and those of the present recording.
        self.one_way: collections.Counter[tuple[Any, int]] = collections.Counter()
        self._gone_through: set[tuple[Any, int]] = set()
        # Instructions at which something was so in one call only, and how often that was.
        self.passed: collections.Counter[tuple[Any, int]] = collections.Counter()
        # What the present capture went on with after each graph break.
        self._path: list[Key] = []
        self._observed: _Observed | None = None
        # While dumps are written: arguments of the latest recorded call, by position and by keyword.
        self._dumped: tuple[tuple, dict[str, Any]] | None = None
        # Where specializations end, and why.
        self.graph_break_sites: dict[tuple[Any, int], Reason] = {}
        # The recordings behind the specializations, where a branch may join them.
        self.call_segments: list[CallSegment] = []
        self.branches = Branches(self)
        self._context: _C.Context | None = None
        self._handles = Handles()
        self.turns.clear()
        self._limit = SpecializationLimit(self)
        self._backoff = Backoff(
            free=self._limit.free_recordings(), free_seconds=self._limit.free_seconds()
        )
        # When the latest monitored run began; the modes when it came here.
        self._observed_since = 0.0
        self._observed_modes: tuple = ()
        # When eager answered last: the hits, its calls, and how many in a row came by in vain.
        self._hits_before = -1
        self._eager_before = self._in_vain = 0
        # With fullgraph: why a call was no whole graph, by its modes.
        self._not_whole: dict[tuple, Reason] = {}
        # Hits of specializations (None: of the function) that pyjit.explain made.
        self.uncounted: collections.Counter[Any] = collections.Counter()

    def reset(self) -> None:
        self.compiled.clear()
        self._clear()
        if self.modules:
            self.modules.clear()

    def module_engines(self) -> list[Engine]:
        """Those that answer modules in the parts of calls that run in eager."""
        return self.modules.engines() if self.modules else []

    def _miss(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Answers a call that no specialization answers; called by the compiled function."""
        # Before the call does anything: a filter may make an exception of it.
        self.fallback.warn()
        compiled = self.compiled
        modes = self._observed_modes = self._modes()
        if refused := self._not_whole.get(modes):
            raise CaptureError(describe_refusal(self.name, refused))
        may_observe = self._backoff.may_observe(modes, compiled.hits)
        if not self.settings.fullgraph and not may_observe:
            if self._backoff.is_paid_for(modes):
                self._limit.note_wait(args, kwargs)
            return self._answer_in_eager(modes, args, kwargs)
        if self._limit.is_reached():
            if self._limit.note_reached(args, kwargs):
                self._backoff.give_up("limit")
            return self._answer_in_eager("limit", args, kwargs)
        if not _capture_lock.acquire(blocking=False):
            self.note(
                Reason(
                    ReasonKind.ANOTHER_THREAD,
                    "another thread was recording, so the call ran in eager",
                )
            )
            return compiled.call_eager(args, kwargs)
        try:
            with CLOCK.recording():
                return self._record(args, kwargs)
        finally:
            for engine in self.root.engines():
                engine._dumped = None
            # To compile gives the interpreter's lock away: another thread that recorded meanwhile would merge its
            # segments with the same ones.
            _capture_lock.release()

    def _record(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Answers a call by a monitored run, and makes of it what it can."""
        with self._own_errors():
            self._learn_from_miss(args, kwargs)
        self._keep_for_dumps(args, kwargs)
        run = self._capture_segments(args, kwargs)
        # Nobody waited for pyjit meanwhile.
        self.root._observed_since += run.eager_seconds
        with self._own_errors():
            RecordedRun(self, run, tuple(kwargs)).take()
        return run.result

    @contextlib.contextmanager
    def _own_errors(self) -> Iterator[None]:
        """An error of pyjit's own is a reason, and no exception of the user's call."""
        try:
            yield
        except Exception as error:
            if self.settings.strict:
                raise
            text = f"an error of pyjit's own: {type(error).__name__}: {error}"
            self._failed(Reason(ReasonKind.INTERNAL, text))

    def _keep_for_dumps(self, args: tuple, kwargs: dict[str, Any]) -> None:
        """Dumps have the inputs of the call that was recorded, as it leaves them."""
        if is_dumping():
            self._dumped = args, kwargs

    def _learn_from_miss(self, args: tuple, kwargs: dict[str, Any]) -> None:
        """What kept the specializations from answering, and what becomes dynamic for it."""
        numbers = self.numbers
        before = set(numbers.lifted)
        if not self.compiled.specializations and self.settings.dynamic:
            numbers.lifted |= sizes_of((*args, *kwargs.values()))
            numbers.follows_sizes = bool(numbers.lifted)
        numbers.take_marks((*args, *kwargs.values()))
        # Specializations with loops on data have no sizes that differ.
        may_follow = not self.root.compiled_loops
        numbers.missed(self.compiled.specializations, args, kwargs, may_follow)
        self.misses.add(self, args, kwargs, numbers.lifted - before)

    def own_place(self) -> tuple[tuple[str, int, str], ...]:
        """Where the compiled function is written."""
        function, _ = function_of(self.compiled.target)
        if function is None:
            return ()
        code = function.__code__
        return ((code.co_filename, code.co_firstlineno, code.co_qualname),)

    def _capture_segments(self, args: tuple, kwargs: dict[str, Any]) -> _C.Run:
        """Runs a call, monitored."""
        root = self.root
        self._handles.note((*args, *kwargs.values()))
        root._observed_since = self._backoff.clock()
        root.captures += 1
        root._path = []
        root._observed = _Observed(self, args, kwargs)
        self.planner.missed = True
        try:
            return _C.capture_with_graph_breaks(
                root.context(),
                self.compiled.target,
                args,
                kwargs,
                self._symbol(),
                points=root.graph_break_points,
                passed=root.passed,
                planner=root._plan,
                lifted=self.numbers.lifted,
                follow_sizes=self.numbers.follows_sizes,
                unseen=tuple(self._handles.renewed),
                is_part=root.is_modules,
            )
        except Exception as error:
            # The program's own: nothing is recorded of such a call.
            self._backoff.raised(self._observed_modes)
            text = f"the recorded call raised {type(error).__name__}"
            self.note(Reason(ReasonKind.RAISED, text))
            raise
        finally:
            root._observed = None

    def _forget_segments(self, sites: set[tuple[Any, int]]) -> None:
        """Drops the segments of a call that end at these places."""
        for engine in self.engines():
            for segment in [s for s in engine.call_segments if s.site in sites]:
                engine.call_segments.remove(segment)
                if segment.specialization:
                    engine.compiled.drop_specialization(segment.specialization)
        for site in sites:
            self.graph_break_sites.pop(site, None)

    def _drop(self, specialization: Any) -> None:
        """A specialization answers no calls any more."""
        self._fixed_sites.pop(specialization, None)
        self.call_segments = [
            s for s in self.call_segments if s.specialization is not specialization
        ]
        self.compiled.drop_specialization(specialization)

    def _modes(self) -> tuple:
        """What may change what comes of a monitored run, and costs little to look at."""
        target = self.compiled.target
        if type(target) is types.MethodType:
            target = target.__self__
        is_module = isinstance(target, torch.nn.Module)
        training = target.__dict__.get("training") if is_module else None
        grad, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        return grad, inference, training, _C.default_device()

    def _answer_in_eager(self, reason: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call that is not observed. Of those that follow, some come by here to be timed."""
        compiled = self.compiled
        start = self._backoff.clock()
        returned = False
        try:
            result = compiled.call_eager(args, kwargs)
            returned = True
            return result
        finally:
            past = max(compiled.eager_calls - self._eager_before - 1, 0)
            unseen = self._backoff.answered(reason, start, returned, past)
            self._let_past(unseen, args, kwargs)
            self._eager_before = compiled.eager_calls

    def _let_past(self, calls: int, args: tuple, kwargs: dict[str, Any]) -> None:
        """Of the next calls, so many need not come by. Nor do specializations need to be asked that answer nothing:
        by calls like this one and, where each is another one, by any."""
        compiled = self.compiled
        if compiled.hits != self._hits_before or not compiled.specializations:
            compiled.stay_quiet(calls)
            self._in_vain = 0
        elif not compiled.let_past(calls, *args, *kwargs.values()):
            self._in_vain += 1
            compiled.let_all_past(min(calls, self._in_vain // _VAIN, _MOST_PAST))
        self._hits_before = compiled.hits

    def _give_up(self) -> None:
        """So many graph breaks leave nothing to win."""
        sites = [*map(Reason.of, self.graph_break_points.values())]
        sites += self.graph_break_sites.values()
        modes = self._observed_modes
        self.compiled.clear()
        self._clear()
        self.note(
            Reason(
                ReasonKind.TOO_MANY_BREAKS,
                f"more than {MAX_GRAPH_BREAKS} graph breaks, the last of them: {sites[-1]}",
                sites[-1].stack,
            ),
            lasting=True,
        )
        self._backoff.give_up(modes)

    def _refuse_whole(self, reason: Reason) -> None:
        """With fullgraph: a call was no whole graph. It has had its effects: its result is not lost, and the next
        such call raises before it does anything."""
        root = self.root
        for engine in root.engines():
            for segment in engine.call_segments:
                if segment.specialization and (
                    segment.graph_break or engine is not root
                ):
                    engine.compiled.drop_specialization(segment.specialization)
            engine.call_segments.clear()
        root.graph_break_sites.clear()
        self._failed(reason)
        self.compiled.eager_calls += 1
        if not reason.passing:
            self._not_whole[self._observed_modes] = reason
            self.fallback.announce_refusal(reason)

    def context(self) -> _C.Context:
        """Where traces are made: one context for those that may be merged."""
        if self._context is None:
            self._context = _C.Context()
        return self._context

    def leave_context(self) -> None:
        """Nothing is left to be merged: what was compiled does not need its context."""
        if not any(engine.call_segments for engine in self.engines()):
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
            engine.key = key
            engine.name = f"{key.code.co_qualname} from line {line}"
            self.continuations[key] = engine
        return engine

    def _plan(
        self, key: Key, kinds: bytes, values: tuple, behind_branch: bool
    ) -> _C.Plan:
        """Whether the continuation at ``key`` is to be recorded now, and which of its arguments
        its specialization may depend on. Called by the recorder."""
        self._path.append(key)
        known = key in self.continuations
        if not known and len(self.continuations) >= _MAX_CONTINUATIONS:
            return _C.Plan((_C.PlanAction.STOP, (), (), False, False))
        arguments = Arguments(kinds, values)
        return self._continuation(key)._plan_own(arguments, behind_branch)

    def _plan_own(self, arguments: Arguments, behind_branch: bool) -> _C.Plan:
        self._keep_for_dumps(arguments.values, {})
        modes = self._observed_modes = self._modes()
        lifted = None
        if observed := self.root._observed:
            given = (*observed.args, *observed.kwargs.values())
            function, _ = function_of(self.root.compiled.target)
            alive = (function, function.__globals__) if function else ()
            lifted = Lifted(observed.engine.numbers.lifted, given, alive)
        return self.planner.plan(
            self.root.captures,
            arguments,
            len(self.compiled.specializations),
            self.settings.recompile_limit,
            self._backoff.may_observe(modes, self.compiled.hits),
            not self.loops.given_up,
            lifted,
            behind_branch,
        )

    def _add_loop(self, call_segment: CallSegment) -> bool:
        """A segment that is a loop, if it can be compiled."""
        if not self.make_specialization(call_segment, attempt=True):
            return False
        self.loops.compiled = True
        self.root.compiled_loops += 1
        if call_segment.graph_break or self is not self.root:
            self.call_segments.append(call_segment)
        return True

    def make_specialization(
        self, call_segment: CallSegment, attempt: bool = False
    ) -> bool:
        """Makes a specialization of a recording. ``attempt``: that it cannot be compiled is no failure;
        nor is it where graph breaks leave the segment's numbers to Python."""
        try:
            self.install(call_segment)
        except _C.BuildError as error:
            if attempt:
                self.root.loops_left.append(str(error).splitlines()[0])
                self.loops.given_up = True
                return False
            points = self.root.graph_break_points
            refused = refused_site(str(error), call_segment.gradient_sites)
            if refused and refused[0] not in points:
                points[refused[0]] = _C.Reason(
                    (ReasonKind.NOT_DIFFERENTIABLE, refused[1], ())
                )
                return False
            if self.root._gone_through:
                points |= dict.fromkeys(self.root._gone_through, BRANCH_ON_DATA)
                return False
            if call_segment.numbers:
                points |= call_segment.numbers
                return False
            reason = Reason(
                ReasonKind.COMPILER_FAILED,
                f"pyjit's compiler failed: {error}",
                self.own_place(),
            )
            self._failed(reason)
            if self.settings.strict:
                told = describe_refusal(self.name, reason)
                raise CompileError(f"{told}\n{error}") from None
            self.fallback.announce(reason)
            return False
        return True

    def _add(self, call_segment: CallSegment) -> None:
        """From now on, a segment's specialization answers calls."""
        end = None
        specialization = call_segment.specialization
        if call_segment.graph_break is not None:
            graph_break = call_segment.graph_break
            stack = graph_break.reason.stack or stack_of(graph_break)
            self.root.graph_break_sites.setdefault(
                call_segment.site, Reason.of(graph_break.reason, stack)
            )
            end = self._end(call_segment.frames)
        specialization.set_name(self.name)
        specialization.set_end(end, call_segment.grad_mode, call_segment.dispatch_state)
        for stage, seconds in specialization.stages():
            self.stage_seconds[stage] = self.stage_seconds.get(stage, 0.0) + seconds
        since = self.root._observed_since
        self._backoff.came_to_something(self._observed_modes, since, self.compiled.hits)
        self.compiled.add_specialization(specialization)
        self.turns.begin(specialization, end is not None)
        self.numbers.made(specialization, set(call_segment.lifted))
        self._fixed_sites[specialization] = call_segment.fixed_sites
        for dropped in self._fixed_sites.keys() - set(self.compiled.specializations):
            del self._fixed_sites[dropped]
        log(self, specialization)

    def install(self, call_segment: CallSegment) -> None:
        """Compiles a segment. Raises BuildError."""
        start = time.perf_counter()
        try:
            with progress(self.name):
                call_segment.specialization = build(self, call_segment, self._dumped)
        finally:
            self.compile_seconds += time.perf_counter() - start
        self._add(call_segment)

    def _goes_round(self) -> None:
        """One call comes by here again and again: called by ``_C.Resumption``."""
        if self.loops.try_again():
            self.compiled.drop_specializations()
            self.call_segments.clear()
            self._fixed_sites.clear()

    def _end(self, frames: tuple[_C.Frame, ...]) -> Any:
        """What runs the frames that a specialization leaves at a graph break."""
        steps = []
        for level, frame in enumerate(frames):
            inner = level + 1 < len(frames)
            function, markers = step(frame.key, frame.exits, inner=inner)
            goes_on = tuple(
                (marker, self.root._continuation(key).compiled)
                for marker, key in zip(markers, frame.exits)
            )
            steps.append((function, goes_on))
        return _C.Resumption(tuple(steps))

    def _failed(self, reason: Reason) -> None:
        self.graph_breaks += 1
        self.note(reason, lasting=reason in self.reasons and self is self.root)
        since = self.root._observed_since
        self._backoff.observed_in_vain(self._observed_modes, since)

    def _look(self, specialization: Any) -> None:
        """A specialization is due to be compared with eager: called by the compiled function."""
        self.turns.look(specialization)

    def _compared(
        self, specialization: Any, seconds: float | None, step: float | None = None
    ) -> None:
        """A call of it, or of eager, was timed: called by the compiled function."""
        if self.turns.compared(specialization, seconds, step):
            self._settle_branches()

    def _recorded(
        self, specialization: Any, seconds: float, step: float | None
    ) -> None:
        """As ``_compared``, of a call in which an engine was asked."""
        if self.turns.recorded(specialization, seconds, step):
            self._settle_branches()

    def _settle_branches(self) -> None:
        """Enough calls were answered to be compared. Where they end at branches that all of them take one way, and that
        could not be joined with what follows, the next recording goes on through these."""
        if self.settings.fullgraph or not _capture_lock.acquire(blocking=False):
            return
        try:
            if sites := self.branches.settled_one_way():
                go_through(self, sites)
        finally:
            _capture_lock.release()

    def _raised(self, specialization: Any) -> None:
        """Its launch has raised several times where eager did not: called by the compiled function."""
        error = next(iter(specialization.last_error.splitlines()), "no message")
        if specialization.symbols and not self.numbers.fixed_sizes:
            # With its sizes as numbers it may be another matter.
            self.numbers.fix_sizes(f"a graph for all sizes raised: {error}")
            self._drop(specialization)
        else:
            self.turns.give_up(
                specialization,
                f"a graph raises where eager does not, the last time: {error}",
            )

    def note(self, reason: Reason, lasting: bool = False) -> None:
        """A call ran in eager. ``lasting``: others will, too, which the user is warned of once."""
        self.reasons.setdefault(reason, reason)
        if lasting:
            self.fallback.later(reason)

    def _symbol(self) -> str:
        return "".join(c if c.isalnum() or c == "_" else "_" for c in self.name)

    @property
    def hits(self) -> int:
        """Calls of the user's that a specialization answered."""
        return self.compiled.hits - self.uncounted[None]

    def hits_of(self, specialization: Any) -> int:
        return specialization.hits - self.uncounted[specialization]

    def engines(self) -> list[Engine]:
        """This engine and those of its continuations."""
        return [self, *self.continuations.values()]
