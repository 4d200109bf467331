# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Specializations of the other tests, compiled for a GPU on a machine that has none.

Their traces are taken as if the tensors had been on `cuda:0`, and go through all stages that they
would go through there: to the launch program, which is validated as loading it would, and to PTX,
which `ptxas` assembles where it is installed. (The simulated device, on which the other
tests run, takes the host's kernels and thus another way through the encoder.)
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import conditional_cases
import launch_cases
import patched_cases
import pyjit
import pytest
import symbolic_cases
import torch
from Integration import (
    test_batch_norm_kernels,
    test_in_place,
    test_random_branches,
    test_random_launch_plans,
    test_random_varying,
    test_static_cache,
)
from lib.Codegen.PTX.kernels import PTXAS, assemble
from pyjit._C import Trace
from torch import nn

# A trace, whether half precision is rounded as in eager, and whether sizes are specialized.
Built = tuple[str, bool, bool]
CAPABILITY = 90


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Built]]:
    """The traces of the specializations that are made meanwhile."""
    build = pyjit._C.build
    traces: list[Built] = []

    def noting(trace: Trace, *rest: Any, **options: Any) -> object:
        specialization = build(trace, *rest, **options)
        traces.append(
            (str(trace), options["eager_rounding"], options["specialize_sizes"])
        )
        return specialization

    monkeypatch.setattr(pyjit._C, "build", noting)
    yield traces


def run(f: Callable, calls: Iterable[tuple], **options: object) -> None:
    fast = pyjit.compile(f, options=options)
    with torch.no_grad():
        for args in calls:
            fast(*args)


def moved(trace: str) -> str:
    return trace.replace('"cpu"', '"cuda:0"')


def without_numbers(trace: str) -> str:
    """Moved, but for what is of the CPU without saying so: tensors without dimensions."""
    return re.sub(r'(tensor<\[[^\]]+\][^>]*)"cpu"', r'\1"cuda:0"', trace)


def check(built: list[Built], move: Callable[[str], str] = moved) -> list[str]:
    """Every specialization has a launch program for the GPU, and code for each of its kernels."""
    assert built
    programs = []
    for trace, rounding, specialized in dict.fromkeys(built):
        on_gpu = move(trace)
        launch, code = pyjit._C.cross_compile(
            Trace.parse(on_gpu), CAPABILITY, rounding, specialized
        )
        assert launch.startswith("launch: "), launch
        if " = " not in launch:
            continue  # the end of a call that computes no tensor
        assert ", on cuda:0" in launch.splitlines()[0], launch
        # A kernel of nothing is named, and neither compiled nor launched.
        launched = re.findall(r"kernel (\w+) \(.*\) grid [1-9]", launch)
        indirect = re.findall(r" indirect (\w+) ", launch)
        entries = set(re.findall(r"\.entry (\w+)\(", code))
        assert entries >= {*launched, *indirect}, launch
        if entries and PTXAS:
            assert not assemble(code, f"sm_{CAPABILITY}"), code
        programs.append(launch)
    return programs


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", launch_cases.CASES)
def test_launches(built: list[Built], name: str, dtype: torch.dtype) -> None:
    f, make = launch_cases.CASES[name]("cpu", dtype)
    run(f, [make()])
    check(built)


@pytest.mark.parametrize("name", patched_cases.CASES)
def test_patched_calls(built: list[Built], name: str) -> None:
    f, make, _ = patched_cases.CASES[name]("cpu", torch.float32)
    run(f, [make()])
    (launch,) = check(built)
    assert "call aten::" in launch, launch
    assert re.search(r"copy s\d+ to s\d+ patchable", launch), launch


@pytest.mark.parametrize("f", test_static_cache.CASES, ids=lambda f: f.__name__)
def test_static_caches(built: list[Built], f: Callable) -> None:
    buffer = torch.randn(3, 20, 8)
    places = [p for p in test_static_cache.POSITIONS if p + 3 <= 20]
    run(f, [(buffer, torch.randn(3, 3, 8), p) for p in places])
    check(built)
    assert not any(specialized for *_, specialized in built)


@pytest.mark.parametrize("f", test_in_place.PROGRAMS)
def test_written_inputs(built: list[Built], f: Callable) -> None:
    run(f, [(torch.randn(7, 7), torch.randn(7, 7))])
    (launch,) = check(built)
    assert " in place" in launch, launch


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_first_steps(built: list[Built], kind: Callable) -> None:
    """The step counters are tensors of the CPU that the call makes."""
    weights = [torch.randn(4, 5, requires_grad=True), torch.randn(7)]
    for weight in weights:
        weight.grad = torch.randn_like(weight)

    def step() -> Any:
        optimizer = kind(weights, lr=0.1, foreach=False)
        optimizer.step()
        return optimizer

    fast = pyjit.compile(step)
    for _ in range(3):
        fast()
    programs = check(built, without_numbers)
    counter = "= result: dtype 6 [] strides []"
    assert any(counter in launch for launch in programs), programs


@pytest.mark.parametrize("number", range(10))
def test_several_graphs(built: list[Built], number: int) -> None:
    test_random_launch_plans.check(number)
    check(built)


@pytest.mark.parametrize("name", symbolic_cases.CASES)
def test_symbolic_sizes(built: list[Built], name: str) -> None:
    f, make = symbolic_cases.CASES[name]("cpu", torch.float32)
    run(f, (make(n) for n in symbolic_cases.SIZES[:4]))
    programs = check(built)
    assert not any(specialized for *_, specialized in built)
    # One of the first sizes, one of any.
    assert len(programs) == 2 and "[-1, " in programs[1], programs[1]


@pytest.mark.parametrize("name", conditional_cases.CASES)
def test_loops(built: list[Built], name: str) -> None:
    f, calls = conditional_cases.CASES[name]("cpu")
    run(f, calls)
    assert any("while {" in launch for launch in check(built))


@pytest.mark.parametrize("name", conditional_cases.BRANCHES)
def test_branches(built: list[Built], name: str) -> None:
    f, calls = conditional_cases.BRANCHES[name]("cpu")
    run(f, calls)
    assert any(re.search(r"if s\d+ {", launch) for launch in check(built))


def test_random_programs_with_branches(built: list[Built]) -> None:
    test_random_branches.compare(examples=6)
    check(built)


def test_random_programs_whose_numbers_and_sizes_vary(built: list[Built]) -> None:
    test_random_varying.compare("ns", examples=6)
    check(built)


def test_reasons() -> None:
    """What cannot be compiled for a GPU says why."""
    text = pyjit.trace(torch.relu)(torch.randn(4)).text
    with pytest.raises(pyjit._C.BuildError, match="no chip from sm_80 on: 'sm_70'"):
        pyjit._C.cross_compile(Trace.parse(text.replace('"cpu"', '"cuda:0"')), 70)
    with pytest.raises(pyjit._C.BuildError, match="CUDA driver does not show"):
        pyjit._C.cross_compile(Trace.parse(text.replace('"cpu"', '"cuda:0"')), 0)


def test_matmuls_of_parts_of_parameters(built: list[Built]) -> None:
    """Two layers take keys and values of one memory: their weights are parts of larger ones."""
    layer = torch.nn.TransformerDecoderLayer(16, 2, 32, batch_first=True)
    model = torch.nn.TransformerDecoder(layer, 2).eval()
    x, memory = torch.randn(2, 4, 16), torch.randn(2, 6, 16)
    run(model, [(x, memory)])
    check(built)


WHOLE_STEPS = {
    "adamw": lambda p: torch.optim.AdamW(p, foreach=True),
    "adam, fused": lambda p: torch.optim.Adam(p, fused=True, amsgrad=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=True),
}


@pytest.mark.parametrize("name", WHOLE_STEPS)
def test_whole_steps(built: list[Built], name: str) -> None:
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)
    )
    optimizer = WHOLE_STEPS[name](model.parameters())

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    fast = pyjit.compile(step)
    for _ in range(4):
        fast(torch.randn(5, 8))
    assert not pyjit.stats(fast)["graph_breaks"]
    for launch in check(built):
        # Parameters are written where they lie, and no library has a part in updates.
        assert " in place" in launch, launch
        assert not re.search(r"call aten::(?!mm|addmm|linear|clone|stack)", launch), (
            launch
        )


def test_absolute_of_16_bits(built: list[Built]) -> None:
    """ptxas takes `abs.s16` for non-negative: |-32768|, which is -32768, would be widened to 32768."""
    x = torch.tensor([-32768, 5], dtype=torch.int16)
    run(lambda x: x.abs().sum(), [(x,)])
    ((trace, rounding, specialized),) = dict.fromkeys(built)
    on_gpu = trace.replace('"cpu"', '"cuda:0"')
    _, code = pyjit._C.cross_compile(
        Trace.parse(on_gpu), CAPABILITY, rounding, specialized
    )
    assert "abs.s32" in code and "abs.s16" not in code, code


def test_tensors_of_the_cpu_stay_there(built: list[Built]) -> None:
    """What a program of the GPU computes from tensors of the CPU alone is the CPU's, and no kernel reads it."""

    def anchors(x: torch.Tensor, sizes: torch.Tensor) -> tuple[torch.Tensor, ...]:
        repeated = sizes.clamp(0, 1).repeat(9, 1)
        chosen = sizes.gather(0, torch.zeros(1, 2, dtype=torch.int64))
        return x * 2, torch.cat((repeated, repeated), 1), chosen, sizes.max(0).values

    run(anchors, [(torch.randn(2, 8, 10), torch.rand(4, 2))])
    ((trace, rounding, specialized),) = dict.fromkeys(built)
    of_the_gpu = '[2, 8, 10], [80, 10, 1], f32, "cpu"'
    mixed = trace.replace(of_the_gpu, of_the_gpu.replace("cpu", "cuda:0"))
    launch, _ = pyjit._C.cross_compile(
        Trace.parse(mixed), CAPABILITY, rounding, specialized
    )
    calls = re.findall(r"call (\S+)", launch)
    for name in ("repeat", "cat", "gather", "max.dim"):
        assert f"aten::{name}" in calls, launch
    assert launch.count("  kernel ") == 1, launch


def test_layers_of_a_step(built: list[Built]) -> None:
    """Equal layers are kernels once; what they leave for the backward is nowhere copied to."""
    torch.manual_seed(0)
    layers = [nn.Linear(24, 24), nn.GELU(), nn.LayerNorm(24)] * 8
    model = nn.Sequential(*copy.deepcopy(layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    fast = pyjit.compile(step)
    for _ in range(3):
        fast(torch.randn(5, 24))
    for launch in check(built):
        views = re.findall(r"(s\d+) = view of", launch)
        targets = re.findall(r"copy s\d+ to (s\d+)", launch)
        assert not set(views) & set(targets), launch
        kernels = re.findall(r"kernel (\w+) \(.*\) grid [1-9]", launch)
        assert len(kernels) > 2 * len(set(kernels)), launch


Batch = tuple[torch.Tensor, ...]
Made = tuple[nn.Module, Callable[..., torch.Tensor], Callable[[int, int], Batch]]


def bert() -> Made:
    """Batches with padding: its mask decides a branch, and a graph ends there."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=40,
    )  # fmt: skip
    model = BertForSequenceClassification(config)

    def batch(rows: int, columns: int) -> Batch:
        ids = torch.randint(1, 40, (rows, columns))
        mask = torch.ones_like(ids)
        mask[1:, columns // 2 :] = 0
        return ids, mask, torch.randint(2, (rows,))

    def loss(ids: torch.Tensor, mask: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return model(ids, attention_mask=mask, labels=y).loss

    return model, loss, batch


def images() -> Made:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Dropout(0.1), nn.Flatten(2), nn.Linear(16, 4),
    )  # fmt: skip

    return (
        model,
        lambda x: model(x).square().mean(),
        lambda rows, _: (torch.randn(rows, 3, 8, 8),),
    )


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("name", test_batch_norm_kernels.SIZES)
def test_batch_norms(built: list[Built], name: str, momentum: float | None) -> None:
    test_batch_norm_kernels.check("cpu", name, torch.float32, {}, momentum=momentum)
    for launch in check(built, without_numbers):
        assert "batch_norm" not in launch, launch


def test_saved_numbers_of_the_cpu(built: list[Built]) -> None:
    """What the forward computed on the CPU and saved, the backward's kernels are given as numbers of the host
    (DeBERTa's scale of its scores)."""

    def f(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return (x * 2) / torch.sqrt(n * 3)

    fast = pyjit.compile(f)
    for _ in range(3):
        x = torch.randn(4, 8, requires_grad=True)
        fast(x, torch.tensor(4.0)).sum().backward()
    (launch,) = check(built, without_numbers)
    for program in launch.split("backward:"):
        assert "  host value s" in program, launch


def test_sums_of_what_follows_from_sums(built: list[Built]) -> None:
    """The bias' gradient of a convolution in front of a batch norm, of an activation's gradient."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.SiLU(), nn.Conv2d(16, 8, 1),
    ).to(memory_format=torch.channels_last)  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def step(x: torch.Tensor) -> torch.Tensor:
        y = model(x)
        optimizer.zero_grad()
        y.square().mean().backward()
        optimizer.step()
        return y.detach()

    fast = pyjit.compile(step)
    for _ in range(4):
        x = torch.randn(2, 3, 24, 24)
        fast(x.contiguous(memory_format=torch.channels_last))
    launches = check(built, without_numbers)
    assert any("_behind" in launch for launch in launches), launches


@pytest.mark.parametrize("make", [bert, images], ids=lambda f: f.__name__)
def test_steps_of_models(built: list[Built], make: Callable[[], Made]) -> None:
    """With sizes that differ, and dropout, which no graph holds: a step is several graphs."""
    torch.manual_seed(0)
    model, loss_of, batch = make()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)

    def step(*given: torch.Tensor) -> torch.Tensor:
        loss = loss_of(*given)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    fast = pyjit.compile(step)
    for rows, columns in ((3, 8), (3, 11), (3, 14), (2, 8), (4, 9), (3, 12)):
        fast(*batch(rows, columns))
    assert any("bernoulli" in launch for launch in check(built, without_numbers))
