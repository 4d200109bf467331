# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packed weights that several specializations keep once: same operations, same memory, same contents.

Whatever happens to a weight, each specialization has to go on with what the weight holds.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from Integration.harness import values
from torch import nn

pyjit = pytest.importorskip("pyjit", exc_type=ImportError)

SIZE = 96
SMALL, LARGE = 4, 6
"""Rows for which a weight is packed in the same way on any processor."""


@pytest.fixture(autouse=True)
def no_grad() -> Any:
    with torch.no_grad():
        yield


class Model(nn.Module):
    """Its weights are packed (linear), folded (batch norm) and computed with (the scale)."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first = nn.Linear(SIZE, SIZE)
        self.second = nn.Linear(SIZE, SIZE)
        self.scale = nn.Parameter(torch.rand(SIZE))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).relu()) * torch.exp(self.scale)


def inputs(rows: int) -> torch.Tensor:
    return values(rows, SIZE)


def compile_apart(model: Callable[..., Any], **options: Any) -> Any:
    """Each number of rows is a specialization of its own."""
    return pyjit.compile(
        model, dynamic=False, options={"compare_with_eager": False, **options}
    )


def check(
    model: Callable[..., Any], *compiled: Any, rows: Any = (SMALL, LARGE)
) -> None:
    """Answers of compiled code are eager's."""
    for f in compiled:
        for count in rows:
            x = inputs(count)
            torch.testing.assert_close(f(x), model(x), rtol=1e-4, atol=1e-4)


def settle(model: Callable[..., Any], *compiled: Any) -> None:
    """Every specialization exists and has its packed weights."""
    for _ in range(3):
        check(model, *compiled)
    for f in compiled:
        assert all(r["hits"] and r["prepared"] for r in pyjit.specializations(f))


def memory(*compiled: Any) -> tuple[int, int]:
    """Bytes of packed weights, and what they would be if nothing were shared."""
    known = [r for f in compiled for r in pyjit.specializations(f)]
    alone = sum(r["packed_weight_bytes"] for r in known)
    if len(compiled) > 1:
        return alone - sum(r["shared_weight_bytes"] for r in known), alone
    return pyjit.stats(compiled[0])["packed_weight_bytes"], alone


def shared(compiled: Any) -> list[int]:
    return [r["shared_weight_bytes"] for r in pyjit.specializations(compiled)]


def test_two_sizes() -> None:
    model = Model().eval()
    compiled = compile_apart(model)
    settle(model, compiled)
    together, alone = memory(compiled)
    assert len(pyjit.specializations(compiled)) == 2
    assert together >= 4 * (2 * SIZE * SIZE + SIZE)
    assert alone == 2 * together
    assert sorted(shared(compiled)) == [0, together]
    assert "packed weights" not in str(pyjit.explain(compiled))  # less than 1 MB


def test_explain() -> None:
    """A report of several graphs counts what they share once."""
    model = nn.Linear(1024, 512).eval()
    compiled = compile_apart(model)
    for _ in range(3):
        for rows in (SMALL, LARGE):
            x = values(rows, 1024)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
    assert "packed weights: 2.1 MB beside the model's own" in str(
        pyjit.explain(compiled)
    )


def test_two_functions() -> None:
    model = Model().eval()
    functions = [compile_apart(lambda x: model(x)), compile_apart(model.forward)]
    settle(model, *functions)
    assert [sum(shared(f)) > 0 for f in functions] == [True, True]
    alone = [memory(f)[0] for f in functions]
    assert alone[0] == alone[1]


def test_opaque_values() -> None:
    """A library's packed, folded convolution: of the same image size."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()
    ).eval()
    model[1].running_mean.add_(0.5)
    functions = [compile_apart(model), compile_apart(lambda x: model(x))]
    x = values(2, 8, 12, 12)
    for write in (
        lambda: None,
        lambda: model[0].weight.data.mul_(2),
        lambda: model[1].running_var.add_(1),
        lambda: setattr(model[0].bias, "data", torch.full((16,), 3.0)),
    ):
        write()
        for f in functions * 2:
            for _ in range(2):
                torch.testing.assert_close(f(x), model(x), rtol=1e-3, atol=1e-3)
        together, alone = memory(*functions)
        assert alone == 2 * together > 0
    functions.pop(0)
    gc.collect()
    for f in functions:
        torch.testing.assert_close(f(x), model(x), rtol=1e-3, atol=1e-3)


def test_another_computation() -> None:
    """From the same memory, but not the same values."""
    model = Model().eval()

    def square(x: torch.Tensor) -> torch.Tensor:
        return x * torch.square(model.scale)

    def grow(x: torch.Tensor) -> torch.Tensor:
        return x * torch.exp(model.scale)

    def shrink(x: torch.Tensor) -> torch.Tensor:
        return x * torch.exp(-model.scale)

    for f in (square, grow, shrink):
        compiled = compile_apart(f)
        settle(f, compiled)
        assert sorted(shared(compiled)) == [0, 4 * SIZE]


def test_other_operands() -> None:
    """The same operation on weights of one shape, and on them the other way round."""
    a, b = (nn.Parameter(values(SIZE) + k) for k in (1, 3))
    functions = [
        lambda x: x * (a - b),
        lambda x: x * (b - a),
        lambda x: x * (a - a),
        lambda x: x * (b - b),
    ]
    compiled = [compile_apart(f) for f in functions]
    for f, g in zip(functions, compiled, strict=True):
        settle(f, g)
    a.data[3] = 40.0
    for f, g in zip(functions, compiled, strict=True):
        check(f, g)
    assert all(0 < sum(shared(g)) <= 4 * SIZE for g in compiled)


class Scaled(nn.Module):
    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :1] * torch.exp(self.weight)[..., : SIZE // 2].sum(0)


def test_views_of_one_storage() -> None:
    """Parts of one buffer: the same storage, other elements; or one address and shape, and other strides."""
    buffer = values(3, SIZE, SIZE)
    views = [
        buffer[0],
        buffer[1],
        buffer[2].mT,
        buffer[1].mT,
        buffer[0:1, 0],
        buffer[:1, :, 0],
    ]
    models = [Scaled(view) for view in views]
    compiled = [compile_apart(m) for m in models]
    for _ in range(3):
        for m, g in zip(models, compiled, strict=True):
            settle(m, g)
        buffer[1] += 1.0


def test_some_are_shared() -> None:
    """The second function packs what the first has not, in any combination."""
    weights = [nn.Parameter(values(SIZE, SIZE) + k) for k in range(3)]
    a, b, c = weights
    parts: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: nn.functional.linear(x, a),
        lambda x: nn.functional.linear(x, b, c[0]),
        lambda x: x * torch.exp(c).sum(0),
        lambda x: x + torch.cat([a, b]).softmax(0)[3],
        lambda x: x * (a @ b).mean(1),
        lambda x: x - (torch.sin(a) + torch.cos(c)).amax(0),
        lambda x: nn.functional.linear(x, torch.stack([a, c]).sum(0)[: SIZE // 2]).mean(),
        lambda x: x * torch.cumsum(b, 0)[-1] + torch.cumsum(b, 0)[0],
        lambda x: x * (a[3:40].mT @ b[3:40]).mean(1),
        lambda x: x + torch.linalg.inv(c[:SIZE] + 99 * torch.eye(SIZE))[5] + c[7:9].cumsum(1)[1],
        lambda x: x - torch.sort(b[1:].mT, 1)[0][:, 4] - torch.sort(b[1:].mT, 1)[1][:, 3],
    ]  # fmt: skip
    chosen = [
        (0, 2), (2, 3), (0, 1, 5), (8, 9), (4, 6), (1, 3, 4, 7), (8, 10), (5, 6, 7),
        (9, 10, 0), (10,), range(11),
    ]  # fmt: skip

    def joined(which: Any) -> Callable[[torch.Tensor], torch.Tensor]:
        taken = [parts[k] for k in which]

        def f(x: torch.Tensor) -> torch.Tensor:
            total = torch.zeros(())
            for part in taken:
                total = total + part(x)
            return total

        return f

    functions = [joined(which) for which in chosen]
    compiled = [compile_apart(f) for f in functions]
    for write in (lambda: None, lambda: b.data.mul_(1.5), lambda: a.data.add_(0.1)):
        write()
        for f, g in zip(functions, compiled, strict=True):
            for _ in range(3):
                for rows in (SMALL, LARGE):
                    x = inputs(rows)
                    torch.testing.assert_close(g(x), f(x), rtol=1e-3, atol=1e-2)
    assert 0 < min(sum(shared(g)) for g in compiled)
    together, alone = memory(*compiled)
    assert together < 0.4 * alone


def test_shared_values_are_not_computed() -> None:
    """The first call of a second specialization launches no kernel more than later calls do."""
    model = Model().eval()

    def launches(f: Any) -> int:
        with torch.profiler.profile() as profile:
            f(inputs(SMALL))
        return sum(e.name.startswith("pyjit::") for e in profile.events())

    def more(x: torch.Tensor) -> torch.Tensor:
        return model(x) * torch.sin(model.scale)

    counts = []
    for f in (model, lambda x: model(x), more):
        compiled = compile_apart(f)
        compiled(inputs(SMALL))
        counts.append(launches(compiled) - launches(compiled))
        del compiled
        gc.collect()
    kept = compile_apart(model)
    settle(model, kept)
    for f in (lambda x: model(x), more):
        compiled = compile_apart(f)
        compiled(inputs(SMALL))
        counts.append(launches(compiled) - launches(compiled))
    assert counts[0] >= 2
    assert counts[0] == counts[1]
    assert counts[3:] == [0, 1]


WRITES: dict[str, Callable[[Model], Any]] = {
    "in place": lambda m: m.first.weight.add_(0.5),
    "one element of data": lambda m: m.second.weight.data.view(-1).__setitem__(7, 9.0),
    "numpy": lambda m: m.scale.detach().numpy().__setitem__(5, 2.0),
    "replaced data": lambda m: setattr(m.first.weight, "data", values(SIZE, SIZE) + 1),
    "replaced parameter": lambda m: setattr(
        m, "scale", nn.Parameter(values(SIZE).abs() + 1)
    ),
    "load_state_dict": lambda m: m.load_state_dict(Model(7).state_dict()),
    "load_state_dict, assigned": lambda m: m.load_state_dict(
        Model(8).state_dict(), assign=True
    ),
    "swapped": lambda m: torch.utils.swap_tensors(
        m.first.weight, nn.Parameter(values(SIZE, SIZE) - 1)
    ),
    "storage": lambda m: m.first.weight.untyped_storage().copy_(
        (values(SIZE, SIZE) + 2).untyped_storage()
    ),
    "set_": lambda m: m.second.weight.set_(values(SIZE, SIZE) + 3),
    "exchanged": lambda m: (
        setattr(m.first.weight, "data", m.second.weight.data),
        setattr(m.second.weight, "data", values(SIZE, SIZE)),
    ),
}


@pytest.mark.parametrize("first", ["small", "large"])
@pytest.mark.parametrize("write", WRITES)
def test_writes_between_calls(write: str, first: str) -> None:
    """Seen by all who share, whoever is called first, and shared again."""
    model = Model().eval()
    compiled, other = compile_apart(model), compile_apart(lambda x: model(x))
    settle(model, compiled, other)
    rows = (SMALL, LARGE) if first == "small" else (LARGE, SMALL)
    for _ in range(3):
        WRITES[write](model)
        check(model, compiled, other, rows=rows)
        check(model, compiled, other, rows=rows)
    if write != "numpy":  # leaves memory that has to be hashed; shared by its hash
        together, alone = memory(compiled)
        assert alone <= 2.2 * together


def test_write_between_the_two_first_calls() -> None:
    """The second specialization may not take what was packed before the write."""
    model = Model().eval()
    compiled = compile_apart(model)
    for _ in range(3):
        check(model, compiled, rows=[SMALL])
    model.first.weight.data.view(-1)[11] = 20.0
    for _ in range(3):
        check(model, compiled, rows=[LARGE])
    check(model, compiled)
    together, alone = memory(compiled)
    assert alone == 2 * together


def test_only_one_is_called_after_a_write() -> None:
    """The other one's values are those of old contents, and nobody takes them."""
    model = Model().eval()
    compiled = compile_apart(model)
    settle(model, compiled)
    old = model.first.weight.clone()
    model.first.weight.add_(1.0)
    check(model, compiled, rows=[SMALL])
    model.first.weight.copy_(old)
    check(model, compiled, rows=[SMALL])
    check(model, compiled, rows=[LARGE])
    third = compile_apart(lambda x: model(x))
    settle(model, third)
    check(model, compiled, third)


@pytest.mark.parametrize("dropped", [0, 1])
def test_one_is_dropped(dropped: int) -> None:
    """What is left keeps the values; with the last one they go."""
    model = Model().eval()
    functions: list[Any] = [compile_apart(model), compile_apart(lambda x: model(x))]
    settle(model, *functions)
    before = memory(functions[1 - dropped])[0]
    functions[dropped] = None
    gc.collect()
    left = functions[1 - dropped]
    check(model, left)
    assert memory(left)[0] == before
    third = compile_apart(lambda x: model(x) + 0)
    for _ in range(3):
        check(model, third)
    assert all(shared(third))
    functions.clear()
    del left, third
    gc.collect()
    fresh = compile_apart(model)
    for _ in range(3):
        check(model, fresh, rows=[SMALL])
    assert shared(fresh) == [0]


def test_equal_weights_of_two_models() -> None:
    """One of them may be written alone: they share nothing."""
    models = [Model(3).eval(), Model(3).eval()]
    compiled = [compile_apart(m) for m in models]
    for m, f in zip(models, compiled, strict=True):
        for _ in range(3):
            check(m, f, rows=[SMALL])
    assert [sum(shared(f)) for f in compiled] == [0, 0]
    models[0].first.weight.data.fill_(0.25)
    for m, f in zip(models, compiled, strict=True):
        check(m, f)


def test_memory_that_is_used_again() -> None:
    """A new model's weights may lie where a dead one's were."""
    for seed in range(6):
        model = Model(seed).eval()
        compiled = compile_apart(model)
        settle(model, compiled)
        del model, compiled
        gc.collect()


def test_foreign_memory_is_shared_by_its_hash() -> None:
    """Mapped files, NumPy's arrays: nothing reports their writes."""
    model = Model().eval()
    arrays = [values(SIZE, SIZE).numpy(), values(SIZE, SIZE).numpy()]
    for module, array in zip((model.first, model.second), arrays, strict=True):
        module.weight = nn.Parameter(torch.from_numpy(array), requires_grad=False)
    compiled = compile_apart(model)
    settle(model, compiled)
    together, alone = memory(compiled)
    assert alone == 2 * together
    for index in (0, SIZE * SIZE - 1, 17):
        arrays[0].reshape(-1)[index] = 40.0
        check(model, compiled, rows=[LARGE, SMALL])
        check(model, compiled)
    # Back to what was hashed at first.
    arrays[1].reshape(-1)[3] += 8.0
    check(model, compiled, rows=[SMALL])
    arrays[1].reshape(-1)[3] -= 8.0
    check(model, compiled, rows=[LARGE])
    check(model, compiled)
    for module in (model.first, model.second):  # PyTorch's now
        module.weight.data = module.weight.data.clone()
    for _ in range(20):
        check(model, compiled)
    third = compile_apart(lambda x: model(x))
    settle(model, third)
    assert all(shared(third))


def test_many_writes() -> None:
    """Barriers give way to hashes in one of them, and come back."""
    model = Model().eval()
    compiled = compile_apart(model)
    settle(model, compiled)
    for index in range(8):
        model.first.weight.data.view(-1)[index] = 5.0 + index
        check(model, compiled, rows=[SMALL] if index % 3 else [LARGE, SMALL])
    for _ in range(40):
        check(model, compiled)
    model.first.weight.data.view(-1)[11] = -20.0
    check(model, compiled)
    check(model, compiled)
    together, alone = memory(compiled)
    assert alone == 2 * together


def test_inference_mode() -> None:
    """Values of one mode are no tensors of the other."""
    model = Model().eval()
    compiled = compile_apart(model)
    with torch.inference_mode():
        for _ in range(3):
            check(model, compiled, rows=[SMALL])
    settle(model, compiled)
    with torch.enable_grad():
        for _ in range(3):
            x = inputs(SMALL).requires_grad_()
            have, want = (
                torch.autograd.grad(f(x).sum(), x)[0] for f in (compiled, model)
            )
            torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-4)


def test_depth_and_rounding_are_apart() -> None:
    """Programs that are compiled in another way compute values of their own."""
    model = Model().eval().to(torch.bfloat16)

    def grow(x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.bfloat16) * torch.sqrt(torch.exp(model.scale) + 1)

    kept = []
    for options in ({}, {"eager_rounding": True}, {"depth": "kernels"}):
        compiled = compile_apart(grow, **options)
        for _ in range(3):
            x = inputs(SMALL)
            torch.testing.assert_close(compiled(x), grow(x), rtol=2e-2, atol=2e-2)
        assert shared(compiled) == [0]
        assert memory(compiled)[0] == 2 * SIZE
        kept.append(compiled)


def test_trained_weights() -> None:
    """Weights that require grad, once they are kept, are shared with those of calls without gradients."""
    model = Model().eval()
    compiled, trained = compile_apart(model), compile_apart(model)
    for _ in range(3):
        check(model, compiled, rows=[SMALL])
    with torch.enable_grad():
        for _ in range(16):
            check(model, trained, rows=[SMALL])
        assert pyjit.specializations(trained)[0]["prepared"]
        model.first.weight.data.view(-1)[3] = 30.0
        check(model, trained, rows=[SMALL])
    check(model, compiled)
    with torch.enable_grad():
        check(model, trained)


def test_threads() -> None:
    """All at once, from the first packing on; then a write, and again."""
    model = Model().eval()
    functions = [compile_apart(model), compile_apart(lambda x: model(x))]
    for f in functions:
        for rows in (SMALL, LARGE):
            f(inputs(rows))
    wrong: list[Any] = []

    def call(f: Any, rows: int, start: threading.Barrier) -> None:
        x = inputs(rows)
        with torch.no_grad():
            want = model(x)
            start.wait()
            for _ in range(20):
                if not torch.allclose(f(x), want, rtol=1e-4, atol=1e-4):
                    wrong.append((f, rows))

    for round_ in range(6):
        start = threading.Barrier(8)
        threads = [
            threading.Thread(target=call, args=(f, rows, start))
            for f in functions
            for rows in (SMALL, LARGE)
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        together, alone = memory(functions[0])
        assert alone == 2 * together  # who packed at the same time keeps one copy
        model.first.weight.data.view(-1)[round_] = 3.0 + round_


def test_one_of_many_weights_is_written() -> None:
    """What is computed from the others stays."""
    weights = [nn.Parameter(values(SIZE) + k) for k in range(6)]

    def f(x: torch.Tensor) -> torch.Tensor:
        for weight in weights:
            x = x * torch.sin(weight)
        return x * torch.sum(torch.stack(weights[:2]), 0)

    compiled = compile_apart(f)
    for _ in range(3):
        check(f, compiled, rows=[SMALL])
    for k, expected in ((5, 1), (1, 2), (4, 1)):
        weights[k].data[k] = 7.0
        with torch.profiler.profile() as profile:
            compiled(inputs(SMALL))
        names = [e.name for e in profile.events() if e.name.startswith("pyjit::")]
        with torch.profiler.profile() as profile:
            compiled(inputs(SMALL))
        later = [e.name for e in profile.events() if e.name.startswith("pyjit::")]
        assert 1 <= len(names) - len(later) <= expected, names
        check(f, compiled)


def test_prompt_and_step() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=100,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    compiled = pyjit.compile(model)
    prompt = torch.randint(3, 100, (1, 12))
    arguments = {"max_new_tokens": 6, "do_sample": False}

    def generate(f: Any) -> torch.Tensor:
        return f.generate(prompt, **arguments)

    for _ in range(4):
        assert generate(compiled).equal(generate(model))
    together, alone = memory(compiled)
    assert 0 < together < 0.7 * alone
    parameters = sum(p.nbytes for p in model.parameters())
    assert together < 1.1 * parameters
    model.model.layers[0].mlp.up_proj.weight.data.mul_(-1.0)
    model.model.layers[1].self_attn.q_proj.weight.data += 0.1
    for _ in range(2):
        assert generate(compiled).equal(generate(model))
    assert memory(compiled)[0] < 1.1 * parameters


def test_two_batch_sizes_and_all() -> None:
    """One for a size and one for all sizes."""
    model = Model().eval()
    compiled = pyjit.compile(model, options={"compare_with_eager": False})
    for rows in (4, 4, 6, 6, 7, 9, 4, 33):
        check(model, compiled, rows=[rows])
    model.second.weight.mul_(2)
    check(model, compiled, rows=[4, 7, 6])
    together, alone = memory(compiled)
    assert together < 1.1 * 4 * (2 * SIZE * SIZE + SIZE)
    assert alone >= together
