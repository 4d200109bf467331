# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A Python value that the program reads changes between two calls."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import sys

import torch
from Integration.harness import Compile, Steps, attempt, module_of, scenario, values


@scenario
def test_int_argument(compile: Compile) -> Steps:
    f = compile(lambda x, n: x * n)
    for n in (2, 2, 3, 2, 10**6, -1, 0):
        yield f(values(4), n)


@scenario
def test_float_argument(compile: Compile) -> Steps:
    f = compile(lambda x, n: x * n)
    for n in (2.0, 2.0, 2.5, float("nan"), float("nan"), float("inf")):
        yield f(values(4), n)


@scenario
def test_negative_zero(compile: Compile) -> Steps:
    """0.0 == -0.0, yet they are different factors."""
    f = compile(lambda x, n: x * n)
    for n in (0.0, 0.0, -0.0, 0.0):
        out = f(values(4).abs(), n)
        yield torch.signbit(out)


@scenario
def test_equal_values_of_other_types(compile: Compile) -> Steps:
    """1, 1.0 and True are equal and hash alike, and promote differently."""
    f = compile(lambda x, n: x + n)
    x = values(4, dtype=torch.int64)
    for n in (1, 1, 1.0, True, 1, False, 0):
        yield f(x, n)


@scenario
def test_int_beyond_64_bits(compile: Compile) -> Steps:
    f = compile(lambda x, n: x * (n % 7))
    for n in (3, 3, 2**70, 2**70 + 1, -(2**65)):
        yield f(values(4), n)


@scenario
def test_string(compile: Compile) -> Steps:
    f = compile(lambda x, mode: getattr(torch, mode)(x))
    for mode in ("relu", "relu", "tanh", "re" + "lu", "sigmoid"):
        yield f(values(4), mode)


@scenario
def test_none_or_tensor(compile: Compile) -> Steps:
    f = compile(lambda x, y: x * 2 if y is None else x * y)
    yield f(values(4), None)
    yield f(values(4), None)
    yield f(values(4), values(4, seed=1))
    yield f(values(4), None)


@scenario
def test_enum(compile: Compile) -> Steps:
    class Mode(enum.Enum):
        A = 1
        B = 2

    f = compile(lambda x, m: x + 1 if m is Mode.A else x - 1)
    for m in (Mode.A, Mode.A, Mode.B, Mode.A):
        yield f(values(4), m)


@scenario
def test_dtype_as_argument(compile: Compile) -> Steps:
    f = compile(lambda x, d: x.to(d) + 1)
    for d in (torch.float64, torch.float64, torch.float16, torch.int32, torch.float32):
        yield f(values(4) * 3, d)


@scenario
def test_slice_argument(compile: Compile) -> Steps:
    f = compile(lambda x, s: x[s] * 2)
    for s in (slice(0, 3), slice(0, 3), slice(1, 3), slice(None, None, 2), 2):
        yield f(values(6), s)


@scenario
def test_default_argument_given(compile: Compile) -> Steps:
    def g(x: torch.Tensor, scale: float = 2.0, *, shift: float = 1.0) -> torch.Tensor:
        return x * scale + shift

    f = compile(g)
    yield f(values(4))
    yield f(values(4))
    yield f(values(4), 3.0)
    yield f(values(4), shift=5.0)
    yield f(scale=4.0, x=values(4))
    yield attempt(f)


@scenario
def test_defaults_replaced(compile: Compile) -> Steps:
    def g(x: torch.Tensor, scale: float = 2.0, *, shift: float = 1.0) -> torch.Tensor:
        return x * scale + shift

    f = compile(g)
    yield f(values(4))
    yield f(values(4))
    g.__defaults__ = (3.0,)
    yield f(values(4))
    g.__kwdefaults__ = {"shift": 7.0}
    yield f(values(4))
    g.__kwdefaults__["shift"] = 9.0
    yield f(values(4))


@scenario
def test_mutable_default(compile: Compile) -> Steps:
    def g(x: torch.Tensor, history: list[float] = [1.0]) -> torch.Tensor:  # noqa: B006
        return x * sum(history)

    f = compile(g)
    yield f(values(4))
    yield f(values(4))
    g.__defaults__[0].append(2.0)  # type: ignore[index]
    yield f(values(4))


@scenario
def test_star_arguments(compile: Compile) -> Steps:
    def g(*args: torch.Tensor, **kwargs: float) -> torch.Tensor:
        total = args[0] * 0
        for i, a in enumerate(args):
            total = total + a * (i + 1)
        for i, (_, v) in enumerate(kwargs.items()):
            total = total + v * (i + 1)
        return total

    f = compile(g)
    a, b = values(4), values(4, seed=1)
    yield f(a, b, p=1.0, q=2.0)
    yield f(a, b, p=1.0, q=2.0)
    yield f(a, b, q=2.0, p=1.0)
    yield f(a, b, a, p=1.0, q=2.0)
    yield f(a, b, p=1.0)
    yield f(a, b)
    yield attempt(f)


@scenario
def test_list_length_and_order(compile: Compile) -> Steps:
    f = compile(lambda xs: sum(x * (i + 1) for i, x in enumerate(xs)) + len(xs))
    a, b, c = values(4), values(4, seed=1), values(4, seed=2)
    xs = [a, b]
    yield f(xs)
    yield f(xs)
    xs.append(c)
    yield f(xs)
    xs.reverse()
    yield f(xs)
    del xs[0]
    yield f(xs)


@scenario
def test_list_or_tuple(compile: Compile) -> Steps:
    f = compile(lambda xs: xs[0] + 1 if isinstance(xs, list) else xs[0] - 1)
    a = values(4)
    yield f([a])
    yield f([a])
    yield f((a,))


@scenario
def test_nested_container(compile: Compile) -> Steps:
    f = compile(lambda d: d["a"][0]["b"] * d["a"][1])
    d = {"a": [{"b": values(4)}, 2.0]}
    yield f(d)
    yield f(d)
    d["a"][1] = 3.0  # type: ignore[index]
    yield f(d)
    d["a"][0]["b"] = values(4, seed=3)  # type: ignore[index]
    yield f(d)
    d["a"] = [{"b": values(2)}, 4.0]
    yield f(d)


@scenario
def test_dict_keys_and_order(compile: Compile) -> Steps:
    def g(d: dict[str, torch.Tensor]) -> torch.Tensor:
        out = torch.zeros(4)
        for key, value in d.items():
            out = out * 2 + value * len(key)
        return out

    f = compile(g)
    a, b = values(4), values(4, seed=1)
    yield f({"x": a, "yy": b})
    yield f({"x": a, "yy": b})
    yield f({"yy": b, "x": a})
    yield f({"x": a, "yy": b, "z": b})
    yield f({"x": a})
    yield f({})


@scenario
def test_dict_membership(compile: Compile) -> Steps:
    f = compile(lambda x, d: x + 1 if "scale" in d else x - 1)
    d: dict[str, int] = {}
    yield f(values(4), d)
    yield f(values(4), d)
    d["scale"] = 1
    yield f(values(4), d)
    d["other"] = 1
    yield f(values(4), d)
    del d["scale"]
    yield f(values(4), d)


@scenario
def test_dict_get_default(compile: Compile) -> Steps:
    f = compile(lambda x, d: x * d.get("scale", 5))
    d = {"scale": 2}
    yield f(values(4), d)
    yield f(values(4), d)
    d["scale"] = 3
    yield f(values(4), d)
    d.clear()
    yield f(values(4), d)


@scenario
def test_dict_equal_keys_of_other_types(compile: Compile) -> Steps:
    f = compile(lambda x, d: x * (2 if type(next(iter(d))) is int else 3))
    yield f(values(4), {1: 0})
    yield f(values(4), {1: 0})
    yield f(values(4), {1.0: 0})
    yield f(values(4), {True: 0})


@scenario
def test_dict_subclass(compile: Compile) -> Steps:
    class Doubled(dict):  # type: ignore[type-arg]
        def __getitem__(self, key: str) -> float:
            return 2 * super().__getitem__(key)

    f = compile(lambda x, d: x * d["s"])
    yield f(values(4), {"s": 3.0})
    yield f(values(4), {"s": 3.0})
    yield f(values(4), Doubled(s=3.0))
    yield f(values(4), collections.OrderedDict(s=4.0))
    yield f(values(4), collections.defaultdict(float))


@scenario
def test_set_membership(compile: Compile) -> Steps:
    f = compile(lambda x, s: x + 1 if 3 in s else x - 1)
    s = {3, 4}
    yield f(values(4), s)
    yield f(values(4), s)
    s.discard(3)
    yield f(values(4), s)


@scenario
def test_truth_of_container(compile: Compile) -> Steps:
    f = compile(lambda x, xs: x + 1 if xs else x - 1)
    yield f(values(4), [1])
    yield f(values(4), [2])
    yield f(values(4), [])
    yield f(values(4), {})
    yield f(values(4), "")
    yield f(values(4), 0)
    yield f(values(4), None)


@scenario
def test_namedtuple(compile: Compile) -> Steps:
    Pair = collections.namedtuple("Pair", "a b")
    f = compile(lambda p: p.a * 2 + p.b)
    a, b = values(4), values(4, seed=1)
    yield f(Pair(a, b))
    yield f(Pair(a, b))
    yield f(Pair(b, a))
    yield f(Pair(a, 3.0))
    yield attempt(f, (a, b))


@scenario
def test_dataclass(compile: Compile) -> Steps:
    @dataclasses.dataclass
    class Config:
        scale: float
        bias: torch.Tensor | None = None

    def g(x: torch.Tensor, c: Config) -> torch.Tensor:
        out = x * c.scale
        return out if c.bias is None else out + c.bias

    f = compile(g)
    c = Config(2.0)
    yield f(values(4), c)
    yield f(values(4), c)
    c.scale = 3.0
    yield f(values(4), c)
    c.bias = values(4, seed=1)
    yield f(values(4), c)
    yield f(values(4), Config(2.0))


@scenario
def test_frozen_dataclass_equality(compile: Compile) -> Steps:
    @dataclasses.dataclass(frozen=True)
    class Key:
        n: int

    f = compile(lambda x, k: x * 2 if k == Key(1) else x * 3)
    yield f(values(4), Key(1))
    yield f(values(4), Key(1))
    yield f(values(4), Key(2))


@scenario
def test_global_scalar(compile: Compile) -> Steps:
    m = module_of("SCALE = 2\ndef g(x):\n    return x * SCALE\n")
    f = compile(m.g)
    yield f(values(4))
    yield f(values(4))
    m.SCALE = 3
    yield f(values(4))
    m.SCALE = 2
    yield f(values(4))
    del m.SCALE
    yield attempt(f, values(4))
    m.SCALE = 4.5
    yield f(values(4))


@scenario
def test_global_tensor(compile: Compile) -> Steps:
    m = module_of("def g(x):\n    return x * W\n")
    m.W = values(4, seed=1)
    f = compile(m.g)
    yield f(values(4))
    yield f(values(4))
    m.W = values(4, seed=2)
    yield f(values(4))
    m.W.fill_(5)
    yield f(values(4))
    m.W = values(3, 4, seed=2)
    yield f(values(4))


@scenario
def test_global_function_replaced(compile: Compile) -> Steps:
    m = module_of("def h(x):\n    return x + 1\ndef g(x):\n    return h(x) * 2\n")
    f = compile(m.g)
    yield f(values(4))
    yield f(values(4))
    m.h = lambda x: x - 1
    yield f(values(4))
    m.h = torch.relu
    yield f(values(4))


@scenario
def test_global_in_inlined_callee(compile: Compile) -> Steps:
    inner = module_of("K = 2\ndef h(x):\n    return x * K\n")
    outer = module_of(
        "def mid(x):\n    return h(x) + 1\ndef g(x):\n    return mid(x)\n"
    )
    outer.h = inner.h
    f = compile(outer.g)
    yield f(values(4))
    yield f(values(4))
    inner.K = 5
    yield f(values(4))


@scenario
def test_module_attribute_in_callee(compile: Compile) -> Steps:
    lib = module_of("K = 2\n")
    m = module_of("def h(x):\n    return x * lib.K\ndef g(x):\n    return h(x)\n")
    m.lib = lib
    f = compile(m.g)
    yield f(values(4))
    yield f(values(4))
    lib.K = 3
    yield f(values(4))
    m.lib = module_of("K = 9\n")
    yield f(values(4))


@scenario
def test_builtin_shadowed_by_global(compile: Compile) -> Steps:
    m = module_of("def g(x):\n    return x * len([1, 2, 3]) + abs(-2)\n")
    f = compile(m.g)
    yield f(values(4))
    yield f(values(4))
    m.len = lambda _: 10
    yield f(values(4))
    del m.len
    yield f(values(4))
    m.abs = lambda _: 100
    yield f(values(4))


@scenario
def test_builtin_replaced(compile: Compile) -> Steps:
    import builtins

    m = module_of("def g(x):\n    return x * max(2, 3)\n")
    f = compile(m.g)
    yield f(values(4))
    yield f(values(4))
    original = builtins.max
    builtins.max = min  # type: ignore[assignment]
    try:
        out = f(values(4))
    finally:
        builtins.max = original
    yield out
    yield f(values(4))


@scenario
def test_global_list_mutated(compile: Compile) -> Steps:
    m = module_of("FACTORS = [2, 3]\ndef g(x):\n    return x * FACTORS[-1]\n")
    f = compile(m.g)
    yield f(values(4))
    yield f(values(4))
    m.FACTORS[1] = 5
    yield f(values(4))
    m.FACTORS.append(7)
    yield f(values(4))


@scenario
def test_closure_cell(compile: Compile) -> Steps:
    scale = 2.0

    def g(x: torch.Tensor) -> torch.Tensor:
        return x * scale

    f = compile(g)
    yield f(values(4))
    yield f(values(4))
    scale = 3.0
    yield f(values(4))


@scenario
def test_closure_cell_of_callee(compile: Compile) -> Steps:
    scale = 2.0

    def h(x: torch.Tensor) -> torch.Tensor:
        return x * scale

    def g(x: torch.Tensor) -> torch.Tensor:
        return h(h(x))

    f = compile(g)
    yield f(values(4))
    yield f(values(4))
    scale = 3.0
    yield f(values(4))


@scenario
def test_closure_tensor(compile: Compile) -> Steps:
    w = values(4, seed=1)

    def g(x: torch.Tensor) -> torch.Tensor:
        return x * w

    f = compile(g)
    yield f(values(4))
    yield f(values(4))
    w.mul_(2)
    yield f(values(4))
    w = values(4, seed=2)
    yield f(values(4))
    w = values(1, seed=2)
    yield f(values(4))


@scenario
def test_code_replaced(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def other(x: torch.Tensor) -> torch.Tensor:
        return x - 1

    f = compile(g)
    yield f(values(4))
    yield f(values(4))
    g.__code__ = other.__code__
    yield f(values(4))


@scenario
def test_code_of_callee_replaced(compile: Compile) -> Steps:
    def h(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def other(x: torch.Tensor) -> torch.Tensor:
        return x - 1

    def g(x: torch.Tensor) -> torch.Tensor:
        return h(x) * 2

    f = compile(g)
    yield f(values(4))
    yield f(values(4))
    h.__code__ = other.__code__
    yield f(values(4))


@scenario
def test_callee_defaults_replaced(compile: Compile) -> Steps:
    def h(x: torch.Tensor, k: float = 2.0) -> torch.Tensor:
        return x * k

    def g(x: torch.Tensor) -> torch.Tensor:
        return h(x) + 1

    f = compile(g)
    yield f(values(4))
    yield f(values(4))
    h.__defaults__ = (4.0,)
    yield f(values(4))


@scenario
def test_function_as_argument(compile: Compile) -> Steps:
    f = compile(lambda x, h: h(x) + 1)
    yield f(values(4), torch.relu)
    yield f(values(4), torch.relu)
    yield f(values(4), torch.tanh)
    yield f(values(4), lambda x: x * 3)
    yield f(values(4), lambda x: x * 4)


@scenario
def test_same_code_other_closure(compile: Compile) -> Steps:
    def maker(k: float):  # type: ignore[no-untyped-def]
        return lambda x: x * k

    f = compile(lambda x, h: h(x))
    two, three = maker(2.0), maker(3.0)
    yield f(values(4), two)
    yield f(values(4), two)
    yield f(values(4), three)


@scenario
def test_partial(compile: Compile) -> Steps:
    def h(x: torch.Tensor, k: float) -> torch.Tensor:
        return x * k

    f = compile(lambda x, p: p(x))
    yield f(values(4), functools.partial(h, k=2.0))
    yield f(values(4), functools.partial(h, k=2.0))
    yield f(values(4), functools.partial(h, k=3.0))


@scenario
def test_compiled_partial(compile: Compile) -> Steps:
    def h(x: torch.Tensor, k: float) -> torch.Tensor:
        return x * k

    f = compile(functools.partial(h, k=2.0))
    yield f(values(4))
    yield f(values(4))
    yield f(values(4), k=5.0)


@scenario
def test_imported_module_replaced(compile: Compile) -> Steps:
    lib = module_of("def scale(x):\n    return x * 2\n")
    sys.modules["scenario_lib"] = lib
    m = module_of(
        "def g(x):\n    import scenario_lib\n    return scenario_lib.scale(x)\n"
    )
    f = compile(m.g)
    yield f(values(4))
    yield f(values(4))
    sys.modules["scenario_lib"] = module_of("def scale(x):\n    return x * 3\n")
    yield f(values(4))
    del sys.modules["scenario_lib"]
    yield attempt(f, values(4))


@scenario
def test_torch_function_monkeypatched(compile: Compile) -> Steps:
    m = module_of(
        "import torch.nn.functional as F\ndef g(x):\n    return F.silu(x) + 1\n"
    )
    f = compile(m.g)
    yield f(values(4))
    yield f(values(4))
    original = torch.nn.functional.silu
    torch.nn.functional.silu = lambda x, inplace=False: x * 100
    try:
        out = f(values(4))
    finally:
        torch.nn.functional.silu = original
    yield out
    yield f(values(4))
