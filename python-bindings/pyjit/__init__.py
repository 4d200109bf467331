# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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
from pyjit._bisect import Bisection, bisect
from pyjit._dynamic import mark_dynamic, mark_static
from pyjit._errors import CaptureError, CompileError, PyjitWarning
from pyjit._explain import explain
from pyjit._reasons import Reason
from pyjit._report import Report
from pyjit._settings import check_environment
from pyjit._statistics import Statistics
from pyjit._trace import Trace, trace

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
__version__ = "0.1.0"
check_environment()
del check_environment
