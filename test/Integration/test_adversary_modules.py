# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attempts to get a wrong answer: names, modules, random numbers and state of Torch that change."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from Integration.harness import Compile, Plain, Steps, attempt, scenario, values
from torch import nn

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
    box = Plain(k=2.0)
    m.register_forward_hook(lambda mod, args, out: out * box.k)
    f = compile(m)
    yield f(values(2, 4))
    yield f(values(2, 4))
    box.k = 5.0
    yield f(values(2, 4))


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


@scenario(graph_breaks="a tensor function given a torch._C.Generator")
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


@scenario
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
def test_many_equal_blocks_with_packed_weights(compile: Compile) -> Steps:
    """The preparation of their weights repeats, and packed weights have no elements."""
    blocks = []
    for _ in range(40):
        blocks += [nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()]
        blocks += [nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.ReLU()]
    m = nn.Sequential(*blocks).eval()
    f = compile(m)
    x = values(2, 8, 12, 12)
    for _ in range(3):
        yield f(x)
    with torch.no_grad():
        m[0].weight.mul_(2)
    yield f(x)
