# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Python between the tensors: loops, generators, exceptions, matching, closures."""

from __future__ import annotations

import functools
import itertools
import operator

import torch
import torch.nn.functional as F

from zoo.idioms.registry import idiom


@idiom()
def comprehension(x):
    rows = [r * i for i, r in enumerate(x) if i % 2 == 0]
    table = {i: r.sum() for i, r in enumerate(rows)}
    return torch.stack(rows), table, tuple(v + 1 for v in table.values())


def _chunks(x, n):
    for piece in x.chunk(n, -1):
        yield piece.relu()


@idiom()
def generator_function(x):
    return torch.cat(list(_chunks(x, 4)), -1), sum(p.sum() for p in _chunks(x, 2))


@idiom()
def generator_send(x):
    def accumulate():
        total = torch.zeros_like(x)
        while True:
            value = yield total
            if value is None:
                return
            total = total + value

    acc = accumulate()
    next(acc)
    acc.send(x)
    return acc.send(x * 2)


@idiom()
def yield_from(x):
    def inner():
        yield x
        yield x + 1

    def outer():
        yield from inner()
        yield x * 2

    return list(outer())


@idiom()
def zip_map_reduce(x):
    ys = list(map(torch.exp, x.unbind(0)))
    zs = [a * b for a, b in zip(ys, reversed(ys))]
    return functools.reduce(operator.add, zs), list(filter(lambda t: t.dim() == 1, zs))


@idiom()
def itertools_mix(x):
    out = []
    for a, b in itertools.product(range(2), range(2)):
        out.append(x[a] + x[b])
    for p, q in itertools.pairwise(out):
        out = [*out[:2], p - q]
    for pair in itertools.islice(itertools.chain(out, out), 3):
        out.append(pair)
    acc = list(itertools.accumulate([1, 2, 3]))
    return out, acc


@idiom()
def while_on_python_numbers(x):
    n = x.shape[0]
    while n > 1:
        x = x * 0.5 + n
        n //= 2
    x = x + 1
    return x, n


@idiom()
def try_except_finally(x):
    done = []
    try:
        try:
            {}["missing"]
        except KeyError as e:
            x = x + len(str(e))
        finally:
            done.append("inner")
        raise ValueError("no")
    except (ValueError, TypeError):
        return x * 2, done


@idiom(raises=True)
def raises_value_error(x):
    y = x * 2
    if y.shape[-1] == 8:
        raise ValueError(f"bad shape {tuple(y.shape)}")
    return y


@idiom(raises=True)
def raises_in_operator(x):
    return x.view(-1)[: x.shape[0]] @ torch.ones(100)


@idiom()
def match_statement(x):
    match x.shape:
        case (n, 8):
            y = x * n
        case _:
            y = x
    match {"kind": "relu", "times": 2}:
        case {"kind": "relu", "times": k}:
            return y.relu() * k
        case _:
            return y


@idiom()
def walrus_and_chained(x):
    if (n := x.shape[-1]) > 4 and 0 < n <= 8:
        return x[..., : n // 2]
    return x


@idiom()
def string_dispatch(x):
    table = {"relu": torch.relu, "gelu": F.gelu}
    name = "_".join(["ge", "lu"]).replace("_", "")
    return torch.relu(x) + table[name](x) + len(f"{name!r:>10}")


@idiom()
def closures_and_nonlocal(x):
    count = 0

    def step(y):
        nonlocal count
        count += 1
        return y * count

    for _ in range(3):
        x = step(x)
    return x, count


@idiom()
def lambdas_in_loop(x):
    fs = [lambda t, k=k: t + k for k in range(3)]
    return [f(x) for f in fs]


@idiom()
def recursion(x):
    def tree(t, depth):
        if depth == 0:
            return t.sum()
        left, right = t.chunk(2, -1)
        return tree(left, depth - 1) * tree(right, depth - 1)

    return tree(x, 2)


@idiom()
def decorated(x):
    def twice(f):
        @functools.wraps(f)
        def wrapper(*args, **kwargs):
            return f(f(*args, **kwargs), **kwargs)

        return wrapper

    @twice
    def step(t, k=2):
        return t * k

    return step(x, k=3), step.__name__
