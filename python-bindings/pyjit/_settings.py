# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a caller may choose: the arguments of ``pyjit.compile`` and the environment."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from pyjit._dumps import dump_dir
from pyjit._fallback import POLICIES

LAUNCHES = ("plain", "copy", "table", "update")
# What each mode of torch.compile means here: options that it sets.
MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {},
    "max-autotune": {},
    "max-autotune-no-cudagraphs": {"launch": "plain"},
}
# How far a program is compiled, each with one thing more than the one before.
DEPTHS = ("operators", "library", "kernels", "fusion")
# Options that were renamed; the former names go with the next release.
FORMER_OPTIONS = {"software_device": "simulated_device"}
# Other names for the same.
SYNONYMS = {"max_records": "recompile_limit"}
MOST_SPECIALIZATIONS = 4096
LOG_TOPICS = {
    "guards": "the guard and mock programs of each specialization",
    "graph": "its tensor program after functionalization",
    "fusion": "the same as kernels and vendor calls",
    "kernels": "its kernels, as linalg",
    "cudagraph": "its launches on a GPU",
    "cache": "how many specializations there are, hits and misses",
    "recompiles": "each recorded miss: the guard that failed, what it was and is, what became dynamic",
}


def _is_count(value: Any) -> bool:
    return type(value) is int and 1 <= value <= MOST_SPECIALIZATIONS


def _is_flag(value: Any) -> bool:
    return type(value) is bool


# Of an option: what it takes, in words, and whether a value is that.
_TAKES: dict[str, tuple[str, type | None, Callable[[Any], bool]]] = {
    "recompile_limit": (
        f"takes an int from 1 to {MOST_SPECIALIZATIONS}",
        int,
        _is_count,
    ),
    "launch": (
        f"is one of {', '.join(LAUNCHES)}",
        str,
        lambda value: value in LAUNCHES,
    ),
    "depth": (
        f"is one of {', '.join(DEPTHS)}",
        str,
        lambda value: value in DEPTHS,
    ),
    "fallback": (
        f"is one of {', '.join(POLICIES)}",
        str,
        lambda value: value in POLICIES,
    ),
}


@dataclass(frozen=True)
class Settings:
    """The validated settings of one compiled function."""

    fullgraph: bool = False
    name: str | None = None
    dynamic: bool | None = None
    """Sizes are symbols from the first call on (True), in no call (False), or where they differ (None)."""
    strict: bool = False
    """Raise ``CompileError`` where pyjit's own compiler fails, instead of answering from eager."""
    eager_rounding: bool = False
    """Keep the intermediate roundings of eager PyTorch in half-precision chains."""
    depth: str = "fusion"
    """How far to compile, to find what is wrong (``pyjit.bisect``): one of `DEPTHS`."""
    simulated_device: bool = False
    """Launch work on CPU tensors as on a GPU, through a simulated driver (for tests)."""
    launch: str | None = None
    """Launch on a device in this way instead of measuring which is the fastest: one of `LAUNCHES`."""
    recompile_limit: int = 32
    """How many specializations one function keeps (also ``max_records``); further ones run in eager."""
    fallback: str = "warn"
    """Where calls run in eager and go on doing so: ``warn`` once, ``ignore``, or ``raise`` CaptureError."""
    compare_with_eager: bool = field(
        default_factory=lambda: os.environ.get("PYJIT_COMPARE_WITH_EAGER", "1") != "0"
    )
    """Time a few calls of each specialization against eager, which answers from then on where it is faster.
    ``PYJIT_COMPARE_WITH_EAGER=0`` turns it off where the option is not given."""
    compile_modules: bool = True
    """Where a part of a call runs in eager, the modules that it calls run compiled."""

    @classmethod
    def of(
        cls,
        *,
        fullgraph: bool,
        dynamic: bool | None,
        backend: str,
        mode: str | None,
        options: dict[str, Any] | None,
        name: str | None,
    ) -> Settings:
        if backend != "pyjit":
            raise ValueError(f"pyjit.compile: backend must be 'pyjit', got {backend!r}")
        if mode is not None and mode not in MODES:
            raise ValueError(
                f"pyjit.compile: mode is one of {', '.join(MODES)}, got {mode!r}"
            )
        if dynamic not in (None, True, False) or type(dynamic) is int:
            raise ValueError(
                f"pyjit.compile: dynamic must be True, False or None, got {dynamic!r}"
            )
        if options is not None and not isinstance(options, dict):
            raise TypeError(f"pyjit.compile: options must be a dict, got {options!r}")
        chosen = {**MODES[mode or "default"], **_checked(options or {}, cls.known())}
        dump_dir()  # a folder that cannot be written to is told of now
        log_topics()
        return cls(fullgraph=bool(fullgraph), name=name, dynamic=dynamic, **chosen)

    @classmethod
    def known(cls) -> list[str]:
        """The names of options."""
        arguments = ("fullgraph", "name", "dynamic")
        return sorted(f.name for f in fields(cls) if f.name not in arguments)


def _checked(options: dict[str, Any], known: list[str]) -> dict[str, Any]:
    """The options under their present names. Raises ValueError or TypeError for what is no option's value."""
    found: dict[str, Any] = {}
    for given, value in options.items():
        if given in FORMER_OPTIONS:
            warnings.warn(
                f"pyjit.compile: option {given!r} is {FORMER_OPTIONS[given]!r} now",
                DeprecationWarning,
                stacklevel=4,
            )
        key = SYNONYMS.get(given, FORMER_OPTIONS.get(given, given))
        if key not in known:
            raise ValueError(
                f"pyjit.compile: unknown option {given!r}; known are {', '.join(known)}"
            )
        words, kind, accepts = _TAKES.get(key, ("takes bool", bool, _is_flag))
        if not accepts(value):
            error = ValueError if type(value) is kind else TypeError
            raise error(f"pyjit.compile: option {given!r} {words}, got {value!r}")
        if found.get(key, value) != value:
            raise ValueError(
                f"pyjit.compile: option {given!r} is given twice, as {found[key]!r} and {value!r}"
            )
        found[key] = value
    return found


def log_topics() -> frozenset[str]:
    """The topics named in ``PYJIT_LOGS``; an unknown one is an error that lists the known."""
    topics = {
        t.strip() for t in os.environ.get("PYJIT_LOGS", "").split(",") if t.strip()
    }
    topics.discard("help")
    if "all" in topics:
        return frozenset(LOG_TOPICS)
    unknown = topics.difference(LOG_TOPICS)
    if unknown:
        raise ValueError(
            f"PYJIT_LOGS: unknown topic {min(unknown)!r}; known are all, help, {', '.join(LOG_TOPICS)}"
        )
    return frozenset(topics)


def check_environment() -> None:
    """At import: what the environment asks for is known and can be done. ``PYJIT_LOGS=help`` says what there is."""
    log_topics()
    dump_dir()
    if "help" in os.environ.get("PYJIT_LOGS", "").split(","):
        width = max(map(len, LOG_TOPICS))
        print("PYJIT_LOGS takes topics, divided by commas:", file=sys.stderr)
        for topic, text in {**LOG_TOPICS, "all": "all of these"}.items():
            print(f"  {topic:<{width}}  {text}", file=sys.stderr)


def verifies() -> bool:
    """Whether ``PYJIT_VERIFY=1`` asks for the verifier of every operation behind each pass."""
    return os.environ.get("PYJIT_VERIFY", "0") == "1"
