# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The column of derivatives against torch's own (torchgen's derivatives.yaml).

Which overloads have a derivative, and by which operands. Values are compared with autograd's by
test/Operators/test_gradients.py.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import torchgen
import yaml

# In our column, but composed of others for torch: kept whole by the recorder, or called by derivatives.
COMPOSITE = {
    "absolute", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "batch_norm", "concat", "contiguous",
    "conv1d", "conv2d", "conv3d", "divide.Scalar", "divide.Scalar_mode", "divide.Tensor",
    "divide.Tensor_mode", "group_norm", "inverse", "l1_loss", "layer_norm", "linalg_cholesky",
    "linalg_inv", "linalg_solve", "log_sigmoid", "log_softmax.int",
    "multiply.Scalar", "multiply.Tensor", "negative", "relu6", "rms_norm",
    "scaled_dot_product_attention", "selu", "softmax.int", "square", "subtract.Scalar",
    "subtract.Tensor", "to.device", "to.dtype", "to.dtype_layout", "to.other", "true_divide.Scalar",
    "true_divide.Tensor", "type_as",
    # Layers of cuDNN's, of which torch differentiates `_cudnn_rnn`.
    "lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input",
    # Functional forms: torch has the in-place ones alone.
    "copy", "zero", "_native_batch_norm_legit_functional",
    # A number as the first operand.
    "where.ScalarSelf", "where.ScalarOther",
    # Copies of views: torch generates their derivatives from the views'.
    "diagonal_copy", "select_copy.int", "slice_copy.Tensor", "view_as_complex_copy", "view_as_real_copy",
    "affine_grid_generator_backward", "linalg_lu_factor",
}  # fmt: skip


# Backward overloads that torch differentiates and we do not.
ELSEWHERE = "not the CPU's, nor what a program of the GPU's is recorded as"
NOT_TWICE: dict[str, str] = {
    "_slow_conv2d_backward.output_mask": "within convolution_backward, which is recorded whole",
    "batch_norm_backward": ELSEWHERE,
    "convolution_backward_overrideable": ELSEWHERE,
    "cudnn_batch_norm_backward": ELSEWHERE,
    "linear_backward": ELSEWHERE,
    "max_pool2d_backward": ELSEWHERE,
    "miopen_batch_norm_backward": ELSEWHERE,
    "mps_convolution_backward": ELSEWHERE,
    "rrelu_with_noise_backward": "rrelu_with_noise has no derivative itself",
}


def arguments(name: str) -> list[str]:
    base, _, overload = name.partition(".")
    schema = getattr(getattr(torch.ops.aten, base), overload or "default")._schema
    return [argument.name for argument in schema.arguments]


def formulas() -> dict[str, set[str]]:
    """Overload -> the operands that torch differentiates it by."""
    path = Path(torchgen.__file__).parent / "packaged/autograd/derivatives.yaml"
    found: dict[str, set[str]] = {}
    for entry in yaml.safe_load(path.read_text()):
        name = entry["name"].split("(")[0]
        parts: dict[str, Any] = entry.get("dispatch", {}).get("Default", entry)
        operands = set()
        for key, formula in parts.items():
            if key in ("name", "dispatch", "result", "output_differentiability"):
                continue
            if "not_implemented" in str(formula) or formula == "non_differentiable":
                continue
            operands |= {operand.strip() for operand in key.split(",")}
        found[name] = operands
    return found


def expressions(root: Path) -> dict[str, set[str]]:
    """Overload -> the operands that an expression of our column differentiates it by."""
    text = (root / "build/lib/Operators/OperatorDerivatives.inc").read_text()
    rows = re.findall(r'\{"aten::([^"]+)", (\d+), \{derivative', text)
    found: dict[str, set[str]] = {}
    for name, operand in rows:
        found.setdefault(name, set()).add(arguments(name)[int(operand)])
    return found


def ruled(root: Path) -> set[str]:
    """Overloads with a rule of lib/Differentiation."""
    text = (root / "build/lib/Operators/OperatorFacts.inc").read_text()
    rows = re.findall(r'\{"aten::([^"]+)", \{-?\d+, [^}]*?GradientRule::(\w+)', text)
    return {name for name, rule in rows if rule != "None"}


def test_operands_are_torch_s(root: Path) -> None:
    """Expressions differentiate by the operands that torch differentiates by."""
    theirs = formulas()
    wrong = []
    for name, operands in sorted(expressions(root).items()):
        if name not in theirs:
            continue
        # Of results there are forward-mode formulas.
        expected = theirs[name] & set(arguments(name))
        wrong += [(name, operand) for operand in sorted(operands ^ expected)]
    assert wrong == []


def test_overloads_are_torch_s(root: Path) -> None:
    """What torch has no formula for is listed above."""
    ours = set(expressions(root)) | ruled(root)
    unknown = sorted(ours - set(formulas()) - COMPOSITE)
    assert unknown == []
    assert sorted(COMPOSITE - ours) == []
    assert len(ours) > 250


def test_backward_overloads_have_derivatives(root: Path) -> None:
    """What torch differentiates twice, we do, or the reason is listed.

    Overloads that it has no formula for raise in eager, too.
    """
    ours = set(expressions(root)) | ruled(root)
    theirs = {
        name
        for name, operands in formulas().items()
        if "_backward" in name and operands & set(arguments(name))
    }
    assert len(theirs) > 60
    assert sorted(theirs - ours) == sorted(NOT_TWICE)


@pytest.mark.parametrize("name", ["sigmoid", "mul.Tensor", "convolution"])
def test_the_file_is_read(name: str) -> None:
    assert formulas()[name]
