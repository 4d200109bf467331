#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs named cases on eager, torch.compile and pyjit in one run.

Values are compared first; then the runners take turns. The table goes to the
terminal and to benchmarks/results/DATE-MACHINE.md, losses included.

  benchmarks/run.py                          all cases
  benchmarks/run.py bert-base resnet50       some
  benchmarks/run.py --peers freezing,torchscript,onnxruntime   further columns
  benchmarks/run.py --device cuda --dtype float16 --peers reduce-overhead
  benchmarks/run.py --train                  training steps; its options: --train --help
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import pages
import torch
from cases import CASES
from compare import largest_difference
from measure import interleaved, seconds
from runners import RUNNERS
from torch._inductor.utils import fresh_cache

RESULTS = Path(__file__).resolve().parent / "results"

#: Of the largest difference, relative where values exceed 1, at least.
TOLERANCES = {torch.float32: 0.0, torch.float16: 2e-2, torch.bfloat16: 1e-1}


def place(value: Any, device: str, dtype: torch.dtype) -> Any:
    """A module or tensor on the device, floating point in the dtype."""
    if isinstance(value, torch.Tensor) and not value.is_floating_point():
        return value.to(device)
    if isinstance(value, (torch.Tensor, torch.nn.Module)):
        return value.to(device, dtype)
    return value


def run_case(
    name: str, runners: list[str], device: str, dtype: torch.dtype
) -> dict[str, dict[str, Any]]:
    """Per runner: ms, first-call seconds, largest difference, and for pyjit its facts."""
    case = CASES[name]
    found: dict[str, dict[str, Any]] = {}
    ready: dict[str, Callable[[], Any]] = {}
    limit = max(case.tolerance, TOLERANCES[dtype])

    def arguments(seed: int) -> tuple[Any, ...]:
        return tuple(
            place(value, "cpu" if number in case.on_cpu else device, dtype)
            for number, value in enumerate(inputs(seed))
        )

    with torch.no_grad(), contextlib.ExitStack() as caches:
        model, inputs = case.make()
        model = place(model, device, dtype)
        first, other = arguments(0), arguments(1)
        want = model(*other)
        for runner in runners:
            facts = found.setdefault(runner, {})
            # Inductor keeps what it compiled on disk: without a cache of its own a
            # runner's first call would tell of the last run of this script.
            caches.enter_context(fresh_cache())
            try:
                fast = RUNNERS[runner](model, first)
                facts["first"], _ = seconds(fast, *first)
                # Some modes record at the second call and are ready at the third.
                fast(*other)
                have = fast(*other)
                facts["difference"] = largest_difference(want, have, relative=True)
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                facts["error"] = reason.splitlines()[0][:200]
                continue
            if not facts["difference"] <= limit:
                facts["error"] = f"differs by {facts['difference']:.1e}"
                continue
            ready[runner] = lambda fast=fast: fast(*other)
            if runner == "pyjit":
                facts["stats"] = _pyjit_stats(fast, other)
        wait = torch.cuda.synchronize if device == "cuda" else None
        for runner, median in interleaved(ready, wait=wait).items():
            found[runner]["ms"] = median * 1e3
    return found


def _pyjit_stats(fast: Any, arguments: tuple[Any, ...]) -> dict[str, Any]:
    """pyjit.stats after some calls in which the host's share was measured."""
    import pyjit

    pyjit._C.measure_host(True)
    for _ in range(20):
        fast(*arguments)
    pyjit._C.measure_host(False)
    return dict(pyjit.stats(fast))


def table(results: dict[str, dict[str, dict[str, Any]]], runners: list[str]) -> str:
    head = ["case", *(f"{r} ms" for r in runners), "pyjit : eager"]
    if "torch.compile" in runners:
        head.append("pyjit : torch.compile")
    head += [*(f"first call s, {r}" for r in runners if r != "eager")]
    head += [
        "host us, pyjit",
        "graphs",
        "graph breaks",
        "guards",
        "kernels",
        "difference",
    ]
    lines = pages.heading(head)
    for name, found in results.items():
        mine = found.get("pyjit", {})
        row = [name]
        for runner in runners:
            ms = found[runner].get("ms")
            row.append(f"{ms:.4g}" if ms else found[runner].get("error", "-"))
        for peer in ("eager", "torch.compile"):
            if peer in runners:
                theirs = found[peer].get("ms")
                both = theirs and mine.get("ms")
                row.append(pages.ratio(theirs / mine["ms"]) if both else "-")
        for runner in runners:
            if runner != "eager":
                first = found[runner].get("first")
                row.append(f"{first:.2f}" if first is not None else "-")
        stats = mine.get("stats", {})
        host = stats.get("host_microseconds")
        row.append(f"{host:.1f}" if host is not None else "-")
        row += [
            str(stats.get(k, "-"))
            for k in ("graphs", "graph_breaks", "guards", "kernels")
        ]
        gap = mine.get("difference")
        row.append(f"{gap:.1e}" if gap is not None else "-")
        lines.append(pages.row(row))
    return "\n".join(lines)


def machine(device: str) -> str:
    if device == "cuda":
        return torch.cuda.get_device_name()
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{model}, {os.cpu_count()} cores"


def commit() -> str:
    command = ["git", "-C", str(RESULTS), "rev-parse", "--short", "HEAD"]
    return subprocess.run(
        command, capture_output=True, text=True, check=False
    ).stdout.strip()


def versions() -> str:
    import torchvision
    import transformers

    python = platform.python_version()
    return (
        f"CPython {python}, torch {torch.__version__}, torchvision "
        f"{torchvision.__version__}, transformers {transformers.__version__}, "
        f"pyjit at {commit()}"
    )


def main() -> int:
    if "--train" in sys.argv:
        from train.main import main as train

        return train([a for a in sys.argv[1:] if a != "--train"])
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", help=", ".join(CASES))
    parser.add_argument(
        "--peers", default="", help=f"further runners of: {', '.join(RUNNERS)}"
    )
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    names = [str(dtype).removeprefix("torch.") for dtype in TOLERANCES]
    parser.add_argument("--dtype", default="float32", choices=names)
    parser.add_argument("--without", default="", help="runners to leave out")
    parser.add_argument("--name", default="", help="a word for the file's name")
    parser.add_argument("--no-file", action="store_true", help="print only")
    options = parser.parse_args()
    peers = filter(None, options.peers.split(","))
    # A runner that is named twice would find its second first call compiled.
    runners = list(dict.fromkeys(["eager", "torch.compile", *peers, "pyjit"]))
    runners = [r for r in runners if r not in options.without.split(",")]
    unknown = [r for r in runners if r not in RUNNERS]
    if unknown:
        parser.error(f"unknown runner {unknown[0]}; known: {', '.join(RUNNERS)}")
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error(f"unknown case {unknown[0]}; known: {', '.join(CASES)}")
    dtype = getattr(torch, options.dtype)
    results: dict[str, dict[str, dict[str, Any]]] = {}
    for name in options.cases or CASES:
        torch._dynamo.reset()
        results[name] = run_case(name, runners, options.device, dtype)
        print(f"{name}: {_brief(results[name])}", flush=True)
    text = table(results, runners)
    print("\n" + text)
    notes = [
        f"- {name}, {runner}: {facts['error']}"
        for name, found in results.items()
        for runner, facts in found.items()
        if "error" in facts
    ]
    for name, found in results.items():
        for reason in found.get("pyjit", {}).get("stats", {}).get("eager_reasons", []):
            notes.append(f"- {name}, pyjit ran in eager: {reason}")
    about = [f"- `{name}`: {CASES[name].about}" for name in results]
    if not options.no_file:
        day = datetime.date.today().isoformat()
        word = options.name or f"{options.device}-{options.dtype}"
        file = RESULTS / f"{day}-{word}.md"
        RESULTS.mkdir(exist_ok=True)
        file.write_text(
            f"# Benchmarks, {day}\n\n{machine(options.device)}, {torch.get_num_threads()} "
            f"threads. {versions()}.\n\nBatch 1, {options.dtype}, random weights, "
            "no_grad. Medians of "
            "rounds in which the runners take turns, all in one run; ratios are "
            "time of the other / time of pyjit. First calls are cold in this process "
            "and include the eager run that answers them. Host us: what a call that hits "
            "costs beside the launch (guards, arguments, mock), median.\n\n"
            + "\n".join([text, "", *about, "", *notes]).rstrip()
            + "\n"
        )
        print(f"\nwritten: {file}")
    return 0


def _brief(found: dict[str, dict[str, Any]]) -> str:
    return ", ".join(
        f"{runner} {facts['ms']:.4g} ms" if "ms" in facts else f"{runner} failed"
        for runner, facts in found.items()
    )


if __name__ == "__main__":
    sys.exit(main())
