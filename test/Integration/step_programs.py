# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random training programs as source text: a model, a loss, an optimizer, a step, what happens between steps.

A program is lists of lines. Each line stands alone, and every layer keeps the shape of what it is given, so that
a program with lines left out is a program, too: that is how one is reduced.
"""

from __future__ import annotations

import random
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from Integration.step_lines import (
    AFTER,
    AHEAD,
    AUTOCAST,
    BETWEEN,
    EVENTS,
    EVERYWHERE,
    EXTRA,
    FUSED,
    GRADIENTS,
    INPUTS,
    LAYERS,
    LOSSES,
    OPTIMIZERS,
    RESULTS,
    SETUP,
    SHAPES,
    UPDATES,
    ZERO,
    Layer,
)  # fmt: skip

STEPS = 7

HEADER = """
import copy, itertools, os
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

LOG, KEPT, HANDLES, COUNTS = [], [], [], {}
BOOM = False


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2 + ctx.saved_tensors[0] * 0.01


def opaque(x):
    print(end="")
    return x


def other_parameter(model, index):
    names = [name for name, _ in model.named_parameters()]
    path, _, last = names[index % len(names)].rpartition(".")
    owner = model.get_submodule(path)
    setattr(owner, last, nn.Parameter(getattr(owner, last).detach() * 0.5))


def tie(model):
    same = [m for m in model.modules() if type(m) is nn.Linear and m.weight.shape == (8, 8)]
    if same:
        same[-1].weight = same[0].weight


def norm_of(model):
    norms = [p.grad.norm() for p in model.parameters() if p.grad is not None]
    return torch.stack(norms).norm()


def weights(model):
    return [p for p in model.parameters() if p.requires_grad]


def freeze(model, on):
    for p in model.parameters():
        p.requires_grad = on
"""


@dataclass(frozen=True)
class Program:
    """What is drawn; `source` writes it down."""

    base: str = "flat"
    dtype: str = "float64"
    layers: tuple[Layer, ...] = ()
    loss: str = LOSSES[0]
    optimizer: str = "torch.optim.SGD(params, lr=0.1)"
    groups: bool = False
    setup: tuple[str, ...] = ()
    step: tuple[str, ...] = ()
    events: tuple[tuple[int, str], ...] = ()
    rows: tuple[int, ...] = (6,) * STEPS
    compiled: str = "step"
    arguments: str = "x, y"
    autocast: str = ""  # around the call, the model, or the loss as well
    marks: tuple[str, ...] = field(
        default=()
    )  # what the harness does: `transposed`, `fresh x`

    def source(self) -> str:
        def block(lines: list[str], depth: int) -> str:
            return textwrap.indent("\n".join(lines), "    " * depth)

        made = [first.format(n=n) for n, (first, _) in enumerate(self.layers) if first]
        used = [line.format(n=n) for n, (_, line) in enumerate(self.layers)]
        if self.base == "tokens":
            made.insert(0, "self.words = nn.Embedding(11, 8)")
            used.insert(0, "h = self.words(h)")
        forward = ["self.calls += 1", "h = x", "a = b = h", *used, "return h"]
        if self.base == "tokens":
            forward[2], forward[3] = forward[3], "a = b = h"
        if self.autocast == "model":
            forward = [AUTOCAST, block(forward, 1)]
        width = 6 if self.base == "image" else 8
        groups = "list(model.parameters())"
        if self.groups:
            groups = (
                "[{'params': list(model.parameters())[::2]},"
                " {'params': list(model.parameters())[1::2], 'lr': 0.02}]"
            )
        return "\n".join(
            [
                HEADER,
                "class Model(nn.Module):",
                "    def __init__(self):",
                "        super().__init__()",
                "        self.calls, self.seen = 0, None",
                "        self.scale = nn.Parameter(torch.ones(()))",
                block(made, 2),
                "    def forward(self, x):",
                block(forward, 2),
                "\n\ndef model_norm():",
                "    return torch.stack([p.norm() for p in model.parameters()]).sum()",
                "\n\ndef loss_of(out, y):",
                f"    return {self.loss}",
                "\n\ndef make_optimizer(model):",
                f"    params = {groups}",
                f"    return {self.optimizer}",
                f"\n\ndef step({self.arguments}):",
                block(list(self.step), 1),
                f"\n\ntorch.set_default_dtype(torch.{self.dtype})",
                "model = Model()",
                "tied = nn.Parameter(torch.randn(8, 8) * 0.3)",
                "target = copy.deepcopy(model)",
                f"critic = nn.Sequential(nn.Linear({width}, 6), nn.Tanh(), nn.Linear(6, 1))",
                "critic_optimizer = torch.optim.Adam(critic.parameters(), lr=0.01, foreach=False)",
                *self.setup,
                "ema = [p.detach().clone() for p in model.parameters()]",
                "optimizer = make_optimizer(model)",
                "scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)",
                "update, call = optimizer.step, model",
                f"shape = lambda n: ({SHAPES[self.base].format(n='n')})",
            ]
        )

    def smaller(self) -> list[Program]:
        """The same program with one thing left out."""

        def without(name: str) -> list[Program]:
            items = getattr(self, name)
            return [
                replace(self, **{name: items[:i] + items[i + 1 :]})
                for i in range(len(items))
            ]

        found = without("events") + without("setup") + without("layers")
        found += without("step") + without("marks")
        # Several lines of one block.
        for name in ("step", "layers"):
            items = getattr(self, name)
            for i, item in enumerate(items):
                text = item[1] if name == "layers" else item
                lines = text.split("\n")
                for n in range(len(lines)) if len(lines) > 1 else ():
                    rest = "\n".join(lines[:n] + lines[n + 1 :])
                    new = (item[0], rest) if name == "layers" else rest
                    found.append(
                        replace(self, **{name: (*items[:i], new, *items[i + 1 :])})
                    )
        for change in (
            {"autocast": ""}, {"groups": False}, {"loss": LOSSES[0]}, {"loss": "out.mean()"},
            {"optimizer": "torch.optim.SGD(params, lr=0.1)"}, {"rows": (6,) * len(self.rows)},
            {"rows": self.rows[:-1]}, {"dtype": "float64"}, {"base": "flat"}, {"arguments": "x, y"},
        ):  # fmt: skip
            other = replace(self, **change)  # type: ignore[arg-type]
            if other != self and len(other.rows):
                found.append(other)
        return [other for other in found if other.is_python()]

    def is_python(self) -> bool:
        """Without a loop's first line the rest is none."""
        try:
            compile(self.source(), "smaller", "exec")
        except SyntaxError:
            return False
        return True


# Lines that break the graph, or bring a program into eager.
BREAKS = re.compile(
    r"print|LOG|opaque|hook|Double|retain_grad|checkpoint|item\(\)|float\(|randperm|clip_|norm_of|closure"
    r"|try:|momentum=None|isfinite|while|if h\.|if total|h = h\.detach|grad\(\):\n    loss|KEPT|update\(\)|seen|freeze|requires_grad|bool\(|not \("
)


def draw(rng: random.Random, plain: bool = False) -> Program:
    """plain: a program that should be one graph."""

    def pick(items: Sequence[Any]) -> Any:
        if plain:
            items = [one for one in items if not BREAKS.search(str(one))]
        return rng.choice(items)

    def some(items: list[str], most: int, share: float) -> list[str]:
        return [pick(items) for _ in range(most) if rng.random() < share]

    base = rng.choice(("flat", "flat", "sequence", "image", "tokens"))
    layers = []
    for _ in range(rng.randint(1, 7)):
        own = rng.random() < 0.5
        layers.append(pick(LAYERS[base] if own else EVERYWHERE))
    if rng.random() < 0.9:
        layers.insert(0, pick(LAYERS[base][:5]))
    if rng.random() < 0.6:
        layers.append(pick(LAYERS[base][:5]))
    name, options = rng.choice(OPTIMIZERS[:6] if plain else OPTIMIZERS)
    chosen = [options[0]] + [o for o in options[1:] if rng.random() < 0.3]
    if "nesterov=True" in chosen:
        chosen = [o for o in chosen if not o.startswith("dampening")]
        if "momentum=0.9" not in chosen:
            chosen.append("momentum=0.9")
    kind = rng.choice(("", "", "foreach=False", "foreach=False", "foreach=True", "fused=True"))  # fmt: skip
    if plain or name == "Adafactor" or (kind == "fused=True" and name not in FUSED):
        kind = "foreach=False"
    chosen += [kind] if kind else []
    if rng.random() < 0.05 and name not in FUSED | {"Adafactor", "Adagrad"}:
        chosen.append("differentiable=False")
    gradients = pick(GRADIENTS)
    if gradients.count("create_graph=True") > 1:
        # Eager's third derivative of layer norm is wrong (test_double_backward.py).
        layers = [one for one in layers if "LayerNorm" not in one[0] and "Encoder" not in one[0]]  # fmt: skip
    if any("channels_last" in one[1] for one in layers):
        # Eager's backward of it reads past its memory, or crashes, where gradients are laid out otherwise.
        layers = [one for one in layers if "GroupNorm" not in one[0]]
    step = []
    zero = pick(ZERO)
    place = rng.choice(("first", "first", "last", "both", "none"))
    if base != "tokens":
        step += some(INPUTS, 1, 0.25)
    step += [zero] if place in ("first", "both") else []
    step += some(AHEAD, 1, 0.15)
    step.append(gradients)
    step += some(BETWEEN, 2, 0.3)
    if "step(closure)" not in gradients:
        step.append(pick(UPDATES))
    step += some(AFTER, 2, 0.25)
    step += [zero] if place in ("last", "both") else []
    autocast = rng.choice(("call", "model", "loss")) if rng.random() < 0.12 else ""
    if autocast == "loss":
        step = [
            f"{AUTOCAST}\n{textwrap.indent(line, '    ')}"
            if "loss_of" in line
            else line
            for line in step
        ]
    known = gradients.startswith("out =") or "\nout =" in gradients
    results = [r for r in RESULTS if known or "out" not in r]
    step.append(f"return {rng.choice(results)}")
    events = [
        (rng.randint(1, STEPS - 1), pick(EVENTS))
        for _ in range(rng.choice((0, 0, 1, 1, 2, 3, 4)))
    ]
    rows = [6] * STEPS
    if rng.random() < 0.3:
        rows = [rng.choice((6, 6, 4)) for _ in rows]
    return Program(
        base=base,
        dtype="float32" if autocast or rng.random() < 0.45 else "float64",
        layers=tuple(layers),
        loss=rng.choice(LOSSES) + rng.choice(EXTRA),
        optimizer=f"torch.optim.{name}(params, {', '.join(chosen)})",
        groups=rng.random() < 0.15,
        setup=tuple(some(SETUP, 1, 0.25)),
        step=tuple(step),
        events=tuple(sorted(events, key=lambda e: e[0])),
        rows=tuple(rows),
        compiled="step" if plain else rng.choice(("step",) * 7 + ("model", "loss", "update")),
        arguments=rng.choice(("x, y", "x, y", "model, optimizer, x, y")),
        autocast=autocast,
        marks=("transposed",) if rng.random() < 0.1 else (),
    )  # fmt: skip
