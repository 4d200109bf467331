# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Torch beyond dense float tensors."""

from __future__ import annotations

import torch

from zoo.idioms.registry import idiom


@idiom()
def sparse(x):
    s = (x * (x > 0)).to_sparse()
    return torch.sparse.mm(s, torch.ones(8, 2)), s.coalesce().values().sum()


@idiom()
def quantised(x):
    q = torch.quantize_per_tensor(x, 0.1, 10, torch.quint8)
    return (
        q.dequantize(),
        q.int_repr(),
        torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127),
    )


@idiom()
def nested_tensor(x):
    return [t * 2 for t in torch.nested.nested_tensor([x, x[:2]]).unbind()]


@idiom()
def numpy_bridge(x):
    import numpy as np

    a = x.numpy()
    return torch.from_numpy(np.ascontiguousarray(a * 2)), torch.tensor(np.arange(3.0))


@idiom()
def functional_transforms(x):
    return torch.vmap(lambda r: (r * r).sum())(x), torch.func.grad(
        lambda t: (t**2).sum()
    )(x)


@idiom()
def tree_map(x):
    import torch.utils._pytree as pytree

    return pytree.tree_map(lambda t: t * 2, {"a": x, "b": [x, (x, 1)]})


@idiom()
def checkpointed(x):
    from torch.utils.checkpoint import checkpoint

    return checkpoint(lambda t: t.relu() * 2, x, use_reentrant=False)


@idiom()
def contexts_inside(x):
    with torch.no_grad():
        a = x * 2
    with torch.inference_mode():
        b = (x * 3).sum()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        c = x @ x.T
    with torch.set_grad_enabled(False):
        return a, b + 0, c


@idiom()
def gradient_inside(x):
    with torch.enable_grad():
        w = x.clone().requires_grad_()
        (w * w).sum().backward()
    return w.grad


@idiom()
def detach_and_data(x):
    y = x.detach()
    z = x.data
    return y + z, x.requires_grad, x.is_leaf, x.grad is None, y.clone().detach_()


@idiom()
def device_and_dtype_objects(x):
    d = torch.device("cpu")
    y = torch.zeros(2, device=d, dtype=x.dtype).to(x.device)
    return (
        y,
        x.device.type,
        x.device == d,
        str(x.dtype),
        torch.finfo(x.dtype).max,
        x.is_cuda,
    )


@idiom()
def distributions(x):
    d = torch.distributions.Normal(x, x.exp())
    c = torch.distributions.Categorical(logits=x)
    return (
        d.log_prob(x + 1),
        c.entropy(),
        torch.distributions.kl_divergence(d, d),
        c.probs,
    )


@idiom()
def sampling(x):
    return torch.multinomial(x.softmax(-1), 2), torch.distributions.Normal(
        x, 1.0
    ).sample()


@idiom()
def custom_autograd_function(x):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            return t * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    return Double.apply(x)


@torch.jit.script
def _scripted(x):
    return x.relu() * 2


@idiom()
def torchscript(x):
    return _scripted(x)


@idiom()
def foreach(x):
    return torch._foreach_mul([x, x + 1], 2.0), torch._foreach_add([x], [x])
