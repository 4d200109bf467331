# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ways to generate that the table compares: each is given the model, and returns its `generate`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

Generate = Callable[..., Any]


@dataclass
class Way:
    """`generate` with the options of this way, and what is known of how it was captured."""

    generate: Generate
    options: dict[str, Any] = field(default_factory=dict)
    facts: Callable[[], dict[str, Any]] = dict

    def __call__(self, **given: Any) -> Any:
        return self.generate(**given, **self.options)


def eager(model: torch.nn.Module) -> Way:
    # transformers compiles by itself where a device is no CPU and the cache static.
    return Way(model.generate, {"disable_compile": True})


def torch_compile(model: torch.nn.Module) -> Way:
    """As transformers sets it up: a static cache, steps compiled with `reduce-overhead`, the prompt in eager."""
    from torch._dynamo.utils import counters
    from transformers import CompileConfig

    config = CompileConfig()
    config._compile_all_devices = True
    options = {"cache_implementation": "static", "compile_config": config}
    return Way(model.generate, options, lambda: {"graphs": counters["stats"]["unique_graphs"]})  # fmt: skip


def pyjit_facts(compiled: Any) -> dict[str, Any]:
    import pyjit

    stats = pyjit.stats(compiled)
    names = ("graphs", "graph_breaks", "hits", "misses", "kernels", "vendor_calls")
    facts = {name: stats[name] for name in (*names, "host_microseconds") if name in stats}  # fmt: skip
    facts["left_to_eager"] = [
        f"{c['function']}: {c['compiled_microseconds']:.0f} us, eager {c['eager_microseconds']:.0f}"
        for c in stats.get("compared", [])
        if c["answers"] == "eager"
    ]
    return facts


def pyjit_dynamic(model: torch.nn.Module) -> Way:
    import pyjit

    fast = pyjit.compile(model)
    return Way(fast.generate, {"disable_compile": True}, lambda: pyjit_facts(fast))


def pyjit_static(model: torch.nn.Module) -> Way:
    way = pyjit_dynamic(model)
    way.options["cache_implementation"] = "static"
    return way


@dataclass(frozen=True)
class Column:
    head: str
    make: Callable[[torch.nn.Module], Way]


#: In the order in which they are set up: what takes long to compile comes last.
COLUMNS = {
    "eager": Column("eager", eager),
    "pyjit-dynamic": Column("pyjit, dynamic cache", pyjit_dynamic),
    "pyjit-static": Column("pyjit, static cache", pyjit_static),
    "torch.compile": Column("torch.compile, static cache", torch_compile),
}
