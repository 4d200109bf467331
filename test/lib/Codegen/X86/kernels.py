# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles kernels from linalg text and runs them on torch tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import torch

LIBRARY = "test-libs/pyjit_test_kernels.so"


class Kernels:
    """The kernels of one module."""

    def __init__(self, build: Path, text: str, vector_bits: int = 0) -> None:
        self._lib = ctypes.CDLL(str(build / LIBRARY))
        self._lib.pyjit_test_compile.restype = ctypes.c_void_p
        self._lib.pyjit_test_error.restype = ctypes.c_char_p
        self._lib.pyjit_test_error.argtypes = [ctypes.c_void_p]
        self._lib.pyjit_test_run.restype = ctypes.c_int64
        self._lib.pyjit_test_run.argtypes = [
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_void_p,
            ctypes.c_int,
        ]
        self._lib.pyjit_test_free.argtypes = [ctypes.c_void_p]
        self._handle = self._lib.pyjit_test_compile(text.encode(), vector_bits)
        error = self._lib.pyjit_test_error(self._handle)
        if error is not None:
            raise ValueError(error.decode())

    def run(
        self,
        name: str,
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        *,
        unitwise: bool = False,
    ) -> int:
        """Runs a kernel on the tensors' memory; returns its units of work."""
        tensors = [*inputs, *outputs]
        buffers = (ctypes.c_void_p * len(tensors))(*(t.data_ptr() for t in tensors))
        work = self._lib.pyjit_test_run(
            self._handle, name.encode(), buffers, int(unitwise)
        )
        if work < 0:
            raise ValueError(f"no kernel @{name}")
        return work

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._lib.pyjit_test_free(self._handle)
