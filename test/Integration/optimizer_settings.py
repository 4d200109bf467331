# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Settings of optimizers that change between two steps, found in PyTorch's own list of optimizers (`optim_db`)."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from Integration.settings import Change, Undo, with_attribute
from torch import nn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_optimizers import OptimizerInfo, optim_db

OPTIMIZERS = sorted(optim_db, key=lambda info: info.optim_cls.__name__)
FORMS = ("step", "model", "update")


class _Model(nn.Module):
    """Weights alone, where an optimizer takes matrices alone; an embedding with sparse gradients where it asks."""

    def __init__(self, info: OptimizerInfo) -> None:
        super().__init__()
        bias = info.optim_cls is not torch.optim.Muon
        self.embedding = None
        if info.only_supports_sparse_grads:
            self.embedding = nn.Embedding(8, 4, sparse=True)
        else:
            self.first = nn.Linear(4, 8, bias=bias)
            self.last = nn.Linear(8, 2, bias=bias)
            self.more = nn.Linear(4, 2, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.embedding is not None:
            return self.embedding((x.abs() * 4).long().clamp(max=7)).tanh()
        return self.last(self.first(x).tanh()) + self.more(x)


@dataclasses.dataclass
class World:
    model: nn.Module
    optimizer: torch.optim.Optimizer
    seen: list[Any]
    to_none: bool = True
    used: bool = True


def configurations(info: OptimizerInfo) -> list[Any]:
    return list(info.optim_inputs_func("cpu"))


def make_world(info: OptimizerInfo, configuration: int) -> World:
    torch.manual_seed(0)
    model = _Model(info)
    chosen = configurations(info)[configuration]
    if info.step_requires_closure or chosen.kwargs.get("centered"):
        # A search along lines multiplies what rounding makes of a loss; a centered variance is what two sums differ by.
        model.double()
    held = [p for n, p in model.named_parameters() if not n.startswith("more")]
    optimizer = info.optim_cls(held, **copy.deepcopy(chosen.kwargs))
    return World(model, optimizer, [])


def other_values(name: str, value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value * 2, float(value)]
    if isinstance(value, float):
        made: list[Any] = [value * 0.5 + 0.001, 0.0, value * 2, 1, value + 0.1]
        return [*made, torch.tensor(value * 0.5)] if name == "lr" else made
    if isinstance(value, torch.Tensor):
        return [value * 0.5, float(value.detach().flatten()[0]) * 0.5]
    if value is None:
        return [True, False, 0.5]
    if isinstance(value, tuple) and value:
        return [
            tuple(v * 0.9 if v is not None else 0.5 for v in value),
            value[::-1],
            list(value),
            (value[0], *(v * 0.95 if v is not None else 0.1 for v in value[1:])),
        ]
    return []


def _group_changes(world: World) -> Iterator[Change[World]]:
    for key, value in world.optimizer.param_groups[0].items():
        if key == "params":
            continue
        for other in other_values(key, value):

            def do(w: World, key: str = key, other: Any = other) -> Undo:
                group = w.optimizer.param_groups[0]
                before = group[key]
                group[key] = copy.deepcopy(other)

                def undo() -> None:
                    group[key] = before

                return undo

            yield Change(f"{key} = {other!r}", do)


def _writes_lr(w: World) -> Undo:
    group = w.optimizer.param_groups[0]
    before = group["lr"]
    if isinstance(before, torch.Tensor):
        before.mul_(0.5)
        return lambda: before.mul_(2)
    group["lr"] *= 0.7
    return lambda: group.__setitem__("lr", before)


def _add_group(w: World) -> Undo:
    extra = list(getattr(w.model, "more", nn.Identity()).parameters())
    w.optimizer.add_param_group({"params": extra, "lr": 0.05})

    def undo() -> None:
        w.optimizer.param_groups.pop()
        for p in extra:
            w.optimizer.state.pop(p, None)

    return undo


def _first(w: World) -> nn.Parameter:
    return w.optimizer.param_groups[0]["params"][0]


def _freeze(w: World) -> Undo:
    p = _first(w)
    p.requires_grad_(False)
    p.grad = None
    return lambda: p.requires_grad_(True)


def _load(w: World) -> Undo:
    kept = copy.deepcopy(w.optimizer.state_dict())
    for entry in kept["state"].values():
        for k, v in entry.items():
            if isinstance(v, torch.Tensor) and v.is_floating_point() and k != "step":
                entry[k] = v * 0.5
    w.optimizer.load_state_dict(kept)
    return lambda: None


def _load_same(w: World) -> Undo:
    w.optimizer.load_state_dict(copy.deepcopy(w.optimizer.state_dict()))
    return lambda: None


def _clear(w: World) -> Undo:
    before = dict(w.optimizer.state)
    w.optimizer.state.clear()

    def undo() -> None:
        w.optimizer.state.clear()
        w.optimizer.state.update(before)

    return undo


def _forget_first(w: World) -> Undo:
    p = _first(w)
    before = w.optimizer.state.pop(p)
    return lambda: w.optimizer.state.__setitem__(p, before)


def _replace_state(how: Callable[[torch.Tensor], Any]) -> Callable[[World], Undo]:
    def do(w: World) -> Undo:
        entry = w.optimizer.state[_first(w)]
        for k, v in list(entry.items()):
            if isinstance(v, torch.Tensor):
                entry[k] = how(v)
        return lambda: None

    return do


def _write_state(w: World) -> Undo:
    for v in w.optimizer.state[_first(w)].values():
        if isinstance(v, torch.Tensor):
            v.add_(1)
    return lambda: None


def _data(w: World) -> Undo:
    p = _first(w)
    p.data = p.data * 0.5
    return lambda: None


def _replace_parameter(w: World) -> Undo:
    p = _first(w)
    other = nn.Parameter(p.detach() * 0.5)
    for m in w.model.modules():
        for name, held in m._parameters.items():
            if held is p:
                m._parameters[name] = other
    w.optimizer.param_groups[0]["params"][0] = other
    return lambda: None


def _pre_hook(w: World) -> Undo:
    return w.optimizer.register_step_pre_hook(lambda *a: w.seen.append(1)).remove


def _post_hook(w: World) -> Undo:
    def hook(o: Any, *a: Any) -> None:
        for g in o.param_groups:
            g["lr"] = g["lr"] * 0.9

    return w.optimizer.register_step_post_hook(hook).remove


def _gradient_hook(w: World) -> Undo:
    return _first(w).register_hook(lambda g: g * 2).remove


def _swap_order(w: World) -> Undo:
    params = w.optimizer.param_groups[0]["params"]
    params.reverse()
    return params.reverse


def _drop_first(w: World) -> Undo:
    params = w.optimizer.param_groups[0]["params"]
    if len(params) < 2:
        raise ValueError
    p = params.pop(0)
    return lambda: params.insert(0, p)


def _split(w: World) -> Undo:
    group = w.optimizer.param_groups[0]
    p = group["params"].pop(0)
    w.optimizer.param_groups.append({**group, "params": [p]})

    def undo() -> None:
        w.optimizer.param_groups.pop()
        group["params"].insert(0, p)

    return undo


def _defaults(w: World) -> Undo:
    d = w.optimizer.defaults
    before = dict(d)
    for k, v in before.items():
        if isinstance(v, bool):
            d[k] = not v
    return lambda: d.update(before)


def _attribute(w: World) -> Undo:
    """The optimizer itself gains an attribute; its method `step` is another."""
    inner = w.optimizer.step

    def step(*a: Any, **k: Any) -> Any:
        w.seen.append("step")
        return inner(*a, **k)

    w.optimizer.step = step  # type: ignore[method-assign]

    def undo() -> None:
        w.optimizer.step = inner

    return undo


def _schedule(w: World) -> Undo:
    s = torch.optim.lr_scheduler.ExponentialLR(w.optimizer, 0.5)
    s.step()
    return lambda: None


def changes_of(world: World) -> list[Change[World]]:
    others: dict[str, Callable[[World], Undo]] = {
        "lr written": _writes_lr,
        "a group more": _add_group,
        "first frozen": _freeze,
        "gradients zeroed": with_attribute("to_none", False),
        "part unused": with_attribute("used", False),
        "state loaded": _load,
        "same state loaded": _load_same,
        "state cleared": _clear,
        "first forgotten": _forget_first,
        "state copied": _replace_state(lambda t: t.clone()),
        "state zeroed": _replace_state(torch.zeros_like),
        "state as double": _replace_state(lambda t: t.double()),
        "state transposed": _replace_state(
            lambda t: t.mT.contiguous().mT if t.dim() > 1 else t.clone()
        ),
        "state as numbers": _replace_state(
            lambda t: t.item() if t.numel() == 1 and t.dim() == 0 else t
        ),
        "state written": _write_state,
        "data replaced": _data,
        "parameter replaced": _replace_parameter,
        "pre hook": _pre_hook,
        "post hook": _post_hook,
        "gradient hook": _gradient_hook,
        "other order": _swap_order,
        "one dropped": _drop_first,
        "split in groups": _split,
        "defaults": _defaults,
        "own step": _attribute,
        "schedule": _schedule,
    }
    # A hook has another number each time; a parameter, a group or a schedule is another object.
    anew = {"pre hook", "post hook", "parameter replaced", "a group more", "schedule"}
    found = [Change(name, do, name not in anew) for name, do in others.items()]
    return [*_group_changes(world), *found]


def steps_of(
    compile: Callable[..., Any], world: World, form: str, closure: bool
) -> tuple[Callable[..., Any], Any]:
    """A step of the world, and what of it is compiled: all of it, the model, or the update alone."""
    model = compile(world.model) if form == "model" else world.model
    update: Any
    if form == "update":
        update = compile(lambda *a: world.optimizer.step(*a))
    else:
        update = lambda *a: world.optimizer.step(*a)

    def loss_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if not world.used:
            return sum(p.square().sum() for p in list(world.model.parameters())[1:])
        out = model(x)
        return (out - y if out.shape == y.shape else out).square().mean()

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        def again() -> torch.Tensor:
            world.optimizer.zero_grad(set_to_none=world.to_none)
            loss = loss_of(x, y)
            loss.backward()
            return loss

        if closure:
            return update(again)
        loss = again()
        update()
        return loss.detach()

    if form == "step":
        step = compile(step)
    return step, {"step": step, "model": model, "update": update}[form]
