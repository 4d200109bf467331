# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training loops as stories: a model is compiled, the loop is Python's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from Integration.harness import Compile, Steps, as_test, values
from torch import nn


def perceptron() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def gradients(*tensors: Any) -> list[Any]:
    return [None if t.grad is None else t.grad.clone() for t in tensors]


def leaf(*shape: int, seed: int = 0) -> torch.Tensor:
    return values(*shape, seed=seed).requires_grad_()


def state(module: nn.Module, optimizer: Any = None) -> list[Any]:
    """What a training step may change, but for the model's results."""
    seen: list[Any] = [gradients(*module.parameters()), list(module.parameters())]
    seen += [list(module.buffers()), torch.get_rng_state()]
    if optimizer:
        kept = optimizer.state_dict()["state"]
        seen.append([[v for v in entry.values()] for entry in kept.values()])
    return seen


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01, eps=1e-3),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01, eps=1e-3, amsgrad=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01, eps=1e-2),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01, eps=1e-2),
    "fused AdamW": lambda p: torch.optim.AdamW(p, lr=0.01, eps=1e-3, fused=True),
    "foreach SGD": lambda p: torch.optim.SGD(p, lr=0.05, foreach=True),
}


def loss_of(result: Any) -> torch.Tensor:
    """Each element of each result counts differently."""
    if isinstance(result, torch.Tensor):
        weights = values(*result.shape, seed=99).to(result.dtype)
        return (result * weights).mean() + 0.1 * result.square().mean()
    entries = result.values() if isinstance(result, dict) else result
    parts = [
        loss_of(r)
        for r in entries
        if not isinstance(r, torch.Tensor) or r.requires_grad
    ]
    return torch.stack(parts).sum()


def whole_step(
    model: nn.Module,
    optimizer: Any,
    target: Any = None,
    after: Callable[[torch.Tensor], Any] = lambda loss: None,
) -> Callable[..., Any]:
    """A step as a user writes it, a function of a batch and, where there is no `target`, of its labels.
    `after` runs behind the update; what it returns, if anything, leaves the step beside the loss."""

    def step(x: torch.Tensor, y: Any = target) -> Any:
        optimizer.zero_grad()
        out = model(x)
        loss = F.mse_loss(out, y) if y.is_floating_point() else F.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        more = after(loss)
        return loss.detach() if more is None else (loss.detach(), more)

    return step


def settled(
    story: Callable[[Compile], Steps] | None = None,
    *,
    hits: int,
    graphs: int,
    versions: bool = True,
) -> Any:
    """Makes a pytest test of a story without a graph break: compiled code must have answered so many calls
    at least, by so many specializations at most."""
    if story is None:
        return functools.partial(settled, hits=hits, graphs=graphs, versions=versions)

    def check(made: list[Any]) -> None:
        import pyjit

        stats = [pyjit.stats(f) for f in made]
        found = sum(s["hits"] for s in stats), sum(s["graphs"] for s in stats)
        assert found[0] >= hits and found[1] <= graphs, found

    return as_test(story, captured="late", grad=True, versions=versions, check=check)


def classifier() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 16, bias=False),
        nn.BatchNorm1d(16),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(16, 3),
    )


def labelled(seed: int, rows: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return values(rows, 4, seed=seed), torch.randint(0, 3, (rows,), generator=generator)


def train(
    compile: Compile,
    make: Callable[[], nn.Module],
    draw: Callable[[int], Any],
    *,
    steps: int = 4,
    optimizer: str = "SGD",
) -> Steps:
    """`draw`: the arguments of a step."""
    torch.manual_seed(0)
    module = make()
    chosen = OPTIMIZERS[optimizer](list(module.parameters()))
    f = compile(module)
    for step in range(steps):
        torch.manual_seed(step)
        chosen.zero_grad()
        out = f(*draw(step))
        loss = loss_of(out)
        loss.backward()
        chosen.step()
        yield [out, loss, state(module, chosen)]


class Trainer:
    """A model, its optimizer and a step, as a user writes them."""

    def __init__(
        self,
        make_model: Callable[[], nn.Module],
        make_optimizer: Callable[[nn.Module], torch.optim.Optimizer],
        step: Callable[..., Any],
    ) -> None:
        torch.manual_seed(0)
        self.model = make_model()
        self.optimizer = make_optimizer(self.model)
        self.step = step

    def call(self, *batch: torch.Tensor) -> Any:
        return self.step(self.model, self.optimizer, *batch)

    def state(self) -> dict[str, Any]:
        """All that a step changes: parameters, gradients, buffers, the optimizer's state."""
        parameters = dict(self.model.named_parameters())
        found: dict[str, Any] = {**parameters, **dict(self.model.named_buffers())}
        found |= {f"{name}.grad": p.grad for name, p in parameters.items()}
        for i, slots in enumerate(self.optimizer.state.values()):
            found |= {f"state {i}.{key}": value for key, value in slots.items()}
        return found


def assert_same_state(a: Trainer, b: Trainer) -> None:
    ours, eagers = a.state(), b.state()
    assert ours.keys() == eagers.keys()
    for name, expected in eagers.items():
        found = ours[name]
        assert type(found) is type(expected), name
        if isinstance(expected, torch.Tensor):
            torch.testing.assert_close(
                found, expected, rtol=2e-4, atol=2e-5, msg=lambda m, n=name: f"{n}: {m}"
            )
            assert found._version == expected._version, name
            assert found.stride() == expected.stride(), name
            assert found.requires_grad == expected.requires_grad, name
        else:
            assert found == expected, name
