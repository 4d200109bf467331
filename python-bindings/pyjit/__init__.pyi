"""The public face of pyjit, for type checkers and readers."""

from collections.abc import Callable
from os import PathLike
from typing import Any, ClassVar, Literal, overload

from pyjit._C import ReasonKind
from pyjit._explain import Explanation
from pyjit._reasons import Place

__all__ = [
    "CaptureError",
    "CompileError",
    "PyjitWarning",
    "Reason",
    "Report",
    "Statistics",
    "Trace",
    "compile",
    "disable",
    "explain",
    "is_compiling",
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
    def title(self) -> str: ...
    @property
    def remedy(self) -> str: ...
    @property
    def passing(self) -> bool:
        """It is so in a first call, or for a while; nothing has to be done."""
    @property
    def docs(self) -> str: ...
    @property
    def place(self) -> Place | None:
        """The user's line: the innermost that is no installed package's."""
    def to_dict(self) -> dict[str, Any]: ...

class Statistics(dict[str, Any]):
    """What a compiled function has come to. A dict whose keys are attributes, too."""

    FIELDS: ClassVar[dict[str, str]]
    """What each key means."""
    graphs: int
    specializations: int
    graph_breaks: int
    graph_break_sites: list[Reason]
    hits: int
    continuation_hits: int
    misses: int
    miss_causes: list[dict[str, Any]]
    eager_calls: int
    eager_calls_timed: int
    reasons: list[Reason]
    eager_reasons: list[Reason]
    compile_seconds: float
    stage_seconds: dict[str, float]
    kernels: int
    vendor_calls: int
    guards: int
    symbols: int
    compared: list[dict[str, Any]]
    host_microseconds: float | None
    loops: int
    loops_left: list[str]
    branches: int
    branches_left: list[str]
    speculations: list[str]
    fixed_sizes: list[str]
    specialized_sizes: list[str]

class Report:
    """What became of a function's calls (docs/Explain.md). ``print(report)`` shows the first screen."""

    name: str
    stats: Statistics
    graph_breaks: list[Reason]
    eager_reasons: list[Reason]
    def text(self, detail: Detail | None = None) -> str: ...
    def to_dict(self) -> dict[str, Any]: ...
    def save(self, path: str | PathLike[str]) -> None:
        """One HTML page that needs no network."""
    def __contains__(self, words: str) -> bool: ...

class Trace:
    """What one monitored run recorded: eager's result, and refgraph text or a reason."""

    result: Any
    text: str
    reason: str
    def save(self, path: str | PathLike[str]) -> None: ...

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
) -> F: ...
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
def disable[F: Callable[..., Any]](fn: F) -> F: ...
def explain(fn: Callable[..., Any], detail: Detail | None = ...) -> Explanation: ...
def is_compiling() -> bool: ...
def records(compiled: Callable[..., Any]) -> list[dict[str, Any]]: ...
def specializations(compiled: Callable[..., Any]) -> list[dict[str, Any]]: ...
def reset() -> None: ...
def stats(compiled: Callable[..., Any]) -> Statistics: ...
def trace[**P](fn: Callable[P, Any]) -> Callable[P, Trace]: ...
