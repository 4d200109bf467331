"""Attempts to get a wrong answer: state hidden where a capture may not look (tensors)."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from Integration.harness import Compile, Steps, attempt, scenario, values
from torch import nn


class _Plain:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


# Torch's own names -----------------------------------------------------------------


@scenario
def test_torch_relu_replaced(compile: Compile) -> Steps:
    f = compile(lambda x: torch.relu(x) * 2)
    yield f(values(4))
    yield f(values(4))
    original = torch.relu
    torch.relu = lambda x: x * 100  # type: ignore[assignment]
    try:
        out = f(values(4))
    finally:
        torch.relu = original
    yield out
    yield f(values(4))


@scenario
def test_tensor_method_replaced(compile: Compile) -> Steps:
    f = compile(lambda x: x.relu() * 2)
    yield f(values(4))
    yield f(values(4))
    original = torch.Tensor.relu
    torch.Tensor.relu = lambda self: self * 50  # type: ignore[method-assign, assignment]
    try:
        out = f(values(4))
    finally:
        # It was inherited: take the override away again.
        del torch.Tensor.relu
    yield out
    yield [f(values(4)), torch.Tensor.relu is original]


@scenario
def test_tensor_operator_replaced(compile: Compile) -> Steps:
    f = compile(lambda x: x + 1)
    yield f(values(4))
    yield f(values(4))
    torch.Tensor.__add__ = lambda self, other: self.sub(other)  # type: ignore[method-assign, assignment]
    try:
        out = f(values(4))
    finally:
        del torch.Tensor.__add__
    yield out
    yield f(values(4))


@scenario
def test_functional_called_by_module_replaced(compile: Compile) -> Steps:
    m = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    f = compile(m)
    yield f(values(2, 4))
    yield f(values(2, 4))
    original = F.relu
    F.relu = lambda x, inplace=False: x * 7
    try:
        out = f(values(2, 4))
    finally:
        F.relu = original
    yield out


@scenario
def test_module_class_method_replaced(compile: Compile) -> Steps:
    m = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    f = compile(m)
    yield f(values(2, 4))
    yield f(values(2, 4))
    original = nn.ReLU.forward
    nn.ReLU.forward = lambda self, x: x * 3  # type: ignore[method-assign]
    try:
        out = f(values(2, 4))
    finally:
        nn.ReLU.forward = original  # type: ignore[method-assign]
    yield out


@scenario
def test_register_forward_hook_with_kwargs(compile: Compile) -> Steps:
    m = nn.Linear(4, 4)
    f = compile(lambda x: m(x) + 1)
    yield f(values(2, 4))
    yield f(values(2, 4))
    handle = m.register_forward_hook(
        lambda mod, args, kwargs, out: out * 2, with_kwargs=True
    )
    yield f(values(2, 4))
    handle.remove()
    handle = m.register_forward_pre_hook(lambda mod, args: (args[0] * 3,))
    yield f(values(2, 4))
    m._forward_pre_hooks.clear()
    yield f(values(2, 4))


@scenario
def test_hook_function_changes(compile: Compile) -> Steps:
    m = nn.Linear(4, 4)
    box = _Plain(k=2.0)
    m.register_forward_hook(lambda mod, args, out: out * box.k)
    f = compile(m)
    yield f(values(2, 4))
    yield f(values(2, 4))
    box.k = 5.0
    yield f(values(2, 4))


# Aliasing --------------------------------------------------------------------------


@scenario
def test_input_returned_and_written_by_caller(compile: Compile) -> Steps:
    f = compile(lambda x: (x, x * 2))
    a = values(4)
    for _ in range(4):
        out = f(a)
        out[0].add_(1)
        yield [a, out, out[0] is a]


@scenario
def test_in_place_on_input_that_is_also_returned(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> Any:
        y = x.mul_(2)
        return x, y, x.view(-1), x + 1

    f = compile(g)
    for _ in range(3):
        a = values(2, 2)
        x, y, flat, more = f(a)
        seen = [x is a, y is a, flat.clone(), more]
        flat[0] = 77
        yield [seen, a, more]


@scenario
def test_same_result_twice_written(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> Any:
        y = x + 1
        return {"a": y, "b": [y, y.t()], "c": y.detach()}

    f = compile(g)
    for _ in range(3):
        out = f(values(2, 3))
        out["b"][1][0, 0] = 42
        yield [out, out["a"] is out["b"][0], out["a"] is out["c"]]


@scenario
def test_output_held_over_later_calls(compile: Compile) -> Steps:
    f = compile(lambda x: (x * 2, (x + 1).view(-1)[1:], x.sum()))
    held = [f(values(3, 3, seed=s)) for s in range(4)]
    for out in held:
        out[0].zero_()
    yield held
    yield f(values(3, 3))
    yield held


@scenario
def test_output_written_by_caller_then_called_again(compile: Compile) -> Steps:
    m = nn.Linear(4, 4)
    f = compile(lambda x: (m(x), m.weight * 1, m.bias))
    for _ in range(3):
        out = f(values(2, 4))
        out[0].zero_()
        out[1].zero_()
        yield out
    out[2].add_(1)
    yield f(values(2, 4))


@scenario
def test_constant_result_written_by_caller(compile: Compile) -> Steps:
    f = compile(lambda x: (torch.ones(3), torch.tensor([1.0, 2.0]), x * 1))
    for _ in range(4):
        out = f(values(3))
        out[0].add_(5)
        out[1].mul_(9)
        yield out


@scenario
def test_constant_written_inside(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        c = torch.tensor([1.0, 2.0])
        c.add_(x[:2])
        c[0] = 7
        return c

    f = compile(g)
    for seed in range(4):
        yield f(values(3, seed=seed))


@scenario(
    cuts="an in-place operator (aten::fill_.Tensor) on an input that shares memory with another input"
)
def test_view_of_another_argument(compile: Compile) -> Steps:
    def g(x: torch.Tensor, y: torch.Tensor) -> Any:
        x[0] = 5
        return y * 1, x.sum()

    f = compile(g)
    for _ in range(2):
        a, b = values(3, 3), values(3, seed=1)
        yield [f(a, b), a, b]
    a = values(3, 3)
    yield [f(a, a[0]), a]
    a = values(3, 3)
    yield [f(a, a[1]), a]
    a = values(3, 3)
    yield [f(a[1:], a[0]), a]
    a = values(3, 3)
    yield [f(a, a.t()[0]), a]


@scenario(
    cuts="an in-place operator (aten::add_.Tensor) on an input that shares memory with another input"
)
def test_detached_alias(compile: Compile) -> Steps:
    def g(x: torch.Tensor, y: torch.Tensor) -> Any:
        x.add_(1)
        return x + y

    f = compile(g)
    for _ in range(2):
        a, b = values(3), values(3, seed=1)
        yield [f(a, b), a, b]
    a = values(3)
    yield [f(a, a.detach()), a]
    a = values(3)
    yield [f(a.detach(), a.data), a]
    a = values(3)
    yield [f(a, torch.from_numpy(a.numpy())), a]


@scenario(
    cuts="an in-place operator (aten::mul_.Tensor) on an input that shares memory with another input"
)
def test_alias_outside_of_arguments(compile: Compile) -> Steps:
    """A written input shares memory with a module's buffer in one call only."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("b", values(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x.mul_(2)
            return x + self.b

    m = Net()
    f = compile(m)
    yield f(values(4, seed=1))
    yield f(values(4, seed=1))
    yield [f(m.b.view(2, 2).view(4)), m.b]
    yield [f(m.b[:]), m.b]


@scenario
def test_out_argument_aliases_input(compile: Compile) -> Steps:
    def g(x: torch.Tensor, out: torch.Tensor) -> Any:
        torch.cumsum(x, 0, out=out)
        return out + x

    f = compile(g)
    for _ in range(2):
        a, out = values(4), torch.zeros(4)
        yield [f(a, out), a, out]
    a = values(4)
    yield [f(a, a), a]


@scenario
def test_write_to_expanded_argument(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> Any:
        x.add_(1)
        return x * 1

    f = compile(g)
    for _ in range(2):
        a = values(3, 4)
        yield [attempt(f, a), a]
    a = values(1, 4).expand(3, 4)
    yield [type(attempt(f, a)).__name__, a]


@scenario
def test_write_through_overlapping_argument(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> Any:
        x[0].add_(1)
        return x * 1

    f = compile(g)
    for _ in range(2):
        a = values(3, 4)
        yield [attempt(f, a), a]
    a = values(8)
    yield [attempt(f, a.as_strided((3, 4), (2, 1))), a]


# Properties of tensors -------------------------------------------------------------


@scenario
def test_resized_in_place_between_calls(compile: Compile) -> Steps:
    f = compile(lambda x: (x * 2).sum(0))
    a = values(4, 3)
    yield f(a)
    yield f(a)
    a.resize_(2, 6).fill_(1)
    yield f(a)
    a.resize_(6, 2).fill_(2)
    yield f(a)
    a.resize_(0, 2)
    yield f(a)


@scenario
def test_set_and_swap(compile: Compile) -> Steps:
    w = values(4, seed=1)
    f = compile(lambda x: x * w)
    yield f(values(4))
    yield f(values(4))
    w.set_(values(4, seed=2))
    yield f(values(4))
    w.data = values(4, seed=3)
    yield f(values(4))
    w.data = values(1, seed=4)
    yield f(values(4))
    w.data = values(4, seed=5).double()
    yield f(values(4))


@scenario
def test_transposed_in_place_between_calls(compile: Compile) -> Steps:
    w = values(4, 4, seed=1)
    f = compile(lambda x: x @ w + w[0])
    yield f(values(4, 4))
    yield f(values(4, 4))
    w.t_()
    yield f(values(4, 4))
    w.squeeze_().unsqueeze_(0)
    yield f(values(4, 4))


@scenario
def test_strides_of_size_one_dims(compile: Compile) -> Steps:
    f = compile(lambda x: (x.contiguous() * 2, x.stride(), x.is_contiguous()))
    yield f(values(1, 4))
    yield f(values(1, 4))
    yield f(values(4, 1).t())
    yield f(values(2, 4)[:1])
    yield f(values(1, 8)[:, ::2])


@scenario
def test_zero_dim_and_one_element(compile: Compile) -> Steps:
    f = compile(lambda x, y: x + y)
    yield f(values(3), values())
    yield f(values(3), values())
    yield f(values(3), values(1))
    yield f(values(3), values(1, 1))
    yield f(values(3), values(dtype=torch.int64))
    yield f(values(3, dtype=torch.int32), values(dtype=torch.float64))


@scenario(cuts="a tensor with a pending conjugation or negation")
def test_conj_and_neg_bits_flip(compile: Compile) -> Steps:
    f = compile(lambda x: x * x)
    a = values(4, dtype=torch.complex64)
    yield f(a)
    yield f(a)
    yield f(a.conj())
    yield f(torch._neg_view(a))
    yield f(torch._neg_view(a).conj())


@scenario
def test_inference_flag(compile: Compile) -> Steps:
    f = compile(lambda x: x.add_(1))
    yield f(values(4))
    yield f(values(4))
    with torch.inference_mode():
        a = torch.ones(4)
        yield f(a)
    yield attempt(f, a)


@scenario
def test_requires_grad_flipped_on_parameter(compile: Compile) -> Steps:
    m = nn.Linear(4, 4)
    f = compile(lambda x: m(x) + int(m.weight.requires_grad))
    yield f(values(2, 4))
    yield f(values(2, 4))
    m.weight.requires_grad_(False)
    yield f(values(2, 4))


@scenario(cuts="grad mode is on and an input requires grad", grad=True)
def test_grad_flows_after_a_compiled_call(compile: Compile) -> Steps:
    m = nn.Linear(4, 4)
    f = compile(m)
    with torch.no_grad():
        yield f(values(2, 4))
        yield f(values(2, 4))
    out = f(values(2, 4))
    out.sum().backward()
    yield [out, m.weight.grad, out.requires_grad]
    m.requires_grad_(False)
    out = f(values(2, 4))
    yield [out, out.requires_grad]
    out = f(values(2, 4).requires_grad_())
    yield [out, out.requires_grad]


@scenario(cuts="tensor attribute is_leaf")
def test_leaf_and_grad_fn(compile: Compile) -> Steps:
    f = compile(lambda x: x + (1 if x.is_leaf else 2))
    yield f(values(4))
    yield f(values(4))
    with torch.enable_grad():
        b = values(4).requires_grad_() * 2
    yield f(b)


@scenario(cuts="a tensor of class Loud")
def test_subclass_on_second_call(compile: Compile) -> Steps:
    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    seen: list[str] = []
    f = compile(lambda x: torch.relu(x) * 2)
    yield f(values(4))
    yield f(values(4))
    out = f(values(4).as_subclass(Loud))
    yield [type(out).__name__, out.as_subclass(torch.Tensor), seen]


@scenario
def test_attribute_on_parameter(compile: Compile) -> Steps:
    m = nn.Linear(4, 4)
    f = compile(lambda x: m(x) * getattr(m.weight, "scale", 1.0))
    yield f(values(2, 4))
    yield f(values(2, 4))
    m.weight.scale = 3.0  # type: ignore[assignment]
    yield f(values(2, 4))
    m.weight.scale = 4.0  # type: ignore[assignment]
    yield f(values(2, 4))


@scenario(cuts="a tensor with named dimensions")
def test_named_tensor(compile: Compile) -> Steps:
    f = compile(lambda x: x * 2)
    yield f(values(2, 3))
    yield f(values(2, 3))
    out = f(values(2, 3).refine_names("a", "b"))
    yield [out.names, out.rename(None)]


# Modules and state -----------------------------------------------------------------


@scenario
def test_deepcopy_is_independent(compile: Compile) -> Steps:
    m = nn.Linear(4, 4)
    f = compile(lambda m, x: m(x))
    yield f(m, values(2, 4))
    yield f(m, values(2, 4))
    other = copy.deepcopy(m)
    other.weight.mul_(2)
    yield f(other, values(2, 4))
    yield f(m, values(2, 4))


@scenario
def test_parameters_swapped_between_modules(compile: Compile) -> Steps:
    a, b = nn.Linear(4, 4), nn.Linear(4, 4)
    f = compile(lambda x: a(x) - b(x) * 2)
    yield f(values(2, 4))
    yield f(values(2, 4))
    a.weight, b.weight = b.weight, a.weight
    yield f(values(2, 4))
    a.bias = b.bias
    yield f(values(2, 4))
    torch.utils.swap_tensors(a.weight, b.weight)
    yield f(values(2, 4))


@scenario
def test_tied_weights_untied_and_written(compile: Compile) -> Steps:
    a, b = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    b.weight = a.weight
    f = compile(lambda x: a(x) + b(x))
    yield f(values(2, 4))
    yield f(values(2, 4))
    b.weight = nn.Parameter(values(4, 4, seed=5))
    yield f(values(2, 4))
    a.weight.mul_(3)
    yield f(values(2, 4))


@scenario
def test_buffer_none_then_tensor(compile: Compile) -> Steps:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("b", None)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if self.b is None else x + self.b

    m = Net()
    f = compile(m)
    yield f(values(4) * 1)
    yield f(values(4) * 1)
    m.b = values(4, seed=1)
    yield f(values(4))
    m._buffers["b"] = None
    yield f(values(4))


@scenario
def test_parameter_dict_and_list(compile: Compile) -> Steps:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.d = nn.ParameterDict({"a": nn.Parameter(values(4))})
            self.ps = nn.ParameterList([nn.Parameter(values(4, seed=1))])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for p in self.ps:
                x = x * p
            for k in self.d:
                x = x + self.d[k]
            return x

    m = Net()
    f = compile(m)
    yield f(values(4))
    yield f(values(4))
    m.ps.append(nn.Parameter(values(4, seed=2)))
    yield f(values(4))
    m.d["b"] = nn.Parameter(values(4, seed=3))
    yield f(values(4))
    m.d["a"] = nn.Parameter(values(4, seed=4))
    yield f(values(4))


@scenario
def test_module_dict_lookup_by_argument(compile: Compile) -> Steps:
    m = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
    f = compile(lambda x, k: m[k](x))
    for k in ("a", "a", "b", "a"):
        yield f(values(4), k)
    m["a"] = nn.Sigmoid()
    yield f(values(4), "a")


@scenario
def test_apply_and_replace_activation(compile: Compile) -> Steps:
    m = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    f = compile(m)
    yield f(values(2, 4))
    yield f(values(2, 4))
    m.apply(lambda s: s.weight.fill_(0.5) if isinstance(s, nn.Linear) else None)
    yield f(values(2, 4))
    m._modules["1"] = nn.GELU()
    yield f(values(2, 4))
    m.half().float()
    yield f(values(2, 4))


@scenario
def test_batch_norm_flags(compile: Compile) -> Steps:
    m = nn.BatchNorm1d(4).eval()
    f = compile(m)
    yield f(values(3, 4))
    yield f(values(3, 4))
    m.track_running_stats = False
    yield f(values(3, 4))
    m.running_mean = None
    m.running_var = None
    yield f(values(3, 4))
    m.eps = 1.0
    yield f(values(3, 4))
    m.weight = None  # type: ignore[assignment]
    yield f(values(3, 4))


@scenario
def test_dropout_reproduced_under_seed(compile: Compile) -> Steps:
    m = nn.Dropout(0.5)
    f = compile(lambda x: m(x) + torch.rand_like(x))
    for seed in (1, 1, 2, 1):
        torch.manual_seed(seed)
        yield [f(values(32)), torch.rand(1)]
    m.p = 0.1
    torch.manual_seed(1)
    yield f(values(32))
    m.eval()
    torch.manual_seed(1)
    yield [f(values(32)), torch.rand(1)]


@scenario
def test_random_between_calls_stays_in_step(compile: Compile) -> Steps:
    f = compile(lambda x: x + torch.randn(4))
    yield f(values(4))
    yield f(values(4))
    yield torch.rand(3)
    yield f(values(4))
    state = torch.get_rng_state()
    a = f(values(4))
    torch.set_rng_state(state)
    yield [a, f(values(4))]


@scenario(cuts="a tensor function given a torch._C.Generator")
def test_generator_of_the_user(compile: Compile) -> Steps:
    g = torch.Generator().manual_seed(3)
    f = compile(lambda x: x + torch.rand(4, generator=g))
    yield [attempt(f, values(4)) for _ in range(3)]
    yield attempt(lambda x: torch.relu(x), values(4))


@scenario
def test_unused_random_draw_still_advances(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        torch.rand(7)
        return x * 2

    f = compile(g)
    for _ in range(3):
        yield [f(values(4)), torch.rand(2)]


@scenario(
    captured="late",
    cuts=(
        "grad mode is on and an input requires grad",
        "operator aten::linear: a tensor of unknown origin",
    ),
)
def test_autocast_weight_cache(compile: Compile) -> Steps:
    m = nn.Linear(4, 4)
    f = compile(lambda x: m(x) + m(x * 2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield f(values(2, 4))
        yield f(values(2, 4))
        m.weight.mul_(4)
        yield f(values(2, 4))
    yield f(values(2, 4))
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=False):
        yield f(values(2, 4))


@scenario
def test_matmul_precision_and_flags(compile: Compile) -> Steps:
    m = nn.Conv2d(3, 4, 3)
    f = compile(m)
    yield f(values(1, 3, 8, 8))
    yield f(values(1, 3, 8, 8))
    with torch.backends.mkldnn.flags(enabled=False):
        yield f(values(1, 3, 8, 8))
    yield f(values(1, 3, 8, 8))


@scenario
def test_default_dtype_of_factories(compile: Compile) -> Steps:
    f = compile(lambda n: (torch.arange(n) * 0.5, torch.zeros(n), torch.full((n,), 2)))
    yield f(3)
    yield f(3)
    torch.set_default_dtype(torch.float64)
    try:
        yield f(3)
    finally:
        torch.set_default_dtype(torch.float32)
    yield f(4)


@scenario
def test_unbacked_scalar_tensor_as_number(compile: Compile) -> Steps:
    f = compile(lambda x, n: x * n)
    yield f(values(4), torch.tensor(2))
    yield f(values(4), torch.tensor(2))
    yield f(values(4), torch.tensor(3))
    yield f(values(4), torch.tensor(2.5, dtype=torch.float64))
    yield f(values(4, dtype=torch.int32), torch.tensor(2.5, dtype=torch.float64))


@scenario(cuts="an index is out of range: eager answers the call")
def test_index_and_mask_arguments(compile: Compile) -> Steps:
    f = compile(
        lambda x, i, m: (
            x[i],
            torch.where(m, x, -x),
            x.masked_fill(m, 0),
            torch.gather(x, 0, i),
            x.index_select(0, i),
        )
    )
    x, m = values(6), values(6) > 0
    yield f(x, torch.tensor([0, 5, 2]), m)
    yield f(x, torch.tensor([0, 5, 2]), m)
    yield f(x, torch.tensor([1, 1, 1]), ~m)
    yield type(attempt(f, x, torch.tensor([0, 9, 2]), m)).__name__
    yield type(attempt(f, x, torch.tensor([0, -1, 2]), m)).__name__
    yield f(x, torch.tensor([3, 4, 5]), m)


@scenario(cuts="index 99 is out of bounds for dimension 0 with size 6")
def test_index_put_and_scatter(compile: Compile) -> Steps:
    def g(x: torch.Tensor, i: torch.Tensor) -> Any:
        y = x.clone()
        y[i] = 7.0
        y.index_add_(0, i, x[: i.shape[0]])
        x[i] += 1
        return y, torch.zeros(6).scatter_(0, i, x[:3])

    f = compile(g)
    for i in ([0, 1, 2], [0, 1, 2], [5, 4, 3]):
        x = values(6)
        yield [f(x, torch.tensor(i)), x]
    x = values(6)
    yield [type(attempt(f, x, torch.tensor([0, 99, 2]))).__name__]


@scenario(cuts="an index is out of range: eager answers the call")
def test_embedding_out_of_range_after_hit(compile: Compile) -> Steps:
    m = nn.Embedding(5, 3)
    f = compile(lambda i: m(i) * 2)
    yield f(torch.tensor([0, 1]))
    yield f(torch.tensor([4, 1]))
    yield type(attempt(f, torch.tensor([5, 1]))).__name__
    yield type(attempt(f, torch.tensor([0, -2]))).__name__
    yield f(torch.tensor([2, 2]))


@scenario(cuts="ZeroDivisionError")
def test_integer_division_by_zero_after_hit(compile: Compile) -> Steps:
    f = compile(lambda x, y: (x // y, x % y))
    a = torch.tensor([4, 5, 6])
    yield f(a, torch.tensor([1, 2, 3]))
    yield f(a, torch.tensor([1, 2, 4]))
    yield type(attempt(f, a, torch.tensor([1, 0, 4]))).__name__
    yield f(a, torch.tensor([-1, -2, 4]))


@scenario(cuts="an index is out of range: eager answers the call")
def test_error_in_compiled_call_leaves_inputs(compile: Compile) -> Steps:
    """An exception after a write: eager has written, so must pyjit have."""

    def g(x: torch.Tensor, i: torch.Tensor, log: list[int]) -> torch.Tensor:
        x.add_(1)
        log.append(1)
        return x[i] * 2

    f = compile(g)
    for index in (1, 1, 99, 2):
        x, log = values(4), [0]
        out = attempt(f, x, torch.tensor([index]), log)
        yield [type(out).__name__, x, log]


@scenario(cuts="the limit of 16 records is reached")
def test_many_ranks_then_first_again(compile: Compile) -> Steps:
    f = compile(lambda x: torch.softmax(x, -1) + x.shape[0])
    yield f(values(2, 3))
    yield f(values(2, 3))
    for n in range(1, 20):
        yield f(values(*[1] * n, 3))
    yield f(values(2, 3))


@scenario
def test_many_shapes_then_first_again(compile: Compile) -> Steps:
    f = compile(lambda x: torch.softmax(x, -1) + x.shape[0])
    yield f(values(2, 3))
    yield f(values(2, 3))
    for n in range(1, 24):
        yield f(values(n, 3))
    yield f(values(2, 3))
