"""The public face of pyjit, for type checkers and readers."""

from collections.abc import Callable
from os import PathLike
from typing import Any, overload

__all__ = [
    "CaptureError",
    "CompileError",
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

class CaptureError(RuntimeError):
    """A call could not be captured as one graph, and ``fullgraph=True`` asked for that."""

class CompileError(RuntimeError):
    """pyjit's own compiler failed, and ``options={"strict": True}`` asked to hear of it."""

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
    mode: str | None = ...,
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
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    disable: bool = ...,
    name: str | None = ...,
) -> Callable[[F], F]: ...
def disable[F: Callable[..., Any]](fn: F) -> F: ...
def explain[**P](fn: Callable[P, Any]) -> Callable[P, str]: ...
def is_compiling() -> bool: ...
def records(compiled: Callable[..., Any]) -> list[dict[str, Any]]: ...
def specializations(compiled: Callable[..., Any]) -> list[dict[str, Any]]: ...
def reset() -> None: ...
def stats(compiled: Callable[..., Any]) -> dict[str, Any]: ...
def trace[**P](fn: Callable[P, Any]) -> Callable[P, Trace]: ...
