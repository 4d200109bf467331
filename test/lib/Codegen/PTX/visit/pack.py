# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the cases of a visit here, for a machine that has a GPU and no compiler."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4]))

from lib.Codegen.PTX.kernels import Program, assemble
from lib.Codegen.PTX.visit import cases


def attribute(schedule: dict[str, object]) -> str:
    def value(v: object) -> str:
        if isinstance(v, bool):
            return "true" if v else "false"
        return f'"{v}"' if isinstance(v, str) else str(v)

    return "{" + ", ".join(f"{k} = {value(v)}" for k, v in schedule.items()) + "}"


def compiled(
    build: Path, case: cases.Case, chip: str, schedule: str
) -> dict[str, object]:
    program = Program(build, case.text(), chip, simulate=False, schedule=schedule)
    kernels = {
        function: [k.name, int(k.grid), k.block, k.shared, k.alignment, k.indirect]
        for function, k in program.kernels.items()
    }
    label = schedule or "; ".join(
        k.schedule.replace(" : i64", "") for k in program.kernels.values()
    )
    return {
        "label": label,
        "ptx": program.ptx,
        "kernels": kernels,
        "calls": program.calls,
        "inputs": program.inputs,
        "types": program.types,
        "returns": program.returns,
    }


def main() -> None:
    build, chip, out = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    only = sys.argv[4] if len(sys.argv) > 4 else ""
    packed = []
    for case in [*cases.checks(), *cases.timings()]:
        if only not in case.name:
            continue
        variants = []
        for schedule in ["", *(attribute(s) for s in case.schedules)]:
            try:
                variants.append(compiled(build, case, chip, schedule))
            except ValueError as error:
                print(case.name, schedule, str(error).strip().splitlines()[0])
                continue
            complaints = assemble(variants[-1]["ptx"], chip) if case.timed else []
            for complaint in complaints:
                print(case.name, schedule, "spills")
                variants[-1]["label"] += " SPILLS"
        if variants:
            packed.append(
                {
                    "name": case.name,
                    "inputs": case.inputs,
                    "eager": case.eager,
                    "timed": case.timed,
                    "tolerance": case.tolerance,
                    "bytes": case.bytes(),
                    "variants": variants,
                }
            )
    out.write_text(json.dumps(packed))
    print(len(packed), "cases,", sum(len(p["variants"]) for p in packed), "variants")


if __name__ == "__main__":
    main()
