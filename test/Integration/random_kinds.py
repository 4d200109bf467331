# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kinds of random programs that are compared with eager, each by a number.

What the tests sample, `tools/dev/random_programs.py` runs by the hundred thousand, in many processes.
A kind is given its first number and how many programs to check; it says how many ran and what differed.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from Integration import (
    test_graph_break_programs,
    test_random_autocast,
    test_random_branches,
    test_random_caches,
    test_random_counted_loops,
    test_random_launch_plans,
    test_random_layers,
    test_random_loop_iterators,
    test_random_loops,
    test_random_numbers,
    test_random_parts,
    test_random_programs,
    test_random_steps,
    test_random_training,
    test_random_varying,
    test_random_writes,
)
from Integration.random_programs import Program, programs

LAUNCHES = ["", "copy", "table", "update"]


@dataclass
class Batch:
    """What became of some programs."""

    ran: int = 0
    failures: list[str] = field(default_factory=list)

    def check(self, name: str, what: Callable[[], object]) -> None:
        self.ran += 1
        try:
            what()
        except Exception as error:
            if "CUDA" in str(error) and "error" in str(error):
                raise  # the context may be lost
            self.failures.append(f"{name}: {type(error).__name__}: {error}")


Kind = Callable[[int, int], Batch]


def numbered(check: Callable[..., object], **settings: Any) -> Kind:
    """Programs that their number decides."""

    def run(first: int, count: int) -> Batch:
        batch = Batch()
        for number in range(first, first + count):
            batch.check(str(number), lambda number=number: check(number, **settings))
        return batch

    return run


def straight_line(**changes: Any) -> Kind:
    """Programs that hypothesis grows: the first number is its seed.

    changes: fields of `Program`, and options of pyjit.compile; `launch=True` draws one of its ways.
    """

    def run(first: int, count: int) -> Batch:
        batch = Batch()
        launches = LAUNCHES if changes.get("launch") else [""]

        @seed(first)
        @settings(
            max_examples=count,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        @given(
            programs(gradients=changes.get("gradients", False)),
            st.sampled_from(launches),
        )
        def grow(program: Program, launch: str) -> None:
            program.device = changes.get("device", "cpu")
            if changes.get("launch"):
                program.options["simulated_device"] = True
            if launch:
                program.options["launch"] = launch
            batch.check(
                f"seed {first}{program.snippet()}",
                lambda: test_random_programs.check(program),
            )

        grow()
        return batch

    return run


def check_graph_breaks(number: int) -> None:
    test_graph_break_programs.compare(
        test_graph_break_programs.program(random.Random(number))
    )


SIMULATED = {"simulated_device": True}
varying = functools.partial(numbered, test_random_varying.check)


def layers(kind: Callable[..., object], **settings: Any) -> Kind:
    return numbered(test_random_layers.check, kind=kind, **settings)


# Each with its share of the programs.
KINDS: dict[str, tuple[int, Kind]] = {
    "straight line": (30, straight_line()),
    "straight line, launched": (15, straight_line(launch=True)),
    "straight line, gradients": (15, straight_line(gradients=True)),
    "straight line, gradients, launched": (
        5,
        straight_line(gradients=True, launch=True),
    ),
    "buffers written in parts": (8, numbered(test_random_writes.check)),
    "inputs written in parts": (8, numbered(test_random_parts.check)),
    "inputs written in parts, launched": (
        3,
        numbered(test_random_parts.check, options=SIMULATED),
    ),
    "caches of generations": (6, numbered(test_random_caches.check)),
    "caches of generations, launched": (
        2,
        numbered(test_random_caches.check, options=SIMULATED),
    ),
    "several graphs, launched": (10, numbered(test_random_launch_plans.check)),
    "branches": (8, numbered(test_random_branches.check)),
    "branches, launched": (
        3,
        numbered(test_random_branches.check, options=SIMULATED),
    ),
    "branches, numbers vary": (3, varying(vary="n")),
    "branches, sizes vary": (3, varying(vary="s")),
    "branches, both vary": (3, varying(vary="ns")),
    "branches, both vary, launched": (2, varying(vary="ns", options=SIMULATED)),
    "layers of images": (3, layers(test_random_layers.images)),
    "layers of sequences": (3, layers(test_random_layers.sequences)),
    "layers of images, sizes vary": (
        3,
        layers(test_random_layers.images, vary=True),
    ),
    "layers of sequences, sizes vary": (
        3,
        layers(test_random_layers.sequences, vary=True),
    ),
    "training of images": (
        3,
        numbered(test_random_training.check, kind=test_random_layers.images),
    ),
    "training of sequences": (
        3,
        numbered(test_random_training.check, kind=test_random_layers.sequences),
    ),
    "whole steps": (5, numbered(test_random_steps.check)),
    "whole steps, few graph breaks": (5, numbered(test_random_steps.check, plain=True)),
    "regions of autocast": (4, numbered(test_random_autocast.check)),
    "loops": (6, numbered(test_random_loops.check)),
    "counted loops": (4, numbered(test_random_counted_loops.check)),
    "data-dependent scalars": (6, numbered(test_random_numbers.check)),
    "data-dependent scalars, launched": (
        3,
        numbered(test_random_numbers.check, options=SIMULATED),
    ),
    "graph breaks": (6, numbered(check_graph_breaks)),
    "graph breaks in loops": (4, numbered(test_random_loop_iterators.compare)),
}
if torch.cuda.is_available():
    KINDS["straight line, CUDA"] = (15, straight_line(device="cuda"))
    KINDS["straight line, gradients, CUDA"] = (
        8,
        straight_line(device="cuda", gradients=True),
    )
    KINDS["several graphs, CUDA"] = (
        5,
        numbered(test_random_launch_plans.check, device="cuda"),
    )
    for what in (test_random_layers.images, test_random_layers.sequences):
        KINDS[f"layers of {what.__name__}, CUDA"] = (4, layers(what, device="cuda"))
