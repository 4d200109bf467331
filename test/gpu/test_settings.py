# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Settings of The vendor libraries that change between calls: graphs follow them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import nn

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    matmul = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(matmul)


def worst(have: torch.Tensor, exact: torch.Tensor) -> float:
    return (have.double() - exact).abs().max().item()


def test_precision_of_matmuls() -> None:
    import pyjit

    x, w = (torch.randn(256, 256, device="cuda") for _ in range(2))
    fast = pyjit.compile(lambda x, w: torch.relu(x @ w) + 1)
    exact = torch.relu(x.double() @ w.double()) + 1
    for _ in range(3):
        for precision in ("high", "highest"):
            torch.set_float32_matmul_precision(precision)
            errors = [worst(fast(x, w), exact) for _ in range(4)]
            if precision == "highest":
                assert max(errors) < 1e-4
            else:
                assert min(errors) > 1e-4, "what was asked for was not used"
    assert pyjit.stats(fast)["specializations"] == 1


def test_precision_of_convolutions() -> None:
    import pyjit

    conv = nn.Conv2d(64, 64, 3, padding=1).cuda().requires_grad_(False)
    x = torch.randn(2, 64, 16, 16, device="cuda")
    fast = pyjit.compile(lambda x: torch.relu(conv(x)))
    exact = torch.relu(
        F.conv2d(x.double(), conv.weight.double(), conv.bias.double(), padding=1)
    )
    for _ in range(2):
        for allowed in (True, False):
            with torch.backends.cudnn.flags(enabled=True, allow_tf32=allowed):
                errors = [worst(fast(x), exact) for _ in range(4)]
            assert allowed or max(errors) < 1e-5


def test_choice_of_algorithms_and_attention() -> None:
    import pyjit

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = F.conv2d(x, w, padding=1)
        q = y.flatten(2)[:, None]
        return F.scaled_dot_product_attention(q, q, q).relu()

    x = torch.randn(2, 8, 8, 8, device="cuda", dtype=torch.float16)
    w = torch.randn(8, 8, 3, 3, device="cuda", dtype=torch.float16) / 8
    fast = pyjit.compile(f)
    for benchmark in (False, True, False):
        for kernels in ("MATH", "EFFICIENT_ATTENTION", "FLASH_ATTENTION"):
            backend = getattr(nn.attention.SDPBackend, kernels)
            cudnn = torch.backends.cudnn.flags(enabled=True, benchmark=benchmark)
            with cudnn, nn.attention.sdpa_kernel(backend):
                for _ in range(3):
                    torch.testing.assert_close(
                        fast(x, w), f(x, w), rtol=2e-2, atol=2e-2
                    )
