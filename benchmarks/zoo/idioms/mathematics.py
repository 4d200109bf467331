# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mathematics, element types, factories and views."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from zoo.idioms.registry import T, idiom


@idiom(lambda g, n: (T(g, 2, n, 8), T(g, 2, 8, 5)))
def einsum(a, b):
    return (
        torch.einsum("bij,bjk->bik", a, b),
        torch.einsum("bij->ji", a),
        torch.einsum("b...j,bjk->b...k", a, b),
        torch.einsum("bij,bij->b", a, a),
    )


@idiom(lambda g, n: (T(g, 2, n, 8),))
def attention_by_hand(x):
    q, k, v = x, x * 0.5, x + 1
    n = x.shape[1]
    mask = torch.triu(torch.full((n, n), float("-inf")), diagonal=1)
    w = (q @ k.transpose(-2, -1) / math.sqrt(x.shape[-1]) + mask).softmax(-1)
    heads = x.view(2, n, 2, 4).permute(0, 2, 1, 3)
    return w @ v, F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)


@idiom(lambda g, n: (T(g, 2, n, 8),))
def rotary(x):
    n, d = x.shape[-2:]
    inv = 1.0 / (10000 ** (torch.arange(0, d, 2).float() / d))
    angles = torch.outer(torch.arange(n).float(), inv)
    cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


@idiom()
def linear_algebra(x):
    a = x[:4, :4] @ x[:4, :4].T + 4 * torch.eye(4)
    return (
        torch.linalg.solve(a, x[:4]),
        torch.linalg.inv(a),
        torch.linalg.cholesky(a),
        torch.linalg.det(a),
        torch.linalg.norm(x),
        torch.linalg.eigvalsh(a),
        torch.linalg.svdvals(x),
        torch.trace(a),
        torch.linalg.matrix_power(a, 2),
        torch.kron(a, a).sum(),
    )


@idiom()
def fft(x):
    f = torch.fft.rfft(x)
    return (
        f,
        torch.fft.irfft(f * 0.5, n=x.shape[-1]),
        torch.fft.fft2(x).abs(),
        torch.fft.fftshift(x),
    )


@idiom()
def complex_numbers(x):
    z = torch.complex(x, x * 2)
    w = z * z.conj() + torch.exp(1j * x)
    pairs = torch.view_as_complex(x.view(x.shape[0], -1, 2).contiguous())
    return (
        w,
        z.real,
        z.imag,
        z.angle(),
        torch.view_as_real(pairs),
        torch.polar(x.abs(), x),
    )


@idiom(lambda g, n: (T(g, 40 * n),))
def stft(x):
    window = torch.hann_window(32)
    s = torch.stft(x, 32, 16, window=window, return_complex=True)
    return s.abs(), torch.istft(s, 32, 16, window=window)


@idiom()
def statistics(x):
    return (
        x.mean(),
        x.std(),
        x.var(0, unbiased=False),
        torch.std_mean(x, -1),
        x.norm(dim=1),
        x.logsumexp(-1),
        x.prod(),
        x.amax((0, 1)),
        x.aminmax(),
        x.quantile(0.5),
        x.cov(),
        x.mode(-1),
        torch.count_nonzero(x),
        x.nansum(),
        x.softmax(0).log(),
        torch.corrcoef(x),
    )


@idiom()
def distances(x):
    return (
        torch.cdist(x, x + 1),
        F.cosine_similarity(x, x + 1),
        F.normalize(x, dim=-1),
        F.pdist(x),
    )


@idiom()
def interpolation(x):
    im = x.view(1, 1, x.shape[0], 8)
    grid = F.affine_grid(torch.eye(2, 3)[None], [1, 1, 5, 5], align_corners=False)
    return (
        F.interpolate(im, scale_factor=2, mode="bilinear"),
        F.grid_sample(im, grid, align_corners=False),
        F.pad(im, (1, 2, 0, 1), value=3.0),
        F.unfold(im, 2),
        F.pixel_shuffle(im.view(1, 4, -1, 2), 2),
    )


@idiom()
def dtype_mixing(x):
    h = x.half() + x.bfloat16()
    i = (x * 10).to(torch.int32)
    return (
        h,
        i // 3,
        i % 3,
        i >> 1,
        i & 5,
        x.double() * 2,
        x > i,
        i.float() / 2,
        -i,
        i.bool(),
        x.to(i),
    )


@idiom()
def half_precision_chain(x):
    y = x.to(torch.bfloat16)
    return (y * 1.5 + y).softmax(-1), y.float().sum(), (x.half() @ x.half().T).float()


@idiom()
def integer_overflow(x):
    i = (x * 100).to(torch.int8)
    return i * 2, i.to(torch.uint8), i.sum(), torch.clamp(i, -3, 3), i.abs()


@idiom()
def factories(x):
    n = x.shape[0]
    return (
        torch.arange(0, 10, 3),
        torch.linspace(0, 1, n),
        torch.eye(n),
        torch.full((n,), 2),
        torch.tensor([[1, 2], [3, n]]),
        torch.tensor(1.5),
        x.new_zeros(3),
        x.new_tensor([1.0, 2.0]),
        torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij"),
        torch.tril(torch.ones(n, n)),
        torch.zeros(0),
        torch.empty(2, 0),
        x.new_full((2,), 4.0),
        torch.ones_like(x, dtype=torch.int32),
        torch.tensor([True, False]),
        torch.logspace(0, 2, 3),
        torch.as_tensor([1, 2]),
    )


@idiom()
def shapes_and_views(x):
    return (
        x.unsqueeze(0).expand(3, -1, -1),
        x.unflatten(-1, (2, 4)),
        x.reshape(-1),
        x.t(),
        x.unfold(1, 3, 2),
        x.repeat(2, 1),
        x.repeat_interleave(2, 0),
        x.tile((1, 2)),
        x.movedim(0, 1),
        x.swapaxes(0, 1),
        torch.diag(x[0]),
        x.diagonal(),
        torch.stack([x, x], 1),
        torch.hstack([x, x]),
        torch.split(x, [3, 5], 1),
        torch.block_diag(x, x),
        torch.broadcast_to(x[0], (3, 8)),
        x.narrow(1, 2, 3),
        torch.rot90(x),
        torch.atleast_3d(x),
        torch.tensor_split(x, 3, -1),
        torch.cartesian_prod(x[0, :2], x[1, :2]),
        torch.combinations(x[0, :4]),
        torch.vander(x[0, :3]),
    )


@idiom(lambda g, n: (T(g, n, 8), T(g, n, 8)))
def inplace_updates(x, y):
    x.add_(y).mul_(2).clamp_(-1, 1)
    x[:, 0].zero_()
    y.copy_(x.flip(0))
    z = x.view(-1)
    z[3:5] = 9.0
    return z, x.t_() if False else x.T


@idiom(lambda g, n: (T(g, n, 8), T(g, 8)))
def out_arguments(x, y):
    buffer = torch.empty(x.shape)
    torch.add(x, y, out=buffer)
    torch.mul(buffer, 2, out=buffer)
    return buffer


@idiom(lambda g, n: (T(g, n, 8),) * 2)
def same_tensor_twice(x, y):
    x.add_(1)
    return x + y, x is y
