# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From a recorded segment to a specialization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyjit import _C
from pyjit._dumps import Dumps
from pyjit._guards import Guards
from pyjit._misses import argument_names
from pyjit._settings import verifies

if TYPE_CHECKING:
    from pyjit._call_segment import CallSegment
    from pyjit._engine import Engine


def build(
    engine: Engine, segment: CallSegment, given: tuple[tuple, dict[str, Any]] | None
) -> Any:
    """Compiles a segment of the engine's function: where a specialization for all sizes does not compile, one for
    the recorded sizes. ``given``: the call's arguments where dumps have them. Raises BuildError."""
    dumps = Dumps.next(engine.name, engine.settings)
    with dumps:
        specialization = _build_for_sizes(engine, segment, dumps)
        if dumps.folder and given:
            args, kwargs = given
            names = argument_names(engine, kwargs)
            guards = Guards(specialization, engine.compiled.target, names)
            dumps.add_inputs(specialization, guards, args, kwargs)
        return specialization


def _build_for_sizes(engine: Engine, segment: CallSegment, dumps: Dumps) -> Any:
    trace, numbers = segment.trace, engine.numbers
    if not trace.lifts_sizes and not trace.computes_sizes:
        return _build(engine, segment, dumps, specialize_sizes=False)
    if not numbers.fixed_sizes:
        try:
            return _build(engine, segment, dumps, specialize_sizes=False)
        except _C.BuildError as error:
            numbers.fix_sizes(str(error).splitlines()[0])
    return _build(engine, segment, dumps, specialize_sizes=True)


def _build(
    engine: Engine, segment: CallSegment, dumps: Dumps, specialize_sizes: bool
) -> Any:
    settings = engine.settings
    dumps.specializes_sizes = specialize_sizes
    specialization = _C.build(
        segment.trace,
        segment.objects,
        segment.nargs,
        segment.keywords or None,
        eager_rounding=settings.eager_rounding,
        dump_dir=dumps.folder,
        accelerator="cpu" if settings.simulated_device else "",
        specialize_sizes=specialize_sizes,
        verify=verifies(),
        depth=settings.depth,
    )
    if settings.launch:
        specialization.prefer_launch(settings.launch)
    return specialization
