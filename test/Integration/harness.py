# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scenarios: a story of several calls, told once by eager and once by pyjit.

A scenario is a generator that gets `compile`, makes its own world, calls, changes
something between calls, and yields what a user could see. The story must be the
same whether `compile` is the identity or `pyjit.compile`.
"""

from __future__ import annotations

import functools
import linecache
import math
import random
import threading
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy
import torch

Compile = Callable[..., Any]
Steps = Iterator[object]

_sources = 0


class Raised:
    """An exception as an observation."""

    def __init__(self, error: BaseException) -> None:
        self.type = type(error)
        self.text = str(error)

    def __repr__(self) -> str:
        return f"{self.type.__name__}({self.text!r})"


class Plain:
    """An object with these attributes, of no class of the library's."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def attempt(f: Callable[..., Any], *args: Any, **kwargs: Any) -> object:
    """The result of a call, or the exception it raised."""
    try:
        return f(*args, **kwargs)
    except Exception as error:
        return Raised(error)


def in_threads(work: Callable[..., None], arguments: Iterable[tuple[Any, ...]]) -> None:
    """Calls ``work`` with each tuple of arguments in a thread of its own; raises what the first of them raised."""
    raised: list[Exception] = []

    def run(*args: Any) -> None:
        try:
            work(*args)
        except Exception as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=args) for args in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def module_of(source: str) -> types.ModuleType:
    """A fresh module from source text, with lines that tracebacks can show."""
    global _sources
    _sources += 1
    name = f"scenario_source_{_sources}"
    file = f"<{name}>"
    module = types.ModuleType(name)
    module.__file__ = file
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    exec(compile(source, file, "exec"), module.__dict__)
    return module


def snapshot(value: object) -> object:
    """A copy that later changes of the original do not reach."""
    if isinstance(value, torch.Tensor):
        facts = {
            "type": type(value),
            "dtype": value.dtype,
            "shape": tuple(value.shape),
            "requires_grad": value.requires_grad,
            "is_leaf": value.is_leaf,
            "device": value.device,
        }
        if value.layout == torch.strided:
            facts["stride"] = value.stride()
            facts["inference"] = value.is_inference()
            if not value.is_inference():
                facts["version"] = value._version
        with torch.no_grad():
            if value.device.type == "meta" or value.layout != torch.strided:
                return ("tensor", facts, None)
            plain = value.detach()
            return ("tensor", facts, plain.clone().resolve_conj().resolve_neg())
    if isinstance(value, dict):
        return (type(value), [(snapshot(k), snapshot(v)) for k, v in value.items()])
    if isinstance(value, (list, tuple)):
        return (type(value), [snapshot(item) for item in value])
    if isinstance(value, (set, frozenset)):
        return (type(value), sorted(repr(item) for item in value))
    if isinstance(value, Raised):
        return ("raised", value.type, value.text)
    if isinstance(value, (int, float, complex, str, bytes, type(None), type)):
        return (type(value), value)
    if isinstance(value, numpy.ndarray):
        return ("array", value.dtype, value.copy())
    if hasattr(value, "__dict__"):
        return (type(value), snapshot(vars(value)))
    return (type(value), repr(value))


def difference(want: object, have: object, where: str = "") -> str | None:
    """None when equal, else where and how two snapshots differ."""
    if isinstance(want, torch.Tensor) and isinstance(have, torch.Tensor):
        try:
            torch.testing.assert_close(have, want, equal_nan=True)
        except AssertionError as error:
            return f"{where}: {error}"
        return None
    if isinstance(want, dict) and isinstance(have, dict):
        # Facts about one tensor: scenario classes differ between two tellings.
        for key in want:
            if key == "type":
                if want[key].__name__ != have[key].__name__:
                    return f"{where}.type: eager {want[key]}, pyjit {have[key]}"
            elif want[key] != have[key]:
                return f"{where}.{key}: eager {want[key]}, pyjit {have[key]}"
        return None
    if isinstance(want, (list, tuple)) and isinstance(have, (list, tuple)):
        if len(want) != len(have):
            return f"{where}: eager has {len(want)} entries, pyjit {len(have)}"
        for index, pair in enumerate(zip(want, have, strict=True)):
            if found := difference(*pair, where=f"{where}[{index}]"):
                return found
        return None
    if isinstance(want, type) and isinstance(have, type):
        same = want.__qualname__ == have.__qualname__
        return None if same else f"{where}: eager {want}, pyjit {have}"
    if isinstance(want, float) and isinstance(have, float):
        if math.isnan(want) and math.isnan(have):
            return None
        if math.copysign(1, want) != math.copysign(1, have) or not math.isclose(
            want, have, rel_tol=1e-5, abs_tol=1e-7
        ):
            return f"{where}: eager {want!r}, pyjit {have!r}"
        return None
    if isinstance(want, numpy.ndarray) and isinstance(have, numpy.ndarray):
        same = numpy.allclose(want, have, equal_nan=True)
        return None if same else f"{where}: eager {want!r}, pyjit {have!r}"
    if type(want) is not type(have) or want != have:
        return f"{where}: eager {want!r}, pyjit {have!r}"
    return None


def without_versions(seen: Any) -> Any:
    """A snapshot without how often its tensors were written."""
    if isinstance(seen, dict):
        return {k: without_versions(v) for k, v in seen.items() if k != "version"}
    if isinstance(seen, (list, tuple)):
        return type(seen)([without_versions(v) for v in seen])
    return seen


def observe(
    story: Callable[..., Steps],
    compile: Compile,
    grad: bool,
    after: Callable[[], None] = lambda: None,
) -> list[object]:
    """Everything that a story shows, in order; `after` runs after each step."""
    torch.manual_seed(0)
    random.seed(0)
    numpy.random.seed(0)
    seen = []
    with torch.set_grad_enabled(grad):
        steps = story(compile)
        while True:
            try:
                seen.append(snapshot(next(steps)))
            except StopIteration:
                return seen
            after()


# Not a text that a reason must contain: any reason will do.
ANY = None


def reports(compiled: Any) -> list[str]:
    """What pyjit says of calls that were not one graph: graph breaks and eager calls, but for those that only
    taught a recording where to break."""
    from pyjit._api import engine_of
    from pyjit._statistics import eager_reasons

    engine = engine_of(compiled, "explain")
    return [
        *(
            f"runs in eager: {reason}"
            for reason in eager_reasons(engine.engines())
            if not reason.passing
        ),
        *(
            f"graph break: {reason}"
            for reason in dict.fromkeys(engine.graph_break_sites.values())
        ),
    ]


def is_told_reason(warning: Any) -> bool:
    """Whether a warning says only why calls run in eager: `reports` has that, too."""
    import pyjit
    from pyjit._C import ReasonKind

    if not isinstance(warning, pyjit.PyjitWarning) or warning.reason is None:
        return False
    return warning.reason.kind != ReasonKind.COMPILER_FAILED


def check_reports(found: list[str], expected: Iterable[str]) -> None:
    """Every reason given was expected, and every one expected was given."""
    for line in found:
        assert any(text in line for text in expected), f"not one graph: {line}"
    for text in expected:
        assert any(text in line for line in found), (
            f"no graph break or eager call for {text!r}: {found}"
        )


def tell(
    story: Callable[..., Steps],
    *,
    captured: bool | str = True,
    graph_breaks: str | Iterable[str] | None = (),
    eager: str | Iterable[str] = (),
    grad: bool = False,
    versions: bool = True,
    check: Callable[[list[Any]], None] = lambda made: None,
) -> None:
    """Runs a story both ways and fails on the first difference. See `scenario`.

    versions: version counters are compared; False where a loop on data writes, of
    which a bound is known.
    check: looks at what the story compiled, unless it is said to run in eager.
    """
    import pyjit

    want = observe(story, lambda f, **_: f, grad)
    made: list[Any] = []

    def compile_and_remember(f: Any, **options: Any) -> Any:
        compiled = pyjit.compile(f, **options)
        made.append(compiled)
        return compiled

    hits: list[int] = []

    def count() -> None:
        hits.append(sum(pyjit.stats(compiled)["hits"] for compiled in made))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        have = observe(story, compile_and_remember, grad, count)
    for index, pair in enumerate(zip(want, have, strict=False)):
        if not versions:
            pair = (without_versions(pair[0]), without_versions(pair[1]))
        found = difference(*pair, where=f"step {index}")
        assert not found, found
    assert len(want) == len(have)
    trouble = [
        str(w.message)
        for w in caught
        if "pyjit" in str(w.message) and not is_told_reason(w.message)
    ]
    assert not trouble, f"pyjit warned: {trouble[0]}"
    given = [line for compiled in made for line in reports(compiled)]
    if eager:
        check_reports(given, [eager] if isinstance(eager, str) else eager)
        assert not any(hits), "a call of a story that is said to run in eager hit"
        return
    if graph_breaks is not ANY:
        check_reports(
            given, [graph_breaks] if isinstance(graph_breaks, str) else graph_breaks
        )
    # The steps before anything changes: an equal call must be a hit, or else
    # what comes later is no test of a guard.
    early = hits if captured == "late" else hits[:2]
    assert any(early) or not captured, f"no early call ran compiled; {given}"
    check(made)


def tell_of_changes(
    f: Callable[..., Any],
    held: Callable[[], Any],
    changes: Iterable[Callable[[Any], Any]],
) -> None:
    """`f` is called with what ``held`` makes, which each of the ``changes`` alters: all of them are seen, and no call
    makes one of its own. A change may fail, where an earlier one has left nothing for it."""

    def story(compile: Compile) -> Steps:
        fast, given = compile(f), held()
        for _ in range(3):
            yield attempt(fast, values(4), given)
        for change in changes:
            attempt(change, given)
            yield attempt(fast, values(4), given), given

    tell(story, captured=False, graph_breaks=ANY)


def as_test(story: Callable[..., Steps], **expected: Any) -> Callable[[], None]:
    """The pytest test that tells a story; what is expected of it as for `tell`."""

    def test() -> None:
        tell(story, **expected)

    test.__name__ = story.__name__
    test.__doc__ = story.__doc__
    test.__module__ = story.__module__
    return test


def scenario(
    story: Callable[..., Steps] | None = None,
    *,
    captured: bool | str = True,
    graph_breaks: str | Iterable[str] | None = (),
    eager: str | Iterable[str] = (),
    grad: bool = False,
    versions: bool = True,
) -> Any:
    """Makes a pytest test of a story.

    captured: compiled code must have answered a call within the first two steps,
    so that the story is no test of eager against eager; "late": within the story. False: it
    need not (a call that raises, or that has graph breaks everywhere, has to be right as well).
    graph breaks: why calls have graph breaks or run in eager. Each line that pyjit.explain gives must
    contain one of these texts, and each text must be in a line: without them, every
    call of the story was one graph. ANY: not looked at.
    eager: no call of the story may hit, for these reasons.
    grad: told with grad mode on.
    versions: as for `tell`.
    """
    if story is None:
        return functools.partial(
            scenario,
            captured=captured,
            graph_breaks=graph_breaks,
            eager=eager,
            grad=grad,
            versions=versions,
        )

    return as_test(
        story,
        captured=captured,
        graph_breaks=graph_breaks,
        eager=eager,
        grad=grad,
        versions=versions,
    )


def values(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Any:
    """A tensor of fixed random values."""
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, generator=generator, dtype=dtype)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) > 0.5
    return torch.randint(-5, 6, shape, generator=generator).to(dtype)
