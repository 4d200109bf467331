# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A tensor argument changes one property between two calls."""

from __future__ import annotations

import torch
from Integration.harness import Compile, Steps, attempt, scenario, values


@scenario
def test_other_values_hit(compile: Compile) -> Steps:
    f = compile(lambda x, y: torch.relu(x + y) * 2)
    for seed in range(4):
        yield f(values(8, 8, seed=seed), values(8, 8, seed=seed + 10))


@scenario
def test_shape(compile: Compile) -> Steps:
    f = compile(lambda x: (x * 2).sum() / x.shape[0])
    yield f(values(4, 3))
    yield f(values(4, 3, seed=1))
    yield f(values(5, 3))
    yield f(values(4, 3))


@scenario
def test_rank(compile: Compile) -> Steps:
    f = compile(lambda x: x.sum(-1) + 1)
    yield f(values(6, 4))
    yield f(values(6, 4))
    yield f(values(24))
    yield f(values(2, 3, 4))


@scenario
def test_broadcast_dimension_of_one(compile: Compile) -> Steps:
    f = compile(lambda x, y: x * y + 1)
    yield f(values(4, 5), values(4, 5, seed=1))
    yield f(values(4, 5), values(4, 5, seed=1))
    yield f(values(4, 5), values(1, 5, seed=1))
    yield f(values(4, 5), values(5, seed=1))
    yield f(values(4, 1), values(1, 5, seed=1))
    yield f(values(4, 5), values(seed=1))


@scenario
def test_empty(compile: Compile) -> Steps:
    f = compile(lambda x: (torch.relu(x) + 1, x.sum()))
    yield f(values(4, 3))
    yield f(values(4, 3))
    yield f(values(0, 3))
    yield f(values(4, 0))


@scenario
def test_dtype(compile: Compile) -> Steps:
    f = compile(lambda x: x * 2 + 1)
    yield f(values(8))
    yield f(values(8))
    for dtype in (torch.float64, torch.int64, torch.uint8, torch.bool, torch.bfloat16):
        yield f(values(8, dtype=dtype))


@scenario
def test_mixed_dtype_promotion(compile: Compile) -> Steps:
    f = compile(lambda x, y: x + y)
    yield f(values(8), values(8, seed=1))
    yield f(values(8), values(8, seed=1))
    yield f(values(8), values(8, dtype=torch.int32))
    yield f(values(8, dtype=torch.int32), values(8, dtype=torch.int64))
    yield f(values(8, dtype=torch.int64), values(dtype=torch.float32))
    yield f(values(8, dtype=torch.bool), values(8, dtype=torch.bool))


@scenario
def test_zero_dim_promotes_differently(compile: Compile) -> Steps:
    """A 0-d float64 does not promote a float32; a 1-d one does."""
    f = compile(lambda x, y: x * y)
    yield f(values(8), values(dtype=torch.float64))
    yield f(values(8), values(dtype=torch.float64))
    yield f(values(8), values(1, dtype=torch.float64))


@scenario
def test_strides_transposed(compile: Compile) -> Steps:
    f = compile(lambda x: x * 2 + x.sum(0))
    a = values(6, 6)
    yield f(a)
    yield f(a)
    yield f(a.t())
    yield f(a[::2, ::2])


@scenario
def test_stride_seen_by_program(compile: Compile) -> Steps:
    f = compile(lambda x: x + x.stride()[0])
    a = values(4, 4)
    yield f(a)
    yield f(a)
    yield f(a.t())
    yield f(values(4, 8)[:, :4])


@scenario
def test_contiguity_decides_view(compile: Compile) -> Steps:
    """`view` works on one layout and raises on another."""
    f = compile(lambda x: x.view(-1) * 2)
    a = values(4, 4)
    yield f(a)
    yield f(a)
    yield attempt(f, a.t())
    yield f(a)


@scenario
def test_is_contiguous_branch(compile: Compile) -> Steps:
    f = compile(lambda x: x + 1 if x.is_contiguous() else x - 1)
    a = values(4, 4)
    yield f(a)
    yield f(a)
    yield f(a.t())


@scenario
def test_reshape_aliases_or_copies(compile: Compile) -> Steps:
    """reshape of a contiguous tensor aliases it; of a transposed one it does not."""

    def g(x: torch.Tensor) -> torch.Tensor:
        y = x.reshape(16)
        y.add_(1)
        return x * 1

    f = compile(g)
    yield f(values(4, 4))
    yield f(values(4, 4))
    yield f(values(4, 4).t())


@scenario
def test_contiguous_aliases_or_copies(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x.contiguous()
        y.mul_(3)
        return x + y

    f = compile(g)
    yield f(values(4, 4))
    yield f(values(4, 4))
    yield f(values(4, 4).t())
    yield f(values(4, 4))


@scenario(
    captured="late",
    graph_breaks="operator aten::as_strided: it views an input's storage",
)
def test_storage_offset_as_strided(compile: Compile) -> Steps:
    """as_strided counts from the storage's start, not from the tensor's."""
    f = compile(lambda x: torch.as_strided(x, (3,), (1,), 0) * 2)
    a = values(12)
    yield f(a[0:6])
    yield f(a[0:6])
    yield f(a[4:10])


@scenario
def test_storage_offset_value(compile: Compile) -> Steps:
    f = compile(lambda x: x + x.storage_offset())
    a = values(12)
    yield f(a[0:6])
    yield f(a[0:6])
    yield f(a[4:10])


@scenario
def test_misaligned_data(compile: Compile) -> Steps:
    f = compile(lambda x: torch.relu(x) + 1)
    a = values(100)
    yield f(a[0:64])
    yield f(a[0:64])
    for offset in range(1, 9):
        yield f(a[offset : offset + 64])


@scenario
def test_expanded_input(compile: Compile) -> Steps:
    f = compile(lambda x: x * x + 1)
    yield f(values(4, 4))
    yield f(values(4, 4))
    yield f(values(1, 4).expand(4, 4))
    yield f(values(4, 1).expand(4, 4))


@scenario
def test_channels_last(compile: Compile) -> Steps:
    f = compile(lambda x: torch.relu(x) * 2)
    a = values(2, 3, 4, 4)
    yield f(a)
    yield f(a)
    yield f(a.to(memory_format=torch.channels_last))


@scenario
def test_overlapping_rows(compile: Compile) -> Steps:
    f = compile(lambda x: x * 2 + x.sum(1, keepdim=True))
    a = values(20)
    yield f(values(5, 4))
    yield f(values(5, 4))
    yield f(a.unfold(0, 4, 1)[:5])


@scenario(graph_breaks="a tensor with a pending conjugation or negation")
def test_conjugate_bit(compile: Compile) -> Steps:
    f = compile(lambda x: x * (2 + 1j))
    a = values(8, dtype=torch.complex64)
    yield f(a)
    yield f(a)
    yield f(a.conj())


@scenario(graph_breaks="a tensor with a pending conjugation or negation")
def test_negative_bit(compile: Compile) -> Steps:
    f = compile(lambda x: x + 1)
    a = values(8, dtype=torch.complex64)
    yield f(values(16)[::2])
    yield f(values(16)[::2])
    yield f(a.conj().imag)


@scenario(graph_breaks="a tensor that is not strided")
def test_sparse(compile: Compile) -> Steps:
    f = compile(lambda x: (x * 2).to_dense())
    yield attempt(f, values(4, 4))
    yield attempt(f, values(4, 4))
    yield f(torch.eye(4).to_sparse())


@scenario(graph_breaks="a tensor that is neither on the CPU nor on a CUDA device")
def test_meta_device(compile: Compile) -> Steps:
    f = compile(lambda x: x + 1)
    yield f(values(4))
    yield f(values(4))
    yield f(torch.empty(4, device="meta"))


@scenario(grad=True)
def test_requires_grad(compile: Compile) -> Steps:
    f = compile(lambda x: (x * x).sum())
    a = values(4)
    yield f(a)
    yield f(a)
    b = values(4).requires_grad_()
    out = f(b)
    yield out
    out.backward()
    yield b.grad


@scenario(grad=True)
def test_requires_grad_after_compiled(compile: Compile) -> Steps:
    f = compile(lambda x, y: x * y)
    yield f(values(4), values(4, seed=1))
    yield f(values(4), values(4, seed=1))
    w = values(4, seed=1).requires_grad_()
    out = f(values(4), w)
    yield out
    yield out.grad_fn is not None


@scenario
def test_requires_grad_seen_by_program(compile: Compile) -> Steps:
    f = compile(lambda x: x + (1 if x.requires_grad else 2))
    yield f(values(4))
    yield f(values(4))
    yield f(values(4).requires_grad_())


@scenario
def test_parameter_is_tensor_subclass(compile: Compile) -> Steps:
    f = compile(lambda x: isinstance(x, torch.nn.Parameter) and x * 2)
    p = torch.nn.Parameter(values(4), requires_grad=False)
    yield f(p)
    yield f(p)
    yield f(values(4))


@scenario(
    graph_breaks=("a tensor of class Loud", "native function TensorBase.as_subclass")
)
def test_subclass_with_torch_function(compile: Compile) -> Steps:
    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            out = super().__torch_function__(func, types, args, kwargs or {})
            if isinstance(out, torch.Tensor) and func is torch.Tensor.add:
                with torch._C.DisableTorchFunctionSubclass():
                    return out + 100
            return out

    f = compile(lambda x: x.add(1).as_subclass(torch.Tensor) * 1)
    yield f(values(4))
    yield f(values(4))
    yield f(values(4).as_subclass(Loud))


@scenario
def test_tensor_or_scalar(compile: Compile) -> Steps:
    f = compile(lambda x, y: x + y)
    yield f(values(4), values(4, seed=1))
    yield f(values(4), values(4, seed=1))
    yield f(values(4), 3)
    yield f(values(4), 3.5)
    yield f(values(4), True)
    yield attempt(f, values(4), None)


@scenario
def test_attribute_on_tensor(compile: Compile) -> Steps:
    f = compile(lambda x: x * 2 if getattr(x, "flag", False) else x * 3)
    yield f(values(4))
    yield f(values(4))
    a = values(4)
    a.flag = True  # type: ignore[attr-defined]
    yield f(a)
    yield f(values(4))


@scenario
def test_len_and_iteration(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> torch.Tensor:
        total = x[0] * 0
        for row in x:
            total = total + row * len(x)
        return total

    f = compile(g)
    yield f(values(3, 4))
    yield f(values(3, 4, seed=1))
    yield f(values(5, 4))


@scenario(captured="late")
def test_data_dependent_branch(compile: Compile) -> Steps:
    f = compile(lambda x: x + 1 if x.sum() > 0 else x - 1)
    a = values(4).abs()
    yield f(a)
    yield f(a)
    yield f(-a)
    yield f(a)


@scenario
def test_item(compile: Compile) -> Steps:
    f = compile(lambda x, i: x * float(x[i].item()))
    yield f(values(4), 0)
    yield f(values(4, seed=1), 0)
    yield f(values(4, seed=2), 0)


@scenario(graph_breaks="a tensor's data read by Python")
def test_tolist(compile: Compile) -> Steps:
    f = compile(lambda x: x * sum(x.tolist()))
    yield f(values(4))
    yield f(values(4, seed=1))
    yield f(values(4, seed=2))


@scenario(
    graph_breaks=(
        "native function TensorBase.numpy",
        "operator mul of a numpy.ndarray",
        "native function torch._VariableFunctionsClass.from_numpy",
    )
)
def test_numpy_bridge(compile: Compile) -> Steps:
    f = compile(lambda x: torch.from_numpy(x.numpy() * 2) + x)
    yield f(values(4))
    yield f(values(4, seed=1))
    yield f(values(4, seed=2))


@scenario(
    captured="late",
    graph_breaks="the result's shape depends on data",
)
def test_data_dependent_shape(compile: Compile) -> Steps:
    f = compile(lambda x: x[x > 0] * 2)
    yield f(values(8))
    yield f(values(8, seed=1))
    yield f(-values(8).abs())
    yield f(values(8).abs())


@scenario(graph_breaks="the result's shape depends on data")
def test_nonzero_count(compile: Compile) -> Steps:
    f = compile(lambda x: x.nonzero().shape[0] + x.sum())
    yield f(values(8))
    yield f(values(8))
    yield f(torch.relu(values(8)))
    yield f(values(8))
    yield f(torch.relu(values(8)))


@scenario(
    captured="late",
    graph_breaks="operator aten::_local_scalar_dense: its tensor's data flows into Python",
)
def test_index_by_tensor_value(compile: Compile) -> Steps:
    f = compile(lambda x, i: x[i] * 2)
    yield f(values(8), torch.tensor(3))
    yield f(values(8), torch.tensor(3))
    yield f(values(8), torch.tensor(5))
    yield f(values(8), torch.tensor([1, 7]))
    yield attempt(lambda: type(f(values(8), torch.tensor(9))))


@scenario(graph_breaks="an index is out of range: eager answers the call")
def test_index_out_of_range_raises(compile: Compile) -> Steps:
    table = values(5, 3)
    f = compile(lambda i: torch.nn.functional.embedding(i, table) + 1)
    yield f(torch.tensor([0, 4]))
    yield f(torch.tensor([1, 2]))
    yield isinstance(_error(f, torch.tensor([0, 5])), IndexError)
    yield isinstance(_error(f, torch.tensor([0, -1])), IndexError)
    yield f(torch.tensor([3, 3]))


def _error(f, *args):  # type: ignore[no-untyped-def]
    try:
        f(*args)
    except Exception as error:
        return error
    return None


@scenario(graph_breaks="tensor attribute _version")
def test_version_counter(compile: Compile) -> Steps:
    def g(x: torch.Tensor) -> int:
        x.add_(1)
        return x._version

    f = compile(g)
    a = values(4)
    yield [f(a), f(a), f(a)]


@scenario(graph_breaks="native function TensorBase.data_ptr")
def test_data_pointer(compile: Compile) -> Steps:
    f = compile(lambda x, y: x + (1 if x.data_ptr() == y.data_ptr() else 2))
    a = values(4)
    yield f(a, a)
    yield f(a, a)
    yield f(a, a.clone())


@scenario
def test_grad_attribute(compile: Compile) -> Steps:
    f = compile(lambda x: x + 1 if x.grad is None else x.grad)
    a = values(4).requires_grad_()
    yield f(a)
    yield f(a)
    a.grad = values(4, seed=5)
    yield f(a)


@scenario
def test_unhashable_symbols(compile: Compile) -> Steps:
    f = compile(lambda x: x * x.numel() + x.dim() + x.element_size())
    yield f(values(4))
    yield f(values(4))
    yield f(values(2, 2))
    yield f(values(4, dtype=torch.float64))
