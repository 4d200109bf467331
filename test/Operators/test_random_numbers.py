# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random numbers: what a compiled call draws, and what it leaves to be drawn, is eager's.

The programs are made from the schemas of all random operators that the dispatcher has (not from a
list), each argument over values that include those for which an operator draws nothing, or draws and
throws away: probability 0 and 1, a deviation of 0, no elements, one number to choose from. Each program
goes on drawing afterwards; its results, the state of the generators and the numbers after the call have
to be eager's, bit for bit, on every call.

PYJIT_EXAMPLES: how many programs of each overload (4 by default, seeded).
"""

from __future__ import annotations

import itertools
import os
import random
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from pyjit._errors import CompileError
from torch.nn import functional

EXAMPLES = int(os.environ.get("PYJIT_EXAMPLES", "4"))
SCHEMAS = Path(__file__).parents[2] / "lib/Operators/Schemas.td"
CALLS = 4

# What is the dispatcher's own: other devices, parts of attention, arguments that a user has no name for.
INTERNAL = re.compile(
    r"_cudnn|_mps|miopen|_efficient|_flash|_fused|_triton|_scaled|_nested|_fill_mem|names|_like\.Tensor"
)
# Overloads no program of which is compiled, and why.
LEFT = {
    "a generator as an argument": re.compile(r"[._]generator"),
}


def overloads() -> Iterator[torch._C.FunctionSchema]:
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name.removeprefix("aten::")
        full = f"{name}.{schema.overload_name}"
        if not schema.name.startswith("aten::") or INTERNAL.search(full):
            continue
        if full.endswith("out") or any(a.is_out for a in schema.arguments):
            continue
        packet = getattr(torch.ops.aten, name, None)
        overload = getattr(packet, schema.overload_name or "default", None)
        draws = overload and torch.Tag.nondeterministic_seeded in overload.tags
        if draws and spelling(name):
            yield schema


def full_name(schema: torch._C.FunctionSchema) -> str:
    name = schema.name.removeprefix("aten::")
    return f"{name}.{schema.overload_name}" if schema.overload_name else name


def spelling(name: str) -> str:
    """How a program writes the operator; empty if it has no way to."""
    for module, text in ((torch, "torch"), (functional, "functional")):
        if callable(getattr(module, name, None)):
            return f"{text}.{name}"
    return f".{name}" if hasattr(torch.Tensor, name) else ""


TENSORS = [
    "draw(4, 9)",
    "draw(0, 3)",
    "draw()",
    "draw(40)",
    "draw(9, 4).t()",
    "draw(6, 8)[:, ::2]",
    "draw(4, 9, dtype=torch.float64)",
    "draw(4, 9, dtype=torch.bfloat16)",
    "torch.zeros(3, 5)",
    "torch.ones(20)",
]
FLOATS = {
    "p": ["0.0", "0.3", "1.0"],
    "mean": ["0.0", "2.0"],
    "std": ["0.0", "1.5"],
    "lambd": ["1.0", "0.25"],
    "median": ["0.0", "-1.0"],
    "sigma": ["1.0", "0.5"],
    "from": ["0.0", "-1.0"],
    "to": ["0.0", "1.0"],
    "dropout": ["0.0", "0.4", "1.0"],
    "dropout_p": ["0.0", "0.4", "1.0"],
    "lower": ["0.1", "0.25"],
    "upper": ["0.25", "0.5"],
}
INTS = {
    "n": ["0", "1", "7"],
    "high": ["1", "2", "9"],
    "low": ["0", "-4"],
    "from": ["0", "-3"],
    "to": ["1", "5"],
    "num_samples": ["1", "2"],
    "num_layers": ["1", "2"],
}
LIST = ["(3, 4)", "(0,)", "()", "(50,)"]
DTYPES = ["torch.float64", "torch.float32"]


def choices(schema: torch._C.FunctionSchema, argument: Any) -> list[str]:
    """Values of an argument as text; none where it is to be left out."""
    kind, name = str(argument.type), argument.name
    base = schema.name.removeprefix("aten::").rstrip("_")
    if kind == "Tensor" and name == "noise":
        return ["torch.zeros_like({self})"]
    if kind == "Tensor" and base == "binomial":
        return (
            ["torch.full((5,), 6.0)"]
            if name == "count"
            else ["torch.rand(5)", "torch.zeros(5)"]
        )
    if kind == "Tensor" and base == "normal":
        return ["draw(3, 5)", "torch.zeros(3, 5)", "draw(0, 5)"]
    if kind == "Tensor" and name == "p":
        return ["torch.zeros_like({self})", "torch.full_like({self}, 0.5)"]
    if kind == "Tensor" and name in ("query", "key", "value"):
        return ["draw(2, 2, 5, 8)"]
    if (
        kind == "Tensor"
        and name.startswith("input")
        and base.startswith(("feature", "native", "d", "a"))
    ):
        return [*TENSORS, "draw(2, 3, 4, 4)"]
    if kind == "Tensor":
        return TENSORS
    if kind == "float" or kind == "number":
        return FLOATS.get(name, [])
    if kind == "int" or kind == "Optional[int]" and name in INTS:
        return INTS.get(name, []) if name != "dtype" else []
    if kind == "List[int]":
        return LIST
    if kind == "bool":
        return ["True", "False"]
    if kind == "Optional[bool]" and name == "train":
        return ["True", "False", "None"]
    if kind == "Optional[Generator]":
        # The overload's whole point where it must be given.
        return ["generator"] if not argument.has_default_value() else ["", "generator"]
    if name == "dtype":
        return ["", *DTYPES]
    return []


# What is computed of what was drawn, by matmuls.
ROUNDS = re.compile(r"nn\.(LSTM|GRU|RNN)|scaled_dot")
RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")


def recurrent(name: str, pick: random.Random) -> tuple[list[str], str]:
    """A recurrent network: its arguments depend on one another."""
    cls = {"lstm": "LSTM", "gru": "GRU"}.get(name, "RNN")
    layers, dropout = pick.choice([1, 2]), pick.choice(["0.0", "0.5", "1.0"])
    more = f", nonlinearity={name.removeprefix('rnn_')!r}" if cls == "RNN" else ""
    train = pick.choice(["train", "eval"])
    made = f"torch.nn.{cls}(3, 4, {layers}, dropout={dropout}{more}).{train}()"
    return [f"net = {made}", "v = draw(5, 2, 3)"], "net(v)[0]"


def program(
    schema: torch._C.FunctionSchema, pick: random.Random
) -> tuple[list[str], str]:
    """Lines that make its arguments, and the call."""
    name = schema.name.removeprefix("aten::")
    if name in RECURRENT:
        return recurrent(name, pick)
    made, given, receiver = [], [], ""
    gap = False
    for argument in schema.arguments:
        values = choices(schema, argument)
        text = pick.choice(values) if values else ""
        if not text:
            gap = True
            continue
        if str(argument.type) == "Tensor":
            made.append(f"v{len(made)} = {text.format(self='v0')}")
            text = f"v{len(made) - 1}"
        if not given and spelling(name).startswith("."):
            receiver = text
            given.append("")
            continue
        given.append(f"{argument.name}={text}" if gap or argument.kwarg_only else text)
    call = f"{receiver}{spelling(name)}({', '.join(a for a in given if a)})"
    return made, call


def program_of(name: str, pick: random.Random, raises: bool) -> tuple[list[str], str]:
    """One that Python's binding takes (some overloads have none); `raises`: it may raise."""
    for _ in range(30):
        made, call = program(ALL[name], pick)
        scope: dict[str, Any] = dict(SCOPE)
        exec(source(FORMS[0], made, call), scope)
        first = outcome(scope["f"], made, 1, {})[0]
        if first is not TypeError and (raises or isinstance(first, torch.Tensor)):
            return made, call
    pytest.skip(f"no Python function takes the arguments of {name}")


# What surrounds a draw.
FORMS = [
    "a = {call}\nb = torch.rand(3)\nreturn a, b",
    "{call}\nreturn torch.rand(3)",
    "a = {call}\nb = {call}\nreturn a, b, torch.randn(2)",
    "with torch.random.fork_rng(devices=[]):\n    a = {call}\nreturn a, torch.rand(3)",
    "torch.manual_seed(7)\na = {call}\nreturn a, torch.rand(3)",
    "b = torch.rand(3) * 2\na = {call}\nreturn b + 1, a",
]


def source(form: str, made: list[str], call: str) -> str:
    names = ", ".join(line.split(" = ")[0] for line in made)
    if torch.get_default_device().type == "cuda":
        form = form.replace("devices=[]", "")  # those of all devices
    body = form.format(call=call).replace("\n", "\n    ")
    return f"def f({names}{', ' * bool(names)}generator):\n    {body}\n"


def draw(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Probabilities, the same on each call."""
    generator = torch.Generator("cpu").manual_seed(len(shape))
    numbers = torch.rand(shape, generator=generator, device="cpu")
    return numbers.to(torch.get_default_device(), dtype)


def states() -> list[torch.Tensor]:
    """Of the generators that are drawn from where none is named."""
    if torch.get_default_device().type == "cuda":
        return [torch.cuda.get_rng_state(), torch.get_rng_state()]
    return [torch.get_rng_state()]


SCOPE = {"torch": torch, "functional": functional, "draw": draw}


def arguments(made: list[str], seed: int) -> tuple[dict[str, Any], list[Any]]:
    torch.manual_seed(1)
    own = torch.Generator(torch.get_default_device()).manual_seed(seed)
    scope = dict(SCOPE, generator=own)
    for line in made:
        exec(line, scope)
    return scope, [scope[line.split(" = ")[0]] for line in made]


def outcome(f: Any, made: list[str], seed: int, keep: dict[int, Any]) -> list[Any]:
    """All that a call shows of what it drew."""
    if seed not in keep:
        keep[seed] = arguments(made, seed)
    scope, values = keep[seed]
    generator = scope["generator"].manual_seed(seed)
    # What is written in place starts anew.
    values = [v.clone() if isinstance(v, torch.Tensor) else v for v in values]
    torch.manual_seed(seed)
    try:
        result: Any = f(*values, generator)
    except CompileError:
        raise
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        result = (type(error),)
    result = result if isinstance(result, tuple) else (result,)
    flat = []
    for value in itertools.chain(result, values):
        flat.extend(value if isinstance(value, (tuple, list)) else [value])
    flat = [v.clone() if isinstance(v, torch.Tensor) else v for v in flat]
    return [*flat, *states(), generator.get_state(), torch.rand(4)]


def differs(want: Any, have: Any, rounds: bool = False) -> bool:
    """Whether two observations are not the same, bit for bit unless the call rounds."""
    if rounds and isinstance(want, torch.Tensor) and isinstance(have, torch.Tensor):
        return not torch.allclose(want, have, 1e-5, 1e-6, equal_nan=True)
    if isinstance(want, torch.Tensor) and isinstance(have, torch.Tensor):
        return want.dtype != have.dtype or not (
            want.shape == have.shape
            and torch.equal(*(t.nan_to_num(77) for t in (want, have)))
        )
    return isinstance(want, (type, torch.Tensor)) and want is not have


def compare(text: str, made: list[str]) -> tuple[bool, list[str]]:
    """Whether compiled code answered, and why not."""
    import pyjit

    scope = dict(SCOPE)
    exec(text, scope)
    f = scope["f"]
    compiled = pyjit.compile(f, options={"strict": True})
    ours: dict[int, Any] = {}
    theirs: dict[int, Any] = {}
    for call in range(CALLS):
        seed = 3 + call % 2
        want = outcome(f, made, seed, theirs)
        have = outcome(compiled, made, seed, ours)
        where = f"call {call} of\n{text}\n{made}"
        assert len(want) == len(have), f"{where}: {want[0]} became {have[0]}"
        for i, (a, b) in enumerate(zip(want, have, strict=True)):
            what = {len(want) - 1: "later numbers", len(want) - 3: "the state"}.get(
                i, i
            )
            rounds = what == i and ROUNDS.search(text + "".join(made)) is not None
            found = differs(a, b, rounds)
            assert not found, f"{where}: {what}: {a} became {b}"
    stats = pyjit.stats(compiled)
    answered = stats["hits"] + stats["continuation_hits"] > 0
    return answered, stats["reasons"] + stats["graph_break_sites"]


ALL = {full_name(schema): schema for schema in overloads()}


def test_the_table_is_covered() -> None:
    known = set(
        re.findall(r'Schema<"aten::([\w.]+)\([^"]*", "Random">', SCHEMAS.read_text())
    )
    # Attention's kernels are put in by the compiler, where eager takes them.
    known = {name for name in known if not INTERNAL.search(name)}
    # The functional forms that stand for in-place ones in tensor programs have no name in Python.
    nameless = {name for name in known if not spelling(name.split(".")[0])}
    assert known and known <= set(ALL) | nameless, known - set(ALL)
    assert all(f"{name}_" in ALL for name in nameless)


@pytest.mark.parametrize("name", sorted(ALL))
def test_draws(name: str) -> None:
    pick = random.Random(f"{name} {EXAMPLES}")
    answered, reasons = 0, []
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(EXAMPLES):
            made, call = program_of(name, pick, raises=i > 0)
            form = FORMS[0] if i == 0 else pick.choice(FORMS)
            hit, why = compare(source(form, made, call), made)
            answered += hit
            reasons += why
    left = next((why for why, names in LEFT.items() if names.search(name)), None)
    if left is None:
        assert answered, f"no program of {name} was compiled: {sorted(set(reasons))}"


def test_degenerate_bernoulli() -> None:
    """Probability 0 draws all the same."""
    for call in (
        "torch.bernoulli(v0, 0.0)",
        "v0.bernoulli_(0.0)",
        "torch.native_dropout(v0, 0.0, True)",
    ):
        answered, reasons = compare(
            source(FORMS[1], ["v0 = draw(4, 9)"], call), ["v0 = draw(4, 9)"]
        )
        assert answered, (call, reasons)
