# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The caller differentiates what a transform of torch.func gives: derivatives of operators that the engine calls.

Layers and losses of ordinary networks, in double precision, in one graph: against eager, and against finite
differences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, scenario, values
from Integration.training import gradients, loss_of
from torch.func import grad, hessian, jacrev, jvp, vmap

Layer = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

ROWS = torch.tensor([0, 2, 1])
TARGET = values(3, 4, seed=20, dtype=torch.float64)
SCALE = values(4, seed=21, dtype=torch.float64).exp()
# Of 3 rows and 4 columns, and a weight for each column.
LAYERS: dict[str, Layer] = {
    "relu": lambda x, w: F.relu(x * w),
    "relu6": lambda x, w: F.relu6(x * w * 5),
    "threshold": lambda x, w: F.threshold(x * w, 0.1, 3.0),
    "hardtanh": lambda x, w: F.hardtanh(x * w),
    "leaky_relu": lambda x, w: F.leaky_relu(x * w),
    "elu": lambda x, w: F.elu(x * w, 1.5),
    "selu": lambda x, w: F.selu(x * w),
    "celu": lambda x, w: F.celu(x * w, 1.5),
    "gelu": lambda x, w: F.gelu(x * w),
    "gelu of tanh": lambda x, w: F.gelu(x * w, approximate="tanh"),
    "silu": lambda x, w: F.silu(x * w),
    "mish": lambda x, w: F.mish(x * w),
    "softplus": lambda x, w: F.softplus(x * w, 1.5),
    "logsigmoid": lambda x, w: F.logsigmoid(x * w),
    "hardswish": lambda x, w: F.hardswish(x * w * 2),
    "sigmoid": lambda x, w: (x * w).sigmoid(),
    "tanh": lambda x, w: (x * w).tanh(),
    "softshrink": lambda x, w: F.softshrink(x * w),
    "hardshrink": lambda x, w: F.hardshrink(x * w),
    "prelu": lambda x, w: F.prelu(x, w),
    "glu": lambda x, w: F.glu(x * w),
    "softmax": lambda x, w: F.softmax(x * w, -1),
    "softmin over rows": lambda x, w: F.softmin(x * w, 0),
    "log_softmax": lambda x, w: F.log_softmax(x * w, -1),
    "layer_norm": lambda x, w: F.layer_norm(x, (4,), w, w * 2),
    "layer_norm of all": lambda x, w: F.layer_norm(x * w, (3, 4)),
    "layer_norm without bias": lambda x, w: F.layer_norm(x, (4,), w),
    "rms_norm": lambda x, w: F.rms_norm(x, (4,), w),
    "group_norm": lambda x, w: F.group_norm(x, 2, w, w),
    "batch_norm": lambda x, w: F.batch_norm(x, TARGET[0], SCALE, w, w),
    "batch_norm of the batch": lambda x, w: F.batch_norm(
        x, None, None, w, w, training=True
    ),
    "linear": lambda x, w: F.linear(x, w.outer(w), w),
    "conv1d": lambda x, w: F.conv1d(x.unsqueeze(1), w.view(2, 1, 2)),
    "conv_transpose1d": lambda x, w: F.conv_transpose1d(
        x.unsqueeze(1), w.view(1, 2, 2)
    ),
    "max_pool1d": lambda x, w: F.max_pool1d(x * w, 2),
    "avg_pool1d": lambda x, w: F.avg_pool1d(x * w, 2),
    "adaptive_avg_pool1d": lambda x, w: F.adaptive_avg_pool1d(x * w, 3),
    "pad": lambda x, w: F.pad(x * w, (1, 1), mode="reflect"),
    "interpolate": lambda x, w: F.interpolate((x * w).unsqueeze(1), scale_factor=2),
    "embedding": lambda x, w: F.embedding(ROWS, x * w),
    "parts": lambda x, w: (
        x[:, 1:3] * w[0] + x.diagonal()[0] + x.unfold(1, 2, 2)[..., 0]
    ),
    "normalize": lambda x, w: F.normalize(x * w),
    "mse_loss": lambda x, w: F.mse_loss(x * w, TARGET),
    "mse_loss of both": lambda x, w: F.mse_loss(x * w, x.cos(), reduction="none"),
    "smooth_l1_loss": lambda x, w: F.smooth_l1_loss(x * w, x.cos(), beta=0.7),
    "huber_loss": lambda x, w: F.huber_loss(x * w, x.cos(), delta=0.7),
    "l1_loss": lambda x, w: F.l1_loss(x * w, x.cos()),
    "soft_margin_loss": lambda x, w: F.soft_margin_loss(x * w, TARGET.sign()),
    "binary_cross_entropy": lambda x, w: F.binary_cross_entropy(
        (x * w).sigmoid(), x.cos().square()
    ),
    "binary_cross_entropy_with_logits": lambda x, w: F.binary_cross_entropy_with_logits(
        x * w, x.sigmoid(), pos_weight=SCALE
    ),
    "binary_cross_entropy with weights": lambda x, w: F.binary_cross_entropy(
        (x * w).sigmoid(), TARGET.sigmoid(), SCALE
    ),
    "cross_entropy": lambda x, w: F.cross_entropy(x * w, ROWS),
    "cross_entropy with weights": lambda x, w: F.cross_entropy(
        x * w, ROWS, SCALE, label_smoothing=0.1
    ),
    "kl_div": lambda x, w: F.kl_div(
        F.log_softmax(x * w, -1), F.softmax(x, -1), reduction="sum"
    ),
    "attention": lambda x, w: F.softmax((x * w) @ x.T, -1) @ x,
}

# Of a function of x that gives one number.
TRANSFORMS: dict[str, Callable[[Any, torch.Tensor], torch.Tensor]] = {
    "grad": lambda f, x: grad(f)(x),
    "grad of grad": lambda f, x: grad(lambda y: grad(f)(y).square().sum())(x),
    "hessian": lambda f, x: hessian(f)(x),
    "jacrev of jacrev": lambda f, x: jacrev(jacrev(f))(x),
}
# Torch itself refuses them: an operator has no forward-mode derivative, or none of that.
REFUSED = {
    ("hessian", "glu"),
    ("hessian", "normalize"),
    ("hessian", "soft_margin_loss"),
}
# A graph break: Torch warns that a rule for `vmap` is slow, or has one that is written in Python.
BROKEN = {
    ("hessian", "cross_entropy"),
    ("hessian", "cross_entropy with weights"),
    ("hessian", "parts"),
    ("jacrev of jacrev", "parts"),
    ("jacrev of jacrev", "soft_margin_loss"),
}


def double(*shape: int, seed: int) -> torch.Tensor:
    return values(*shape, seed=seed, dtype=torch.float64).requires_grad_()


def program(layer: str, transform: str) -> Callable[..., torch.Tensor]:
    def of(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return TRANSFORMS[transform](lambda y: LAYERS[layer](y, w).sin().sum(), x)

    return of


PAIRS = [
    (transform, layer)
    for transform in TRANSFORMS
    for layer in LAYERS
    if (transform, layer) not in REFUSED
]


def differentiated(f: Any) -> Steps:
    """Results of a matrix and a vector, and the gradients of both, a few times."""
    for step in range(4):
        x, w = double(3, 4, seed=step), double(4, seed=9 + step)
        out = f(x, w)
        loss_of(out).backward()
        yield out, gradients(x, w)


@pytest.mark.parametrize("transform, layer", PAIRS)
def test_gradients(transform: str, layer: str) -> None:
    whole = (transform, layer) not in BROKEN

    @scenario(grad=True, captured=whole, graph_breaks=() if whole else ANY)
    def story(compile: Compile) -> Steps:
        f = compile(program(layer, transform))
        yield from differentiated(f)

    story()


@pytest.mark.parametrize("layer", LAYERS)
def test_finite_differences(layer: str) -> None:
    import pyjit

    f = pyjit.compile(program(layer, "grad"), options={"compare_with_eager": False})
    x, w = double(3, 4, seed=5), double(4, seed=6)
    for _ in range(2):
        f(x, w).sum().backward()
    assert torch.autograd.gradcheck(f, (x, w), atol=1e-6)
    assert pyjit.stats(f)["hits"] > 10


# Of a bias, or of a weight and a bias; the input has none, so that masks leave out results in front of theirs.
WEIGHTS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "layer_norm": lambda x, w: F.layer_norm(x, (4,), w, w * 2),
    "layer_norm of a weight": lambda x, w: F.layer_norm(x, (4,), w),
    "layer_norm of a bias": lambda x, w: F.layer_norm(x, (4,), None, w),
    "rms_norm": lambda x, w: F.rms_norm(x, (4,), w),
    "group_norm": lambda x, w: F.group_norm(x, 2, w, w),
    "batch_norm": lambda x, w: F.batch_norm(x, x[0], x[1].exp(), w, w),
    "batch_norm of a bias": lambda x, w: F.batch_norm(x, x[0], x[1].exp(), None, w),
    "linear": lambda x, w: F.linear(x, w.outer(w), w),
    "conv1d": lambda x, w: F.conv1d(x.unsqueeze(1), w.view(2, 1, 2), w[:2]),
    "conv1d of a bias": lambda x, w: F.conv1d(
        x.unsqueeze(1), torch.ones(2, 1, 2, dtype=x.dtype), w[:2]
    ),
    "conv2d": lambda x, w: F.conv2d(x.view(1, 1, 3, 4), w.view(1, 1, 2, 2)),
    "conv_transpose1d": lambda x, w: F.conv_transpose1d(
        x.unsqueeze(1), w.view(1, 2, 2), w[:2]
    ),
}
# Without a weight, eager has no derivative of the bias' gradient.
DROPPED = {"layer_norm of a bias", "batch_norm of a bias"}
OF_WEIGHTS: dict[str, Callable[[Any, torch.Tensor], torch.Tensor]] = {
    "grad": lambda f, w: grad(f)(w),
    "hessian": lambda f, w: jacrev(jacrev(f))(w),
    "grad of each": lambda f, w: vmap(grad(f))(torch.stack((w, w * 2))),
}


@pytest.mark.parametrize("layer", WEIGHTS)
@pytest.mark.parametrize("transform", OF_WEIGHTS)
@pytest.mark.parametrize("back", [False, True])
def test_weights_alone(layer: str, transform: str, back: bool) -> None:
    if back and layer in DROPPED:
        pytest.skip("eager drops a gradient")

    @scenario(grad=back)
    def story(compile: Compile) -> Steps:
        def of(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            own = x.detach()
            return OF_WEIGHTS[transform](
                lambda v: WEIGHTS[layer](own, v).sin().sum(), w
            )

        f = compile(of)
        for step in range(4):
            x, w = double(3, 4, seed=step), double(4, seed=9 + step)
            out = f(x, w)
            if back:
                loss_of(out).backward()
            yield out, gradients(x, w)

    story()


# Forward mode has tensors of zeros for what does not vary: what they are multiplied by, or added to, has a gradient of
# zeros, whatever it holds.
ZEROS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "product": lambda y, w: y * w,
    "quotient": lambda y, w: y / w,
    "constant": lambda y, w: w.exp() * 2,
    "sum": lambda y, w: y + w * 2,
    "sum with fewer dimensions": lambda y, w: w * 2 + y[0] + w.sum(),
    "difference": lambda y, w: w * 3 - y,
    "difference of constants": lambda y, w: (w - w * 2) * y,
    "product of constants": lambda y, w: (w * w.exp()) * y + w.sin(),
    "joined": lambda y, w: torch.stack((y[0], w, y[1] * w)),
}


@pytest.mark.parametrize("name", ZEROS)
def test_zeros_of_forward_mode(name: str) -> None:
    @scenario(grad=True)
    def story(compile: Compile) -> Steps:
        def of(x: torch.Tensor, w: torch.Tensor) -> Any:
            return jvp(lambda y: ZEROS[name](y, w), (x,), (x.cos(),))

        f = compile(of)
        for step in range(5):
            x, w = double(3, 4, seed=step), double(4, seed=9 + step)
            if step > 2:
                with torch.no_grad():
                    w[0] = float("inf")
            out, slope = f(x, w)
            if slope.requires_grad:
                slope.sum().backward()
            yield out, slope, gradients(x, w)

    story()


# The engine's operators are linear in what comes in, and read of the input no more than where it lies between kinks: eager
# gives it zeros, and not no gradient.
LINEAR: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": F.relu,
    "hardtanh": F.hardtanh,
    "leaky_relu": F.leaky_relu,
    "avg_pool1d": lambda x: F.avg_pool1d(x, 2),
    "avg_pool2d": lambda x: F.avg_pool2d(x.unsqueeze(0), 2),
    "avg_pool3d": lambda x: F.avg_pool3d(x.view(1, 1, 3, 2, 2), 2),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x.unsqueeze(0), 2),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x.unsqueeze(0), 2),
    "max_pool1d": lambda x: F.max_pool1d(x, 2),
    "max_pool2d": lambda x: F.max_pool2d(x.unsqueeze(0), 2),
    "reflect": lambda x: F.pad(x, (1, 1), mode="reflect"),
    "replicate": lambda x: F.pad(x, (1, 1), mode="replicate"),
    "nll_loss": lambda x: F.nll_loss(x, ROWS),
    "interpolate": lambda x: F.interpolate(x.unsqueeze(1), scale_factor=2),
    "embedding": lambda x: F.embedding(ROWS, x),
    "cumsum": lambda x: x.cumsum(0),
    "amax": lambda x: x.amax(0),
    "sort": lambda x: x.sort(0)[0],
}


@pytest.mark.parametrize("name", LINEAR)
def test_zeros_and_no_gradient(name: str) -> None:
    @scenario(grad=True)
    def story(compile: Compile) -> Steps:
        def of(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return grad(lambda y: LINEAR[name](y).sum())(x) + w

        f = compile(of)
        yield from differentiated(f)

    story()


# Where exponentials overflow, and at kinks.
EXTREME = [0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 20.0, 21.0, 100.0, -100.0, 1e4, -1e4]
ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    name: getattr(F, name)
    for name in [
        "relu", "relu6", "hardtanh", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish", "softplus",
        "logsigmoid", "hardswish", "softshrink", "hardshrink", "tanhshrink", "softsign", "tanh", "sigmoid",
    ]
}  # fmt: skip
ACTIVATIONS |= {
    "gelu of tanh": lambda x: F.gelu(x, approximate="tanh"),
    "softmax": lambda x: F.softmax(x, 0),
    "log_softmax": lambda x: F.log_softmax(x, 0),
    "logsumexp": lambda x: x.logsumexp(0),
    "logaddexp": lambda x: torch.logaddexp(x, -x),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("transform", [False, True])
def test_extreme_values(name: str, dtype: torch.dtype, transform: bool) -> None:
    """Second derivatives, of what a transform gives and of what the call gives."""

    @scenario(grad=True)
    def story(compile: Compile) -> Steps:
        def of(x: torch.Tensor) -> torch.Tensor:
            f = ACTIVATIONS[name]
            return grad(lambda y: f(y).sum())(x) if transform else f(x)

        f = compile(of)
        for _ in range(4):
            x = torch.tensor(EXTREME, dtype=dtype, requires_grad=True)
            out = f(x)
            if transform:
                slope = out
            else:
                (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
            slope.sum().backward()
            yield out, slope, gradients(x)

    story()
