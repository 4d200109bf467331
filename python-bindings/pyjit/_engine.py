"""What happens when a call meets no record: observe it, compile it, remember it."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

from pyjit import _C
from pyjit._errors import CaptureError, CompileError
from pyjit._progress import progress
from pyjit._settings import Settings, dump_dir, log_topics

# Concurrent captures would observe one another; one at a time in the process.
_capture_lock = threading.Lock()


class Engine:
    """The records of one compiled function and the policy that makes them."""

    def __init__(self, target: Callable, settings: Settings) -> None:
        self.settings = settings
        self.name = settings.name or getattr(
            target, "__qualname__", type(target).__qualname__
        )
        self.compiled = _C.CompiledFunction(target, self._miss)
        self.compiled.engine = self
        self._clear()

    def _clear(self) -> None:
        self.captures = 0
        self.cuts = 0
        self.compile_seconds = 0.0
        self.stage_seconds: dict[str, float] = {}
        self.reasons: list[str] = []
        self._failures = 0
        self._skip = 0
        self._warned = False

    def reset(self) -> None:
        self.compiled.clear()
        self._clear()

    def _miss(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Answers a call that no record answers; called by the compiled function."""
        compiled = self.compiled
        if self._skip > 0 and not self.settings.fullgraph:
            self._skip -= 1
            compiled.eager_calls += 1
            return compiled.target(*args, **kwargs)
        if len(compiled.records) >= self.settings.max_records:
            self._note(
                f"the limit of {self.settings.max_records} records is reached (option max_records); "
                "calls that meet none of them run in eager"
            )
            compiled.eager_calls += 1
            return compiled.target(*args, **kwargs)
        if not _capture_lock.acquire(blocking=False):
            compiled.eager_calls += 1
            return compiled.target(*args, **kwargs)
        try:
            result, trace, objects, reason = _C.capture(
                compiled.target, args, kwargs, self._symbol()
            )
        finally:
            _capture_lock.release()
        self.captures += 1
        if reason:
            self._failed(reason)
            compiled.eager_calls += 1
            if self.settings.fullgraph:
                raise CaptureError(
                    f"pyjit.compile(fullgraph=True): {self.name}: {reason}"
                )
            return result
        self._compile(trace, objects, len(args), tuple(kwargs))
        return result

    def _compile(
        self, trace: str, objects: list, nargs: int, keywords: tuple[str, ...]
    ) -> None:
        start = time.perf_counter()
        try:
            with progress(self.name):
                record = _C.build(
                    trace,
                    objects,
                    nargs + len(keywords),
                    keywords or None,
                    self.settings.eager_rounding,
                    str(dump_dir() or ""),
                )
        except _C.BuildError as error:
            self.compile_seconds += time.perf_counter() - start
            self._failed(f"pyjit's compiler failed: {error}")
            if self.settings.strict:
                raise CompileError(f"{self.name}: {error}") from None
            if not self._warned:
                self._warned = True
                warnings.warn(
                    f"pyjit: {self.name} runs in eager because pyjit's compiler failed: "
                    f"{str(error).splitlines()[0]}",
                    RuntimeWarning,
                    stacklevel=4,
                )
            return
        self.compile_seconds += time.perf_counter() - start
        for stage, seconds in record.stages():
            self.stage_seconds[stage] = self.stage_seconds.get(stage, 0.0) + seconds
        self._failures = 0
        self.compiled.add_record(record)
        self._log(record)

    def _failed(self, reason: str) -> None:
        self.cuts += 1
        self._note(reason)
        # Monitoring costs far more than the call; a function that keeps failing is observed
        # less and less often, so that a changed state (grad mode, say) is still noticed.
        self._failures += 1
        if self._failures >= 2:
            self._skip = min(2 ** (self._failures + 1), 1024)

    def _note(self, reason: str) -> None:
        if reason not in self.reasons:
            self.reasons.append(reason)

    def _symbol(self) -> str:
        return "".join(c if c.isalnum() or c == "_" else "_" for c in self.name)

    def _log(self, record: Any) -> None:
        for topic in sorted(log_topics()):
            text = record.text(topic)
            if text:
                print(f"[pyjit:{topic}] {self.name}\n{text}", file=sys.stderr)

    def describe_records(self) -> list[dict[str, Any]]:
        return [
            {
                "hits": r.hits,
                "guards": r.guards,
                "kernels": r.kernels,
                "library_calls": r.library_calls,
                "inputs": r.inputs,
                "prepared": r.prepared,
                "hashed": r.hashed,
                "stages": dict(r.stages()),
            }
            for r in self.compiled.records
        ]

    def stats(self) -> dict[str, Any]:
        records = self.compiled.records
        return {
            "records": len(records),
            "graphs": len(records),
            "cuts": self.cuts,
            "hits": self.compiled.hits,
            "misses": self.compiled.misses,
            "eager_calls": self.compiled.eager_calls,
            "compile_seconds": self.compile_seconds,
            "kernels": sum(r.kernels for r in records),
            "library_calls": sum(r.library_calls for r in records),
            "guards": sum(r.guards for r in records),
            "reasons": list(self.reasons)
            + [
                f"a compiled call failed and ran in eager: {r.last_error.splitlines()[0]}"
                for r in records
                if r.last_error
            ],
            "stage_seconds": dict(self.stage_seconds),
        }
