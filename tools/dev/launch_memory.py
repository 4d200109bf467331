# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which memory a launch program holds when it needs most, by step.

    PYJIT_COMPARE_WITH_EAGER=0 python tools/dev/launch_memory.py < program.txt

reads what `Specialization.text("programs")` prints, or the first of the two texts of
`pyjit._C.cross_compile`. For the forward, prepare and backward program each: the arena, the block of
saved values, what is fresh at each call, and the largest buffers that are alive at the step where the
arena, or what vendor calls have allocated, is largest. A view counts as its base. The text does not
name what calls read: a buffer that only calls read seems to live for a shorter time than it does.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import dataclass
from math import prod

BYTES = {0: 1, 1: 1, 2: 2, 3: 4, 4: 8, 5: 2, 6: 4, 7: 8, 9: 8, 10: 16, 11: 1, 15: 2}
"""By c10's number of the element type."""
SLOT = re.compile(r"^  s(\d+) = (\w+)(?: \d+)?: dtype (\d+) \[(.*?)\]", re.MULTILINE)
STEP = re.compile(
    r"^ +(?:s\d+ = view of|s\d+ = \d+ \*|(?:copy|kernel|call|release|for|while|if|graph)\b|\}).*",
    re.MULTILINE,
)
VIEW = re.compile(r"s(\d+) = view of s(\d+)")


@dataclass
class Slot:
    kind: str
    sizes: str
    bytes: int
    first: int = -1
    last: int = -1


def slots_of(program: str) -> dict[int, Slot]:
    slots = {}
    for number, kind, dtype, sizes in SLOT.findall(program):
        dims = [int(size) for size in sizes.split(",") if size.strip()]
        slots[int(number)] = Slot(kind, sizes, BYTES[int(dtype)] * prod(dims))
    return slots


def note_lives(slots: dict[int, Slot], steps: list[str]) -> None:
    bases: dict[int, int] = {}
    blocks: list[int] = []
    for place, step in enumerate(map(str.strip, steps)):
        if view := VIEW.match(step):
            shown, base = map(int, view.groups())
            bases[shown] = bases.get(base, base)
        for number in map(int, re.findall(r"\bs(\d+)\b", step)):
            slot = slots[bases.get(number, number)]
            slot.first = place if slot.first < 0 else slot.first
            slot.last = place
        if step.startswith("}"):
            begin = blocks.pop()
            for slot in slots.values():  # the next iteration may read it again
                if 0 <= slot.first < begin <= slot.last:
                    slot.last = place
        if step.endswith("{"):
            blocks.append(place)


def print_peak(kind: str, slots: dict[int, Slot], steps: list[str]) -> None:
    used = [s for s in slots.values() if s.kind == kind and s.first >= 0]
    change: Counter[int] = Counter()
    for slot in used:
        change[slot.first] += slot.bytes
        change[slot.last + 1] -= slot.bytes
    held = peak = where = 0
    for place in range(len(steps)):
        held += change[place]
        if held > peak:
            peak, where = held, place
    if not peak:
        return
    print(
        f"  {kind}: {peak:,} bytes at step {where} of {len(steps)}: {steps[where].strip()[:80]}"
    )
    alive = [s for s in used if s.first <= where <= s.last]
    for slot in sorted(alive, key=lambda s: -s.bytes)[:10]:
        print(
            f"    {slot.bytes:12,} [{slot.sizes}] from step {slot.first} to {slot.last}"
        )


def main() -> None:
    for program in re.split(
        r"^(?:prepare|backward):\n", sys.stdin.read(), flags=re.MULTILINE
    ):
        head, _, body = program.partition("\n")
        slots, steps = slots_of(body), STEP.findall(body)
        print(head)
        sums: Counter[str] = Counter()
        for slot in slots.values():
            sums[slot.kind] += slot.bytes
        print(f"  inputs {sums['input']:,}, fresh at each call {sums['fresh']:,}")
        note_lives(slots, steps)
        print_peak("arena", slots, steps)
        print_peak("result", slots, steps)


if __name__ == "__main__":
    main()
