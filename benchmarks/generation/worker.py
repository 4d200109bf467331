#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One case in a process of its own: sets up each column, compares logits, then times all in turns.

Facts go to a file of JSON lines as soon as they are known: whoever started the process may end it.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import case_process
import torch
from case_process import Facts
from measure import Memory, in_turn

from generation.cases import make, prompt
from generation.columns import COLUMNS, Way


class Trial:
    """The model, its prompts, and what eager gives for the first of them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        dtype = getattr(torch, options.dtype)
        self.model = make(options.case, options.size).to(options.device, dtype)
        self.want: list[Any] = []

    def given(self, seed: int) -> dict[str, Any]:
        tokens = prompt(self.model, self.options.batch, self.options.prompt, seed)
        length = {"min_new_tokens": self.options.new, "max_new_tokens": self.options.new}  # fmt: skip
        return {**tokens, **length, "do_sample": False}

    def wait(self) -> None:
        if self.options.device == "cuda":
            torch.cuda.synchronize()

    def seconds(self, way: Way, seed: int) -> float:
        given = self.given(seed)
        self.wait()
        start = time.perf_counter()
        way(**given)
        self.wait()
        return time.perf_counter() - start

    def seen(self, way: Way) -> list[Any]:
        """Tokens and logits of two prompts."""
        asked = {"return_dict_in_generate": True, "output_logits": True}
        found = [way(**self.given(seed), **asked) for seed in (0, 1)]
        return [(f.sequences.cpu(), [t.float().cpu() for t in f.logits]) for f in found]


def compare(want: list[Any], have: list[Any]) -> Facts:
    """How far logits differ up to the first token that does, relative to the largest, and how many tokens are equal."""
    gap, equal, all_tokens = 0.0, 0, 0
    for (tokens, logits), (other, theirs) in zip(want, have, strict=True):
        new = len(logits)
        same = (tokens[:, -new:] == other[:, -new:]).long().cumprod(1)
        equal, all_tokens = equal + int(same.sum()), all_tokens + same.numel()
        for step in range(new):
            # The logits of a step depend on the tokens in front of it.
            rows = same[:, step - 1].bool() if step else torch.ones(len(same)).bool()
            if rows.any():
                a, b = logits[step][rows], theirs[step][rows]
                gap = max(gap, float((a - b).abs().max() / a.abs().max().clamp_min(1e-6)))  # fmt: skip
    return {"gap": gap, "equal_tokens": equal, "all_tokens": all_tokens}


def set_up(name: str, trial: Trial, facts: Facts) -> Callable[[int], float]:
    memory = Memory(trial.options.device)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    # transformers keeps what it compiled on the model.
    trial.model.__dict__.pop("_compiled_call", None)
    way = COLUMNS[name].make(trial.model)
    facts["first"] = trial.seconds(way, 0)
    seen = trial.seen(way)
    if name == "eager":
        trial.want = seen
    elif trial.want:
        facts |= compare(trial.want, seen)
    for seed in range(2, 2 + trial.options.warm):
        trial.seconds(way, seed)
    memory.restart()
    trial.seconds(way, 0)
    facts["peak_mb"] = memory.peak()
    if name.startswith("pyjit"):
        import pyjit

        pyjit._C.measure_host(True)
        trial.seconds(way, 0)
        pyjit._C.measure_host(False)
    facts |= way.facts()
    return lambda seed: trial.seconds(way, seed)


def bandwidth(device: str) -> float:
    """GB/s at which a tensor of 256 MB is read."""
    data = torch.ones(64 << 20, device=device)
    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    times = []
    for _ in range(8):
        wait()
        start = time.perf_counter()
        data.sum()
        wait()
        times.append(time.perf_counter() - start)
    return data.nbytes / min(times) / 1e9


def weights_mb(model: torch.nn.Module) -> float:
    """What a step has to read: of embeddings that are no head, too few rows to count."""
    head = model.get_output_embeddings()
    tied = head is not None and head.weight is model.get_input_embeddings().weight
    left_out = 0 if tied else model.get_input_embeddings().weight.nbytes
    return (sum(p.nbytes for p in model.parameters()) - left_out) / 1e6


def run(options: argparse.Namespace, say: Callable[[Facts], None]) -> None:
    import pyjit  # noqa: F401 - before any column's memory is measured
    from torch._inductor.utils import fresh_cache

    common = {"read_gb_s": bandwidth(options.device)}
    trial = Trial(options)
    common["weights_mb"] = weights_mb(trial.model)
    known: dict[str, Facts] = {}
    ready: dict[str, Callable[[int], float]] = {}
    with contextlib.ExitStack() as caches:
        for name in options.columns.split(","):
            facts = known[name] = {"column": name, **common}
            caches.enter_context(fresh_cache())
            try:
                ready[name] = set_up(name, trial, facts)
            except Exception as error:
                facts["error"] = case_process.reason_of(error)
            say(facts)
        times: dict[str, list[float]] = {name: [] for name in ready}
        for turn in range(options.rounds):
            for name in in_turn(ready, turn):
                times[name].append(ready[name](turn))
    for name, found in times.items():
        found.sort()
        known[name]["seconds"] = found[len(found) // 2]
        say(known[name])


def main() -> None:
    parser = case_process.worker_options(__doc__)
    parser.add_argument("--dtype", required=True)
    for name in ("batch", "prompt", "new", "rounds", "warm"):
        parser.add_argument(f"--{name}", type=int, required=True)
    case_process.answer(parser.parse_args(), run)


if __name__ == "__main__":
    main()
