"""pyjit: makes a running PyTorch program fast without asking its author to rewrite it.

>>> fast = pyjit.compile(model)
>>> fast(x)                              # first call: monitored, the result is eager's
>>> print(pyjit.explain(model)(x))       # graphs, graph breaks, guards, kernels, time per stage
"""

from pyjit._api import (
    compile,
    disable,
    is_compiling,
    records,
    reset,
    specializations,
    stats,
)
from pyjit._errors import CaptureError, CompileError
from pyjit._explain import explain
from pyjit._trace import Trace, trace

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
__version__ = "0.1.0"
