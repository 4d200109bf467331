# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the kernels and vendor calls of one call took: PyTorch's own profiler, around a call of ``pyjit.explain``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.autograd.profiler import profile

# Specialization::launchGraph and TorchExecutor::runProfiled name their ranges so.
_LAUNCH, _KERNEL = "pyjit: ", "pyjit::"


class Timing(NamedTuple):
    """A kernel or a vendor call, with all its launches in the call."""

    name: str
    count: int
    microseconds: float
    """All together: on a device what the device took, else the processor, with the profiler's own time."""


def timed(call: Callable[[], object]) -> list[Timing]:
    """Makes a call and returns what it spent where, longest first; empty where nothing ran compiled, or another
    profiler is active."""
    if torch.autograd._profiler_enabled():
        call()
        return []
    device = "cuda" if torch.cuda.is_available() else None
    with profile(use_device=device) as found:
        call()
    with contextlib.suppress(RuntimeError):  # what the profiler could not make out
        return _timings(found)
    return []


def _timings(found: profile) -> list[Timing]:
    spent: dict[str, list[float]] = {}
    for launch in found.function_events or ():
        if not launch.name.startswith(_LAUNCH):
            continue
        for event in launch.cpu_children:
            if event.name.startswith((_KERNEL, "aten::", "mkldnn::", "mkl::")):
                spent.setdefault(event.name, []).append(event.cpu_time_total)
    on_device: dict[str, list[float]] = {}
    for event in found.function_events or ():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            on_device.setdefault(event.name, []).append(event.device_time_total)
    timings = [
        Timing(name.removeprefix(_KERNEL), len(times), sum(times))
        for name, times in (on_device or spent).items()
    ]
    return sorted(timings, key=lambda timing: -timing.microseconds)
