# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ways to take a training step that the tables compare.

A column is given a model of its own, its optimizer and the loss of a batch, and returns a `Step`. What
it cannot do it says by an exception, which the table shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

Loss = Callable[..., torch.Tensor]  # of a callable model and the tensors of a batch


@dataclass
class Step:
    """`take(*batch)` trains once and returns the loss; `facts()` says how it was captured."""

    take: Callable[..., torch.Tensor]
    facts: Callable[[], dict[str, Any]]


def loop(model: Any, optimizer: Any, loss_of: Loss, update: Any = None) -> Any:
    """The user's step: the loop that every column but the last leaves in eager."""
    update = update or optimizer.step

    def step(*batch: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, *batch)
        loss.backward()
        update()
        return loss.detach()

    return step


def eager(model: nn.Module, optimizer: Any, loss_of: Loss) -> Step:
    return Step(loop(model, optimizer, loss_of), dict)


def _dynamo_facts() -> dict[str, Any]:
    from torch._dynamo.utils import counters

    breaks = counters["graph_break"]
    return {
        "graph_breaks": sum(breaks.values()),
        "graphs": counters["stats"]["unique_graphs"],
        "reasons": [str(reason).splitlines()[0] for reason in breaks],
    }


def torch_compile(model: nn.Module, optimizer: Any, loss_of: Loss) -> Step:
    return Step(loop(torch.compile(model), optimizer, loss_of), _dynamo_facts)


def reduce_overhead(model: nn.Module, optimizer: Any, loss_of: Loss) -> Step:
    """torch.compile with CUDA Graphs, where there is a GPU."""
    if next(model.parameters()).device.type != "cuda":
        raise ValueError("needs a GPU")
    fast = torch.compile(model, mode="reduce-overhead")
    return Step(loop(fast, optimizer, loss_of), _dynamo_facts)


def compiled_update(model: nn.Module, optimizer: Any, loss_of: Loss) -> Step:
    """The model compiled, and the optimizer's step, as PyTorch's tutorial has it."""

    @torch.compile(fullgraph=False)
    def update() -> None:
        optimizer.step()

    fast = torch.compile(model)
    return Step(loop(fast, optimizer, loss_of, update), _dynamo_facts)


def _pyjit_facts(compiled: Any) -> dict[str, Any]:
    import pyjit

    stats = pyjit.stats(compiled)
    known = ("graphs", "graph_breaks", "guards", "kernels", "vendor_calls", "reasons")
    facts = {name: stats[name] for name in known if name in stats}
    facts["sites"] = [str(s) for s in stats.get("graph_break_sites", [])]
    # Slower than eager, which answers now.
    facts["left_to_eager"] = [
        f"{c['function']}: {c['compiled_microseconds']:.0f} us, eager {c['eager_microseconds']:.0f}"
        for c in stats.get("compared", [])
        if c["answers"] == "eager"
    ]
    facts["hits"] = stats.get("hits")
    return facts


def pyjit_model(model: nn.Module, optimizer: Any, loss_of: Loss) -> Step:
    import pyjit

    fast = pyjit.compile(model)
    return Step(loop(fast, optimizer, loss_of), lambda: _pyjit_facts(fast))


def pyjit_step(model: nn.Module, optimizer: Any, loss_of: Loss) -> Step:
    """Forward, backward and update in one compiled function."""
    import pyjit

    @pyjit.compile
    def step(*batch: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, *batch)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Step(step, lambda: _pyjit_facts(step))


@dataclass(frozen=True)
class Column:
    head: str
    make: Callable[[nn.Module, Any, Loss], Step]
    devices: tuple[str, ...] = ("cpu", "cuda")
    #: Inductor's cache on disk is the one that the column in front has filled.
    shares_cache: bool = False


#: In the order in which they are set up: what takes long to compile comes last.
COLUMNS = {
    "eager": Column("eager", eager),
    "pyjit-model": Column("pyjit, model", pyjit_model),
    "pyjit-step": Column("pyjit, step", pyjit_step),
    "compile": Column("torch.compile", torch_compile),
    "compile-update": Column(
        "torch.compile, model and update", compiled_update, shares_cache=True
    ),
    "reduce-overhead": Column("reduce-overhead", reduce_overhead, ("cuda",)),
}
