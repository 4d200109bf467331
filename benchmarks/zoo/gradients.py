# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Examines one program of the zoo in grad mode: the model is compiled, the training loop is Python's.

Eager and pyjit train a copy of the model each for a few steps: call, loss of what the call
returned, backward, a step of SGD. Everything that such a loop can see is compared after each
step: results, gradients of parameters and inputs, parameters, buffers, and the random state.
"""

from __future__ import annotations

import copy
import dataclasses
import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy
import torch
from torch import nn

from zoo import Program
from zoo.compare import Gap, compare

STEPS = ("first", "first", "other", "first")
SETTLING = ("other", "first", "other", "first")
"""Steps more for a program whose calls are not yet answered by one graph: some branches, the first gradients,
what a model makes in its first call take a call each until one specialization serves."""
RATE = 1e-3


def leaves(value: Any, seen: set[int] | None = None) -> Iterator[torch.Tensor]:
    """The tensors in a result, in order."""
    seen = set() if seen is None else seen
    if isinstance(value, torch.Tensor):
        yield value
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, dict):
        for entry in value.values():
            yield from leaves(entry, seen)
    elif isinstance(value, (list, tuple, set)):
        for entry in value:
            yield from leaves(entry, seen)
    elif hasattr(value, "__dict__") and not isinstance(value, (nn.Module, type)):
        yield from leaves(vars(value), seen)


def loss_of(result: Any) -> torch.Tensor | None:
    """A number that depends on each element of each result in a way of its own."""
    total = None
    for number, tensor in enumerate(leaves(result)):
        if not tensor.requires_grad or not tensor.is_floating_point():
            continue
        shape = torch.Generator().manual_seed(number)
        weights = torch.rand(tensor.shape, generator=shape).to(tensor)
        part = (tensor * weights).mean() + 0.1 * tensor.square().mean()
        total = part if total is None else total + part
    return total


class Trainer:
    """One of the two loops: a callable, the module whose parameters it trains, what it sees."""

    def __init__(self, call: Any, owner: nn.Module | None) -> None:
        self.call = call
        self.owner = owner
        parameters = [p for p in owner.parameters()] if owner else []
        kept = [p for p in parameters if p.requires_grad]
        self.optimizer = torch.optim.SGD(kept, lr=RATE, momentum=0.9) if kept else None

    def step(self, args: Any, kwargs: Any, seed: int) -> dict[str, Any]:
        torch.manual_seed(seed)
        random.seed(seed)
        numpy.random.seed(seed)
        if self.optimizer:
            self.optimizer.zero_grad()
        wanted = [t for t in leaves((args, kwargs)) if t.is_floating_point()]
        for tensor in wanted if not self.optimizer else ():
            tensor.requires_grad_()
        try:
            result = self.call(*args, **kwargs)
        except Exception as error:
            return {"raised": f"{type(error).__name__}: {error}"}
        seen: dict[str, Any] = {"result": result, "random": torch.get_rng_state()}
        loss = loss_of(result)
        if loss is not None:
            try:
                loss.backward()
            except RuntimeError as error:
                seen["backward"] = type(error).__name__
        seen["inputs"] = [t.grad for t in wanted]
        if self.owner:
            seen["gradients"] = {n: p.grad for n, p in self.owner.named_parameters()}
        seen = copy.deepcopy(detached(seen))
        if self.optimizer:
            self.optimizer.step()
        if self.owner:
            seen["state"] = copy.deepcopy(self.owner.state_dict())
        return seen


def detached(value: Any) -> Any:
    """What can be copied and compared when the graph is gone."""
    found = [t.detach() for t in leaves(value["result"])]
    needs = [t.requires_grad for t in leaves(value["result"])]
    return value | {"result": found, "requires grad": needs}


def examine_gradients(program: Program, train: bool) -> dict[str, Any]:
    """Runs one program in this process and says what became of it."""
    # Two images: of one, eager's batch norms on the CPU have wrong gradients behind `flatten(2).transpose(1, 2)`
    # (torch 2.11: ATen's backward takes channels last for contiguous; finite differences and docs/Training.md tell).
    if program.training:
        program = dataclasses.replace(program, make=program.training)
    found: dict[str, Any] = {"name": program.name, "family": program.family}
    found |= compare_steps(program, train, lambda v: v)
    if found["differences"] and not found.get("raises"):
        again = [train_both(program, train, wide) for wide in (True, False)]
        found["rounding"] = not any(r["differences"] or r.get("raises") for r in again)
        if found["rounding"]:
            found["differences"] = []
    return found


def widened(value: Any) -> Any:
    if isinstance(value, (torch.Tensor, nn.Module)):
        wide = isinstance(value, nn.Module) or value.dtype == torch.float32
        return value.double() if wide else value
    if type(value) in (list, tuple):
        return type(value)(widened(v) for v in value)
    if type(value) is dict:
        return {k: widened(v) for k, v in value.items()}
    return value


# How weights are drawn and trained, and how far off they are: rounding of what they were drawn in.
DOUBLE, SINGLE = torch.float64, torch.float32
SHAKEN = {DOUBLE: 1e-15, SINGLE: 1e-7}
NOISE = 0.1
"""Off by more, gradients of two eager runs say nothing about a third one."""


def train_both(program: Program, train: bool, wide: bool) -> dict[str, Any]:
    """What is off by more than rounding explains.

    What pyjit gives may be four times as far from eager as eager is from itself when its weights are a few
    units in the last place off: a batch norm over a tiny batch makes 1e-7 of 1e-15 in three steps. In float64
    (``wide``) nothing else counts. In float32 it may as well be four times as far from eager's in float64 as
    eager is. Steps in which the two eager runs have nothing in common any more are not compared: in float64
    that takes more steps than there are.
    """
    dtype = DOUBLE if wide else SINGLE
    references = [(dtype, SHAKEN[dtype])] + ([] if wide else [(DOUBLE, 0.0)])
    for trained, noise in references:
        exact = reference_steps(program, train, dtype, trained, noise)
        torch.set_default_dtype(dtype)
        try:
            as_type = widened if wide else lambda v: v
            found = compare_steps(program, train, as_type, exact)
        finally:
            torch.set_default_dtype(SINGLE)
        if not found["differences"]:
            break
    return found


def reference_steps(
    program: Program,
    train: bool,
    drawn: torch.dtype,
    trained: torch.dtype,
    noise: float,
) -> list[dict[str, Any]]:
    """What eager's loop sees with weights drawn in one dtype, a little off, and trained in another."""
    as_type = widened if trained == DOUBLE else lambda v: v
    torch.set_default_dtype(drawn)
    try:
        torch.manual_seed(0)
        target, inputs = program.make()
        torch.set_default_dtype(trained)
        owner = target if isinstance(target, nn.Module) else None
        if owner:
            target = owner = as_type(owner).train(train)
        numbers = torch.Generator().manual_seed(0)
        for weight in owner.parameters() if owner and noise else ():
            off = torch.randn(weight.shape, generator=numbers, dtype=DOUBLE)
            weight.data.mul_((1 + noise * off).to(weight))
        trainer = Trainer(target, owner)
        seen = []
        for number, which in enumerate(STEPS + SETTLING):
            torch.set_default_dtype(drawn)
            torch.manual_seed(number)
            with torch.no_grad():
                given = as_type(inputs(which))
            torch.set_default_dtype(trained)
            seen.append(trainer.step(*given, number))
        return seen
    finally:
        torch.set_default_dtype(SINGLE)


def is_near(seen: dict[str, Any], reference: dict[str, Any]) -> bool:
    """Whether eager's gradients are near those of the other eager run: if not, they are noise."""
    gradients = seen.get("gradients", {}), reference.get("gradients", {})
    for name in gradients[0].keys() & gradients[1].keys():
        one, other = (g[name] for g in gradients)
        known = one is not None and other is not None and one.numel()
        if known and one.layout == other.layout == torch.strided:
            gap = (one.double() - other.double()).abs().max().item()
            bound = NOISE * max(1.0, other.abs().max().item())
            # A gap of nan, where one has overflowed, is none that is near.
            if not gap <= bound:
                return False
    return True


def by_one_graph(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether one specialization has answered the call between the two, without a graph break."""
    parts = ("hits", "continuation_hits", "misses", "eager_calls")
    return [after[key] - before[key] for key in parts] == [1, 0, 0, 0]


def compare_steps(
    program: Program,
    train: bool,
    as_type: Any,
    exact: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    import pyjit

    found: dict[str, Any] = {}
    torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    eager, inputs = program.make()
    if isinstance(eager, nn.Module):
        eager = as_type(eager)
    if isinstance(eager, nn.Module):
        torch.manual_seed(0)
        target: Any = as_type(program.make()[0])
        for module in (eager, target):
            module.train(train)
    else:
        torch.manual_seed(0)
        target, _ = program.make()
    fast = pyjit.compile(target)
    owners = [m if isinstance(m, nn.Module) else None for m in (eager, target)]
    trainers = Trainer(eager, owners[0]), Trainer(fast, owners[1])
    differences: list[str] = []
    whole = 0  # so many calls in a row were answered by one graph
    for number, which in enumerate(STEPS + SETTLING):
        if number >= len(STEPS) and whole > 1:
            break
        before = pyjit.stats(fast)
        given = []
        for _ in trainers:
            torch.manual_seed(number)  # some are made by the model itself
            with torch.no_grad():
                given.append(as_type(inputs(which)))
        seen = [t.step(*g, number) for t, g in zip(trainers, given, strict=True)]
        if "backward" in seen[0]:
            # A write to what eager has saved: a compiled call may have saved something else. Where both raise, which
            # gradients there are already depends on the order of nodes.
            found["eager's backward"] = seen[0]["backward"]
            keys = ("result", "random", "requires grad")
            seen = [{key: one[key] for key in keys} for one in seen]
        reference = exact[number] if exact else None
        if reference and not is_near(seen[0], reference):
            break
        gaps: list[Gap] = compare(*seen, where=f"step {number}", exact=reference)
        found["loss"] = "raised" not in seen[0] and any(seen[0]["requires grad"])
        differences += [str(gap) for gap in gaps]
        if gaps or "eager's backward" in found:
            break
        whole = whole + 1 if by_one_graph(before, pyjit.stats(fast)) else 0
        if number == 1:
            found["stats"] = dict(pyjit.stats(fast))
    found.setdefault("stats", dict(pyjit.stats(fast)))
    found["after"] = dict(pyjit.stats(fast))
    found["settled"] = whole > 1
    found["differences"] = differences
    if "raised" in seen[0]:
        found["raises"] = seen[0]["raised"]
    return found
