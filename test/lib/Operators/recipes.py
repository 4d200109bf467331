# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Evaluates recipes, as `pyjit-translate --tssa-to-recipes` prints them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

DTYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i1": torch.bool,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "ui8": torch.uint8,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def cast(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return value != 0 if dtype == torch.bool else value.to(dtype)


OPS: dict[str, Callable[..., torch.Tensor]] = {
    "Add": lambda a, b: a | b if a.dtype == torch.bool else a + b,
    "Sub": torch.sub,
    "Mul": lambda a, b: a & b if a.dtype == torch.bool else a * b,
    "Div": lambda a, b: a / b,
    "TruncDiv": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "FloorDiv": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "Remainder": torch.remainder,
    "Fmod": torch.fmod,
    "Pow": torch.pow,
    "Maximum": torch.maximum,
    "Minimum": torch.minimum,
    "ClampMin": lambda a, b: torch.where(a < b, b, a),
    "ClampMax": lambda a, b: torch.where(a > b, b, a),
    "Fma": lambda a, b, c: torch.addcmul(c, a, b),
    "Fmax": torch.fmax,
    "Fmin": torch.fmin,
    "Atan2": torch.atan2,
    "Hypot": torch.hypot,
    "Copysign": torch.copysign,
    "Neg": torch.neg,
    "Abs": torch.abs,
    "Sign": torch.sign,
    "Reciprocal": lambda a: 1 / a,
    "BitAnd": torch.bitwise_and,
    "BitOr": torch.bitwise_or,
    "BitXor": torch.bitwise_xor,
    "BitNot": torch.bitwise_not,
    "Shl": torch.bitwise_left_shift,
    "Shr": torch.bitwise_right_shift,
    "IsNan": torch.isnan,
    "IsInf": torch.isinf,
    "SignBit": torch.signbit,
    "Select": torch.where,
}
for _name in [
    "Floor",
    "Ceil",
    "Trunc",
    "Round",
    "Sqrt",
    "Rsqrt",
    "Exp",
    "Exp2",
    "Expm1",
    "Log",
    "Log2",
    "Log10",
    "Log1p",
    "Sin",
    "Cos",
    "Tan",
    "Asin",
    "Acos",
    "Atan",
    "Sinh",
    "Cosh",
    "Tanh",
    "Asinh",
    "Acosh",
    "Atanh",
    "Erf",
    "Erfc",
    "Sigmoid",
    "Eq",
    "Ne",
    "Lt",
    "Le",
    "Gt",
    "Ge",
]:
    OPS[_name] = getattr(torch, _name.lower())


@dataclass
class Step:
    shape: list[int]
    expression: str
    combine: str = ""
    dims: list[int] = field(default_factory=list)
    init: str = ""
    inputs: list[tuple[str, int, str]] = field(default_factory=list)


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part.strip()]


def parse_recipes(text: str) -> list[tuple[str, list[Step] | None]]:
    """(overload, steps or None for a vendor call) of each call."""
    calls: list[tuple[str, list[Step] | None]] = []
    for line in text.splitlines():
        if match := re.match(r"call \d+ (\S+)( library)?$", line):
            calls.append((match[1], None if match[2] else []))
        elif match := re.match(
            r"step \d+ \[(.*?)\](?: (\w+) over \[(.*?)\] from (\S+)(?: : \w+)?)?: (\w+\d*:.*)$",
            line,
        ):
            step = Step(numbers(match[1]), match[5])
            if match[2]:
                step.combine, step.init = match[2], match[4]
                step.dims = numbers(match[3])
            steps = calls[-1][1]
            assert steps is not None
            steps.append(step)
        elif match := re.match(r"  \d+ = (operand|step) (\d+) (.*)$", line):
            steps = calls[-1][1]
            assert steps is not None
            steps[-1].inputs.append((match[1], int(match[2]), match[3]))
        else:
            raise ValueError(line)
    return calls


def index_grid(shape: list[int]) -> list[torch.Tensor]:
    rank = len(shape)
    return [
        torch.arange(size).reshape([-1 if j == i else 1 for j in range(rank)])
        for i, size in enumerate(shape)
    ]


def apply_map(text: str, shape: list[int]) -> list[torch.Tensor]:
    """The index tensors that an affine map gives over an iteration space."""
    dims, results = text.split("->", 1)
    names = [name.strip() for name in dims.strip(" ()").split(",") if name.strip()]
    scope = dict(zip(names, index_grid(shape), strict=True))
    code = results.strip()[1:-1].replace("floordiv", "//").replace("mod", "%")
    values = eval(f"[{code}]", {}, scope)
    return [torch.as_tensor(value).expand(shape) for value in values]


class Evaluator:
    """One step's expression, over the whole iteration space at once."""

    def __init__(self, step: Step, inputs: list[torch.Tensor]) -> None:
        self.step, self.inputs, self.text, self.at = step, inputs, step.expression, 0

    def run(self) -> torch.Tensor:
        value = self.node()
        assert self.at == len(self.text), self.text[self.at :]
        return value.expand(self.step.shape)

    def node(self) -> torch.Tensor:
        match = re.compile(r"([A-Za-z]\w*?[a-z])(\d+)?:(\w+)").match(self.text, self.at)
        # Names may end in digits (Log2, Atan2); leaves carry a number.
        if not match or (match[1] not in OPS and match[1] not in LEAVES):
            match = re.compile(r"(\w+)():(\w+)").match(self.text, self.at)
        assert match, self.text[self.at :]
        name, number, dtype = match[1], match[2], DTYPES[match[3]]
        if name not in LEAVES and number:
            name += number
        self.at = match.end()
        if name == "Const":
            end = self.text.index(")", self.at)
            literal = self.text[self.at + 1 : end]
            self.at = end + 1
            return constant(literal, dtype)
        if name == "Input":
            value = self.inputs[int(number)]
            assert value.dtype == dtype
            return value
        if name == "Index":
            return index_grid(self.step.shape)[int(number)]
        children = []
        while self.text[self.at] in "(,":
            self.at += 1 if self.text[self.at] == "(" else 2
            children.append(self.node())
        assert self.text[self.at] == ")"
        self.at += 1
        if name == "Cast":
            return cast(children[0], dtype)
        value = OPS[name](*children)
        assert value.dtype == dtype, (name, value.dtype, dtype)
        return value


LEAVES = {"Const", "Input", "Index", "Cast"}


def constant(literal: str, dtype: torch.dtype) -> torch.Tensor:
    if literal in ("true", "false"):
        return torch.tensor(literal == "true")
    if literal.startswith("0x"):
        bits = {torch.float32: torch.int32, torch.float64: torch.int64}[dtype]
        width = 32 if bits == torch.int32 else 64
        number = int(literal, 16)
        number -= (number >> (width - 1)) << width
        return torch.tensor(number, dtype=bits).view(dtype)
    value = float(literal) if dtype.is_floating_point else int(literal)
    if dtype == torch.uint8:
        assert isinstance(value, int)
        value %= 256
    return torch.tensor(value, dtype=dtype)


REDUCERS: dict[str, Callable[[torch.Tensor, list[int]], torch.Tensor]] = {
    "Add": lambda x, dims: x.sum(dims, dtype=x.dtype) if dims else x,
    "Maximum": lambda x, dims: x.amax(dims) if dims else x,
    "Minimum": lambda x, dims: x.amin(dims) if dims else x,
    "BitOr": lambda x, dims: x.any(dims) if dims else x,
    "BitAnd": lambda x, dims: x.all(dims) if dims else x,
}


def reduce(step: Step, value: torch.Tensor) -> torch.Tensor:
    if step.combine == "Mul":
        for dim in reversed(step.dims):
            value = value.prod(dim, dtype=value.dtype)
        return value
    return REDUCERS[step.combine](value, step.dims)


def evaluate(steps: list[Step], operands: list[torch.Tensor]) -> torch.Tensor:
    results: list[torch.Tensor] = []
    for step in steps:
        inputs = []
        for kind, number, index_map in step.inputs:
            source = operands[number] if kind == "operand" else results[number]
            index = apply_map(index_map, step.shape)
            inputs.append(source[tuple(index)] if index else source.expand(step.shape))
        value = Evaluator(step, inputs).run()
        results.append(reduce(step, value) if step.combine else value)
    return results[-1]
