# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What profilers show of compiled code: launches by the function's name, kernels with the program's line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyjit
import pytest
import torch
from Integration.harness import values
from torch.autograd.profiler import profile

HERE = Path(__file__).name


@pytest.fixture(autouse=True)
def no_grad() -> Any:
    with torch.no_grad():
        yield


def softened(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = torch.cumsum(torch.relu(x) + 1, 0)
    return torch.softmax(y * w, 1)


def names(fast: Any, *args: Any) -> list[str]:
    with profile() as found:
        fast(*args)
    return [event.name for event in found.function_events]


@pytest.mark.parametrize("simulated", [False, True])
def test_ranges(simulated: bool) -> None:
    fast = pyjit.compile(softened, options={"simulated_device": simulated})
    x, w = values(4, 6), values(6)
    for _ in range(2):
        fast(x, w)
    assert pyjit.stats(fast).hits == 1
    seen = names(fast, x, w)
    assert seen.count("pyjit: softened") == 1
    if simulated:  # a GPU's kernels are shown by its driver
        return
    first = softened.__code__.co_firstlineno
    kernels = [name for name in seen if name.startswith("pyjit::")]
    assert len(kernels) == pyjit.specializations(fast)[0]["kernels"]
    assert any(f"{HERE}:{first + 1}" in name for name in kernels), kernels
    assert any(f"{HERE}:{first + 2}" in name for name in kernels), kernels
    assert "aten::cumsum" in seen


def test_a_recorded_call_has_no_launch() -> None:
    fast = pyjit.compile(softened)
    seen = names(fast, values(4, 6), values(6))
    assert not [name for name in seen if name.startswith("pyjit")]


def test_segments_by_their_names() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x) + 1
        print(end="")
        return y * 2

    fast = pyjit.compile(broken)
    for _ in range(3):
        fast(values(4))
    seen = [name for name in names(fast, values(4)) if name.startswith("pyjit: ")]
    assert [name.rpartition(">.")[2] for name in seen] == [
        "broken",
        f"broken from line {broken.__code__.co_firstlineno + 2}",
    ]


def test_times_in_the_report() -> None:
    fast = pyjit.compile(softened)
    x, w = values(4, 6), values(6)
    first = pyjit.explain(fast, detail="kernels")(x, w)
    assert "times: none" in str(first)
    report = pyjit.explain(fast, detail="kernels")(x, w)
    assert pyjit.stats(fast).hits == 0, "a call for the report is none of the user's"
    assert report.timings and report.to_dict()["timings"]
    told = {timing.name: timing for timing in report.timings}
    assert told["aten::cumsum"].microseconds > 0
    line = softened.__code__.co_firstlineno + 2
    assert any(f"{HERE}:{line}" in name for name in told)
    text = str(report)
    assert "times in this call" in text and " us  aten::cumsum" in text
    # Without a call there is nothing to time.
    assert "makes a call and tells" in str(pyjit.explain(fast, detail="kernels"))


def test_times_under_another_profiler() -> None:
    fast = pyjit.compile(softened)
    x, w = values(4, 6), values(6)
    fast(x, w)
    with profile():
        report = pyjit.explain(fast, detail="kernels")(x, w)
    assert not report.timings and "another profiler" in str(report)
