# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls of one overload, generated from its schema.

A case is a call's arguments. What an argument may be follows from its type and its name alone;
a call that eager refuses is drawn again. `plan` gives all cases of an overload in a fixed order of
kinds, so that a seeded part of them is a fair sample.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from Operators.grid import (
    DTYPES,
    FLOATS,
    INTEGERS,
    LAYOUTS,
    drawn,
    every_half,
    specials,
)
from Operators.schemas import Argument, Row, arguments

# Python numbers: literal in one program, lifted in another.
FLOAT_NUMBERS = (
    0.5, -0.5, 2.0, 1.0, -1.0, 3.0, 0.1, 0.3, -2.5, 0.0, -0.0, 256.5, 257.0, 65519.0, 65520.0, 16777216.5,
    1e10, 3e38, 3.5e38, 1e300, 1e-40, 5e-324, float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
INT_NUMBERS = (
    0, 1, 2, -1, -2, 3, 7, -3, 127, 255, 257, 2049, 65520, 2**24 + 1, 2**31, -(2**31) - 1, 2**53 + 1,
    2**63 - 1, -(2**63),
)  # fmt: skip
BOOL_NUMBERS = (True, False)
NUMBERS = (*FLOAT_NUMBERS, *INT_NUMBERS, *BOOL_NUMBERS)
MILD_NUMBERS = (2, -1, 0.5, 1, True, 1.5, 0)

SHAPES = ((3, 4), (4,), (2, 3, 4), (2, 3, 4, 5), (), (1,), (3, 1), (1, 4), (0,), (2, 0), (0, 3), (5, 1, 4))  # fmt: skip
# Around the widths of vectors, blocks of sums, and what one thread takes (both code generators).
COUNTS = (2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 127, 129, 255, 257, 511, 513, 1023, 1025, 2047, 4097, 8191, 8193,
          16385, 32767, 32769, 65537, 131073)  # fmt: skip


@dataclass
class Case:
    """One call. `numbers` names the arguments that hold a Python number that may be lifted."""

    row: Row
    kind: str
    arguments: list[Any]
    default_dtype: torch.dtype = torch.float32

    def signature(self) -> str:
        """What decides whether the call is compiled: types and the kinds of numbers."""
        return ", ".join(describe(value) for value in self.arguments)


def describe(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype)[6:]}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(describe(item) for item in value) + "]"
    return repr(value)


class Rejected(Exception):
    """The schema asks for something that this generator has no values for."""


class Generator:
    """Draws the arguments of one overload."""

    def __init__(self, row: Row, draw: random.Random, device: str = "cpu") -> None:
        self.row, self.draw, self.device = row, draw, device
        self.arguments = arguments(row.op)
        self.tensors = [a for a in self.arguments if a.plain == "Tensor"]
        # The least integer divided by -1 ends the process in eager.
        self.divides = any(w in row.overload for w in ("div", "remainder", "fmod"))
        self.scalars = [a for a in self.arguments if a.plain == "Scalar"]
        # They say how long the result is: a large one is no memory.
        self.numbers_are_sizes = row.overload.startswith("aten::arange")

    def call(
        self,
        dtypes: tuple[torch.dtype, ...],
        shape: tuple[int, ...],
        *,
        scalar: Any = None,
        layout: Any = None,
        outer: bool = False,
        fixed: dict[str, Any] | None = None,
    ) -> list[Any]:
        """Arguments whose tensors have `dtypes`, in turn, and shapes that go with `shape`.

        scalar: every Scalar's value, mild ones where it is None. outer: the first two tensors hold
        the special values, so that each meets each. fixed: arguments by name.
        """
        shape = (2,) * (least_rank(self.row) - len(shape)) + shape
        self.shape, self.dtypes, self.scalar = shape, itertools.cycle(dtypes), scalar
        self.first, self.layout, self.outer = dtypes[0], layout, outer
        self.count = 0
        if "_with_indices_backward" in self.row.overload:
            return self.pool_gradient()
        values = []
        for argument in self.arguments:
            if fixed and argument.name in fixed:
                values.append(fixed[argument.name])
            else:
                values.append(self.value(argument))
        return values

    def pool_gradient(self) -> list[Any]:
        """Arguments that belong to a pool of floats: places are those that it tells."""
        told = {a.name: a for a in self.arguments}
        size = self.plain_value(told["kernel_size"])
        stride = self.draw.choice((size, size, self.plain_value(told["stride"])))
        padding = [self.draw.choice((0, 0, k // 2)) for k in size]
        windows = (size, stride, padding, [1] * len(size), False)
        x = self.operand(self.shape)
        pool = getattr(torch.ops.aten, f"max_pool{len(size)}d_with_indices").default
        try:
            result, places = pool(x, *windows)
        except RuntimeError as error:
            raise NotImplementedError(str(error)) from error
        return [self.operand(tuple(result.shape)), x, *windows, places]

    def value(self, a: Argument) -> Any:
        if a.plain == "Tensor":
            if a.optional and self.draw.random() < 0.3:
                return None
            return self.tensor(a)
        if a.type == "Tensor[]":
            return [
                self.operand(self.shape) for _ in range(self.draw.choice((1, 2, 3)))
            ]
        if a.type == "Tensor?[]":
            return [self.index(1)]
        if a.plain == "Scalar":
            if a.optional and self.draw.random() < 0.3:
                return None
            if self.numbers_are_sizes and a.name in ("start", "end", "step"):
                return self.draw.choice((0, 1, 2, -3, 7, 2.5, 40))
            return (
                self.draw.choice(MILD_NUMBERS) if self.scalar is None else self.scalar
            )
        return self.plain_value(a)

    def operand(self, shape: tuple[int, ...]) -> torch.Tensor:
        value = drawn(shape, next(self.dtypes), self.draw)
        if (
            self.divides
            and not value.dtype.is_floating_point
            and value.dtype != torch.bool
        ):
            value = value.clamp(min=torch.iinfo(value.dtype).min + 1)
        return self.layout(value) if self.layout else value

    def index(self, rank: int | None = None) -> torch.Tensor:
        """In range along every dimension."""
        limit = min(self.shape, default=1)
        shape = (self.draw.choice((1, 3)),) if rank == 1 else self.shape
        generator = torch.Generator().manual_seed(self.draw.getrandbits(40))
        return torch.randint(0, max(limit, 1), shape, generator=generator)

    def tensor(self, a: Argument) -> torch.Tensor:
        if a.name in ("index", "indices"):
            return self.index(self.draw.choice((1, None)))
        if a.name in ("mask", "condition"):
            kind = self.draw.choice((torch.bool, torch.bool, torch.uint8))
            shape = self.draw.choice((self.shape, self.shape[1:]))
            return drawn(
                shape, kind if a.name == "condition" else torch.bool, self.draw
            )
        shape = self.shape
        if a.name in ("weight", "bias", "running_mean", "running_var"):
            shape = self.draw.choice((shape[1:2], shape[-1:], shape[-2:]))
        self.count += 1
        if self.outer and self.count <= 2:
            pool = specials(next(self.dtypes))
            if (
                self.divides
                and not pool.dtype.is_floating_point
                and pool.dtype != torch.bool
            ):
                pool = pool[pool != torch.iinfo(pool.dtype).min]
            return pool[:, None] if self.count == 1 else pool
        if self.count > 1 and self.draw.random() < 0.4:
            shape = self.draw.choice((shape[1:], (), (1,), (1, *shape[1:]), shape))
        value = self.operand(shape)
        return value.abs() if a.name == "running_var" else value

    def plain_value(self, a: Argument) -> Any:
        draw, rank = self.draw, len(self.shape)
        if a.plain == "ScalarType":
            return draw.choice((None, *DTYPES) if a.optional else DTYPES)
        if a.name == "device":
            return None if a.optional and self.device == "cpu" else torch.device("cpu")
        if a.name in ("layout", "pin_memory"):
            return None
        if a.plain == "MemoryFormat":
            return None if a.optional else torch.contiguous_format
        if a.plain == "bool":
            return draw.random() < 0.3 and a.name not in ("training", "half_to_float")
        if a.name == "dim":
            one = draw.randrange(-max(rank, 1), max(rank, 1))
            if a.plain == "int":
                return None if a.optional and draw.random() < 0.2 else one
            several = draw.sample(range(rank), draw.randint(0, rank))
            return draw.choice(([one], several, None if a.optional else several))
        if a.name in ("size", "repeats"):
            return list(self.shape) if a.name == "size" else [draw.randint(0, 2) for _ in range(rank + draw.randint(0, 1))]  # fmt: skip
        if a.name in ("kernel_size", "stride", "padding", "dilation"):
            least, most = {"kernel_size": (1, 4), "padding": (0, 1), "dilation": (1, 2)}.get(a.name, (1, 3))  # fmt: skip
            return [draw.randint(least, most) for _ in range(windows(self.row))]
        if a.name == "divisor_override":
            return draw.choice((None, None, 3, -2))
        if a.name == "pad":
            return [draw.randint(-1, 3) for _ in range(2 * draw.randint(0, rank))]
        if a.name == "shifts":
            return [draw.choice((0, 1, -2, 7, 2**40))]
        if a.name == "dims":
            return [draw.randrange(-max(rank, 1), max(rank, 1))]
        if a.name == "normalized_shape":
            return list(self.shape[-draw.randint(1, 2) :])
        if a.name == "diagonal":
            return draw.choice((0, 1, -1, 2, -3, 100, 2**62, 2**63 - 1, -(2**63)))
        if a.name == "reduction":
            return draw.randrange(3)
        if a.name == "padding_idx":
            return -1
        if a.name in ("eps", "momentum"):
            return draw.choice((1e-5, 0.1, 0.0, True))
        if a.plain == "float":
            return draw.choice((0.5, 1.0, 0.1, 0.0, True, False))
        if a.name == "rounding_mode":
            return draw.choice((None, "trunc", "floor"))
        if a.name == "approximate":
            return draw.choice(("none", "tanh"))
        if a.plain in ("int", "SymInt"):
            return draw.choice((0, 1, 2, 3, True))
        raise Rejected(f"{a.type} {a.name}")


def windows(row: Row) -> int:
    """Over how many dimensions the windows of a pool reach; 0 for other overloads."""
    pool = re.search(r"_pool(\d)d", row.overload)
    return int(pool[1]) if pool else 0


def least_rank(row: Row) -> int:
    """So many dimensions an operand has at least: channels beside those that are read as an image."""
    return 3 if "pixel" in row.overload else windows(row) + 1 if windows(row) else 0


# Elements of a result, at most: an embedding of large tables by large indices would fill the memory.
LIMIT = 1 << 24


def fits(case: Case) -> bool:
    """Whether the results of large operands have room."""
    tensors = [v for v in case.arguments if isinstance(v, torch.Tensor)]
    if sum(t.numel() for t in tensors) < 10_000:
        return True
    try:
        result = run(case.row, [on_meta(value) for value in case.arguments])
    except Exception:
        return True  # no sizes without values
    several = result if isinstance(result, (tuple, list)) else (result,)
    return all(t.numel() <= LIMIT for t in several)


def on_meta(value: Any) -> Any:
    """The same tensors without values."""
    if isinstance(value, torch.Tensor):
        return value.to("meta")
    return [on_meta(v) for v in value] if isinstance(value, list) else value


def accepted(case: Case) -> bool:
    """Whether eager answers the call with a tensor, or several."""
    if not fits(case):
        return False
    try:
        result = run(case.row, copied(case.arguments))
    except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError, OverflowError):  # fmt: skip
        return False
    several = result if isinstance(result, (tuple, list)) else (result,)
    return all(isinstance(item, torch.Tensor) for item in several)


def run(row: Row, values: list[Any]) -> Any:
    named = arguments(row.op)
    positional = [v for v, a in zip(values, named, strict=True) if not a.keyword]
    keyword = {a.name: v for v, a in zip(values, named, strict=True) if a.keyword}
    return row.op(*positional, **keyword)


def placed(value: Any, device: str) -> Any:
    """The same tensors on a device, in the same layout."""
    if isinstance(value, torch.Tensor) and device != "cpu":
        if value.numel() == 0 or value.is_contiguous():
            return value.to(device)
        return laid_out(value, lambda memory: memory.to(device))
    if isinstance(value, list):
        return [placed(item, device) for item in value]
    return torch.device(device) if isinstance(value, torch.device) else value


def extent(value: torch.Tensor) -> int:
    """How many elements of memory a tensor reaches over."""
    return (
        sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True)) + 1
    )


def laid_out(
    value: torch.Tensor, move: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """The same layout over what `move` makes of a tensor's memory: elements that share memory go on doing so."""
    memory = move(value.as_strided((extent(value),), (1,)))
    return memory.as_strided(value.shape, value.stride(), 0)


def copied(value: Any) -> Any:
    """The same values in the same layout, in memory of their own."""
    if isinstance(value, torch.Tensor):
        value = value.detach()
        if value.layout != torch.strided:
            return value.clone()
        if value.numel() == 0:
            return torch.empty_strided(
                value.shape, value.stride(), dtype=value.dtype, device=value.device
            )
        return laid_out(value, torch.clone)
    if isinstance(value, (list, tuple)):
        return type(value)(copied(item) for item in value)
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return value


def plan(
    row: Row, draw: random.Random, part: float = 1.0, device: str = "cpu"
) -> Iterator[Case]:
    """The cases of an overload, kind by kind; of each kind about `part` of them, at least one."""
    make = Generator(row, draw, device)
    refused: Counter[tuple[torch.dtype, ...]] = Counter()
    for kind, ways in (
        ("pairs", dtype_pairs(make)),
        ("numbers", numbers(make)),
        ("half", halves(make)),
        ("layouts", layouts(make)),
        ("sizes", sizes(make)),
        ("defaults", defaults(make)),
    ):
        all_ways = list(ways)
        count = max(1, round(part * len(all_ways)))
        for default, fill in draw.sample(all_ways, min(count, len(all_ways))):
            if case := drawn_case(row, kind, default, fill, refused, device):
                yield case


def drawn_case(
    row: Row,
    kind: str,
    default: torch.dtype,
    fill: Callable[[], list[Any]],
    refused: Counter[tuple[torch.dtype, ...]],
    device: str = "cpu",
) -> Case | None:
    """The first of some draws that eager accepts."""
    torch.set_default_dtype(default)
    try:
        for _ in range(4):
            try:
                case = Case(row, kind, fill(), default)
            except NotImplementedError:
                return None  # no values of this dtype for that argument
            dtypes = tuple(
                v.dtype for v in case.arguments if isinstance(v, torch.Tensor)
            )
            # Eager's errors are slow to raise: what was refused as often is a matter of dtypes.
            if refused[dtypes] >= 6:
                return None
            # The CPU refuses an index out of range; a device would lose its context over it.
            fine = accepted(case)
            case.arguments = placed(case.arguments, device)
            if fine and (device == "cpu" or accepted(case)):
                refused[dtypes] = -1000
                return case
            refused[dtypes] += 1
    finally:
        torch.set_default_dtype(torch.float32)
    return None


Ways = Iterator[tuple[torch.dtype, Any]]


def dtype_pairs(make: Generator) -> Ways:
    """The special values of each dtype against those of each other."""
    several = len(make.tensors) > 1
    pairs = itertools.product(DTYPES, DTYPES) if several else ((d, d) for d in DTYPES)
    outer = make.row.lowering != "own kernel by rule"
    for pair in pairs:
        yield torch.float32, lambda p=pair: make.call(p, (3, 4), outer=outer)
        yield torch.float32, lambda p=pair: make.call(p, make.draw.choice(SHAPES))


def numbers(make: Generator) -> Ways:
    """Each dtype against each Python number, in a Scalar's place and in a tensor's."""
    tensor_numbers = [a for a in make.tensors[1:] if a.name in ("other", "exponent", "value", "end", "weight")]  # fmt: skip
    for dtype, number in itertools.product(DTYPES, NUMBERS):
        if make.scalars:
            yield torch.float32, lambda d=dtype, n=number: make.call((d,), (3, 4), scalar=n, outer=True)  # fmt: skip
        for argument in tensor_numbers:
            fixed = {argument.name: number}
            yield torch.float32, lambda d=dtype, f=fixed: make.call((d,), (3, 4), outer=True, fixed=f)  # fmt: skip


def halves(make: Generator) -> Ways:
    """All 65,536 values, of overloads with one tensor."""
    if len(make.tensors) != 1 or make.tensors[0].name != "self":
        return
    for dtype in (torch.float16, torch.bfloat16):
        yield torch.float32, lambda d=dtype: make.call((d,), (65536,), fixed={"self": every_half(d)})  # fmt: skip


def layouts(make: Generator) -> Ways:
    for shape, layout in itertools.product(SHAPES, LAYOUTS):
        dtypes = (make.draw.choice(DTYPES), make.draw.choice(DTYPES))
        if make.draw.random() < 0.6:
            dtypes = (make.draw.choice(FLOATS),)
        yield torch.float32, lambda d=dtypes, s=shape, f=layout: make.call(d, s, layout=f)  # fmt: skip


def sizes(make: Generator) -> Ways:
    for count in COUNTS:
        for shape in ((count,), (3, count), (count, 3)):
            if shape[0] * shape[-1] > 400_000:
                continue
            dtype = make.draw.choice((*FLOATS, make.draw.choice(INTEGERS)))
            yield torch.float32, lambda d=dtype, s=shape: make.call((d,), s)
    # Equal elements add up beyond what half precision holds, where random ones cancel.
    for dtype, count in itertools.product((torch.float16, torch.bfloat16), (65_600, 131_073)):  # fmt: skip
        for shape in ((count,), (2, count), (count, 2)):
            yield torch.float32, lambda d=dtype, s=shape: make.call((d,), s, layout=equal)  # fmt: skip


def equal(value: torch.Tensor) -> torch.Tensor:
    return torch.ones_like(value)


def defaults(make: Generator) -> Ways:
    """Another default dtype: what Python's floats and quotients of ints become."""
    for default in (torch.float64, torch.bfloat16, torch.float16):
        for dtype in DTYPES:
            number = make.draw.choice((0.5, 256.5, 16777216.5, 0.1, 3))
            yield default, lambda d=dtype, n=number: make.call((d,), (3, 4), scalar=n, outer=True)  # fmt: skip
            other = make.draw.choice(DTYPES)
            yield default, lambda d=dtype, o=other: make.call((d, o), (3, 4))
