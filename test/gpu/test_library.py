# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What lib/Library plans for a GPU: right values, and the calls that were meant."""

from __future__ import annotations

import pyjit
import pytest
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """A residual block with a bottleneck, as ResNets have it."""

    def __init__(self, width: int, stride: int = 1) -> None:
        super().__init__()
        self.a = nn.Conv2d(width, width // 2, 1, bias=False)
        self.b = nn.Conv2d(width // 2, width // 2, 3, stride, 1, bias=False)
        self.c = nn.Conv2d(width // 2, width, 1, bias=False)
        self.norms = nn.ModuleList(
            nn.BatchNorm2d(n) for n in (width // 2, width // 2, width)
        )
        self.down = nn.Conv2d(width, width, 1, stride) if stride > 1 else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norms[0](self.a(x)))
        y = F.relu(self.norms[1](self.b(y)), inplace=True)
        y = self.norms[2](self.c(y))
        y += self.down(x) if self.down else x
        return F.relu(y)


def settled(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias)
    return model.to("cuda", dtype).eval()


def check(fast: object, f: object, *args: torch.Tensor, calls: int = 4) -> None:
    for _ in range(calls):
        torch.testing.assert_close(fast(*args), f(*args), rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_convolutions(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = settled(
        nn.Sequential(
            nn.Conv2d(3, 32, 7, 2, 3),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
            Block(32),
            Block(32, stride=2),
            nn.SiLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, 10),
        ),
        dtype,
    )
    with torch.no_grad():
        fast = pyjit.compile(model, options={"strict": True})
        for n in (1, 3):
            check(fast, model, torch.randn(n, 3, 64, 64, device="cuda", dtype=dtype))
        x = torch.randn(1, 3, 64, 64, device="cuda", dtype=dtype)
        text = str(pyjit.explain(fast, detail="all")(x))
    for call in ("cudnn_convolution_relu", "cudnn_convolution_add_relu"):
        assert call in text, text
    assert "_addmm_activation" in text
    # The specialization of this size comes first; that of all sizes folds nothing.
    launched = str(pyjit.explain(fast, detail="launch")(x)).split("cudagraph:")[1]
    assert "cudnn_convolution_relu" in launched
    assert "aten::batch_norm" not in launched


def test_changed_batch_norm_is_seen() -> None:
    """Folded weights are renewed in their place, under graphs that hold it."""
    model = settled(nn.Sequential(Block(32), Block(32)), torch.float16)
    x = torch.randn(1, 32, 16, 16, device="cuda", dtype=torch.float16)
    with torch.no_grad():
        fast = pyjit.compile(model, options={"strict": True})
        held = []
        for i in range(12):
            check(fast, model, x, calls=2)
            held.append((fast(x), model(x)))
            model[i % 2].norms[i % 3].weight.data.mul_(1.1)
            model[i % 2].b.weight.data.neg_()
        for got, want in held:
            torch.testing.assert_close(got, want, rtol=3e-2, atol=3e-2)
    # Which way was fastest hangs from the machine's load; each has answered calls.
    assert "graph with updated nodes: " in pyjit.explain(fast)(x)


@pytest.mark.parametrize("activation", ["relu", "tanh", "written"])
def test_epilogues(activation: str) -> None:
    def gelu(x: torch.Tensor) -> torch.Tensor:
        if activation == "relu":
            return F.relu(x)
        if activation == "tanh":
            return F.gelu(x, approximate="tanh")
        inner = 0.7978845608028654 * (x + 0.044715 * torch.pow(x, 3.0))
        return 0.5 * x * (1.0 + torch.tanh(inner))

    a, b = nn.Linear(64, 128), nn.Linear(128, 64)
    a, b = a.cuda().half(), b.cuda().half()

    def f(x: torch.Tensor) -> torch.Tensor:
        return b(gelu(a(x)))

    with torch.no_grad():
        fast = pyjit.compile(f, options={"strict": True})
        x = torch.randn(2, 9, 64, device="cuda", dtype=torch.float16)
        check(fast, f, x)
        assert "_addmm_activation" in pyjit.explain(fast)(x)


def test_steps_with_one_weight() -> None:
    cell = nn.Linear(32, 32).cuda()

    def f(x: torch.Tensor) -> torch.Tensor:
        h, out = x[0], []
        for t in range(6):
            h = torch.tanh(h * 0.5 + cell(x[t]))
            out.append(cell(h))
        return torch.stack(out)

    with torch.no_grad():
        fast = pyjit.compile(f, options={"strict": True})
        for _ in range(4):
            x = torch.randn(6, 1, 32, device="cuda")
            torch.testing.assert_close(fast(x), f(x), rtol=2e-3, atol=1e-4)
        assert pyjit.stats(fast)["vendor_calls"] < 12


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(reduction: str) -> None:
    def f(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x.float(), t, reduction=reduction)

    fast = pyjit.compile(f, options={"strict": True})
    for i in range(5):
        x = torch.randn(65, 1001, device="cuda").half() * (1 + 20 * i)
        t = torch.randint(0, 1001, (65,), device="cuda")
        if i > 2:
            t[:: 5 - i] = -100
        torch.testing.assert_close(fast(x, t), f(x, t), equal_nan=True)
    text = str(pyjit.explain(fast, detail="launch")(x, t))
    assert "nll_loss" not in text.split("cudagraph:")[1]
