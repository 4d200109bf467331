# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Indexing, gathering, masks, sorting."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from zoo.idioms.registry import I, T, idiom


@idiom(lambda g, n: (T(g, n, 8), I(g, 4, 5), I(g, 8, 5)))
def advanced_indexing(x, i, j):
    return x[i, j], x[i], x[:, j], x[i][:, None], x[None, ..., j], x[[0, 2]], x[i, 1:3]


@idiom()
def slicing(x):
    return x[1:, ::2], x[..., -1], x[0], x[:, None, :3], x[-2:], x[1:1], x[:, [1]]


@idiom()
def boolean_mask(x):
    m = x > 0
    return (
        x.masked_fill(m, 0.0),
        torch.where(m, x, -x),
        m.sum(),
        (~m & (x < -1)).any(),
        m.all(-1),
    )


@idiom()
def boolean_mask_select(x):
    return x[x > 0].sum(), torch.nonzero(x > 0).shape[0] * 0


@idiom()
def mask_assignment(x):
    y = x.clone()
    y[y < 0] = 0
    y[:, 2] += 1
    y[0] = y[1]
    y[..., -1] = 7.0
    y[1:3, 4:6] = torch.ones(2, 2)
    return y


@idiom(lambda g, n: (T(g, n, 8), I(g, 4, 3)))
def index_assignment(x, i):
    y = x.clone()
    y[i] = 1.0
    y[:, i] *= 2
    y.index_add_(0, i, torch.ones(3, 8))
    y.index_fill_(1, i, 3.0)
    y.index_copy_(0, torch.tensor([0, 1]), torch.zeros(2, 8))
    return y


@idiom(lambda g, n: (T(g, n, 8), I(g, 8, n, 3)))
def gather_scatter(x, i):
    a = x.gather(1, i)
    b = torch.zeros_like(x).scatter_(1, i, a)
    c = torch.zeros_like(x).scatter_add(1, i, a)
    d = x.scatter_reduce(1, i, a, reduce="amax")
    return a, b, c, d, torch.take_along_dim(x, i, 1), x.take(i), x.index_select(1, i[0])


@idiom()
def topk_sort(x):
    v, i = x.topk(3)
    s, j = x.sort(-1, descending=True)
    return (
        v,
        i,
        s,
        j,
        x.argsort(),
        x.max(-1),
        x.min(0).values,
        x.argmax(-1),
        x.kthvalue(2),
        x.median(-1),
    )


@idiom()
def namedtuple_results(x):
    r = torch.max(x, dim=1)
    return r.values + r.indices, torch.linalg.qr(x[:4, :4]), torch.frexp(x).mantissa


@idiom()
def cumulative(x):
    return (
        x.cumsum(-1),
        x.cumprod(0),
        x.cummax(-1).values,
        x.logcumsumexp(-1),
        x.diff(),
        x.flip(0).roll(1, 1),
    )


@idiom(lambda g, n: (I(g, 10, n, 5),))
def one_hot_and_counts(i):
    return (
        F.one_hot(i, 10),
        torch.bincount(i.flatten(), minlength=10),
        (i == 3).long().cumsum(-1),
    )


@idiom(lambda g, n: (I(g, 3, n, 5),))
def unique_values(i):
    v, inverse, counts = torch.unique(i, return_inverse=True, return_counts=True)
    return v, inverse, counts


@idiom()
def searching_and_histograms(x):
    edges = torch.linspace(-2, 2, 5)
    return (
        torch.bucketize(x, edges),
        torch.searchsorted(edges, x),
        torch.histc(x, 5, -2, 2),
    )
