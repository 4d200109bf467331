# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers in training: results, gradients, statistics and random numbers are eager's, step by step."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from Integration.harness import ANY, Compile, Steps, attempt, scenario, values
from Integration.training import OPTIMIZERS, loss_of, state, train
from torch import nn


class Of(nn.Module):
    """A module whose forward is a function of it and its arguments."""

    def __init__(self, forward: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.f = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args: Any) -> Any:
        return self.f(self, *args)


def floats(*shape: int) -> Callable[[int], Any]:
    return lambda step: (values(*shape, seed=step % 3),)


def classes(high: int, *shape: int) -> Callable[[int], Any]:
    def draw(step: int) -> Any:
        g = torch.Generator().manual_seed(step)
        return (torch.randint(0, high, shape, generator=g),)

    return draw


IMAGES, ROWS, SEQUENCES = floats(4, 3, 6, 6), floats(5, 4), floats(3, 5, 8)


def conv(*more: nn.Module, out: int = 4) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(nn.Conv2d(3, out, 3), *copy.deepcopy(more))


def rows(*more: nn.Module) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(nn.Linear(4, 8), *copy.deepcopy(more))


def sequence(layer: Callable[..., nn.Module], *args: Any, **kwargs: Any) -> Any:
    return lambda: Of(
        lambda m, x: m.out(m.layer(x)[0]),
        layer=layer(8, 6, *args, batch_first=True, **kwargs),
        out=nn.Linear(6 * (1 + kwargs.get("bidirectional", False)), 3),
    )


# A maker, its arguments, and the reasons for graph breaks, if there are any.
LAYERS: dict[str, tuple[Any, ...]] = {
    "batch norm 1d": (rows(nn.BatchNorm1d(8), nn.Tanh()), ROWS),
    "batch norm 2d": (conv(nn.BatchNorm2d(4), nn.ReLU()), IMAGES),
    "batch norm 3d": (
        lambda: nn.Sequential(nn.Conv3d(2, 4, 2), nn.BatchNorm3d(4)),
        floats(2, 2, 4, 4, 4),
    ),
    "batch norm without statistics": (
        conv(nn.BatchNorm2d(4, track_running_stats=False)),
        IMAGES,
    ),
    "batch norm without weights": (conv(nn.BatchNorm2d(4, affine=False)), IMAGES),
    "batch norm twice": (
        lambda: Of(
            lambda m, x: m.norm(m.norm(m.conv(x)).relu()),
            conv=nn.Conv2d(3, 4, 3),
            norm=nn.BatchNorm2d(4, momentum=0.3),
        ),
        IMAGES,
    ),
    "batch norm in double": (
        lambda: nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8)).double(),
        lambda step: (values(5, 4, seed=step).double(),),
    ),
    "instance norm": (conv(nn.InstanceNorm2d(4, affine=True)), IMAGES),
    "instance norm with statistics": (
        conv(nn.InstanceNorm2d(4, affine=True, track_running_stats=True)),
        IMAGES,
    ),
    "group norm": (conv(nn.GroupNorm(2, 4), nn.SiLU()), IMAGES),
    "layer norm": (rows(nn.LayerNorm(8), nn.GELU()), ROWS),
    "rms norm": (rows(nn.RMSNorm(8)), ROWS),
    "dropout": (rows(nn.Dropout(0.4), nn.ReLU(), nn.Linear(8, 2)), ROWS),
    "dropout of all": (rows(nn.Dropout(1.0), nn.Linear(8, 2)), ROWS),
    "dropout in place": (rows(nn.Dropout(0.4, inplace=True)), ROWS),
    "dropout 1d": (
        lambda: nn.Sequential(nn.Conv1d(8, 4, 1), nn.Dropout1d(0.4)),
        floats(3, 8, 5),
    ),
    "dropout 2d": (conv(nn.Dropout2d(0.4)), IMAGES),
    "alpha dropout": (rows(nn.SELU(), nn.AlphaDropout(0.4)), ROWS),
    "feature alpha dropout": (conv(nn.FeatureAlphaDropout(0.4)), IMAGES),
    "functional dropout": (
        lambda: Of(
            lambda m, x: F.dropout(m.a(x), 0.3, training=m.training), a=nn.Linear(4, 8)
        ),
        ROWS,
    ),
    "rrelu": (rows(nn.RReLU(), nn.Linear(8, 2)), ROWS),
    "noise": (
        lambda: Of(
            lambda m, x: m.a(x) + 0.1 * torch.randn_like(x[:, :1]), a=nn.Linear(4, 8)
        ),
        ROWS,
    ),
    "embedding": (
        lambda: nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 2)),
        classes(9, 3, 5),
    ),
    "embedding with padding": (
        lambda: nn.Sequential(nn.Embedding(9, 4, padding_idx=2), nn.Linear(4, 2)),
        classes(9, 3, 5),
    ),
    "embedding bag": (
        lambda: nn.Sequential(nn.EmbeddingBag(9, 4), nn.Linear(4, 2)),
        classes(9, 3, 5),
    ),
    "lstm": (sequence(nn.LSTM), SEQUENCES),
    "lstm of two layers with dropout": (sequence(nn.LSTM, 2, dropout=0.3), SEQUENCES),
    "lstm of both directions": (sequence(nn.LSTM, bidirectional=True), SEQUENCES),
    "gru": (sequence(nn.GRU), SEQUENCES),
    "rnn": (sequence(nn.RNN), SEQUENCES),
    "lstm cell": (
        lambda: Of(lambda m, x: m.cell(x), cell=nn.LSTMCell(4, 3)),
        ROWS,
    ),
    "gru cell": (lambda: Of(lambda m, x: m.cell(x), cell=nn.GRUCell(4, 3)), ROWS),
    "attention": (
        lambda: Of(
            lambda m, x: m.a(x, x, x, need_weights=False)[0],
            a=nn.MultiheadAttention(8, 2, batch_first=True),
        ),
        SEQUENCES,
    ),
    "attention with dropout": (
        lambda: Of(
            lambda m, x: m.a(x, x, x)[0],
            a=nn.MultiheadAttention(8, 2, dropout=0.3, batch_first=True),
        ),
        SEQUENCES,
    ),
    "scaled attention with dropout": (
        lambda: Of(
            lambda m, x: F.scaled_dot_product_attention(
                *m.a(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4).unbind(0),
                dropout_p=0.3,
            ),
            a=nn.Linear(8, 24),
        ),
        SEQUENCES,
    ),
    "encoder layer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.1, batch_first=True),
        SEQUENCES,
    ),
    "decoder layer": (
        lambda: Of(
            lambda m, x: m.layer(x, x.flip(1)),
            layer=nn.TransformerDecoderLayer(8, 2, 16, 0.1, batch_first=True),
        ),
        SEQUENCES,
    ),
    "pools": (conv(nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1)), IMAGES),
    "transposed convolution": (
        lambda: nn.Sequential(nn.ConvTranspose2d(3, 2, 2, 2), nn.LeakyReLU(0.1)),
        IMAGES,
    ),
    "in-place activations": (conv(nn.ReLU(inplace=True), nn.Hardswish()), IMAGES),
    "upsampling": (conv(nn.Upsample(scale_factor=2, mode="bilinear")), IMAGES),
    "weight norm": (
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)),
        ROWS,
    ),
    "spectral norm": (
        lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3)),
        ROWS,
    ),
    "orthogonal": (
        lambda: nn.utils.parametrizations.orthogonal(nn.Linear(3, 3)),
        floats(5, 3),
    ),
}
"""Layers whose operators have no derivative here, or that a graph cannot hold: what explain says."""
BREAKS: dict[str, str | None] = {
    "rrelu, train": ANY,
}


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("name", LAYERS)
def test_layer(name: str, training: bool) -> None:
    make, draw = LAYERS[name]
    breaks = BREAKS.get(
        f"{name}, {'train' if training else 'eval'}", BREAKS.get(name, ())
    )

    @scenario(grad=True, graph_breaks=breaks, captured=True if breaks == () else "late")
    def story(compile: Compile) -> Steps:
        yield from train(compile, lambda: make().train(training), draw)

    story()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name: str) -> None:
    """Parameters are written behind the call's back; the next call sees that."""

    @scenario(grad=True)
    def story(compile: Compile) -> Steps:
        make = conv(
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.2),
            nn.Linear(64, 2),
        )
        yield from train(compile, make, IMAGES, optimizer=name, steps=6)

    story()


@pytest.mark.parametrize("name", ["batch norm 2d", "dropout", "encoder layer", "lstm"])
def test_train_and_eval(name: str) -> None:
    make, draw = LAYERS[name]

    @scenario(grad=True, captured="late")
    def story(compile: Compile) -> Steps:
        torch.manual_seed(0)
        m = make()
        f = compile(m)
        for step, training in enumerate((1, 0, 1, 1, 0, 0, 1)):
            m.train(bool(training))
            m.zero_grad()
            torch.manual_seed(step)
            out = f(*draw(step))
            loss_of(out).backward()
            with torch.no_grad():
                again = f(*draw(step))
            yield [out, again, state(m)]

    story()


@scenario(grad=True, captured="late")
def test_last_batch_is_smaller(compile: Compile) -> Steps:
    m = LAYERS["batch norm 2d"][0]()
    f = compile(m)
    for n in (4, 4, 3, 4, 4, 3, 2, 4):
        m.zero_grad()
        loss_of(f(values(n, 3, 6, 6, seed=n))).backward()
        yield state(m)


@scenario()
def test_statistics_without_gradients(compile: Compile) -> Steps:
    """As one does to adapt a model to data: statistics are written, versions are not advanced."""
    m = LAYERS["batch norm 2d"][0]()
    f = compile(m)
    for seed in range(4):
        yield [f(values(4, 3, 6, 6, seed=seed)), list(m.buffers())]


@scenario(grad=True, captured="late")
def test_statistics_are_replaced(compile: Compile) -> Steps:
    m = LAYERS["batch norm 2d"][0]()
    f = compile(m)
    for step in range(6):
        if step == 3:
            m[1].reset_running_stats()
        if step == 4:
            m[1].running_mean = torch.ones(4)
        m.zero_grad()
        loss_of(f(values(4, 3, 6, 6, seed=step))).backward()
        yield state(m)


@scenario(grad=True, captured="late")
def test_cumulative_statistics(compile: Compile) -> Steps:
    """`momentum=None`: the factor is computed of a counter's data (test_batch_norm_momenta.py)."""
    m = conv(nn.BatchNorm2d(4, momentum=None))()
    f = compile(m)
    for step in range(4):
        m.zero_grad()
        loss_of(f(values(4, 3, 6, 6, seed=step))).backward()
        yield state(m)


@scenario(grad=True, captured="late")
def test_old_statistics_before_the_backward(compile: Compile) -> Steps:
    """A later call in training mode writes what an earlier one in evaluation mode used: that is no error.

    Eager's gradient of the first call follows the statistics of the second; ours those that it had.
    """
    m = LAYERS["batch norm 2d"][0]()
    f = compile(m)
    for step in range(4):
        m.zero_grad()
        m.eval()
        first = f(values(4, 3, 6, 6, seed=step))
        m.train()
        second = f(values(4, 3, 6, 6, seed=step + 9))
        loss_of(second).backward()
        seen = state(m)
        yield [first, second, seen, attempt(loss_of(first).backward)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * True,
        lambda x: x.clamp(False, True) / True,
        lambda x: x.clamp(True, True + 3),
        lambda x: x + True,
        lambda x: x.pow(True),
        lambda x: x.norm(True),
        lambda x: torch.linalg.vector_norm(x, True, 1),
        lambda x: torch.addmm(x, x, x, beta=True, alpha=True),
        lambda x: torch.baddbmm(x[None], x[None], x[None], beta=True),
        lambda x: torch.std(x, 1, correction=True),
    ],
)
def test_flags_as_numbers(
    function: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype
) -> None:
    """Gradients take a flag for the number that it is to Python, 0 or 1."""

    @scenario(grad=True)
    def story(compile: Compile) -> Steps:
        f = compile(function)
        for step in range(3):
            x = values(4, 4, seed=step).to(dtype).requires_grad_()
            y = f(x)
            loss_of(y).backward()
            assert x.grad is not None
            yield y, x.grad.clone()  # eager may have added several: its version

    story()
