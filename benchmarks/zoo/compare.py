# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Comparison of two results in structure, type, metadata and value."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch


@dataclasses.dataclass(frozen=True)
class Gap:
    """A difference; ``rounding`` where only values of floating point are off."""

    where: str
    what: str
    rounding: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


TOLERANCE = {
    torch.float64: 1e-9,
    torch.float32: 1e-4,
    torch.float16: 1e-2,
    torch.bfloat16: 4e-2,
    torch.complex64: 1e-4,
    torch.complex128: 1e-9,
}


def compare(
    want: Any, have: Any, where: str = "result", exact: Any = None
) -> list[Gap]:
    gaps: list[Gap] = []
    _compare(want, have, where, gaps, set(), exact)
    return gaps


def _compare(
    want: Any, have: Any, where: str, gaps: list, seen: set, exact: Any
) -> None:
    if len(gaps) > 8 or (id(want), id(have)) in seen:
        return
    if type(want) is not type(have):
        kinds = f"{_kind(want)} is {_kind(have)}"
        gaps.append(Gap(where, kinds))
        return
    if isinstance(want, torch.Tensor):
        _tensors(want, have, where, gaps, exact)
        return
    if isinstance(want, (list, tuple, dict, set)) or hasattr(want, "__dict__"):
        seen.add((id(want), id(have)))
    if isinstance(want, dict):
        if list(want) != list(have):
            gaps.append(Gap(where, f"keys {list(want)} are {list(have)}"))
            return
        for key in want:
            inner = exact[key] if isinstance(exact, dict) and key in exact else None
            _compare(want[key], have[key], f"{where}[{key!r}]", gaps, seen, inner)
    elif isinstance(want, (list, tuple)):
        if len(want) != len(have):
            gaps.append(Gap(where, f"length {len(want)} is {len(have)}"))
            return
        same = isinstance(exact, (list, tuple)) and len(exact) == len(want)
        for i, (a, b) in enumerate(zip(want, have, strict=True)):
            inner = exact[i] if same else None
            _compare(a, b, f"{where}[{i}]", gaps, seen, inner)
    elif isinstance(want, (bool, int, float, complex, str, bytes, set, frozenset)):
        equal = want == have or (want != want and have != have)
        if not equal and not _holds_objects(want):
            gaps.append(Gap(where, f"{want!r} is {have!r}"))
    elif isinstance(want, (type, torch.nn.Module)) or callable(want):
        pass
    if hasattr(want, "__dict__") and not callable(want):
        mine, theirs = vars(want), vars(have)
        if list(mine) != list(theirs):
            gaps.append(Gap(where, f"attributes {list(mine)} are {list(theirs)}"))
            return
        for key in mine:
            inner = getattr(exact, key, None) if type(exact) is type(want) else None
            _compare(mine[key], theirs[key], f"{where}.{key}", gaps, seen, inner)


def _kind(value: Any) -> str:
    text = str(getattr(value, "what", ""))
    return type(value).__name__ + (f" {text}" if text else "")


def _holds_objects(value: Any) -> bool:
    return isinstance(value, (set, frozenset)) and any(
        hasattr(v, "__dict__") for v in value
    )


def _tensors(want: Any, have: Any, where: str, gaps: list, exact: Any) -> None:
    for name in ("dtype", "shape", "layout", "device", "requires_grad"):
        a, b = getattr(want, name), getattr(have, name)
        if a != b:
            gaps.append(Gap(where, f"{name} {a} is {b}"))
            return
    if want.layout != torch.strided:
        _tensors(want.to_dense(), have.to_dense(), where, gaps, exact)
        return
    if want.is_quantized:
        want, have = want.dequantize(), have.dequantize()
    if want.numel() > 1 and want.stride() != have.stride():
        real = [i for i, n in enumerate(want.shape) if n != 1]
        if [want.stride(i) for i in real] != [have.stride(i) for i in real]:
            gaps.append(Gap(where, f"strides {want.stride()} are {have.stride()}"))
    if not want.numel():
        return
    if want.dtype not in TOLERANCE:
        if not torch.equal(want, have):
            count = (want != have).sum().item()
            gaps.append(Gap(where, f"{count} of {want.numel()} {want.dtype} differ"))
        return
    if want.is_complex():
        want, have = (
            torch.view_as_real(want.resolve_conj()),
            torch.view_as_real(have.resolve_conj()),
        )
    a, b = want.double(), have.double()
    if not torch.equal(a.isnan(), b.isnan()):
        count = (a.isnan() != b.isnan()).sum().item()
        gaps.append(Gap(where, f"{count} NaNs more or fewer"))
        return
    infinite = a.isinf() | b.isinf()
    if not torch.equal(a[infinite], b[infinite]):
        gaps.append(Gap(where, "infinities differ"))
        return
    usable = ~(a.isnan() | infinite)
    a, b = a[usable], b[usable]
    if not a.numel():
        return
    tolerance = TOLERANCE.get(want.dtype, 1e-4)
    scale = max(1.0, a.abs().max().item())
    worst = (a - b).abs().max().item() / scale
    if worst <= tolerance:
        return
    if isinstance(exact, torch.Tensor) and exact.shape == want.shape:
        reference = exact.double()[usable]
        mine = (b - reference).abs().max().item() / scale
        theirs = (a - reference).abs().max().item() / scale
        if mine <= 4 * theirs + tolerance:
            return
    gaps.append(Gap(where, f"off by {worst:.1e} (scale {scale:.1e})", rounding=True))
