# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators whose sizes differ in each call, between others: calls settle on few specializations, and give
eager's results, layouts and gradients."""

from __future__ import annotations

from collections.abc import Callable

import pyjit
import pytest
import torch
from torch import Tensor
from torch.linalg import vector_norm

F = torch.nn.functional


def positive(x: Tensor) -> Tensor:
    """Well-conditioned square matrices, of as many rows as `x` has."""
    return x @ x.mT / x.shape[-1] + torch.eye(x.shape[-2])


def first(x: Tensor) -> Tensor:
    return x[0]


#: Each is given matrices.
OPERATORS: dict[str, Callable[[Tensor], Tensor]] = {
    "aminmax": lambda x: torch.stack(list(torch.aminmax(x))),
    "aminmax.dim": lambda x: torch.aminmax(x, dim=0).max,
    "cholesky": lambda x: torch.linalg.cholesky(positive(x)),
    "cholesky_inverse": lambda x: torch.cholesky_inverse(
        torch.linalg.cholesky(positive(x))
    ),
    "cholesky_solve": lambda x: torch.cholesky_solve(
        x, torch.linalg.cholesky(positive(x))
    ),
    "det": lambda x: torch.linalg.det(positive(x)),
    "diagonal": lambda x: positive(x).diagonal(),
    "diagonal.offset": lambda x: positive(x).diagonal(1),
    "eigh": lambda x: torch.linalg.eigh(positive(x)).eigenvalues,
    "eigvalsh": lambda x: torch.linalg.eigvalsh(positive(x)),
    "fft": lambda x: torch.fft.fft(x).abs(),
    "fft2": lambda x: torch.fft.fft2(x).abs(),
    "inv": lambda x: torch.linalg.inv(positive(x)),
    "isin": lambda x: torch.isin(x.round(), torch.tensor([0.0, 1.0])) * x,
    "logdet": lambda x: torch.logdet(positive(x)),
    "masked_scatter": lambda x: x.masked_scatter(x > 0, x * 2),
    "masked_scatter.wide": lambda x: first(x).masked_scatter(x > 0, x * 2),
    "matrix_exp": lambda x: torch.linalg.matrix_exp(positive(x)),
    "matrix_norm": lambda x: torch.linalg.matrix_norm(x),
    "norm": lambda x: torch.linalg.norm(x),
    "norm.nuc": lambda x: torch.linalg.norm(x, ord="nuc"),
    "pdist": lambda x: torch.pdist(x),
    "put": lambda x: x.put(torch.tensor([0, 3]), torch.ones(2)),
    "qr": lambda x: torch.linalg.qr(x).R.abs(),
    "renorm": lambda x: torch.renorm(x, 2, 0, 1.0),
    "rfft": lambda x: torch.fft.rfft(x).abs(),
    "rfft.first": lambda x: torch.fft.rfft(x, dim=0).abs(),
    "slogdet": lambda x: torch.linalg.slogdet(positive(x)).logabsdet,
    "solve": lambda x: torch.linalg.solve(positive(x), x),
    "solve_triangular": lambda x: torch.linalg.solve_triangular(
        positive(x).triu(), x, upper=True
    ),
    "svd": lambda x: torch.linalg.svd(x, full_matrices=False).S,
    "svdvals": lambda x: torch.linalg.svdvals(x),
    "take": lambda x: torch.take(x, torch.tensor([[0, 3, 1]])),
    "trapezoid": lambda x: torch.trapezoid(x, dim=-1),
    "unfold": lambda x: x.unfold(-1, 4, 1).mean(-1),
    "unfold.apart": lambda x: x.unfold(-1, 3, 4).mean(-1),
    "unfold.overlapping": lambda x: x.unfold(0, 4, 2) * 2,
    "vector_norm": lambda x: vector_norm(x, ord=3, dim=-1),
}
#: Of these eager has no gradients.
FORWARD_ALONE = {"aminmax", "aminmax.dim"}
#: Where gradients are asked for, sizes stay numbers (gradients of windows add up
#: at places that are), or the graph breaks.
FIXED = {
    *("unfold", "unfold.apart", "unfold.overlapping", "matrix_exp"),
    *("renorm", "qr"),
}
SIZES = [
    (4, 12),
    (5, 13),
    (6, 17),
    (5, 14),
    (4, 19),
    (7, 12),
    (6, 23),
    (4, 12),
    (8, 30),
]


def run(
    f: Callable[[Tensor], Tensor], x: Tensor, gradients: bool
) -> tuple[Tensor, Tensor | None]:
    x = x.clone().requires_grad_(gradients)
    y = f(x)
    if not (gradients and y.requires_grad):
        return y, None
    return y, torch.autograd.grad(
        (y * torch.arange(1, y.numel() + 1).view(y.shape)).sum(), x
    )[0]


@pytest.mark.parametrize("gradients", [False, True], ids=["forward", "gradients"])
@pytest.mark.parametrize("name", OPERATORS)
def test_sizes(name: str, gradients: bool) -> None:
    operator = OPERATORS[name]
    if gradients and name in FORWARD_ALONE:
        pytest.skip("eager has no gradient")

    def f(x: Tensor) -> Tensor:
        return operator(x * 2) + 1

    fast = pyjit.compile(f)
    generator = torch.Generator().manual_seed(0)
    for size in SIZES:
        x = torch.randn(size, generator=generator)
        want, have = run(f, x, gradients), run(fast, x, gradients)
        assert have[0].stride() == want[0].stride()
        torch.testing.assert_close(have, want, rtol=2e-3, atol=2e-4)
    if not (gradients and name in FIXED):
        stats = pyjit.stats(fast)
        assert stats["graph_breaks"] == 0
        assert stats["misses"] <= 5, stats["specialized_sizes"]
