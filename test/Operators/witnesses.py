# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds, in eager alone, values for which an overload raises: `python -m Operators.witnesses FILE NAME...`.

Each overload is tried in a process of its own, for some values end eager's process (the smallest
integer divided by -1). FILE gets, per overload, the calls with their hostile variants.
"""

from __future__ import annotations

import os
import random
import sys
import warnings

import torch
from Operators.calls import FULL, Call, sample_calls
from Operators.hostile import Variant, hostile

VARIANTS = 4000 if FULL else 400  # of an overload
# By default no more are tried where so many raise.
ENOUGH = 10**9 if FULL else 12


def variants(overload: str, calls: list[Call]) -> list[tuple[Call, str, Call]]:
    found = [(call, what, bad) for call in calls for what, bad in hostile(call)]
    return random.Random(overload).sample(found, min(VARIANTS, len(found)))


def answer(call: Call) -> str:
    try:
        with torch.no_grad():
            call.copy().run()
    except Exception as error:
        return type(error).__name__
    return "-"


def tried(found: list[tuple[Call, str, Call]]) -> list[str]:
    """What eager says to each variant: "-", an exception's type, or "crash"."""
    answers: list[str] = []
    while len(answers) < len(found) and "enough" not in answers:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            with os.fdopen(writing, "w", buffering=1) as pipe:
                raised = 0
                for _, _, bad in found[len(answers) :]:
                    said = answer(bad)
                    pipe.write(said + "\n")
                    raised += said != "-"
                    if raised == ENOUGH:
                        pipe.write("enough\n")
                        break
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            answers += pipe.read().split()
        os.waitpid(child, 0)
        if len(answers) < len(found) and "enough" not in answers:
            answers.append("crash")
    return [said for said in answers if said != "enough"]


def scan(overload: str, calls: list[Call]) -> list[Variant]:
    found = variants(overload, calls)
    pairs = zip(found, tried(found), strict=False)
    return [
        Variant(
            overload,
            good.source(),
            [*good.tensors(), *good.numbers()],
            [*bad.tensors(), *bad.numbers()],
            what,
            said.strip("-"),
        )
        for (good, what, bad), said in pairs
        if said != "crash"
    ]


def main(file: str, names: list[str]) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    calls = sample_calls(names)
    result: dict[str, list[Variant]] = {}
    for name in names:
        torch.manual_seed(0)
        result[name] = scan(name, calls.get(name, []))
    torch.save(result, file)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
