# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a monitored call becomes: specializations, places where the next one breaks the graph, or a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyjit import _C
from pyjit._backoff import FREE_MADE
from pyjit._C import ReasonKind
from pyjit._call_segment import CallSegment
from pyjit._reasons import Reason, stack_of

if TYPE_CHECKING:
    from pyjit._engine import Engine

MAX_GRAPH_BREAKS = 64
BRANCH_ON_DATA = _C.Reason(
    (ReasonKind.BRANCH_ON_DATA, "a branch on a tensor's data", ())
)
# In place of a reason to break the graph (breaks/GraphBreaks.h).
_ONE_WAY = _C.Reason((ReasonKind.ONE_WAY, "a branch that calls take one way", ()))
_FEW_WAYS = _C.Reason((ReasonKind.FEW_WAYS, "a branch that calls take few ways", ()))
_THROUGH = (ReasonKind.ONE_WAY, ReasonKind.FEW_WAYS)
# So many recordings may go through a branch: each makes a specialization, and further ones would have to wait.
_MAX_ONE_WAY = FREE_MADE
# Likewise, where a graph break would do: a loop's branches may go another way in each call.
_MAX_FEW_WAYS = 8


def go_through(root: Engine, sites: set[tuple[Any, int]]) -> None:
    """From now on, recordings go on through these branches, each as one that calls take one way. Where
    they do so again and again, they take both, and a graph break asks what each call takes."""
    root._gone_through = sites
    if sites:
        root._forget_segments(sites)
    for site in sites:
        root.one_way[site] += 1
        point = root.graph_break_points.setdefault(site, _ONE_WAY)
        few = point.kind == ReasonKind.FEW_WAYS
        if root.one_way[site] > (_MAX_FEW_WAYS if few else _MAX_ONE_WAY):
            root.graph_break_points[site] = BRANCH_ON_DATA


class RecordedRun:
    """One monitored call of ``engine``'s function, whose keyword arguments had these names.

    A run is segments, each of the function or of a continuation of it. What they become belongs to the engines of
    these, and what holds for all of the call to their root: this is a part of Engine, which it may reach into.
    """

    def __init__(self, engine: Engine, run: _C.Run, keywords: tuple[str, ...]) -> None:
        self.engine = engine
        self.root = engine.root
        self.run = run
        self.keywords = keywords

    def take(self) -> None:
        """Makes specializations of the segments."""
        engine, root, run = self.engine, self.root, self.run
        whole = engine.settings.fullgraph
        if whole and (refused := self._breaks_off_data()):
            root.passed.update(run.passed)
            engine._refuse_whole(refused)
            return
        self._take_points()
        recorded, new = self._take_segments()
        root.passed.update(run.passed)
        breaks = max(len(root.graph_break_sites), len(root.graph_break_points))
        if breaks > MAX_GRAPH_BREAKS:
            root._give_up()
        root.branches.merge(new)
        if not whole and (
            sites := root.branches.left_one_way(new)
            | root.branches.left_again(tuple(root._path))
        ):
            go_through(root, sites)
        root.leave_context()
        if whole and root.graph_break_sites:
            # Of a branch or a loop on data that cannot be in one graph.
            why = next(iter(root.branches.left.values()), "")
            site = next(iter(root.graph_break_sites.values()))
            engine._refuse_whole(Reason(site.kind, why or str(site), site.stack))
        elif not recorded:
            self._note_not_recorded()

    def _breaks_off_data(self) -> Reason | None:
        """Why the run is not one graph, whatever becomes of branches on data."""
        run = self.run
        found = [Reason.of(why) for _, _, why in run.learned]
        for segment in run.segments:
            if graph_break := segment.graph_break:
                stack = graph_break.reason.stack or stack_of(graph_break)
                found.append(Reason.of(graph_break.reason, stack))
        if run.reason:
            found.append(Reason.of(run.reason))
        on_data = (ReasonKind.BRANCH_ON_DATA, *_THROUGH)
        return next((reason for reason in found if reason.kind not in on_data), None)

    def _take_points(self) -> None:
        """Where the next recording breaks the graph, and the branches that it goes through."""
        one_way = set()
        for code, offset, why in self.run.learned:
            if why.kind in _THROUGH:
                one_way.add((code, offset))
                if why.kind == ReasonKind.FEW_WAYS:
                    self.root.graph_break_points.setdefault((code, offset), _FEW_WAYS)
            else:
                self.root.graph_break_points[code, offset] = why
        go_through(self.root, one_way)

    def _take_segments(self) -> tuple[bool, list[tuple[Engine, CallSegment]]]:
        """Makes specializations of the segments that end a call. Whether the function itself is among what was
        recorded, and the segments that branches may join."""
        engine, root, path = self.engine, self.root, self.root._path
        recorded = False
        new: list[tuple[Engine, CallSegment]] = []
        place = 0  # on the path: segments that need no specialization are there, too
        for segment in self.run.segments:
            owner = engine
            if segment.key is not None:
                while place < len(path) and path[place] != segment.key:
                    place += 1
                place += 1
                owner = root._continuation(segment.key)
            owner.loops.was_short |= segment.may_loop
            recorded |= owner is engine
            if self._breaks_at_fixed(owner, segment):
                continue  # the next recording breaks there
            call_segment = self._segment_of_call(owner, segment)
            if call_segment is None:
                continue
            call_segment.took = path[place] if place < len(path) else None
            if call_segment.graph_break is None and owner is root:
                if segment.makes_state and not owner._has_made_state:
                    # An optimizer's first step. Nothing is compiled of what does not come again.
                    owner._has_made_state = True
                    continue
                owner.make_specialization(call_segment)
            else:
                owner.call_segments.append(call_segment)
                new.append((owner, call_segment))
        return recorded, new

    def _segment_of_call(
        self, owner: Engine, segment: _C.Segment
    ) -> CallSegment | None:
        """What is to be compiled of a segment. None: it is a loop, which is compiled now, or the next recording goes
        on through the branch at its end."""
        keywords = self.keywords if segment.key is None else ()

        def of_call(segment: _C.Segment) -> CallSegment:
            call_segment = CallSegment.of(segment, keywords)
            call_segment.lifted = set(owner.numbers.tried)
            return call_segment

        if segment.fallback is not None:
            if owner._add_loop(of_call(segment)):
                return None
            segment = segment.fallback
        call_segment = of_call(segment)
        site = call_segment.site
        point = self.root.graph_break_points.get(site) if site else None
        if point and point.kind in _THROUGH:
            return None
        return call_segment

    def _breaks_at_fixed(self, owner: Engine, segment: _C.Segment) -> bool:
        """Whether a segment fixed what recordings fix again and again: from now on the graph breaks there."""
        root = self.root
        if root.settings.fullgraph:
            return False
        found = root.fixed_values.take(segment.fixed, owner._limit.count_kinds())
        sites = found.keys() - root.graph_break_points.keys()
        root.graph_break_points |= {site: found[site] for site in sites}
        for engine in root.engines() if sites else ():
            for specialization, fixed in list(engine._fixed_sites.items()):
                if not fixed.isdisjoint(sites):
                    engine._drop(specialization)
        return bool(sites)

    def _note_not_recorded(self) -> None:
        """Eager answered the call: why."""
        engine, run = self.engine, self.run
        engine.compiled.eager_calls += 1
        if run.learned or run.passed:
            why = run.reason or run.learned[0][2] if run.learned else run.reason
            text = why.text if why else "what happens once"
            engine.note(
                Reason(
                    ReasonKind.RECORDED_NEXT,
                    f"a first call showed where to break: {text}",
                    why.stack if why else (),
                )
            )
        elif run.reason:
            engine._failed(Reason.of(run.reason))
        else:
            text = "the rest of the function was not recorded"
            engine._failed(Reason(ReasonKind.INTERNAL, text))
