# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arguments of pyjit-run out of .safetensors files."""

from __future__ import annotations

import json
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

RUN = Path(__file__).resolve().parents[2] / "build" / "bin" / "pyjit-run"
FUNCTION = """
func.func @f(%x: tensor<2x3xf32>, %y: tensor<3xbf16>) -> tensor<2x3xf32> {
  %0 = tssa.aten "aten::mul.Tensor"(%x, %y) : (tensor<2x3xf32>, tensor<3xbf16>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
"""


def run(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [RUN, "--entry", "f", *(f"--arg={a}" for a in arguments)]
        + [f"--save={tmp_path}/got"],
        input=FUNCTION,
        check=False,
        capture_output=True,
        text=True,
    )


def test_values(tmp_path: Path) -> None:
    x, y = torch.randn(2, 3), torch.randn(3).bfloat16()
    file = tmp_path / "w.safetensors"
    save_file({"a.x": x, "b:y": y, "none": torch.zeros(0, 5)}, file)
    done = run(tmp_path, f"{file}:a.x", f"{file}:b:y")
    assert done.returncode == 0, done.stderr
    got = np.load(tmp_path / "got0.npy")
    np.testing.assert_allclose(got, (x * y).numpy(), rtol=1e-6)


def test_another_shape(tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    save_file({"x": torch.randn(3, 2), "y": torch.randn(3).bfloat16()}, file)
    done = run(tmp_path, f"{file}:x", f"{file}:y")
    assert done.returncode == 1
    assert "f32[3, 2], the function takes f32[2, 3]" in done.stderr


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (None, "no tensor 'x'"),
        ({"dtype": "F8_E4M3", "shape": [6], "data_offsets": [0, 6]}, "F8_E4M3"),
        ({"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 20]}, "does not fit"),
        ({"dtype": "F32", "shape": [2, 3], "data_offsets": [8, 32]}, "does not fit"),
        ({"dtype": "F32", "shape": [-2, 3], "data_offsets": [0, 24]}, "does not fit"),
        (
            {"dtype": "F32", "shape": [2**62, 2**62], "data_offsets": [0, 24]},
            "does not fit",
        ),
        ({"dtype": "F32", "shape": [1] * 17, "data_offsets": [0, 4]}, "16 dimensions"),
        ({"dtype": "F32", "shape": 3, "data_offsets": [0, 4]}, "unknown way"),
    ],
)
def test_malformed(tmp_path: Path, entry: object, says: str) -> None:
    file = tmp_path / "w.safetensors"
    header = json.dumps({} if entry is None else {"x": entry}).encode()
    file.write_bytes(struct.pack("<Q", len(header)) + header + bytes(24))
    done = run(tmp_path, f"{file}:x", f"{file}:x")
    assert done.returncode == 1
    assert says in done.stderr


@pytest.mark.parametrize(
    "content", [b"", b"1234567", bytes([255] * 9), b"\x02" + bytes(7) + b"{]"]
)
def test_no_safetensors(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "w.safetensors"
    file.write_bytes(content)
    done = run(tmp_path, f"{file}:x", f"{file}:x")
    assert done.returncode == 1
    assert "pyjit-run: error:" in done.stderr
