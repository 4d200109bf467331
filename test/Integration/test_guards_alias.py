# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Two things that the program reads are one object, or share storage, in one call only."""

from __future__ import annotations

import random

import pyjit
import torch
from Integration.harness import Compile, Steps, scenario, values


def _add_first_then_multiply(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x * y


@scenario
def test_same_tensor_twice_then_not(compile: Compile) -> Steps:
    f = compile(_add_first_then_multiply)
    for _ in range(2):
        a = values(4)
        yield [f(a, a), a]
    a, b = values(4), values(4)
    yield [f(a, b), a, b]


@scenario
def test_two_tensors_then_same(compile: Compile) -> Steps:
    f = compile(_add_first_then_multiply)
    for _ in range(2):
        a, b = values(4), values(4)
        yield [f(a, b), a, b]
    a = values(4)
    yield [f(a, a), a]


@scenario(
    graph_breaks="an in-place operator (aten::add_.Tensor) on an input that shares memory with another input"
)
def test_views_of_one_storage(compile: Compile) -> Steps:
    f = compile(_add_first_then_multiply)
    for _ in range(2):
        a = values(16)
        yield [f(a[:4], a[8:12]), a]
    a = values(16)
    yield [f(a[:4], a[2:6]), a]
    a = values(16)
    yield [f(a[2:6], a[:4]), a]
    a = values(16)
    yield [f(a[:4], a[:4]), a]


@scenario(
    eager="an in-place operator (aten::add_.Tensor) on an input that shares memory with another input"
)
def test_interleaved_views_do_not_overlap(compile: Compile) -> Steps:
    f = compile(_add_first_then_multiply)
    for first, second in ((0, 1), (0, 1), (1, 0), (1, 1)):
        a = values(16)
        yield [f(a[first::2], a[second::2]), a]


@scenario
def test_no_mutation_alias_is_fine(compile: Compile) -> Steps:
    f = compile(lambda x, y: x * 2 + y)
    a, b = values(4), values(4, seed=1)
    yield f(a, b)
    yield f(a, b)
    yield f(a, a)
    yield f(a, a.view(4))


@scenario
def test_identity_of_arguments(compile: Compile) -> Steps:
    f = compile(lambda x, y: x + 1 if x is y else x - 1)
    a = values(4)
    yield f(a, a)
    yield f(a, a)
    yield f(a, a.clone())
    yield f(a, a.view_as(a))


@scenario
def test_identity_of_numbers(compile: Compile) -> Steps:
    f = compile(lambda x, p, q: x + 1 if p == q else x - 1)
    yield f(values(4), 1000, 1000)
    yield f(values(4), 1000, 1000)
    yield f(values(4), 1000, 1001)
    yield f(values(4), int("1000"), int("1000"))


@scenario
def test_same_list_twice(compile: Compile) -> Steps:
    def g(xs: list[torch.Tensor], ys: list[torch.Tensor]) -> torch.Tensor:
        xs.append(xs[0] * 2)
        return ys[-1] + len(ys)

    f = compile(g)
    for _ in range(2):
        xs, ys = [values(4)], [values(4, seed=1)]
        yield [f(xs, ys), xs, ys]
    xs = [values(4)]
    yield [f(xs, xs), xs]
    xs, ys = [values(4)], [values(4, seed=1)]
    yield [f(xs, ys), xs, ys]


@scenario
def test_same_dict_twice(compile: Compile) -> Steps:
    def g(d: dict[str, float], e: dict[str, float], x: torch.Tensor) -> torch.Tensor:
        d["k"] = 10.0
        return x * e["k"]

    f = compile(g)
    for _ in range(2):
        d, e = {"k": 1.0}, {"k": 2.0}
        yield [f(d, e, values(4)), d, e]
    d = {"k": 1.0}
    yield [f(d, d, values(4)), d]


@scenario
def test_same_object_twice(compile: Compile) -> Steps:
    class Box:
        def __init__(self, v: float) -> None:
            self.v = v

    def g(a: Box, b: Box, x: torch.Tensor) -> torch.Tensor:
        a.v = 7.0
        return x * b.v

    f = compile(g)
    for _ in range(2):
        a, b = Box(1.0), Box(2.0)
        yield [f(a, b, values(4)), a, b]
    a = Box(1.0)
    yield [f(a, a, values(4)), a]
    a, b = Box(1.0), Box(2.0)
    yield [f(a, b, values(4)), a, b]


@scenario(
    graph_breaks="an in-place operator (aten::mul_.Tensor) on an input that shares memory with another input"
)
def test_tensor_inside_two_containers(compile: Compile) -> Steps:
    def g(xs: list[torch.Tensor], ys: list[torch.Tensor]) -> torch.Tensor:
        xs[0].mul_(2)
        return ys[0] + xs[0]

    f = compile(g)
    for _ in range(2):
        a, b = values(4), values(4, seed=1)
        yield [f([a], [b]), a, b]
    a = values(4)
    yield [f([a], [a]), a]
    a = values(4)
    yield [f([a], [a.view(2, 2).view(4)]), a]


@scenario(
    graph_breaks="an in-place operator (aten::add_.Tensor) on an input that shares memory with another input"
)
def test_argument_is_also_global(compile: Compile) -> Steps:
    w = values(4, seed=1)

    def g(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * w

    f = compile(g)
    yield f(values(4))
    yield f(values(4))
    yield [f(w), w]
    yield [f(w.view(4)), w]
    yield [f(values(4)), w]


@scenario(
    graph_breaks="an in-place operator (aten::mul_.Tensor) on an input that shares memory with another input"
)
def test_argument_is_also_parameter(compile: Compile) -> Steps:
    m = torch.nn.Linear(4, 4)

    def g(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return m(x)

    f = compile(g)
    yield f(values(4, 4))
    yield f(values(4, 4))
    yield [f(m.weight.data), m.weight.data]
    yield [f(m.weight.detach()), m.weight.data]
    yield f(values(4, 4))


@scenario
def test_tied_and_untied_parameters(compile: Compile) -> Steps:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Parameter(values(4), requires_grad=False)
            self.b = torch.nn.Parameter(values(4, seed=1), requires_grad=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.a.add_(1)
            return x * self.b

    m = Net()
    f = compile(m)
    yield f(values(4))
    yield f(values(4))
    m.b = m.a
    yield [f(values(4)), m.a, m.b]
    m.b = torch.nn.Parameter(values(4, seed=2), requires_grad=False)
    yield [f(values(4)), m.a, m.b]


@scenario(
    graph_breaks="an in-place operator (aten::add_.Tensor) on an input whose elements share memory"
)
def test_out_of_views_of_expanded(compile: Compile) -> Steps:
    """Writing through one row of an expanded tensor is an error in eager."""

    def g(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        y[0].add_(1)
        return x * 1

    f = compile(g)
    for _ in range(2):
        a = values(3, 4)
        yield [f(a, a), a]
    a = values(1, 4)
    yield [f(a.expand(3, 4), a), a]


@scenario(
    graph_breaks="an in-place operator (aten::zero_) on an input that shares memory with another input"
)
def test_other_dtype_view_of_same_bytes(compile: Compile) -> Steps:
    def g(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.zero_()
        return y + 1

    f = compile(g)
    for _ in range(2):
        a, b = values(4), values(4, dtype=torch.int32)
        yield [f(a, b), a, b]
    a = values(4)
    yield [f(a, a.view(torch.int32)), a]


@scenario(
    graph_breaks="an in-place operator (aten::add_.Tensor) on an input that shares memory with another input"
)
def test_set_data_makes_alias(compile: Compile) -> Steps:
    f = compile(_add_first_then_multiply)
    for _ in range(2):
        a, b = values(4), values(4, seed=1)
        yield [f(a, b), a, b]
    b.data = a.data
    yield [f(a, b), a, b]


@scenario
def test_output_is_input(compile: Compile) -> Steps:
    f = compile(lambda x, y: (x, y, x))
    a, b = values(4), values(4, seed=1)
    for p, q in ((a, b), (a, b), (a, a), (b, a)):
        out = f(p, q)
        yield [out[0] is p, out[1] is q, out[2] is p, out[0] is out[1]]


@scenario
def test_output_aliases_input(compile: Compile) -> Steps:
    f = compile(lambda x: (x.view(2, 2), x[1:3], x.t() if x.dim() == 2 else x * 1))
    for _ in range(3):
        a = values(4)
        view, part, fresh = f(a)
        view[0, 0] = 100
        part.add_(50)
        fresh.add_(1000)
        yield [a, view, part, fresh, view._is_view(), part._base is a]


@scenario
def test_outputs_alias_each_other(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        return y, y, y.view(2, 2), y[1:]

    f = compile(g)
    for _ in range(3):
        a, b, c, d = f(values(4))
        same = a is b
        d.add_(10)
        yield [same, a, b, c, d]


@scenario
def test_output_not_overwritten(compile: Compile) -> Steps:
    f = compile(lambda x: (torch.relu(x) + 1, (x * 2).sum(0)))
    held = [f(values(4, 4, seed=seed)) for seed in range(5)]
    yield held
    held[0][0].fill_(7)
    yield f(values(4, 4))
    yield held


@scenario
def test_output_fed_back_as_input(compile: Compile) -> Steps:
    f = compile(lambda x: torch.tanh(x) * 2 + x)
    x = values(8)
    for _ in range(5):
        x = f(x)
        yield x


def _update_all(written: list[torch.Tensor], read: list[torch.Tensor]) -> None:
    for tensor in written:
        tensor.mul_(2)
        for other in read:
            tensor.add_(other.sum())


def test_groups_of_written_tensors() -> None:
    """One check for a group decides what a check of each pair would: ranges of memory, gaps included."""
    generator = random.Random(7)
    f = pyjit.compile(_update_all)

    def places(tensors: list[torch.Tensor]) -> list[tuple[int, int]]:
        spans = [
            (t.storage_offset(), (t.size(0) - 1) * t.stride(0) + 1 if t.numel() else 0)
            for t in tensors
        ]
        return [(begin, begin + length) for begin, length in spans]

    def disjoint(a: tuple[int, int], b: tuple[int, int]) -> bool:
        return a[1] <= b[0] or b[1] <= a[0]

    separate = [torch.rand(4) for _ in range(6)]
    with torch.no_grad():
        for _ in range(3):
            f(separate[:3], separate[3:])
    answered = refused = 0
    with torch.no_grad():
        for _ in range(300):
            memory = torch.rand(64)
            expected = memory.clone()
            starts = [generator.randrange(61) for _ in range(6)]
            if generator.random() < 0.7:
                starts = [4 * place for place in generator.sample(range(16), 6)]
            tensors, copies = (
                [m[s : s + 4] for s in starts] for m in (memory, expected)
            )
            spans = places(tensors)
            fine = all(
                disjoint(spans[i], spans[j])
                for i in range(3)
                for j in range(6)
                if i != j
            )
            before = pyjit.stats(f)["hits"]
            f(tensors[:3], tensors[3:])
            _update_all(copies[:3], copies[3:])
            assert torch.equal(memory, expected) or torch.allclose(
                memory, expected, equal_nan=True
            )
            hit = pyjit.stats(f)["hits"] > before
            assert hit == fine, (starts, fine)
            answered += hit
            refused += not hit
    assert answered > 30 and refused > 30, (answered, refused)


@scenario
def test_group_with_empty_tensors(compile: Compile) -> Steps:
    f = compile(_update_all)
    for _ in range(2):
        a = values(8)
        empty = values(0)
        yield [f([a, empty], [values(4), empty]), a, empty]
