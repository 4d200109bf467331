# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sample calls of the operator table's overloads, from PyTorch's own op_db and from schemas.

Three sources, in this order: what op_db's samples dispatch; op_db's samples given to the overloads of
the same name; the arguments found so far given to overloads with other names (in-place forms, aliases,
parts of composites) or, for what is left, arguments made from the schema's types.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import warnings
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from Operators import schemas
from Operators.cases import copied
from Operators.schemas import Row
from torch.utils._python_dispatch import TorchDispatchMode

DTYPES = (torch.float32, torch.int64, torch.bool)
FULL = os.environ.get("PYJIT_OPERATORS", "") == "full"
SAMPLES = 8 if FULL else 3  # of an op_db entry and dtype
KEPT = 4 if FULL else 2  # calls of an overload with the same dtypes
ELEMENTS = 2000  # tensors of more are left out


@cache
def table() -> dict[str, Row]:
    """The operator table by names without "aten::"."""
    return {
        name.removeprefix("aten::"): row
        for name, row in schemas.table().items()
        if name.startswith("aten::")
    }


def function(overload: str) -> Any:
    base, _, name = overload.partition(".")
    return getattr(getattr(torch.ops.aten, base), name or "default")


def name_of(op: Any) -> str:
    """ "add.Tensor" of an OpOverload."""
    name = op._schema.name.removeprefix("aten::")
    return f"{name}.{op._schema.overload_name}" if op._schema.overload_name else name


def tensors_of(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in tensors_of(item)]
    return []


def rendered(value: Any, names: Iterator[int]) -> str:
    if isinstance(value, torch.Tensor):
        return f"t{next(names)}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(rendered(item, names) for item in value) + "]"
    if isinstance(value, float):
        return f"float('{value!r}')"
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    known = (int, str, complex, torch.dtype, torch.layout, torch.memory_format)
    if value is None or isinstance(value, known):
        return repr(value)
    raise ValueError(f"no literal: {type(value)}")


@dataclass
class Call:
    """Positional and keyword arguments of an overload."""

    overload: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)

    def tensors(self) -> list[torch.Tensor]:
        return tensors_of([*self.args, *self.kwargs.values()])

    def number_places(self) -> list[int]:
        """The positional arguments that are numbers and neither sizes nor dimensions."""
        kinds = [str(a.type) for a in function(self.overload)._schema.arguments]
        return [
            place
            for place, (kind, value) in enumerate(zip(kinds, self.args, strict=False))
            if kind in ("number", "float", "Optional[number]", "Optional[float]")
            and type(value) in (int, float)
        ]

    def numbers(self) -> list[int | float]:
        return [self.args[place] for place in self.number_places()]

    def with_number(self, place: int, value: float) -> Call:
        """A copy with another number at a place of `number_places`."""
        other = self.copy()
        other.args = (*other.args[:place], value, *other.args[place + 1 :])
        return other

    def source(self) -> str:
        """The arguments as Python: tensors are t0, t1, ..., numbers n0, n1, ....

        Raises ValueError where one has no literal.
        """
        names = itertools.count()
        places = self.number_places()
        parts = [
            f"n{places.index(i)}" if i in places else rendered(value, names)
            for i, value in enumerate(self.args)
        ]
        for name, value in self.kwargs.items():
            parts.append(f"{name}={rendered(value, names)}")
        return ", ".join(parts)

    def copy(self) -> Call:
        kwargs = {name: copied(value) for name, value in self.kwargs.items()}
        return Call(self.overload, copied(self.args), kwargs)

    def run(self) -> Any:
        return function(self.overload)(*self.args, **self.kwargs)

    def fits(self) -> bool:
        """Whether tensors stand only where the schema has tensors, not for numbers."""
        kinds = {a.name: str(a.type) for a in function(self.overload)._schema.arguments}
        given = dict(zip(kinds, self.args, strict=False)) | self.kwargs
        return all(
            "Tensor" in kinds[n] for n, value in given.items() if tensors_of(value)
        )


class Calls:
    """The pool of calls, a few for each overload and combination of dtypes."""

    def __init__(self) -> None:
        self.found: dict[str, list[Call]] = defaultdict(list)
        self.kept: dict[Any, int] = defaultdict(int)

    def add(self, call: Call) -> None:
        tensors = call.tensors()
        if any(t.numel() > ELEMENTS or t.layout != torch.strided for t in tensors):
            return
        key = (call.overload, *((t.dtype, t.dim() > 0, t.numel() > 0) for t in tensors))
        if self.kept[key] < KEPT:
            self.kept[key] += 1
            self.found[call.overload].append(call.copy())

    def offer(
        self, overload: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Adds a call if eager takes it, and one whose last tensor is shorter likewise."""
        self.offer_one(overload, args, kwargs)
        last = args[-1] if len(tensors_of(args)) > 1 else None
        if isinstance(last, torch.Tensor) and last.numel() > 3:
            part = last.flatten()[: last.numel() * 3 // 4]
            self.offer_one(overload, (*args[:-1], part), kwargs)

    def offer_one(
        self, overload: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        call = Call(overload, args, kwargs).copy()
        try:
            call.source()
            call.copy().run()
            fits = call.fits()
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
            return
        if fits:
            self.add(call)


class Harvest(TorchDispatchMode):
    """Notes every call that is dispatched and that the table has."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Call] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if name_of(func) in table():
            self.seen.append(Call(name_of(func), args, kwargs or {}))
        return func(*args, **(kwargs or {}))


def spread(samples: list[Any]) -> list[Any]:
    """Some of them, from the first to the last: the first ones are alike, and often empty."""
    count = min(SAMPLES, len(samples))
    return [samples[(i + 1) * len(samples) // (count + 1)] for i in range(count)]


def is_related(op: Any, bases: set[str]) -> bool:
    """Whether an op_db entry is named like one of the overloads."""
    last = op.name.split(".")[-1]
    return op.aten_name in bases or any(base.startswith(last) for base in bases)


def from_op_db(calls: Calls, wanted: Collection[str]) -> None:
    from torch.testing._internal.common_methods_invocations import op_db

    bases = {name.split(".")[0].strip("_") for name in wanted}
    for op in op_db:
        if not FULL and not is_related(op, bases):
            continue
        packet = getattr(torch.ops.aten, op.aten_name, None)
        overloads = [] if packet is None else packet.overloads()
        names = [name_of(getattr(packet, overload)) for overload in overloads]
        known = [name for name in names if name in table()]
        for dtype in DTYPES:
            if dtype not in op.dtypes:
                continue
            samples = op.sample_inputs("cpu", dtype, requires_grad=False)
            for sample in spread(list(itertools.islice(samples, 24))):
                args = (sample.input, *sample.args)
                harvest = Harvest()
                with contextlib.suppress(Exception), harvest:
                    op.op(*copied(args), **sample.kwargs)
                for call in harvest.seen:
                    calls.offer(call.overload, call.args, call.kwargs)
                for name in known:
                    calls.offer(name, args, sample.kwargs)


def by_type(kind: str, number: int, integers: bool) -> Any:
    """An argument of a schema's type, the `number`th of its call."""
    generator = torch.Generator().manual_seed(number)
    if kind.startswith(("Optional", "Device")) or kind == "Generator":
        return None
    if kind == "Tensor":
        small = torch.randint(0, 3, (3, 4), generator=generator)
        return small if integers else torch.rand(3, 4, generator=generator) + 0.25
    return {"List[Tensor]": [torch.rand(3, 4), torch.rand(3, 4)], "number": 2, "int": 1, "float": 0.5,
            "bool": False, "str": "trunc", "List[int]": [3, 4], "complex": 1j}.get(kind)  # fmt: skip


def by_hand() -> dict[str, list[tuple[Any, ...]]]:
    """Arguments of overloads that op_db does not call and that no rule finds."""
    rows, classes = torch.rand(4, 5), torch.tensor([0, 4, 2, 1])
    numbers = torch.tensor([7, -3, 12])
    halves = [(numbers, 2, rounding) for rounding in ("trunc", "floor")]
    divisors = torch.tensor([2, 5, 1])
    names = [
        "div.Tensor_mode",
        "divide.Tensor_mode",
        "div_.Tensor_mode",
        "divide_.Tensor_mode",
    ]
    quotients = {name: [(numbers, divisors, "floor")] for name in names}
    names = ["remainder.Tensor", "remainder_.Tensor", "fmod.Tensor", "fmod_.Tensor"]
    names += ["floor_divide", "floor_divide_.Tensor"]
    remainders = {name: [(numbers, divisors)] for name in names}
    # Numbers that integers need not have.
    names = ["fill_.Scalar", "full_like", "copy_.float"]
    filled = {name: [(numbers, 2.0)] for name in names}
    names = ["masked_fill.Scalar", "masked_fill_.Scalar"]
    masked = {name: [(numbers, numbers > 0, 2.0)] for name in names}
    names = ["threshold", "threshold_", "hardtanh", "hardtanh_"]
    bounded = {name: [(numbers, 2.0, 3.0), (numbers, 2, 3)] for name in names}
    return (
        quotients
        | remainders
        | filled
        | masked
        | bounded
        | {
            "constant_pad_nd": [(numbers, [1, 1], 2.0)],
            "new_full": [(numbers, [3], 2.0)],
            "scalar_tensor": [(2.0, torch.int64)],
            "pow_.Scalar": [(numbers, 2)],
            "huber_loss": [(rows, rows + 1, 1, 1.0)],
            "_cdist_forward": [(rows, rows + 1, 2.0, None)],
            "linalg_vector_norm": [(torch.rand(3, 0), 2.0), (rows, 2.0)],
            "cross_entropy_loss": [(rows, classes), (rows, classes, torch.rand(5))],
            "nll_loss": [(rows, classes), (rows, classes, torch.rand(5), 2, 3)],
            "_embedding_bag": [(rows, classes % 4, torch.tensor([0, 2]))],
            "index.Tensor": [(rows, [classes % 4]), (rows, [None, classes])],
            "one_hot": [(classes, 6), (classes,)],
            "repeat_interleave.Tensor": [(torch.tensor([1, 0, 3]),)],
            "repeat_interleave.self_Tensor": [(numbers, torch.tensor([1, 0, 3]))],
            "scatter.value_reduce": [(rows, 1, classes[:, None], 2.0, "add")],
            "scatter_.value_reduce": [(rows, 1, classes[:, None], 2.0, "add")],
            "searchsorted.Tensor": [(rows.sort().values, rows)],
            "bernoulli.Tensor": [(rows, torch.rand(4, 5))],
            "bernoulli_.Tensor": [(rows, torch.rand(4, 5))],
            "prelu": [(rows, torch.rand(5))],
            "take_along_dim": [(rows, classes[:, None], 1)],
            "div.Scalar_mode": halves,
            "div_.Scalar_mode": halves,
            "divide.Scalar_mode": halves,
            "divide_.Scalar_mode": halves,
            "remainder.Scalar": [(numbers, 2), (rows, 2)],
            "remainder_.Scalar": [(numbers, 2)],
            "remainder.Scalar_Tensor": [(2, numbers)],
            "fmod.Scalar": [(numbers, 2), (rows, 2)],
            "fmod_.Scalar": [(numbers, 2)],
            "floor_divide.Scalar": [(numbers, 2), (rows, 2)],
            "floor_divide_.Scalar": [(numbers, 2)],
            "pow.Tensor_Scalar": [(numbers, 2), (rows, 2)],
            "full": [([3], 2.5, torch.int64), ([3], 2, torch.int32)],
            "masked_scatter": [(rows, rows > 0.5, rows.flatten()[:16])],
            # The first samples of op_db have no elements.
            "_linalg_svd": [(rows,)],
        }
    )


def in_order(overload: str, values: tuple[Any, ...]) -> Call:
    """The call with arguments in the schema's order."""
    arguments = function(overload)._schema.arguments
    pairs = list(zip(arguments, values, strict=False))
    args = tuple(value for a, value in pairs if not a.kwarg_only)
    return Call(overload, args, {a.name: value for a, value in pairs if a.kwarg_only})


def from_hand(calls: Calls) -> None:
    for name, examples in by_hand().items():
        for values in examples:
            call = in_order(name, values)
            calls.offer_one(name, call.args, call.kwargs)


def from_others(calls: Calls, wanted: Collection[str]) -> None:
    """Overloads that no sample has reached, with the arguments of their relatives."""
    for name in wanted:
        base = name.split(".")[0]
        plain = base if base.startswith("__") else base.rstrip("_")
        relatives = [
            o
            for o in calls.found
            if o != name and o.split(".")[0].rstrip("_") in (plain, base)
        ]
        if len(calls.found[name]) < 2:
            for relative in relatives:
                for call in list(calls.found[relative]):
                    calls.offer(name, call.args, call.kwargs)
        if calls.found[name]:
            continue
        schema = function(name)._schema
        needed = [
            a
            for a in schema.arguments
            if not a.has_default_value() and not a.kwarg_only
        ]
        for integers in (False, True):
            args = [by_type(str(a.type), i, integers) for i, a in enumerate(needed)]
            calls.offer(name, tuple(args), {})


def sample_calls(
    wanted: Collection[str], by_schema: bool = True
) -> dict[str, list[Call]]:
    """Calls that eager takes, by overload, with some for each wanted one where any are found: of PyTorch's samples,
    some by hand, and some made up by the schema."""
    calls = Calls()
    torch.manual_seed(0)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from_hand(calls)
        from_op_db(calls, wanted)
        if by_schema:
            from_others(calls, wanted)
    return dict(calls.found)
