# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The function whose IR README.md reads; leaves its inputs and eager's result as arrays."""

import numpy as np
import torch


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    weights = torch.softmax(q @ k.t(), -1)
    return weights @ v


if __name__ == "__main__":
    torch.manual_seed(0)
    inputs = {name: torch.randn(16, 8) for name in "qkv"}
    result = attention(*inputs.values())
    for name, value in [*inputs.items(), ("eager", result)]:
        np.save(f"{name}.npy", value.numpy())
