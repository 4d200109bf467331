# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attempts to get a wrong answer: state hidden where a capture may not look (tensors)."""

from __future__ import annotations

from typing import Any

import torch
from Integration.graph_breaks import graph_break_scenario
from Integration.harness import Compile, Steps, attempt, scenario, values
from torch import nn

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
    graph_breaks="an in-place operator (aten::fill_.Tensor) on an input that shares memory with another input"
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
    graph_breaks="an in-place operator (aten::add_.Tensor) on an input that shares memory with another input"
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


@scenario(captured="late")
def test_views_of_one_of_two_arguments_that_share_memory(compile: Compile) -> Steps:
    """Neither argument is a view of the other one: what is made of one has that as its base."""

    def f(x: torch.Tensor, y: torch.Tensor) -> object:
        return x.t(), y.t(), x[1:], y[1:], x.detach()

    fast = compile(f)
    for rows in (3, 3, 4, 5, 5):
        for order in (1, -1):
            x = values(rows, 4)
            x, y = (x, x.detach())[::order]
            found = fast(x, y)
            yield found, [[t._base is base for base in (None, x, y)] for t in found]
            found[2].zero_()
            yield x._version, y._version, [t._version for t in found]


@scenario(
    graph_breaks="an in-place operator (aten::mul_.Tensor) on an input that shares memory with another input"
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


@scenario(graph_breaks="a tensor with a pending conjugation or negation")
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


@scenario(grad=True)
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


@scenario(graph_breaks="tensor attribute is_leaf")
def test_leaf_and_grad_fn(compile: Compile) -> Steps:
    f = compile(lambda x: x + (1 if x.is_leaf else 2))
    yield f(values(4))
    yield f(values(4))
    with torch.enable_grad():
        b = values(4).requires_grad_() * 2
    yield f(b)


@scenario(graph_breaks="a tensor of class Loud")
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


@scenario(
    graph_breaks=("native function TensorBase.as_subclass", "a tensor of class"),
    captured=False,
)
def test_what_a_subclass_hears(compile: Compile) -> Steps:
    """`__torch_function__` hears of what the program does, and of nothing that we ask a
    tensor which stands behind a graph break."""
    heard: list[str] = []

    class Spy(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            heard.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.add(x.as_subclass(Spy), 1).as_subclass(torch.Tensor)

    fast = compile(f)
    for seed in range(4):
        yield fast(values(3, seed=seed)), list(heard)


@scenario(graph_breaks="a tensor with named dimensions")
def test_named_tensor(compile: Compile) -> Steps:
    f = compile(lambda x: x * 2)
    yield f(values(2, 3))
    yield f(values(2, 3))
    out = f(values(2, 3).refine_names("a", "b"))
    yield [out.names, out.rename(None)]


# Numbers and indices ---------------------------------------------------------------


@scenario
def test_unbacked_scalar_tensor_as_number(compile: Compile) -> Steps:
    f = compile(lambda x, n: x * n)
    yield f(values(4), torch.tensor(2))
    yield f(values(4), torch.tensor(2))
    yield f(values(4), torch.tensor(3))
    yield f(values(4), torch.tensor(2.5, dtype=torch.float64))
    yield f(values(4, dtype=torch.int32), torch.tensor(2.5, dtype=torch.float64))


@scenario(graph_breaks="an index is out of range: eager answers the call")
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


@scenario(graph_breaks="index 99 is out of bounds for dimension 0 with size 6")
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


@scenario(graph_breaks="an index is out of range: eager answers the call")
def test_embedding_out_of_range_after_hit(compile: Compile) -> Steps:
    m = nn.Embedding(5, 3)
    f = compile(lambda i: m(i) * 2)
    yield f(torch.tensor([0, 1]))
    yield f(torch.tensor([4, 1]))
    yield type(attempt(f, torch.tensor([5, 1]))).__name__
    yield type(attempt(f, torch.tensor([0, -2]))).__name__
    yield f(torch.tensor([2, 2]))


@scenario(graph_breaks="ZeroDivisionError")
def test_integer_division_by_zero_after_hit(compile: Compile) -> Steps:
    f = compile(lambda x, y: (x // y, x % y))
    a = torch.tensor([4, 5, 6])
    yield f(a, torch.tensor([1, 2, 3]))
    yield f(a, torch.tensor([1, 2, 4]))
    yield type(attempt(f, a, torch.tensor([1, 0, 4]))).__name__
    yield f(a, torch.tensor([-1, -2, 4]))


@scenario(graph_breaks="an index is out of range: eager answers the call")
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


@scenario(graph_breaks="a further one waits until such calls have taken in eager")
def test_many_ranks_then_first_again(compile: Compile) -> Steps:
    f = compile(lambda x: torch.softmax(x, -1) + x.shape[0])
    yield f(values(2, 3))
    yield f(values(2, 3))
    for n in range(1, 36):
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


# Memory that nobody filled -----------------------------------------------------------


@scenario
def test_empty_written_in_parts(compile: Compile) -> Steps:
    """By indices, masks, permutations: operators that read what they leave."""

    def g(x: torch.Tensor, i: torch.Tensor, m: torch.Tensor) -> Any:
        a = torch.empty(4)
        a[i] = x
        b = torch.empty_like(i, memory_format=torch.contiguous_format)
        b.scatter_(0, i, torch.arange(4))
        c = x.new_empty(4)
        c[m] = 1.0
        c[m.logical_not()] = 2.0
        d = torch.empty(4, dtype=torch.int64)
        e = torch.empty(4)
        torch.sort(x, out=(e, d))
        return a, b, c, d, e, torch.zeros_like(torch.empty_like(x)), x[b]

    f = compile(g)
    for seed in range(4):
        i = torch.tensor([2, 0, 3, 1]).roll(seed)
        yield f(values(4, seed=seed), i, values(4, seed=seed) > 0)


@graph_break_scenario(hits=2)
def test_padded_and_packed_sequences(compile: Compile) -> Steps:
    m = torch.nn.GRU(4, 5, 2, batch_first=True).eval()
    rnn = torch.nn.utils.rnn

    def g(x: torch.Tensor, lengths: torch.Tensor) -> Any:
        packed = rnn.pack_padded_sequence(
            x, lengths, batch_first=True, enforce_sorted=False
        )
        out, state = m(packed)
        return rnn.pad_packed_sequence(out, batch_first=True), state

    f = compile(g)
    for seed in range(4):
        yield f(values(3, 6, 4, seed=seed), torch.tensor([6, 3, 4]))


# Values of Torch ----------------------------------------------------------------------


@scenario
def test_devices_are_values(compile: Compile) -> Steps:
    """A fresh but equal device hits; another one does not."""

    def g(x: torch.Tensor, device: torch.device) -> Any:
        return torch.ones(3, device=device) + x.to(device), device

    f = compile(g)
    for name in ("cpu", "cpu", "meta", "cpu"):
        device = torch.device(name)
        yield attempt(f, values(3), device)


@scenario
def test_devices_as_keys(compile: Compile) -> Steps:
    """Equal devices are one key, alone or in a tuple, and what lies there is guarded."""
    masks: dict[Any, torch.Tensor] = {}

    def g(x: torch.Tensor) -> Any:
        key = (x.shape[0], x.device, x.dtype)
        if key not in masks:
            masks[key] = torch.ones(x.shape[0], dtype=x.dtype)
        if x.device not in masks:
            masks[x.device] = torch.full((1,), 2.0)
        return x * masks[key] + masks[x.device]

    f = compile(g)
    g(values(3))
    for size in (3, 3, 3, 4, 4, 4, 3):
        yield f(values(size)), list(masks.items())
    masks[torch.device("cpu")] = torch.full((1,), 5.0)
    yield f(values(3)), list(masks.items())
    masks[3, torch.device("cpu"), torch.float32] *= 2
    yield f(values(3)), list(masks.items())
    del masks[torch.device("cpu")]
    yield f(values(3)), list(masks.items())
    yield f(values(4)), list(masks.items())
    masks.clear()
    yield f(values(4)), list(masks.items())


@scenario(graph_breaks="a tensor made of tensors by torch.tensor", captured="late")
def test_a_tensor_of_tensors_in_nested_lists(compile: Compile) -> Steps:
    """Their elements were constants of the specialization."""

    def g(x: torch.Tensor, k: float) -> Any:
        mean = x.mean()
        rows = torch.tensor([[mean, 1.0], [k, 2.0]]), torch.tensor([[[x.max()]]])
        return rows, torch.Tensor([[k, mean]]), torch.as_tensor(((k, x[0]),)), x * 2

    f = compile(g)
    for seed in range(6):
        yield f(values(3, seed=seed), 1.5 + seed // 3)


@scenario(captured=False, eager="other data", versions=False)
def test_inference_tensor_whose_data_was_set(compile: Compile) -> Steps:
    """It is no inference tensor any more, and its writes are not counted."""
    f = compile(lambda x: x + 1)
    with torch.inference_mode():
        x = torch.ones(3)
    x.data = torch.arange(3.0)
    for _ in range(3):
        yield f(x), x.is_inference()
