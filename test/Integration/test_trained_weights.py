# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights that require grad: packed in each call, or kept once calls find them as they were.

However a weight is written between calls in grad mode, with and without a backward, the next call
has to see it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from Integration.harness import values
from Integration.test_parameter_writes import DOORS, hits, layer, weight_of
from torch import nn

pyjit = pytest.importorskip("pyjit", exc_type=ImportError)

WAIT = 8
"""Calls with the same weights behind which the second program is compiled."""


def prepared(compiled: Any) -> int:
    return pyjit.specializations(compiled)[0]["prepared"]


def settle(compiled: Any, *args: torch.Tensor) -> None:
    """Calls until packed weights are kept."""
    for _ in range(WAIT + 4):
        compiled(*args)
    assert prepared(compiled) > 0


def check(
    module: nn.Module, compiled: Any, x: torch.Tensor, backward: bool = False
) -> None:
    before = hits(compiled)
    have = compiled(x)
    assert hits(compiled) == before + 1, pyjit.stats(compiled)["reasons"]
    want = module(x)
    torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-4)
    if backward:
        weight = weight_of(module)
        gradients = []
        for result in (have, want):
            weight.grad = None
            result.square().sum().backward()
            gradients.append(weight.grad)
        torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-2)
        weight.grad = None


@pytest.mark.parametrize(("when", "backward"), [("before", False), ("after", True)])
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", ["linear", "conv"])
def test_write_of_one_element(kind: str, door: str, when: str, backward: bool) -> None:
    """Through an alias that exists before the first call, or comes when weights are kept."""
    module, x = layer(kind)
    compiled = pyjit.compile(module)
    open_door, write = DOORS[door]
    weight = weight_of(module)
    with torch.no_grad():
        alias = open_door(weight) if when == "before" else None
    for _ in range(WAIT + 4):
        compiled(x)
    if when == "after":
        assert prepared(compiled) > 0
    for value, index in enumerate([0, weight.numel() - 1, weight.numel() // 2 + 1]):
        with torch.no_grad():
            if alias is None:
                alias = open_door(weight)
            write(alias, index, 30.0 + value)
            assert float(weight.reshape(-1)[index]) == pytest.approx(30.0 + value)
        check(module, compiled, x, backward)
        check(module, compiled, x, backward)
        check(module, compiled, x)


def test_results_that_live() -> None:
    """Earlier calls' graphs refer to the weights; that is no reason not to keep them."""
    module, x = layer("linear")
    compiled = pyjit.compile(module)
    results = [compiled(x) for _ in range(WAIT + 4)]
    assert prepared(compiled) > 0
    with torch.no_grad():
        module.weight.data[3] = 2.0
    check(module, compiled, x)
    assert prepared(compiled) > 0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        with torch.no_grad():
            module.weight.add_(1.0)
        x.requires_grad_()
        y = compiled(x)
        with torch.no_grad():
            module.weight.add_(1.0)
        y.sum().backward()
    del results


UPDATES: dict[str, Callable[[nn.Module], Any]] = {
    "SGD": lambda m: torch.optim.SGD(m.parameters(), lr=0.1),
    "foreach": lambda m: torch.optim.SGD(m.parameters(), lr=0.1, foreach=True),
    "AdamW": lambda m: torch.optim.AdamW(m.parameters(), lr=0.1),
    "fused": lambda m: torch.optim.AdamW(m.parameters(), lr=0.1, fused=True),
}


@pytest.mark.parametrize("each", [1, 3, 40])
@pytest.mark.parametrize("update", UPDATES)
def test_optimizers(update: str, each: int) -> None:
    """Steps of an optimizer between phases of calls that train nothing."""
    module, x = layer("linear")
    compiled = pyjit.compile(module)
    optimizer = UPDATES[update](module)
    settle(compiled, x)
    for call in range(60):
        check(module, compiled, x)
        if call % each == 0:
            optimizer.zero_grad()
            compiled(x).square().mean().backward()
            optimizer.step()
    check(module, compiled, x, backward=True)


def test_loaded_state() -> None:
    module, x = layer("linear")
    compiled = pyjit.compile(module)
    settle(compiled, x)
    module.load_state_dict(nn.Linear(96, 96).state_dict())
    check(module, compiled, x, backward=True)
    module.load_state_dict(nn.Linear(96, 96).state_dict(), assign=True)
    check(module, compiled, x, backward=True)
    module.weight.data = torch.randn(96, 96)
    check(module, compiled, x, backward=True)
    module.weight = nn.Parameter(torch.randn(96, 96))
    check(module, compiled, x, backward=True)


def test_other_thread() -> None:
    """Calls meet the weight as it was before or after a write of another thread, never a mixture of old
    and older ones."""
    module, x = layer("linear")
    compiled = pyjit.compile(module)
    settle(compiled, x)
    for value in range(20):

        def write(value: int = value) -> None:
            module.weight.data.fill_(float(value))

        writer = threading.Thread(target=write)
        writer.start()
        compiled(x)
        writer.join()
        check(module, compiled, x)


def test_training_keeps_nothing() -> None:
    """A training loop's weights are packed in each call, and nothing watches them."""
    module, x = layer("linear")
    compiled = pyjit.compile(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)
    for _ in range(3 * WAIT):
        optimizer.zero_grad()
        compiled(x).sum().backward()
        optimizer.step()
    assert prepared(compiled) == 0
    for _ in range(WAIT + 4):
        compiled(x)
    assert prepared(compiled) > 0
    # Three packings that nothing comes of, then the loop has its own way again.
    for _ in range(8):
        optimizer.zero_grad()
        compiled(x).sum().backward()
        optimizer.step()
        check(module, compiled, x)
        module.weight.data[0, 0] += 1.0
    assert prepared(compiled) == 0
    check(module, compiled, x, backward=True)


def test_shared_weight() -> None:
    """Two functions that keep one weight: one that packs it again hides no write from the other."""
    module, x = layer("linear")
    functions = [pyjit.compile(lambda x, k=k: module(x) * k) for k in (1.0, 2.0)]
    for f in functions:
        settle(f, x)
    for index in range(12):
        module.weight.data.view(-1)[index * 5] = 9.0
        for k, f in enumerate(functions[index % 2 :], index % 2):
            torch.testing.assert_close(
                f(x), module(x) * (k + 1.0), rtol=1e-4, atol=1e-3
            )


def test_memory_of_numpy() -> None:
    """Writes to memory that is not PyTorch's go unseen, so that nothing is kept."""
    array = values(96, 96).numpy()
    module = nn.Linear(96, 96)
    module.weight = nn.Parameter(torch.from_numpy(array))
    compiled, x = pyjit.compile(module), values(64, 96)
    for _ in range(4 * WAIT):
        compiled(x)
    assert prepared(compiled) == 0
    array[5, 7] = 40.0
    check(module, compiled, x, backward=True)


def test_frozen_beside_trained() -> None:
    module = nn.Sequential(nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 96))
    module[0].requires_grad_(False)
    compiled, x = pyjit.compile(module), values(64, 96)
    settle(compiled, x)
    for layer_ in (module[0], module[2]):
        layer_.weight.data[1, 2] = 50.0
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-3)
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-3)


def test_gradients_of_gradients() -> None:
    module, x = layer("linear")
    x.requires_grad_()
    compiled = pyjit.compile(module)
    settle(compiled, x)
    found = []
    for f in (compiled, module):
        (gradient,) = torch.autograd.grad(f(x).pow(3).sum(), x, create_graph=True)
        found.append(torch.autograd.grad(gradient.sum(), module.weight)[0])
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-3)
