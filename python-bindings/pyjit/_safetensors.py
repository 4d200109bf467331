# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes .safetensors files: eight bytes of header size, a JSON header, the tensors' elements, row-major."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path

import torch

_DTYPES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.int32: "I32",
    torch.int64: "I64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.complex64: "C64",
}


def save(
    path: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, str]
) -> None:
    """Raises ValueError for an element type that such files do not have."""
    header: dict[str, object] = {"__metadata__": metadata}
    parts: list[bytes] = []
    end = 0
    with torch.no_grad(), torch._C.DisableTorchFunction():
        for name, tensor in tensors.items():
            if tensor.dtype not in _DTYPES:
                raise ValueError(f"{name}: no file holds {tensor.dtype}")
            plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
            size = plain.numel() * plain.element_size()
            parts.append(ctypes.string_at(plain.data_ptr(), size) if size else b"")
            header[name] = {
                "dtype": _DTYPES[plain.dtype],
                "shape": list(plain.shape),
                "data_offsets": [end, end + size],
            }
            end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the elements are aligned
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        file.writelines(parts)
