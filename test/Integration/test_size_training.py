# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parts of training programs whose batches, lengths and images are of another size in each step: values, gradients,
buffers and random numbers as eager has them, from one specialization for the first sizes and one for all others."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F
from torch import distributions as D
from torch import nn

SIZES = [(2, 5), (3, 7), (5, 9), (7, 4), (4, 12), (6, 3), (8, 6), (9, 11)]
Make = Callable[[int, int], tuple[Any, ...]]


def G(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes, requires_grad=True)


def step(f: Any, module: nn.Module | None, arguments: tuple[Any, ...]) -> list[Any]:
    """What the step leaves: results, gradients, buffers, and where the generator is."""
    given = [a.detach().clone().requires_grad_(a.requires_grad) for a in arguments]
    torch.manual_seed(7)
    if module is not None:
        module.zero_grad()
    results = f(*given) if module is None else f(module, *given)
    results = results if isinstance(results, tuple) else (results,)
    torch.stack(
        [(t * torch.linspace(0.5, 1.5, t.numel()).view(t.shape)).sum() for t in results]
    ).sum().backward()
    left = [t.detach() for t in results] + [t.grad for t in given]
    if module is not None:
        left += [p.grad for p in module.parameters()] + [*module.buffers()]
    return [*left, torch.get_rng_state()]


def train(
    f: Any,
    make: Make,
    module: nn.Module | None = None,
    misses: int = 2,
    first: int = 0,
) -> None:
    """`first`: calls in eager that show where data decide."""
    torch.manual_seed(0)
    fast, copied = pyjit.compile(f), copy.deepcopy(module)
    for i, size in enumerate(SIZES):
        torch.manual_seed(i)
        arguments = make(*size)
        want, have = step(f, module, arguments), step(fast, copied, arguments)
        torch.testing.assert_close(
            have,
            want,
            rtol=1e-4,
            atol=1e-4,
            msg=lambda text, size=size: f"{size}: {text}",
        )
    stats = pyjit.stats(fast)
    assert stats["eager_calls"] == first and not stats["fixed_sizes"], stats
    assert not stats["specialized_sizes"], stats
    assert stats["misses"] <= misses, stats


def call(module: nn.Module, *arguments: torch.Tensor) -> Any:
    return module(*arguments)


NORMS: dict[str, tuple[Callable[[], nn.Module], Make]] = {
    "rows": (lambda: nn.BatchNorm1d(8), lambda b, n: (G(b, 8),)),
    "sequences": (lambda: nn.BatchNorm1d(8), lambda b, n: (G(b, 8, n),)),
    "images": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU()
        ),
        lambda b, n: (G(b, 3, n + 2, n + 3),),
    ),
    "no statistics": (
        lambda: nn.BatchNorm2d(3, track_running_stats=False),
        lambda b, n: (G(b, 3, n, 4),),
    ),
    "no weights": (
        lambda: nn.BatchNorm2d(3, affine=False),
        lambda b, n: (G(b, 3, n, 4),),
    ),
    "instances": (
        lambda: nn.InstanceNorm2d(3, affine=True),
        lambda b, n: (G(b, 3, n, n + 1),),
    ),
}


@pytest.mark.parametrize("name", NORMS)
def test_batch_norms(name: str) -> None:
    make, arguments = NORMS[name]
    train(call, arguments, make())


LAYERS: dict[str, tuple[Callable[[], nn.Module], Make]] = {
    "batch first": (
        lambda: nn.LSTM(4, 6, batch_first=True),
        lambda b, n: (G(b, n, 4),),
    ),
    "two layers, both ways": (
        lambda: nn.LSTM(4, 6, 2, bidirectional=True),
        lambda b, n: (G(n, b, 4),),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_lstm(name: str) -> None:
    def run(module: nn.Module, x: torch.Tensor) -> Any:
        y, (h, c) = module(x)
        return y, h, c

    make, arguments = LAYERS[name]
    train(run, arguments, make())


RANDOM: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "steps of a diffusion": lambda x: x * torch.randint(0, 50, (x.size(0),))[:, None],
    "as many as it is wide": lambda x: x * torch.randint(0, x.size(1), (x.size(0), 1)),
    "of a shape": lambda x: x * torch.randint(100, x.shape),
    "like": lambda x: x * torch.randint_like(x, 1, 9),
    "shuffled rows": lambda x: x[torch.randperm(x.size(0))],
    "some columns": lambda x: x[:, torch.randperm(x.size(1))[:3]],
    "drawn, with replacement": lambda x: (
        x.sum() * torch.multinomial(x.detach().softmax(-1), 4, replacement=True)
    ),
    "drawn, without": lambda x: x.sum() * torch.multinomial(x.detach().softmax(-1), 2),
    "counts": lambda x: x * torch.poisson(x.detach().exp()),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers(name: str) -> None:
    train(RANDOM[name], lambda b, n: (G(b, n),))


EQUATIONS: dict[str, Make] = {
    "bid,bjd->bij": lambda b, n: (G(b, n, 4), G(b, n + 2, 4)),
    "bd,bkd->bk": lambda b, n: (G(b, 4), G(b, n, 4)),
    "ij,jk->ik": lambda b, n: (G(b, n), G(n, 3)),
    "bhid,bhjd->bhij": lambda b, n: (G(b, 2, n, 4), G(b, 2, n, 4)),
    "...d,de->...e": lambda b, n: (G(b, n, 4), G(4, 5)),
    "bi,bj->bij": lambda b, n: (G(b, n), G(b, n + 1)),
    "bi,bi->b": lambda b, n: (G(b, n), G(b, n)),
    "bij,bj->": lambda b, n: (G(b, n, 4), G(b, 4)),
    "ijb,jkb,klb->ilb": lambda b, n: (G(n, 3, b), G(3, 5, b), G(5, n, b)),
    "nhd,hde->ne": lambda b, n: (G(b, 2, 3), G(2, 3, n)),
    # Dimensions of one are no part of the matrices.
    "bqhd,bkhd->bhqk": lambda b, n: (G(b, n, 1, 4), G(b, n + 1, 1, 4)),
    "abc,cd->abd": lambda b, n: (G(b, 1, n), G(n, 1)),
    # Of one size by chance, and of one because it is one.
    "ab,bc->ac": lambda b, n: (G(b, n + b), G(n + b, b)),
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum(equation: str) -> None:
    train(lambda *operands: torch.einsum(equation, *operands), EQUATIONS[equation])


DENSITIES: dict[str, tuple[Any, Make]] = {
    "normal": (
        lambda x: D.Normal(x, x.exp()).log_prob(x.detach() * 2),
        lambda b, n: (G(b, n),),
    ),
    "classes": (
        lambda x: D.Categorical(logits=x).log_prob(
            torch.zeros(x.size(0), dtype=torch.long)
        ),
        lambda b, n: (G(b, 7),),
    ),
    "sample": (
        lambda x: D.Categorical(logits=x).sample() * x.sum(),
        lambda b, n: (G(b, 7),),
    ),
    "reparametrised": (
        lambda x: D.Normal(x, x.exp()).rsample(),
        lambda b, n: (G(b, n),),
    ),
    "entropy": (lambda x: D.Normal(x, x.exp()).entropy(), lambda b, n: (G(b, n),)),
    "divergence": (
        lambda x: D.kl_divergence(D.Normal(x, x.exp()), D.Normal(0.0, 1.0)),
        lambda b, n: (G(b, n),),
    ),
    "independent": (
        lambda x: D.Independent(D.Normal(x, x.exp()), 1).log_prob(x.detach()),
        lambda b, n: (G(b, n),),
    ),
}


@pytest.mark.parametrize("name", DENSITIES)
def test_distributions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With their checks of arguments, which are branches on data: the first call shows them."""
    # Dynamo turns them off, for the whole process, as soon as anything uses it.
    monkeypatch.setattr(D.Distribution, "_validate_args", True)
    train(*DENSITIES[name], misses=3, first=1)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_resized_as_another(mode: str) -> None:
    train(
        lambda x, y: F.interpolate(x, size=y.shape[-2:], mode=mode) + y,
        lambda b, n: (G(b, 3, n, n + 1), G(b, 3, 2 * n, 2 * n + 1)),
    )


def moved(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(10, 4).index_add(0, torch.arange(x.size(0)), x)


OTHERS: dict[str, tuple[Any, Make]] = {
    "rows added": (moved, lambda b, n: (G(b, 4),)),
    "a number widened": (
        lambda x, t: torch.cat([x, t.expand(x.shape[0], 1)], 1),
        lambda b, n: (G(b, 3), G()),
    ),
    "all pairs": (
        lambda x: F.cosine_similarity(x[:, None], x[None], dim=-1),
        lambda b, n: (G(b, 4),),
    ),
    "cross": (
        lambda x, y: torch.cross(x, y, dim=-1),
        lambda b, n: (G(b, n, 3), G(b, n, 3)),
    ),
    "pixels of channels": (
        lambda x: F.pixel_shuffle(x, 2),
        lambda b, n: (G(b, 8, n, n + 1),),
    ),
    "channels of pixels": (
        lambda x: F.pixel_unshuffle(x, 2),
        lambda b, n: (G(b, 3, 2 * n, 2 * n + 2),),
    ),
    "windows": (lambda x: x.unfold(1, 3, 3) * 2, lambda b, n: (G(b, 9),)),
    "diagonals": (
        lambda x: x.diagonal(1, 1, 2) * 2,
        lambda b, n: (G(b, 4, 5),),
    ),
    "gated": (F.glu, lambda b, n: (G(b, n, 8),)),
    "gated over a length": (lambda x: F.glu(x, 1), lambda b, n: (G(b, 2 * n),)),
    "maxima of windows": (
        lambda x: F.max_pool1d(x, 2),
        lambda b, n: (G(b, 3, n + 1),),
    ),
}
POINTWISE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "logit": lambda x: torch.logit(x.sigmoid(), eps=1e-3),
    "logaddexp": lambda x: torch.logaddexp(x, x * 2),
    "lgamma": lambda x: torch.lgamma(x.exp()),
    "digamma": lambda x: torch.digamma(x.exp() + 1),
    "erfinv": lambda x: torch.erfinv(x.tanh() * 0.9),
    "i0": torch.special.i0,
    "entr": lambda x: torch.special.entr(x.sigmoid()),
    "float_power": lambda x: torch.float_power(x.exp(), 2.0),
    "flipud": torch.flipud,
    "ndtr": torch.special.ndtr,
}


@pytest.mark.parametrize("name", OTHERS)
def test_others(name: str) -> None:
    train(*OTHERS[name])


@pytest.mark.parametrize("name", POINTWISE)
def test_element_by_element(name: str) -> None:
    train(POINTWISE[name], lambda b, n: (G(b, n),))
