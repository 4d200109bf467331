#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Single kernels on a GPU, pyjit against Inductor and eager, in one process.

Each function moves some 128 MB of float16 in each tensor. Values are compared with
eager in float32 first; then each runner's median of rounds of launches is taken by
device events, the runners in turn. The table goes to the terminal and, unless
--no-file, to benchmarks/results/DATE-kernels-MACHINE.md, losses included.

  benchmarks/kernels.py                     all
  benchmarks/kernels.py softmax "layer norm"   those whose name begins so
  benchmarks/kernels.py --without inductor,eager
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pages
import torch
from torch.nn import functional as F

RESULTS = Path(__file__).resolve().parent / "results"
ROWS = [(65536, 1024), (16384, 4096), (4096, 16384), (1024, 65536)]
HALF = torch.float16


@dataclass
class Kernel:
    """A function, its inputs, and the bytes that memory has to give and take."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[torch.Tensor, ...]
    tolerance: float = 4e-3

    def bytes(self, result: torch.Tensor) -> int:
        tensors = (*self.arguments, result)
        return sum(t.numel() * t.element_size() for t in tensors)


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=HALF)


def rms_norm(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    z = (x + y).float()
    return (z * torch.rsqrt(z.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w


def kernels() -> Iterator[Kernel]:
    """The issue's list; made one at a time, since each takes some 300 MB."""
    for rows, columns in ROWS:
        size = f"{columns // 1024}k"
        yield Kernel(
            f"softmax {size}", lambda x: torch.softmax(x, -1), (random(rows, columns),)
        )
    for rows, columns in ROWS:
        size = f"{columns // 1024}k"
        yield Kernel(
            f"layer norm {size}",
            lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
            (random(rows, columns), random(columns), random(columns)),
            2e-2,
        )
    for rows, columns in ROWS:
        size = f"{columns // 1024}k"
        yield Kernel(
            f"add + RMS norm {size}",
            rms_norm,
            (random(rows, columns), random(rows, columns), random(columns)),
            2e-2,
        )
    for rows, columns in ROWS:
        size = f"{columns // 1024}k"
        targets = torch.randint(0, columns, (rows,), device="cuda")
        yield Kernel(
            f"cross entropy {size}",
            lambda x, t: F.cross_entropy(x.float(), t),
            (random(rows, columns), targets),
        )
    for rows, columns in ROWS:
        size = f"{columns // 1024}k"
        yield Kernel(
            f"log-sum-exp {size}",
            lambda x: torch.logsumexp(x.float(), -1),
            (random(rows, columns),),
        )
    yield Kernel(
        "bias + GELU x gate",
        lambda x, b, g: F.gelu(x + b) * g,
        (random(16384, 4096), random(4096), random(16384, 4096)),
    )
    yield Kernel(
        "add + ReLU",
        lambda x, y: torch.relu(x + y),
        (random(16384, 4096), random(16384, 4096)),
    )
    yield Kernel("column sum 4k", lambda x: x.sum(0), (random(16384, 4096),), 2e-2)
    yield Kernel("column sum 1k", lambda x: x.sum(0), (random(65536, 1024),), 2e-2)
    yield Kernel("sum of all", lambda x: x.sum(), (random(16384, 4096),), 2e-2)
    yield Kernel(
        "transposed add",
        lambda x, y: x.t() + y,
        (random(8192, 8192), random(8192, 8192)),
    )


def copy_speed() -> float:
    """Bytes read and written by a device copy, in TB/s."""
    x = random(1 << 26)
    y = torch.empty_like(x)
    [ms] = medians([lambda: y.copy_(x)])
    return 2 * x.numel() * 2 / ms / 1e9


def medians(calls: list[Callable[[], Any]]) -> list[float]:
    """Milliseconds per call of each, by device events, in turn."""
    each = 8
    for call in calls:
        for _ in range(4):
            call()
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(11):
        order = list(range(len(calls)))
        for i in order[turn % len(calls) :] + order[: turn % len(calls)]:
            start, end = torch.cuda.Event(True), torch.cuda.Event(True)
            start.record()
            for _ in range(each):
                calls[i]()
            end.record()
            end.synchronize()
            times[i].append(start.elapsed_time(end) / each)
    return [statistics.median(t) for t in times]


def difference(got: torch.Tensor, want: torch.Tensor) -> float:
    """Relative to the largest value."""
    got, want = got.float(), want.float()
    return float((got - want).abs().max() / want.abs().max())


def runners(kernel: Kernel, names: list[str]) -> dict[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any]] = {}
    for name in names:
        f = kernel.function
        if name == "inductor":
            torch._dynamo.reset()
            f = torch.compile(f, fullgraph=True, dynamic=False)
        if name == "pyjit":
            import pyjit

            f = pyjit.compile(f, options={"strict": True})
        found[name] = lambda f=f: f(*kernel.arguments)
    return found


def measure(kernel: Kernel, names: list[str], verbose: bool) -> dict[str, Any]:
    wide = [a.float() if a.is_floating_point() else a for a in kernel.arguments]
    want = kernel.function(*wide)
    del wide
    ready = runners(kernel, names)
    facts: dict[str, Any] = {}
    for name, run in ready.items():
        for _ in range(3):
            got = run()
        gap = difference(got, want)
        assert gap <= kernel.tolerance, f"{kernel.name}, {name}: differs by {gap:.1e}"
    moved = kernel.bytes(got)
    del want, got
    for name, ms in zip(ready, medians(list(ready.values())), strict=True):
        facts[name] = moved / ms / 1e9
    if verbose and "pyjit" in names:
        import pyjit

        fast = pyjit.compile(kernel.function, options={"strict": True})
        print(pyjit.explain(fast, detail="all")(*kernel.arguments))
    return facts


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="beginnings of names")
    parser.add_argument("--without", default="", help="runners to leave out")
    parser.add_argument("--verbose", action="store_true", help="print explain, too")
    parser.add_argument("--no-file", action="store_true", help="print only")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("no CUDA device")
    names = [n for n in ("eager", "inductor", "pyjit") if n not in options.without]
    head = ["kernel", *(f"{n} TB/s" for n in names)]
    if {"inductor", "pyjit"} <= {*names}:
        head.append("pyjit : inductor")
    lines = pages.heading(head)
    with torch.no_grad():
        copy = copy_speed()
        for kernel in kernels():
            if options.names and not kernel.name.startswith(tuple(options.names)):
                continue
            torch.manual_seed(0)
            try:
                facts = measure(kernel, names, options.verbose)
            except Exception as error:
                print(f"{kernel.name}: {type(error).__name__}: {error}")
                lines.append(f"| {kernel.name} | failed: {str(error)[:80]} |")
                continue
            row = [kernel.name, *(f"{facts[n]:.2f}" for n in names)]
            if len(head) > len(row):
                ratio = facts["pyjit"] / facts["inductor"]
                row.append(f"{ratio:.2f}" + ("" if ratio >= 0.98 else " **(loss)**"))
            lines.append(pages.row(row))
            print(lines[-1], flush=True)
    text = "\n".join(lines)
    print(f"\ndevice copy {copy:.2f} TB/s\n{text}")
    if not options.no_file:
        machine = torch.cuda.get_device_name()
        day = datetime.date.today().isoformat()
        file = RESULTS / f"{day}-kernels-{machine.split()[-1].lower()}.md"
        file.write_text(
            f"# Kernels, {day}\n\n{machine}, torch {torch.__version__}, float16, one "
            "process, runners in turn, medians of eleven rounds of eight launches by "
            "device events. TB/s are bytes that have to be read and written, over the "
            f"time; a device copy reaches {copy:.2f}.\n\n{text}\n"
        )
        print(f"written: {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
