# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors that are made to show other memory between a compiled forward and its backward, against eager.

Eager's nodes save an input itself or a view of it: `x.data = y` is seen by the first and not by the second. Random
programs use their leaves in both ways, as what linear layers and products of all ranks take, and through views. Then
the caller sets `.data`, calls `set_`, swaps tensors, or loads a state by assignment, goes backward, and calls again.

A fifth of PYJIT_EXAMPLES is the number of stories.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from Integration.harness import Raised, attempt, module_of

EXAMPLES = int(os.environ.get("PYJIT_EXAMPLES", "100"))
TURNS = 4
Tensor = torch.Tensor
Entries = list[tuple[str, Any]]

# All of `a`'s kind: four rows of six. x has such a kind, c is three of them, w a square of six, v a row.
LINES = (
    "F.linear({a}, w)", "F.linear({a}, w, v)", "F.linear({a}, w.tanh())", "{a} @ w", "{a} @ w.t()", "({a} @ v)[:, None] * {a}",
    "{a} * v", "{a} * {a}", "{a} * x", "x * v", "F.layer_norm({a}, (6,), v)", "F.layer_norm({a}, (6,), v.view(6))",
    "{a} * v.view(1, 6)", "{a} * w[:4]", "{a} + w[1]", "{a} * x.t().t()", "torch.relu({a})", "{a}.exp() * 0.1", "{a}.tanh()",
    "(c @ w).sum(0)", "(c @ v)[0][:, None] * {a}", "F.linear(c, w, v)[1]", "(w[:4] @ c.transpose(1, 2))[0] @ {a}",
    "(v @ c.transpose(1, 2))[0][:, None] * {a}", "(c @ c.transpose(1, 2))[0] @ {a}", "(v @ w) * {a}", "torch.dot(v, v) * {a}",
    "torch.mv(w, v) * {a}", "{a} * x.detach()", "{a} * c[0].detach()", "F.linear(x, w)", "F.linear(v, w) * {a}",
    "torch.addmm({a}, x, w)", "torch.bmm(c, c.transpose(1, 2))[2] @ {a}", "x.reshape(-1)[:6] * {a}", "x.sin() + {a}",
)  # fmt: skip
REPLACED = (
    "{a}.data = {a}.data * 0.5", "{a}.data = {a}.detach().clone() + 1", "{a}.data = other({a})", "{a}.data.mul_(0.5)",
    "{a}.set_(other({a}))", "torch.utils.swap_tensors({a}, other({a}).requires_grad_({a}.requires_grad))",
)  # fmt: skip


def other(tensor: Tensor) -> Tensor:
    return torch.linspace(0.5, 1.5, tensor.numel(), dtype=tensor.dtype).view_as(tensor)


def source_of(rng: random.Random) -> str:
    lines, names = [], ["x"]
    for number in range(rng.randint(1, 5)):
        lines.append(
            f"    t{number} = {rng.choice(LINES).format(a=rng.choice(names))}\n"
        )
        names.append(f"t{number}")
    return (
        "import torch\nimport torch.nn.functional as F\n"
        f"def f(x, c, w, v):\n{''.join(lines)}    return {names[-1]} * 1\n"
    )


class Story:
    def __init__(self, seed: int, compile: Callable[[Any], Any]) -> None:
        self.rng = random.Random(seed)
        self.source = source_of(self.rng)
        self.call = compile(module_of(self.source).f)
        shapes = {"x": (4, 6), "c": (3, 4, 6), "w": (6, 6), "v": (6,)}
        generator = torch.Generator().manual_seed(seed)
        self.leaves = {
            name: (
                torch.randn(shape, dtype=torch.float64, generator=generator) * 0.5
            ).requires_grad_(self.rng.random() < 0.7)
            for name, shape in shapes.items()
        }
        self.leaves["v"].requires_grad_()

    def tell(self) -> Entries:
        seen: Entries = []
        for turn in range(TURNS):
            leaves = self.leaves
            for leaf in leaves.values():
                leaf.grad = None
            made = attempt(self.call, *leaves.values())
            seen.append((f"turn {turn}", made if isinstance(made, Raised) else made.detach().clone()))  # fmt: skip
            if isinstance(made, Raised):
                return seen
            for _ in range(self.rng.randint(1, 2)):
                text = self.rng.choice(REPLACED).format(a=self.rng.choice("xcwwv"))
                done = attempt(self.replace, text)
                seen.append((text, done if isinstance(done, Raised) else None))
            if isinstance(made, Tensor) and made.requires_grad:
                done = attempt((made.sin() * made.detach().cos()).sum().backward)
                seen.append(("backward", done if isinstance(done, Raised) else None))
                if not isinstance(done, Raised):
                    seen += [
                        (f"gradient of {n}", None if leaf.grad is None else leaf.grad.clone())
                        for n, leaf in leaves.items()
                    ]  # fmt: skip
        return seen

    def replace(self, text: str) -> None:
        with torch.no_grad():
            exec(text, {"torch": torch, "other": other, **self.leaves})


def difference(want: Entries, have: Entries) -> str | None:
    """Eager's nodes look at all that they have saved, also for gradients that nobody wants: ours need not raise.
    To swap tensors is refused where somebody holds them: eager's nodes and ours hold other inputs."""
    for (what, w), (_, h) in zip(want, have, strict=False):
        if isinstance(w, Raised) and what == "backward":
            continue
        if "swap_tensors" in what and (isinstance(w, Raised) or isinstance(h, Raised)):
            return None
        same = (
            isinstance(h, Tensor) and torch.allclose(w, h) if isinstance(w, Tensor)
            else w.type is h.type if isinstance(w, Raised) and isinstance(h, Raised) else w is h
        )  # fmt: skip
        if not same:
            return f"{what}: eager {w}, pyjit {h}"
    return None


def find(seed: int) -> tuple[str | None, int]:
    """How the story differs from eager's, and the number of hits."""
    compiled: list[Any] = []

    def compile(f: Callable[..., Any]) -> Any:
        compiled.append(pyjit.compile(f))
        return compiled[-1]

    eager, story = Story(seed, lambda f: f), Story(seed, compile)
    want, have = eager.tell(), story.tell()
    requires = [name for name, leaf in eager.leaves.items() if leaf.requires_grad]
    # Where eager raises in a backward and we do not, there are more entries.
    have = align(want, have)
    found = difference(want, have)
    return found and f"seed {seed}, {requires} require grad\n{eager.source}{found}", pyjit.stats(compiled[0])["hits"]  # fmt: skip


def align(want: Entries, have: Entries) -> Entries:
    """Without the gradients of a backward that raised in eager."""
    aligned: Entries = []
    entries = iter(have)
    for what, _ in want:
        entry = next(entries, None)
        while entry and entry[0] != what and entry[0].startswith("gradient of"):
            entry = next(entries, None)
        aligned.append(entry or (what, "missing"))
    return aligned


@pytest.mark.parametrize("seed", range(EXAMPLES // 5))
def test_replaced_between(seed: int) -> None:
    found, _ = find(seed)
    assert not found, found


def test_stories_hit() -> None:
    """The first call of a story is recorded; most of the others find what they need."""
    assert sum(find(seed)[1] for seed in range(10)) >= 10 * TURNS // 2


@pytest.mark.parametrize("assign", [False, True])
def test_loaded_between(assign: bool) -> None:
    def story(compile: Callable[[Any], Any]) -> list[Any]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.Tanh(), torch.nn.Linear(6, 3))  # fmt: skip
        call, seen = compile(model), []
        x = torch.randn(4, 5)
        for _ in range(4):
            before = list(model.parameters())
            loss = call(x).square().sum()
            state = {name: p.detach() * 0.5 for name, p in model.state_dict().items()}
            model.load_state_dict(state, assign=assign)
            made = attempt(loss.backward)
            seen.append(str(made)[:40] if isinstance(made, Raised) else None)
            seen += [None if p.grad is None else p.grad.clone() for p in before]
            seen += [
                None if p.grad is None else p.grad.clone() for p in model.parameters()
            ]
            for p in [*before, *model.parameters()]:
                p.grad = None
        return seen

    want, have = story(lambda f: f), story(pyjit.compile)
    for w, h in zip(want, have, strict=True):
        assert type(w) is type(h) and (
            not isinstance(w, Tensor) or torch.allclose(w, h, atol=1e-5)
        )


def test_data_of_linear_layers() -> None:
    """`p.data = …` between the two: of a linear layer's weight the backward reads what the forward has read."""

    def story(compile: Callable[[Any], Any]) -> list[Tensor]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(5, 6), torch.nn.LayerNorm(6), torch.nn.Linear(6, 3)
        )
        call, seen = compile(model), []
        for _ in range(4):
            x = torch.randn(4, 5, requires_grad=True)
            loss = F.cross_entropy(call(x), torch.tensor([0, 1, 2, 0]))
            for p in model.parameters():
                p.data = p.data * 0.9
            loss.backward()
            seen += [x.grad, *(p.grad.clone() for p in model.parameters())]
            model.zero_grad()
        return seen

    for w, h in zip(story(lambda f: f), story(pyjit.compile), strict=True):
        torch.testing.assert_close(h, w)
