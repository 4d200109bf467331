"""What a caller may choose: the arguments of ``pyjit.compile`` and the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

LAUNCHES = ("plain", "copy", "table", "update")
# Options that were renamed; the former names go with the next release.
FORMER_OPTIONS = {"software_device": "simulated_device"}
LOG_TOPICS = ("guards", "graph", "fusion", "kernels", "cudagraph", "cache")


@dataclass(frozen=True)
class Settings:
    """The validated settings of one compiled function."""

    fullgraph: bool = False
    name: str | None = None
    strict: bool = False
    """Raise ``CompileError`` where pyjit's own compiler fails, instead of answering from eager."""
    eager_rounding: bool = False
    """Keep the intermediate roundings of eager PyTorch in half-precision chains."""
    simulated_device: bool = False
    """Launch work on CPU tensors as on a GPU, through a simulated driver (for tests)."""
    launch: str | None = None
    """Launch on a device in this way instead of measuring which is the fastest: one of `LAUNCHES`."""
    max_records: int = 16
    """How many specialisations one function keeps; further ones run in eager."""
    compare_with_eager: bool = field(
        default_factory=lambda: os.environ.get("PYJIT_COMPARE_WITH_EAGER", "1") != "0"
    )
    """Time a few calls of each specialization against eager, which answers from then on where it is faster.
    ``PYJIT_COMPARE_WITH_EAGER=0`` turns it off where the option is not given."""

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
        if mode not in (None, "default"):
            raise ValueError(
                f"pyjit.compile: mode must be None or 'default', got {mode!r}"
            )
        if dynamic not in (None, False):
            raise ValueError(
                f"pyjit.compile: dynamic must be None or False, got {dynamic!r}; leave it out: "
                "a size that differs between calls becomes symbolic by itself"
            )
        if options is not None and not isinstance(options, dict):
            raise TypeError(f"pyjit.compile: options must be a dict, got {options!r}")
        options = {FORMER_OPTIONS.get(k, k): v for k, v in (options or {}).items()}
        known = {f.name: f for f in fields(cls) if f.name not in ("fullgraph", "name")}
        for key, value in options.items():
            if key not in known:
                raise ValueError(
                    f"pyjit.compile: unknown option {key!r}; known are {', '.join(sorted(known))}"
                )
            expected = {"max_records": int, "launch": str}.get(key, bool)
            if type(value) is not expected:
                raise TypeError(
                    f"pyjit.compile: option {key!r} takes {expected.__name__}, got {value!r}"
                )
            if key == "launch" and value not in LAUNCHES:
                raise ValueError(
                    f"pyjit.compile: option 'launch' is one of {', '.join(LAUNCHES)}, got {value!r}"
                )
        return cls(fullgraph=bool(fullgraph), name=name, **options)


def log_topics() -> frozenset[str]:
    """The topics named in ``PYJIT_LOGS``; an unknown one is an error that lists the known."""
    topics = {
        t.strip() for t in os.environ.get("PYJIT_LOGS", "").split(",") if t.strip()
    }
    if "all" in topics:
        return frozenset(LOG_TOPICS)
    unknown = topics.difference(LOG_TOPICS)
    if unknown:
        raise ValueError(
            f"PYJIT_LOGS: unknown topic {min(unknown)!r}; known are all, {', '.join(LOG_TOPICS)}"
        )
    return frozenset(topics)


def verifies() -> bool:
    """Whether ``PYJIT_VERIFY=1`` asks for the verifier of every operation behind each pass."""
    return os.environ.get("PYJIT_VERIFY", "0") == "1"


def dump_dir() -> Path | None:
    """Where ``PYJIT_DUMP_DIR`` asks the trace and the IR at each stage contract to be written."""
    value = os.environ.get("PYJIT_DUMP_DIR")
    return Path(value) if value else None
