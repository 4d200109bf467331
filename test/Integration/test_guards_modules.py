# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Something about an nn.Module changes between two calls."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from Integration.harness import Compile, Steps, attempt, scenario, values
from torch import nn


class Block(nn.Module):
    def __init__(self, scale: float = 2.0) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.drop = nn.Dropout(0.5)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(torch.relu(self.norm(self.linear(x)))) * self.scale


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(4, 2, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


def conv_net() -> nn.Sequential:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    with torch.no_grad():
        net[1].running_mean.uniform_(-1, 1)  # type: ignore[union-attr, operator]
        net[1].running_var.uniform_(0.5, 2)  # type: ignore[union-attr, operator]
    return net.eval()


@scenario
def test_training_flag(compile: Compile) -> Steps:
    m = Nested().eval()
    f = compile(m)
    yield f(values(3, 4))
    yield f(values(3, 4))
    m.train()
    torch.manual_seed(3)
    yield f(values(3, 4))
    m.eval()
    yield f(values(3, 4))


@scenario
def test_training_flag_of_one_child(compile: Compile) -> Steps:
    m = Nested().eval()
    f = compile(m)
    yield f(values(3, 4))
    yield f(values(3, 4))
    m.blocks[1].drop.training = True  # type: ignore[union-attr]
    torch.manual_seed(3)
    yield f(values(3, 4))


@scenario
def test_training_read_by_user(compile: Compile) -> Steps:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if self.training else x * 3

    m = Net()
    f = compile(m)
    yield f(values(4))
    yield f(values(4))
    m.eval()
    yield f(values(4))
    m.train()
    yield f(values(4))


@scenario
def test_swapped_parameter(compile: Compile) -> Steps:
    m = Nested().eval()
    f = compile(m)
    yield f(values(3, 4))
    yield f(values(3, 4))
    m.head.weight = nn.Parameter(values(2, 4, seed=9))
    yield f(values(3, 4))
    m.blocks[0].linear.weight = m.blocks[1].linear.weight  # type: ignore[union-attr]
    yield f(values(3, 4))


@scenario
def test_swapped_parameter_of_other_shape(compile: Compile) -> Steps:
    m = nn.Linear(4, 4)
    f = compile(m)
    yield f(values(3, 4))
    yield f(values(3, 4))
    m.weight = nn.Parameter(values(4, 4, seed=9).t())
    yield f(values(3, 4))
    m.weight = nn.Parameter(values(1, 4, seed=9))
    m.bias = nn.Parameter(values(1))
    yield f(values(3, 4))


@scenario
def test_parameter_data_assigned(compile: Compile) -> Steps:
    m = Nested().eval()
    f = compile(m)
    yield f(values(3, 4))
    yield f(values(3, 4))
    m.head.weight.data = values(2, 4, seed=8)
    yield f(values(3, 4))
    m.head.weight.data = values(4, 2, seed=8).t()
    yield f(values(3, 4))


@scenario
def test_parameter_written_in_place(compile: Compile) -> Steps:
    m = Nested().eval()
    f = compile(m)
    yield f(values(3, 4))
    yield f(values(3, 4))
    m.head.weight.mul_(2)
    yield f(values(3, 4))
    m.blocks[0].norm.bias.add_(1)  # type: ignore[union-attr]
    yield f(values(3, 4))


@scenario
def test_parameter_written_behind_its_version(compile: Compile) -> Steps:
    """`.data`, `.detach()` under numpy: the version counter may not move."""
    m = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    f = compile(m)
    yield f(values(16, 64))
    yield f(values(16, 64))
    m[0].weight.data.mul_(2)  # type: ignore[operator, union-attr]
    yield f(values(16, 64))
    m[2].weight.detach().numpy()[:] *= 3  # type: ignore[operator, union-attr]
    yield f(values(16, 64))


@scenario
def test_optimizer_step(compile: Compile) -> Steps:
    m = nn.Linear(4, 2)
    f = compile(m)
    yield f(values(3, 4))
    yield f(values(3, 4))
    optimizer = torch.optim.SGD(m.parameters(), lr=0.5)
    with torch.enable_grad():
        m(values(3, 4)).sum().backward()
    optimizer.step()
    yield f(values(3, 4))


@scenario(grad=True)
def test_training_loop(compile: Compile) -> Steps:
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    f = compile(m)
    optimizer = torch.optim.Adam(m.parameters(), lr=0.1)
    for seed in range(5):
        optimizer.zero_grad()
        loss = (f(values(6, 4, seed=seed)) ** 2).mean()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            yield [loss, f(values(6, 4))]


@scenario
def test_load_state_dict(compile: Compile) -> Steps:
    m, other = Nested().eval(), Nested().eval()
    f = compile(m)
    yield f(values(3, 4))
    yield f(values(3, 4))
    m.load_state_dict(other.state_dict())
    yield f(values(3, 4))
    m.load_state_dict(Nested().state_dict(), assign=True)
    yield f(values(3, 4))


@scenario
def test_buffer_replaced_and_written(compile: Compile) -> Steps:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("shift", values(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.shift

    m = Net()
    f = compile(m)
    yield f(values(4))
    yield f(values(4))
    m.shift = values(4, seed=5)
    yield f(values(4))
    m.shift.zero_()
    yield f(values(4))
    m.register_buffer("shift", values(1))
    yield f(values(4))


@scenario
def test_folded_batch_norm_changes(compile: Compile) -> Steps:
    m = conv_net()
    f = compile(m)
    x = values(2, 3, 8, 8)
    yield f(x)
    yield f(x)
    m[1].running_mean.add_(1)  # type: ignore[operator, union-attr]
    yield f(x)
    m[1].weight.mul_(3)  # type: ignore[operator, union-attr]
    yield f(x)
    m[1].running_var.data.mul_(4)  # type: ignore[operator, union-attr]
    yield f(x)
    m[1].eps = 0.5  # type: ignore[assignment]
    yield f(x)
    m[0].weight.mul_(2)  # type: ignore[operator, union-attr]
    yield f(x)
    m[0].bias.data = values(4, seed=8)  # type: ignore[union-attr]
    yield f(x)


@scenario(captured="late")
def test_batch_norm_training_updates(compile: Compile) -> Steps:
    m = conv_net().train()
    f = compile(m)
    for seed in range(4):
        yield f(values(2, 3, 8, 8, seed=seed))
        yield [m[1].running_mean, m[1].running_var, m[1].num_batches_tracked]
    m.eval()
    yield f(values(2, 3, 8, 8))
    yield f(values(2, 3, 8, 8))


@scenario
def test_submodule_replaced(compile: Compile) -> Steps:
    m = Nested().eval()
    f = compile(m)
    yield f(values(3, 4))
    yield f(values(3, 4))
    m.blocks[1] = nn.Tanh()
    yield f(values(3, 4))
    m.head = nn.Identity()  # type: ignore[assignment]
    yield f(values(3, 4))


@scenario
def test_sequential_grows_and_shrinks(compile: Compile) -> Steps:
    m = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    f = compile(m)
    yield f(values(3, 4))
    yield f(values(3, 4))
    m.append(nn.Linear(4, 4))
    yield f(values(3, 4))
    del m[0]
    yield f(values(3, 4))
    m.insert(0, nn.Tanh())
    yield f(values(3, 4))


@scenario
def test_module_list_order(compile: Compile) -> Steps:
    m = Nested().eval()
    f = compile(m)
    yield f(values(3, 4))
    yield f(values(3, 4))
    first, second = m.blocks[0], m.blocks[1]
    m.blocks[0], m.blocks[1] = second, first
    yield f(values(3, 4))
    m.blocks.append(Block().eval())
    yield f(values(3, 4))


@scenario
def test_scalar_attribute(compile: Compile) -> Steps:
    m = Nested().eval()
    f = compile(m)
    yield f(values(3, 4))
    yield f(values(3, 4))
    m.blocks[1].scale = 5.0
    yield f(values(3, 4))
    m.blocks[0].norm.eps = 0.3  # type: ignore[union-attr]
    yield f(values(3, 4))


@scenario
def test_attribute_deleted_falls_to_class(compile: Compile) -> Steps:
    class Net(nn.Module):
        scale = 7.0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.scale

    m = Net()
    m.scale = 2.0
    f = compile(m)
    yield f(values(4))
    yield f(values(4))
    del m.scale
    yield f(values(4))
    Net.scale = 8.0
    yield f(values(4))


@scenario
def test_bias_becomes_none(compile: Compile) -> Steps:
    m = nn.Linear(4, 4)
    f = compile(m)
    yield f(values(3, 4))
    yield f(values(3, 4))
    m.bias = None  # type: ignore[assignment]
    yield f(values(3, 4))
    m.bias = nn.Parameter(values(4))
    yield f(values(3, 4))


@scenario
def test_forward_patched_on_instance(compile: Compile) -> Steps:
    m = Nested().eval()
    f = compile(m)
    yield f(values(3, 4))
    yield f(values(3, 4))
    m.head.forward = lambda x: x * 2  # type: ignore[method-assign, assignment]
    yield f(values(3, 4))
    del m.head.forward
    yield f(values(3, 4))


@scenario
def test_forward_patched_on_class(compile: Compile) -> Steps:
    class Leaf(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.leaf = Leaf()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.leaf(x) * 2

    f = compile(Net())
    yield f(values(4))
    yield f(values(4))
    Leaf.forward = lambda self, x: x - 1  # type: ignore[method-assign, assignment]
    yield f(values(4))
    Leaf.forward = lambda self, x: x - 5  # type: ignore[method-assign, assignment]
    yield f(values(4))
    Leaf.__call__ = lambda self, x: x * 100  # type: ignore[method-assign, assignment]
    yield f(values(4))


@scenario
def test_own_forward_patched(compile: Compile) -> Steps:
    m = Block().eval()
    f = compile(m)
    yield f(values(3, 4))
    yield f(values(3, 4))
    m.forward = lambda x: x * 2  # type: ignore[method-assign, assignment]
    yield f(values(3, 4))


@scenario
def test_hook_on_child(compile: Compile) -> Steps:
    m = Nested().eval()
    f = compile(m)
    seen: list[float] = []
    yield f(values(3, 4))
    yield f(values(3, 4))
    handle = m.head.register_forward_hook(lambda mod, args, out: out * 10)
    yield f(values(3, 4))
    other = m.blocks[0].register_forward_pre_hook(
        lambda mod, args: (seen.append(1.0), (args[0] + 1,))[1]
    )
    yield [f(values(3, 4)), list(seen)]
    handle.remove()
    other.remove()
    yield [f(values(3, 4)), list(seen)]


@scenario
def test_hook_on_compiled_module(compile: Compile) -> Steps:
    m = Block().eval()
    f = compile(m)
    yield f(values(3, 4))
    yield f(values(3, 4))
    handle = m.register_forward_hook(lambda mod, args, out: out + 100)
    yield f(values(3, 4))
    handle.remove()
    yield f(values(3, 4))


@scenario
def test_global_hook(compile: Compile) -> Steps:
    m = Block().eval()
    f = compile(m)
    yield f(values(3, 4))
    yield f(values(3, 4))
    count: list[str] = []
    handle = nn.modules.module.register_module_forward_hook(
        lambda mod, args, out: count.append(type(mod).__name__)
    )
    try:
        out = f(values(3, 4))
    finally:
        handle.remove()
    yield [out, count]
    yield f(values(3, 4))


@scenario
def test_class_of_module_changes(compile: Compile) -> Steps:
    class A(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    class B(A):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * 10

    net = nn.Sequential(A(), A())
    f = compile(net)
    yield f(values(4))
    yield f(values(4))
    net[1].__class__ = B
    yield f(values(4))


@scenario
def test_instance_dict_replaced(compile: Compile) -> Steps:
    m = Block(2.0).eval()
    f = compile(m)
    yield f(values(3, 4))
    yield f(values(3, 4))
    changed = dict(m.__dict__)
    changed["scale"] = 11.0
    m.__dict__ = changed
    yield f(values(3, 4))
    m.__dict__["scale"] = 12.0
    yield f(values(3, 4))


@scenario
def test_inner_dicts_written_directly(compile: Compile) -> Steps:
    m = Nested().eval()
    f = compile(m)
    yield f(values(3, 4))
    yield f(values(3, 4))
    m.head._parameters["weight"] = nn.Parameter(values(2, 4, seed=7))
    yield f(values(3, 4))
    m._modules["head"] = nn.Tanh()
    yield f(values(3, 4))
    m.__dict__["_modules"] = dict(m._modules, head=nn.ReLU())
    yield f(values(3, 4))


@scenario
def test_dtype_of_module(compile: Compile) -> Steps:
    m = Nested().eval()
    f = compile(m)
    yield f(values(3, 4))
    yield f(values(3, 4))
    m.double()
    yield f(values(3, 4).double())
    m.bfloat16()
    yield f(values(3, 4).bfloat16())
    yield isinstance(attempt(f, values(3, 4)), object)
    m.float()
    yield f(values(3, 4))


@scenario
def test_memory_format_of_module(compile: Compile) -> Steps:
    m = conv_net()
    f = compile(m)
    x = values(2, 3, 8, 8)
    yield f(x)
    yield f(x)
    m.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    yield f(x)
    yield f(x.to(memory_format=torch.channels_last))


@scenario(grad=True)
def test_parameter_starts_to_require_grad(compile: Compile) -> Steps:
    m = nn.Linear(4, 2).requires_grad_(False)
    f = compile(m)
    yield f(values(3, 4))
    yield f(values(3, 4))
    m.weight.requires_grad_(True)
    out = f(values(3, 4))
    out.sum().backward()
    yield [out, m.weight.grad]


@scenario
def test_two_instances_of_one_class(compile: Compile) -> Steps:
    a, b = Block(2.0).eval(), Block(3.0).eval()
    f, g = compile(a), compile(b)
    for _ in range(3):
        yield [f(values(3, 4)), g(values(3, 4))]


@scenario
def test_function_of_modules(compile: Compile) -> Steps:
    f = compile(lambda m, x: m(x) + 1)
    a, b = Block(2.0).eval(), Block(3.0).eval()
    yield f(a, values(3, 4))
    yield f(a, values(3, 4))
    yield f(b, values(3, 4))
    yield f(nn.ReLU(), values(3, 4))
    yield f(torch.relu, values(3, 4))


@scenario
def test_method_of_module(compile: Compile) -> Steps:
    class Net(nn.Module):
        def __init__(self, k: float) -> None:
            super().__init__()
            self.k = k

        def score(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.k

    a = Net(2.0)
    f = compile(a.score)
    yield f(values(4))
    yield f(values(4))
    a.k = 3.0
    yield f(values(4))


@scenario
def test_parametrization_added(compile: Compile) -> Steps:
    class Double(nn.Module):
        def forward(self, w: torch.Tensor) -> torch.Tensor:
            return w * 2

    m = nn.Sequential(nn.Linear(4, 4))
    f = compile(m)
    yield f(values(3, 4))
    yield f(values(3, 4))
    nn.utils.parametrize.register_parametrization(m[0], "weight", Double())
    yield f(values(3, 4))
    nn.utils.parametrize.remove_parametrizations(m[0], "weight", False)
    yield f(values(3, 4))


@scenario
def test_functional_call(compile: Compile) -> Steps:
    m = nn.Linear(4, 4)
    f = compile(m)
    yield f(values(3, 4))
    yield f(values(3, 4))
    weights: dict[str, Any] = {"weight": values(4, 4, seed=4)}
    yield torch.func.functional_call(m, weights, (values(3, 4),))
    yield f(values(3, 4))


@scenario
def test_dropout_probability(compile: Compile) -> Steps:
    m = nn.Dropout(0.0).train()
    f = compile(lambda x: m(x) * 2)
    yield f(values(4))
    yield f(values(4))
    m.p = 1.0
    yield f(values(4))


@scenario
def test_embedding_with_padding(compile: Compile) -> Steps:
    m = nn.Embedding(10, 4, padding_idx=0)
    f = compile(m)
    yield f(torch.tensor([0, 3, 5]))
    yield f(torch.tensor([0, 3, 6]))
    yield f(torch.tensor([[0, 3, 6]]))
    yield f(torch.tensor([1, 2, 3], dtype=torch.int32))
    m.weight.zero_()
    yield f(torch.tensor([0, 3, 6]))


@scenario
def test_functional_with_flag(compile: Compile) -> Steps:
    f = compile(lambda x, training: F.dropout(x, 1.0, training) + 1)
    yield f(values(4), False)
    yield f(values(4), False)
    yield f(values(4), True)
