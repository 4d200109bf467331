# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles and runs where every toolchain is hidden; test_launch.py starts it.

No process may be started, Triton may not be imported, and no library of a compiler
for GPUs may be loaded meanwhile.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["PATH"] = "/nonexistent"
os.environ["CUDA_HOME"] = os.environ["CUDA_PATH"] = "/nonexistent"

import torch
from torch import nn

COMPILERS = ("libnvvm", "libnvrtc", "libnvptxcompiler", "libnvJitLink", "libtriton")


def loaded() -> set[str]:
    maps = Path("/proc/self/maps").read_text()
    return {name for name in COMPILERS if name in maps}


def refuse(event: str, arguments: tuple) -> None:
    if event in (
        "subprocess.Popen",
        "os.exec",
        "os.posix_spawn",
        "os.system",
        "os.fork",
    ):
        raise RuntimeError(f"a process was started: {event} {arguments}")
    if event == "import" and arguments[0].split(".")[0] == "triton":
        raise RuntimeError("Triton was imported")


def main() -> None:
    import pyjit

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Softmax(-1)
    )
    model = model.cuda().half().eval()
    x = torch.randn(8, 32, device="cuda", dtype=torch.float16)
    with torch.no_grad():
        want = model(x)
        before = loaded()
        sys.addaudithook(refuse)
        fast = pyjit.compile(model, options={"strict": True})
        for _ in range(4):
            torch.testing.assert_close(fast(x), want, rtol=1e-2, atol=1e-3)
    stats = pyjit.stats(fast)
    assert stats["hits"] == 3 and stats["kernels"] > 0, stats
    assert loaded() == before, loaded() - before
    print("compiled and right")


main()
