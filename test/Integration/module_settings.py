# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Settings of modules that change between two calls, found in the modules of PyTorch's own list (`module_db`).

A change is made to a `World`: a module and what its next calls are given. It says how it is undone. Nothing here knows a
class of modules: what can be changed is read from the module's attributes, parameters, buffers and submodules.
"""

from __future__ import annotations

import copy
import dataclasses
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from Integration.settings import Change, Undo, with_attribute
from torch import nn
from torch.nn.utils import parametrizations, parametrize

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_modules import ModuleInfo, module_db

MODULES = sorted(module_db, key=lambda info: info.name)


@dataclasses.dataclass
class World:
    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    alter: Callable[[torch.Tensor], torch.Tensor] = lambda t: t
    leaves: bool = True  # inputs require a gradient
    by_name: bool = False
    seen: list[Any] = dataclasses.field(default_factory=list)


def sample_count(info: ModuleInfo) -> int:
    return len(_samples(info))


def _samples(info: ModuleInfo) -> list[Any]:
    torch.manual_seed(0)
    random.seed(0)
    return list(
        info.module_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=False, training=True
        )
    )


def make_world(info: ModuleInfo, sample: int, grad: bool) -> World | None:
    """The module of a sample and its inputs, the same ones each time; None where the sample has no inputs."""
    chosen = _samples(info)[sample]
    if chosen.forward_input is None:
        return None
    made = chosen.constructor_input
    torch.manual_seed(1)
    module = info.module_cls(*made.args, **made.kwargs)
    # Lazy modules have their parameters, and become what they are, before anything is compiled.
    if any(nn.parameter.is_lazy(p) for p in module.parameters()):
        module(*chosen.forward_input.args, **chosen.forward_input.kwargs)
    return World(
        module, chosen.forward_input.args, chosen.forward_input.kwargs, leaves=grad
    )


def inputs(
    world: World, step: int, grad: bool
) -> tuple[tuple[Any, ...], dict[str, Any], list[torch.Tensor]]:
    """Of one call, and the leaves among them."""
    leaves: list[torch.Tensor] = []

    def fresh(value: Any) -> Any:
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            return type(value)(fresh(v) for v in value)
        if not isinstance(value, torch.Tensor):
            return value
        value = value.detach().clone()
        if value.is_floating_point() and value.numel() != 0:
            value = value * (1 - 0.05 * (step % 3))
        value = world.alter(value)
        if grad and world.leaves and value.is_floating_point():
            value = value.detach().requires_grad_()
            leaves.append(value)
        return value

    args = tuple(fresh(a) for a in world.args)
    kwargs = {k: fresh(v) for k, v in world.kwargs.items()}
    if world.by_name:
        names = list(_signature(world.module))[: len(args)]
        kwargs = {**dict(zip(names, args, strict=False)), **kwargs}
        args = ()
    return args, kwargs, leaves


def _signature(module: nn.Module) -> list[str]:
    code = type(module).forward.__code__
    return list(code.co_varnames[1 : code.co_argcount])


_TEXTS = (
    ("zeros", "reflect", "replicate", "circular"),
    ("mean", "sum", "none", "batchmean"),
    ("none", "tanh"),
    ("tanh", "relu"),
)


def other_values(value: Any) -> list[Any]:
    """Other values of an attribute. Some are not legal: the calls must raise then what eager raises."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, max(value - 1, 0), value * 2 + 2, float(value), bool(value)]
    if isinstance(value, float):
        return [value * 0.5 + 0.1, 0.0, value + 1, 1, -value - 0.25, None]
    if isinstance(value, str):
        return [t for texts in _TEXTS if value in texts for t in texts if t != value]
    if value is None:
        return [1, 0.5, True]
    if isinstance(value, tuple) and value and all(type(v) is int for v in value):
        return [
            tuple(v + 1 for v in value),
            (value[0] + 1, *value[1:]),
            value[0],
            list(value),
            tuple(max(v - 1, 0) for v in value),
        ]
    if isinstance(value, tuple) and value:
        return [value[::-1]]
    return []


def _set(path: str, name: str, value: Any) -> Change[World]:
    def do(world: World) -> Undo:
        owner = world.module.get_submodule(path)
        before = getattr(owner, name)
        setattr(owner, name, copy.copy(value))
        return lambda: setattr(owner, name, before)

    return Change(f"{path or 'module'}.{name} = {value!r}", do)


def _attribute_changes(module: nn.Module) -> Iterator[Change[World]]:
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            if name.startswith("_"):
                continue
            for other in other_values(value):
                yield _set(path, name, other)


def _tensor_change(
    path: str, name: str, text: str, do: Callable[[nn.Module, str], Undo]
) -> Change[World]:
    return Change(
        f"{path or 'module'}.{name}: {text}",
        lambda world: do(world.module.get_submodule(path), name),
    )


def _replace(make: Callable[[Any], Any]) -> Callable[[nn.Module, str], Undo]:
    def do(owner: nn.Module, name: str) -> Undo:
        before = getattr(owner, name)
        setattr(owner, name, make(before))
        return lambda: setattr(owner, name, before)

    return do


def _data(owner: nn.Module, name: str) -> Undo:
    t = getattr(owner, name)
    before = t.data
    t.data = before * 0.5 if t.is_floating_point() else before + 1

    def undo() -> None:
        t.data = before

    return undo


def _transposed_data(owner: nn.Module, name: str) -> Undo:
    t = getattr(owner, name)
    before = t.data
    t.data = before.mT.contiguous().mT if t.dim() > 1 else before.repeat(2)[::2]

    def undo() -> None:
        t.data = before

    return undo


def _write(owner: nn.Module, name: str) -> Undo:
    t = getattr(owner, name)
    with torch.no_grad():
        t.mul_(2)

    def undo() -> None:
        with torch.no_grad():
            t.div_(2) if t.is_floating_point() else t.floor_divide_(2)

    return undo


def _double_data(owner: nn.Module, name: str) -> Undo:
    t = getattr(owner, name)
    before = t.data
    t.data = before.double()

    def undo() -> None:
        t.data = before

    return undo


def _freeze(owner: nn.Module, name: str) -> Undo:
    t = getattr(owner, name)
    t.requires_grad_(False)
    return lambda: t.requires_grad_(True)


def _hooked(owner: nn.Module, name: str) -> Undo:
    return getattr(owner, name).register_hook(lambda g: g * 2).remove


def _as_parameter(t: torch.Tensor) -> nn.Parameter:
    return nn.Parameter(t.detach() * 0.5)


def _tensor_changes(module: nn.Module) -> Iterator[Change[World]]:
    for path, part in module.named_modules():
        for name, p in part._parameters.items():
            if p is None:
                continue
            yield _tensor_change(
                path, name, "another parameter", _replace(_as_parameter)
            )
            yield _tensor_change(path, name, "None", _replace(lambda t: None))
            yield _tensor_change(path, name, "data", _data)
            if p.numel() > 1:
                yield _tensor_change(path, name, "transposed data", _transposed_data)
            yield _tensor_change(path, name, "double data", _double_data)
            yield _tensor_change(path, name, "written", _write)
            yield _tensor_change(path, name, "frozen", _freeze)
            yield _tensor_change(path, name, "hooked", _hooked)
        for name, b in part._buffers.items():
            if b is None:
                continue
            other = _replace(lambda t: t * 0.5 if t.is_floating_point() else t + 1)
            yield _tensor_change(path, name, "another buffer", other)
            yield _tensor_change(path, name, "None", _replace(lambda t: None))
            yield _tensor_change(path, name, "data", _data)
            yield _tensor_change(path, name, "written", _write)


def _mode(world: World) -> Undo:
    before = world.module.training
    world.module.train(not before)
    return lambda: world.module.train(before)


def _dtype(both: bool) -> Callable[[World], Undo]:
    def do(world: World) -> Undo:
        world.module.double()
        if both:
            world.alter = lambda t: t.double() if t.is_floating_point() else t

        def undo() -> None:
            world.module.float()
            world.alter = lambda t: t

        return undo

    return do


def _alter(how: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[World], Undo]:
    def do(world: World) -> Undo:
        world.alter = how

        def undo() -> None:
            world.alter = lambda t: t

        return undo

    return do


def _scaled(out: Any, factor: float) -> Any:
    if isinstance(out, torch.Tensor):
        return out * factor
    if type(out) in (list, tuple):
        return type(out)(_scaled(o, factor) for o in out)
    return out


def _shown(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, (list, tuple)):
        return [_shown(v) for v in value]
    return None


def _hooks(
    part: Callable[[nn.Module], nn.Module],
) -> dict[str, Callable[[World], Undo]]:
    """Each kind of hook on one of the modules, those that change something and those that only look."""

    def of(
        method: str, hook: Callable[[World], Callable[..., Any]], **options: Any
    ) -> Callable[[World], Undo]:
        """To and fro, it is one hook; its number is another one each time."""
        kept: list[Any] = []

        def do(world: World) -> Undo:
            kept[:] = kept or [hook(world)]
            return getattr(part(world.module), method)(kept[0], **options).remove

        return do

    def counted(w: World) -> Callable[..., Any]:
        calls = [0]

        def hook(m: nn.Module, args: Any, out: Any) -> Any:
            calls[0] += 1
            w.seen.append(calls[0])
            return _scaled(out, 1 + calls[0])

        return hook

    return {
        "pre hook": of(
            "register_forward_pre_hook", lambda w: lambda m, a: _scaled(a, 0.5)
        ),
        "pre hook with keywords": of(
            "register_forward_pre_hook",
            lambda w: lambda m, a, k: (_scaled(a, 0.5), k),
            with_kwargs=True,
        ),
        "hook": of("register_forward_hook", lambda w: lambda m, a, o: _scaled(o, 2.0)),
        "hook that looks": of(
            "register_forward_hook",
            lambda w: lambda m, a, o: w.seen.append(_shown(o)),
            always_call=True,
        ),
        "hook that counts": of("register_forward_hook", counted),
        "hook that writes": of(
            "register_forward_hook",
            lambda w: (
                lambda m, a, o: o.add_(1) if isinstance(o, torch.Tensor) else None
            ),
        ),
        "backward hook": of(
            "register_full_backward_hook",
            lambda w: lambda m, gi, go: w.seen.append([_shown(gi), _shown(go)]),
        ),
        "backward pre hook": of(
            "register_full_backward_pre_hook", lambda w: lambda m, go: _scaled(go, 3.0)
        ),
    }


def _own_forward() -> Callable[[World], Undo]:
    kept: list[Any] = []

    def do(world: World) -> Undo:
        module = world.module
        original = module.forward
        kept[:] = kept or [lambda *a, **k: _scaled(original(*a, **k), 3.0)]
        module.forward = kept[0]

        def undo() -> None:
            del module.forward

        return undo

    return do


def _class_forward() -> Callable[[World], Undo]:
    kept: list[Any] = []

    def do(world: World) -> Undo:
        kind = type(world.module)
        own = "forward" in vars(kind)
        original = kind.forward

        def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
            return _scaled(original(self, *args, **kwargs), 5.0)

        kept[:] = kept or [forward]
        kind.forward = kept[0]

        def undo() -> None:
            if own:
                kind.forward = original
            else:
                del kind.forward

        return undo

    return do


class _Half(nn.Module):
    def forward(self, t: torch.Tensor) -> torch.Tensor:
        return t * 0.5


def _parametrized(name: str) -> Callable[[World], Undo]:
    def do(world: World) -> Undo:
        module = world.module
        parametrize.register_parametrization(module, name, _Half())
        return lambda: parametrize.remove_parametrizations(
            module, name, leave_parametrized=False
        )

    return do


def _normed(name: str) -> Callable[[World], Undo]:
    def do(world: World) -> Undo:
        module = world.module
        parametrizations.weight_norm(module, name)
        return lambda: parametrize.remove_parametrizations(module, name)

    return do


def _replaced_part(path: str) -> Callable[[World], Undo]:
    def do(world: World) -> Undo:
        before = world.module.get_submodule(path)
        other = copy.deepcopy(before)
        with torch.no_grad():
            for p in other.parameters():
                p.mul_(0.5)
        owner, _, name = path.rpartition(".")
        parent = world.module.get_submodule(owner)
        setattr(parent, name, other)
        return lambda: setattr(parent, name, before)

    return do


def _subclassed() -> Callable[[World], Undo]:
    kept: list[Any] = []

    def do(world: World) -> Undo:
        module, kind = world.module, type(world.module)
        kept[:] = kept or [type("Derived", (kind,), {"extra_note": 1})]
        module.__class__ = kept[0]

        def undo() -> None:
            module.__class__ = kind

        return undo

    return do


def _class_changes(module: nn.Module) -> Iterator[Change[World]]:
    for kind in type(module).__mro__:
        if kind is nn.Module:
            break
        for name, value in vars(kind).items():
            if name.startswith("__") or isinstance(value, (type(None), tuple)):
                continue
            for other in other_values(value):

                def do(
                    world: World, kind: Any = kind, name: str = name, other: Any = other
                ) -> Undo:
                    before = getattr(kind, name)
                    setattr(kind, name, other)
                    return lambda: setattr(kind, name, before)

                yield Change(f"class {kind.__name__}.{name} = {other!r}", do)


def _input_changes() -> Iterator[Change[World]]:
    """None to half precision: what is fused rounds less often than eager does, which has tests of its own."""

    def wide(t: torch.Tensor) -> torch.Tensor:
        return torch.stack([t, t], -1)[..., 0] if t.dim() else t

    ways: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "inputs: one row": lambda t: t[:1] if t.dim() > 1 else t,
        "inputs: twice the rows": lambda t: torch.cat([t, t]) if t.dim() > 1 else t,
        "inputs: a longer end": lambda t: torch.cat([t, t], -1) if t.dim() > 2 else t,
        "inputs: no rows": lambda t: t[:0] if t.dim() > 1 else t,
        "inputs: strided": wide,
        "inputs: transposed": lambda t: t.mT.contiguous().mT if t.dim() > 1 else t,
        "inputs: double": lambda t: t.double() if t.is_floating_point() else t,
        "inputs: one more dimension": lambda t: t[None],
        "inputs: int32": lambda t: t if t.is_floating_point() else t.int(),
    }
    for name, how in ways.items():
        yield Change(name, _alter(how))
    yield Change("inputs: without gradients", with_attribute("leaves", False))
    yield Change("inputs by name", with_attribute("by_name", True))


def changes_of(module: nn.Module) -> list[Change[World]]:
    """All that can be changed of a module and of its inputs."""
    parts = [path for path, _ in module.named_modules() if path]
    found = [*_attribute_changes(module), *_tensor_changes(module)]
    found += [
        Change("train or eval", _mode),
        Change("module.double()", _dtype(False)),
        Change("module and inputs double", _dtype(True)),
        Change("forward of the instance", _own_forward()),
        Change("forward of the class", _class_forward()),
        Change("another class", _subclassed()),
    ]
    for text, do in _hooks(lambda m: m).items():
        found.append(Change(text, do, returns=False))
    for path in parts[:2] + parts[-1:]:
        for text, do in _hooks(lambda m, path=path: m.get_submodule(path)).items():
            found.append(Change(f"{path}: {text}", do, returns=False))
        found.append(Change(f"{path} replaced", _replaced_part(path), returns=False))
    for name, p in module._parameters.items():
        if p is not None:
            found.append(
                Change(f"{name} parametrized", _parametrized(name), returns=False)
            )
            if p.dim() > 1:
                found.append(
                    Change(f"{name} with weight norm", _normed(name), returns=False)
                )
    return [*found, *_class_changes(module), *_input_changes()]
