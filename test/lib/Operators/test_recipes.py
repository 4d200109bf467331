# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every recipe of the operator table, evaluated, against eager PyTorch."""

from __future__ import annotations

import itertools
import random
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from Operators.eager_paths import DIFFERENCES, answers, base_name, differ

sys.path.insert(0, str(Path(__file__).parent))
from recipes import NAMES, evaluate, parse_recipes

ROOT = Path(__file__).resolve().parents[3]
FLOATS = [torch.float32, torch.float64, torch.bfloat16]
INTEGERS = [torch.int64, torch.uint8, torch.bool, torch.int32]
SHAPES = [[3, 4], [4], [3, 1], [], [2, 3, 4]]
# dtypes as a call's text has them
SCALAR_TYPES = {torch.float32: 6, torch.float64: 7, torch.bfloat16: 15, torch.int64: 4,
                torch.uint8: 0, torch.bool: 11, torch.int32: 3}  # fmt: skip
# Overloads that no call of this test reaches, and why.
NOT_REACHED = {
    "aten::to.device": "a device has no text in a call; pyjit's own calls of it are test_op_db's",
}


def recipe_overloads() -> list[str]:
    page = (ROOT / "docs/Operators.md").read_text()
    # "own kernel by rule" has no recipe.
    return re.findall(r"\| `([^`]+)` \| \w+ \| own kernel \|", page)


def tensor(shape: list[int], dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    if not dtype.is_floating_point:
        low = 0 if dtype == torch.uint8 else -9
        return torch.randint(low, 9, shape).to(dtype)
    value = torch.randn(shape, dtype=torch.float64) * 3
    special = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0, 1.0])
    if value.dim() and random.random() < 0.4:
        value.view(-1)[:3] = special[torch.randint(0, 6, [min(3, value.numel())])]
    return value.to(dtype)


class Skip(Exception):
    pass


def choose(name: str, kind: str, overload: str, dtype: torch.dtype) -> Any:
    """A value for one argument of a schema."""
    base = overload.split("::")[1].split(".")[0]
    if kind == "Tensor" or (kind == "Tensor?" and random.random() < 0.7):
        if name in ("condition", "mask"):
            return tensor(random.choice(SHAPES[:4]), torch.bool)
        if name == "input":
            return tensor([2, 3, 4], dtype)
        if base == "prelu" and name == "self":
            return tensor([2, 3, 4], dtype)
        if base in ("layer_norm", "rms_norm"):
            return tensor([3, 4], dtype)
        if base == "batch_norm" or (base == "prelu" and name == "weight"):
            return tensor([3], dtype).abs()
        if base == "masked_fill" and name == "value":
            return tensor([], dtype)
        shape = random.choice(SHAPES) if name == "self" else random.choice(SHAPES[:4])
        return tensor(shape, dtype)
    if kind.endswith("?") and kind != "Tensor?" and name != "eps":
        if name in ("memory_format", "layout", "device", "pin_memory", "dtype"):
            return None
        if random.random() < 0.4:
            return None
    plain = kind.rstrip("?")
    if name == "dim":
        values = [0, -1] if plain == "int" else [[0], [-1], []]
        return random.choice(values)
    if name == "rounding_mode":
        return random.choice(["trunc", "floor"])
    if name == "approximate":
        return random.choice(["none", "tanh"])
    if name == "reduction":
        return random.choice([0, 1, 2])
    if name == "normalized_shape":
        return [3, 4]
    if name == "size":
        return [2, 3]
    if name == "eps":
        return 1e-5
    if name == "exponent":
        return random.choice([2, 3, 0.5, -0.5, -1, -2, 1, 2.7])
    if name in ("ord", "p"):
        return random.choice([1, 2])
    if plain == "ScalarType":
        return random.choice(list(SCALAR_TYPES))
    if plain == "bool":
        return False if name in ("training", "half_to_float") else random.random() < 0.5
    if plain in ("int", "SymInt"):
        return random.choice([0, 1, 2])
    if plain == "float":
        return random.choice([0.5, 1.0, 0.1])
    if plain == "Scalar":
        if name in ("alpha", "value", "step", "start", "correction"):
            return random.choice([1, 2])
        if name in ("min", "max", "other", "self", "fill_value"):
            return random.choice([2, -1, 0.5, True])
        if name == "end":
            return 7
        return random.choice([0.5, 1.0, 2.0])
    raise Skip


def text_of(value: Any, operands: list[torch.Tensor]) -> str:
    if isinstance(value, torch.Tensor):
        operands.append(value)
        return f"%a{len(operands) - 1}"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value} : i64"
    if isinstance(value, float):
        return f"{value!r} : f64" if "e" not in repr(value) else f"{value:.17e} : f64"
    if isinstance(value, torch.dtype):
        return f"{SCALAR_TYPES[value]} : i64"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return "[" + ", ".join(text_of(item, operands) for item in value) + "]"
    raise Skip


def type_of(value: torch.Tensor) -> str:
    sizes = "".join(f"{size}x" for size in value.shape)
    return f"tensor<{sizes}{NAMES[value.dtype]}>"


@dataclass
class Call:
    text: str
    operands: list[torch.Tensor]
    expected: torch.Tensor
    # Eager's answer for other tensors.
    again: Callable[..., torch.Tensor]


def make_call(overload: str, dtypes: list[torch.dtype]) -> Call | None:
    base, _, suffix = overload.split("::")[1].partition(".")
    op = getattr(getattr(torch.ops.aten, base), suffix or "default")
    chosen = iter(itertools.cycle(dtypes))
    operands: list[torch.Tensor] = []
    try:
        values = [
            choose(a.name, schema_type(a), overload, next(chosen))
            for a in op._schema.arguments
        ]

        def again(*tensors: torch.Tensor) -> torch.Tensor:
            others = iter(tensors)
            given = [next(others) if isinstance(v, torch.Tensor) else v for v in values]
            pairs = list(zip(given, op._schema.arguments, strict=True))
            return op(
                *[v for v, a in pairs if not a.kwarg_only],
                **{a.name: v for v, a in pairs if a.kwarg_only},
            )

        expected = again(*(v for v in values if isinstance(v, torch.Tensor)))
        if not isinstance(expected, torch.Tensor) or expected.dtype not in NAMES:
            return None
        text = ", ".join(text_of(value, operands) for value in values)
    except (RuntimeError, IndexError, TypeError, ValueError, Skip):
        return None
    if any(operand.dtype not in NAMES for operand in operands):
        return None
    arguments = ", ".join(f"%a{i}: {type_of(t)}" for i, t in enumerate(operands))
    types = ", ".join(type_of(t) for t in operands)
    function = (
        f"func.func private @c({arguments}) {{\n"
        f'  %r = tssa.aten "{overload}"({text}) : ({types}) -> {type_of(expected)}\n'
        f"  return\n}}\n"
    )
    return Call(function, operands, expected, again)


def schema_type(argument: Any) -> str:
    text = str(argument.type)
    if text.startswith("Optional["):
        return text[len("Optional[") : -1].replace("number", "Scalar") + "?"
    real = str(argument.real_type)
    if real.startswith("Optional["):
        return real[len("Optional[") : -1] + "?"
    return {"number": "Scalar"}.get(text, real if real == "ScalarType" else text)


def tolerance(dtype: torch.dtype) -> dict[str, float]:
    if dtype == torch.bfloat16:
        return {"rtol": 2e-2, "atol": 2e-2}
    return (
        {"rtol": 1e-9, "atol": 1e-9}
        if dtype == torch.float64
        else {
            "rtol": 3e-5,
            "atol": 3e-5,
        }
    )


def check(overload: str, call: Call, actual: torch.Tensor) -> None:
    """Compares with eager, or where eager has two answers with the other one."""
    assert actual.dtype == call.expected.dtype
    actual = actual.reshape(call.expected.shape)
    expected = call.expected
    if base_name(overload) in DIFFERENCES:
        shapes = (operand.shape for operand in call.operands)
        # The others of the name (a tensor's largest element) have one path.
        if torch.broadcast_shapes(*shapes) == expected.shape:
            expected = nearest(call, actual)
    torch.testing.assert_close(
        actual,
        expected,
        equal_nan=True,
        check_stride=False,
        **tolerance(expected.dtype),
    )


def nearest(call: Call, actual: torch.Tensor) -> torch.Tensor:
    """Eager's results, with another one of its answers where that is the one in question."""
    actual, expected = (torch.atleast_1d(t.clone()) for t in (actual, call.expected))
    at = differ(actual, expected).nonzero(as_tuple=True)
    if not len(at[0]):
        return call.expected
    others = answers(
        lambda values: call.again(*values), call.operands, expected.shape, at
    )
    for answer in others:
        expected[at] = torch.where(
            differ(actual[at], answer), expected[at], answer.to(expected.dtype)
        )
    return expected.reshape(call.expected.shape)


def test_other_answer() -> None:
    """What eager says of an element alone is accepted, and nothing else."""
    x = torch.tensor([1.0, torch.inf])
    again = torch.ops.aten.gelu.default
    right, wrong = again(x), torch.tensor([1.0, 2.0])
    # The answer that eager does not give to both elements at once.
    other = torch.inf if right[1].isnan() else torch.nan
    call = Call("", [x], torch.where(x.isinf(), other, right), again)
    check("aten::gelu", call, torch.cat([again(one) for one in x.split(1)]))
    with pytest.raises(AssertionError):
        check("aten::gelu", call, wrong)
    with pytest.raises(AssertionError):
        check("aten::silu", call, right)


def test_recipes(bin_dir: Path) -> None:
    random.seed(0)
    torch.manual_seed(0)
    mixes = [[d] for d in FLOATS + INTEGERS]
    mixes += [list(pair) for pair in itertools.permutations(FLOATS + INTEGERS, 2)]
    calls = []
    overloads = recipe_overloads()
    assert len(overloads) > 150
    for overload in overloads:
        for mix in mixes:
            for _ in range(4 if len(mix) == 1 else 1):
                if call := make_call(overload, mix):
                    calls.append(call)
    module = "".join(call.text.replace("@c", f"@c{i}") for i, call in enumerate(calls))
    run = subprocess.run(
        [bin_dir / "pyjit-translate", "--tssa-to-recipes"],
        input=module,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[:2000]
    recipes = parse_recipes(run.stdout)
    assert len(recipes) == len(calls)
    seen, wrong = set(), []
    for (overload, steps), call in zip(recipes, calls, strict=True):
        if steps is None:
            continue
        seen.add(overload)
        try:
            check(overload, call, evaluate(steps, call.operands))
        except Exception as error:
            wrong.append(f"{call.text}{steps}\n{call.operands}\n{type(error)} {error}")
    names = sorted(set(re.findall(r'tssa.aten "(.*?)"', "".join(wrong))))
    assert not wrong, f"{len(wrong)} of {len(calls)} differ: {names}\n" + "\n\n".join(
        wrong[:5]
    )
    # What no call of this test reaches is not tested here.
    missing = set(overloads) - seen
    print(f"{len(calls)} calls, {len(seen)} of {len(overloads)} overloads")
    for name in sorted(missing):
        print(f"  not reached: {name}: {NOT_REACHED.get(name, 'no reason is listed')}")
    assert missing == NOT_REACHED.keys()
