"""Sample calls of the operator table's overloads, from PyTorch's own op_db and from schemas.

Three sources, in this order: what op_db's samples dispatch; op_db's samples given to the overloads of
the same name; the arguments found so far given to overloads with other names (in-place forms, aliases,
parts of composites) or, for what is left, arguments made from the schema's types.
"""

from __future__ import annotations

import itertools
import os
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

ROOT = Path(__file__).resolve().parents[2]
DTYPES = (torch.float32, torch.int64, torch.bool)
FULL = os.environ.get("PYJIT_OPERATORS", "") == "full"
SAMPLES = 8 if FULL else 3  # of an op_db entry and dtype
KEPT = 4 if FULL else 2  # calls of an overload with the same dtypes
ELEMENTS = 2000  # tensors of more are left out


@dataclass(frozen=True)
class Row:
    """A row of docs/Operators.md."""

    overload: str  # "index_add_", "div.Tensor_mode"
    kind: str  # pure, mutation, random, ...
    lowering: str


@cache
def table() -> dict[str, Row]:
    page = (ROOT / "docs/Operators.md").read_text()
    rows = re.findall(r"^\| `aten::([^`]+)` \| (\w+) \| ([\w -]+?) \|", page, re.M)
    return {name: Row(name, kind, lowering) for name, kind, lowering in rows}


def function(overload: str) -> Any:
    base, _, name = overload.partition(".")
    return getattr(getattr(torch.ops.aten, base), name or "default")


def name_of(op: Any) -> str:
    """ "add.Tensor" of an OpOverload."""
    name = op._schema.name.removeprefix("aten::")
    return f"{name}.{op._schema.overload_name}" if op._schema.overload_name else name


def copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, (list, tuple)):
        return type(value)(copied(item) for item in value)
    return value


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

    def source(self) -> str:
        """The arguments as Python; the tensors are t0, t1, ... Raises ValueError for others."""
        names = itertools.count()
        parts = [rendered(value, names) for value in self.args]
        parts += [
            f"{name}={rendered(value, names)}" for name, value in self.kwargs.items()
        ]
        return ", ".join(parts)

    def copy(self) -> Call:
        kwargs = {name: copied(value) for name, value in self.kwargs.items()}
        return Call(self.overload, copied(self.args), kwargs)

    def run(self) -> Any:
        return function(self.overload)(*self.args, **self.kwargs)


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
        """Adds a call if eager takes it."""
        call = Call(overload, args, kwargs).copy()
        try:
            call.source()
            call.copy().run()
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
            return
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


def from_op_db(calls: Calls) -> None:
    from torch.testing._internal.common_methods_invocations import op_db

    for op in op_db:
        packet = getattr(torch.ops.aten, op.aten_name, None)
        overloads = [] if packet is None else packet.overloads()
        names = [name_of(getattr(packet, overload)) for overload in overloads]
        known = [name for name in names if name in table()]
        for dtype in DTYPES:
            if dtype not in op.dtypes:
                continue
            for number, sample in enumerate(
                op.sample_inputs("cpu", dtype, requires_grad=False)
            ):
                if number == SAMPLES:
                    break
                args = (sample.input, *sample.args)
                try:
                    with Harvest() as harvest:
                        op.op(*copied(args), **sample.kwargs)
                except Exception:
                    continue
                for call in harvest.seen:
                    calls.offer(call.overload, call.args, call.kwargs)
                for name in known:
                    calls.offer(name, args, sample.kwargs)


def by_type(kind: str, number: int, integers: bool) -> Any:
    """An argument of a schema's type, the `number`th of its call."""
    generator = torch.Generator().manual_seed(number)
    if kind.startswith("Optional") or kind.startswith("Device") or kind == "Generator":
        return None
    if kind == "Tensor":
        small = torch.randint(0, 3, (3, 4), generator=generator)
        return small if integers else torch.rand(3, 4, generator=generator) + 0.25
    return {"List[Tensor]": [torch.rand(3, 4), torch.rand(3, 4)], "number": 2, "int": 1, "float": 0.5,
            "bool": False, "str": "trunc", "List[int]": [3, 4], "complex": 1j}.get(kind)  # fmt: skip


def from_others(calls: Calls) -> None:
    """Overloads that no sample has reached, with the arguments of their relatives."""
    for name in table():
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


@cache
def sample_calls() -> dict[str, list[Call]]:
    """Calls that eager takes, by overload."""
    calls = Calls()
    torch.manual_seed(0)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from_op_db(calls)
        from_others(calls)
    return dict(calls.found)
