# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs with state: caches, counters, buffers, hooks, modes, compiled parts."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import torch
from torch import nn

from zoo import Inputs, Program, generator

_programs: list[Program] = []


def program(make: Any) -> Any:
    """``make()`` gives the callable, fresh; it is called with an (n, 8) tensor."""

    def build() -> tuple[Any, Inputs]:
        torch.manual_seed(0)
        f = make()

        def inputs(which: str) -> Any:
            n = 6 if which == "shape" else 4
            return (torch.randn(n, 8, generator=generator(which)),), {}

        return f, inputs

    name = make.__name__.strip("_").replace("_", "-")
    _programs.append(Program(f"state.{name}", "state", build))
    return make


@program
def counter_in_module():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.n = 0
            self.register_buffer("total", torch.zeros(8))

        def forward(self, x):
            self.n += 1
            self.total += x.sum(0)
            return x * self.n + self.total

    return M().eval()


@program
def buffer_replaced():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(8))

        def forward(self, x):
            self.mean = self.mean * 0.9 + x.mean(0) * 0.1
            return x - self.mean

    return M().eval()


@program
def cache_in_dict():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = {}

        def forward(self, x):
            n = x.shape[0]
            if n not in self.cache:
                self.cache[n] = torch.arange(n * 8).view(n, 8).float()
            return x + self.cache[n]

    return M().eval()


@program
def kv_cache_in_lists():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.keys = []

        def forward(self, x):
            self.keys.append(x.mean(0, keepdim=True))
            k = torch.cat(self.keys)
            return (x @ k.T).softmax(-1) @ k

    return M().eval()


@program
def static_kv_cache():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("k", torch.zeros(32, 8))
            self.register_buffer("at", torch.zeros((), dtype=torch.long))

        def forward(self, x):
            rows = self.at + torch.arange(x.shape[0])
            self.k[rows] = x
            self.at += 1
            return (x @ self.k.T).softmax(-1) @ self.k

    return M().eval()


@program
def forward_hooks():
    m = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    m.seen = []
    m[0].register_forward_hook(lambda mod, args, out: out * 2)
    m[1].register_forward_pre_hook(lambda mod, args: (args[0] + 1,))
    return m.eval()


@program
def hook_that_collects():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(8, 8)
            self.features = {}
            self.inner.register_forward_hook(self.keep)

        def keep(self, module, args, output):
            self.features["inner"] = output

        def forward(self, x):
            y = self.inner(x)
            return y + self.features["inner"]

    return M().eval()


@program
def training_flag():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)
            self.norm = nn.LayerNorm(8)

        def forward(self, x):
            return self.norm(self.drop(x)) if self.training else self.norm(x) * 2

    m = M()
    m.train()
    return m


@program
def tied_weights():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(8, 8, bias=False)
            self.b = nn.Linear(8, 8, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    return M().eval()


@program
def compiled_part():
    import pyjit

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = pyjit.compile(nn.Sequential(nn.Linear(8, 8), nn.Tanh()))

        def forward(self, x):
            return self.inner(x) + 1

    return M().eval()


@program
def compiled_function_inside():
    import pyjit

    inner = pyjit.compile(lambda t: t.relu() * 2)
    return lambda x: inner(x) + inner(x * 2)


@program
def disabled_part():
    import pyjit

    @pyjit.disable
    def odd(t):
        return t * 3

    return lambda x: odd(x + 1) * 2


@program
def bound_method():
    class Model:
        def __init__(self):
            self.k = 3.0
            self.calls = 0

        def run(self, x):
            return x * self.k

    return Model().run


@program
def bound_method_with_counter():
    class Model:
        def __init__(self):
            self.calls = 0

        def run(self, x):
            self.calls += 1
            return x * 2, self.calls

    return Model().run


@program
def module_method():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(8, 8)

        def encode(self, x):
            return self.a(x).relu()

    return M().eval().encode


@program
def partial_function():
    return functools.partial(torch.clamp, min=-0.1, max=0.2)


@program
def partial_of_python():
    def f(k, x, *, bias=0.0):
        return x * k + bias

    return functools.partial(f, 3, bias=1.0)


@program
def callable_object():
    class F:
        def __init__(self):
            self.w = torch.ones(8) * 2

        def __call__(self, x):
            return x @ torch.diag(self.w)

    return F()


@program
def builtin_function():
    return torch.relu


@program
def native_method():
    return torch.Tensor.sin


class Box:
    def __init__(self, x):
        self.x = x * 2


@program
def a_class():
    return Box


@program
def generator_target():
    def f(x):
        yield x
        yield x + 1

    return lambda x: list(f(x))


@program
def default_arguments():
    def f(x, k=2, *, b=torch.ones(8), names=("a", "b")):
        return {n: x * k + b for n in names}

    return f


@program
def mutable_default():
    def f(x, seen=[]):  # noqa: B006
        seen.append(x.sum())
        return torch.stack(seen).sum() + x

    return f


@program
def closure_counter():
    n = 0

    def f(x):
        nonlocal n
        n += 1
        return x * n

    return f


@program
def closure_tensor():
    w = torch.ones(8)

    def f(x):
        w.mul_(1.5)
        return x * w

    return f


@program
def exponential_average():
    state = {"average": torch.zeros(8), "steps": 0}

    def f(x):
        state["average"] = state["average"] * 0.9 + x.mean(0) * 0.1
        state["steps"] += 1
        return state["average"] / (1 - 0.9 ** state["steps"])

    return f


@program
def ring_buffer():
    buffer, at = torch.zeros(4, 8), [0]

    def f(x):
        buffer[at[0] % 4] = x[0]
        at[0] += 1
        return buffer.mean(0)

    return f


@program
def adam_by_hand():
    w, m, v = torch.ones(8), torch.zeros(8), torch.zeros(8)
    step = torch.zeros(())

    def f(x):
        g = (x @ w - 1).unsqueeze(-1).mul(x).mean(0)
        step.add_(1)
        m.mul_(0.9).add_(g, alpha=0.1)
        v.mul_(0.99).addcmul_(g, g, value=0.01)
        w.addcdiv_(
            m / (1 - 0.9**step), (v / (1 - 0.99**step)).sqrt() + 1e-8, value=-0.1
        )
        return w.clone()

    return f


@program
def value_iteration():
    numbers = torch.Generator().manual_seed(5)
    transitions = torch.rand(3, 8, 8, generator=numbers).softmax(-1)
    value = torch.zeros(8)

    def f(x):
        for _ in range(10):
            q = x.mean(0) + 0.9 * transitions @ value
            value.copy_(q.max(0).values)
        return value.clone(), q.argmax(0)

    return f


@program
def policy_rollout():
    policy = nn.Linear(8, 3).eval()

    def f(x):
        state, total, log = x, torch.zeros(x.shape[0]), []
        for _ in range(4):
            action = policy(state).argmax(-1)
            reward = torch.where(action == 1, 1.0, -0.1)
            state = state.roll(1, -1) * 0.9 + action.unsqueeze(-1)
            total = total + reward
            log.append((action, reward))
        return total, log

    return f


@program
def autocast_outside():
    m = nn.Linear(8, 8).eval()
    return torch.autocast("cpu", dtype=torch.bfloat16)(lambda x: m(x) + x)


@program
def no_grad_decorator():
    m = nn.Linear(8, 8).eval()
    return torch.no_grad()(lambda x: m(x))


@program
def inference_mode_decorator():
    m = nn.Linear(8, 8).eval()
    return torch.inference_mode()(lambda x: m(x))


@program
def module_in_float64():
    return nn.Sequential(nn.Linear(8, 8).double(), nn.ReLU()).eval().double() and (
        lambda x: x.double() * 2
    )


@program
def module_in_bfloat16():
    m = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU()).eval().bfloat16()
    return lambda x: m(x.bfloat16())


@program
def channels_last():
    m = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
    m = m.to(memory_format=torch.channels_last)
    return lambda x: m(
        x.view(1, 1, -1, 8).contiguous(memory_format=torch.channels_last)
    )


@program
def lazily_made_layer():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = None

        def forward(self, x):
            if self.scale is None:
                self.scale = torch.full((8,), 2.0)
            return x * self.scale

    return M().eval()


@program
def dynamic_attribute_access():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            for i in range(3):
                setattr(self, f"layer{i}", nn.Linear(8, 8))
                self.register_buffer(f"b{i}", torch.ones(8) * i)

        def forward(self, x):
            for i in range(3):
                x = getattr(self, f"layer{i}")(x) + getattr(self, f"b{i}")
            for name, child in self.named_children():
                x = child(x) * len(name)
            return x + sum(p.sum() for p in self.parameters())

    return M().eval()


@program
def early_exit():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

        def forward(self, x):
            for i, layer in enumerate(self.layers):
                x = layer(x)
                if x.abs().mean() < 0.2:
                    return x, i
            return x, -1

    return M().eval()


@program
def mixture_of_experts():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(8, 4)
            self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

        def forward(self, x):
            weights, picks = self.gate(x).softmax(-1).topk(2)
            out = torch.zeros_like(x)
            for i, expert in enumerate(self.experts):
                rows, which = torch.where(picks == i)
                if rows.numel():
                    out[rows] += expert(x[rows]) * weights[rows, which, None]
            return out

    return M().eval()


@program
def stochastic_depth():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

        def forward(self, x):
            for layer in self.layers:
                if not (self.training and torch.rand(1).item() < 0.5):
                    x = x + layer(x)
            return x

    m = M()
    m.train()
    return m


@program
def profiler_and_marks():
    def f(x):
        with torch.profiler.record_function("part"):
            y = x * 2
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            return y + 1

    return f


def programs() -> list[Program]:
    return list(_programs)
