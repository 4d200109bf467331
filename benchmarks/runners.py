# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ways to run a program that the tables compare.

Each runner takes the program, the arguments of a first call and gives a callable;
what it cannot run it says by an exception, which the table shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Program = Callable[..., Any]
Arguments = tuple[Any, ...]


def eager(f: Program, _: Arguments) -> Program:
    return f


def torch_compile(f: Program, _: Arguments) -> Program:
    return torch.compile(f)


def reduce_overhead(f: Program, _: Arguments) -> Program:
    """torch.compile with CUDA Graphs, where there is a GPU."""
    return torch.compile(f, mode="reduce-overhead")


def max_autotune(f: Program, _: Arguments) -> Program:
    return torch.compile(f, mode="max-autotune")


def freezing(f: Program, _: Arguments) -> Program:
    """torch.compile where the user promises that weights never change."""
    return torch.compile(f, options={"freezing": True})


def torchscript(f: Program, arguments: Arguments) -> Program:
    """TorchScript's tracer; a module is frozen and optimised for inference."""
    traced = torch.jit.trace(f, arguments, strict=False, check_trace=False)
    if isinstance(f, torch.nn.Module):
        traced = torch.jit.optimize_for_inference(torch.jit.freeze(traced))
    return traced


def onnxruntime(f: Program, arguments: Arguments) -> Program:
    """ONNX Runtime on the CPU, from PyTorch's exporter (not in the lock file)."""
    import io

    import onnxruntime as ort

    if not isinstance(f, torch.nn.Module):
        raise TypeError("only modules are exported")
    if any(t.is_cuda for t in arguments):
        raise TypeError("the CPU package of ONNX Runtime is measured")
    exported = io.BytesIO()
    torch.onnx.export(f, arguments, exported, dynamo=False)
    options = ort.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = ort.InferenceSession(
        exported.getvalue(), options, providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in session.get_inputs()]

    def run(*args: torch.Tensor) -> tuple[torch.Tensor, ...]:
        feed = {n: a.numpy() for n, a in zip(names, args, strict=True)}
        return tuple(torch.from_numpy(value) for value in session.run(None, feed))

    return run


def pyjit_compile(f: Program, _: Arguments) -> Program:
    import pyjit

    return pyjit.compile(f)


RUNNERS: dict[str, Callable[[Program, Arguments], Program]] = {
    "eager": eager,
    "torch.compile": torch_compile,
    "reduce-overhead": reduce_overhead,
    "max-autotune": max_autotune,
    "freezing": freezing,
    "torchscript": torchscript,
    "onnxruntime": onnxruntime,
    "pyjit": pyjit_compile,
}
