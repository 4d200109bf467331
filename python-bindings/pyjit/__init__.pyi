"""The public face of pyjit, for type checkers and readers."""

from collections.abc import Callable
from os import PathLike
from typing import Any, ParamSpec, TypeVar, overload

_P = ParamSpec("_P")
_R = TypeVar("_R")
_F = TypeVar("_F", bound=Callable[..., Any])

__all__: list[str]
__version__: str

class CaptureError(RuntimeError):
    """A call could not be captured as one graph, and ``fullgraph=True`` asked for that."""

class CompileError(RuntimeError):
    """pyjit's own compiler failed, and ``options={"strict": True}`` asked to hear of it."""

class Trace:
    """What one monitored run recorded, as refgraph text."""

    def save(self, path: str | PathLike[str]) -> None: ...

@overload
def compile(
    model: _F,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: str = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    disable: bool = ...,
    name: str | None = ...,
) -> _F: ...
@overload
def compile(
    model: None = ...,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: str = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    disable: bool = ...,
    name: str | None = ...,
) -> Callable[[_F], _F]: ...
def disable(fn: _F) -> _F: ...
def explain(fn: Callable[_P, Any]) -> Callable[_P, str]: ...
def is_compiling() -> bool: ...
def records(compiled: Callable[..., Any]) -> list[dict[str, Any]]: ...
def reset() -> None: ...
def stats(compiled: Callable[..., Any]) -> dict[str, Any]: ...
def trace(fn: Callable[_P, Any]) -> Callable[_P, Trace]: ...
