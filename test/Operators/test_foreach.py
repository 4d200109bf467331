# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every operator on lists of tensors, recorded tensor by tensor, compared with eager."""

import pyjit
import pytest
import torch

SHAPES = [(3, 5), (7,), (), (2, 3, 4)]
# Their Python functions have overloads that the schemas list; the other names are the dispatcher's alone.
OVERLOADS = sorted(
    {
        (schema.name.removeprefix("aten::"), schema.overload_name): schema
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("aten::_foreach_")
        and not schema.overload_name.endswith("out")
        and hasattr(torch, schema.name.removeprefix("aten::"))
    }.items()
)
# Their numbers are a tensor's, which no guard reads.
BY_DATA = {
    ("_foreach_addcdiv", "Tensor"),
    ("_foreach_addcdiv_", "Tensor"),
    ("_foreach_addcmul", "Tensor"),
    ("_foreach_addcmul_", "Tensor"),
}
# Of norms: each is another operator.
ORDERS = [2.0, 1.0, float("inf"), 3.0]
TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64]


def tensors(dtype, seed):
    torch.manual_seed(seed)
    return [
        torch.randint(1, 5, shape)
        if dtype == torch.int64
        else (torch.rand(shape, dtype=torch.float64) + 0.25).to(dtype)
        for shape in SHAPES
    ]


def arguments(schema, dtype, seed):
    """By position, then by keyword."""
    positional, keywords = [], {}
    # Products with powers of two are exact in half precision, however they are added.
    number = 0.5 * 2**seed if dtype.is_floating_point else 2 + seed
    for i, argument in enumerate(schema.arguments):
        kind = str(argument.type)
        if argument.has_default_value() and kind != "number":
            continue
        if kind == "List[Tensor]":
            value = tensors(dtype, 10 * i + seed)
        elif kind == "Tensor":
            value = torch.rand(4 if argument.name == "scalars" else ()).to(dtype)
            value = value.double() if argument.name == "scalars" else value
        else:
            assert kind in ("number", "List[number]"), kind
            is_order = argument.name == "ord"
            value = ORDERS[seed % len(ORDERS)] if is_order else number
        if argument.kwarg_only:
            keywords[argument.name] = value
        else:
            positional.append(value)
    return positional, keywords


def has_order(schema):
    return any(argument.name == "ord" for argument in schema.arguments)


def caller(function, schema):
    """With each argument written out, for numbers that go through `*` keep their values. Lists of numbers are made of
    one number."""
    positional, keywords = arguments(schema, torch.float32, 0)
    parts = [
        f"[p[{i}] + k for k in range({len(SHAPES)})]"
        if str(schema.arguments[i].type) == "List[number]"
        else f"p[{i}]"
        for i in range(len(positional))
    ]
    parts += [f"{name}=k[{name!r}]" for name in keywords]
    return eval(f"lambda p, k: function({', '.join(parts)})", {"function": function})


def run(call, positional, keywords):
    """What comes back, and what is left in the first list."""
    try:
        returned = call(positional, keywords)
    except RuntimeError as error:
        return str(error)
    return [
        *(returned or ()),
        *(positional[0] if isinstance(positional[0], list) else ()),
    ]


def assert_same(found, expected):
    assert type(found) is type(expected), (found, expected)
    if isinstance(expected, str):
        return
    assert len(found) == len(expected)
    for ours, eagers in zip(found, expected):
        torch.testing.assert_close(ours, eagers, equal_nan=True)
        assert ours._version == eagers._version
        assert ours.stride() == eagers.stride()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("key", [key for key, _ in OVERLOADS], ids=".".join)
def test_overload(key, dtype):
    schema = dict(OVERLOADS)[key]
    call = caller(getattr(torch, key[0]), schema)
    compiled = pyjit.compile(call)
    raised = False
    # The number differs from call to call: from the third on it is an input. Orders come back.
    for seed in range(5 if has_order(schema) else 4):
        expected = run(call, *arguments(schema, dtype, seed))
        assert_same(run(compiled, *arguments(schema, dtype, seed)), expected)
        raised |= isinstance(expected, str)
    stats = pyjit.stats(compiled)
    if not raised and key not in BY_DATA:
        assert not stats["graph_breaks"], stats["graph_break_sites"]
        # A negative power of an integer raises: its exponents keep their values.
        if "pow" not in key[0] or dtype != torch.int64:
            assert stats["hits"], stats["reasons"]


@pytest.mark.parametrize("key", [key for key, _ in OVERLOADS], ids=".".join)
def test_gradient(key):
    """Gradients go through each tensor as through a call of its own."""
    schema = dict(OVERLOADS)[key]
    if key[0].endswith("_") or key in BY_DATA or key[0] == "_foreach_powsum":
        pytest.skip("in place, or not differentiable in eager")
    function = caller(getattr(torch, key[0]), schema)

    def call(positional, keywords):
        results = function(positional, keywords)
        return sum(r.square().sum() for r in results)

    compiled = pyjit.compile(call)
    for seed in range(5):
        pair = []
        for f in (call, compiled):
            positional, keywords = arguments(schema, torch.float64, seed)
            leaves = next(a for a in positional if isinstance(a, list))
            for leaf in leaves:
                leaf.requires_grad_()
            f(positional, keywords).backward()
            pair.append([leaf.grad for leaf in leaves])
        torch.testing.assert_close(*pair, equal_nan=True)
    assert pyjit.stats(compiled)["hits"] >= 1, pyjit.stats(compiled)["reasons"]


def test_one_tensor_twice():
    """In the order of the list, as ATen's loop has it."""

    def call(a, b):
        torch._foreach_add_([a, a, b], [b, b, a])
        return a * 2

    compiled = pyjit.compile(call)
    for seed in range(4):
        torch.manual_seed(seed)
        a, b = torch.rand(3), torch.rand(3)
        x, y = a.clone(), b.clone()
        torch.testing.assert_close(compiled(a, b), call(x, y))
        torch.testing.assert_close((a, b), (x, y))


def test_a_counter_twice():
    def call(t, x):
        torch._foreach_add_([t, t], 1)
        return x * t.item()

    compiled = pyjit.compile(call)
    ours, eagers = torch.zeros(()), torch.zeros(())
    for _ in range(6):
        x = torch.rand(3)
        torch.testing.assert_close(compiled(ours, x), call(eagers, x))
        assert ours == eagers
        assert ours._version == eagers._version


def test_numbers_that_differ():
    """Lists of numbers that Python computes, in one specialization."""

    def call(tensors, n):
        torch._foreach_mul_(tensors, [n * 0.5, n + 1.0])
        return torch._foreach_addcdiv(tensors, tensors, tensors, [-n, 1 / n])

    compiled = pyjit.compile(call)
    for i in range(8):
        torch.manual_seed(i)
        ours = [torch.rand(3), torch.rand(4)]
        eagers = [t.clone() for t in ours]
        torch.testing.assert_close(compiled(ours, 1.5 + i), call(eagers, 1.5 + i))
        torch.testing.assert_close(ours, eagers)
    stats = pyjit.stats(compiled)
    assert stats["specializations"] <= 2, stats


@pytest.mark.parametrize("function", ["_foreach_add_", "_foreach_mul"])
def test_lists_of_other_lengths(function):
    def call(a, b):
        try:
            getattr(torch, function)(a, b)
        except RuntimeError:
            return torch.zeros(1)
        return a[0] * 2

    compiled = pyjit.compile(call)
    for lengths in [(2, 1), (2, 2)] * 4:
        ours = [[torch.rand(3) for _ in range(n)] for n in lengths]
        eagers = [[t.clone() for t in tensors] for tensors in ours]
        torch.testing.assert_close(compiled(*ours), call(*eagers))
        torch.testing.assert_close(ours, eagers)


def test_groups():
    """A dict by device and element type, in an order of its own."""

    def call(params, others):
        grouped = torch.utils._foreach_utils._group_tensors_by_device_and_dtype(
            [params, others], with_indices=True
        )
        results = []
        for (device, dtype), ((first, second), indices) in grouped.items():
            assert device == torch.device("cpu")
            torch._foreach_mul_(first, float(indices[0] + 1))
            results += [p + 1 for p, q in zip(first, second) if q is None]
            results.append((dtype, indices))
        return results, len(grouped)

    compiled = pyjit.compile(call)
    for seed in range(4):
        pair = []
        for f in (compiled, call):
            torch.manual_seed(seed)
            params = [torch.rand(3), torch.rand(2).double(), torch.rand(4)]
            pair.append((f(params, [params[0], None, params[2]]), params))
        (ours, changed), (eagers, expected) = pair
        torch.testing.assert_close(changed, expected)
        assert ours[1] == eagers[1] and len(ours[0]) == len(eagers[0])
        for found, wanted in zip(ours[0], eagers[0]):
            if isinstance(wanted, torch.Tensor):
                torch.testing.assert_close(found, wanted)
            else:
                assert found == wanted
    stats = pyjit.stats(compiled)
    assert not stats["graph_breaks"], stats["graph_break_sites"]
    assert stats["hits"] >= 2, stats["reasons"]
