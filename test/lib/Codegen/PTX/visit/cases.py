# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a visit to a GPU checks and times: functions on tssa and what eager answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


@dataclass
class Case:
    """One function: its inputs' types, its body, and the same in torch."""

    name: str
    inputs: Sequence[tuple[tuple[int, ...], str]]
    results: Sequence[tuple[tuple[int, ...], str]]
    lines: Sequence[str]
    eager: str
    timed: bool = False
    tolerance: float = 2e-3
    # Schedules to try beside the cost model's.
    schedules: Sequence[dict[str, object]] = field(default_factory=list)

    def text(self) -> str:
        """The function `@main`; `{aN}` and `{tN}` are argument N and its type."""
        types = [tensor(*t) for t in self.inputs]
        results = [tensor(*t) for t in self.results]
        words = {f"t{i}": t for i, t in enumerate(types)}
        words |= {f"r{i}": t for i, t in enumerate(results)}
        arguments = ", ".join(f"%a{i}: {t}" for i, t in enumerate(types))
        body = "\n".join("  " + line.format(**words) for line in self.lines)
        values = ", ".join(f"%r{i}" for i in range(len(results)))
        joined = ", ".join(results)
        return f"func.func @main({arguments}) -> ({joined}) {{\n{body}\n  return {values} : {joined}\n}}"

    def bytes(self) -> int:
        """What memory gives and takes at least."""
        size = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "i64": 8, "i32": 4, "i1": 1}
        total = 0
        for shape, element in [*self.inputs, *self.results]:
            count = 1
            for n in shape:
                count *= n
            total += count * size[element]
        return total


def tensor(shape: tuple[int, ...], element: str) -> str:
    return "tensor<" + "".join(f"{n}x" for n in shape) + element + ">"


def aten(value: str, name: str, args: str, types: str, result: str) -> str:
    return f'%{value} = tssa.aten "aten::{name}"({args}) : ({types}) -> {result}'


def softmax(shape: tuple[int, ...], e: str, **more: object) -> Case:
    return Case(
        f"softmax {shape} {e}",
        [(shape, e)],
        [(shape, e)],
        [aten("r0", "softmax.int", "%a0, -1 : i64, none", "{t0}", "{r0}")],
        "a[0].softmax(-1)",
        **more,
    )


def logsumexp(shape: tuple[int, ...], e: str, **more: object) -> Case:
    return Case(
        f"logsumexp {shape} {e}",
        [(shape, e)],
        [(shape[:-1], e)],
        [aten("r0", "logsumexp", "%a0, [-1 : i64], false", "{t0}", "{r0}")],
        "a[0].logsumexp(-1)",
        **more,
    )


def layer_norm(shape: tuple[int, ...], e: str, **more: object) -> Case:
    n = shape[-1]
    return Case(
        f"layer_norm {shape} {e}",
        [(shape, e), ((n,), e), ((n,), e)],
        [(shape, e)],
        [
            aten(
                "r0",
                "layer_norm",
                f"%a0, [{n} : i64], %a1, %a2, 1.0e-05 : f64, true",
                "{t0}, {t1}, {t2}",
                "{r0}",
            )
        ],
        f"torch.nn.functional.layer_norm(a[0], ({n},), a[1], a[2])",
        **more,
    )


def add_rms_norm(shape: tuple[int, ...], e: str, **more: object) -> Case:
    n = shape[-1]
    return Case(
        f"add+rms_norm {shape} {e}",
        [(shape, e), (shape, e), ((n,), e)],
        [(shape, e), (shape, e)],
        [
            aten("r0", "add.Tensor", "%a0, %a1, 1 : i64", "{t0}, {t1}", "{r0}"),
            aten(
                "r1",
                "rms_norm",
                f"%r0, [{n} : i64], %a2, 1.0e-06 : f64",
                "{r0}, {t2}",
                "{r1}",
            ),
        ],
        f"(a[0] + a[1], torch.nn.functional.rms_norm(a[0] + a[1], ({n},), a[2], 1e-6))",
        **more,
    )


def gelu_gate(shape: tuple[int, ...], e: str, **more: object) -> Case:
    n = shape[-1]
    return Case(
        f"bias+gelu*gate {shape} {e}",
        [(shape, e), ((n,), e), (shape, e)],
        [(shape, e)],
        [
            aten("0", "add.Tensor", "%a0, %a1, 1 : i64", "{t0}, {t1}", "{t0}"),
            aten("1", "gelu", '%0, "none"', "{t0}", "{t0}"),
            aten("r0", "mul.Tensor", "%1, %a2", "{t0}, {t2}", "{r0}"),
        ],
        "torch.nn.functional.gelu(a[0] + a[1]) * a[2]",
        **more,
    )


def add_relu(shape: tuple[int, ...], e: str, **more: object) -> Case:
    return Case(
        f"add+relu {shape} {e}",
        [(shape, e), (shape, e)],
        [(shape, e)],
        [
            aten("0", "add.Tensor", "%a0, %a1, 1 : i64", "{t0}, {t1}", "{t0}"),
            aten("r0", "relu", "%0", "{t0}", "{r0}"),
        ],
        "(a[0] + a[1]).relu()",
        **more,
    )


def column_sum(shape: tuple[int, ...], e: str, **more: object) -> Case:
    return Case(
        f"column sum {shape} {e}",
        [(shape, e)],
        [(shape[1:], e)],
        [aten("r0", "sum.dim_IntList", "%a0, [0 : i64], false, none", "{t0}", "{r0}")],
        "a[0].sum(0)",
        **more,
    )


def full_sum(shape: tuple[int, ...], e: str, **more: object) -> Case:
    dims = ", ".join(f"{i} : i64" for i in range(len(shape)))
    return Case(
        f"sum {shape} {e}",
        [(shape, e)],
        [((), e)],
        [aten("r0", "sum.dim_IntList", f"%a0, [{dims}], false, none", "{t0}", "{r0}")],
        "a[0].sum()",
        **more,
    )


def transposed_add(rows: int, columns: int, e: str, **more: object) -> Case:
    path = "#tssa.view<permute [1, 0]>"
    shown = f"tensor<{columns}x{rows}x{e}, #tssa.strides<[1, {columns}]>>"
    return Case(
        f"transpose+add ({rows}, {columns}) {e}",
        [((rows, columns), e), ((columns, rows), e)],
        [((columns, rows), e)],
        [
            f"%v = tssa.access %a0 [{path}] : {{t0}} -> {shown}",
            aten("r0", "add.Tensor", "%a1, %v, 1 : i64", f"{{t1}}, {shown}", "{r0}"),
        ],
        "a[1] + a[0].t()",
        **more,
    )


def row(
    lanes: int,
    vectors: int,
    threads: int,
    group: int,
    resident: bool = True,
    blocks: int = 0,
) -> dict[str, object]:
    bound = {"blocks": blocks} if blocks else {}
    return bound | {
        "family": "row",
        "lanes": lanes,
        "vectors": vectors,
        "threads": threads,
        "group": group,
        "resident": resident,
    }


def column(lanes: int, vectors: int, threads: int, group: int) -> dict[str, object]:
    return {
        "family": "column",
        "lanes": lanes,
        "vectors": vectors,
        "threads": threads,
        "group": group,
        "resident": False,
    }


def flat(lanes: int, vectors: int, threads: int) -> dict[str, object]:
    return {"family": "flat", "lanes": lanes, "vectors": vectors, "threads": threads}


def checks() -> Iterator[Case]:
    """Small and awkward shapes of every family."""
    for e, limit in [("f32", 1e-5), ("f16", 2e-3), ("bf16", 1.6e-2), ("f64", 1e-12)]:
        for shape in [
            (1,),
            (1003,),
            (64, 512),
            (7, 33),
            (0, 4),
            (3, 5, 64),
            (4096, 1024),
        ]:
            yield add_relu(shape, e, tolerance=limit)
        if e == "f64":
            continue
        for shape in [
            (1, 1),
            (8, 64),
            (3, 1000),
            (5, 1001),
            (2, 4096),
            (300, 16),
            (40, 3),
            (150, 12000),
            (64, 70000),
        ]:
            yield softmax(shape, e, tolerance=limit)
            yield layer_norm(shape, e, tolerance=4 * limit)
            yield add_rms_norm(shape, e, tolerance=4 * limit)
            yield logsumexp(shape, e, tolerance=4 * limit)
        for shape in [
            (4, 8),
            (300, 100),
            (500, 101),
            (5000, 4),
            (64, 32, 48),
            (20000, 256),
        ]:
            yield column_sum(shape, e, tolerance=4 * limit)
            yield full_sum(shape, e, tolerance=16 * limit)
        for rows, columns in [(5, 7), (64, 64), (100, 1000), (1024, 513)]:
            yield transposed_add(rows, columns, e, tolerance=limit)
        yield gelu_gate((64, 500), e, tolerance=limit)


def timings() -> Iterator[Case]:
    """The sizes of the issue's table: 128 MB of fp16."""
    shapes = [(65536, 1024), (16384, 4096), (4096, 16384), (1024, 65536)]
    tries: dict[int, list[dict[str, object]]] = {
        1024: [row(8, 4, 256, 32), row(8, 2, 128, 64), row(8, 1, 128, 128)],
        4096: [
            row(8, 8, 64, 64),
            row(8, 4, 128, 128, blocks=8),
            row(8, 2, 256, 256),
            row(8, 2, 256, 256, blocks=6),
        ],
        16384: [
            row(8, 8, 256, 256),
            row(8, 8, 256, 256, blocks=3),
            row(8, 4, 512, 512),
            row(8, 2, 1024, 1024, blocks=2),
            row(8, 4, 512, 512, False),
        ],
        65536: [
            row(8, 4, 512, 512, False),
            row(8, 4, 512, 512, False, blocks=2),
            row(8, 2, 512, 512, False, blocks=2),
            row(8, 2, 512, 512, False, blocks=3),
            row(8, 4, 256, 256, False, blocks=4),
            row(8, 4, 256, 256, False, blocks=5),
            row(8, 2, 256, 256, False, blocks=6),
            row(8, 8, 256, 256, False, blocks=2),
            row(8, 2, 1024, 1024, False),
            row(8, 1, 1024, 1024, False, blocks=2),
            row(8, 4, 1024, 1024, False),
        ],
    }
    for make in (softmax, layer_norm, add_rms_norm, logsumexp):
        for shape in shapes:
            yield make(
                shape, "f16", timed=True, schedules=tries[shape[1]], tolerance=5e-3
            )
    pointwise = [flat(8, v, t) for v in (1, 2, 4) for t in (128, 256, 512)]
    yield gelu_gate((16384, 4096), "f16", timed=True, schedules=pointwise)
    yield add_relu((16384, 4096), "f16", timed=True, schedules=pointwise)
    columns = [column(n, v, 512, g) for n in (2, 4, 8) for v in (4, 8) for g in (8, 16)]
    yield column_sum(
        (16384, 4096), "f16", timed=True, schedules=columns, tolerance=1e-2
    )
    yield column_sum(
        (65536, 1024), "f16", timed=True, schedules=columns, tolerance=1e-2
    )
    yield full_sum((16384, 4096), "f16", timed=True, tolerance=1e-2)
    yield transposed_add(8192, 8192, "f16", timed=True)
