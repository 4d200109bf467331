"""Every recipe of the operator table, evaluated, against eager PyTorch."""

from __future__ import annotations

import itertools
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from recipes import NAMES, evaluate, parse_recipes

ROOT = Path(__file__).resolve().parents[3]
FLOATS = [torch.float32, torch.float64, torch.bfloat16]
INTEGERS = [torch.int64, torch.uint8, torch.bool, torch.int32]
SHAPES = [[3, 4], [4], [3, 1], [], [2, 3, 4]]


def recipe_overloads() -> list[str]:
    page = (ROOT / "docs/Operators.md").read_text()
    return re.findall(r"\| `([^`]+)` \| \w+ \| own kernel", page)


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
    if name == "dtype" or plain == "ScalarType":
        raise Skip
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
    if name == "dtype":
        return None
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
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return "[" + ", ".join(text_of(item, operands) for item in value) + "]"
    raise Skip


def type_of(value: torch.Tensor) -> str:
    sizes = "".join(f"{size}x" for size in value.shape)
    return f"tensor<{sizes}{NAMES[value.dtype]}>"


def make_call(
    overload: str, dtypes: list[torch.dtype]
) -> tuple[str, list[torch.Tensor], torch.Tensor] | None:
    base, _, suffix = overload.split("::")[1].partition(".")
    op = getattr(getattr(torch.ops.aten, base), suffix or "default")
    chosen = iter(itertools.cycle(dtypes))
    operands: list[torch.Tensor] = []
    try:
        values = [
            choose(a.name, schema_type(a), overload, next(chosen))
            for a in op._schema.arguments
        ]
        expected = op(
            *[v for v, a in zip(values, op._schema.arguments) if not a.kwarg_only],
            **{a.name: v for v, a in zip(values, op._schema.arguments) if a.kwarg_only},
        )
        if not isinstance(expected, torch.Tensor) or expected.dtype not in NAMES:
            return None
        text = ", ".join(text_of(value, operands) for value in values)
    except (RuntimeError, IndexError, TypeError, ValueError, Skip):
        return None
    if any(operand.dtype not in NAMES for operand in operands):
        return None
    arguments = ", ".join(f"%a{i}: {type_of(t)}" for i, t in enumerate(operands))
    types = ", ".join(type_of(t) for t in operands)
    return (
        (
            f"func.func private @c({arguments}) {{\n"
            f'  %r = tssa.aten "{overload}"({text}) : ({types}) -> {type_of(expected)}\n'
            f"  return\n}}\n"
        ),
        operands,
        expected,
    )


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
    module = "".join(
        text.replace("@c", f"@c{i}") for i, (text, _, _) in enumerate(calls)
    )
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
    for (overload, steps), (text, operands, expected) in zip(recipes, calls):
        if steps is None:
            continue
        seen.add(overload)
        try:
            actual = evaluate(steps, operands)
            assert actual.dtype == expected.dtype
            torch.testing.assert_close(
                actual.reshape(expected.shape),
                expected,
                equal_nan=True,
                check_stride=False,
                **tolerance(expected.dtype),
            )
        except Exception as error:
            wrong.append(f"{text}{steps}\n{operands}\n{type(error)} {error}")
    names = sorted(set(re.findall(r'tssa.aten "(.*?)"', "".join(wrong))))
    assert not wrong, f"{len(wrong)} of {len(calls)} differ: {names}\n" + "\n\n".join(
        wrong[:5]
    )
    # What no call of this test reaches is not tested here.
    missing = sorted(set(overloads) - seen)
    print(f"{len(calls)} calls, {len(seen)} overloads, not reached: {missing}")
    assert len(missing) < 40, missing
