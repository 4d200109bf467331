# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The named programs that benchmarks and the demo run.

A case makes its callable and its inputs; weights are random, seeds are fixed.
"""

from . import kernels, models, recurrent
from .registry import CASES, Case, Inputs

__all__ = ["CASES", "Case", "Inputs", "kernels", "models", "recurrent"]
