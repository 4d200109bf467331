# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""As test/Integration/test_result_layouts.py, with a GPU's kernels of attention."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from Integration.test_result_layouts import FORMS, Operands, check_attention


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_attention(
    form: Callable[[torch.Tensor], Operands], dtype: torch.dtype, dropout: float
) -> None:
    check_attention("cuda", dtype, form, dropout_p=dropout)
