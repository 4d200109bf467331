# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`del` of a global: in one specialization, and as Python leaves the module."""

from __future__ import annotations

import pytest
import torch
from Integration.harness import values

pyjit = pytest.importorskip("pyjit", exc_type=ImportError)


def set_and_deleted(x: torch.Tensor) -> torch.Tensor:
    global width
    width = x.shape[0]
    y = x * width
    del width
    return y


def deleted(x: torch.Tensor) -> torch.Tensor:
    global width
    y = x + width
    del width
    return y


def deleted_and_set(x: torch.Tensor) -> torch.Tensor:
    global width
    del width
    width = 7
    return x * width


@pytest.mark.parametrize("function", [set_and_deleted, deleted, deleted_and_set])
@pytest.mark.parametrize("before", [2, None])
def test_delete(function, before: int | None) -> None:
    def run(call) -> tuple:
        globals().pop("width", None)
        if before is not None:
            globals()["width"] = before
        globals()["other"] = 1  # where the entry stands in the dict
        try:
            result = call(values(4))
        except NameError as error:
            result = str(error)
        order = [name for name in globals() if name in ("width", "other")]
        globals().pop("other")
        return result, globals().get("width"), order

    fast = pyjit.compile(function)
    for _ in range(3):
        result, *state = run(fast)
        expected, *eager_state = run(function)
        assert state == eager_state
        if isinstance(expected, str):
            assert result == expected
        else:
            assert torch.equal(result, expected)
    if before is not None:
        stats = pyjit.stats(fast)
        assert stats["hits"] == 2
        assert not stats["graph_break_sites"]
