# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The public face of pyjit, for type checkers and readers."""

from collections.abc import Callable, Iterable
from os import PathLike
from typing import Any, ClassVar, Literal, overload

from torch import Tensor

from pyjit._bisect import Difference
from pyjit._C import ReasonKind
from pyjit._explain import Explanation
from pyjit._reasons import Place
from pyjit._timings import Timing

__all__ = [
    "Bisection",
    "CaptureError",
    "CompileError",
    "PyjitWarning",
    "Reason",
    "Report",
    "Statistics",
    "Trace",
    "bisect",
    "compile",
    "disable",
    "explain",
    "is_compiling",
    "mark_dynamic",
    "mark_static",
    "records",
    "reset",
    "specializations",
    "stats",
    "trace",
]
__version__: str

type Detail = Literal["guards", "ir", "kernels", "launch", "all"]
type Mode = Literal[
    "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"
]

class CaptureError(RuntimeError):
    """A call cannot be one graph, and ``fullgraph=True`` asked for that; or it would run in eager, and
    ``options={"fallback": "raise"}`` did. The call has not begun."""

class CompileError(RuntimeError):
    """pyjit's own compiler failed, and ``options={"strict": True}`` asked to hear of it."""

class PyjitWarning(RuntimeWarning):
    """Calls run in eager and go on doing so; given once for each function and kind of reason."""

    reason: Reason | None

class Reason(str):
    """Why a call broke or ran in eager: a text that also says what kind of reason it is (docs/GraphBreaks.md)."""

    kind: ReasonKind
    stack: tuple[Place, ...]
    """The program's lines, outermost first."""
    @property
    def code(self) -> str:
        """The section of docs/GraphBreaks.md: ``branch-on-data``."""
    @property
    def title(self) -> str:
        """The kind of reason, in a few words."""
    @property
    def remedy(self) -> str:
        """What to do, as a sentence without its full stop."""
    @property
    def passing(self) -> bool:
        """It is so in a first call, or for a while; nothing has to be done."""
    @property
    def docs(self) -> str:
        """Where it is explained: ``docs/GraphBreaks.md#branch-on-data``."""
    @property
    def place(self) -> Place | None:
        """The user's line: the innermost that is no installed package's."""
    def to_dict(self) -> dict[str, Any]:
        """All of it, of types that ``json`` takes."""

class Statistics(dict[str, Any]):
    """What a compiled function has come to. A dict whose keys are attributes, too."""

    FIELDS: ClassVar[dict[str, str]]
    """What each key means."""
    graphs: int
    """Specializations that are kept, those after graph breaks included."""
    specializations: int
    """The same."""
    graph_breaks: int
    """Places in the program where calls break; a call that is not recorded at all is none."""
    graph_break_sites: list[Reason]
    """Why they do, each a Reason (a str with kind, place, remedy)."""
    hits: int
    """Calls of the function that a specialization answered."""
    continuation_hits: int
    """Likewise of what follows a graph break."""
    misses: int
    """Calls that no specialization answered; those of the latter included."""
    miss_causes: list[dict[str, Any]]
    """Which guards those that were recorded anew had failed, each a dict: guard, was, now (in
    the latest), count, dynamic."""
    eager_calls: int
    """Calls that ran in eager and left no specialization, those that were timed to compare
    included."""
    eager_calls_timed: int
    """The latter alone."""
    reasons: list[Reason]
    """Why calls broke or ran in eager, each a Reason; not empty where one did."""
    eager_reasons: list[Reason]
    """Those of calls that ran in eager and would again."""
    compile_seconds: float
    """What the compiler took, all specializations together."""
    stage_seconds: dict[str, float]
    """Likewise by stage."""
    kernels: int
    """Generated kernels, all specializations together."""
    vendor_calls: int
    """Calls of vendor libraries, likewise."""
    guards: int
    """Steps of guard programs, likewise."""
    symbols: int
    """Sizes that may differ between calls."""
    compared: list[dict[str, Any]]
    """Specializations that were timed in turns with eager: compiled_microseconds,
    eager_microseconds, step_microseconds (in grad mode, from the beginning of a call to that of
    the next one: compiled, in eager), answers."""
    compiled_modules: list[dict[str, Any]]
    """Modules that parts of calls in eager call, which run compiled, each a dict: module (its class),
    graphs, graph_breaks, hits, eager_calls, kernels, reasons."""
    host_microseconds: float | None
    """Median of a hit without its launch, where pyjit._C.measure_host is on; else None."""
    loops: int
    """Loops that data end, in one program each."""
    loops_left: list[str]
    """Why others go round through graph breaks."""
    branches: int
    """Branches on data with both sides in one program."""
    branches_left: list[str]
    """Why others stay graph breaks."""
    speculations: list[str]
    """Branches on data that have gone one way so far, which the graphs rely on."""
    fixed_sizes: list[str]
    """Why sizes are compiled one by one."""
    specialized_sizes: list[str]
    """Sizes that were to differ between calls and could not, and why."""
    packed_weight_bytes: int
    """Memory of packed, joined and folded weights that are kept beside the weights themselves; what several
    specializations keep counts once."""
    planned_memory_bytes: int
    """The most that a call takes beside its inputs and results, what it saves for its backward included, as far as it
    is planned: sizes do not differ between calls, and what vendor calls allocate is not in it."""

class Report:
    """What became of a function's calls (docs/Explain.md). ``print(report)`` shows the first screen."""

    name: str
    stats: Statistics
    graph_breaks: list[Reason]
    """Every place where a graph ends within a call, each once."""
    eager_reasons: list[Reason]
    """Why whole calls ran in eager."""
    timings: list[Timing] | None
    """What kernels and vendor calls took in the call that was made for ``detail="kernels"``."""
    def text(self, detail: Detail | None = None) -> str:
        """The first screen (at most 25 lines), and after it the detail that is asked for.

        Raises ``ValueError`` for an unknown detail."""
    def to_dict(self) -> dict[str, Any]:
        """Everything but the IR, of types that ``json`` takes."""
    def save(self, path: str | PathLike[str]) -> None:
        """Writes one HTML page that needs no network. Raises ``OSError`` where it cannot be written."""
    def __contains__(self, words: str) -> bool:
        """Whether the report, with all details, has these words."""

class Bisection:
    """Which depth of compilation is the first to give another answer than eager; print it."""

    depth: str | None
    """``operators``, ``library``, ``kernels`` or ``fusion``; None where all answers are eager's."""
    differences: dict[str, list[Difference]]
    """What differs, of each depth that ran."""
    @property
    def what(self) -> str:
        """The part of the compiler that the depth adds; empty where no answer differs."""

class Trace:
    """What one monitored run recorded: eager's result, and refgraph text or a reason."""

    result: Any
    """What the call returned, in eager."""
    text: str
    """The call's ``refgraph.trace`` (docs/TraceGrammar.md); empty where there is none."""
    reason: str
    """Why there is no trace of the whole call; empty where there is one."""
    def save(self, path: str | PathLike[str]) -> None:
        """Writes ``text`` to a file, which ``pyjit-opt`` and ``pyjit-run`` take.

        Raises ``OSError`` where it cannot be written, ``ValueError`` where there is no trace."""

@overload
def compile[F: Callable[..., Any]](
    model: F,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: str = ...,
    mode: Mode | None = ...,
    options: dict[str, Any] | None = ...,
    disable: bool = ...,
    name: str | None = ...,
) -> F:
    """A function, module or method that does the same, faster from the second call on.

    The first call runs in eager and is observed; later calls that look the same are answered by compiled code. Results,
    effects and exceptions are eager's. A compiled module is still that module. Without ``model`` it is a decorator.
    docs/Options.md has every argument and option.

    Raises ``TypeError`` for what cannot be compiled, ``ValueError`` for an argument or option out of range.

    >>> import pyjit, torch
    >>> @pyjit.compile
    ... def double(x: torch.Tensor) -> torch.Tensor:
    ...     return x * 2
    >>> [double(torch.full((2,), float(n))).tolist() for n in range(3)]
    [[0.0, 0.0], [2.0, 2.0], [4.0, 4.0]]
    >>> pyjit.stats(double).hits
    2
    """

@overload
def compile[F: Callable[..., Any]](
    model: None = ...,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: str = ...,
    mode: Mode | None = ...,
    options: dict[str, Any] | None = ...,
    disable: bool = ...,
    name: str | None = ...,
) -> Callable[[F], F]: ...
def disable[F: Callable[..., Any]](fn: F) -> F:
    """Marks a function as never compiled: a graph ends before its call, and another begins after it.

    >>> import pyjit
    >>> @pyjit.disable
    ... def log(x):
    ...     print("largest", x.max().item())
    """

def bisect(
    fn: Callable[..., Any],
    *args: Any,
    options: dict[str, Any] | None = ...,
    tolerance: float | None = ...,
    **kwargs: Any,
) -> Bisection:
    """Calls copies of ``fn`` in eager and compiled to each depth: which is the first whose answer differs?

    Modules, bound methods' objects and arguments are copied; ``tolerance`` is relative to a tensor's largest element.
    Raises ``TypeError`` where ``fn`` cannot be called, ``ValueError`` for options that it sets itself.

    >>> import pyjit, torch
    >>> print(pyjit.bisect(torch.nn.Linear(4, 2), torch.ones(3, 4)))
    the answers at each depth are eager's, within the tolerance
    """

def explain(fn: Callable[..., Any], detail: Detail | None = ...) -> Explanation:
    """What became of a function's calls: print it, or call it with arguments for the ``Report`` of one more call.

    ``fn`` is what ``compile`` or ``torch.compile(backend="pyjit")`` returned, or anything that can be compiled.
    Raises ``TypeError`` for something that cannot be called, ``ValueError`` for an unknown detail.

    >>> import pyjit, torch
    >>> fast = pyjit.compile(torch.relu, name="relu")
    >>> report = pyjit.explain(fast)(torch.ones(3))
    >>> report.graph_breaks
    []
    """

def is_compiling() -> bool:
    """True while a call is recorded, and in what is compiled of it; False in eager.

    >>> import pyjit
    >>> pyjit.is_compiling()
    False
    """

def mark_dynamic(tensor: Tensor, dims: int | Iterable[int]) -> None:
    """Says of an argument that these of its sizes will differ between calls: they are symbols from the first
    specialization on that such a call has, if the graph can hold them. ``torch._dynamo.mark_dynamic`` and
    ``maybe_mark_dynamic`` say the same.

    >>> import pyjit, torch
    >>> x = torch.ones(4, 3)
    >>> pyjit.mark_dynamic(x, 0)

    Raises ``TypeError`` for what is no tensor, ``IndexError`` for a dimension that it does not have."""

def mark_static(tensor: Tensor, dims: int | Iterable[int]) -> None:
    """Says of an argument that these of its sizes are worth a specialization each. ``torch._dynamo.mark_static``
    says the same. Raises as ``mark_dynamic``."""

def records(compiled: Callable[..., Any]) -> list[dict[str, Any]]:
    """The former name of ``specializations``."""

def specializations(compiled: Callable[..., Any]) -> list[dict[str, Any]]:
    """A dict for each specialization that is kept, in the order in which calls ask them: how many inputs, guards, kernels
    and hits it has, and the seconds of each stage of its compilation.

    Raises ``TypeError`` for what ``compile`` did not return.

    >>> import pyjit, torch
    >>> fast = pyjit.compile(torch.exp)
    >>> len(pyjit.specializations(fast))
    0
    >>> _ = fast(torch.zeros(2))
    >>> len(pyjit.specializations(fast))
    1
    """

def reset() -> None:
    """Forgets every specialization and counter of every compiled function; the next calls are recorded again."""

def stats(compiled: Callable[..., Any]) -> Statistics:
    """What a compiled function has come to, as counts and lists; times have their unit in the name.

    Raises ``TypeError`` for what neither ``compile`` nor ``torch.compile(backend="pyjit")`` returned.

    >>> import pyjit, torch
    >>> fast = pyjit.compile(torch.exp)
    >>> for _ in range(3):
    ...     _ = fast(torch.zeros(2))
    >>> pyjit.stats(fast).hits, pyjit.stats(fast)["graph_breaks"]
    (2, 0)
    """

def trace[**P](fn: Callable[P, Any]) -> Callable[P, Trace]:
    """A function that makes one call of ``fn`` in eager, observed, and returns its ``Trace``; nothing is compiled.

    >>> import pyjit, torch
    >>> trace = pyjit.trace(torch.exp)(torch.zeros(2))
    >>> trace.result.tolist(), "aten::exp" in trace.text
    ([1.0, 1.0], True)
    """
