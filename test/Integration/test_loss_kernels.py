# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cross entropy and its gradient, which are kernels on a device: against eager, ignored rows included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyjit
import pytest
import torch
import torch.nn.functional as F

SIMULATED: dict[str, Any] = {"simulated_device": True}
ROWS, CLASSES, WIDTH = 48, 37, 16


def plain(x: torch.Tensor, t: torch.Tensor, **options: Any) -> torch.Tensor:
    return F.cross_entropy(x, t, **options)


def in_sequences(x: torch.Tensor, t: torch.Tensor, **options: Any) -> torch.Tensor:
    """As language models call it: logits of half precision, the next token's."""
    logits = x.view(4, -1, CLASSES).float()[:, :-1]
    classes = t.view(4, -1)[:, 1:]
    return F.cross_entropy(logits.reshape(-1, CLASSES), classes.reshape(-1), **options)


def of_logarithms(x: torch.Tensor, t: torch.Tensor, **options: Any) -> torch.Tensor:
    rows = F.log_softmax(x.float(), 1)
    return F.nll_loss(rows, t, **options) + rows[:, 0].mean()


FORMS = [plain, in_sequences, of_logarithms]
OPTIONS: dict[str, dict[str, Any]] = {
    "mean": {},
    "sum": {"reduction": "sum"},
    "each": {"reduction": "none"},
    "ignored": {"ignore_index": 3},
    "weights": {"weight": torch.linspace(0.5, 1.5, CLASSES)},
    "smooth": {"label_smoothing": 0.1},
}


def targets(kind: int, ignored: int) -> torch.Tensor:
    t = torch.randint(0, CLASSES, (ROWS,))
    if kind % 3 == 1:
        t[::4] = ignored
    if kind % 3 == 2:
        t[:] = ignored  # the mean of no rows is nan
    return t


def check(
    device: str,
    form: Callable[..., torch.Tensor],
    dtype: torch.dtype,
    options: dict[str, Any],
    compile_options: dict[str, Any],
) -> None:
    torch.manual_seed(0)
    options = {
        k: v.to(device) if isinstance(v, torch.Tensor) else v
        for k, v in options.items()
    }
    ignored = options.get("ignore_index", -100)
    w = torch.randn(CLASSES, WIDTH).to(device, dtype).requires_grad_()

    def step(x: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, ...]:
        loss = form(F.linear(x, w), t, **options)
        loss.square().sum().backward()
        result = loss.detach(), w.grad
        w.grad = None
        return result

    fast = pyjit.compile(step, options=compile_options)
    for kind in range(6):
        x, t = (
            torch.randn(ROWS, WIDTH).to(device, dtype),
            targets(kind, ignored).to(device),
        )
        want, have = step(x, t), fast(x, t)
        close = 1e-5 if dtype == torch.float32 else 2e-2
        for a, b in zip(want, have, strict=True):
            size = float(a.abs().nan_to_num().max()) + 1e-3
            torch.testing.assert_close(
                b, a, rtol=close, atol=close * size, equal_nan=True
            )
    stats = pyjit.stats(fast)
    assert (stats.graph_breaks, stats.hits) == (0, 5), stats.reasons


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_step(form: Any, options: str, dtype: torch.dtype) -> None:
    if dtype != torch.float32 and options == "weights" and form is plain:
        pytest.skip("eager wants weights of the logits' element type")
    if form is of_logarithms and options == "smooth":
        pytest.skip("nll_loss smooths no labels")
    check("cpu", form, dtype, OPTIONS[options], SIMULATED)
