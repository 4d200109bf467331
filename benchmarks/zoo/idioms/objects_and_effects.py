# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Caches, dispatch, classes, containers, the standard library, and effects on the world."""

from __future__ import annotations

import contextlib
import functools
import math

import torch
import torch.nn.functional as F

from zoo.idioms.registry import T, idiom


@functools.cache
def _table(n):
    return [math.sqrt(i) for i in range(n)]


@idiom()
def lru_cache(x):
    return x * torch.tensor(_table(x.shape[-1]))


@functools.cache
def _positions(n):
    return torch.arange(n)


@idiom()
def cached_tensor(x):
    return x + _positions(x.shape[-1])


@functools.singledispatch
def _describe(x):
    return 0


@_describe.register
def _(x: torch.Tensor):
    return x.dim()


@idiom()
def singledispatch(x):
    return x * _describe(x)


@idiom()
def partial_functions(x):
    f = functools.partial(torch.clamp, min=-0.5)
    g = functools.partial(F.leaky_relu, negative_slope=0.2)
    return g(f(x, max=0.5))


class Callable_:
    def __init__(self, k):
        self.k = k
        self.calls = 0

    def __call__(self, x):
        return x * self.k

    @property
    def double(self):
        return Callable_(self.k * 2)

    @classmethod
    def of(cls, k):
        return cls(k)

    @staticmethod
    def shift(x):
        return x + 1

    def __getitem__(self, i):
        return self.k + i

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.calls += 1


@idiom()
def classes_and_protocols(x):
    c = Callable_.of(3)
    with c as d:
        y = d.double(x) + c[2]
    return Callable_.shift(y), c.calls


class Vec:
    def __init__(self, t):
        self.t = t

    def __add__(self, other):
        return Vec(self.t + (other.t if isinstance(other, Vec) else other))

    __radd__ = __add__

    def __mul__(self, k):
        return Vec(self.t * k)

    def __len__(self):
        return self.t.shape[0]

    def __iter__(self):
        return iter(self.t)

    def __eq__(self, other):
        return self is other

    def __bool__(self):
        return True

    __hash__ = None


@idiom()
def operator_overloading(x):
    v = Vec(x) + 1
    v = sum([v, v * 2], start=Vec(x))
    if v:
        return v.t, len(v), [row.sum() for row in v]


@idiom()
def inheritance_and_super(x):
    class A:
        def f(self, t):
            return t + 1

    class B(A):
        def f(self, t):
            return super().f(t) * 2

    return B().f(x)


@idiom()
def context_manager_function(x):
    @contextlib.contextmanager
    def scaled(k):
        yield x * k

    with scaled(2) as y, contextlib.nullcontext(x) as z, contextlib.suppress(KeyError):
        return y + z


@idiom()
def list_surgery(x):
    xs = list(x.unbind(0))
    xs.insert(0, x[0] * 2)
    xs.reverse()
    last = xs.pop()
    xs.extend([last] * 2)
    del xs[0]
    xs[0], xs[1] = xs[1], xs[0]
    xs.sort(key=lambda t: t.shape[0])
    return xs, xs.index(xs[0]), len(xs)


@idiom(lambda g, n: ([T(g, 8), T(g, 8)], {"k": T(g, 8)}))
def mutates_containers(xs, d):
    xs.append(xs[0] + 1)
    xs[0] = xs[0] * 2
    d["new"] = d["k"] + 1
    d.pop("k")
    return len(xs)


@idiom()
def dict_merge(x):
    a = {"x": x} | {"y": x + 1}
    a |= {"z": x * 2}
    b = {**a, "x": 0, **dict(w=1)}
    a.update(v=x)
    return a, b, sorted(a), "x" in a, a.get("q", None), list(b.items())[0]


@idiom()
def sets_and_strings(x):
    names = {"a", "b"} | {"c"}
    names.discard("b")
    keys = sorted(names)
    text = ",".join(keys).upper().split(",")
    return {k: x * i for i, k in enumerate(text)}, "A" in text


@idiom()
def math_functions(x):
    d = x.shape[-1]
    k = math.sqrt(d) * math.pi + math.ceil(d / 3) + math.comb(5, 2) + abs(-2) ** 2
    return (
        x / k,
        math.isclose(k, k),
        divmod(d, 3),
        round(k, 2),
        max(1, d, 3),
        min([2, d]),
    )


@idiom()
def isinstance_and_types(x):
    assert isinstance(x, torch.Tensor) and torch.is_tensor(x)
    if (
        type(x) is torch.Tensor
        and issubclass(type(x), torch.Tensor)
        and hasattr(x, "sum")
    ):
        return (
            x * callable(torch.sum),
            x.dtype.is_floating_point,
            x.dtype == torch.float32,
        )


@idiom()
def shape_arithmetic(x):
    b, d = x.size()
    h = d // 2
    n = x.numel()
    y = x.view(b, h, -1).transpose(1, 2).contiguous().view(*x.shape[:-1], d)
    return y, torch.Size([b, d]), n, x.stride(), x.shape[0] * 2, list(x.shape)


@idiom()
def print_in_forward(x):
    y = x + 1
    print("shape", tuple(y.shape))
    return y * 2


@idiom()
def print_tensor(x):
    y = x + 1
    str(y)
    return y * 2


@idiom()
def warnings_and_logging(x):
    import logging

    logging.getLogger("zoo").debug("value %s", x.shape)
    return x * 2


@idiom()
def import_inside(x):
    import math as m

    from torch.nn import functional as fun

    return fun.relu(x) * m.e


@idiom()
def global_counter(x):
    global _count
    _count = _count + 1
    return x * 2


_count = 0


@idiom()
def exec_time(x):
    import time

    start = time.perf_counter()
    y = x * 2
    return y, time.perf_counter() - start > 0


@idiom()
def torch_randomness(x):
    noise = torch.randn_like(x) + torch.rand(x.shape) + torch.randint(0, 5, x.shape)
    return (
        x + noise,
        torch.randperm(5),
        F.dropout(x, 0.5, training=True),
        torch.bernoulli(x.sigmoid()),
    )


@idiom(lambda g, n: (T(g, n, 8), torch.Generator().manual_seed(3)))
def own_generator(x, g):
    return x + torch.randn(x.shape, generator=g)
