# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Values computed from parameters are kept; every way to write a parameter must be noticed.

Each door is one way to reach a parameter's memory, most of them past the version counter. It
returns an alias that the tests may keep, and writes one element through it.
"""

from __future__ import annotations

import copy
import ctypes
import io
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from Integration.harness import values
from torch import nn

pyjit = pytest.importorskip("pyjit", exc_type=ImportError)

SIZE = 96
Door = Callable[[torch.Tensor], Any]
Write = Callable[[Any, int, float], None]


def at_index(alias: Any, index: int, value: float) -> None:
    alias.reshape(-1)[index] = value


def at_raw_storage(alias: torch.UntypedStorage, index: int, value: float) -> None:
    for i, byte in enumerate(numpy.float32(value).tobytes()):
        alias[4 * index + i] = byte


def set_to(source: torch.Tensor) -> torch.Tensor:
    return torch.empty(0).set_(source.detach())


def of_storage(source: torch.Tensor) -> torch.Tensor:
    storage = source.detach().untyped_storage()
    return torch.empty(0).set_(storage, 0, source.shape, source.stride())


def of_typed_storage(source: torch.Tensor) -> Any:
    torch.storage._reset_warn_typed_storage_removal()
    with pytest.warns(UserWarning, match="TypedStorage"):
        return source.detach().storage()


def at_storage_index(alias: Any, index: int, value: float) -> None:
    alias[index] = value


def raw_address(source: torch.Tensor) -> Any:
    """As a program that takes the address where it uses it."""
    return lambda: ctypes.cast(source.data_ptr(), ctypes.POINTER(ctypes.c_float))


def at_address(alias: Any, index: int, value: float) -> None:
    alias()[index] = value


def within(guard: Callable[..., Any]) -> tuple[Door, Write]:
    def write(source: torch.Tensor, index: int, value: float) -> None:
        with guard(source):
            source.view(-1)[index] = value

    return (lambda source: source), write


def by(operate: Callable[[torch.Tensor, torch.Tensor], Any]) -> tuple[Door, Write]:
    """A dispatcher operator given a difference that is zero but for one element."""

    def write(source: torch.Tensor, index: int, value: float) -> None:
        difference = torch.zeros(source.numel())
        difference[index] = value - float(source.view(-1)[index])
        operate(source, difference.view_as(source))

    return (lambda source: source), write


def through_inference(source: torch.Tensor, index: int, value: float) -> None:
    with torch.inference_mode():
        source.view(-1)[index] = value


def no_counting(source: torch.Tensor) -> Any:
    return torch.autograd._unsafe_preserve_version_counter(source)


def below_counting(source: torch.Tensor) -> Any:
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)
    return torch._C._ExcludeDispatchKeyGuard(keys)


def reset_counter(source: torch.Tensor, index: int, value: float) -> None:
    version = source._version
    source.view(-1)[index] = value
    torch._C._autograd._unsafe_set_version_counter((source,), (version,))


@torch.jit.script
def scripted(source: torch.Tensor, index: int, value: float) -> None:
    source.data.view(-1)[index] = value


def fused_adam(source: torch.Tensor, index: int, value: float) -> None:
    gradient = torch.zeros(source.numel())
    gradient[index] = float(source.view(-1)[index]) - value
    state = [torch.zeros_like(source)], [torch.zeros_like(source)]
    step = [torch.tensor(1.0)]
    torch._fused_adam_(
        [source], [gradient.view_as(source)], *state, [], step,
        lr=abs(float(gradient[index])), beta1=0.0, beta2=0.0, weight_decay=0.0,
        eps=1e-12, amsgrad=False, maximize=False,
    )  # fmt: skip


DOORS: dict[str, tuple[Door, Write]] = {
    "itself": (lambda p: p, at_index),
    "data": (lambda p: p.data, at_index),
    "data of data": (lambda p: p.data.data, at_index),
    "detach": (lambda p: p.detach(), at_index),
    "data view": (lambda p: p.data.mT, lambda a, i, v: at_index(a.mT, i, v)),
    "numpy": (lambda p: p.detach().numpy(), at_index),
    "numpy of data": (lambda p: p.data.numpy(), at_index),
    "asarray": (lambda p: numpy.asarray(p.detach()), at_index),
    "numpy flat view": (lambda p: p.detach().numpy().reshape(-1), at_index),
    "memoryview": (
        lambda p: memoryview(p.detach().numpy().reshape(-1)),
        at_storage_index,
    ),
    "numpy from dlpack": (
        lambda p: torch.from_numpy(numpy.from_dlpack(p.detach())),
        at_index,
    ),
    "torch from dlpack": (lambda p: torch.from_dlpack(p.detach()), at_index),
    "dlpack capsule": (
        lambda p: torch.utils.dlpack.from_dlpack(
            torch.utils.dlpack.to_dlpack(p.detach())
        ),
        at_index,
    ),
    "untyped storage": (lambda p: p.untyped_storage(), at_raw_storage),
    "typed storage": (of_typed_storage, at_storage_index),
    "tensor on storage": (of_storage, at_index),
    "set_": (set_to, at_index),
    "_unsafe_view": (
        lambda p: torch.ops.aten._unsafe_view(p.detach(), [p.numel()]),
        at_index,
    ),
    "as_strided of data": (
        lambda p: p.data.as_strided((p.numel(),), (1,)),
        at_index,
    ),
    "Parameter of data": (lambda p: nn.Parameter(p.data), at_index),
    "legacy constructor": (lambda p: torch.Tensor(p.detach()), at_index),
    "shallow copy": (lambda p: copy.copy(p.detach()), at_index),
    "raw address": (raw_address, at_address),
    "scripted": (lambda p: p, scripted),
    "inference mode": (lambda p: p, through_inference),
    "inference mode data": (lambda p: p.data, through_inference),
    "preserved version counter": within(no_counting),
    "below ADInplaceOrView": within(below_counting),
    "version counter set back": (lambda p: p, reset_counter),
    "add_": by(lambda p, d: p.add_(d)),
    "copy_": by(lambda p, d: p.copy_(p + d)),
    "out=": by(lambda p, d: torch.add(p.detach(), d, out=p)),
    "out= of data": by(lambda p, d: torch.add(p.data, d, out=p.data)),
    "foreach": by(lambda p, d: torch._foreach_add_([p], [d])),
    "foreach on data": by(lambda p, d: torch._foreach_add_([p.data], [d])),
    "foreach copy": by(lambda p, d: torch._foreach_copy_([p], [p + d])),
    "fused adam": (lambda p: p, fused_adam),
    "fused adam on data": (lambda p: p.data, fused_adam),
}


def layer(kind: str) -> tuple[nn.Module, torch.Tensor]:
    """A module whose weight is packed, and an input."""
    torch.manual_seed(0)
    if kind == "linear":
        return nn.Linear(SIZE, SIZE).eval(), values(64, SIZE)
    conv = nn.Conv2d(8, 16, 3, padding=1, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(16)).eval(), values(2, 8, 12, 12)


def weight_of(module: nn.Module) -> torch.Tensor:
    return module.weight if isinstance(module, nn.Linear) else module[0].weight  # type: ignore


def hits(compiled: Any) -> int:
    return pyjit.stats(compiled)["hits"]


def check(module: nn.Module, compiled: Any, x: torch.Tensor) -> None:
    """The compiled answer is the eager one, and a compiled one it is."""
    before = hits(compiled)
    have = compiled(x)
    assert hits(compiled) == before + 1, pyjit.stats(compiled)["reasons"]
    torch.testing.assert_close(have, module(x), rtol=1e-4, atol=1e-4)


@pytest.fixture(autouse=True)
def no_grad() -> Any:
    with torch.no_grad():
        yield


@pytest.mark.parametrize("keep", [True, False], ids=["kept", "dropped"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", ["linear", "conv"])
def test_write_of_one_element(kind: str, door: str, when: str, keep: bool) -> None:
    """Through an alias that exists before the first call or comes later, kept or dropped."""
    module, x = layer(kind)
    compiled = pyjit.compile(module)
    open_door, write = DOORS[door]
    weight = weight_of(module)
    alias = open_door(weight) if when == "before" else None
    if not keep:
        alias = None
    compiled(x)
    check(module, compiled, x)
    specialization = pyjit.specializations(compiled)[0]
    assert specialization["prepared"] > 0
    for value, index in enumerate([0, weight.numel() - 1, weight.numel() // 2 + 1]):
        if alias is None:
            alias = open_door(weight)
        write(alias, index, 30.0 + value)
        if not keep:
            alias = None
        assert float(weight.reshape(-1)[index]) == pytest.approx(30.0 + value)
        check(module, compiled, x)
        check(module, compiled, x)


@pytest.mark.parametrize("door", ["data", "numpy", "foreach", "untyped storage"])
def test_many_writes(door: str) -> None:
    """Barriers that are crossed often give way to hashes, and come back."""
    module, x = layer("linear")
    compiled = pyjit.compile(module)
    open_door, write = DOORS[door]
    compiled(x)
    for index in range(8):
        write(open_door(module.weight), index * 7, 5.0 + index)
        check(module, compiled, x)
    for _ in range(40):
        check(module, compiled, x)
    assert pyjit.specializations(compiled)[0]["hashed"] == (1 if door == "numpy" else 0)
    write(open_door(module.weight), 11, -20.0)
    check(module, compiled, x)


def test_quiet_parameters_are_not_hashed() -> None:
    module, x = layer("conv")
    compiled = pyjit.compile(module)
    for _ in range(3):
        compiled(x)
        module(x)
    specialization = pyjit.specializations(compiled)[0]
    assert specialization["prepared"] == 5
    assert specialization["hashed"] == 0


def test_two_functions_share_a_weight() -> None:
    """One that packs the weight again must not hide the write from the other."""
    module, x = layer("linear")
    functions = [pyjit.compile(lambda x, k=k: module(x) * k) for k in (1.0, 2.0, 3.0)]
    for f in functions:
        f(x)
        f(x)
    for index in range(12):
        module.weight.data.view(-1)[index * 5] = 9.0
        for k, f in enumerate(functions[index % 3 :], index % 3):
            torch.testing.assert_close(
                f(x), module(x) * (k + 1.0), rtol=1e-4, atol=1e-3
            )
        for k, f in enumerate(functions):
            torch.testing.assert_close(
                f(x), module(x) * (k + 1.0), rtol=1e-4, atol=1e-3
            )


def foreign(array: numpy.ndarray) -> nn.Module:
    module = nn.Linear(SIZE, SIZE).eval()
    module.weight = nn.Parameter(torch.from_numpy(array), requires_grad=False)
    return module


def test_memory_of_numpy() -> None:
    """Nothing reports writes to memory that is not PyTorch's."""
    array = values(SIZE, SIZE).numpy()
    module, x = foreign(array), values(64, SIZE)
    compiled = pyjit.compile(module)
    compiled(x)
    for index in (0, SIZE * SIZE - 1, 4711):
        array.reshape(-1)[index] = 40.0
        check(module, compiled, x)
        check(module, compiled, x)
    assert pyjit.specializations(compiled)[0]["hashed"] == 1
    assert "1 of 1 packed parameters are hashed" in pyjit.explain(compiled)(x)
    module.weight.data = module.weight.data.clone()
    for _ in range(20):
        check(module, compiled, x)
    assert pyjit.specializations(compiled)[0]["hashed"] == 0


def test_shared_memory() -> None:
    module, x = layer("linear")
    module.share_memory()
    compiled = pyjit.compile(module)
    compiled(x)
    check(module, compiled, x)
    module.weight.data.view(-1)[17] = 40.0
    check(module, compiled, x)
    assert pyjit.specializations(compiled)[0]["hashed"] >= 1


def test_shared_later() -> None:
    module, x = layer("linear")
    compiled = pyjit.compile(module)
    compiled(x)
    check(module, compiled, x)
    module.share_memory()
    assert module.weight.is_shared()
    check(module, compiled, x)
    module.weight.data.view(-1)[17] = 40.0
    check(module, compiled, x)


def test_memory_from_a_buffer() -> None:
    buffer = bytearray(values(SIZE * SIZE).numpy().tobytes())
    module, x = layer("linear")
    module.weight.data = torch.frombuffer(buffer, dtype=torch.float32).view(SIZE, SIZE)
    compiled = pyjit.compile(module)
    compiled(x)
    for index in (0, SIZE * SIZE - 1, 4711):
        buffer[4 * index : 4 * index + 4] = numpy.float32(40.0).tobytes()
        check(module, compiled, x)


def test_one_flat_storage() -> None:
    """Parameters that are views of one buffer, written through the buffer."""
    flat = values(2 * SIZE * SIZE)
    module, x = (
        nn.Sequential(nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)),
        values(64, SIZE),
    )
    for i, child in enumerate(module):
        child.weight.data = flat[i * SIZE * SIZE :][: SIZE * SIZE].view(SIZE, SIZE)
    compiled = pyjit.compile(module.eval())
    compiled(x)
    for index in (0, SIZE * SIZE - 1, SIZE * SIZE, 2 * SIZE * SIZE - 1):
        flat[index] = 40.0
        check(module, compiled, x)


def test_swapped_and_replaced() -> None:
    module, x = layer("linear")
    compiled = pyjit.compile(module)
    compiled(x)
    check(module, compiled, x)
    torch.utils.swap_tensors(module.weight, nn.Parameter(values(SIZE, SIZE, seed=1)))
    check(module, compiled, x)
    module.weight.data = values(SIZE, SIZE, seed=2)
    check(module, compiled, x)
    module.weight.set_(values(SIZE, SIZE, seed=3))
    check(module, compiled, x)
    module.weight.untyped_storage().copy_(values(SIZE, SIZE, seed=4).untyped_storage())
    check(module, compiled, x)
    both = values(2, SIZE, SIZE, seed=5)
    module.weight.data = both[0]
    check(module, compiled, x)
    module.weight.data = both[1]
    check(module, compiled, x)


def test_resized_storage() -> None:
    module, x = layer("linear")
    compiled = pyjit.compile(module)
    compiled(x)
    check(module, compiled, x)
    storage = module.weight.untyped_storage()
    size = storage.nbytes()
    storage.resize_(0)
    storage.resize_(size)
    module.weight.data.copy_(values(SIZE, SIZE, seed=6))
    check(module, compiled, x)


def test_inference_tensors() -> None:
    """They have no version counter at all."""
    module, x = layer("linear")
    with torch.inference_mode():
        module.weight = nn.Parameter(values(SIZE, SIZE).clone(), requires_grad=False)
        compiled = pyjit.compile(module)
        compiled(x)
        for index in (0, SIZE * SIZE - 1, 4711):
            module.weight.view(-1)[index] = 40.0
            check(module, compiled, x)


def test_training_between_calls() -> None:
    module, x = layer("linear")
    compiled = pyjit.compile(module)
    for optimizer in (
        torch.optim.SGD(module.parameters(), lr=0.1, foreach=True),
        torch.optim.Adam(module.parameters(), lr=0.1, fused=True),
        torch.optim.AdamW(module.parameters(), lr=0.1, foreach=False),
    ):
        for _ in range(3):
            compiled(x)
            with torch.enable_grad():
                module(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-3)
    check(module, compiled, x)


def test_marks_are_invisible() -> None:
    """What a program may ask of a parameter is as it was."""
    module, x = layer("linear")
    address = module.weight.data_ptr()
    compiled = pyjit.compile(module)
    compiled(x)
    check(module, compiled, x)
    twin = copy.deepcopy(module)
    twin.weight.data.zero_()
    check(module, compiled, x)
    assert module.weight.data_ptr() == address
    module.weight.data.view(-1)[3] = 7.0
    assert module.weight.data_ptr() == address
    check(module, compiled, x)
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    assert torch.equal(torch.load(file)["weight"], module.weight)
    assert not module.weight.is_shared()
    check(module, compiled, x)


def test_lazy_clones() -> None:
    """PyTorch's own use of copy-on-write storages on a marked one."""
    module, x = layer("linear")
    compiled = pyjit.compile(module)
    compiled(x)
    check(module, compiled, x)
    clone = torch._lazy_clone(module.weight)
    check(module, compiled, x)
    clone.view(-1)[5] = 50.0
    assert float(module.weight.view(-1)[5]) != 50.0
    check(module, compiled, x)
    clone = torch._lazy_clone(module.weight)
    module.weight.data.view(-1)[6] = 50.0
    assert float(clone.view(-1)[6]) != 50.0
    check(module, compiled, x)
